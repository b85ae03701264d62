"""Draws of a posterior whose modes overlap or lie apart: chains at a ladder of temperatures, which change places.

p_β(λ) ∝ p(D|λ)^β p(λ) leads from the prior, where all images of a mode are one, to the posterior. Particles climb it
first (annealed importance sampling with resampling; Del Moral, Doucet & Jasra 2006), which says where the rungs should
be: each as far from the last as leaves the weights worth 0.3 of the particles. What they leave on the rungs is where
many ladders begin, independent of one another from there on: Hamiltonian moves on all rungs at once, then neighbours
change places (parallel tempering; Geyer 1991). The scatter between ladders is the Monte-Carlo error.

All is done in coordinates in which the prior is a standard normal, and by log p(D|λ) from a table of all joint states
(correction.tabled): a move costs hundreds of gradients, which only such a table makes cheap. Measured on machines of 6
visible and 2 hidden spins, 1,000 cases, couplings N(0, 0.5²): as the benchmark of that name says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesfield.correction.chain_draws import ChainDraws, Fold, judge_draws
from bayesfield.correction.tabled import Tabled
from bayesfield.learning.search.optimum import QUIET, Progress
from bayesfield.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from bayesfield.learning.objective import GaussianPrior

_LADDERS = 64
_WORTH = 0.3  # of the particles, by their weights on the next rung: neighbours change places in about 0.4 of all tries
_RUNGS = 60  # at most
_CLIMB = 12  # moves on each rung
_LEAPS = 12  # of a move, about
_ACCEPTED = 0.75
_FIRST = 100  # moves of all rungs, before anything is kept and judged
_EVERY = 2  # moves between draws that are kept


@dataclass
class _Rungs:
    """Where the chains are, on rungs β (T,): points (T, M, F) with log p(D|·) and its gradient; steps (T,) and scales
    (T, F) of the moves."""

    table: Tabled
    location: FloatArray
    spread: FloatArray
    beta: FloatArray
    points: FloatArray
    step: FloatArray
    scale: FloatArray
    spent: int = 0
    likelihood: FloatArray = field(default_factory=lambda: np.empty(0))
    slope: FloatArray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        self.likelihood, self.slope = self._at(self.points)

    def _at(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        flat = self.location + self.spread * points.reshape(-1, points.shape[-1])
        self.spent += len(flat)
        values, gradients = self.table.at(flat)
        return values.reshape(points.shape[:-1]), (gradients * self.spread).reshape(points.shape)

    def move(self, rng: np.random.Generator) -> FloatArray:
        """Every chain by leapfrog steps, then accepted or not; the share accepted on each rung, (T,)."""
        beta, scale = self.beta[:, None, None], self.scale[:, None, :]
        length = self.step[:, None, None] * rng.uniform(0.7, 1.3, (*self.points.shape[:2], 1)) * scale
        momentum = rng.standard_normal(self.points.shape)
        there, value, slope = self.points, self.likelihood, self.slope
        pushed = momentum + 0.5 * length * (beta * slope - there)
        count = int(rng.integers(_LEAPS // 2, _LEAPS * 3 // 2 + 1))
        for k in range(count):
            there = there + length * pushed
            value, slope = self._at(there)
            pushed += (length if k < count - 1 else 0.5 * length) * (beta * slope - there)
        change = self.beta[:, None] * (value - self.likelihood)
        change += 0.5 * np.sum(self.points**2 - there**2 + momentum**2 - pushed**2, axis=2)
        chance = np.exp(np.minimum(np.nan_to_num(change, nan=-np.inf), 0.0))
        self._take(rng.random(chance.shape) < chance, there, value, slope)
        share: FloatArray = chance.mean(axis=1)
        return share

    def _take(self, goes: BoolArray, points: FloatArray, likelihood: FloatArray, slope: FloatArray) -> None:
        self.points = np.where(goes[:, :, None], points, self.points)
        self.slope = np.where(goes[:, :, None], slope, self.slope)
        self.likelihood = np.where(goes, likelihood, self.likelihood)

    def swap(self, rng: np.random.Generator) -> None:
        """Neighbours change places by Metropolis's rule: the even pairs, then the odd ones."""
        for first in (0, 1):
            order = np.tile(np.arange(len(self.beta))[:, None], (1, self.points.shape[1]))
            low = np.arange(first, len(self.beta) - 1, 2)
            gain = (self.beta[low + 1] - self.beta[low])[:, None] * (self.likelihood[low] - self.likelihood[low + 1])
            goes = np.log(rng.random(gain.shape)) < gain
            order[low], order[low + 1] = order[low] + goes, order[low + 1] - goes
            self.likelihood = np.take_along_axis(self.likelihood, order, axis=0)
            self.points = np.take_along_axis(self.points, order[:, :, None], axis=0)
            self.slope = np.take_along_axis(self.slope, order[:, :, None], axis=0)

    def tune(self, share: FloatArray) -> None:
        """Steps by the share that is accepted, scales by the size of the slopes, which is 1/sd of a Gaussian."""
        self.step = np.clip(self.step * np.exp(0.3 * (share - _ACCEPTED)), 1e-3, 1.2)
        slopes = self.beta[:, None, None] * self.slope - self.points
        size = 1.0 / np.sqrt(np.mean(slopes**2, axis=1) + 1e-12)
        self.scale = np.exp(0.8 * np.log(self.scale) + 0.2 * np.log(np.minimum(size, 1.0)))


class Tempered(NamedTuple):
    """draws: of the posterior. rungs: of the ladder. log_evidence: log p(D), by the climb."""

    draws: ChainDraws
    rungs: int
    log_evidence: float


def tempered(
    table: Tabled,
    prior: GaussianPrior,
    goal: float,
    most: int,
    rng: np.random.Generator,
    fold: Fold | None = None,
    progress: Progress = QUIET,
) -> Tempered | None:
    """Draws worth ``goal`` independent ones, or as many as ``most`` evaluations give; None where they do not suffice to
    climb. prior: of independent parameters. fold: takes draws to one of their images that are as likely."""
    found = _climbed(table, prior, most, rng, progress)
    if found is None:
        return None
    rungs, log_evidence = found
    for _ in range(_FIRST):
        rungs.tune(rungs.move(rng))
        rungs.swap(rng)
    kept: list[FloatArray] = []
    moves = 2 * _FIRST
    while True:
        made = []
        for number in range(moves):
            rungs.move(rng)
            rungs.swap(rng)
            if number % _EVERY == _EVERY - 1:
                made.append(rungs.location + rungs.spread * rungs.points[-1])
            if rungs.spent >= most or progress.expired:
                break
        kept += made if fold is None or not made else list(fold(np.array(made)))
        if len(kept) < 4:
            return None
        draws = judge_draws(np.array(kept), rungs.spent, widths=True)
        if rungs.spent >= most or progress.expired or (draws.settled and draws.effective >= goal):
            return Tempered(draws, len(rungs.beta), log_evidence)
        if not draws.settled:
            kept = kept[len(kept) // 2 :]
        lacking = goal / draws.effective - 1.0 if draws.settled else 1.0
        moves = _EVERY * int(np.ceil(np.clip(1.1 * lacking, 0.2, 1.0) * len(kept)))


def _climbed(
    table: Tabled, prior: GaussianPrior, most: int, rng: np.random.Generator, progress: Progress
) -> tuple[_Rungs, float] | None:
    """Particles at β = 0 and on every rung up to 1, as they leave it, and log p(D)."""
    size = prior.size
    location, spread = prior.location, prior.precision**-0.5
    first = rng.standard_normal((1, _LADDERS, size))
    here = _Rungs(table, location, spread, np.zeros(1), first, np.full(1, 0.5), np.ones((1, size)))
    left, log_evidence = [here.points[0]], 0.0
    betas, steps, scales = [0.0], [here.step[0]], [here.scale[0]]
    while betas[-1] < 1.0:
        if len(betas) >= _RUNGS or here.spent >= most or progress.expired:
            return None
        beta, log_weights = _next_rung(betas[-1], here.likelihood[0])
        top = log_weights.max()
        weights = np.exp(log_weights - top)
        log_evidence += float(top + np.log(weights.mean()))
        chosen = _resampled(weights, rng)
        spent = here.spent
        here = _Rungs(table, location, spread, np.array([beta]), here.points[:, chosen], here.step, here.scale, spent)
        for _ in range(_CLIMB):
            here.tune(here.move(rng))
        betas.append(beta)
        left.append(here.points[0])
        steps.append(here.step[0])
        scales.append(here.scale[0])
    every = _Rungs(
        table, location, spread, np.array(betas), np.array(left), np.array(steps), np.array(scales), here.spent
    )
    return every, log_evidence


def _next_rung(beta: float, likelihood: FloatArray) -> tuple[float, FloatArray]:
    """The β at which weights p(D|λ)^(β' − β) are worth the share of the particles that is wanted, or 1; those log
    weights."""

    def worth(rise: float) -> float:
        weights = np.exp(rise * (likelihood - likelihood.max()))
        return float(weights.sum() ** 2 / np.sum(weights**2) / len(weights))

    low, high = 0.0, 1.0 - beta
    if worth(high) < _WORTH:
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if worth(middle) >= _WORTH else (low, middle)
        high = max(low, 1e-9)
    return min(beta + high, 1.0), high * likelihood


def _resampled(weights: FloatArray, rng: np.random.Generator) -> IntArray:
    """Positions of particles, each about as often as it weighs (systematic resampling)."""
    ends = np.cumsum(weights) / weights.sum()
    at = (np.arange(len(weights)) + rng.random()) / len(weights)
    return np.minimum(np.searchsorted(ends, at), len(weights) - 1)
