"""Conditionals of fields of pairs whose interactions are products of scores: p(x_i | rest) from one number a site.

With θ_ij(s, t) = b_ij u_i(s) u_j(t) and terms of one variable, log p(x_i = s | rest) = a_i(s) + u_i(s) S_i − log Z_i,
S_i = Σ_j b_ij u_j(x_j). So all that couples sites is one matrix product, S = U B over the cases' scores U (N, n).
a_i(0) = u_i(0) = 0; both are stored by node entries, (Σ q_i,).
"""

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, IntArray


@jit
def scores_of(codes: np.ndarray, node_ptr: IntArray, u: FloatArray, out: np.ndarray) -> None:
    """out[c, i] = u_i(x_ci)."""
    for c in range(codes.shape[0]):
        for i in range(codes.shape[1]):
            out[c, i] = u[node_ptr[i] + codes[c, i]]


@jit
def _conditional(S: float, a: FloatArray, u: FloatArray, first: int, last: int, p: FloatArray) -> float:
    """p(x_i = s | rest) into p; returns log Z_i."""
    top, total = 0.0, 0.0
    for k in range(first, last):
        p[k - first] = a[k] + u[k] * S
        top = max(top, p[k - first])
    for s in range(last - first):
        p[s] = np.exp(p[s] - top)
        total += p[s]
    for s in range(last - first):
        p[s] /= total
    return top + np.log(total)


@jit
def residuals(
    codes: np.ndarray,
    weights: FloatArray,
    node_ptr: IntArray,
    a: FloatArray,
    u: FloatArray,
    S: FloatArray,
    slope: FloatArray,
) -> float:
    """−Σ_n w_n Σ_i log p(x_ni | rest); S (N, n) becomes w_n (E[u_i | rest] − u_i(x_ni)).

    Adds w_n (p(s) − 1[x_ni = s]), summed over cases, to slope (Σ q_i,).
    """
    value = 0.0
    p = np.zeros(_widest(node_ptr))
    for c in range(codes.shape[0]):
        for i in range(codes.shape[1]):
            first, last = node_ptr[i], node_ptr[i + 1]
            own = first + codes[c, i]
            value += weights[c] * (_conditional(S[c, i], a, u, first, last, p) - a[own] - u[own] * S[c, i])
            mean = -u[own]
            for k in range(first, last):
                mean += p[k - first] * u[k]
                slope[k] += weights[c] * p[k - first]
            slope[own] -= weights[c]
            S[c, i] = weights[c] * mean
    return value


@jit
def spreads(
    weights: FloatArray,
    node_ptr: IntArray,
    a: FloatArray,
    u: FloatArray,
    S: FloatArray,
    root: np.ndarray,
    cross: np.ndarray,
    inner: FloatArray,
) -> None:
    """Of every site given the rest: root (n, N) ← √(w Var u); cross (N, Σ q_i) ← w Cov(1[x_i = s], u).

    Adds Σ_n w_n Cov(1[x_i = s], 1[x_i = t]) to inner (Σ q_i, q).
    """
    p = np.zeros(_widest(node_ptr))
    for c in range(S.shape[0]):
        for i in range(S.shape[1]):
            first, last = node_ptr[i], node_ptr[i + 1]
            _conditional(S[c, i], a, u, first, last, p)
            mean, square = 0.0, 0.0
            for k in range(first, last):
                mean += p[k - first] * u[k]
            for k in range(first, last):
                away = u[k] - mean
                square += p[k - first] * away * away
                cross[c, k] = weights[c] * p[k - first] * away
                half = weights[c] * p[k - first]
                inner[k, k - first] += half
                for t in range(last - first):
                    inner[k, t] -= half * p[t]
            root[i, c] = np.sqrt(weights[c] * square)


@jit
def _widest(node_ptr: IntArray) -> int:
    widest = 1
    for i in range(len(node_ptr) - 1):
        widest = max(widest, node_ptr[i + 1] - node_ptr[i])
    return widest
