"""Inputs times weights: a sparse row for each position, a dense row of weights for each input."""

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray


@jit
def times(
    ptr: np.ndarray, column: np.ndarray, value: FloatArray, weights: FloatArray, first: int, last: int, out: FloatArray
) -> None:
    """out[t] = Σ_d x_td weights[d] for the positions first … last; weights (D, K), out (P, K)."""
    K = weights.shape[1]
    for t in range(first, last):
        row = out[t]
        for k in range(K):
            row[k] = 0.0
        for e in range(ptr[t], ptr[t + 1]):
            x, w = value[e], weights[column[e]]
            for k in range(K):
                row[k] += x * w[k]


@jit
def transposed(
    ptr: np.ndarray, column: np.ndarray, value: FloatArray, rows: FloatArray, first: int, last: int, out: FloatArray
) -> None:
    """out[d] += Σ_t x_td rows[t] over the positions first … last; rows (P, K), out (D, K)."""
    K = rows.shape[1]
    for t in range(first, last):
        row = rows[t]
        for e in range(ptr[t], ptr[t + 1]):
            x, sums = value[e], out[column[e]]
            for k in range(K):
                sums[k] += x * row[k]
