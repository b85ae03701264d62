"""The length, variance and nugget of a smooth prior, and the variances beside it, by maximum evidence.

Every round solves for the mode and then takes the likelihood for its quadratic expansion there, with curvature H and
slope a = Hλ + ∇ log p(D|λ). Under a prior N(0, Q⁻¹) the evidence is then, up to a constant,

    e(Q) = ½ log det Q − ½ log det(H + Q) + ½ aᵀ (H + Q)⁻¹ a.

With m = (H + Q)⁻¹a, S = (H + Q)⁻¹ and M = Σ_g (S_gg + m_g m_gᵀ) over the labels g, its slope along a change dK of the
covariance of each label's weights is ½ tr[(K⁻¹MK⁻¹ − G K⁻¹) dK]: one Cholesky factor tells the slopes of all numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import linalg, optimize

from bayesfield import parallel
from bayesfield.learning.objective import GaussianPrior
from bayesfield.model.smooth.near import Near, Numbers
from bayesfield.posterior.prior_record import PriorRecord
from bayesfield.types import FloatArray, IndefiniteCurvature, InvalidInput

if TYPE_CHECKING:
    from bayesfield.fitting.pipeline import FittedMode
    from bayesfield.model.prior import Parametrised
    from bayesfield.model.smooth.prior import Smooth

Solve = Callable[[GaussianPrior, FloatArray], "FittedMode"]  # under a prior, from where to begin
_ROUNDS = 30
_SETTLED = 0.05  # change of a log number
_REACH = 1.2  # most change of a log number in a round: beyond, the expansion says little
_EVALUATIONS = 6  # of the evidence in a round
_STEP = 1e-4  # of a log number, for the slopes of the kernel
_LENGTHS = (0.1, 100.0)  # limits, in typical distances of neighbours
_NUGGETS = (1e-3, 0.999)
_VARIANCES = (1e-4, 1e4)


def smoothed(prior: Smooth, model: Parametrised, fitted: FittedMode, solve: Solve) -> tuple[FittedMode, PriorRecord]:
    """The mode under the numbers that the data choose. fitted: the mode under those that the search begins with."""
    near, numbers, names = prior.near(model), prior.begun(model), prior.open(model)
    settled, rounds = False, 0
    while rounds < _ROUNDS and not settled:
        if fitted.precision.form != "dense":
            raise InvalidInput(
                'the numbers of a smooth prior are learned from all of the posterior covariance: take form="dense", '
                "or give length, variance, nugget, others and transitions"
            )
        rounds += 1
        new = Evidence(fitted, near, numbers, names).best()
        settled = max(abs(np.log(b / a)) for a, b in zip(numbers, new, strict=True)) < _SETTLED
        if not settled:
            numbers = new
            coupling = near.coupling(numbers)
            after = replace(fitted.objective.prior, precision=coupling.apart, coupling=coupling)
            fitted = solve(after, fitted.optimum.parameters)
    return fitted, PriorRecord("smooth prior, maximum evidence", _table(numbers, near), rounds, settled)


def numbers_in(table: pd.DataFrame) -> Numbers:
    """The numbers that a record holds."""
    variance, length, nugget = (table[name].to_dict() for name in ("variance", "length", "nugget"))
    others, transitions = (float(variance.get(name, 1.0)) for name in ("others", "transitions"))
    return Numbers(float(length["smooth"]), float(variance["smooth"]), float(nugget["smooth"]), others, transitions)


def _table(numbers: Numbers, near: Near) -> pd.DataFrame:
    rows: dict[str, tuple[float, float, float]] = {"smooth": (numbers.variance, numbers.length, numbers.nugget)}
    if len(near.others):
        rows["others"] = (numbers.others, np.nan, np.nan)
    if len(near.transitions):
        rows["transitions"] = (numbers.transitions, np.nan, np.nan)
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["variance", "length", "nugget"])
    table.index.name = "group"
    return table.assign(log_bayes_factor=np.nan, dropped=False, round=0)


class Evidence:
    """The evidence about a mode, as a function of the logs of the open numbers."""

    def __init__(self, fitted: FittedMode, near: Near, numbers: Numbers, names: tuple[str, ...]) -> None:
        before, mode = fitted.objective.prior, fitted.optimum.parameters
        self.near, self.numbers, self.names = near, numbers, names
        self.curvature = fitted.precision.matrix() - before.matrix()
        slope = before.pull(mode) - fitted.optimum.point.gradient
        self.slope: FloatArray = self.curvature @ mode + slope

    def best(self) -> Numbers:
        """The numbers with the largest evidence within reach."""
        begun = np.log([getattr(self.numbers, name) for name in self.names])
        bounds = []
        for start, name in zip(begun, self.names, strict=True):
            low, high = limits(name, self.near.spacing)
            low, high = max(start - _REACH, np.log(low)), min(start + _REACH, np.log(high))
            bounds.append((min(low, start), max(high, start)))
        with parallel.one_blas_thread(len(self.slope)):
            found = optimize.minimize(
                self.negative, begun, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxfun": _EVALUATIONS}
            )
        return self._at(found.x)

    def _at(self, logs: FloatArray) -> Numbers:
        return self.numbers._replace(**dict(zip(self.names, np.exp(logs).tolist(), strict=True)))

    def negative(self, logs: FloatArray) -> tuple[float, FloatArray]:
        """−e and its slopes."""
        coupling = self.near.coupling(self._at(logs))
        prior = GaussianPrior(np.zeros(len(self.slope)), coupling.apart, coupling=coupling)
        total = prior.plus(self.curvature.copy())
        try:
            lower = linalg.cholesky(total, lower=True, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError:  # with open labels the likelihood may curve the other way
            raise IndefiniteCurvature(
                'under a smooth prior as wide as that there is no posterior: give its numbers instead of "evidence"'
            ) from None
        mean: FloatArray = linalg.cho_solve((lower, True), self.slope)
        log_det = 2.0 * float(np.log(np.diag(lower)).sum())
        value = 0.5 * (prior.log_det - log_det + float(self.slope @ mean))
        covariance, _ = linalg.lapack.dpotri(lower, lower=True, overwrite_c=True)  # its lower triangle
        slopes = [self._slope_of(name, logs, coupling, mean, covariance) for name in self.names]
        return -value, -np.array(slopes)

    def _slope_of(self, name: str, logs: FloatArray, coupling: Any, mean: FloatArray, covariance: FloatArray) -> float:
        """de / d log of one number."""
        if name in ("others", "transitions"):
            own = getattr(self.near, name)
            size = float(np.sum(covariance[own, own] + mean[own] ** 2))
            return float(0.5 * (size / getattr(self._at(logs), name) - len(own)))
        inside = coupling.precision @ self._moments(mean, covariance) @ coupling.precision
        inside -= coupling.tables * coupling.precision
        k = self.names.index(name)
        ends = []
        for sign in (1.0, -1.0):
            moved = logs.copy()
            moved[k] += sign * _STEP
            ends.append(self.near.covariance(self._at(moved)))
        return float(0.25 * np.sum(inside * (ends[0] - ends[1])) / _STEP)

    def _moments(self, mean: FloatArray, covariance: FloatArray) -> FloatArray:
        """M, (D, D)."""
        total = np.zeros((len(self.near.members),) * 2)
        for column in self.near.members.T:
            total += covariance[np.ix_(column, column)]
        total = np.tril(total) + np.tril(total, -1).T
        weights = mean[self.near.members]
        result: FloatArray = total + weights @ weights.T
        return result


def limits(name: str, spacing: float) -> tuple[float, float]:
    """Of a number, by its name. spacing: a typical distance of neighbours."""
    if name == "length":
        return _LENGTHS[0] * spacing, _LENGTHS[1] * spacing
    return _NUGGETS if name == "nugget" else _VARIANCES
