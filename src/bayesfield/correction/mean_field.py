"""The best Gaussian with independent weights, for very many of them: mean m and diagonal precision p (DESIGN 8).

The bound E_q[L] + ½ Σ log p is stationary where E_q[∇L] = 0 and p = E_q[diag ∇²L]. The draws are fixed once (common
random numbers), so that E_q[L] is a smooth function of m: L-BFGS minimises it with the widths held, then p is the
average of diag ∇²L over the draws, and so on until the widths stand still. Draws are antithetic: their mean is m.

A temperature T weighs the entropy: E_q[L] − T H(q) has p = E_q[diag ∇²L] / T. Its path leads from the mode (T → 0) to
the posterior (T = 1), mean and widths moving together.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from bayesfield import parallel
from bayesfield.correction.cumulants import Corrected, corrected
from bayesfield.learning.objective import Objective, Point
from bayesfield.learning.phases.base import DRAWN
from bayesfield.learning.precision.base import Precision
from bayesfield.learning.precision.mean_field import DiagonalPrecision
from bayesfield.learning.search.optimum import QUIET, Iteration, Progress
from bayesfield.learning.search.quasi_newton import below, quasi_newton
from bayesfield.types import FloatArray

ROUNDS = 5  # of means and widths
STEPS = 12  # of L-BFGS in each
_NOISE = 1e-7  # of the bound: a step that brings less ends a round
_SETTLED = 0.02  # change of the widths (rms, of their logs) that ends the rounds
_STILL = 0.1  # … and beyond which they have not converged


class Averaged(Protocol):
    """L averaged over draws of q about a mean, of fixed widths; up to what the mean does not move."""

    def point(self, mean: FloatArray) -> Point: ...

    def curvatures(self, point: Point) -> FloatArray:
        """The average of diag ∇²L there, (F,)."""


class Independent(NamedTuple):
    """q, independent normals N(mean, T / curvature), with curvature (F,) the average of diag ∇²L over q.

    change: of the widths in the last round (rms, of their logs). error: the gradient that is left (rms, in posterior
    sd), of slope (F,). value: of the average that was minimised last. rounds: how many there were.
    """

    mean: FloatArray
    curvature: FloatArray
    change: float
    error: float
    value: float
    rounds: int
    slope: FloatArray


def mean_field(
    objective: Objective, mode: FloatArray, laplace: Precision, rng: np.random.Generator, progress: Progress = QUIET
) -> Corrected:
    """From the mode and the widths there."""
    found = settle(objective, mode, laplace.sd**-2.0, int(rng.integers(2**31)), progress=progress)
    if found is None:
        return corrected("variational", mode, laplace, mode, laplace, 0, 0.0, False, 1.0)
    settled = bool(found.change < _STILL and np.isfinite(found.mean).all())
    precision = DiagonalPrecision(found.curvature)
    return corrected("variational", mode, laplace, found.mean, precision, found.rounds, found.error, settled)


def settle(
    objective: Objective,
    mean: FloatArray,
    curvature: FloatArray,
    seed: int,
    temperature: float = 1.0,
    rounds: int = ROUNDS,
    steps: int = STEPS,
    numbers: int = DRAWN,
    progress: Progress = QUIET,
) -> Independent | None:
    """The minimum of E_q[L] − T H(q), from a mean and diag ∇²L near it; None where inference fails at its draws.

    T = 1 is the posterior's best q, T → 0 the mode. numbers: positions in all draws of sequences together, about.
    """
    change, error, value, done, slope = np.inf, 0.0, np.inf, 0, np.zeros(len(mean))
    for _ in range(rounds):
        averaged = averaged_over(objective, np.sqrt(temperature / curvature), seed, numbers)
        start, scale = averaged.point(mean), partial(_scale, objective, averaged)
        if not np.isfinite(start.value):
            return None
        with parallel.single_blas():
            ended = quasi_newton(averaged.point, scale, start, 0.0, steps, _NOISE)
        new = averaged.curvatures(ended)
        error = float(np.sqrt(np.mean(ended.gradient**2 / new)))
        change = 0.5 * float(np.sqrt(np.mean(np.log(new / curvature) ** 2)))
        mean, curvature, value, done, slope = ended.parameters, new, ended.value, done + 1, ended.gradient
        progress.tell(Iteration(done, value, float(np.abs(ended.gradient).max(initial=0.0)), change, 1.0))
        if change < _SETTLED or progress.expired:
            break
    return Independent(mean, curvature, change, error, value, done, slope)


def _scale(objective: Objective, averaged: Averaged, point: Point) -> FloatArray:
    return below(objective, averaged.curvatures(point))


def averaged_over(objective: Objective, sd: FloatArray, seed: int, numbers: int = DRAWN) -> Averaged:
    """By each sequence's own draws where the free phase knows them, else by draws of all weights."""
    noisy = getattr(objective.free, "noisy", None)
    if len(objective.phases) == 1 and noisy is not None and objective.free.has_noise:
        return _BySequence(objective, noisy(sd, seed, numbers))
    return _ByDraw(objective, sd * np.random.default_rng(seed).standard_normal((PAIRS, len(sd))))


PAIRS = 8  # of draws of all weights


class _BySequence(NamedTuple):
    objective: Objective
    noisy: Any

    def point(self, mean: FloatArray) -> Point:
        return self.objective.point(mean, (self.noisy.answer(mean),))

    def curvatures(self, point: Point) -> FloatArray:
        result: FloatArray = self.objective.prior.diagonal + self.objective.free.weight * self.noisy.variances(
            point.parameters
        )
        return result


class _ByDraw(NamedTuple):
    """noise: (pairs, F)."""

    objective: Objective
    noise: FloatArray

    def point(self, mean: FloatArray) -> Point:
        points = [self.objective.at(mean + sign * e) for e in self.noise for sign in (1.0, -1.0)]
        gradient = np.mean([p.gradient for p in points], axis=0)
        return Point(mean, float(np.mean([p.value for p in points])), gradient, points[0].status)

    def curvatures(self, point: Point) -> FloatArray:
        total = np.zeros(len(point.parameters))
        for e in self.noise:
            for sign in (1.0, -1.0):
                total += self.objective.variances(self.objective.at(point.parameters + sign * e))
        return total / (2 * len(self.noise))
