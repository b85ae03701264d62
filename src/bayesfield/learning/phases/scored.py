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
from typing import Any

import numpy as np
from scipy import sparse

from bayesfield import parallel
from bayesfield.graph.scored import ScoredPairs
from bayesfield.inference.contract import Price
from bayesfield.kernels.likelihood import scored as kernel
from bayesfield.learning.phases.base import Answer
from bayesfield.learning.phases.conditionals import CONDITIONALS, CompositePhase, CompositeResponse
from bayesfield.types import FloatArray, IntArray

_SHARE = 4096  # cases that one thread takes at a time
_GRAM = 2048  # cases of one product for a gram: their scores stay in the cache
_SINGLE = 4000  # parameters beyond which grams are kept in single precision


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
        return self._pairs.natural(theta, self.distinct.shape[1])

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
        return self.field.design.expectations(self._pairs.by_theta(slope, pairs))

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
