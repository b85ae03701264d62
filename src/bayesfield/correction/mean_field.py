"""The best Gaussian with independent weights, for very many of them: mean m and diagonal precision p (DESIGN 8).

The bound E_q[L] + ½ Σ log p is stationary where E_q[∇L] = 0 and p = E_q[diag ∇²L]. The draws are fixed once (common
random numbers), so that E_q[L] is a smooth function of m: L-BFGS minimises it with the widths held, then p is the
average of diag ∇²L over the draws, and so on until the widths stand still. Draws are antithetic: their mean is m.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from bayesfield import parallel
from bayesfield.correction.second_order import Corrected, corrected
from bayesfield.learning.objective import Objective, Point
from bayesfield.learning.precision.base import Precision
from bayesfield.learning.precision.mean_field import DiagonalPrecision
from bayesfield.learning.search.optimum import QUIET, Iteration, Progress
from bayesfield.learning.search.quasi_newton import quasi_newton
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


def mean_field(
    objective: Objective, mode: FloatArray, laplace: Precision, rng: np.random.Generator, progress: Progress = QUIET
) -> Corrected:
    """From the mode and the widths there."""
    seed = int(rng.integers(2**31))
    mean, diagonal = mode, laplace.sd**-2.0
    change, steps, error = np.inf, 0, 0.0
    for _ in range(ROUNDS):
        averaged = averaged_over(objective, 1.0 / np.sqrt(diagonal), seed)
        start = averaged.point(mean)
        if not np.isfinite(start.value):
            return corrected("variational", mode, laplace, mode, laplace, steps, 0.0, False, 1.0)
        with parallel.single_blas():
            ended = quasi_newton(averaged.point, averaged.curvatures, start, 0.0, STEPS, _NOISE)
        new = averaged.curvatures(ended)
        error = float(np.sqrt(np.mean(ended.gradient**2 / new)))
        change = 0.5 * float(np.sqrt(np.mean(np.log(new / diagonal) ** 2)))
        mean, diagonal, steps = ended.parameters, new, steps + 1
        progress.tell(Iteration(steps, ended.value, float(np.abs(ended.gradient).max(initial=0.0)), change, 1.0))
        if change < _SETTLED or progress.expired:
            break
    settled = bool(change < _STILL and np.isfinite(mean).all())
    return corrected("variational", mode, laplace, mean, DiagonalPrecision(diagonal), steps, error, settled)


def averaged_over(objective: Objective, sd: FloatArray, seed: int) -> Averaged:
    """By each sequence's own draws where the free phase knows them, else by draws of all weights."""
    noisy = getattr(objective.free, "noisy", None)
    if len(objective.phases) == 1 and noisy is not None and objective.free.has_noise:
        return _BySequence(objective, noisy(sd, seed))
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
