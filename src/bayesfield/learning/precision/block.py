"""A posterior precision by blocks, where there are very many parameters.

Of a conditional field, one block for each input, over its weights for all labels, and one for all transitions; of a
pseudo-likelihood, one for each edge (learning.pair_blocks). What is left out: whatever ties blocks to one another. A
block's inverse is the covariance *given all other parameters*, so that its widths are too narrow where blocks go
together; they say how well the data pin down a block's own parameters, and no more.
"""

import numpy as np

from bayesfield.learning.precision.base import Precision
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.types import FloatArray, IndefiniteCurvature, IntArray, Outcome


class BlockPrecision(Precision):
    """blocks: (D, G, G); rest: the block of all others. order: which parameters these are, one after the other; by
    default all in their own order.
    """

    form = "block"

    def __init__(self, blocks: FloatArray, rest: FloatArray, order: IntArray | None = None) -> None:
        self.blocks, self._rest, self.order = blocks, DensePrecision(rest), order
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
        own = self._ordered(vectors)
        return self._joined(np.matmul(self.blocks, self._parts(own)), self._rest.product(own[self._split :]))

    def solve(self, vectors: FloatArray) -> FloatArray:
        own = self._ordered(vectors)
        half = np.matmul(self._lower, self._parts(own))
        inside = np.matmul(self._lower.transpose(0, 2, 1), half)
        return self._joined(inside, self._rest.solve(own[self._split :]))

    def draws(self, noise: FloatArray) -> FloatArray:
        inside = np.matmul(self._lower.transpose(0, 2, 1), self._parts(noise))
        return self._joined(inside, self._rest.draws(noise[self._split :]))

    @property
    def sd(self) -> FloatArray:
        inside = np.sqrt(np.sum(self._lower**2, axis=1)).ravel()
        return self._unordered(np.concatenate([inside, self._rest.sd]))

    @property
    def log_det(self) -> float:
        """Of P with what ties the blocks left out: too large."""
        inside = -2.0 * float(np.log(np.diagonal(self._lower, axis1=1, axis2=2)).sum())
        return inside + self._rest.log_det

    def _parts(self, vectors: FloatArray) -> FloatArray:
        """(D, G, columns)."""
        return vectors[: self._split].reshape(self.blocks.shape[0], self.blocks.shape[1], -1)

    def _joined(self, inside: FloatArray, rest: FloatArray) -> FloatArray:
        return self._unordered(np.concatenate([inside.reshape(self._split, *rest.shape[1:]), rest]))

    def _ordered(self, vectors: FloatArray) -> FloatArray:
        return vectors if self.order is None else vectors[self.order]

    def _unordered(self, vectors: FloatArray) -> FloatArray:
        if self.order is None:
            return vectors
        result = np.empty_like(vectors)
        result[self.order] = vectors
        return result
