"""The quadratic correction on sequences: E[s] and Cov[s] from forward and backward passes, maxima by Viterbi."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesfield import parallel
from bayesfield.inference.trees.chain import ChainMarginals, best_labellings, chain_marginals
from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.learning.phases.chain_covariance import indicator_covariance
from bayesfield.learning.phases.crf_design import potentials
from bayesfield.prediction.quadratic import LocalQuadratic, check_cut, climbed, coupled, kept_terms, trusted, within
from bayesfield.types import FloatArray, IntArray, Status

if TYPE_CHECKING:
    from bayesfield.model.conditional import CRF, Sequences
    from bayesfield.posterior.posterior import Posterior

_CANDIDATES = 20  # labellings of the chain from which the full maximum is searched


def local_quadratics(crf: CRF, posterior: Posterior, data: Sequences, about: str = "mean") -> list[LocalQuadratic]:
    """G of every sequence, about the posterior's mean or mode."""
    node, edge = potentials(crf, data, posterior.mode if about == "mode" else posterior.mean)
    marginals = chain_marginals(ChainArrays(data.ptr, data.which), node, edge)
    spans = parallel.spans(data.ptr.tolist())
    return [_local(crf, posterior, data, _Known(node, edge, marginals), slice(*span)) for span in spans]


def quadratic_labels(
    crf: CRF,
    posterior: Posterior,
    data: Sequences,
    distance: float | None = 1,
    terms: str = "centred",
    about: str = "mean",
) -> tuple[IntArray, Status]:
    """The labels that maximise G, or what is kept of it, (P,), and whether G is to be trusted."""
    check_cut(distance, terms, about)
    quadratics = local_quadratics(crf, posterior, data, about)
    parts = [_best(q, distance, terms) for q in quadratics]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts]), trusted(quadratics)


class _Known(NamedTuple):
    """Of all sequences: log-potentials, and the marginals there."""

    node: FloatArray
    edge: FloatArray
    found: ChainMarginals


def _local(crf: CRF, posterior: Posterior, data: Sequences, known: _Known, own: slice) -> LocalQuadratic:
    node, edge, found = known
    T, K = own.stop - own.start, node.shape[1]
    S, used, which = indicator_covariance(data, found, own.start, own.stop)
    features = _features(crf, data, own, used)
    M, spread = coupled(features, S, posterior.form.solve(features.T), T * K)
    m, t = found.messages, np.arange(max(T - 1, 0))
    first = own.start + t
    means = m.a[first][:, :, None] * m.M[used[which]] * m.v[first + 1][:, None, :] if T > 1 else np.zeros((0, K, K))
    tables = edge[used[which]] if T > 1 else np.zeros((0, K, K))
    pairs = np.stack([t, t + 1], axis=1)
    return LocalQuadratic(pairs, node[own], tables, which, M, found.marginal[own], means, spread)


def _features(crf: CRF, data: Sequences, own: slice, tables: IntArray) -> FloatArray:
    """Φ: features of every indicator, (T·K + Q·K², F)."""
    x, z, K = data.inputs[own].toarray(), data.edge_rows[tables], len(crf.labels)
    n_state = len(crf.inputs) * crf.n_node_tables
    out = np.zeros((len(x) * K + len(z) * K * K, n_state + len(crf.edge_inputs) * crf.n_edge_tables))
    node, edge = out[: len(x) * K, :n_state], out[len(x) * K :, n_state:]
    node[:] = np.einsum("td,gk->tkdg", x, crf.node_tables).reshape(node.shape)
    edge[:] = np.einsum("qe,hij->qijeh", z, crf.edge_tables).reshape(edge.shape)
    return out if crf.seen is None else out[:, crf.places]


def _best(q: LocalQuadratic, distance: float | None, terms: str) -> IntArray:
    T, K = q.node.shape
    if T == 0 or (distance is not None and distance > 1 and T > 2):
        return within(q, distance or 1, terms=terms)
    kept = kept_terms(q, terms)
    node = np.array([kept.own(t) for t in range(T)])
    tables = np.array([kept.pair(t) for t in range(T - 1)]).reshape(-1, K, K) if T > 1 else np.zeros((1, K, K))
    chains = ChainArrays(np.array([0, T]), np.minimum(np.arange(T), max(T - 2, 0)))
    labels, scores = best_labellings(chains, node, tables, 1 if distance else _CANDIDATES)
    if distance:
        first: IntArray = labels[0]
        return first
    return climbed(q, [labels[r] for r in range(_CANDIDATES) if scores[0, r] > -np.inf])
