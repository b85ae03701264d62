"""Priors that the data choose: variances by maximum evidence, ARD, and heavy tails by expansion about the mode.

Every round solves for the mode and then takes the likelihood for its quadratic expansion there. Given all others, the
evidence of a group g of n parameters with one precision α is then, against the group without it (α = ∞),

    gain(α) = ½ Σ_j [ log α/(α + d_j) + b_j²/(α + d_j) ],

with d the eigenvalues of D = Σ_gg⁻¹ − α₀ and b the coordinates of Σ_gg⁻¹ m_g in its eigenvectors; α₀: the precision it
had, m and Σ: the posterior then. Its maximum is the group's next α; where that is below log(threshold) the group goes,
the weakest first, and the rest is what remains of the Gaussian given that it is zero. Mean-field posteriors go by their
own bound (fitting.priors.by_bound).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from scipy import linalg

from bayesfield.fitting.priors.by_bound import learned_by_bound
from bayesfield.fitting.priors.smooth import smoothed
from bayesfield.learning.objective import GaussianPrior
from bayesfield.learning.search.optimum import QUIET, Progress
from bayesfield.model.prior import GONE, Parametrised, Prior, Shared
from bayesfield.model.smooth.prior import Smooth
from bayesfield.posterior.prior_record import PriorRecord
from bayesfield.types import BoolArray, FloatArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.fitting.pipeline import FittedMode
    from bayesfield.fitting.priors.smooth import Solve

_ROUNDS = 100
_FIRST = 2  # rounds before any group is dropped
_SETTLED = 0.01  # change of a log variance
_STILL = 1e-4  # move of a mode, root mean square in posterior sd
_FLAT = 1e-9  # nats
_GRID = np.exp(np.linspace(np.log(1e-6), np.log(1e8), 421))  # α
_LEAST_CURVATURE = 1e-3  # of a heavy tail's curvature at its centre: in the tails it is negative


def adapted(
    prior: Prior,
    model: Parametrised,
    first: FittedMode,
    solve: Solve,
    rng: np.random.Generator,
    progress: Progress = QUIET,
) -> tuple[FittedMode, PriorRecord]:
    """The mode under the prior that the data choose. first: the mode under the prior it begins with. rng: for draws of
    a mean-field posterior."""
    if first.objective.prior.tails is not None:
        return _heavy(first, solve)
    if isinstance(prior, Smooth):
        return smoothed(prior, model, first, solve)
    if not first.objective.prior.independent:
        raise InvalidInput("variances are learned of independent parameters; the prior has a covariance matrix")
    if first.precision.form == "mean-field":
        seed = int(rng.integers(2**31))
        return learned_by_bound(prior, prior.learned(model), first, solve, seed, progress)
    return _Variances(prior.learned(model), prior.threshold).run(first, solve)


class _Update(NamedTuple):
    alpha: float
    gain: float


class _Variances:
    """The search over the variances of groups."""

    def __init__(self, groups: tuple[Shared, ...], threshold: float | None) -> None:
        self.groups, self.threshold = groups, threshold
        self.alpha = np.full(len(groups), np.nan)
        self.gain = np.zeros(len(groups))
        self.gone_in = np.zeros(len(groups), dtype=np.int64)  # the round; 0 while it is there

    def run(self, fitted: FittedMode, solve: Solve) -> tuple[FittedMode, PriorRecord]:
        settled, rounds = False, 0
        while rounds < _ROUNDS and not settled:
            rounds += 1
            settled = self._step(fitted, rounds)
            if not settled:
                prior = fitted.objective.prior
                precision = self._precisions(prior.precision)
                start = np.where(precision >= GONE, prior.location, fitted.optimum.parameters)
                fitted = solve(replace(prior, precision=precision), start)
        table = pd.DataFrame(
            {
                "variance": np.where(self.gone_in > 0, 0.0, 1.0 / self.alpha),
                "log_bayes_factor": self.gain,
                "dropped": self.gone_in > 0,
                "round": self.gone_in,
            },
            index=pd.Index([g.name for g in self.groups], name="group"),
        )
        kind = "maximum evidence" if self.threshold is None else "ARD"
        return fitted, PriorRecord(kind, table, rounds, settled)

    def _step(self, fitted: FittedMode, round_: int) -> bool:
        """New precisions from the posterior; whether they are the old ones."""
        prior = fitted.objective.prior
        old = np.array([prior.precision[g.parameters[0]] for g in self.groups])
        away = fitted.optimum.parameters - prior.location
        self.alpha = np.where(np.isnan(self.alpha), old, self.alpha)
        dense = fitted.precision.form == "dense"
        if not dense and self.threshold is not None:
            raise InvalidInput('ARD needs widths given the other weights: take form="dense" or form="mean-field"')
        updates = self._by_groups(away, fitted, round_) if dense else self._by_widths(away, fitted)
        there = self.gone_in == 0
        new = np.array([u.alpha for u in updates])
        change = np.abs(np.log(new / old))[there]
        # groups that compete for the same data are updated together: half the way keeps them from taking turns
        step = 1.0 if len(self.groups) == 1 else 0.5
        self.alpha = np.where(there, np.exp((1.0 - step) * np.log(old) + step * np.log(new)), GONE)
        self.gain = np.where(there | (self.gone_in == round_), [u.gain for u in updates], self.gain)
        return bool(change.max(initial=0.0) < _SETTLED and not (self.gone_in == round_).any())

    def _by_groups(self, away: FloatArray, fitted: FittedMode, round_: int) -> list[_Update]:
        """Each group's best precision given the others, after the weak ones have gone."""
        mean, covariance = away.copy(), fitted.precision.solve(np.eye(len(away)))
        precision = fitted.objective.prior.precision
        updates = [_Update(float(a), float(g)) for a, g in zip(self.alpha, self.gain, strict=True)]
        left = set(np.flatnonzero(self.gone_in == 0).tolist())
        while left:
            for k in left:
                own = self.groups[k].parameters
                updates[k] = _best(mean[own], covariance[np.ix_(own, own)], float(precision[own[0]]))
            if self.threshold is None or round_ <= _FIRST:
                return updates
            weakest = min(left, key=lambda k: updates[k].gain)
            if updates[weakest].gain >= np.log(self.threshold):
                return updates
            self.gone_in[weakest] = round_
            left.remove(weakest)
            mean, covariance = _without(mean, covariance, self.groups[weakest].parameters)
        return updates

    def _by_widths(self, away: FloatArray, fitted: FittedMode) -> list[_Update]:
        """MacKay's update, α ← (n − α Σ_k Σ_kk) / Σ_k m_k², where only widths are known."""
        variance, precision = fitted.precision.sd**2, fitted.objective.prior.precision
        updates = []
        for own in (g.parameters for g in self.groups):
            known = len(own) - float(precision[own] @ variance[own])
            alpha = max(known, 1e-3) / max(float(away[own] @ away[own]), 1e-12)
            updates.append(_Update(float(np.clip(alpha, _GRID[0], _GRID[-1])), float("nan")))
        return updates

    def _precisions(self, before: FloatArray) -> FloatArray:
        result = before.copy()
        for alpha, group in zip(self.alpha, self.groups, strict=True):
            result[group.parameters] = alpha
        return result


def _best(mean: FloatArray, covariance: FloatArray, alpha: float) -> _Update:
    """The precision with the largest evidence, and its gain over none. alpha: the precision that mean and Σ had."""
    inside = linalg.inv(covariance)
    values, vectors = np.linalg.eigh((inside + inside.T) / 2)
    d = np.maximum(values - alpha, 0.0)
    b = vectors.T @ (inside @ mean)
    total = _GRID[:, None] + d
    gain = 0.5 * np.sum(np.log(_GRID[:, None] / total) + b**2 / total, axis=1)
    k = int(np.argmax(gain))
    if np.ptp(gain) < _FLAT:  # no data: nothing to choose by
        return _Update(alpha, 0.0)
    if k in (0, len(_GRID) - 1):
        return _Update(float(_GRID[k]), max(float(gain[k]), 0.0))
    left, mid, right = gain[k - 1 : k + 2]
    shift = 0.5 * (left - right) / min(left - 2.0 * mid + right, -1e-300)  # vertex of the parabola through three points
    return _Update(float(_GRID[k] * (_GRID[1] / _GRID[0]) ** shift), float(mid))


def _without(mean: FloatArray, covariance: FloatArray, gone: np.ndarray) -> tuple[FloatArray, FloatArray]:
    """The Gaussian given that some of its parameters are zero; their own rows keep what they had."""
    across = linalg.solve(covariance[np.ix_(gone, gone)], covariance[gone], assume_a="pos")
    keep: BoolArray = np.ones(len(mean), dtype=bool)
    keep[gone] = False
    new_mean = np.where(keep, mean - mean[gone] @ across, mean)
    change = covariance[:, gone] @ across
    return new_mean, np.where(np.outer(keep, keep), covariance - change, covariance)


def _heavy(fitted: FittedMode, solve: Solve) -> tuple[FittedMode, PriorRecord]:
    """Expansions of log Cauchy about the mode, to second order, until the mode stands still.

    −log p = log(s² + λ²) + const has slope 2λ/(s² + λ²) and curvature 2(s² − λ²)/(s² + λ²)²; beyond λ = s, where that
    is negative, the smallest curvature that is allowed, with the same slope.
    """
    base = fitted.objective.prior
    assert base.tails is not None
    heavy = np.isfinite(base.tails)
    s = np.where(heavy, base.tails, 1.0)
    settled, rounds = False, 0
    while rounds < _ROUNDS and not settled:
        rounds += 1
        mode = fitted.optimum.parameters
        wide = s**2 + mode**2
        curvature = np.maximum(2.0 * (s**2 - mode**2) / wide**2, _LEAST_CURVATURE * 2.0 / s**2)
        precision = np.where(heavy, curvature, base.precision)
        location = np.where(heavy, mode - (2.0 * mode / wide) / curvature, base.location)
        fitted = solve(GaussianPrior(location, precision, base.tails), mode)
        moved = fitted.optimum.parameters - mode
        length = float(np.sqrt(np.mean((moved / fitted.precision.sd) ** 2))) if len(moved) else 0.0
        settled = length < max(_STILL, 2.0 * fitted.optimum.status.residual)  # noisy modes never stand quite still
    return fitted, PriorRecord("Cauchy tails", pd.DataFrame(), rounds, settled)
