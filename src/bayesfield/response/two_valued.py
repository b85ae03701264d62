"""The covariance of features that have two values each, over very many sampled states: counts of bits.

With f = low + (high − low) b and b of 0 and 1, Cov(f_a, f_b) = Δ_a Δ_b Cov(b_a, b_b); counts of b_a ∧ b_b are whole
numbers, so that nothing is lost by not centring them first. Couplings and thresholds of items, spins, and indicators of
states are all of this kind. Tied parameters, whose features are sums, are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayesfield import parallel
from bayesfield.kernels import bits as kernel
from bayesfield.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from bayesfield.graph.compiled import Design
    from bayesfield.graph.structure import Graph

_ITEMS = 8  # from which on sharing counts is worth its look-ups
_ROWS = 32  # features that one thread takes at a time


class Products(NamedTuple):
    """Features that are bits and products of two of them, of all n bits and all their pairs: Σ b_a b_b is a sum over a
    product of up to four, of which there are a third as many. ends: (F, 2) i ≤ j of each. order: (F,) the features, the
    bits first and then the pairs as i, j ascend."""

    ends: IntArray
    order: IntArray


class TwoValued(NamedTuple):
    """tables: of each feature, i for variable i and n + a for factor a. high: for the entries of that table, from
    ptr[f] on, whether the feature has its higher value. step: high − low. products: where they are bits and all their
    products of two."""

    tables: IntArray
    ptr: IntArray
    high: BoolArray
    step: FloatArray
    products: Products | None = None


def two_valued(graph: Graph, design: Design) -> TwoValued | None:
    """How each feature's two values lie in its table; None where a feature has more, or is spread over tables."""
    g = graph.arrays
    starts = np.concatenate([g.node_ptr[:-1], g.table_ptr[:-1]])
    sizes = np.concatenate([g.cardinality, np.diff(g.table_ptr)])
    A = sparse.csc_array(design.matrix)
    if (np.diff(A.indptr) == 0).any():
        return None
    owner = np.searchsorted(starts, A.indices, side="right") - 1
    tables = owner[A.indptr[:-1]]
    if (owner != np.repeat(tables, np.diff(A.indptr))).any():
        return None
    ptr = np.concatenate([[0], np.cumsum(sizes[tables])])
    values = np.zeros(ptr[-1])
    values[np.repeat(ptr[:-1] - starts[tables], np.diff(A.indptr)) + A.indices] = A.data
    low, top = np.minimum.reduceat(values, ptr[:-1]), np.maximum.reduceat(values, ptr[:-1])
    high = values == np.repeat(top, np.diff(ptr))
    if (~high & (values != np.repeat(low, np.diff(ptr)))).any():
        return None
    return TwoValued(tables, ptr, high, top - low, _products(graph, tables, ptr, high))


def _products(graph: Graph, tables: IntArray, ptr: IntArray, high: BoolArray) -> Products | None:
    g, n = graph.arrays, len(graph.arrays.cardinality)
    if not graph.binary_pairs or n < _ITEMS or len(tables) != n + n * (n - 1) // 2:
        return None
    last = np.zeros(len(high), dtype=np.bool_)
    last[ptr[1:] - 1] = True
    if (high != last).any():
        return None
    pair = tables >= n
    ends = np.stack([tables, tables], axis=1)
    ends[pair] = np.sort(g.scope.reshape(-1, 2)[tables[pair] - n], axis=1)
    order = np.lexsort((ends[:, 1], ends[:, 0], pair))
    every = np.concatenate([np.repeat(np.arange(n)[:, None], 2, axis=1), np.stack(np.triu_indices(n, 1), axis=1)])
    return Products(ends, order) if np.array_equal(ends[order], every) else None


def bit_covariance(
    graph: Graph, known: TwoValued, states: NDArray[np.int32], parts: list[slice], scale: float
) -> FloatArray:
    """scale · Σ over parts of Σ (f − f̄)(f − f̄)ᵀ, with f̄ the mean of the part. states: (N, n). parts: end to end."""
    F, edges = len(known.tables), np.array([parts[0].start, *(part.stop for part in parts)])
    lengths = np.diff(edges)
    first = np.concatenate([[0], np.cumsum(-(-lengths // 64))])  # every part begins with a word of its own
    codes, where = np.ascontiguousarray(states.T), (known.tables, known.ptr, known.high)
    sums, both = np.zeros((len(parts), F), dtype=np.int64), np.zeros((F, F), dtype=np.int32)
    words, own = np.empty((F, first[-1]), dtype=np.uint64), _blocks(F)

    def filled(rows: range) -> None:
        kernel.fill(graph.arrays, *where, codes, edges, first, rows.start, rows.stop, words)

    if known.products is not None:
        bits = known.products.order[: len(codes)]
        for f in bits:
            filled(range(f, f + 1))
        ends = known.products.ends
        words = np.bitwise_and(words[bits][ends[:, 0]], words[bits][ends[:, 1]])
        kernel.count(words, first, sums)
        _product_counts(known.products, words, sums.sum(axis=0), both)
    else:
        parallel.thread_map(filled, own)
        kernel.count(words, first, sums)
        parallel.thread_map(lambda r: kernel.pair_counts(words, r.start, r.stop, both), own)
    means = sums / np.sqrt(np.maximum(lengths, 1))[:, None]
    square: FloatArray = means.T @ means
    parallel.thread_map(lambda r: kernel.centred(both, square, known.step, scale, r.start, r.stop), own)
    return square


def _product_counts(known: Products, words: NDArray[np.uint64], counts: IntArray, both: NDArray[np.int32]) -> None:
    """both (F, F), its upper half, from the counts of products of one to four bits."""
    n, F = int(known.ends.max()) + 1, len(known.ends)
    words, pairs = words[known.order], F - n
    i, j = np.triu_indices(n, 1)
    at = np.zeros((n, n), dtype=np.int64)
    at[i, j] = np.arange(pairs)
    later = np.searchsorted(i, np.arange(1, n + 1))  # the first pair of indices above each
    triples, quads = np.zeros((n, pairs), dtype=np.int32), np.zeros((pairs, pairs), dtype=np.int32)
    single, double, of_pair = words[:n], words[n:], later[j]
    parallel.thread_map(lambda r: kernel.later_counts(single, later, double, r.start, r.stop, triples), _blocks(n))
    parallel.thread_map(lambda r: kernel.later_counts(double, of_pair, double, r.start, r.stop, quads), _blocks(pairs))
    one, other = (np.ascontiguousarray(known.ends[:, k]) for k in range(2))
    ordered = counts[known.order]
    parallel.thread_map(
        lambda r: kernel.spread_counts(one, other, at, ordered, triples, quads, r.start, r.stop, both), _blocks(F)
    )


def _blocks(size: int) -> list[range]:
    return [range(k, min(k + _ROWS, size)) for k in range(0, size, _ROWS)]
