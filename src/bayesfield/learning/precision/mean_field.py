"""A posterior precision that is its diagonal: all weights independent, where there are very many.

Its widths are those of a mean-field posterior, p = E_q[diag ∇²L]: how well each weight is known given all others.
Means, widths and averaged predictions belong together (correction.mean_field); covariances that are asked for come from
linear response at the averaged curvature.
"""

import numpy as np

from bayesfield.learning.precision.base import Precision
from bayesfield.types import FloatArray, IndefiniteCurvature, Outcome


class DiagonalPrecision(Precision):
    """diagonal: p, (F,), above zero."""

    form = "mean-field"

    def __init__(self, diagonal: FloatArray) -> None:
        if not (diagonal > 0.0).all():
            raise IndefiniteCurvature(Outcome.INDEFINITE.value)
        self.diagonal = diagonal

    @property
    def size(self) -> int:
        return len(self.diagonal)

    def product(self, vectors: FloatArray) -> FloatArray:
        return self._column(vectors) * vectors

    def solve(self, vectors: FloatArray) -> FloatArray:
        return vectors / self._column(vectors)

    def draws(self, noise: FloatArray) -> FloatArray:
        return noise / np.sqrt(self._column(noise))

    @property
    def sd(self) -> FloatArray:
        result: FloatArray = 1.0 / np.sqrt(self.diagonal)
        return result

    @property
    def log_det(self) -> float:
        return float(np.log(self.diagonal).sum())

    def _column(self, vectors: FloatArray) -> FloatArray:
        return self.diagonal if vectors.ndim == 1 else self.diagonal[:, None]
