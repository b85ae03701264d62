"""Minimising L(λ) + Σ_k c_k |λ_k| by orthant-wise L-BFGS (Andrew & Gao 2007), which is what crfsuite does with c1.

Within an orthant the penalty is linear, so that L-BFGS of L alone gives the directions. The slope ⋄ is the derivative
along which the sum falls fastest: at λ_k = 0 it is zero while |∂_k L| ≤ c_k. A direction keeps the entries that go
against ⋄, and a step that would change a sign ends at zero instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from bayesfield.learning.objective import Point
from bayesfield.learning.search.quasi_newton import Step, descent, remembered
from bayesfield.types import FloatArray

_SUFFICIENT = 1e-4  # Armijo's condition
_TRIALS = 40
_POWER = 0.25  # of diag ∇²L below L-BFGS, as without the penalty
_ANEW = 12  # steps after which the diagonal is taken anew


def orthantwise(
    evaluate: Callable[[FloatArray], Point],
    curvatures: Callable[[Point], FloatArray],
    start: Point,
    penalty: FloatArray,
    tolerance: float,
    max_iterations: int,
    noise: float,
) -> Point:
    """From a point to where no entry of ⋄ is above the tolerance, or no step brings a decrease above ``noise`` of the
    value. evaluate: L, and may raise to end early. curvatures: about diag ∇²L, (F,). penalty: c, (F,)."""
    point, diagonal = start, curvatures(start) ** _POWER
    steps: deque[Step] = remembered(len(diagonal))
    value = penalised(point, penalty)
    slope = steepest(point, penalty)
    for k in range(max_iterations):
        if np.abs(slope).max(initial=0.0) <= tolerance:
            break
        if k and k % _ANEW == 0:
            diagonal = curvatures(point) ** _POWER
        direction = descent(slope, diagonal, steps)
        direction = np.where(direction * slope < 0.0, direction, 0.0)
        new = _searched(evaluate, point, direction, slope, penalty, value, noise)
        if new is None:
            if not steps:
                break
            steps.clear()
            continue
        step = Step.between(point, new)
        if step is not None:
            steps.append(step)
        before, point = value, new
        value, slope = penalised(point, penalty), steepest(point, penalty)
        if before - value <= noise * max(1.0, abs(value)):
            break
    return point


def penalised(point: Point, penalty: FloatArray) -> float:
    """L + Σ c |λ|."""
    return float(point.value + penalty @ np.abs(point.parameters))


def steepest(point: Point, penalty: FloatArray) -> FloatArray:
    """⋄, (F,): what is left of the slope where the sum cannot fall is zero."""
    away, g = point.parameters, point.gradient
    at_zero = np.sign(g) * np.maximum(np.abs(g) - penalty, 0.0)
    return np.where(away == 0.0, at_zero, g + np.sign(away) * penalty)


def _searched(
    evaluate: Callable[[FloatArray], Point],
    point: Point,
    direction: FloatArray,
    slope: FloatArray,
    penalty: FloatArray,
    value: float,
    noise: float,
) -> Point | None:
    """A step within the orthant that decreases the sum enough; None for none."""
    orthant = np.where(point.parameters == 0.0, -np.sign(slope), np.sign(point.parameters))
    penalised_ones, step = penalty > 0.0, 1.0
    slack = noise * max(1.0, abs(value))
    for _ in range(_TRIALS):
        there = point.parameters + step * direction
        there = np.where(penalised_ones & (there * orthant < 0.0), 0.0, there)
        fall = float(slope @ (there - point.parameters))
        if fall >= 0.0:
            return None
        new = evaluate(there)
        if np.isfinite(new.value) and penalised(new, penalty) <= value + _SUFFICIENT * fall + slack:
            return new
        step /= 2.0
    return None
