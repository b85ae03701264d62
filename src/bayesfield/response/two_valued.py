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

_ROWS = 32  # features that one thread takes at a time


class TwoValued(NamedTuple):
    """tables: of each feature, i for variable i and n + a for factor a. high: for the entries of that table, from
    ptr[f] on, whether the feature has its higher value. step: high − low."""

    tables: IntArray
    ptr: IntArray
    high: BoolArray
    step: FloatArray


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
    return TwoValued(tables, ptr, high, top - low)


def bit_covariance(
    graph: Graph, known: TwoValued, states: NDArray[np.int32], parts: list[slice], scale: float
) -> FloatArray:
    """scale · Σ over parts of Σ (f − f̄)(f − f̄)ᵀ, with f̄ the mean of the part. states: (N, n). parts: end to end."""
    F, edges = len(known.tables), np.array([parts[0].start, *(part.stop for part in parts)])
    lengths = np.diff(edges)
    first = np.concatenate([[0], np.cumsum(-(-lengths // 64))])  # every part begins with a word of its own
    words, own = np.empty((F, first[-1]), dtype=np.uint64), _blocks(F)
    codes, where = np.ascontiguousarray(states.T), (known.tables, known.ptr, known.high)
    parallel.thread_map(lambda r: kernel.fill(graph.arrays, *where, codes, edges, first, r.start, r.stop, words), own)
    sums = np.zeros((len(parts), F), dtype=np.int64)
    kernel.count(words, first, sums)
    both = np.zeros((F, F), dtype=np.int64)
    parallel.thread_map(lambda r: kernel.pair_counts(words, r.start, r.stop, both), own)
    means = sums / np.sqrt(np.maximum(lengths, 1))[:, None]
    upper = np.triu(both.astype(np.float64))
    square: FloatArray = upper + np.triu(upper, 1).T - means.T @ means
    return scale * square * known.step[:, None] * known.step


def _blocks(size: int) -> list[range]:
    return [range(k, min(k + _ROWS, size)) for k in range(0, size, _ROWS)]
