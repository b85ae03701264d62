"""Sparse Cholesky factors with selected inverses: analysed once for a pattern, then factorised for any values.

No library under a permissive licence that comes as a wheel has a supernodal Cholesky factor or gives what a selected
inverse needs; SuperLU, in SciPy, factorises unsymmetrically, column by column. So the fronts are ours (see
kernels.supernodal), and the arithmetic in them is BLAS's. Measured against SuperLU and CHOLMOD by
``python -m benchmarks scale``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from bayesfield import memory, parallel
from bayesfield.kernels.cholesky import selected, supernodal
from bayesfield.response.factors.factor import DenseFactor, DiagonalFactor, Factor, FormsFactor
from bayesfield.response.factors.pattern import Pattern, Walk, analyse
from bayesfield.types import FloatArray, IndefiniteCurvature, Outcome

if TYPE_CHECKING:
    from bayesfield.response.indicators import Sparse

_DENSE = 1200  # coordinates up to which a dense Cholesky factor is faster than a sparse one


class Cholesky(Factor):
    """L Lᵀ = the matrix with these entries. data: in the order in which the pattern was given."""

    def __init__(self, pattern: Pattern, data: FloatArray) -> None:
        self.pattern = pattern
        advice = "Take a smaller field, or a machine with more memory."
        memory.require(pattern.cost, "a sparse Cholesky factor", advice, share=0.9)
        self._values = np.empty(pattern.numbers)
        self._kept = np.empty(pattern.kept)
        sorted_data = data[pattern.source]
        p = pattern

        def walk(w: Walk) -> int:
            stack, scratch = np.empty(w.factor_stack), np.empty(w.scratch)
            return supernodal.factorise(
                p.fronts, w.nodes, p.kept_ptr, self._kept, sorted_data, self._values, stack, scratch
            )

        failed = [*parallel.blas_map(walk, p.tasks), walk(p.top)]
        if max(failed) >= 0:
            raise IndefiniteCurvature(Outcome.INDEFINITE.value)

    def solve(self, right: FloatArray) -> FloatArray:
        """The inverse times right, (n,) or (n, D)."""
        return self._columns(self._solve_one, right)

    def root(self, vectors: FloatArray) -> FloatArray:
        """Vectors with the matrix as covariance from standard normal ones, (n,) or (n, D)."""
        return self._columns(self._root_one, vectors)

    def _solve_one(self, vector: FloatArray) -> FloatArray:
        x = np.empty(len(vector))
        x[self.pattern.position] = vector
        supernodal.forward(self.pattern.fronts, self._values, x)
        supernodal.backward(self.pattern.fronts, self._values, x)
        return x[self.pattern.position]

    def _root_one(self, vector: FloatArray) -> FloatArray:
        out = np.empty(len(vector))
        supernodal.product(self.pattern.fronts, self._values, np.ascontiguousarray(vector), out)
        return out[self.pattern.position]

    @staticmethod
    def _columns(call: Callable[[FloatArray], FloatArray], vectors: FloatArray) -> FloatArray:
        if vectors.ndim == 1:
            return call(vectors)
        out = np.empty(vectors.shape)

        def one(k: int) -> None:
            out[:, k] = call(vectors[:, k])

        parallel.thread_map(one, range(vectors.shape[1]))
        return out

    @cached_property
    def log_det(self) -> float:
        return 2.0 * supernodal.log_diagonal(self.pattern.fronts, self._values)

    def inverse_entries(self) -> FloatArray:
        """The inverse at the pattern's entries, in the order in which they were given."""
        p = self.pattern
        found = np.empty(len(p.source))

        def walk(w: Walk) -> None:
            stack, scratch = np.empty(w.inverse_stack), np.empty(w.scratch)
            nodes = np.ascontiguousarray(w.nodes[::-1])
            supernodal.invert(p.fronts, nodes, p.kept_ptr, self._kept, self._values, stack, scratch, found)

        walk(p.top)
        parallel.blas_map(walk, p.tasks)
        out = np.empty(len(found))
        out[p.source] = found
        return out


class SparseFactor(FormsFactor):
    """Of a matrix that comes with no pattern known before."""

    def __init__(self, matrix: Sparse) -> None:
        self._lower = sparse.csc_array(sparse.tril(matrix + 0.0 * sparse.eye_array(matrix.shape[0])))
        self._lower.sort_indices()
        entries = self._lower.tocoo()
        pattern = analyse(entries.row.astype(np.int64), entries.col.astype(np.int64), matrix.shape[0])
        self._factor = Cholesky(pattern, self._lower.data)

    def solve(self, right: FloatArray) -> FloatArray:
        return self._factor.solve(right)

    def root(self, noise: FloatArray) -> FloatArray:
        return self._factor.root(noise)

    @cached_property
    def log_det(self) -> float:
        return self._factor.log_det

    def inverse_forms(self, rows: Sparse) -> FloatArray:
        out = np.empty(rows.shape[0])
        Z, given = self._lower, rows.tocsr()
        known = self._factor.inverse_entries()
        selected.quadratic_forms(Z.indptr, Z.indices, known, given.indptr, given.indices, given.data, out)
        return out


def factorise(matrix: Sparse) -> FormsFactor:
    """Refuses a matrix that is not positive definite."""
    if matrix.nnz <= matrix.shape[0] and matrix.nnz == np.count_nonzero(matrix.diagonal()):
        return DiagonalFactor(matrix.diagonal())
    if matrix.shape[0] <= _DENSE:
        return DenseFactor(matrix.toarray())
    return SparseFactor(matrix)
