"""What every covariance of the features can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from bayesfield import memory
from bayesfield.types import Cost, FloatArray, IndefiniteCurvature, IntArray, Outcome, TooLarge

if TYPE_CHECKING:
    from bayesfield.graph.compiled import Design

_SURE = 500  # rows of a matrix that always fits
_SLAB = 4_000_000  # numbers in a (T, D) slab of directions


class Response(ABC):
    """The covariance C = Aᵀ Cov(b) A of the features at one point; prepared once, asked many times."""

    def __init__(self, design: Design) -> None:
        self.design = design

    @property
    def size(self) -> int:
        """F."""
        return int(self.design.matrix.shape[1])

    @abstractmethod
    def product(self, vectors: FloatArray) -> FloatArray:
        """C · vectors, for (F,) or (F, D)."""

    def second_derivatives(self, directions: FloatArray) -> FloatArray | None:
        """d²E[f]/dt² along each column t of directions, (F, D); None where only differences tell."""
        return None

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
        """The variance of every feature."""
        step = max(1, _SLAB // max(self.size, 1))
        parts = [
            self.columns(k := np.arange(start, min(start + step, self.size)))[k, np.arange(len(k))]
            for start in range(0, self.size, step)
        ]
        return np.concatenate(parts) if parts else np.empty(0)

    def solve(self, vectors: FloatArray, weight: float, ridge: FloatArray) -> FloatArray:
        """(weight·C + diag(ridge))⁻¹ · vectors."""
        matrix = weight * self.covariance() + np.diag(ridge)
        try:
            factor = linalg.cho_factor(matrix)
        except linalg.LinAlgError:
            raise IndefiniteCurvature(Outcome.INDEFINITE.value) from None
        result: FloatArray = linalg.cho_solve(factor, vectors)
        return result


class TableResponse(Response):
    """A response that knows how all tables move: products go through θ̇ = Av and Aᵀḃ."""

    @abstractmethod
    def table_product(self, directions: FloatArray) -> FloatArray:
        """Cov(b) · directions: how all beliefs (T, D) change when θ moves along each column (T, D)."""

    def product(self, vectors: FloatArray) -> FloatArray:
        columns = vectors if vectors.ndim == 2 else vectors[:, None]
        out = np.empty((self.size, columns.shape[1]))
        step = max(1, _SLAB // max(self.design.matrix.shape[0], 1))
        for k in range(0, columns.shape[1], step):
            moved = self.table_product(np.ascontiguousarray(self.design.matrix @ columns[:, k : k + step]))
            out[:, k : k + step] = self.design.transpose @ moved
        return out if vectors.ndim == 2 else out[:, 0]


class MatrixResponse(Response):
    """C as it was computed."""

    def __init__(self, matrix: FloatArray) -> None:
        self._matrix = matrix

    @property
    def size(self) -> int:
        return len(self._matrix)

    def product(self, vectors: FloatArray) -> FloatArray:
        return self._matrix @ vectors

    def covariance(self) -> FloatArray:
        return self._matrix.copy()


class WeightedResponse(Response):
    """Σ_k w_k C_k. With negative weights, positive semi-definite at an optimum of the objective only."""

    def __init__(self, parts: Sequence[tuple[float, Response]]) -> None:
        self.parts = tuple(parts)

    @property
    def size(self) -> int:
        return self.parts[0][1].size

    def product(self, vectors: FloatArray) -> FloatArray:
        (weight, first), *rest = self.parts
        result = weight * first.product(vectors)
        for weight, response in rest:
            result += weight * response.product(vectors)
        return result

    def covariance(self) -> FloatArray:
        (weight, first), *rest = self.parts
        result = weight * first.covariance()
        for weight, response in rest:
            result += weight * response.covariance()
        return result

    def second_derivatives(self, directions: FloatArray) -> FloatArray | None:
        total: FloatArray | None = None
        for weight, response in self.parts:
            found = response.second_derivatives(directions)
            if found is None:
                return None
            total = weight * found if total is None else total + weight * found
        return total


def fits_dense(size: int) -> bool:
    """Whether ``require_dense`` would let an (F, F) matrix pass."""
    try:
        require_dense(size, "it")
    except TooLarge:
        return False
    return True


def require_dense(
    size: int, what: str, advice: str = "Ask for the entries, products or the diagonal you need."
) -> None:
    """Refuse an (F, F) matrix that does not fit (with room for a factor and a temporary)."""
    if size <= _SURE:
        return
    memory.require(Cost(size * size, 24 * size * size, f"dense {size:,} × {size:,} matrices"), what, advice)
