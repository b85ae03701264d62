"""Prior variances of very many independent weights, by the variational bound of their mean-field posterior.

For q = Π_j N(m_j, s_j²) at its best, the bound on the log evidence changes with the variance v of a group g by

    ∂bound/∂log v = ½ Σ_g [ (m_j² + s_j²)/v − 1 ],

zero at v = mean(m² + s²), the EM update, which crawls where the data say little of most weights (s² ≈ v). The same
point is v = Σ m² / γ with γ = Σ_g (1 − s²/v), how many of the group's weights the data determine (MacKay's update, at q
in place of the mode and its widths); it is approached by secant steps of log v, q following from where it was.

The bound knows no correlations: of weights that stand for the same thing, γ counts each, so that it prefers smaller
variances than the evidence does (equal inputs n times over: γ up to n, not 1). How much that costs in held-out log loss
is measured by ``python -m benchmarks.templates``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from bayesfield.correction.mean_field import Independent, settle
from bayesfield.fitting.priors.relevance import relevant_by_bound
from bayesfield.learning.search.optimum import QUIET, Progress
from bayesfield.posterior.prior_record import PriorRecord
from bayesfield.types import FloatArray, IntArray

if TYPE_CHECKING:
    from collections.abc import Callable

    from bayesfield.fitting.pipeline import FittedMode
    from bayesfield.learning.objective import GaussianPrior
    from bayesfield.model.prior import Prior, Shared

_ROUNDS = 20
_FIRST, _STEPS = 2, 8  # rounds of means and widths before the first update; steps of L-BFGS in each round
_DRAWN = 10_000  # positions in all draws together, about
_GAIN = 1e-3  # of what the updates may still bring, in nats for each weight that the data determine
_DETERMINED = 1.0  # γ below which a group is left as it is: the data determine not one of its weights
_SLOPE, _STEEPEST, _FURTHEST = 0.4, 0.7, 2.0  # of the update: taken at first, at most; the longest step of log v
_RANGE = np.log([1e-8, 1e6])


def learned_by_bound(
    prior: Prior,
    groups: tuple[Shared, ...],
    first: FittedMode,
    solve: Callable[[GaussianPrior, FloatArray], FittedMode],
    seed: int,
    progress: Progress = QUIET,
) -> tuple[FittedMode, PriorRecord]:
    """The mode under the variances with the largest bound. first: the mode under those that the prior begins with."""
    if prior.threshold is not None:
        return relevant_by_bound(prior, groups, first, solve, seed, progress)
    objective, optimum = first.objective, first.optimum
    owner = _owner(groups, objective.size)
    q = settle(objective, optimum.parameters, first.precision.sd**-2.0, seed, 1.0, _FIRST, _STEPS, _DRAWN, progress)
    before: _Update | None = None
    settled, rounds = False, 0
    while q is not None and rounds < _ROUNDS and not settled and not progress.expired:
        rounds += 1
        update = _update(objective.prior, owner, len(groups), q)
        settled = update.gain < _GAIN * max(float(update.determined.sum()), 1.0)
        variances = np.exp(update.extrapolated(before))
        before, objective = update, replace(objective, prior=_with(objective.prior, owner, variances))
        if not settled:
            q = settle(objective, q.mean, q.curvature, seed, 1.0, 1, _STEPS, _DRAWN, progress)
    fitted = solve(objective.prior, optimum.parameters)
    precisions = np.array([objective.prior.precision[g.parameters[0]] for g in groups])
    table = pd.DataFrame(
        {"variance": 1.0 / precisions, "log_bayes_factor": np.nan, "dropped": False, "round": 0},
        index=pd.Index([g.name for g in groups], name="group"),
    )
    return fitted, PriorRecord("maximum variational bound", table, rounds, settled)


class _Update(NamedTuple):
    """log v of every group and what the update makes of it, (G,). determined: γ. gain: nats that it may bring."""

    at: FloatArray
    to: FloatArray
    determined: FloatArray
    gain: float

    def extrapolated(self, before: _Update | None) -> FloatArray:
        """Towards where log v stays as it is, by the slope of the update between two rounds."""
        slope = np.full(len(self.at), _SLOPE)
        if before is not None:
            moved = self.at - before.at
            far = np.abs(moved) > 0.01
            slope = np.where(far, (self.to - before.to) / np.where(far, moved, 1.0), slope)
        step = (self.to - self.at) / (1.0 - np.clip(slope, 0.0, _STEEPEST))
        result: FloatArray = np.clip(self.at + np.clip(step, -_FURTHEST, _FURTHEST), *_RANGE)
        return result


def _update(prior: GaussianPrior, owner: IntArray, count: int, q: Independent) -> _Update:
    learned = owner >= 0
    own, precision = owner[learned], prior.precision[learned]
    away, share = (q.mean - prior.location)[learned], precision / q.curvature[learned]  # share: s²/v
    determined = np.bincount(own, 1.0 - share, count).astype(np.float64)
    squares = np.bincount(own, away**2 * precision, count)  # Σ m²/v
    sizes = np.maximum(np.bincount(own, minlength=count), 1)
    at = -np.log(np.bincount(own, precision, count) / sizes)
    ratio = np.maximum(squares, 1e-12) / np.maximum(determined, 1e-12)
    step = np.where(determined > _DETERMINED, np.log(ratio), 0.0)
    gain = 0.25 * float(np.sum(np.abs((squares - determined) * step)))  # of a parabola with this slope and this step
    return _Update(at, at + step, determined, gain)


def _owner(groups: tuple[Shared, ...], size: int) -> IntArray:
    """The group of every weight, (F,); −1 for those whose variance is given."""
    owner = np.full(size, -1, dtype=np.int64)
    for k, group in enumerate(groups):
        owner[group.parameters] = k
    return owner


def _with(prior: GaussianPrior, owner: IntArray, variances: FloatArray) -> GaussianPrior:
    return replace(prior, precision=np.where(owner >= 0, 1.0 / variances[owner], prior.precision))
