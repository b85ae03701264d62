"""The covariance of the features over sampled states, shrunk towards another estimate where there is one.

Ledoit & Wolf (2004): of all (1 − α) S + α T the one nearest to the truth has α = Σ Var(S_ij) / Σ E(S_ij − T_ij)²; the
variances are told by the batches. A target that is far off (Bethe on a dense field) gets no weight by itself.
"""

import itertools

import numpy as np
from numpy.typing import NDArray

from bayesfield import memory
from bayesfield.graph import Design, Graph, features
from bayesfield.response.base import Response
from bayesfield.types import Cost, FloatArray


class SampleResponse(Response):
    """Covariance within batches of sampled states.

    features: f − mean of the batch, (samples, F). groups: first sample of each batch, with the end. weight: α.
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
        snapshots, chains, n = states.shape
        by_chain = np.ascontiguousarray(states.transpose(1, 0, 2)).reshape(-1, n)
        size = self.size
        what = Cost(float(len(by_chain) * size), 16.0 * len(by_chain) * size, f"{len(by_chain):,} × {size:,} features")
        memory.require(what, "a sample covariance", "Take fewer chains or snapshots.")
        self.features = features(graph, design, by_chain)
        edges = [snapshots * (chains * b // batches) for b in range(batches + 1)]
        self._parts = [slice(a, b) for a, b in itertools.pairwise(edges)]
        if pooled:
            self.features -= self.features.mean(axis=0)
            self._scale = 1.0 / max(len(self.features) - 1, 1)
        else:
            for part in self._parts:
                self.features[part] -= self.features[part].mean(axis=0)
            self._scale = 1.0 / max(len(self.features) - batches * snapshots, 1)
        self._target = target
        self.weight = 0.0 if target is None else self._shrinkage(target)

    def product(self, vectors: FloatArray) -> FloatArray:
        result: FloatArray = self.features.T @ (self.features @ vectors) * self._scale
        if self.weight and self._target is not None:
            result = (1.0 - self.weight) * result + self.weight * (self._target @ vectors)
        return result

    def covariance(self) -> FloatArray:
        result: FloatArray = self.features.T @ self.features * self._scale
        if self.weight and self._target is not None:
            result = (1.0 - self.weight) * result + self.weight * self._target
        return result

    def diagonal(self) -> FloatArray:
        own: FloatArray = np.einsum("sf,sf->f", self.features, self.features) * self._scale
        if self.weight and self._target is not None:
            own = (1.0 - self.weight) * own + self.weight * np.diag(self._target)
        return own

    def _shrinkage(self, target: FloatArray) -> float:
        own = self.features.T @ self.features * self._scale
        count, noise = len(self._parts), 0.0
        for part in self._parts:
            rows = self.features[part]
            noise += float(np.sum((rows.T @ rows / max(len(rows) - 1, 1) - own) ** 2))
        noise /= count * max(count - 1, 1)
        distance = float(np.sum((own - target) ** 2))
        return min(1.0, noise / distance) if distance > 0.0 else 1.0
