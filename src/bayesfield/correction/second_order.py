"""From the mode to the mean, to second order: E[λ] ≈ λ_MP − ½ P⁻¹ Σ_k ∂²g/∂t_k², with t_k along the columns of P⁻ᐟ².

g = ∇L of the negative log posterior L, P = ∇²L. From samples of x the sum is a covariance. The variational refinement,
which goes beyond, is in correction.variational. Here, too: the record that every correction leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesfield.model.prior import GONE
from bayesfield.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from bayesfield.correction.importance import Comparison
    from bayesfield.correction.marginals import Marginals
    from bayesfield.learning.objective import Objective
    from bayesfield.learning.precision.base import Precision

TIME_UP = "stopped by time_limit"  # the reason of a correction that had no time to converge
FAR = "far from a Gaussian"  # what a record's reason begins with where no correction is believed
_STEP = 0.1  # of the second differences, in posterior standard deviations
_BATCHES = 8  # of samples, whose spread is the Monte-Carlo error
MAX_DIRECTIONS = 400  # of second differences; beyond it, random directions stand for all

Slopes = Callable[[FloatArray], tuple[FloatArray, BoolArray]]  # ∇L at (S, F): (S, F), and where there is one (S,)


def slopes_of(objective: Objective) -> Slopes:
    """∇L of an objective at each of some parameters, and at which of them inference converged."""

    def slopes(points: FloatArray) -> tuple[FloatArray, BoolArray]:
        answers = objective.at_many(points)
        return answers.gradients, np.isfinite(answers.values)

    return slopes


@dataclass(frozen=True)
class CorrectionRecord:
    """What a correction did.

    kind: "none", "mean", "variational", "draws", "profile", or "expectation propagation" for what that found. steps:
    natural-gradient steps; of profiles, evaluations. shift: root mean square and largest move of the mean, in Laplace
    standard deviations: how non-Gaussian the posterior looked. sd_ratio: median of corrected over Laplace sd. error:
    Monte-Carlo error of the means, root mean square in posterior sd. settled: whether the steps converged. failed:
    share of draws at which the engine gave no answer. reason: why this kind, where it was chosen. skewness: the largest
    of any marginal. effective: how many independent draws a posterior made of draws is worth; 0 for the others.
    partial: whether marginals that were not profiled may lean as those that were.
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
    effective: float = 0.0
    partial: bool = False

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        if self.kind == "none":
            return f"none{why}: plain Laplace, the mean is the mode"
        text = (
            f"{self.kind}{why}: means moved by {self.shift[0]:.2f} sd (rms; largest {self.shift[1]:.2f}), widths by a "
            f"factor {self.sd_ratio:.3f}, skewness up to {self.skewness:.2f}, Monte-Carlo error {self.error:.3f} sd"
        )
        text += f", worth {self.effective:,.0f} independent draws" if self.effective else ""
        text += f", {self.failed:.0%} of the draws failed" if self.failed else ""
        return text if self.settled else text + "; did not converge, take it with care"


class Corrected(NamedTuple):
    """What a correction leaves. skewness: (F,) of every marginal; None where it was not estimated. marginals: where
    they are those of draws or profiles (correction.marginals). compared: with draws that are weighted."""

    mean: FloatArray
    precision: Precision
    record: CorrectionRecord
    skewness: FloatArray | None = None
    marginals: Marginals | None = None
    compared: Comparison | None = None


def corrected(
    kind: str,
    mode: FloatArray,
    laplace: Precision,
    mean: FloatArray,
    precision: Precision,
    steps: int = 1,
    error: float = 0.0,
    settled: bool = True,
    failed: float = 0.0,
) -> Corrected:
    """With the record of how far the mean and the widths moved from Laplace's. Parameters that were left out, which
    cannot move, do not count."""
    if not len(mode):
        return Corrected(mean, precision, CorrectionRecord(kind))
    there = laplace.sd > 2.0 * GONE**-0.5
    there = there if there.any() else np.ones(len(mode), dtype=np.bool_)
    shift = (np.abs(mean - mode) / laplace.sd)[there]
    ratio = float(np.median((precision.sd / laplace.sd)[there]))
    moved = float(np.sqrt(np.mean(shift**2))), float(shift.max())
    return Corrected(mean, precision, CorrectionRecord(kind, steps, moved, ratio, error, settled, failed))


def mean_shift(objective: Objective, mode: FloatArray, precision: Precision, rng: np.random.Generator) -> Corrected:
    """The second-order mean.

    With more than some hundreds of parameters, along random draws: Σ_k ∂²g/∂t_k² = E[∂²g/∂t²] for t ~ N(0, P⁻¹).
    """
    found = second_differences(slopes_of(objective), mode, precision, rng, objective.second_derivatives)
    if not len(found.each):
        return corrected("mean", mode, precision, mode, precision, failed=found.failed, settled=False)
    shift, error = -0.5 * precision.solve(found.total), 0.0
    if not found.whole:
        parts = [np.mean(part, axis=0) for part in np.array_split(found.each, _BATCHES)]
        moves = -0.5 * precision.solve(np.array(parts).T).T / precision.sd
        error = _rms(moves.std(axis=0, ddof=1) / np.sqrt(_BATCHES))
    return corrected("mean", mode, precision, mode + shift, precision, error=error, failed=found.failed)


class SecondDifferences(NamedTuple):
    """Of a slope along P⁻ᐟ². each: (directions, F). whole: whether along all, or random ones."""

    each: FloatArray
    whole: bool
    failed: float

    @property
    def total(self) -> FloatArray:
        """Σ_k ∂²g/∂t_k², (F,)."""
        result: FloatArray = self.each.sum(axis=0) if self.whole else self.each.mean(axis=0)
        return result


def second_differences(
    slopes: Slopes,
    mode: FloatArray,
    precision: Precision,
    rng: np.random.Generator,
    exactly: Callable[[FloatArray, FloatArray], FloatArray | None] | None = None,
) -> SecondDifferences:
    """Along the columns of P⁻ᐟ², or along random draws where they are many. exactly: derivatives, where known."""
    size = len(mode)
    whole = precision.form == "dense" and size <= MAX_DIRECTIONS
    along = precision.draws(np.eye(size)) if whole else precision.sample(rng, MAX_DIRECTIONS)
    derivatives = None if exactly is None else exactly(mode, along)
    if derivatives is not None:
        return SecondDifferences(derivatives.T, whole, 0.0)
    length = _STEP if whole else _STEP / np.sqrt(size)
    steps = length * along.T
    gradients, good = slopes(np.concatenate([mode[None], mode + steps, mode - steps]))
    count = len(steps)
    fine = good[0] & good[1 : count + 1] & good[count + 1 :]
    each = (gradients[1 : count + 1] - 2.0 * gradients[0] + gradients[count + 1 :])[fine] / length**2
    return SecondDifferences(each, whole, 1.0 - float(fine.sum()) / max(count, 1))


def sampled_shift(
    features: FloatArray, weight: float, mode: FloatArray, precision: Precision, of_data: FloatArray | float = 0.0
) -> Corrected:
    """The second-order mean from samples of x, λ_MP − ½ P⁻¹ N Cov(f, (f − κ)ᵀP⁻¹(f − κ)). features: f − κ.

    of_data: Σ_k ∂²/∂t_k² of N f̄(λ), where variables are hidden; it is taken off. The share of the shift that its
    scatter over batches says is noise is taken back (James & Stein): with thousands of parameters all are a little off.
    """
    square = precision.squares(features)
    shifts = []
    for part in np.array_split(np.arange(len(features)), _BATCHES):
        cross = features[part].T @ (square[part] - square.mean()) / len(part)
        shifts.append(-0.5 * precision.solve(weight * cross - of_data))
    shift = np.mean(shifts, axis=0)
    error = _rms(np.std(shifts, axis=0, ddof=1) / np.sqrt(_BATCHES) / precision.sd)
    kept = max(0.0, 1.0 - (error / max(_rms(shift / precision.sd), 1e-300)) ** 2)
    return corrected("mean", mode, precision, mode + kept * shift, precision, error=kept * error)


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(values**2))) if len(values) else 0.0
