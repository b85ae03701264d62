"""The variational Gaussian: E_q[g] = 0 and P = E_q[∇²L], by natural-gradient steps from the Laplace fit.

    P ← (1−ρ)P + ρ E_q[∇²L],   m ← m − ρ P⁻¹ E_q[g],   over draws λ = m + P⁻ᐟ²z with the same z at every step

The draws come in orthogonal frames with both signs: a full frame integrates everything up to third order in z nearly
exactly, so that Monte-Carlo error is left only in what goes beyond the second-order shift. Two blocks of them tell it.

With the Sampled engine: posterior.sampled_variational.
"""

import contextlib
from typing import Any

import numpy as np

from bayesfield.correction.inflation import usual, widened
from bayesfield.correction.natural_steps import (
    CURVED,
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
from bayesfield.correction.second_order import CorrectionRecord, correction_record
from bayesfield.learning.objective import MeanPrecision, Objective, Point
from bayesfield.learning.precision.forms import DensePrecision, Precision
from bayesfield.learning.search.minimise import Watch
from bayesfield.types import FloatArray, IndefiniteCurvature

_RATE = 0.9  # ρ at first
_STRONG = 0.25  # posterior sd, root mean square: after a step that long, the curvature is averaged over all draws
_SETTLED = 0.01  # largest move of a mean, in posterior sd, and of a log sd, at which the steps end
_PATIENCE = 5  # steps whose shrinking tells whether they will settle in time
_FEW_DIRECTIONS = 32  # in a block where the precision is not dense
MANY = 1000  # parameters beyond which a curvature takes seconds, and few are averaged …
FEW = 2  # … at so many directions: with so many parameters each draw is as good as an average
_HELD = 4  # the same where its responses must all be held
_MOST_FAILED = 0.2  # share of draws without an answer beyond which the Laplace posterior stands


def variational(
    objective: Objective,
    curved: Objective,
    mode: FloatArray,
    precision: Precision,
    rng: np.random.Generator,
    watch: Watch | None = None,
) -> tuple[FloatArray, Precision, CorrectionRecord]:
    """Mean, precision, record. curved: the objective whose engine gives the curvature."""
    dense = isinstance(precision, DensePrecision)
    z = two_blocks(len(mode), _block(len(mode), dense), rng)
    many = len(mode) > MANY
    length = root_mean_square if many else longest  # the largest of thousands says little
    engine = _Draws(objective, curved, (FEW if many else CURVED) if dense else _HELD)
    m, P = mode.copy(), precision
    settled, step, failed = False, 0, 0.0
    rate = Rate(_RATE)
    moves, lengths = np.zeros((2, len(mode))), [np.inf]
    while step < MAX_STEPS and not settled and not _hopeless(lengths):
        slopes, found, failed = engine.look(m, P.draws(z.T).T, P, rate.value)
        if found is None or failed > _MOST_FAILED:
            record = correction_record("variational", mode, precision, mode, precision, step, 0.0, False, failed)
            return mode, precision, record
        moves = found.solve(slopes.T).T
        away = moves.mean(axis=0) / found.sd
        change = np.log(found.sd / P.sd) / rate.value
        lengths.append(max(length(away), length(change)))
        settled = lengths[-1] < _SETTLED
        tell(watch, step, lengths[-1], rate.value)
        m, P = m - rate.value * moves.mean(axis=0), found
        rate.after(np.concatenate([away, change]))
        if dense and not many and np.linalg.norm(away) > _STRONG * np.sqrt(len(m)):
            engine.bends = len(z)
        step += 1
    error = standard_error(moves, P.sd)
    if dense and not many and len(engine.even) > 1:
        even = usual(P, np.array(engine.even))
        P = widened(P, even.T @ even / (len(even) - 1))
    return m, P, correction_record("variational", mode, precision, m, P, step, error, settled, failed)


def draws_and_bends(size: int, dense: bool) -> tuple[int, int]:
    """How many inferences and how many curvatures a step takes."""
    count, frames = _block(size, dense)
    return 4 * count * frames, 2 * ((FEW if size > MANY else CURVED) if dense else _HELD)


def _block(size: int, dense: bool) -> tuple[int, int]:
    return block(size, MAX_DIRECTIONS) if dense else block(size, _FEW_DIRECTIONS, _FEW_DIRECTIONS)


def _hopeless(lengths: list[float]) -> bool:
    """Whether steps that shrink as the last ones did will not settle in time."""
    if len(lengths) <= 2 * _PATIENCE:
        return False
    shrinking = np.log(lengths[-1] / lengths[-1 - _PATIENCE]) / _PATIENCE
    left = MAX_STEPS - len(lengths)
    return bool(np.log(lengths[-1]) + left * min(shrinking, 0.0) > np.log(_SETTLED))


class _Draws:
    """E_q[g] by blocks and E_q[∇²L], with the engine going on at each draw from where it was a step before."""

    def __init__(self, objective: Objective, curved: Objective, bends: int) -> None:
        self.objective, self.curved, self.bends = objective, curved, bends
        self.even: list[FloatArray] = []  # mean slope of each pair of draws
        self._states: dict[tuple[int, int], Any] = {}

    def look(
        self, m: FloatArray, offsets: FloatArray, P: Precision, rate: float
    ) -> tuple[FloatArray, Precision | None, float]:
        """Mean slope of each half of the draws (2, F), P mixed with the mean curvature, and the share that failed."""
        totals, good = np.zeros((2, len(m))), np.zeros(2)
        self.even = []
        mean = self.curved.mean_precision()
        for k, offset in enumerate(offsets):
            block = 2 * k // len(offsets)
            pair = [self._at(k, sign, m + sign * offset) for sign in (1, -1)]
            if not all(np.isfinite(p.value) for p in pair):
                continue  # a pair counts only if both of its draws do
            if mean.count < 2 * self.bends and not self._bend(mean, pair):
                continue
            self.even.append(0.5 * (pair[0].gradient + pair[1].gradient))
            totals[block] += self.even[-1]
            good[block] += 1
        failed = 1.0 - float(good.sum()) / max(len(offsets), 1)
        found = None
        with contextlib.suppress(IndefiniteCurvature):
            found = mean.precision(P, rate) if mean.count else None
        return totals / np.maximum(good, 1)[:, None], found, failed

    def _at(self, k: int, sign: int, parameters: FloatArray) -> Point:
        point = self.objective.at(parameters, self._states.get((k, sign)))
        if np.isfinite(point.value):
            self._states[k, sign] = point.marginals.state
        return point

    def _bend(self, mean: MeanPrecision, pair: list[Point]) -> bool:
        """Add a pair's curvatures to the mean; False if there is none."""
        points = pair if self.curved is self.objective else [self.curved.at(p.parameters) for p in pair]
        try:
            mean.add(points)
        except IndefiniteCurvature:
            return False
        return True
