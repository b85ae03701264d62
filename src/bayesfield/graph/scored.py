"""Fields of pairs whose interactions are products of scores: θ_ij(s, t) = b_ij u_i(s) u_j(t) + (terms of one variable).

Every field of pairs of binary variables is one, whatever its tables, and so are networks of ordinal items. With
u(0) = 0 all that a state's probability hangs on is a_i(s), the terms of one variable, and the matrix b: conditionals,
Gibbs sweeps and pseudo-likelihoods are then products of matrices instead of look-ups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from bayesfield.types import FloatArray, GraphArrays, IntArray

if TYPE_CHECKING:
    from bayesfield.graph.compiled import Design
    from bayesfield.graph.structure import Graph

_SPARSE = 6.0  # n² over the number of edges, beyond which table by table is faster
_SAME = 1e-12  # relative: what counts as a product of scores


class ScoredPairs(NamedTuple):
    """u: (Σ q_i,) scores by node entries. node, pair: a (Σ q_i,) and b (E,) are node · θ and pair · θ."""

    u: FloatArray
    node: Any
    pair: Any
    ends: IntArray  # (E, 2)

    def natural(self, theta: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
        """a (Σ q_i,) and B (n, n) at potentials θ."""
        B, b = np.zeros((n, n)), self.pair @ theta
        B[self.ends[:, 0], self.ends[:, 1]] = B[self.ends[:, 1], self.ends[:, 0]] = b
        return self.node @ theta, B

    def by_theta(self, alone: FloatArray, pairs: FloatArray) -> FloatArray:
        """Derivatives with respect to a, (Σ q_i,), and to b, (n, n) of which both halves count, to those to θ."""
        i, j = self.ends.T
        result: FloatArray = self.node.T @ alone + self.pair.T @ (pairs[i, j] + pairs[j, i])
        return result


def scored_pairs(graph: Graph, design: Design) -> ScoredPairs | None:
    """None where interactions are no products of scores, or too few for matrix products to be worth while."""
    g = graph.arrays
    n, m = len(g.cardinality), len(g.table_ptr) - 1
    if not m or n * n > _SPARSE * m or (np.diff(g.scope_ptr) != 2).any() or not np.isfinite(design.offset).all():
        return None
    if (g.cardinality < 2).any():
        return None
    ends, strides = g.scope.reshape(m, 2), g.stride.reshape(m, 2)
    single, corner = _contrasts(g, ends, strides)
    u = _common_scores(graph, design, ends, strides)
    return None if u is None else ScoredPairs(u, single, corner, ends)


def _contrasts(g: GraphArrays, ends: IntArray, strides: IntArray) -> tuple[Any, Any]:
    """(Σ q_i, T) and (E, T): a_i(s) = θ_i(s) − θ_i(0) + Σ_j [θ_ij(s, 0) − θ_ij(0, 0)], and b_ij from s = t = 1."""
    size, nodes = int(g.table_ptr[-1]), int(g.node_ptr[-1])
    start, rows, columns, signs = g.table_ptr[:-1], [], [], []
    own = np.arange(nodes)
    zero = np.repeat(g.node_ptr[:-1], g.cardinality)
    rows += [own, own]
    columns += [own, zero]
    signs += [1.0, -1.0]
    for side in range(2):
        q = g.cardinality[ends[:, side]]
        table = np.repeat(np.arange(len(ends)), q)
        state = np.arange(len(table)) - np.repeat(np.cumsum(q) - q, q)
        entry = g.node_ptr[ends[table, side]] + state
        rows += [entry, entry]
        columns += [start[table] + state * strides[table, side], start[table]]
        signs += [1.0, -1.0]
    values = np.concatenate([np.full(len(r), sign) for r, sign in zip(rows, signs, strict=True)])
    where = (np.concatenate(rows), np.concatenate(columns))
    single = sparse.csr_array((values, where), shape=(nodes, size))
    corner = _corner(start, strides, np.ones(2, dtype=np.int64), size)
    return single, corner


def _corner(start: IntArray, strides: IntArray, at: IntArray, size: int) -> Any:
    """(E, T): θ(s, t) − θ(s, 0) − θ(0, t) + θ(0, 0) of every pair's table, at = (s, t)."""
    one, other = strides[:, 0] * at[0], strides[:, 1] * at[1]
    columns = np.stack([start + one + other, start + one, start + other, start], axis=1)
    rows = np.repeat(np.arange(len(start)), 4)
    return sparse.csr_array((np.tile([1.0, -1.0, -1.0, 1.0], len(start)), (rows, columns.ravel())), (len(start), size))


def _common_scores(graph: Graph, design: Design, ends: IntArray, strides: IntArray) -> FloatArray | None:
    """u with u_i(0) = 0 and u_i(1) = 1, such that every interaction of every feature is b u_i(s) u_j(t)."""
    g, size = graph.arrays, graph.n_entries
    u = np.arange(int(g.node_ptr[-1]), dtype=np.float64) - np.repeat(g.node_ptr[:-1], g.cardinality)
    if (g.cardinality == 2).all():
        return u
    A = sparse.csr_array(sparse.hstack([design.matrix, design.offset[:, None]]))
    sums = np.asarray(A @ (1.0 + np.arange(A.shape[1]) / A.shape[1]))  # one number for all features of a table
    start, q = g.table_ptr[:-1], g.cardinality
    first = _corner(start, strides, np.ones(2, dtype=np.int64), size)
    base = first @ sums
    for side in range(2):
        for s in range(2, int(q.max())):
            some = np.flatnonzero((q[ends[:, side]] > s) & (base != 0.0))
            at = np.array([s, 1]) if side == 0 else np.array([1, s])
            ratio = (_corner(start[some], strides[some], at, size) @ sums) / base[some]
            u[g.node_ptr[ends[some, side]] + s] = ratio
    reference = first @ A
    for s in range(1, int(q.max())):
        for t in range(1, int(q.max())):
            some = np.flatnonzero((q[ends[:, 0]] > s) & (q[ends[:, 1]] > t))
            if not len(some):
                continue
            here = _corner(start[some], strides[some], np.array([s, t]), size) @ A
            product = u[g.node_ptr[ends[some, 0]] + s] * u[g.node_ptr[ends[some, 1]] + t]
            wanted = reference[some].multiply(product[:, None])
            if abs(here - wanted).max() > _SAME * max(1.0, abs(here).max()):
                return None
    return u
