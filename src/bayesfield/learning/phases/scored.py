"""The pseudo-likelihood of dense fields of pairs whose interactions are products of scores, by matrix products.

Every field of pairs of binary variables is one, whatever its tables, and so are networks of ordinal items. With
θ_ij(s, t) = b_ij u_i(s) u_j(t) + (terms of one variable), u(0) = 0, and U the (N, n) scores of the cases,

    S  = U B                              log p(x_ni = s | rest) = a_i(s) + u_i(s) S_ni − log Z_ni
    ∂L/∂b_ij = (Uᵀ W R + Rᵀ W U)_ij       R_ni = E[u_i | rest] − u_i(x_ni)
    H of site i over its b_i·:  Uᵀ diag(w_n Var(u_i | rest of n)) U

a and b are linear in θ, hence in λ, so that what the general kernel sums table by table takes N n² and N n³ operations
of BLAS. Cases stream through in shares; nothing of N × F is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from bayesfield import parallel
from bayesfield.inference.contract import Price
from bayesfield.kernels.likelihood import scored as kernel
from bayesfield.learning.phases.base import Answer
from bayesfield.learning.phases.conditionals import CONDITIONALS, CompositePhase, CompositeResponse
from bayesfield.types import FloatArray, GraphArrays, IntArray

if TYPE_CHECKING:
    from bayesfield.graph.compiled import CompiledField

_SHARE = 4096  # cases that one thread takes at a time
_GRAM = 2048  # cases of one product for a gram: their scores stay in the cache
_SPARSE = 6.0  # n² over the number of edges, beyond which table by table is faster
_SAME = 1e-12  # relative: what counts as a product of scores
_SINGLE = 4000  # parameters beyond which grams are kept in single precision


class ScoredPairs(NamedTuple):
    """u: (Σ q_i,) scores by node entries. node, pair: a (Σ q_i,) and b (E,) are node · θ and pair · θ."""

    u: FloatArray
    node: Any
    pair: Any
    ends: IntArray  # (E, 2)


def scored_pairs(field: CompiledField) -> ScoredPairs | None:
    """None where interactions are no products of scores, or too few for matrix products to be worth while."""
    g = field.graph.arrays
    n, m = len(g.cardinality), len(g.table_ptr) - 1
    if not m or n * n > _SPARSE * m or (np.diff(g.scope_ptr) != 2).any() or not np.isfinite(field.design.offset).all():
        return None
    if (g.cardinality < 2).any():
        return None
    ends, strides = g.scope.reshape(m, 2), g.stride.reshape(m, 2)
    single, corner = _contrasts(g, ends, strides)
    u = _common_scores(field, ends, strides)
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


def _common_scores(field: CompiledField, ends: IntArray, strides: IntArray) -> FloatArray | None:
    """u with u_i(0) = 0 and u_i(1) = 1, such that every interaction of every feature is b u_i(s) u_j(t)."""
    g, size = field.graph.arrays, field.graph.n_entries
    u = np.arange(int(g.node_ptr[-1]), dtype=np.float64) - np.repeat(g.node_ptr[:-1], g.cardinality)
    if (g.cardinality == 2).all():
        return u
    A = sparse.csr_array(sparse.hstack([field.design.matrix, field.design.offset[:, None]]))
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


@dataclass(frozen=True, eq=False)
class ScoredPhase(CompositePhase):
    """−Σ_n Σ_i log p(x_i | rest) of scored pairs."""

    pairs: ScoredPairs | None = None

    @property
    def _pairs(self) -> ScoredPairs:
        assert self.pairs is not None
        return self.pairs

    def price(self, size: int) -> Price:
        """In seconds of one core: 5e10 operations for a gradient, 1e11 for a curvature, of some cases where many."""
        M, n = float(len(self.distinct)), float(self.distinct.shape[1])
        return Price(1e-4 + 8e-11 * M * n * n, 1e-3 + 2e-11 * min(M * n**3, 2e11))

    def _natural(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """a (Σ q_i,) and B (n, n)."""
        known, n = self._pairs, self.distinct.shape[1]
        B = np.zeros((n, n))
        B[known.ends[:, 0], known.ends[:, 1]] = b = known.pair @ theta
        B[known.ends[:, 1], known.ends[:, 0]] = b
        return known.node @ theta, B

    def _scores(self, codes: IntArray, kind: type = np.float64) -> Any:
        out: Any = np.empty(codes.shape, dtype=kind)
        kernel.scores_of(codes, self._node_ptr, self._pairs.u, out)
        return out

    @property
    def _node_ptr(self) -> IntArray:
        return self.field.graph.arrays.node_ptr

    def at(self, parameters: FloatArray, start: Any = None) -> Answer:
        theta = self.field.design.potentials(parameters)
        known = self._pairs
        a, B = self._natural(theta)

        def part(rows: slice) -> tuple[float, FloatArray, FloatArray]:
            codes, slope = self.distinct[rows], np.zeros(len(a))
            U = self._scores(codes)
            S = U @ B
            value = kernel.residuals(codes, self.counts[rows], self._node_ptr, a, known.u, S, slope)
            return value, slope, U.T @ S

        value, slope, pairs = 0.0, np.zeros(len(a)), np.zeros(B.shape)
        shares = self.parts(_SHARE)
        for first in range(0, len(shares), 64):  # what shares end with is (n, n): not all of it at once
            for one in parallel.blas_map(part, shares[first : first + 64]):
                value, slope, pairs = value + one[0], slope + one[1], pairs + one[2]
        return Answer(value, self._features(slope, pairs), CONDITIONALS, None, theta)

    def _features(self, slope: FloatArray, pairs: FloatArray) -> FloatArray:
        """Derivatives with respect to a and to u_jᵀ r_i, to those with respect to λ."""
        known = self._pairs
        i, j = known.ends.T
        by_theta = known.node.T @ slope + known.pair.T @ (pairs[i, j] + pairs[j, i])
        return self.field.design.expectations(by_theta)

    def response(self, answer: Answer) -> CompositeResponse:
        return ScoredResponse(self, answer.found)

    def variances(self, answer: Answer) -> FloatArray:
        total = np.zeros(self.field.design.matrix.shape[1])
        for local, gram in self.response(answer).grams():
            np.add.at(total, local, np.diag(gram).astype(np.float64))
        return total

    @cached_property
    def _maps(self) -> list[tuple[IntArray, Any]]:
        """For every site its parameters, and the (q_i + n, L) map of these to a_i and b_i·."""
        known, n = self._pairs, self.distinct.shape[1]
        A = self.field.design.matrix
        node, pair = sparse.csr_array(known.node @ A), sparse.csr_array(known.pair @ A)
        at = np.full((n, n), -1)
        at[known.ends[:, 0], known.ends[:, 1]] = at[known.ends[:, 1], known.ends[:, 0]] = np.arange(len(known.ends))
        ptr, found = self._node_ptr, []
        of = self.blocks_of.of_variable
        for i in range(n):
            local = self.blocks_of.local[self.blocks_of.local_ptr[of[i]] : self.blocks_of.local_ptr[of[i] + 1]]
            joined = np.flatnonzero(at[i] >= 0)
            spread = sparse.csr_array((np.ones(len(joined)), (joined, np.arange(len(joined)))), (n, len(joined)))
            rows = sparse.vstack([node[ptr[i] : ptr[i + 1]], spread @ pair[at[i][joined]]], format="csr")
            found.append((local, sparse.csr_array(rows[:, local])))
        return found

    def site_grams(self, theta: FloatArray, every: int = 1) -> list[tuple[IntArray, FloatArray]]:
        """Parameters and H of every site; by one distinct case of ``every``, for all."""
        known, n, ptr = self._pairs, self.distinct.shape[1], self._node_ptr
        a, B = self._natural(theta)
        kind = np.float32 if self.field.design.matrix.shape[1] > _SINGLE else np.float64
        outer = np.zeros((n, n, n), dtype=kind)
        cross, inner = np.zeros((len(a), n)), np.zeros((len(a), int(np.diff(ptr).max())))
        codes, counts, shares = self.distinct[::every], self._thinned(every), parallel.shares(0, n, least=1)
        with parallel.single_blas():  # threads are ours: those of BLAS wait for one another on a busy machine
            for first in range(0, len(codes), _GRAM):
                here, w = codes[first : first + _GRAM], counts[first : first + _GRAM]
                U = self._scores(here)
                root, mixed = np.empty((n, len(here)), dtype=kind), np.empty((len(here), len(a)))
                kernel.spreads(w, ptr, a, known.u, U @ B, root, mixed, inner)
                cross += mixed.T @ U
                single = U.astype(kind)

                def some(span: tuple[int, int], single: Any = single, root: Any = root) -> None:
                    for i in range(*span):
                        half = single * root[i][:, None]
                        outer[i] += half.T @ half

                parallel.thread_map(some, shares)
        return [self._over_parameters(i, outer[i], cross, inner) for i in range(n)]

    def _over_parameters(
        self, i: int, outer: FloatArray, cross: FloatArray, inner: FloatArray
    ) -> tuple[IntArray, FloatArray]:
        """H of one site over its parameters, from that over a_i and b_i·."""
        (local, rows), ptr = self._maps[i], self._node_ptr
        q = int(ptr[i + 1] - ptr[i])
        whole = np.empty((q + len(outer), q + len(outer)))
        whole[:q, :q] = inner[ptr[i] : ptr[i + 1], :q]
        whole[:q, q:] = cross[ptr[i] : ptr[i + 1]]
        whole[q:, :q] = whole[:q, q:].T
        whole[q:, q:] = outer
        return local, (rows.T @ (rows.T @ whole).T).astype(outer.dtype)

    def grouped_scores(self, theta: FloatArray, signs: FloatArray, groups: int) -> Iterator[FloatArray]:
        """Σ_{n in group} signs_n s_n as columns (F, ≤ 256), case n in group n modulo ``groups``."""
        known = self._pairs
        a, B = self._natural(theta)
        i, j = known.ends.T
        A = self.field.design.matrix
        node, pair = sparse.csr_array((known.node @ A).T), sparse.csr_array((known.pair @ A).T)

        def one(g: int) -> tuple[FloatArray, FloatArray]:
            codes, slope = np.ascontiguousarray(self.distinct[g::groups]), np.zeros(len(a))
            U = self._scores(codes)
            S = U @ B
            kernel.residuals(codes, signs[g::groups], self._node_ptr, a, known.u, S, slope)
            both = U.T @ S
            return slope, both[i, j] + both[j, i]

        for first in range(0, groups, 256):
            found = parallel.blas_map(one, range(first, min(first + 256, groups)))
            yield -(node @ np.array([s for s, _ in found]).T + pair @ np.array([b for _, b in found]).T)


class ScoredResponse(CompositeResponse):
    """H at one θ, all sites from one pass over the cases."""

    @cached_property
    def _sites(self) -> list[tuple[IntArray, FloatArray]]:
        phase: Any = self._phase
        found: list[tuple[IntArray, FloatArray]] = phase.site_grams(self._theta)
        return found

    def grams(self) -> Iterator[tuple[IntArray, FloatArray]]:
        yield from self._sites
