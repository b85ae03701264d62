"""The numbers of a smooth prior by cross-validation: length, variance and nugget, and the variances beside them.

With the covariance K of each label's weights, Q = K⁻¹ ⊗ I there, dQ = −Q dK Q, so that the loss of what was left out
has the slope Σ_g (K⁻¹h_g)ᵀ dK (K⁻¹λ_g) along a change dK (analysis.validation.slopes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from bayesfield.analysis.validation.slopes import Held, Moved, held_out
from bayesfield.fitting.priors.smooth import limits
from bayesfield.learning.objective import GaussianPrior
from bayesfield.model.conditional import CRF, Sequences, as_sequences
from bayesfield.model.smooth.near import Near, Numbers
from bayesfield.model.smooth.prior import Smooth
from bayesfield.types import FloatArray, InvalidInput

_ROUNDS, _EVALUATIONS = 5, 6  # of each
_REACH = 1.0  # of a log number in a round: far from where it stands a length is no length, and its slope nothing
_SETTLED = 0.1  # the change of all log numbers that ends the rounds
_STEP = 1e-4  # of a log number, for the slopes of the kernel


@dataclass(frozen=True, eq=False)
class SmoothChoice:
    """prior: the same with the numbers that were chosen. log_loss: −log p of the labels left out, by the modes, those
    of a sequence together, in nats a label; before: with the numbers that the search began with."""

    prior: Smooth
    log_loss: float
    before: float


def cross_validated_smooth(
    crf: CRF,
    X: Any,
    y: Sequence[Any] | None = None,
    prior: Smooth | None = None,
    folds: int = 3,
    *,
    Z: Sequence[Any] | None = None,
    rng: np.random.Generator | int | None = 0,
) -> SmoothChoice:
    """The numbers of a smooth prior whose modes predict best the labels of sequences that were left out.

    X, y, Z: as in ``bf.fit_sequences``. prior: a ``bf.Smooth``; its numbers that are "evidence" are chosen, all
    together, the others stay. folds: parts of the data, each left out once; rng: who is in which.
    """
    if not isinstance(prior, Smooth):
        raise InvalidInput(f"give the smooth prior whose numbers are to be chosen, bf.Smooth(...); got {prior!r}")
    data = X if isinstance(X, Sequences) else as_sequences(crf, X, y, Z)
    if data.labels is None or not (data.labels >= 0).any() or len(data) < 2 or folds < 2:
        raise InvalidInput("cross-validation needs at least two labelled sequences, and two folds")
    near, numbers, names = prior.near(crf), prior.begun(crf), prior.open(crf)
    if not names:
        raise InvalidInput('all numbers of this prior are given; leave those at "evidence" that are to be chosen')
    fold = np.random.default_rng(rng).permutation(np.arange(len(data)) % min(folds, len(data)))
    search = _Search([held_out(crf, data, fold == k) for k in range(fold.max() + 1)], near, numbers, names)
    best, logs = search.best()
    count = int((data.labels >= 0).sum())
    return SmoothChoice(prior.chosen(search.at(logs)), best / count, search.tried[0][0] / count)


class _Search:
    """tried: what was looked at: V of all folds together, and the logs of the numbers."""

    def __init__(self, parts: list[Held], near: Near, numbers: Numbers, names: tuple[str, ...]) -> None:
        self.parts, self.near, self.numbers, self.names = parts, near, numbers, names
        self.tried: list[tuple[float, FloatArray]] = []

    def at(self, logs: FloatArray) -> Numbers:
        return self.numbers._replace(**dict(zip(self.names, np.exp(logs).tolist(), strict=True)))

    def best(self) -> tuple[float, FloatArray]:
        """V and the logs there."""
        here = np.log([getattr(self.numbers, name) for name in self.names])
        edges = np.log([limits(name, self.near.spacing) for name in self.names])
        options = {"maxfun": _EVALUATIONS, "maxiter": _EVALUATIONS}
        for _ in range(_ROUNDS):
            low, high = np.maximum(edges[:, 0], here - _REACH), np.minimum(edges[:, 1], here + _REACH)
            bounds = list(zip(np.minimum(low, here), np.maximum(high, here), strict=True))
            minimize(self.loss, here, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
            before, here = here, min(self.tried, key=lambda one: one[0])[1]
            if np.abs(here - before).max() < _SETTLED:
                break
        return min(self.tried, key=lambda one: one[0])

    def loss(self, logs: FloatArray) -> tuple[float, FloatArray]:
        """V, and its slopes along the logs."""
        coupling = self.near.coupling(self.at(logs))
        prior = GaussianPrior(np.zeros(self.near.size), coupling.apart, coupling=coupling)
        every = [part.at(prior) for part in self.parts]
        value = float(sum(moved.value for moved in every))
        inside = np.zeros_like(coupling.precision)
        for moved in every:
            pull, mode = (coupling.precision @ v[self.near.members] for v in (moved.pull, moved.mode))
            inside += pull @ mode.T
        self.tried.append((value, logs.copy()))
        return value, np.array([self._slope(name, logs, inside, every) for name in self.names])

    def _slope(self, name: str, logs: FloatArray, inside: FloatArray, every: list[Moved]) -> float:
        if name in ("others", "transitions"):
            own = getattr(self.near, name)
            precision = 1.0 / getattr(self.at(logs), name)
            return float(precision * sum(moved.pull[own] @ moved.mode[own] for moved in every))
        ends = []
        for sign in (1.0, -1.0):
            moved = logs.copy()
            moved[self.names.index(name)] += sign * _STEP
            ends.append(self.near.covariance(self.at(moved)))
        return float(0.5 * np.sum(inside * (ends[0] - ends[1])) / _STEP)
