"""Relevance determination of very many independent weights, by the variational bound of their mean-field posterior.

About q = Π_j N(m_j, 1/c_j) the averaged likelihood is a parabola in every weight, of curvature d_j = c_j − α and with
b_j = c_j m_j − slope_j, whether the weight is there or held at zero. With all other weights as they are, the bound of a
group of precision α is then, against the group without it (α = ∞),

    gain(α) = ½ Σ_j [ log α/(α + d_j) + b_j²/(α + d_j) ].

Where its maximum is below log(threshold) the group goes, the weakest first; one that has gone comes back when its gain
is above the threshold again (Tipping & Faul 2003). Groups that say the same thing share their gain: all of them look
weak, and once all have gone each looks strong. So only every other one, by lot, goes or comes in a round. Between, q
follows from where it was.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from bayesfield.correction.mean_field import Independent, settle
from bayesfield.learning.search.optimum import QUIET, Progress
from bayesfield.model.prior import GONE
from bayesfield.posterior.prior_record import PriorRecord
from bayesfield.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from collections.abc import Callable

    from bayesfield.fitting.pipeline import FittedMode
    from bayesfield.learning.objective import GaussianPrior
    from bayesfield.model.prior import Prior, Shared

_ROUNDS, _FIRST = 60, 2  # at most; rounds before any group is dropped
_STEPS, _DRAWN = 8, 10_000  # of L-BFGS in each round; positions in all draws together, about
# Variances up to 25: an attribute that comes once goes with its label for certain, and its best variance has no end.
_LOG_ALPHA = np.linspace(np.log(0.04), np.log(1e8), 97)
_RESTLESS = 1e-3  # of the groups, that may still go and come when the rest has settled
_HALF = 0.5  # of the way that log α goes in a round: groups that compete for the same data do not take turns
_LEAVING, _LOT = 0.5, 0.5  # of the groups that are there, may go in a round; the share of these, and of comers, that do
_RETURNS = 4  # how often a group comes back
_GAIN = 1e-3  # of what a round may still bring, in nats for each weight that the data determine


def relevant_by_bound(
    prior: Prior,
    groups: tuple[Shared, ...],
    first: FittedMode,
    solve: Callable[[GaussianPrior, FloatArray], FittedMode],
    seed: int,
    progress: Progress = QUIET,
) -> tuple[FittedMode, PriorRecord]:
    """The mode under the precisions of the groups that stay, and with the others held at zero."""
    assert prior.threshold is not None
    objective, optimum = first.objective, first.optimum
    search = _Search(groups, objective.size, float(np.log(prior.threshold)), np.random.default_rng(seed))
    q = settle(objective, optimum.parameters, first.precision.sd**-2.0, seed, 1.0, _FIRST, _STEPS, _DRAWN, progress)
    settled = False
    while q is not None and search.rounds < _ROUNDS and not settled and not progress.expired:
        old = objective.prior.precision
        new = search.step(old, objective.prior.location, q)
        settled = search.settled
        objective = replace(objective, prior=replace(objective.prior, precision=new))
        if not settled:
            gone = new >= GONE
            mean = np.where(gone, objective.prior.location, q.mean)
            curvature = np.maximum(q.curvature - old, 0.0) + new
            q = settle(objective, mean, curvature, seed, 1.0, 1, _STEPS, _DRAWN, progress)
    fitted = solve(objective.prior, np.where(search.gone_of_weights, objective.prior.location, optimum.parameters))
    return fitted, PriorRecord("ARD by the variational bound", search.table(), search.rounds, settled)


class Gains(NamedTuple):
    """Of every group (G,): the best log α within the grid, its gain over α = ∞, and the gain where α is now."""

    log_alpha: FloatArray
    best: FloatArray
    now: FloatArray


def gains(b: FloatArray, d: FloatArray, owner: IntArray, log_alpha: FloatArray) -> Gains:
    """b, d: (n,) of the weights that are in a group. owner: (n,) which. log_alpha: (G,) where the groups are now."""
    count = len(log_alpha)

    def at(logs: FloatArray) -> FloatArray:
        """logs: (G,)."""
        alpha = np.exp(logs)[owner]
        each = np.log(alpha / (alpha + d)) + b**2 / (alpha + d)
        return 0.5 * np.bincount(owner, each, count).astype(np.float64)

    table = np.array([at(np.full(count, value)) for value in _LOG_ALPHA])
    k, columns, step = np.argmax(table, axis=0), np.arange(count), _LOG_ALPHA[1] - _LOG_ALPHA[0]
    inner = np.clip(k, 1, len(_LOG_ALPHA) - 2)
    left, middle, right = (table[inner + shift, columns] for shift in (-1, 0, 1))
    bend = np.minimum(left - 2.0 * middle + right, -1e-300)
    vertex = np.where(k == inner, np.clip(0.5 * (left - right) / bend, -1.0, 1.0), 0.0)  # of the parabola through them
    logs = _LOG_ALPHA[k] + step * vertex
    return Gains(logs, np.maximum(at(logs), table[k, columns]), at(log_alpha))


class _Search:
    """log_alpha, gain: (G,). gone: (G,) which are held at zero. left_in: (G,) the round in which a group went."""

    def __init__(self, groups: tuple[Shared, ...], size: int, threshold: float, rng: np.random.Generator) -> None:
        self.names, self.threshold, self.rng = [g.name for g in groups], threshold, rng
        self.owner = np.full(size, -1, dtype=np.int64)
        for k, group in enumerate(groups):
            self.owner[group.parameters] = k
        self.inside: BoolArray = self.owner >= 0
        count = len(groups)
        self.rounds, self.settled = 0, False
        self.log_alpha, self.gain = np.zeros(count), np.zeros(count)
        self.gone: BoolArray = np.zeros(count, dtype=np.bool_)
        self.left_in, self.returns = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)

    @property
    def gone_of_weights(self) -> BoolArray:
        """(F,)."""
        result: BoolArray = self.inside & self.gone[self.owner]
        return result

    def step(self, precision: FloatArray, location: FloatArray, q: Independent) -> FloatArray:
        """The precisions (F,) that follow from q."""
        self.rounds += 1
        own, inside = self.owner[self.inside], self.inside
        if self.rounds == 1:
            self.log_alpha[own] = np.log(precision[inside])
        d = np.maximum(q.curvature - precision, 0.0)[inside]
        b = (q.curvature * (q.mean - location) - q.slope)[inside]
        found = gains(b, d, own, self.log_alpha)
        there, self.gain = ~self.gone, np.where(self.gone & (found.best < self.threshold), self.gain, found.best)
        determined = float(np.sum((d / (np.exp(self.log_alpha)[own] + d))[there[own]]))
        changed = self._leave(found.best, there) if self.rounds > _FIRST else False
        changed |= self._return(found.best, ~there)
        back = ~there & ~self.gone
        self.log_alpha = np.where(back, found.log_alpha, self.log_alpha)
        stay = there & ~self.gone
        self.log_alpha[stay] += _HALF * (found.log_alpha - self.log_alpha)[stay]
        promised = float(np.sum((found.best - found.now)[stay]))
        self.settled = self.rounds > _FIRST and not changed and promised < _GAIN * max(determined, 1.0)
        result = precision.copy()
        result[inside] = np.where(self.gone[own], GONE, np.exp(self.log_alpha)[own])
        return result

    def _leave(self, best: FloatArray, there: BoolArray) -> bool:
        weak = np.flatnonzero(there & (best < self.threshold))
        weakest = weak[np.argsort(best[weak], kind="stable")][: max(int(_LEAVING * there.sum()), 1)]
        self.gone[self._some(weakest)] = True
        self.left_in[self.gone & there] = self.rounds
        return len(weak) > _RESTLESS * len(best)

    def _return(self, best: FloatArray, away: BoolArray) -> bool:
        strong = np.flatnonzero(away & (best >= self.threshold) & (self.returns < _RETURNS))
        back = self._some(strong)
        self.gone[back], self.left_in[back] = False, 0
        self.returns[back] += 1
        return len(strong) > _RESTLESS * len(best)

    def _some(self, which: IntArray) -> IntArray:
        """About half of them, by lot; one at least."""
        drawn = which[self.rng.random(len(which)) < _LOT]
        return drawn if len(drawn) else which[:1]

    def table(self) -> pd.DataFrame:
        columns = {
            "variance": np.where(self.gone, 0.0, np.exp(-self.log_alpha)),
            "log_bayes_factor": self.gain,
            "dropped": self.gone,
            "round": self.left_in,
        }
        return pd.DataFrame(columns, index=pd.Index(self.names, name="group"))
