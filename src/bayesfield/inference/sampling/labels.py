"""Chains of Potts fields of labels on any graph, free or with weights of what is observed, for their sums.

A chain moves on from where it stands. Large fields are their own average: one chain and some hundred sweeps tell the
mean of a sum over 10⁵ sites to a tenth of its sd. Free fields with β > 0 move by clusters, which mix also near a
critical point; others by single sites, as do those with weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayesfield import parallel
from bayesfield.kernels.gibbs import labels as kernel
from bayesfield.types import FloatArray, IntArray


class Neighbours(NamedTuple):
    """Of n sites: those of i from ptr[i] to ptr[i + 1]."""

    ptr: IntArray
    other: np.ndarray  # int32

    @property
    def n(self) -> int:
        return len(self.ptr) - 1

    @property
    def edges(self) -> int:
        return len(self.other) // 2


def neighbours(n: int, edges: IntArray) -> Neighbours:
    """From edges (E, 2)."""
    ends = np.concatenate([edges, edges[:, ::-1]])
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    ptr = np.concatenate([[0], np.cumsum(np.bincount(ends[:, 0], minlength=n))]).astype(np.int64)
    return Neighbours(ptr, ends[order, 1].astype(np.int32))


class Run(NamedTuple):
    """Sums as time goes by. same: (T,) equal pairs, expected. states: (T, 1 + K p) of the states themselves: equal
    pairs, and Σ_i slopes[i, z_i] by label. beliefs: (n, K), p(z_i | others) averaged."""

    same: FloatArray
    states: FloatArray
    beliefs: FloatArray


@dataclass(eq=False)
class LabelChain:
    """z: (n,) labels. seed: of the chain's generator."""

    graph: Neighbours
    labels: int
    z: np.ndarray
    seed: int

    def __post_init__(self) -> None:
        self.z = np.ascontiguousarray(self.z, dtype=np.int8)
        self._state = parallel.chain_seeds(self.seed, 1)[0]
        self._degree = int(np.diff(self.graph.ptr).max(initial=0))

    def clamped(self, beta: float, tables: FloatArray, slopes: FloatArray | None, sweeps: int) -> Run:
        """Sweeps under log weights U (n, K). slopes: ∂U, (n, K, p), whose sums are kept for every state."""
        weights = np.exp(tables - tables.max(axis=1, keepdims=True))
        K, p = self.labels, 0 if slopes is None else slopes.shape[2]
        beliefs, power = np.zeros(tables.shape), self._power(beta)
        same, states, out = np.empty(sweeps), np.empty((sweeps, 1 + K * p)), np.empty((K, p))
        ptr, other = self.graph
        for t in range(sweeps):
            same[t] = kernel.sweep(ptr, other, weights, power, self.z, self._state, beliefs)
            if slopes is not None:
                states[t, 0] = kernel.scores(ptr, other, self.z, slopes, out)
                states[t, 1:] = out.ravel()
        return Run(same, states, beliefs / max(sweeps, 1))

    def free(self, beta: float, updates: int) -> FloatArray:
        """Equal pairs at every update without weights, (updates, 2): expected with less noise, and of the states."""
        same, (ptr, other) = np.empty((updates, 2)), self.graph
        if beta > 0.0:
            parent, bond = np.empty(len(self.z), dtype=np.int32), -np.expm1(-beta)
            for t in range(updates):
                same[t] = kernel.clusters(ptr, other, bond, self.labels, self.z, parent, self._state)
            return same
        weights, none, power = np.ones((1, self.labels)), np.empty((0, self.labels)), self._power(beta)
        for t in range(updates):
            same[t, 0] = kernel.sweep(ptr, other, weights, power, self.z, self._state, none)
            same[t, 1] = kernel.equal_pairs(ptr, other, self.z)
        return same

    def pseudo_likelihood(self, beta: float) -> float:
        """The β that makes its labels likeliest given their neighbours; steps from ``beta``."""
        ptr, other = self.graph
        for _ in range(_PSEUDO):
            slope, bend = kernel.pseudo_slopes(ptr, other, self._power(beta), self.z, self.labels)
            step = slope / max(bend, 1e-9)
            beta = float(np.clip(beta + np.clip(step, -_STEP, _STEP), -_MOST, _MOST))
            if abs(step) < _CLOSE:
                break
        return beta

    def _power(self, beta: float) -> FloatArray:
        result: FloatArray = np.exp(beta * np.arange(self._degree + 1.0))
        return result


_PSEUDO, _STEP, _CLOSE, _MOST = 5, 0.5, 1e-3, 8.0  # steps; the longest, the last; β at most, where all labels agree
