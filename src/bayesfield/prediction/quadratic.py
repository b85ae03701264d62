"""The quadratic correction (15): integrate the parameters out to second order, then maximise over labellings.

With λ ~ N(m, P⁻¹) and log Z expanded to second order about m, ∫ p(y|x, λ) is, up to a constant, e^{G(y)} with

    G(y) = mᵀf(y) + ½ (f(y) − κ)ᵀ (P + C_x)⁻¹ (f(y) − κ),        κ = E[f], C_x = Cov[f] at m.

In the indicators s of an input's own labels and pairs of labels, f = Φᵀs, so that with M₀ = ΦP⁻¹Φᵀ and S = Cov[s]

    G(y) = θᵀs + ½ (s − b)ᵀ M (s − b),      M = Φ (P + ΦᵀSΦ)⁻¹ Φᵀ = M₀ (I + S M₀)⁻¹,      b = E[s]:

nothing larger than an instance's own labels. M couples all positions. ``distance`` keeps couplings of labels up to so
many edges apart, each about its mean; terms of a pair's own feature with itself and its two labels are kept too, others
of pairs are not. With distance 1 all that is kept lies on the field's own graph, where an exact engine is exact.
Without a distance all of G counts, and its maximum is searched: from the best of what lies on the graph, one label
changed at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg, sparse

from bayesfield.graph.structure import pair_graph
from bayesfield.inference.messages.belief_propagation import Bethe
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.types import FloatArray, IntArray, Outcome, Status

if TYPE_CHECKING:
    from bayesfield.inference.contract import Engine

_WIDEST = 1.0  # standard deviation of a log-potential, in nats
_ROUNDS = 50  # of changing each label in turn
_EXACT_ENTRIES = 2e6  # size of junction trees; beyond it, loopy max-product


@dataclass(frozen=True, eq=False)
class LocalQuadratic:
    """G of one instance with T positions, m pairs of neighbours and K labels.

    pairs: (m, 2), ascending. node (T, K) and edge (m, K, K): θ. which: (m,) distinct features of each pair. M: over the
    T·K indicators of labels, then those of pairs by distinct features, Q·K². b (T, K) and b_pair (m, K, K): E[s].
    spread: mean variance of a label's log-potential under the posterior.
    """

    pairs: IntArray
    node: FloatArray
    edge: FloatArray
    which: IntArray
    M: FloatArray
    b: FloatArray
    b_pair: FloatArray
    spread: float

    def value(self, labels: IntArray) -> float:
        """G(y), all of it, up to a constant."""
        away = self.indicators(labels) - self._mean()
        return self.score(labels) + 0.5 * float(away @ self.M @ away)

    def score(self, labels: IntArray) -> float:
        """θᵀs."""
        first, second = labels[self.pairs.T]
        of_pairs = self.edge[np.arange(len(self.pairs)), first, second]
        return float(self.node[np.arange(len(labels)), labels].sum() + of_pairs.sum())

    def indicators(self, labels: IntArray) -> FloatArray:
        T, K = self.node.shape
        s = np.zeros(len(self.M))
        s[np.arange(T) * K + labels] = 1.0
        first, second = labels[self.pairs.T]
        np.add.at(s, T * K + (self.which * K + first) * K + second, 1.0)
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

    def pair(self, k: int) -> FloatArray:
        """Of the labels of pair k: θ, their coupling, and the pair's feature with itself and with them, (K, K)."""
        T, K = self.node.shape
        first = T * K + self.which[k] * K * K
        of_pair, mean = slice(first, first + K * K), self.b_pair[k].ravel()
        total = self.edge[k] + self.coupling(*self.pairs[k])
        total = total + 0.5 * np.diag(_centred(self.M[of_pair, of_pair], mean, mean)).reshape(K, K)
        for end, u in enumerate(self.pairs[k]):
            mixed = _centred(self.M[u * K : (u + 1) * K, of_pair], self.b[u], mean).reshape(K, K, K)
            total = total + np.einsum("iij->ij" if end == 0 else "jij->ij", mixed)
        return np.asarray(total)


def coupled(features: FloatArray, S: FloatArray, covariance: FloatArray, labels: int) -> tuple[FloatArray, float]:
    """M, from Φ, S and P⁻¹Φᵀ; and the mean of the first so many variances in M₀, those of labels."""
    M0 = features @ covariance
    M = linalg.solve(np.eye(len(M0)) + M0 @ S, M0) if len(M0) else M0
    spread = float(np.diag(M0)[:labels].mean()) if labels else 0.0
    return (M + M.T) / 2, spread


def trusted(quadratics: Sequence[LocalQuadratic]) -> Status:
    """Whether log-potentials are known well enough for an expansion: to about a nat.

    Beyond it, G rewards a label for being uncertain, by ½ of its log-potential's variance, and picks unlikely ones.
    """
    positions = sum(q.node.shape[0] for q in quadratics)
    width = np.sqrt(sum(q.spread * q.node.shape[0] for q in quadratics) / max(positions, 1))
    if width <= _WIDEST:
        return Status(Outcome.EXACT)
    return Status(Outcome.TOO_WIDE, detail=f"log-potentials are uncertain by {width:.1f} nats, root mean square")


def within(q: LocalQuadratic, distance: int, engine: Engine | None = None) -> IntArray:
    """The best labelling by what is kept; exactly, if a junction tree is small or the engine exact."""
    T, K = q.node.shape
    if T == 0:
        return np.empty(0, dtype=np.int64)
    far = _apart(q.pairs, T, distance)
    tables = [*(q.pair(k) for k in range(len(q.pairs))), *(q.coupling(t, u) for t, u in far)]
    graph = pair_graph(np.full(T, K), np.concatenate([q.pairs.reshape(-1, 2), far]))
    theta = np.concatenate([*(q.own(t) for t in range(T)), *(table.ravel() for table in tables)])
    if engine is None:
        exact = Exact()
        engine = exact if exact.preview(graph).entries <= _EXACT_ENTRIES else Bethe(damping=0.3)
    return engine.maximise(graph, theta)[0]


def climbed(q: LocalQuadratic, starts: Iterable[IntArray]) -> IntArray:
    """The best of all G that is found from these labellings, changing one label at a time."""
    return max((_climbed(q, start) for start in starts), key=q.value)


def _climbed(q: LocalQuadratic, labels: IntArray) -> IntArray:
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


def _apart(pairs: IntArray, nodes: int, distance: int) -> IntArray:
    """Pairs of nodes, ascending, from 2 to ``distance`` edges apart."""
    if distance < 2 or not len(pairs):
        return np.empty((0, 2), dtype=np.int64)
    ones = np.ones(2 * len(pairs))
    adjacent = sparse.csr_array((ones, np.concatenate([pairs, pairs[:, ::-1]]).T), shape=(nodes, nodes))
    steps = sparse.csgraph.shortest_path(adjacent, unweighted=True)
    first, second = np.nonzero(np.triu((steps >= 2) & (steps <= distance)))
    return np.stack([first, second], axis=1).astype(np.int64)


def _centred(block: FloatArray, left: FloatArray, right: FloatArray) -> FloatArray:
    """(e_i − left)ᵀ block (e_j − right) for all i, j."""
    result: FloatArray = block - (block @ right)[:, None] - (left @ block)[None, :] + float(left @ block @ right)
    return result
