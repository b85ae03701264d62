"""The variational Gaussian: E_q[g] = 0 and P = E_q[∇²L], by natural-gradient steps from the Laplace fit.

    P ← (1−ρ)P + ρ E_q[∇²L],   m ← m − ρ P⁻¹ E_q[g],   over draws λ = m + P⁻ᐟ²z with the same z at every step

The draws come in orthogonal frames with both signs: a full frame integrates everything up to third order in z nearly
exactly, so that Monte-Carlo error is left only in what goes beyond the second-order shift. Two blocks of them tell it.

With a sampled free phase: correction.sampled.
"""

import contextlib
from typing import Any

import numpy as np

from bayesfield.correction.inflation import inflated, winsorised
from bayesfield.correction.natural_steps import (
    CURVATURES,
    MAX_DIRECTIONS,
    MAX_STEPS,
    Rate,
    block,
    longest,
    root_mean_square,
    standard_error,
    tell,
    two_blocks,
)
from bayesfield.correction.record import Corrected, corrected
from bayesfield.learning.objective import Objective, Point
from bayesfield.learning.precision.at import Average
from bayesfield.learning.precision.base import Precision
from bayesfield.learning.search.progress import QUIET, Progress
from bayesfield.types import FloatArray, IndefiniteCurvature

_RATE = 0.9  # ρ at first
_STRONG = 0.25  # posterior sd, root mean square: after a step that long, the curvature is averaged over all draws
_SETTLED = 0.01  # largest move of a mean, in posterior sd, and of a log sd, at which the steps end
_FEW_DIRECTIONS = 32  # in a block where the precision is not dense
MANY = 1000  # parameters beyond which a curvature takes seconds, and few are averaged …
FEW = 2  # … at so many directions: with so many parameters each draw is as good as an average
_HELD = 4  # the same where its responses must all be held
_MOST_FAILED = 0.2  # share of draws without an answer beyond which the Laplace posterior stands


def variational(
    objective: Objective,
    curvature_objective: Objective,
    mode: FloatArray,
    precision: Precision,
    rng: np.random.Generator,
    progress: Progress = QUIET,
) -> Corrected:
    """curvature_objective: the objective whose engine gives the curvature."""
    dense = precision.form == "dense"
    z = two_blocks(len(mode), _block(len(mode), dense), rng)
    many = len(mode) > MANY
    length = root_mean_square if many else longest  # the largest of thousands says little
    draws = _Draws(objective, curvature_objective, precision.form, (FEW if many else CURVATURES) if dense else _HELD)
    m, P = mode.copy(), precision
    settled, step, failed = False, 0, 0.0
    rate = Rate(_RATE)
    moves = np.zeros((2, len(mode)))
    while step < MAX_STEPS and not settled and not (step and progress.expired):
        slopes, found, failed = draws.look(m, P.draws(z.T).T, P, rate.value)
        if found is None or failed > _MOST_FAILED:
            return corrected("variational", mode, precision, mode, precision, step, 0.0, False, failed)
        moves = found.solve(slopes.T).T
        away = moves.mean(axis=0) / found.sd
        change = np.log(found.sd / P.sd) / rate.value
        distance = max(length(away), length(change))
        settled = distance < _SETTLED
        tell(progress, step, distance, rate.value)
        m, P = m - rate.value * moves.mean(axis=0), found
        rate.after(np.concatenate([away, change]))
        if dense and not many and np.linalg.norm(away) > _STRONG * np.sqrt(len(m)):
            draws.curvatures = len(z)
        step += 1
    error = standard_error(moves, P.sd)
    if dense and not many and len(draws.even) > 1:
        even = winsorised(P, draws.even)
        P = inflated(P, even.T @ even / (len(even) - 1))
    return corrected("variational", mode, precision, m, P, step, error, settled, failed)


def draws_and_curvatures(size: int, dense: bool) -> tuple[int, int]:
    """How many inferences and how many curvatures a step takes."""
    count, frames = _block(size, dense)
    return 4 * count * frames, 2 * ((FEW if size > MANY else CURVATURES) if dense else _HELD)


def _block(size: int, dense: bool) -> tuple[int, int]:
    return block(size, MAX_DIRECTIONS) if dense else block(size, _FEW_DIRECTIONS, _FEW_DIRECTIONS)


class _Draws:
    """E_q[g] by blocks and E_q[∇²L], with the engine continuing at each draw from where it was a step before."""

    def __init__(self, objective: Objective, curvature_objective: Objective, form: str, curvatures: int) -> None:
        self.objective, self.curvature_objective, self.form = objective, curvature_objective, form
        self.curvatures = curvatures
        self.even = np.empty((0, objective.size))  # mean slope of each pair of draws
        self._states: list[Any] = []

    def look(
        self, m: FloatArray, offsets: FloatArray, P: Precision, rate: float
    ) -> tuple[FloatArray, Precision | None, float]:
        """Mean slope of each half of the draws (2, F), P mixed with the mean curvature, and the share that failed.

        A pair counts only if both of its draws do, and have a curvature where one is asked of them.
        """
        count = len(offsets)
        points = np.concatenate([m + offsets, m - offsets])
        found = self.objective.at_many(points, self._states or None)
        self._states = found.states
        good = np.isfinite(found.values[:count]) & np.isfinite(found.values[count:])
        average = Average(self.curvature_objective, self.form)
        for k in np.flatnonzero(good).tolist():
            if average.count >= 2 * self.curvatures:
                break
            good[k] = self._add(average, [points[k], points[count + k]], (k, count + k))
        even = 0.5 * (found.gradients[:count] + found.gradients[count:])
        self.even = even[good]
        first = np.arange(count) < (count + 1) // 2
        halves = [even[good & half] for half in (first, ~first)]
        slopes = np.array([h.mean(axis=0) if len(h) else np.zeros(len(m)) for h in halves])
        precision = None
        with contextlib.suppress(IndefiniteCurvature):
            precision = average.precision(P, rate) if average.count else None
        return slopes, precision, 1.0 - float(good.sum()) / max(count, 1)

    def _add(self, average: Average, pair: list[FloatArray], which: tuple[int, int]) -> bool:
        """Add a pair's curvatures to the mean; False if there is none."""
        same = self.curvature_objective is self.objective
        points: list[Point] = [
            self.curvature_objective.at(here, self._states[k] if same else None)
            for here, k in zip(pair, which, strict=True)
        ]
        if not all(np.isfinite(point.value) for point in points):
            return False
        try:
            average.add(points)
        except IndefiniteCurvature:
            return False
        return True
