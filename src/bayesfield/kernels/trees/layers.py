"""Two layers of binary variables, the smaller one summed over: log p̃(h) = bᵀh + Σ_i log(1 + exp(a_i + W_i h)).

The states h fall into *slow* bits, which change from row to row, and *fast* ones, the columns of a row. Then
exp(a_i + W_i h) = u_i v_i with u of the slow bits and v of the fast ones: no exponential for a single state, and a
logarithm only where a product of 1 + u v would grow too large. State h is row · 2^fast + column; bit 0 is the lowest.
"""

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray

_ROOM = 600.0  # of the exponents that one product may gather; the largest number is e^709


@jit
def layer_weights(a: FloatArray, b: FloatArray, W: FloatArray, fast: int, out: FloatArray) -> None:
    """log p̃(h) of all states, out (rows, columns). a: (L,). b: (s,). W: (L, s), all a_i + Σ_j |W_ij| below 600."""
    rows, columns = out.shape
    v, top = _columns(W, fast)
    base = _sums(b, 0, fast)
    product = np.empty(columns)
    for r in range(rows):
        out[r] = base
        out[r] += _at(b, fast, r)
        product[:] = 1.0
        gathered = 0.0
        for i in range(len(a)):
            x = a[i] + _at(W[i], fast, r)
            bound = max(x + top[i], 0.0) + 0.7
            if gathered + bound > _ROOM:
                for k in range(columns):
                    out[r, k] += np.log(product[k])
                    product[k] = 1.0
                gathered = 0.0
            gathered += bound
            u = np.exp(x)
            own = v[i]
            for k in range(columns):
                product[k] *= 1.0 + u * own[k]
        for k in range(columns):
            out[r, k] += np.log(product[k])


@jit
def layer_means(
    a: FloatArray, W: FloatArray, fast: int, p: FloatArray, by_row: FloatArray, by_column: FloatArray
) -> None:
    """Σ over the columns of p(h) P(x_i = 1|h), by_row (L, rows), and over the rows, by_column (L, columns).

    p: (rows, columns) probabilities of the states.
    """
    rows, columns = p.shape
    v, _ = _columns(W, fast)
    by_column[:] = 0.0
    for r in range(rows):
        here = p[r]
        for i in range(len(a)):
            u = np.exp(a[i] + _at(W[i], fast, r))
            own, sums = v[i], by_column[i]
            total = 0.0
            for k in range(columns):
                odds = u * own[k]
                q = here[k] * odds / (1.0 + odds)
                sums[k] += q
                total += q
            by_row[i, r] = total


@jit
def _columns(W: FloatArray, fast: int) -> tuple[FloatArray, FloatArray]:
    """exp(W_i h) over the fast bits, (L, 2^fast), and the largest exponent of each row of it, (L,)."""
    v, top = np.empty((len(W), 2**fast)), np.empty(len(W))
    for i in range(len(W)):
        sums = _sums(W[i], 0, fast)
        top[i] = sums.max()
        v[i] = np.exp(sums)
    return v, top


@jit
def _sums(w: FloatArray, first: int, bits: int) -> FloatArray:
    """Σ_j w_j h_j over all states of so many bits, by doubling."""
    out = np.zeros(2**bits)
    for j in range(bits):
        for k in range(2**j):
            out[2**j + k] = out[k] + w[first + j]
    return out


@jit
def _at(w: FloatArray, first: int, state: int) -> float:
    """Σ_j w_j h_j over the bits of one state, from w[first] on."""
    total, j = 0.0, first
    while state:
        if state & 1:
            total += w[j]
        state >>= 1
        j += 1
    return total
