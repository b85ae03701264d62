"""What every covariance of the features can do; an engine only has to multiply tables."""

from abc import ABC, abstractmethod

import numpy as np
from scipy import linalg

from bayesfield import memory
from bayesfield.graph import Design
from bayesfield.types import Cost, FloatArray, IntArray

_CHUNK_NUMBERS = 4_000_000  # size of a (T, D) slab of directions


class Response(ABC):
    """The covariance operator C = Aᵀ Cov(b) A of the features, at one point."""

    def __init__(self, design: Design) -> None:
        self.design = design

    @property
    def size(self) -> int:
        """F."""
        return int(self.design.matrix.shape[1])

    @abstractmethod
    def table_product(self, directions: FloatArray) -> FloatArray:
        """Cov(b) · directions: how all beliefs (T, D) change when θ moves along each column (T, D)."""

    def product(self, vectors: FloatArray) -> FloatArray:
        """C · vectors, for (F,) or (F, D)."""
        columns = vectors if vectors.ndim == 2 else vectors[:, None]
        out = np.empty((self.size, columns.shape[1]))
        step = max(1, _CHUNK_NUMBERS // max(self.design.matrix.shape[0], 1))
        for k in range(0, columns.shape[1], step):
            moved = self.table_product(np.ascontiguousarray(self.design.matrix @ columns[:, k : k + step]))
            out[:, k : k + step] = self.design.transpose @ moved
        return out if vectors.ndim == 2 else out[:, 0]

    def covariance(self) -> FloatArray:
        """C, dense (F, F)."""
        require_dense(self.size, "the full covariance")
        result = self.product(np.eye(self.size))
        return (result + result.T) / 2

    def columns(self, parameters: IntArray) -> FloatArray:
        """C[:, parameters]."""
        unit = np.zeros((self.size, len(parameters)))
        unit[parameters, np.arange(len(parameters))] = 1.0
        return self.product(unit)

    def entries(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """C[rows[k], columns[k]] for every k."""
        needed, where = np.unique(columns, return_inverse=True)
        result: FloatArray = self.columns(needed)[rows, where.reshape(-1)]
        return result

    def diagonal(self) -> FloatArray:
        """Variance of every feature."""
        result: FloatArray = np.diag(self.covariance()).copy()
        return result

    def solve(self, vectors: FloatArray, weight: float, ridge: FloatArray) -> FloatArray:
        """(weight·C + diag(ridge))⁻¹ · vectors."""
        matrix = weight * self.covariance() + np.diag(ridge)
        result: FloatArray = linalg.solve(matrix, vectors, assume_a="pos")
        return result


def require_dense(size: int, what: str) -> None:
    """Refuse an (F, F) matrix that does not fit (with room for a factor and a temporary)."""
    memory.require(
        Cost(size * size, 24 * size * size, f"dense {size} × {size} matrices"),
        what,
        "Ask for the entries, products or the diagonal you need, or tie parameters.",
    )
