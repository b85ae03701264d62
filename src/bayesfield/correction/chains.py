"""Many short Markov chains of the parameters side by side, so that the engine is asked at all of them in one call.

With few parameters by slices along ellipses (Murray, Adams & MacKay 2010; with a Student's t in place of the prior,
Nishihara, Murray & Adams 2014): nothing to tune, 2 to 3 evaluations a move, and moves as long as the posterior is wide,
also where unseen states make it a cone with soft walls. With more by Hamiltonian moves of a quarter of a period in
coordinates in which the posterior is about a standard normal. Measured on one core (throw-away prototypes): four spins
seen thirty times under variance 100, 11,000 effective draws in 1.3 s by ellipses; four spins all alike under variance
1e4, 5,500 in 1.0 s by ellipses and 16,000 in 37 s by Hamiltonian moves; 65 parameters of a 5×5 grid and ten cases,
3,000 in 1.3 s by Hamiltonian moves, where ellipses took 30 moves to forget. nutpie, which asks for one gradient at a
time, took 1.1 to 22 s for 10,000 to 20,000 draws of these; it remains the reference (bf.NUTS, a test compares).

The chains share a mean and a covariance, found in rounds of warm-up; then nothing is changed. They are independent
otherwise, so that the scatter of the chains' own means is the Monte-Carlo error, and a difference between the first
and the second half of the moves, in units of it, says that they had not arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from bayesfield.correction.chain_draws import ChainDraws, Fold, judge_draws
from bayesfield.correction.importance import heavy, log_posteriors
from bayesfield.learning.search.optimum import QUIET, Iteration, Progress
from bayesfield.types import FloatArray

if TYPE_CHECKING:
    from bayesfield.learning.objective import Objective

FEW = 24  # parameters up to which moves go along ellipses
_ROUNDS = 6  # of warm-up, each with a new mean and covariance
_ENOUGH = 5  # states for each parameter, from which a covariance is taken
_HALVINGS = 60  # of the bracket of a slice, after which a chain stays where it is
_ACCEPTED = 0.8  # share of Hamiltonian moves, by the length of their steps
_QUARTER = np.pi / 2  # of a period of a standard normal: where a move has forgotten its beginning
_LONGEST = 128  # steps of a Hamiltonian move


class _Budget:
    """Counts evaluations of the objective."""

    def __init__(self, objective: Objective, most: int, progress: Progress) -> None:
        self.objective, self.most, self.progress, self.spent = objective, most, progress, 0

    def at(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """−L, −∞ where there is no answer, and ∇L."""
        self.spent += len(points)
        if self.objective.prior.tails is not None:  # values alone: the gradient would be of the prior's expansion
            return log_posteriors(self.objective, points), np.empty((0, 0))
        answers = self.objective.at_many(points)
        return np.where(np.isfinite(answers.values), -answers.values, -np.inf), answers.gradients

    @property
    def over(self) -> bool:
        return self.spent >= self.most or self.progress.expired


@dataclass(frozen=True)
class _Reference:
    """The mean and a factor of the covariance that the moves go by. step: of Hamiltonian moves."""

    mean: FloatArray
    factor: FloatArray
    step: float = 0.5

    def scores(self, points: FloatArray) -> FloatArray:
        result: FloatArray = linalg.solve_triangular(self.factor, (points - self.mean).T, lower=True).T
        return result

    def points(self, scores: FloatArray) -> FloatArray:
        result: FloatArray = self.mean + scores @ self.factor.T
        return result


Walk = Callable[[_Budget, FloatArray, _Reference, int, np.random.Generator, bool], Iterator[tuple[FloatArray, float]]]


def run_chains(
    objective: Objective,
    start: FloatArray,
    mean: FloatArray,
    covariance: FloatArray,
    goal: float,
    most: int,
    rng: np.random.Generator,
    progress: Progress = QUIET,
    fold: Fold | None = None,
) -> ChainDraws | None:
    """Draws worth ``goal`` independent ones, or as many as ``most`` evaluations give; None where they do not suffice
    to warm up. start: (M, F), a chain each, spread wider than the posterior. fold: takes draws to one of their images
    that are as likely; chains move among all images, and are judged, and handed back, by these."""
    budget, few = _Budget(objective, most, progress), start.shape[1] <= FEW
    walk: Walk = _ellipses if few else _hamiltonian
    points, reference = start, _Reference(mean, _factor(covariance))
    for number in range(_ROUNDS):
        moves = 5 if few and fold is None else 4 * 2**number
        moved = list(walk(budget, points, reference, moves, rng, True))
        kept, (points, step) = [there for there, _ in moved], moved[-1]
        if budget.over:
            return None
        late, factor = np.concatenate(kept[len(kept) // 2 :]), reference.factor
        if len(late) >= _ENOUGH * start.shape[1]:
            factor = _factor(np.cov(late.T).reshape(start.shape[1], -1))
        reference = _Reference(late.mean(axis=0), factor, step)
        _tell(progress, number, float(np.abs(reference.mean - mean).max(initial=0.0)))
    return _collected(budget, walk, points, reference, goal, rng, fold)


def _collected(
    budget: _Budget,
    walk: Walk,
    points: FloatArray,
    reference: _Reference,
    goal: float,
    rng: np.random.Generator,
    fold: Fold | None,
) -> ChainDraws:
    """Moves until they are worth the goal. What has not arrived when they are is warm-up, and as much is done again."""
    kept: list[FloatArray] = []
    moves = 20
    while True:
        made = [p for p, _ in walk(budget, points, reference, moves, rng, False)]
        points = made[-1]
        kept += made if fold is None else list(fold(np.array(made)))
        judged = judge_draws(np.array(kept), budget.spent)
        if budget.over or (judged.settled and judged.effective >= goal):
            return judged
        if not judged.settled:
            kept = kept[len(kept) // 2 :]
        moves = len(kept)


def _factor(covariance: FloatArray) -> FloatArray:
    """Lower Cholesky factor; a chain that never moved adds nothing to a variance, which then stays above zero."""
    diagonal = np.diag(covariance)
    ridge = 1e-9 * np.maximum(diagonal, 1e-12 * diagonal.max(initial=1e-300))
    result: FloatArray = linalg.cholesky(covariance + np.diag(ridge), lower=True)
    return result


def _tell(progress: Progress, step: int, distance: float) -> None:
    if progress is not QUIET:
        progress.tell(Iteration(step, np.nan, np.nan, distance, 1.0))


# --- moves ----------------------------------------------------------------------------------------------------------


def _ellipses(
    budget: _Budget, points: FloatArray, reference: _Reference, moves: int, rng: np.random.Generator, adapt: bool
) -> Iterator[tuple[FloatArray, float]]:
    """Every chain by a slice along an ellipse through itself and a draw of the reference.

    Student's t is a Gaussian of random scale s: given λ, s ~ inverse gamma, and given s the ellipse is drawn as under
    that Gaussian. Along it λ(φ) = m + (λ − m) cos φ + ν sin φ, and log p − log t decides, on a level drawn below its
    value here; the bracket of φ shrinks towards φ = 0, which is in the slice.
    """
    chains, size = points.shape
    freedom = heavy(size)
    scores = reference.scores(points)
    height = budget.at(points)[0] - _log_t(scores, freedom)
    for _ in range(moves):
        scale = 0.5 * (freedom + np.sum(scores**2, axis=1)) / rng.gamma(0.5 * (freedom + size), size=chains)
        other = np.sqrt(scale)[:, None] * rng.standard_normal((chains, size))
        level = height + np.log(rng.random(chains))
        angle = np.asarray(rng.uniform(0.0, 2.0 * np.pi, chains))
        low, high = angle - 2.0 * np.pi, angle.copy()
        moved, lifted, left = scores.copy(), height.copy(), np.arange(chains)
        for _ in range(_HALVINGS):
            turned = scores[left] * np.cos(angle[left])[:, None] + other[left] * np.sin(angle[left])[:, None]
            value = budget.at(reference.points(turned))[0] - _log_t(turned, freedom)
            inside = value > level[left]
            moved[left[inside]], lifted[left[inside]] = turned[inside], value[inside]
            left = left[~inside]
            if not len(left):
                break
            below = angle[left] < 0.0
            low[left[below]], high[left[~below]] = angle[left[below]], angle[left[~below]]
            angle[left] = rng.uniform(low[left], high[left])
        scores, height = moved, lifted
        yield reference.points(scores), reference.step
        if budget.over:
            return


def _log_t(scores: FloatArray, freedom: float) -> FloatArray:
    """log density of Student's t, up to a constant, (M,)."""
    result: FloatArray = -0.5 * (freedom + scores.shape[1]) * np.log1p(np.sum(scores**2, axis=1) / freedom)
    return result


def _hamiltonian(
    budget: _Budget, points: FloatArray, reference: _Reference, moves: int, rng: np.random.Generator, adapt: bool
) -> Iterator[tuple[FloatArray, float]]:
    """Every chain by leapfrog steps through about a quarter of a period, then accepted or not (Neal 2011). The length
    of the steps, the same for all chains up to some jitter, follows the share that is accepted."""
    chains, size = points.shape
    scores, step = reference.scores(points), reference.step
    height, gradient = budget.at(points)
    slope = gradient @ reference.factor
    for _ in range(moves):
        momentum = rng.standard_normal((chains, size))
        length = step * rng.uniform(0.8, 1.2, (chains, 1))
        count = int(np.clip(np.ceil(_QUARTER * rng.uniform(0.4, 1.4) / step), 1, _LONGEST))
        there, pushed, pull = scores, momentum - 0.5 * length * slope, slope
        for k in range(count):
            there = there + length * pushed
            value, gradient = budget.at(reference.points(there))
            pull = np.nan_to_num(gradient @ reference.factor)
            pushed = pushed - (length if k < count - 1 else 0.5 * length) * pull
        change = value - height - 0.5 * (np.sum(pushed**2, axis=1) - np.sum(momentum**2, axis=1))
        accepted = np.exp(np.minimum(np.nan_to_num(change, nan=-np.inf), 0.0))
        goes = rng.random(chains) < accepted
        scores, height = np.where(goes[:, None], there, scores), np.where(goes, value, height)
        slope = np.where(goes[:, None], pull, slope)
        if adapt:
            step *= float(np.exp(0.3 * (accepted.mean() - _ACCEPTED)))
        yield reference.points(scores), step
        if budget.over:
            return
