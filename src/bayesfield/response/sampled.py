"""The covariance of the features over sampled states, shrunk towards another estimate where there is one.

Ledoit & Wolf (2004): of all (1 − α) S + α T the one nearest to the truth has α = Σ Var(S_ij) / Σ E(S_ij − T_ij)², the
variances told by the batches, in units of the target's standard deviations. A target that is far off gets no weight;
one that is off in a few places only gets no more than lets their noise explain the move.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayesfield import memory
from bayesfield.graph.compiled import Design, features
from bayesfield.response.base import Response
from bayesfield.response.two_valued import bit_covariance, two_valued
from bayesfield.types import Cost, FloatArray

if TYPE_CHECKING:
    from bayesfield.graph.structure import Graph

_ASTRAY = 4.0  # standard errors by which shrinkage may move an entry


def within_covariance(graph: Graph, design: Design, states: NDArray[np.int32], batches: int) -> FloatArray:
    """Mean covariance of the features within batches of chains, (F, F). states: (snapshots, chains, n)."""
    known = graph.plan_with("two-valued", design, lambda: two_valued(graph, design))
    if known is None:
        return SampleResponse(graph, design, states, batches, pooled=False).covariance()
    by_chain, parts = _by_chain(states, batches)
    scale = 1.0 / max(len(by_chain) - batches * len(states), 1)
    return bit_covariance(graph, known, by_chain, parts, scale)


def pooled_covariance(graph: Graph, design: Design, states: NDArray[np.int32]) -> FloatArray | None:
    """Covariance over all states, (snapshots, chains, n), by bits, (F, F); None where features have more values."""
    known = graph.plan_with("two-valued", design, lambda: two_valued(graph, design))
    if known is None:
        return None
    rows = states.reshape(-1, states.shape[2])
    return bit_covariance(graph, known, rows, [slice(0, len(rows))], 1.0 / max(len(rows) - 1, 1))


class SampleResponse(Response):
    """Covariance within batches of sampled states.

    features: f − its mean, over all samples or within the batch, (samples, F). weight: α, of the shrinkage.
    """

    def __init__(
        self,
        graph: Graph,
        design: Design,
        states: NDArray[np.int32],
        batches: int,
        pooled: bool,
        target: FloatArray | None = None,
    ) -> None:
        """states: (snapshots, chains, n). pooled: batches share their potentials, and so their mean."""
        super().__init__(design)
        by_chain, self._parts = _by_chain(states, batches)
        size = self.size
        what = Cost(float(len(by_chain) * size), 16.0 * len(by_chain) * size, f"{len(by_chain):,} × {size:,} features")
        memory.require(what, "a sample covariance", "Take fewer chains or snapshots.")
        self.features = features(graph, design, by_chain)
        if pooled:
            self.features -= self.features.mean(axis=0)
            self._scale = 1.0 / max(len(self.features) - 1, 1)
        else:
            for part in self._parts:
                self.features[part] -= self.features[part].mean(axis=0)
            self._scale = 1.0 / max(len(self.features) - batches * len(states), 1)
        self._target = target
        self.weight = 0.0 if target is None else shrinkage(self.bare(), self.noise(), target)

    def product(self, vectors: FloatArray) -> FloatArray:
        result: FloatArray = self.features.T @ (self.features @ vectors) * self._scale
        if self.weight and self._target is not None:
            result = (1.0 - self.weight) * result + self.weight * (self._target @ vectors)
        return result

    def covariance(self) -> FloatArray:
        result = self.bare()
        if self.weight and self._target is not None:
            result = (1.0 - self.weight) * result + self.weight * self._target
        return result

    def diagonal(self) -> FloatArray:
        own: FloatArray = np.einsum("sf,sf->f", self.features, self.features) * self._scale
        if self.weight and self._target is not None:
            own = (1.0 - self.weight) * own + self.weight * np.diag(self._target)
        return own

    def noise(self) -> FloatArray:
        """Variance of every entry of the sample covariance, (F, F), from its scatter over batches."""
        total, sums, squares = self._moments
        own, count = total * self._scale, len(self._parts)
        scatter = squares - 2.0 * own * sums + count * own**2
        return np.maximum(scatter, 0.0) / (count * max(count - 1, 1))

    def bare(self) -> FloatArray:
        """The sample covariance itself, (F, F)."""
        total = self._moments[0] if self._target is not None else self.features.T @ self.features
        result: FloatArray = total * self._scale
        return result

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Σ ffᵀ over all samples, and Σ and Σ² over batches of each one's covariance: all in one pass."""
        total, sums, squares = (np.zeros((self.size, self.size)) for _ in range(3))
        for part in self._parts:
            rows = self.features[part]
            own = rows.T @ rows
            total += own
            own /= max(len(rows) - 1, 1)
            sums += own
            squares += own**2
        return total, sums, squares


def _by_chain(states: NDArray[np.int32], batches: int) -> tuple[NDArray[np.int32], list[slice]]:
    """All snapshots of a chain one after the other, (samples, n), and the samples of each batch of chains."""
    snapshots, chains, n = states.shape
    edges = [snapshots * (chains * b // batches) for b in range(batches + 1)]
    rows = np.ascontiguousarray(states.transpose(1, 0, 2)).reshape(-1, n)
    return rows, [slice(a, b) for a, b in itertools.pairwise(edges)]


def shrinkage(mean: FloatArray, noise: FloatArray, target: FloatArray) -> float:
    """α for a sample covariance with entrywise variances ``noise``: never so much that an entry moves beyond it."""
    unit = 1.0 / np.sqrt(np.maximum(np.diag(target), 1e-300))  # rare features count like the others
    scale = unit[:, None] * unit
    distance = float(np.sum(((mean - target) * scale) ** 2))
    if distance == 0.0:
        return 1.0
    best = float(np.sum(noise * scale**2)) / distance
    astray = float(np.max(np.abs(mean - target) / np.sqrt(np.maximum(noise, 1e-300))))
    return min(1.0, best, _ASTRAY / astray)
