"""The quadratic correction (15): integrate the parameters out to second order, then maximise over labellings.

With λ ~ N(m, P⁻¹) and log Z expanded to second order about m, ∫ p(y|x, λ) is, up to a constant, e^{G(y)} with

    G(y) = mᵀf(y) + ½ (f(y) − κ)ᵀ (P + C_x)⁻¹ (f(y) − κ),        κ = E[f], C_x = Cov[f] at m.

In the indicators s of an input's own labels and pairs of labels, f = Φᵀs, so that with M₀ = ΦP⁻¹Φᵀ and S = Cov[s]

    G(y) = θᵀs + ½ (s − b)ᵀ M (s − b),      M = Φ (P + ΦᵀSΦ)⁻¹ Φᵀ = M₀ (I + S M₀)⁻¹,      b = E[s]:

nothing larger than a sequence's own labels. M couples all positions. ``distance`` keeps couplings of labels up to so
many positions apart, each about its mean; terms of a pair's own feature with itself and its two labels are kept too,
others of pairs are not. With distance 1 all that is kept lies on the chain, where Viterbi's algorithm is exact. Without
a distance all of G counts, and its maximum is searched: from the best labellings of the chain, one label changed at a
time.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from bayesfield.graph import pair_graph
from bayesfield.inference import Bethe, Exact
from bayesfield.inference.chain import ChainMarginals, best_labellings, chain_marginals, chain_tangent
from bayesfield.kernels.chain import ChainArrays
from bayesfield.learning.conditional import potentials
from bayesfield.model.conditional import CRF, Sequences
from bayesfield.posterior import Posterior
from bayesfield.types import FloatArray, IntArray

_CANDIDATES = 20  # labellings of the chain from which the full maximum is searched
_ROUNDS = 50  # of changing each label in turn
_EXACT_ENTRIES = 2e6  # size of junction trees for distances above 1; beyond it, loopy max-product


@dataclass(frozen=True, eq=False)
class LocalQuadratic:
    """G of one sequence of T positions and K labels.

    node (T, K) and edge (T − 1, K, K): θ. which: (T − 1,) edge table of each pair. M: over the T·K indicators of
    labels, then those of pairs by edge table, Q·K². b: E[s] of labels (T, K); b_pair: of each pair (T − 1, K, K).
    """

    node: FloatArray
    edge: FloatArray
    which: IntArray
    M: FloatArray
    b: FloatArray
    b_pair: FloatArray

    def value(self, labels: IntArray) -> float:
        """G(y), all of it, up to a constant."""
        away = self.indicators(labels) - self._mean()
        return self.score(labels) + 0.5 * float(away @ self.M @ away)

    def score(self, labels: IntArray) -> float:
        """θᵀs."""
        t = np.arange(len(labels))
        return float(self.node[t, labels].sum() + self.edge[t[:-1], labels[:-1], labels[1:]].sum())

    def indicators(self, labels: IntArray) -> FloatArray:
        T, K = self.node.shape
        s = np.zeros(len(self.M))
        s[np.arange(T) * K + labels] = 1.0
        np.add.at(s, T * K + (self.which * K + labels[:-1]) * K + labels[1:], 1.0)
        return s

    def _mean(self) -> FloatArray:
        T, K = self.node.shape
        pairs = np.zeros((max((len(self.M) - T * K) // (K * K), 0), K, K))
        np.add.at(pairs, self.which, self.b_pair)
        return np.concatenate([self.b.ravel(), pairs.ravel()])

    def coupling(self, t: int, u: int) -> FloatArray:
        """(e_y − b_t)ᵀ M_tu (e_y' − b_u) for all labels y, y', (K, K)."""
        K = self.node.shape[1]
        block = self.M[t * K : (t + 1) * K, u * K : (u + 1) * K]
        return _centred(block, self.b[t], self.b[u])

    def own(self, t: int) -> FloatArray:
        """θ_t(y) + ½ (e_y − b_t)ᵀ M_tt (e_y − b_t), (K,)."""
        result: FloatArray = self.node[t] + 0.5 * np.diag(self.coupling(t, t))
        return result

    def pair(self, t: int) -> FloatArray:
        """Of the labels of t and t+1: θ, their coupling, and the pair's feature with itself and with them, (K, K)."""
        T, K = self.node.shape
        first = T * K + self.which[t] * K * K
        of_pair, mean = slice(first, first + K * K), self.b_pair[t].ravel()
        total = self.edge[t] + self.coupling(t, t + 1)
        total = total + 0.5 * np.diag(_centred(self.M[of_pair, of_pair], mean, mean)).reshape(K, K)
        for end, u in enumerate((t, t + 1)):
            mixed = _centred(self.M[u * K : (u + 1) * K, of_pair], self.b[u], mean).reshape(K, K, K)
            total = total + np.einsum("iij->ij" if end == 0 else "jij->ij", mixed)
        return np.asarray(total)


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
    M0 = features @ posterior.form.solve(features.T)
    M = linalg.solve(np.eye(len(M0)) + M0 @ _covariance(chains, found, len(used)), M0) if len(M0) else M0
    m = found.messages
    pairs = m.a[:-1, :, None] * m.M[which] * m.v[1:, None, :] if T > 1 else np.zeros((0, K, K))
    return LocalQuadratic(node, tables[which], which, (M + M.T) / 2, found.marginal, pairs)


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


def _centred(block: FloatArray, left: FloatArray, right: FloatArray) -> FloatArray:
    """(e_i − left)ᵀ block (e_j − right) for all i, j."""
    result: FloatArray = block - (block @ right)[:, None] - (left @ block)[None, :] + float(left @ block @ right)
    return result


# --- maximisation ---------------------------------------------------------------------------------------------------


def _best(q: LocalQuadratic, distance: int | None) -> IntArray:
    T = len(q.node)
    if T == 0:
        return np.empty(0, dtype=np.int64)
    node = np.array([q.own(t) for t in range(T)])
    pairs = np.array([q.pair(t) for t in range(T - 1)]).reshape(T - 1, *2 * [node.shape[1]])
    chains = ChainArrays(np.array([0, T]), np.minimum(np.arange(T), max(T - 2, 0)))
    tables = pairs if T > 1 else np.zeros((1, *2 * [node.shape[1]]))
    if distance is None:
        labels, scores = best_labellings(chains, node, tables, _CANDIDATES)
        tried = [_climbed(q, labels[r]) for r in range(_CANDIDATES) if scores[0, r] > -np.inf]
        return max(tried, key=q.value)
    if distance > 1 and T > 2:
        return _within(q, node, pairs, distance)
    first: IntArray = best_labellings(chains, node, tables)[0][0]
    return first


def _climbed(q: LocalQuadratic, labels: IntArray) -> IntArray:
    """One label changed at a time, as long as G grows."""
    here, value = labels.copy(), q.value(labels)
    for _ in range(_ROUNDS):
        before = value
        for t in range(len(here)):
            for y in range(q.node.shape[1]):
                there = here.copy()
                there[t] = y
                if (new := q.value(there)) > value + 1e-12:
                    here, value = there, new
        if value == before:
            break
    return here


def _within(q: LocalQuadratic, node: FloatArray, pairs: FloatArray, distance: int) -> IntArray:
    """Couplings up to a distance make a band: a junction tree if it is small, else loopy max-product."""
    T, K = node.shape
    far = [(t, u) for t in range(T) for u in range(t + 2, min(t + distance, T - 1) + 1)]
    near = [(t, t + 1) for t in range(T - 1)]
    tables = [*pairs, *(q.coupling(t, u) for t, u in far)]
    graph = pair_graph(np.full(T, K), np.array(near + far))
    theta = np.concatenate([node.ravel(), *(table.ravel() for table in tables)])
    exact = Exact()
    engine = exact if exact.preview(graph).entries <= _EXACT_ENTRIES else Bethe(damping=0.3)
    return engine.maximise(graph, theta)[0]
