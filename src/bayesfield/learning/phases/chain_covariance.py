"""Σ_n C_{x_n} of short sequences, (F, F), sequence by sequence: through the covariance of a sequence's own labels.

With s the indicators of labels and of pairs of labels, f = Φᵀs and C = Σ_n Φ_nᵀ Cov(s) Φ_n. Cov(s) is small where a
sequence is short, and Φ = inputs ⊗ indicators, so that all else is matrix products, where
the general way carries each parameter's direction along all sequences. And what positions and pairs of neighbours
have each by itself.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from bayesfield import parallel
from bayesfield.inference.trees.chain import ChainMarginals, chain_tangent
from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.learning.phases.crf_design import flat_tables, inputs_transposed
from bayesfield.model.conditional import CRF, Sequences
from bayesfield.response.base import require_dense
from bayesfield.types import FloatArray, IntArray

_SLAB = 128  # positions in a product
_HELD = 4096  # positions whose own covariances are held at a time


def covariance_by_sequence(crf: CRF, data: Sequences, marginals: ChainMarginals) -> FloatArray:
    """C, dense."""
    sums = _Sums(len(crf.inputs), len(crf.edge_inputs), len(crf.labels))
    spans = parallel.spans(data.ptr.tolist())
    for some in _slabs(spans):
        sums.add(data, marginals, some)
    return _folded(crf, sums)


def indicator_covariance(
    data: Sequences, marginals: ChainMarginals, begin: int, end: int
) -> tuple[FloatArray, IntArray, IntArray]:
    """Cov(s) of the sequence begin … end, (T·K + q·K²)², its q rows of edge inputs, and which of them each pair has."""
    T, K = end - begin, marginals.marginal.shape[1]
    used, which = np.unique(data.which[begin : max(end - 1, begin)], return_inverse=True)
    which = which.reshape(-1).astype(np.int64)
    m, q = marginals.messages, len(used)
    own = m._replace(
        psi=m.psi[begin:end],
        a=m.a[begin:end],
        v=m.v[begin:end],
        b=m.b[begin:end],
        c=m.c[begin:end],
        M=np.ascontiguousarray(m.M[used]) if q else np.ones((1, K, K)),
        top=m.top[used] if q else np.zeros(1),
    )
    here = ChainMarginals(np.zeros(1), marginals.marginal[begin:end], np.zeros((max(q, 1), K, K)), own)
    size = T * K + q * K * K
    unit, edge = np.eye(size), np.zeros((max(q, 1), K, K, size))
    edge[:q] = unit[T * K :].reshape(q, K, K, size)
    chains = ChainArrays(np.array([0, T]), np.concatenate([which, [0]])[:T])
    moved, pairs = chain_tangent(chains, here, unit[: T * K].reshape(T, K, size), edge)
    return np.concatenate([moved.reshape(T * K, size), pairs[:q].reshape(size - T * K, size)]), used, which


class _Sums:
    """C in the coordinates input ⊗ label and edge input ⊗ pair of labels."""

    def __init__(self, D: int, E: int, K: int) -> None:
        self.node = np.zeros((K, D * K, D))  # [k', (d, k), d']
        self.mixed = np.zeros((D, K * E * K * K))
        self.edge = np.zeros((E, K * K, E, K * K))

    def add(self, data: Sequences, marginals: ChainMarginals, spans: list[tuple[int, int]]) -> None:
        """Σ_t x_td Cov(y_t = k, y_u = k') for every u first, and then the product with all x_u."""
        K, D, E = len(self.node), self.node.shape[2], len(self.edge)
        begin, end = spans[0][0], spans[-1][1]
        x = data.inputs[begin:end].toarray()
        half, mixed = np.empty((K, D, K, end - begin)), np.zeros((end - begin, self.mixed.shape[1]))
        for first, last in spans:
            S, used, _ = indicator_covariance(data, marginals, first, last)
            own, T, z = slice(first - begin, last - begin), last - first, data.edge_rows[used]
            n, q = T * K, len(used)
            labels = np.ascontiguousarray(S[:n, :n].reshape(T, K, T, K).transpose(3, 0, 1, 2))
            half[:, :, :, own] = (x[own].T @ labels.reshape(K, T, K * T)).reshape(K, D, K, T)
            if q:
                of_pairs = np.einsum("aqs,qe->aes", S[:n, n:].reshape(n, q, K * K), z, optimize=True)
                mixed[own] = of_pairs.reshape(T, K * E * K * K)
                pairs = S[n:, n:].reshape(q, K * K, q, K * K)
                self.edge += np.einsum("qsrt,qe,rf->esft", pairs, z, z, optimize=True)
        for k in range(K):
            self.node[k] += half[k].reshape(D * K, -1) @ x
        self.mixed += x.T @ mixed


def _folded(crf: CRF, sums: _Sums) -> FloatArray:
    """From labels and pairs of labels to the model's tables over them."""
    D, E, K, n = len(crf.inputs), len(crf.edge_inputs), len(crf.labels), crf.n_state
    B = crf.node_tables
    node = sums.node.reshape(K, D, K, D).transpose(1, 2, 3, 0)  # [d, k, d', k']
    mixed, edge = sums.mixed.reshape(D, K, E, K * K), sums.edge
    if not crf.plain_nodes:
        node = np.einsum("dkej,gk,hj->dgeh", node, B, B, optimize=True)
        mixed = np.einsum("dkes,gk->dges", mixed, B, optimize=True)
    if not crf.plain_edges:
        T = crf.edge_tables.reshape(crf.n_edge_tables, -1)
        mixed = np.einsum("dges,hs->dgeh", mixed, T, optimize=True)
        edge = np.einsum("esft,gs,ht->egfh", edge, T, T, optimize=True)
    out = np.empty((crf.n_parameters, crf.n_parameters))
    out[:n, :n] = node.reshape(n, n)
    out[:n, n:] = mixed.reshape(n, -1)
    out[n:, :n] = out[:n, n:].T
    out[n:, n:] = edge.reshape(len(out) - n, -1)
    return out


def _slabs(spans: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Runs of sequences with so many positions, or one that is longer; empty ones left out."""
    runs: list[list[tuple[int, int]]] = []
    for begin, end in spans:
        if begin == end:
            continue
        if runs and end - runs[-1][0][0] <= _SLAB:
            runs[-1].append((begin, end))
        else:
            runs.append([(begin, end)])
    return runs


def squared_means(crf: CRF, data: Sequences, found: ChainMarginals) -> FloatArray:
    """Σ_t E[T_h]² over the pairs of neighbours of each edge table, (Q, H)."""
    m, t, Q = found.messages, data.pair_starts(), len(data.edge_rows)
    which = data.which[t]
    if crf.plain_edges:  # Σ_t (a_t(i) M(i, j) v_{t+1}(j))²
        order = np.argsort(which, kind="stable")
        ends = np.searchsorted(which[order], np.arange(Q + 1))
        a, v = m.a[t[order]] ** 2, m.v[t[order] + 1] ** 2
        sums = [a[first:last].T @ v[first:last] for first, last in itertools.pairwise(ends)]
        return flat_tables(np.array(sums).reshape(m.M.shape) * m.M**2)
    T, total = flat_tables(crf.edge_tables), np.zeros((Q, crf.n_edge_tables))
    for first, last in parallel.spans([*range(0, len(t), _HELD), len(t)]):
        np.add.at(total, which[first:last], (_joint(data, found, t[first:last]) @ T.T) ** 2)
    return total


def _joint(data: Sequences, found: ChainMarginals, t: IntArray) -> FloatArray:
    """Probabilities of pairs of labels after these positions, (n, K²)."""
    m = found.messages
    return flat_tables(m.a[t][:, :, None] * m.M[data.which[t]] * m.v[t + 1][:, None, :])


def label_covariances(crf: CRF, data: Sequences, marginal: FloatArray) -> FloatArray:
    """Σ_t x_td² Cov(B(y_t)) for every input d, (D, G²)."""
    B, squares = crf.node_tables, data.squared
    total = np.zeros((len(crf.inputs), len(B) ** 2))
    for first, last in parallel.spans([*range(0, data.positions, _HELD), data.positions]):
        p = marginal[first:last]
        mean = p @ B.T
        rows = np.einsum("tk,gk,hk->tgh", p, B, B, optimize=True) - mean[:, :, None] * mean[:, None, :]
        some = replace(squares, inputs=squares.inputs[first:last], ptr=np.array([0, last - first]))
        total += inputs_transposed(some, rows.reshape(last - first, -1))
    return total


def pair_covariance(crf: CRF, data: Sequences, found: ChainMarginals) -> FloatArray:
    """Σ over pairs of neighbours of the covariance of their features, (E·H, E·H), each pair by itself."""
    require_dense(len(crf.edge_inputs) * crf.n_edge_tables, "the block of transitions")
    T = flat_tables(crf.edge_tables)
    inside = np.einsum("qs,gs,hs->qgh", found.transitions.reshape(len(data.edge_rows), -1), T, T, optimize=True)
    size = len(crf.edge_inputs) * len(T)
    whole = np.einsum("qe,qf,qgh->egfh", data.edge_rows, data.edge_rows, inside, optimize=True)
    total: FloatArray = np.array(whole).reshape(size, size)
    pairs = data.pair_starts()
    for first, last in parallel.spans([*range(0, len(pairs), _HELD), len(pairs)]):
        t = pairs[first:last]
        means = np.einsum("te,th->teh", data.edge_rows[data.which[t]], _joint(data, found, t) @ T.T)
        total -= means.reshape(len(t), -1).T @ means.reshape(len(t), -1)
    return total
