"""The variational Gaussian: E_q[g] = 0 and P = E_q[∇²L], by natural-gradient steps from the Laplace fit.

    P ← (1−ρ)P + ρ E_q[∇²L],   m ← m − ρ P⁻¹ E_q[g],   over draws λ = m + P⁻ᐟ²z with the same z at every step

The draws come in orthogonal frames with both signs: a full frame integrates everything up to third order in z nearly
exactly, so that Monte-Carlo error is left only in what goes beyond the second-order shift. Two blocks of them tell it.

With a sampled free phase: correction.sampled. What skewness adds to the widths, of which P = E_q[∇²L] does not know:
``inflated``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import linalg

from bayesfield.correction.cumulants import Corrected, corrected
from bayesfield.inference.contract import Price
from bayesfield.learning.objective import Objective
from bayesfield.learning.precision.at import averaged
from bayesfield.learning.precision.base import Precision
from bayesfield.learning.precision.dense import Average, DensePrecision
from bayesfield.learning.search.optimum import QUIET, Iteration, Progress
from bayesfield.types import FloatArray

MAX_STEPS = 40
MAX_DIRECTIONS = 160  # orthogonal directions in a frame
MIN_DIRECTIONS = 64  # directions in a block: several frames where there are few parameters
_OTHER_DIRECTIONS = 32  # in a block, where the precision is not dense
_SLOPES = 2.5  # seconds that the slopes of a step may take in a frame of more than the least directions
CURVATURES = 24  # directions at which the curvature, which costs most and moves least, is averaged
_LEAST_RATE = 0.1  # ρ at last where steps overshoot
_RECOVERY = 1.2  # growth of ρ with every step that goes on in the direction of the one before
_NOISY = 2.0  # times what noise alone takes back of the step before, on average
_RATE = 0.9  # ρ at first
_SHORTER = 0.4  # of the step before, where parameters are many: a step that turns back but is as short converges
_STRONG = 0.25  # posterior sd: after a step that long (rms), the curvature is averaged over all draws; and a last
# step longer than that is that of a correction that does not converge
_SETTLED = 0.01  # largest move of a mean, in posterior sd, and of a log sd, at which the steps end
_BEYOND_NOISE = 1.5  # times the Monte-Carlo error (rms), likewise: smaller moves mean nothing
MANY = 1000  # parameters beyond which a curvature takes seconds, and few are averaged …
FEW = 2  # … at so many directions: with so many parameters each draw is as good as an average
_HELD = 4  # the same where its responses must all be held
_MOST_FAILED = 0.2  # share of draws without an answer beyond which the Laplace posterior stands
_FAR_OUT = 3.0  # times the median length of an even slope


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
    least, most = MIN_DIRECTIONS, MIN_DIRECTIONS  # frames span fewer parameters, whatever their price
    if len(mode) > MIN_DIRECTIONS or not dense:
        least, most = directions(precision.form, objective.price())
    z = two_blocks(len(mode), block(len(mode), most, least), rng)
    many = len(mode) > MANY
    length = root_mean_square if many else longest  # the largest of thousands says little
    draws = _Draws(objective, curvature_objective, precision.form, (FEW if many else CURVATURES) if dense else _HELD)
    m, P = mode.copy(), precision
    settled, step, failed = False, 0, 0.0
    partial = len(mode) > most  # frames do not span all directions: their noise is what is left
    rate = Rate(_RATE, shorter=_SHORTER if partial else 0.0)
    moves = np.zeros((2, len(mode)))
    while step < MAX_STEPS and not settled and not (step and progress.expired):
        slopes, found, failed = draws.look(m, z, P, rate.value)
        if found is None or failed > _MOST_FAILED:
            return corrected("variational", mode, precision, mode, precision, step, 0.0, False, failed)
        moves = found.solve(slopes.T).T
        away = moves.mean(axis=0) / found.sd
        change = np.log(found.sd / P.sd) / rate.value
        distance = max(length(away), length(change))
        settled = distance < max(_SETTLED, _BEYOND_NOISE * standard_error(moves, found.sd) if partial else 0.0)
        if progress is not QUIET:
            tell(progress, step, distance, rate.value)
        m, P = m - rate.value * moves.mean(axis=0), found
        rate.after(np.concatenate([away, change]))
        if dense and not many and np.linalg.norm(away) > _STRONG * np.sqrt(len(m)):
            draws.curvatures = len(z)
        step += 1
    if not settled and step >= MAX_STEPS:  # where it has come to depends on rounding: Laplace's stands
        return corrected("variational", mode, precision, mode, precision, step, 0.0, False, failed)
    error = standard_error(moves, P.sd)
    if dense and not many and len(draws.even) > 1:
        even = winsorised(P, draws.even)
        P = inflated(P, even.T @ even / (len(even) - 1))
    return corrected("variational", mode, precision, m, P, step, error, settled, failed)


class _Draws:
    """E_q[g] by blocks and E_q[∇²L], with the engine continuing at each draw from where it was a step before."""

    def __init__(self, objective: Objective, curvature_objective: Objective, form: str, curvatures: int) -> None:
        self.objective, self.curvature_objective, self.form = objective, curvature_objective, form
        self.curvatures = curvatures
        self.even = np.empty((0, objective.prior.size))  # mean slope of each pair of draws
        self._states: Any = None

    def look(
        self, m: FloatArray, z: FloatArray, P: Precision, rate: float
    ) -> tuple[FloatArray, Precision | None, float]:
        """Mean slope of each half of the draws (2, F), P mixed with the mean curvature, and the share that failed.

        A pair counts only if both of its draws do, and have a curvature where one is asked of them.
        """
        offsets, count = P.draws(z.T).T, len(z)
        points = np.concatenate([m + offsets, m - offsets])
        found = self.objective.at_many(points, self._states)
        self._states = found.states
        good = np.isfinite(found.values[:count]) & np.isfinite(found.values[count:])
        average = Average(self.curvature_objective, self.form, averaged)
        same = self.curvature_objective is self.objective
        average.add_pairs(points, found if same else None, good, 2 * self.curvatures)
        even = 0.5 * (found.gradients[:count] + found.gradients[count:])
        self.even = even[good]
        half = (count + 1) // 2
        share = good.astype(np.float64)
        first, second = share[:half] @ even[:half], share[half:] @ even[half:]
        slopes = np.array([first / max(share[:half].sum(), 1.0), second / max(share[half:].sum(), 1.0)])
        return slopes, average.mixed(P, rate), 1.0 - float(share.sum()) / max(count, 1)


# --- natural-gradient steps ------------------------------------------------------------------------------------------


class Rate:
    """ρ, halved whenever a step turns back on the one before, for that has overshot; else it recovers.

    Noise turns back, too: after a whole step with noise ε the next one takes −ε back. What noise explains is no reason
    to take shorter steps: they would stop wherever they are. shorter: of the length of the step before, up to which
    one that turns back is none, either: it converges as it is.
    """

    def __init__(self, value: float, least: float = _LEAST_RATE, shorter: float = 0.0) -> None:
        self.value, self._most, self._least, self._last = value, value, least, np.zeros(1)
        self._shorter = shorter

    def after(self, step: FloatArray, noise: float = 0.0) -> None:
        """step: in posterior sd. noise: the root mean square of its error, in the same units."""
        turn = float(np.mean(step * self._last)) if len(step) else 0.0
        slow = float(np.sum(step**2)) > self._shorter**2 * float(np.sum(self._last**2))
        if turn < -_NOISY * noise**2 and slow:
            self.value = max(self.value / 2.0, self._least)
        elif turn > 0.0:
            self.value = min(_RECOVERY * self.value, self._most)
        self._last = step


def directions(form: str, price: Price) -> tuple[int, int]:
    """In a block of draws, at least and at most: fewer where an inference takes milliseconds, for each of the two
    blocks takes all of them with both signs. With 300 parameters (24 items, 500 cases) 160 directions leave a
    Monte-Carlo error of 0.005 sd, and half of them 0.007."""
    if form != "dense":
        return _OTHER_DIRECTIONS, _OTHER_DIRECTIONS
    affordable = int(_SLOPES / (4 * max(price.each or price.inference, 1e-9)))
    return MIN_DIRECTIONS, min(max(affordable, MIN_DIRECTIONS), MAX_DIRECTIONS)


def block(size: int, most: int, least: int = MIN_DIRECTIONS) -> tuple[int, int]:
    """Directions in a frame, at most the parameters, and frames in a block of draws."""
    count = min(size, most)
    return count, -(-least // max(count, 1))


def two_blocks(size: int, shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
    """Draws of two blocks, one below the other; each stands for itself and its mirror image."""
    return np.concatenate([orthogonal_draws(size, *shape, rng) for _ in range(2)])


def orthogonal_draws(size: int, count: int, frames: int, rng: np.random.Generator) -> FloatArray:
    """(frames · count, size): orthogonal frames with the lengths of standard normal vectors, scaled to their mean."""
    bases = [linalg.qr(rng.standard_normal((size, count)), mode="economic")[0].T for _ in range(frames)]
    lengths = np.sqrt(rng.chisquare(max(size, 1), frames * count))
    lengths *= np.sqrt(size / np.mean(lengths**2)) if size else 1.0
    return np.concatenate(bases) * lengths[:, None]


def longest(step: FloatArray) -> float:
    return float(np.abs(step).max(initial=0.0))


def root_mean_square(step: FloatArray) -> float:
    return float(np.sqrt(np.mean(step**2))) if len(step) else 0.0


def standard_error(estimates: FloatArray, sd: FloatArray) -> float:
    """Of the mean of (k, F) estimates, root mean square in posterior sd."""
    return root_mean_square(estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates)) / sd)


def tell(progress: Progress, step: int, distance: float, rate: float) -> None:
    progress.tell(Iteration(step, np.nan, np.nan, distance, rate))


# --- widths ----------------------------------------------------------------------------------------------------------


def inflated(P: Precision, bubble: FloatArray) -> Precision:
    """P⁻¹ + P⁻¹BP⁻¹, as a precision.

    To first order B_ij = ½ Σ_ab ∇³L_iab ∇³L_jab in coordinates where P is 1. The slope's even part along a draw z is
    ½ Σ_ab ∇³L_iab (z_a z_b − δ_ab), so that B is its covariance over the draws. An estimate of B with noise may be
    negative in places; it takes at most half of any direction's variance. With thousands of parameters a few hundred
    draws say little of B, all of it along themselves: there it is left out.
    """
    matrix = P.matrix()
    lower = linalg.cholesky(matrix, lower=True)
    inside = linalg.solve_triangular(lower, linalg.solve_triangular(lower, bubble, lower=True).T, lower=True)
    values, vectors = np.linalg.eigh((inside + inside.T) / 2)
    root = lower @ vectors / np.sqrt(1.0 + np.maximum(values, -0.5))
    return DensePrecision(root @ root.T)


def shrunk(P: Precision, estimates: Callable[[], Iterator[FloatArray]], count: int) -> FloatArray:
    """The mean of so many estimates of B, taken back (James & Stein) by the share that their scatter says is noise.

    estimates: makes them anew each time, for all together may be more than memory holds.
    """
    mean: FloatArray = sum(estimates(), np.zeros((P.size, P.size))) / max(count, 1)
    mean = (mean + mean.T) / 2

    def size(matrix: FloatArray) -> float:
        inside = P.solve(matrix)
        return float(np.sum(inside * inside.T))

    noise = sum(size((b + b.T) / 2 - mean) for b in estimates()) / max(count * (count - 1), 1)
    return mean * max(0.0, 1.0 - noise / max(size(mean), 1e-300))


def winsorised(P: Precision, even: FloatArray) -> FloatArray:
    """Even slopes about their mean; those far out, where the first order does not hold, cut to a few median lengths."""
    away = even - even.mean(axis=0)
    length = np.sqrt(np.maximum(np.einsum("kf,fk->k", away, P.solve(away.T)), 1e-300))
    result: FloatArray = away * np.minimum(1.0, _FAR_OUT * np.median(length) / length)[:, None]
    return result
