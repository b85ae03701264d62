"""What a correction did, and what it leaves."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayesfield.learning.precision.base import Precision
from bayesfield.types import FloatArray


@dataclass(frozen=True)
class CorrectionRecord:
    """What a correction did.

    kind: "none", "mean", "variational", or "expectation propagation" for what that found. steps: natural-gradient
    steps. shift: root mean square and largest move of the mean, in Laplace standard deviations: how non-Gaussian the
    posterior looked. sd_ratio: median of corrected over Laplace sd. error: Monte-Carlo error of the means, root mean
    square in posterior sd. settled: whether the steps converged. failed: share of draws at which the engine gave no
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
        return text if self.settled else text + "; did not converge, take it with care"


class Corrected(NamedTuple):
    """What a correction leaves. skewness: (F,) of every marginal; None where it was not estimated."""

    mean: FloatArray
    precision: Precision
    record: CorrectionRecord
    skewness: FloatArray | None = None


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
    """With the record of how far the mean and the widths moved from Laplace's."""
    if not len(mode):
        return Corrected(mean, precision, CorrectionRecord(kind))
    shift = np.abs(mean - mode) / laplace.sd
    ratio = float(np.median(precision.sd / laplace.sd))
    moved = float(np.sqrt(np.mean(shift**2))), float(shift.max())
    return Corrected(mean, precision, CorrectionRecord(kind, steps, moved, ratio, error, settled, failed))
