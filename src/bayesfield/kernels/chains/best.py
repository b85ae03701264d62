"""The best labellings of chains: by scores that are sums along a chain, or by probabilities of neighbours.

Positions of all sequences in one row, sequence s from ptr[s] to ptr[s+1], as in kernels.chains.passes.
"""

import numpy as np

from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, IntArray


@jit
def best(
    chains: ChainArrays, node: FloatArray, edge: FloatArray, count: int, labels: IntArray, scores: FloatArray
) -> None:
    """The ``count`` best labellings of every sequence: labels (count, P), scores (S, count), best first.

    Each label of a position keeps the best partial labellings that end in it, with where they came from. Fewer than
    count labellings leave scores of −∞.
    """
    P, K = node.shape
    score, origin = np.empty((P, K, count)), np.zeros((P, K, count), dtype=np.int64)
    for s in range(len(chains.ptr) - 1):
        begin, end = chains.ptr[s], chains.ptr[s + 1]
        for t in range(begin, end):
            for k in range(K):
                own, source = score[t, k], origin[t, k]
                own[:] = -np.inf
                if t == begin:
                    own[0] = node[t, k]
                    continue
                for i in range(K):
                    for r in range(count):
                        value = score[t - 1, i, r] + edge[chains.which[t - 1], i, k] + node[t, k]
                        _insert(own, source, value, i * count + r)
        final, where = np.full(count, -np.inf), np.zeros(count, dtype=np.int64)
        for k in range(K if end > begin else 0):
            for r in range(count):
                _insert(final, where, score[end - 1, k, r], k * count + r)
        if end == begin:
            final[0] = 0.0
        scores[s] = final
        for r in range(count):
            at = where[r]
            for t in range(end - 1, begin - 1, -1):
                labels[r, t] = at // count
                at = origin[t, at // count, at % count]


@jit
def best_one(chains: ChainArrays, node: FloatArray, edge: FloatArray, labels: IntArray, scores: FloatArray) -> None:
    """``best`` with a count of one: labels (P,), scores (S,). A third of its time."""
    P, K = node.shape
    score, now, origin = np.empty(K), np.empty(K), np.zeros((P, K), dtype=np.int64)
    for s in range(len(chains.ptr) - 1):
        begin, end = chains.ptr[s], chains.ptr[s + 1]
        scores[s] = 0.0
        if end == begin:
            continue
        score[:] = node[begin]
        for t in range(begin + 1, end):
            table, source = edge[chains.which[t - 1]], origin[t]
            _largest_sums(score, table, now, source)
            for k in range(K):
                score[k] = now[k] + node[t, k]
        scores[s] = _traced(score, origin, begin, end, labels)


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
        _traced(score, origin, begin, end, labels)


@jit
def _largest_sums(score: FloatArray, table: FloatArray, out: FloatArray, source: IntArray) -> None:
    """out[k] = max_i score[i] + table[i, k], and the first i where it is."""
    K = len(score)
    for k in range(K):
        out[k], source[k] = score[0] + table[0, k], 0
    for i in range(1, K):
        for k in range(K):
            value = score[i] + table[i, k]
            better = value > out[k]
            out[k] = value if better else out[k]
            source[k] = i if better else source[k]


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


@jit
def _traced(score: FloatArray, origin: IntArray, begin: int, end: int, labels: IntArray) -> float:
    """The labels of the best end, back from it, and its score."""
    at = 0
    for k in range(len(score)):
        if score[k] > score[at]:
            at = k
    top = score[at]
    for t in range(end - 1, begin - 1, -1):
        labels[t] = at
        at = origin[t, at]
    return top


@jit
def _insert(values: FloatArray, tags: IntArray, value: float, tag: int) -> None:
    """Keep the values descending, dropping the least; of equals the earlier stays ahead."""
    r = len(values) - 1
    if not value > values[r]:
        return
    while r > 0 and value > values[r - 1]:
        values[r], tags[r] = values[r - 1], tags[r - 1]
        r -= 1
    values[r], tags[r] = value, tag
