"""Probabilities of pairs of neighbours, and the best labellings by them.

Positions of all sequences in one row, sequence s from ptr[s] to ptr[s+1], as in kernels.chains.passes.
"""

import numpy as np

from bayesfield.kernels.chains.passes import ChainArrays, Messages, traced
from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, IntArray


@jit
def add_pairs(chains: ChainArrays, m: Messages, log_z: FloatArray, pairs: FloatArray) -> None:
    """Adds to pairs (P, K, K) the probabilities of each pair of neighbours, under its first position. Chains beyond P
    are copies of the same positions. Sequences without log Z are left out."""
    P, K = pairs.shape[0], pairs.shape[1]
    for s in range(len(chains.ptr) - 1):
        if not np.isfinite(log_z[s]):
            continue
        for t in range(chains.ptr[s], chains.ptr[s + 1] - 1):
            a, M, v, out = m.a[t], m.M[chains.which[t]], m.v[t + 1], pairs[t % P]
            for i in range(K):
                w = a[i]
                for j in range(K):
                    out[i, j] += w * M[i, j] * v[j]


@jit
def best_of_pairs(ptr: IntArray, marginal: FloatArray, pairs: FloatArray, labels: IntArray) -> None:
    """The labelling with the largest Π p(y_t, y_{t+1}) / Π p(y_t), the latter over inner positions, of each sequence:
    marginal (P, K), pairs (P, K, K) under their first position, labels (P,). In plain numbers, scaled as they go."""
    P, K = marginal.shape
    score, now, origin = np.empty(K), np.empty(K), np.zeros((P, K), dtype=np.int64)
    for s in range(len(ptr) - 1):
        begin, end = ptr[s], ptr[s + 1]
        if end == begin:
            continue
        for k in range(K):
            score[k] = marginal[begin, k] if end == begin + 1 else 1.0
        for t in range(begin + 1, end):
            _largest_products(score, pairs[t - 1], now, origin[t])
            top = 0.0
            for k in range(K):
                if t < end - 1:
                    now[k] = now[k] / marginal[t, k] if marginal[t, k] > 0.0 else 0.0
                top = max(top, now[k])
            for k in range(K):
                score[k] = now[k] / top if top > 0.0 else now[k]
        traced(score, origin, begin, end, labels)


@jit
def _largest_products(score: FloatArray, table: FloatArray, out: FloatArray, source: IntArray) -> None:
    """out[k] = max_i score[i] table[i, k], and the first i where it is."""
    K = len(score)
    for k in range(K):
        out[k], source[k] = score[0] * table[0, k], 0
    for i in range(1, K):
        for k in range(K):
            value = score[i] * table[i, k]
            better = value > out[k]
            out[k] = value if better else out[k]
            source[k] = i if better else source[k]
