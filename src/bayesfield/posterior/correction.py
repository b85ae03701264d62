"""From the mode to the mean: corrections of the Laplace posterior for the skewness of the true one.

With g = ∇L and P = ∇²L of the negative log posterior L, and draws λ = m + P⁻ᐟ²z:

*mean*: the second-order shift E[λ] ≈ λ_MP − ½ P⁻¹ Σ_k ∂²g/∂t_k², t_k along the columns of P⁻ᐟ².
*variational*: the Gaussian with E_q[g] = 0 and P = E_q[∇²L], by natural-gradient steps
P ← (1−ρ)P + ρ E_q[∇²L], m ← m − ρ P⁻¹ E_q[g], expectations over the same draws at every step.

The draws come in orthogonal frames with both signs: a full frame integrates everything up to third order in z nearly
exactly, so that Monte-Carlo error is left only in what goes beyond the second-order shift. Two blocks of them tell it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from bayesfield.types import FloatArray

_STEP = 0.1  # of the second differences, in posterior standard deviations
_RATE = 0.9  # ρ
_SETTLED = 0.01  # largest move of a mean, in posterior sd, and of a log sd, at which the steps end
_MAX_STEPS = 25
_BATCHES = 8  # of samples, whose spread is the Monte-Carlo error
_MAX_DIRECTIONS = 160  # orthogonal directions in a frame
_MIN_DIRECTIONS = 64  # directions in a block: several frames where there are few parameters

Slope = Callable[[FloatArray], FloatArray | None]
Bend = Callable[[FloatArray], tuple[FloatArray, FloatArray] | None]


@dataclass(frozen=True)
class CorrectionRecord:
    """What a correction did.

    kind: "none", "mean" or "variational". steps: natural-gradient steps. shift: root mean square and largest move of
    the mean, in Laplace standard deviations: how non-Gaussian the posterior looked. sd_ratio: median of corrected over
    Laplace sd. error: Monte-Carlo error of the means, root mean square in posterior sd. settled: whether the steps came
    to rest. failed: share of draws at which the engine gave no answer.
    """

    kind: str
    steps: int = 0
    shift: tuple[float, float] = (0.0, 0.0)
    sd_ratio: float = 1.0
    error: float = 0.0
    settled: bool = True
    failed: float = 0.0

    def __str__(self) -> str:
        if self.kind == "none":
            return "none: plain Laplace, the mean is the mode"
        text = (
            f"{self.kind}: means moved by {self.shift[0]:.2f} sd (rms; largest {self.shift[1]:.2f}), widths by a "
            f"factor {self.sd_ratio:.3f}, Monte-Carlo error {self.error:.3f} sd"
        )
        text += f", {self.failed:.0%} of the draws failed" if self.failed else ""
        return text if self.settled else text + "; did not come to rest, take it with care"


def mean_shift(slope: Slope, mode: FloatArray, precision: FloatArray) -> tuple[FloatArray, CorrectionRecord]:
    """The second-order mean. slope(λ) is ∇L, or None where it is not known."""
    factor = linalg.cholesky(precision, lower=True)
    centre = slope(mode)
    bend, failed = np.zeros_like(mode), 0
    for direction in linalg.solve_triangular(factor, np.eye(len(mode)), lower=True, trans="T").T:
        up, down = slope(mode + _STEP * direction), slope(mode - _STEP * direction)
        if up is None or down is None or centre is None:
            failed += 1
        else:
            bend += (up - 2.0 * centre + down) / _STEP**2
    mean = mode - 0.5 * linalg.cho_solve((factor, True), bend)
    return mean, _record("mean", mode, precision, mean, precision, failed=failed / max(len(mode), 1))


def sampled_shift(
    features: FloatArray, weight: float, mode: FloatArray, precision: FloatArray
) -> tuple[FloatArray, CorrectionRecord]:
    """The second-order mean from samples of x, λ_MP − ½ P⁻¹ N Cov(f, (f − κ)ᵀP⁻¹(f − κ)). features: f − κ."""
    factor = (linalg.cholesky(precision, lower=True), True)
    square = np.einsum("sf,sf->s", features, linalg.cho_solve(factor, features.T).T)
    shifts = []
    for part in np.array_split(np.arange(len(features)), _BATCHES):
        cross = features[part].T @ (square[part] - square.mean()) / len(part)
        shifts.append(-0.5 * weight * linalg.cho_solve(factor, cross))
    mean = mode + np.mean(shifts, axis=0)
    error = np.std(shifts, axis=0, ddof=1) / np.sqrt(_BATCHES) / _sd(precision)
    rms = float(np.sqrt(np.mean(error**2))) if len(mode) else 0.0
    return mean, _record("mean", mode, precision, mean, precision, error=rms)


def variational(
    slope: Slope, bend: Bend, mode: FloatArray, precision: FloatArray, rng: np.random.Generator, blocks: int = 2
) -> tuple[FloatArray, FloatArray, CorrectionRecord]:
    """The variational Gaussian: mean, precision, record. bend(λ) is (∇L, ∇²L), or None where they are not known.

    The curvature, which costs most and moves least, is averaged over the first block only.
    """
    slopes = [_flat(slope)] * (blocks - 1)
    draws = [_orthogonal_draws(len(mode), rng) for _ in range(blocks)]
    m, P = mode.copy(), precision.copy()
    settled, step, failed = False, 0, 0.0
    moves = np.zeros((blocks, len(mode)))
    while step < _MAX_STEPS and not settled:
        factor = linalg.cholesky(P, lower=True)
        curved, *rest = [_average(call, m, factor, z) for call, z in zip((bend, *slopes), draws, strict=True)]
        failed = float(np.mean([share for *_, share in (curved, *rest)]))
        if failed > 0.2:
            break
        moves = np.array([linalg.cho_solve((factor, True), g) for g, *_ in (curved, *rest)])
        new = (1.0 - _RATE) * P + _RATE * curved[1]
        before, after = _sd(P), _sd(new)
        move = _RATE * moves.mean(axis=0)
        m, P = m - move, new
        step += 1
        settled = max(np.abs(move / after).max(initial=0.0), np.abs(np.log(after / before)).max(initial=0.0)) < _SETTLED
    spread = moves.std(axis=0, ddof=1) / np.sqrt(blocks) if blocks > 1 else np.full(len(m), np.nan)
    error = float(np.sqrt(np.mean((spread / _sd(P)) ** 2))) if len(m) else 0.0
    if failed > 0.2:
        m, P = mode, precision
    record = _record("variational", mode, precision, m, P, step, error, settled, failed)
    return m, P, record


def _flat(slope: Slope) -> Bend:
    """A slope as a bend without curvature."""

    def call(parameters: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        gradient = slope(parameters)
        return None if gradient is None else (gradient, np.zeros(()))

    return call


def _orthogonal_draws(size: int, rng: np.random.Generator) -> FloatArray:
    """(draws, size): orthogonal frames with the lengths of standard normal vectors, scaled to their second moment."""
    count = min(size, _MAX_DIRECTIONS)
    frames = -(-_MIN_DIRECTIONS // max(count, 1))
    bases = [linalg.qr(rng.standard_normal((size, count)), mode="economic")[0].T for _ in range(frames)]
    lengths = np.sqrt(rng.chisquare(max(size, 1), frames * count))
    lengths *= np.sqrt(size / np.mean(lengths**2)) if size else 1.0
    result: FloatArray = np.concatenate(bases) * lengths[:, None]
    return result


def _average(bend: Bend, m: FloatArray, factor: FloatArray, z: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """E[g] and E[∇²L] over ±z, and the share of pairs that failed. A pair counts only if both of its draws do."""
    total, curvature, good = np.zeros_like(m), np.zeros(()), 0
    for offset in linalg.solve_triangular(factor, z.T, lower=True, trans="T").T:
        pair = [bend(m + offset), bend(m - offset)]
        if pair[0] is None or pair[1] is None:
            continue
        good += 1
        total += 0.5 * (pair[0][0] + pair[1][0])
        curvature = curvature + 0.5 * (pair[0][1] + pair[1][1])
    share = 1.0 - good / max(len(z), 1)
    return total / max(good, 1), curvature / max(good, 1), share


def _sd(precision: FloatArray) -> FloatArray:
    inverse = linalg.cho_solve((linalg.cholesky(precision, lower=True), True), np.eye(len(precision)))
    return np.sqrt(np.diag(inverse))


def _record(
    kind: str,
    mode: FloatArray,
    precision: FloatArray,
    mean: FloatArray,
    corrected: FloatArray,
    steps: int = 1,
    error: float = 0.0,
    settled: bool = True,
    failed: float = 0.0,
) -> CorrectionRecord:
    if not len(mode):
        return CorrectionRecord(kind)
    sd = _sd(precision)
    shift = np.abs(mean - mode) / sd
    ratio = float(np.median(_sd(corrected) / sd))
    return CorrectionRecord(
        kind, steps, (float(np.sqrt(np.mean(shift**2))), float(shift.max())), ratio, error, settled, failed
    )
