"""The quadratic correction (15): integrate the parameters out to second order, then maximise over labellings.

With λ ~ N(m, P⁻¹) and log Z expanded to second order about m, ∫ p(y|x, λ) is, up to a constant, e^{G(y)} with

    G(y) = mᵀf(y) + ½ (f(y) − κ)ᵀ (P + C_x)⁻¹ (f(y) − κ),        κ = E[f], C_x = Cov[f] at m.

In the indicators s of an input's own labels and pairs of labels, f = Φᵀs, so that with M₀ = ΦP⁻¹Φᵀ and S = Cov[s]

    G(y) = θᵀs + ½ (s − b)ᵀ M (s − b),      M = Φ (P + ΦᵀSΦ)⁻¹ Φᵀ = M₀ (I + S M₀)⁻¹,      b = E[s]:

nothing larger than an instance's own labels. M couples all positions, by terms of up to four labels, so that G is cut:

* ``distance`` None: all of G counts, and its maximum is searched from the best of what lies on the graph, one label
  changed at a time.
* a distance d: couplings of labels up to d edges apart; infinite, of all. With 1 all that is kept lies on the field's
  own graph, where an exact engine is exact.
* ``terms`` "centred": each coupling of two labels about its mean, and those of a pair's feature with itself and with
  its two labels; all else of pairs goes, with what it says of one label or of two. "whole": G written out in
  indicators, θᵀs − (Mb)ᵀs + ½ sᵀMs; of that every term of one or two labels (no more than d edges apart) stays as it
  is, −Mb in full, and those of three and four labels go.

The paper's m is λ_MP, with the posterior N(λ_MP, P⁻¹): ``about`` "mode". About "mean", the corrected one, the Gaussian
is the one that the rest of the library averages over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import linalg, sparse

from bayesfield.graph.structure import pair_graph
from bayesfield.inference.messages.belief_propagation import Bethe
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.types import FloatArray, IntArray, InvalidInput, Outcome, Status

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

    def centred(self) -> Kept:
        """Couplings about their means."""
        return Kept(self.own, self.pair, self.coupling)

    def whole(self) -> Kept:
        """G in indicators, as far as terms have one label or two."""
        linear = self.M @ self._mean()
        return Kept(
            lambda t: self._whole_own(t, linear), lambda k: self._whole_pair(k, linear), lambda t, u: self._block(t, u)
        )

    def _block(self, t: int, u: int) -> FloatArray:
        K = self.node.shape[1]
        return self.M[t * K : (t + 1) * K, u * K : (u + 1) * K]

    def _of_pair(self, k: int) -> slice:
        T, K = self.node.shape
        return slice(T * K + self.which[k] * K * K, T * K + (self.which[k] + 1) * K * K)

    def _whole_own(self, t: int, linear: FloatArray) -> FloatArray:
        K = self.node.shape[1]
        result: FloatArray = self.node[t] - linear[t * K : (t + 1) * K] + 0.5 * np.diag(self._block(t, t))
        return result

    def _whole_pair(self, k: int, linear: FloatArray) -> FloatArray:
        """Of the labels of pair k, the coupling of these two in the first of all pairs that join them."""
        K, of_pair = self.node.shape[1], self._of_pair(k)
        alike = np.flatnonzero((self.pairs == self.pairs[k]).all(axis=1))
        total = self.edge[k] - linear[of_pair].reshape(K, K) + 0.5 * np.diag(self.M[of_pair, of_pair]).reshape(K, K)
        if alike[0] == k:
            total = total + self._block(*self.pairs[k])
        for other in alike[alike > k]:
            total = total + np.diag(self.M[of_pair, self._of_pair(other)]).reshape(K, K)
        for end, u in enumerate(self.pairs[k]):
            mixed = self.M[u * K : (u + 1) * K, of_pair].reshape(K, K, K)
            total = total + np.einsum("iij->ij" if end == 0 else "jij->ij", mixed)
        return np.asarray(total)

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


class Kept(NamedTuple):
    """What a truncation says of one label, of the labels of pair k, and of two labels that no pair joins."""

    own: Callable[[int], FloatArray]
    pair: Callable[[int], FloatArray]
    coupling: Callable[[int, int], FloatArray]


def kept_terms(q: LocalQuadratic, terms: str) -> Kept:
    """terms: "centred" or "whole"."""
    return q.whole() if terms == "whole" else q.centred()


def check_cut(distance: float | None, terms: str, about: str) -> None:
    """That a truncation is one of those there are."""
    if distance is not None and not distance >= 1:
        raise InvalidInput(
            f"distance is at least 1, float('inf') for all pairs of labels, or None for all of G; got {distance}"
        )
    if terms not in ("centred", "whole"):
        raise InvalidInput(f'terms is "centred" or "whole"; got {terms!r}')
    if about not in ("mean", "mode"):
        raise InvalidInput(f'about is "mean" or "mode"; got {about!r}')


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


def within(q: LocalQuadratic, distance: float, engine: Engine | None = None, terms: str = "centred") -> IntArray:
    """The best labelling by what is kept; exactly, if a junction tree is small or the engine exact."""
    T, K = q.node.shape
    if T == 0:
        return np.empty(0, dtype=np.int64)
    far, kept = _apart(q.pairs, T, distance), kept_terms(q, terms)
    tables = [*(kept.pair(k) for k in range(len(q.pairs))), *(kept.coupling(t, u) for t, u in far)]
    graph = pair_graph(np.full(T, K), np.concatenate([q.pairs.reshape(-1, 2), far]))
    theta = np.concatenate([*(kept.own(t) for t in range(T)), *(table.ravel() for table in tables)])
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


def _apart(pairs: IntArray, nodes: int, distance: float) -> IntArray:
    """Pairs of nodes, ascending, from 2 to ``distance`` edges apart; infinite: those that nothing joins, too."""
    if distance < 2 or (not len(pairs) and distance < np.inf):
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
