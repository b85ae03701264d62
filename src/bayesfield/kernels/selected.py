"""Entries of the inverse of a sparse symmetric matrix, where its Cholesky factor has entries (Takahashi's equations).

With B = L D Lᵀ, L unit lower triangular, Z = B⁻¹ fulfils Z = D⁻¹L⁻¹ + (I − Lᵀ) Z. Column by column from the last,

    Z_ij = −Σ_k Z_ik L_kj for i in the column's pattern,   Z_jj = 1/D_j − Σ_k Z_kj L_kj,   k in the pattern of column j,

and all Z that this needs lie in the pattern of L. A factor that leaves out entries which have underflowed to zero, as
between sites far apart, leaves out Z that are as small.
"""

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray


@jit
def selected_inverse(
    ptr: np.ndarray, row: np.ndarray, value: FloatArray, pivot: FloatArray, off: FloatArray, diagonal: FloatArray
) -> None:
    """L below its diagonal by columns (ptr, row ascending, value) and D to Z: off as value, diagonal (n,)."""
    n = len(pivot)
    place = np.full(n, -1, dtype=np.int64)  # of a row in the present column
    total = np.empty(n)
    for j in range(n - 1, -1, -1):
        first, last = ptr[j], ptr[j + 1]
        for a in range(first, last):
            place[row[a]] = a - first
            total[a - first] = 0.0
        for a in range(first, last):
            k, weight = row[a], value[a]
            total[a - first] += diagonal[k] * weight
            for b in range(ptr[k], ptr[k + 1]):
                at = place[row[b]]
                if at >= 0:
                    total[at] += off[b] * weight
                    total[a - first] += off[b] * value[first + at]
        own = 1.0 / pivot[j]
        for a in range(first, last):
            off[a] = -total[a - first]
            own -= off[a] * value[a]
            place[row[a]] = -1
        diagonal[j] = own


@jit
def _entry(ptr: np.ndarray, row: np.ndarray, off: FloatArray, diagonal: FloatArray, i: int, j: int) -> float:
    """Z_ij; zero where L has underflowed."""
    if i == j:
        return diagonal[i]
    low, high = (i, j) if i < j else (j, i)
    first, last = ptr[low], ptr[low + 1]
    while first < last:
        middle = (first + last) // 2
        if row[middle] < high:
            first = middle + 1
        else:
            last = middle
    if first < ptr[low + 1] and row[first] == high:
        return off[first]
    return 0.0


@jit
def quadratic_forms(
    ptr: np.ndarray,
    row: np.ndarray,
    off: FloatArray,
    diagonal: FloatArray,
    position: np.ndarray,
    row_ptr: np.ndarray,
    column: np.ndarray,
    weight: FloatArray,
    out: FloatArray,
) -> None:
    """out_k = Σ_uv W_ku Z_uv W_kv for the rows of W (row_ptr, column, weight); position: of a column in Z's order."""
    for k in range(len(out)):
        total = 0.0
        for a in range(row_ptr[k], row_ptr[k + 1]):
            u = position[column[a]]
            total += weight[a] * weight[a] * diagonal[u]
            for b in range(row_ptr[k], a):
                total += 2.0 * weight[a] * weight[b] * _entry(ptr, row, off, diagonal, u, position[column[b]])
        out[k] = total
