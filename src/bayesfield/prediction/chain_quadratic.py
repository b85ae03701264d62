"""The quadratic correction on sequences: E[s] and Cov[s] from forward and backward passes, maxima by Viterbi."""

import numpy as np

from bayesfield.inference.chain import ChainMarginals, best_labellings, chain_marginals, chain_tangent
from bayesfield.kernels.chain import ChainArrays
from bayesfield.learning.conditional import potentials
from bayesfield.model.conditional import CRF, Sequences
from bayesfield.posterior import Posterior
from bayesfield.prediction.quadratic import LocalQuadratic, climbed, coupled, within
from bayesfield.types import FloatArray, IntArray

_CANDIDATES = 20  # labellings of the chain from which the full maximum is searched


def local_quadratics(crf: CRF, posterior: Posterior, data: Sequences) -> list[LocalQuadratic]:
    """G of every sequence, about the posterior's mean."""
    node, edge = potentials(crf, data, posterior.mean)
    return [_local(crf, posterior, data, node[own], edge, own) for own in map(slice, data.ptr[:-1], data.ptr[1:])]


def quadratic_labels(crf: CRF, posterior: Posterior, data: Sequences, distance: int | None = 1) -> IntArray:
    """The labels that maximise G, (P,)."""
    parts = [_best(q, distance) for q in local_quadratics(crf, posterior, data)]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def _local(
    crf: CRF, posterior: Posterior, data: Sequences, node: FloatArray, edge: FloatArray, own: slice
) -> LocalQuadratic:
    T, K = node.shape
    used, which = np.unique(data.which[own][: max(T - 1, 0)], return_inverse=True)
    which = which.reshape(-1).astype(np.int64)
    tables = edge[used] if len(used) else np.zeros((1, K, K))
    chains = ChainArrays(np.array([0, T]), np.concatenate([which, [0]])[:T])
    found = chain_marginals(chains, node, tables)
    features = _features(crf, data, own, used)
    M = coupled(features, _covariance(chains, found, len(used)), posterior.form.solve(features.T))
    m, t = found.messages, np.arange(max(T - 1, 0))
    pairs = m.a[:-1, :, None] * m.M[which] * m.v[1:, None, :] if T > 1 else np.zeros((0, K, K))
    return LocalQuadratic(np.stack([t, t + 1], axis=1), node, tables[which], which, M, found.marginal, pairs)


def _features(crf: CRF, data: Sequences, own: slice, tables: IntArray) -> FloatArray:
    """Φ: features of every indicator, (T·K + Q·K², F)."""
    x, z, K = data.inputs[own].toarray(), data.edge_rows[tables], len(crf.labels)
    out = np.zeros((len(x) * K + len(z) * K * K, crf.n_parameters))
    node, edge = out[: len(x) * K, : crf.n_state], out[len(x) * K :, crf.n_state :]
    node[:] = np.einsum("td,gk->tkdg", x, crf.node_tables).reshape(node.shape)
    edge[:] = np.einsum("qe,hij->qijeh", z, crf.edge_tables).reshape(edge.shape)
    return out


def _covariance(chains: ChainArrays, found: ChainMarginals, tables: int) -> FloatArray:
    """S = Cov[s] of one sequence: derivatives along every indicator. tables: Q, 0 where there is no pair."""
    (T, K), Q = found.marginal.shape, len(found.transitions)
    size = T * K + tables * K * K
    unit, edge = np.eye(size), np.zeros((Q, K, K, size))
    edge[:tables] = unit[T * K :].reshape(tables, K, K, size)
    moved, pairs = chain_tangent(chains, found, unit[: T * K].reshape(T, K, size), edge)
    return np.concatenate([moved.reshape(T * K, size), pairs[:tables].reshape(size - T * K, size)])


def _best(q: LocalQuadratic, distance: int | None) -> IntArray:
    T, K = q.node.shape
    if T == 0 or (distance is not None and distance > 1 and T > 2):
        return within(q, distance or 1)
    node = np.array([q.own(t) for t in range(T)])
    tables = np.array([q.pair(t) for t in range(T - 1)]).reshape(-1, K, K) if T > 1 else np.zeros((1, K, K))
    chains = ChainArrays(np.array([0, T]), np.minimum(np.arange(T), max(T - 2, 0)))
    labels, scores = best_labellings(chains, node, tables, 1 if distance else _CANDIDATES)
    if distance:
        first: IntArray = labels[0]
        return first
    return climbed(q, [labels[r] for r in range(_CANDIDATES) if scores[0, r] > -np.inf])
