"""A prior precision that ties parameters to one another by a small matrix that is repeated: Λ⁻¹ = diag + K⁻¹ ⊗ I.

Weights W (D, G) of D inputs and G labels, the column of each label with the same covariance K (D, D): one D × D matrix
stands for (DG)² numbers, and products cost D²G.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from bayesfield.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Coupling:
    """members: (D, G) parameters, each at most once. covariance: K, (D, D), of every column. apart: (F,) the prior
    precisions of the parameters that are no members, 0 for those that are."""

    members: IntArray
    covariance: FloatArray
    apart: FloatArray

    @cached_property
    def precision(self) -> FloatArray:
        """K⁻¹, (D, D)."""
        inverse: FloatArray = linalg.cho_solve((self._lower, True), np.eye(len(self.covariance)))
        return (inverse + inverse.T) / 2

    @cached_property
    def _lower(self) -> FloatArray:
        result: FloatArray = linalg.cholesky(self.covariance, lower=True)
        return result

    @property
    def tables(self) -> int:
        """G."""
        return int(self.members.shape[1])

    @cached_property
    def is_apart(self) -> IntArray:
        """The parameters that are no members."""
        return np.setdiff1d(np.arange(len(self.apart)), self.members)

    @property
    def log_det(self) -> float:
        """log det of the members' part of Λ⁻¹."""
        return -2.0 * self.tables * float(np.log(np.diag(self._lower)).sum())

    def added(self, total: FloatArray, vectors: FloatArray) -> FloatArray:
        """total plus the members' part of Λ⁻¹ · vectors, for (F,) or (F, C); total is changed in place."""
        return self._added(total, vectors, self.precision)

    def rooted(self, total: FloatArray, noise: FloatArray) -> FloatArray:
        """total, with the members' part a draw from N(0, K⁻¹ ⊗ I) made of standard normal numbers (F, C)."""
        inverse_root = linalg.solve_triangular(self._lower, np.eye(len(self.covariance)), lower=True).T
        return self._added(total, noise, inverse_root)

    def _added(self, total: FloatArray, vectors: FloatArray, matrix: FloatArray) -> FloatArray:
        flat = vectors[self.members.ravel()]
        total[self.members.ravel()] += (matrix @ flat.reshape(len(matrix), -1)).reshape(flat.shape)
        return total

    def scattered(self, rows: FloatArray) -> FloatArray:
        """A number of each input, (D,), at all of its parameters, (F,), 0 elsewhere."""
        result = np.zeros(len(self.apart))
        result[self.members] = rows[:, None]
        return result

    def add_to(self, matrix: FloatArray) -> FloatArray:
        """The matrix (F, F) plus the members' part of Λ⁻¹, in place."""
        for column in self.members.T:
            matrix[np.ix_(column, column)] += self.precision
        return matrix

    def covariance_of_all(self) -> FloatArray:
        """Λ, (F, F)."""
        result = np.zeros((len(self.apart), len(self.apart)))
        result[self.is_apart, self.is_apart] = 1.0 / self.apart[self.is_apart]
        for column in self.members.T:
            result[np.ix_(column, column)] += self.covariance
        return result
