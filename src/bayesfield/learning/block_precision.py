"""A posterior precision by blocks, for conditional fields with very many inputs.

One block for each input, over its weights for all labels, and one for all transitions. What is left out: whatever ties
different inputs, different positions, or labels and transitions to one another. A block's inverse is the covariance
*given all other weights*, so that its widths are too narrow where inputs go together; they say
how well the data pin down an input's own weights, and no more.
"""

import numpy as np

from bayesfield.learning.precision import DensePrecision, Precision
from bayesfield.types import FloatArray, IndefiniteCurvature, Outcome


class BlockPrecision(Precision):
    """blocks: (D, G, G), parameters in this order; rest: the block of all others."""

    form = "block"

    def __init__(self, blocks: FloatArray, rest: FloatArray) -> None:
        self.blocks, self._rest = blocks, DensePrecision(rest)
        try:
            self._lower: FloatArray = np.linalg.inv(np.linalg.cholesky(blocks))
        except np.linalg.LinAlgError:
            raise IndefiniteCurvature(Outcome.INDEFINITE.value) from None

    @property
    def rest(self) -> FloatArray:
        """The block of all others."""
        return self._rest.matrix()

    @property
    def size(self) -> int:
        return self._split + self._rest.size

    @property
    def _split(self) -> int:
        return int(self.blocks.shape[0] * self.blocks.shape[1])

    def product(self, vectors: FloatArray) -> FloatArray:
        return self._joined(np.matmul(self.blocks, self._parts(vectors)), self._rest.product(vectors[self._split :]))

    def solve(self, vectors: FloatArray) -> FloatArray:
        half = np.matmul(self._lower, self._parts(vectors))
        inside = np.matmul(self._lower.transpose(0, 2, 1), half)
        return self._joined(inside, self._rest.solve(vectors[self._split :]))

    def draws(self, noise: FloatArray) -> FloatArray:
        inside = np.matmul(self._lower.transpose(0, 2, 1), self._parts(noise))
        return self._joined(inside, self._rest.draws(noise[self._split :]))

    @property
    def sd(self) -> FloatArray:
        inside = np.sqrt(np.sum(self._lower**2, axis=1)).ravel()
        return np.concatenate([inside, self._rest.sd])

    @property
    def log_det(self) -> float:
        """Of P with what ties the blocks left out: too large."""
        inside = -2.0 * float(np.log(np.diagonal(self._lower, axis1=1, axis2=2)).sum())
        return inside + self._rest.log_det

    def _parts(self, vectors: FloatArray) -> FloatArray:
        """(D, G, columns)."""
        return vectors[: self._split].reshape(self.blocks.shape[0], self.blocks.shape[1], -1)

    def _joined(self, inside: FloatArray, rest: FloatArray) -> FloatArray:
        return np.concatenate([inside.reshape(self._split, *rest.shape[1:]), rest])
