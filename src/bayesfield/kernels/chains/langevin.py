"""Contrastive-divergence gradients of chain CRFs: Gibbs sweeps that start at the data's own labels."""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.chains.inputs import Inputs, times
from bayesfield.kernels.chains.passes import ChainArrays, exponentials
from bayesfield.kernels.gibbs.general import uniform
from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, IntArray


class ChainContrast(NamedTuple):
    """The labelled sequences, the features and the prior."""

    chains: ChainArrays
    row_ptr: np.ndarray  # inputs by rows
    column: np.ndarray
    value: FloatArray
    edge_rows: FloatArray  # (Q, E)
    node_tables: FloatArray  # (G, K)
    edge_tables: FloatArray  # (H, K, K)
    labels: IntArray  # (P,)
    statistic: FloatArray  # f
    location: FloatArray  # μ
    precision: FloatArray  # Λ⁻¹ (F, F)


class Room(NamedTuple):
    """What a gradient needs besides."""

    node: FloatArray  # (P, K)
    edge: FloatArray  # (Q, K, K)
    M: FloatArray  # its exponentials
    top: FloatArray  # (Q,)
    labels: IntArray  # (P,)
    weights: FloatArray  # (D, K)
    conditional: FloatArray  # (K,)


@jit
def contrast(
    c: ChainContrast, room: Room, parameters: FloatArray, sweeps: int, seed: np.ndarray, slope: FloatArray
) -> None:
    """∇ log posterior with E[f] from labels after some sweeps: f(y) − f(y_k) − Λ⁻¹ (λ − μ). seed: (2,)."""
    _potentials(c, room, parameters)
    P, K = room.node.shape
    for t in range(P):
        top = room.node[t].max()
        for k in range(K):
            room.node[t, k] = np.exp(room.node[t, k] - top)
    exponentials(room.edge, room.M, room.top)
    room.labels[:] = c.labels
    for _ in range(sweeps):
        _sweep(c.chains, room, seed)
    away = parameters - c.location
    for f in range(len(slope)):
        slope[f] = c.statistic[f] - np.dot(c.precision[f], away)
    _take_features(c, room.labels, slope)


@jit
def _potentials(c: ChainContrast, room: Room, parameters: FloatArray) -> None:
    G, (D, K) = len(c.node_tables), room.weights.shape
    for d in range(D):
        for k in range(K):
            room.weights[d, k] = 0.0
            for g in range(G):
                room.weights[d, k] += parameters[d * G + g] * c.node_tables[g, k]
    times(Inputs(c.row_ptr, c.column, c.value), room.weights, 0, len(room.node), room.node)
    (Q, E), H, first = c.edge_rows.shape, len(c.edge_tables), D * G
    room.edge[:] = 0.0
    for q in range(Q):
        for h in range(H):
            total = 0.0
            for e in range(E):
                total += c.edge_rows[q, e] * parameters[first + e * H + h]
            for i in range(K):
                for j in range(K):
                    room.edge[q, i, j] += total * c.edge_tables[h, i, j]


@jit
def _sweep(chains: ChainArrays, room: Room, seed: np.ndarray) -> None:
    """Every label in turn, given its neighbours. room.node: exponentials."""
    y, p, K = room.labels, room.conditional, room.node.shape[1]
    for s in range(len(chains.ptr) - 1):
        begin, end = chains.ptr[s], chains.ptr[s + 1]
        for t in range(begin, end):
            total = 0.0
            for k in range(K):
                weight = room.node[t, k]
                if t > begin:
                    weight *= room.M[chains.which[t - 1], y[t - 1], k]
                if t < end - 1:
                    weight *= room.M[chains.which[t], k, y[t + 1]]
                p[k] = weight
                total += weight
            left, label = uniform(seed) * total, 0
            while label < K - 1 and left >= p[label]:
                left -= p[label]
                label += 1
            y[t] = label


@jit
def _take_features(c: ChainContrast, y: IntArray, slope: FloatArray) -> None:
    """slope −= f(y)."""
    G, H, E = len(c.node_tables), len(c.edge_tables), c.edge_rows.shape[1]
    first = len(slope) - E * H
    for t in range(len(y)):
        for e in range(c.row_ptr[t], c.row_ptr[t + 1]):
            for g in range(G):
                slope[c.column[e] * G + g] -= c.value[e] * c.node_tables[g, y[t]]
    for s in range(len(c.chains.ptr) - 1):
        for t in range(c.chains.ptr[s], c.chains.ptr[s + 1] - 1):
            q = c.chains.which[t]
            for h in range(H):
                value = c.edge_tables[h, y[t], y[t + 1]]
                if value != 0.0:
                    for e in range(E):
                        slope[first + e * H + h] -= c.edge_rows[q, e] * value


@jit
def drift(
    c: ChainContrast,
    room: Room,
    covariance: FloatArray,
    noise: FloatArray,
    step: float,
    sweeps: int,
    x: FloatArray,
    seed: np.ndarray,
    kept: FloatArray,
) -> None:
    """λ ← λ + ½ε² M g + noise, as in kernels.langevin."""
    slope = np.empty(len(x))
    thin = len(noise) // len(kept)
    for k in range(len(noise)):
        contrast(c, room, x, sweeps, seed, slope)
        x += 0.5 * step * step * np.dot(covariance, slope)
        for f in range(len(x)):
            x[f] += noise[k, f]
        if (k + 1) % thin == 0:
            kept[k // thin] = x
