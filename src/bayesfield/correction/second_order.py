"""From the mode to the mean, to second order: E[λ] ≈ λ_MP − ½ P⁻¹ Σ_k ∂²g/∂t_k², with t_k along the columns of P⁻ᐟ².

g = ∇L of the negative log posterior L, P = ∇²L. From samples of x the sum is a covariance. The variational refinement,
which goes beyond, is in posterior.variational.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayesfield.learning.precision.forms import DensePrecision, Precision
from bayesfield.types import FloatArray

_STEP = 0.1  # of the second differences, in posterior standard deviations
_BATCHES = 8  # of samples, whose spread is the Monte-Carlo error
MAX_DIRECTIONS = 400  # of second differences; beyond it, random directions stand for all

Slope = Callable[[FloatArray], FloatArray | None]
Known = Callable[[FloatArray, FloatArray], FloatArray | None]  # at λ, along directions (F, D): (F, D)


@dataclass(frozen=True)
class CorrectionRecord:
    """What a correction did.

    kind: "none", "mean", "variational", or "expectation propagation" for what that found. steps: natural-gradient
    steps. shift: root mean square and largest move of the mean, in Laplace standard deviations: how non-Gaussian the
    posterior looked. sd_ratio: median of corrected over Laplace sd. error: Monte-Carlo error of the means, root mean
    square in posterior sd. settled: whether the steps came to rest. failed: share of draws at which the engine gave no
    answer. reason: why this kind, where it was chosen. skewness: the largest of any marginal.
    """

    kind: str
    steps: int = 0
    shift: tuple[float, float] = (0.0, 0.0)
    sd_ratio: float = 1.0
    error: float = 0.0
    settled: bool = True
    failed: float = 0.0
    reason: str = ""
    skewness: float = 0.0

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        if self.kind == "none":
            return f"none{why}: plain Laplace, the mean is the mode"
        text = (
            f"{self.kind}{why}: means moved by {self.shift[0]:.2f} sd (rms; largest {self.shift[1]:.2f}), widths by a "
            f"factor {self.sd_ratio:.3f}, skewness up to {self.skewness:.2f}, Monte-Carlo error {self.error:.3f} sd"
        )
        text += f", {self.failed:.0%} of the draws failed" if self.failed else ""
        return text if self.settled else text + "; did not come to rest, take it with care"


def mean_shift(
    slope: Slope, mode: FloatArray, precision: Precision, rng: np.random.Generator, known: Known | None = None
) -> tuple[FloatArray, CorrectionRecord]:
    """The second-order mean. slope(λ) is ∇L, or None where it is not known; known: its second derivatives, or None.

    With more than some hundreds of parameters, along random draws: Σ_k ∂²g/∂t_k² = E[∂²g/∂t²] for t ~ N(0, P⁻¹).
    """
    found = bends(slope, mode, precision, rng, known)
    if not len(found.each):
        return mode, correction_record("mean", mode, precision, mode, precision, failed=found.failed)
    shift, error = -0.5 * precision.solve(found.total), 0.0
    if not found.whole:
        parts = [np.mean(part, axis=0) for part in np.array_split(found.each, _BATCHES)]
        moves = -0.5 * precision.solve(np.array(parts).T).T / precision.sd
        error = _rms(moves.std(axis=0, ddof=1) / np.sqrt(_BATCHES))
    mean = mode + shift
    return mean, correction_record("mean", mode, precision, mean, precision, error=error, failed=found.failed)


class Bends(NamedTuple):
    """Second differences of a slope along P⁻ᐟ². each: (directions, F). whole: whether along all, or random ones."""

    each: FloatArray
    whole: bool
    failed: float

    @property
    def total(self) -> FloatArray:
        """Σ_k ∂²g/∂t_k², (F,)."""
        result: FloatArray = self.each.sum(axis=0) if self.whole else self.each.mean(axis=0)
        return result


def bends(
    slope: Slope, mode: FloatArray, precision: Precision, rng: np.random.Generator, known: Known | None = None
) -> Bends:
    """Along the columns of P⁻ᐟ², or along random draws where they are many."""
    size = len(mode)
    whole = isinstance(precision, DensePrecision) and size <= MAX_DIRECTIONS
    along = precision.draws(np.eye(size)) if whole else precision.sample(rng, MAX_DIRECTIONS)
    exactly = None if known is None else known(mode, along)
    if exactly is not None:
        return Bends(exactly.T, whole, 0.0)
    length = _STEP if whole else _STEP / np.sqrt(size)
    centre = slope(mode)
    found: list[FloatArray] = []
    for direction in along.T:
        up, down = slope(mode + length * direction), slope(mode - length * direction)
        if up is not None and down is not None and centre is not None:
            found.append((up - 2.0 * centre + down) / length**2)
    failed = 1.0 - len(found) / max(along.shape[1], 1)
    return Bends(np.array(found).reshape(-1, size), whole, failed)


def sampled_shift(
    features: FloatArray, weight: float, mode: FloatArray, precision: Precision, of_data: FloatArray | float = 0.0
) -> tuple[FloatArray, CorrectionRecord]:
    """The second-order mean from samples of x, λ_MP − ½ P⁻¹ N Cov(f, (f − κ)ᵀP⁻¹(f − κ)). features: f − κ.

    of_data: Σ_k ∂²/∂t_k² of N f̄(λ), where variables are hidden; it is taken off.
    """
    square = np.einsum("sf,fs->s", features, precision.solve(features.T))
    shifts = []
    for part in np.array_split(np.arange(len(features)), _BATCHES):
        cross = features[part].T @ (square[part] - square.mean()) / len(part)
        shifts.append(-0.5 * precision.solve(weight * cross - of_data))
    mean = mode + np.mean(shifts, axis=0)
    error = _rms(np.std(shifts, axis=0, ddof=1) / np.sqrt(_BATCHES) / precision.sd)
    return mean, correction_record("mean", mode, precision, mean, precision, error=error)


def correction_record(
    kind: str,
    mode: FloatArray,
    precision: Precision,
    mean: FloatArray,
    corrected: Precision,
    steps: int = 1,
    error: float = 0.0,
    settled: bool = True,
    failed: float = 0.0,
) -> CorrectionRecord:
    if not len(mode):
        return CorrectionRecord(kind)
    shift = np.abs(mean - mode) / precision.sd
    ratio = float(np.median(corrected.sd / precision.sd))
    return CorrectionRecord(kind, steps, (_rms(shift), float(shift.max())), ratio, error, settled, failed)


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(values**2))) if len(values) else 0.0
