"""Quadratic forms with a sparse symmetric matrix that is known at some entries only."""

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray


@jit
def _entry(ptr: np.ndarray, row: np.ndarray, value: FloatArray, i: int, j: int) -> float:
    """Z_ij; zero where it is not known."""
    low, high = (i, j) if i < j else (j, i)
    first, last = ptr[low], ptr[low + 1]
    while first < last:
        middle = (first + last) // 2
        if row[middle] < high:
            first = middle + 1
        else:
            last = middle
    if first < ptr[low + 1] and row[first] == high:
        return value[first]
    return 0.0


@jit
def quadratic_forms(
    ptr: np.ndarray,
    row: np.ndarray,
    value: FloatArray,
    row_ptr: np.ndarray,
    column: np.ndarray,
    weight: FloatArray,
    out: FloatArray,
) -> None:
    """out_k = Σ_uv W_ku Z_uv W_kv for the rows of W (row_ptr, column, weight).

    Z: by columns, the diagonal and below (ptr, row ascending, value).
    """
    for k in range(len(out)):
        total = 0.0
        for a in range(row_ptr[k], row_ptr[k + 1]):
            u = column[a]
            total += weight[a] * weight[a] * _entry(ptr, row, value, u, u)
            for b in range(row_ptr[k], a):
                total += 2.0 * weight[a] * weight[b] * _entry(ptr, row, value, u, column[b])
        out[k] = total
