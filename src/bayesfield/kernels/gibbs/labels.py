"""Potts fields of labels, p(z) ∝ Π_i w_i(z_i) exp(β Σ_edges [z_i = z_j]): Gibbs sweeps and cluster updates, one chain.

Neighbours stand in one row: those of i from ptr[i] to ptr[i + 1]. Sums come from conditional probabilities where that
costs nothing: their means are those of the states, with less noise.
"""

import numpy as np

from bayesfield.kernels.gibbs.general import uniform
from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, IntArray


@jit
def sweep(
    ptr: IntArray,
    neighbour: np.ndarray,
    weights: FloatArray,
    power: FloatArray,
    z: np.ndarray,
    seed: np.ndarray,
    beliefs: FloatArray,
) -> float:
    """Draw every label once, given all others. weights: w, (n, K), or (1, K) for all alike. power: exp(β c) for c equal
    neighbours. beliefs: (n, K), to which p(z_i | others) is added, or (0, K). Gives Σ_edges [z_i = z_j], each expected
    when its ends are drawn."""
    K, same, alike = weights.shape[1], 0.0, len(weights) == 1
    w, count = np.empty(K), np.zeros(K, dtype=np.int64)
    for i in range(len(ptr) - 1):
        count[:] = 0
        for e in range(ptr[i], ptr[i + 1]):
            count[z[neighbour[e]]] += 1
        total, along, row = 0.0, 0.0, 0 if alike else i
        for k in range(K):
            w[k] = weights[row, k] * power[count[k]]
            total += w[k]
            along += w[k] * count[k]
        inverse = 1.0 / total
        same += along * inverse
        if len(beliefs):
            for k in range(K):
                beliefs[i, k] += w[k] * inverse
        left, label = uniform(seed) * total, 0
        while label < K - 1 and left >= w[label]:
            left -= w[label]
            label += 1
        z[i] = label
    return 0.5 * same


@jit
def scores(ptr: IntArray, neighbour: np.ndarray, z: np.ndarray, slopes: FloatArray, out: FloatArray) -> float:
    """Of a state: Σ_i slopes[i, z_i] by label into out (K, p), and the number of edges whose ends are equal."""
    same = 0
    out[:] = 0.0
    for i in range(len(ptr) - 1):
        for e in range(ptr[i], ptr[i + 1]):
            same += z[neighbour[e]] == z[i]
        k = z[i]
        for j in range(slopes.shape[2]):
            out[k, j] += slopes[i, k, j]
    return 0.5 * same


@jit
def equal_pairs(ptr: IntArray, neighbour: np.ndarray, z: np.ndarray) -> int:
    """Σ_edges [z_i = z_j]."""
    same = 0
    for i in range(len(ptr) - 1):
        for e in range(ptr[i], ptr[i + 1]):
            same += z[neighbour[e]] == z[i]
    return same // 2


@jit
def pseudo_slopes(
    ptr: IntArray, neighbour: np.ndarray, power: FloatArray, z: np.ndarray, K: int
) -> tuple[float, float]:
    """Slope and minus curvature in β of Σ_i log p(z_i | others) without weights."""
    slope, bend = 0.0, 0.0
    count = np.zeros(K, dtype=np.int64)
    for i in range(len(ptr) - 1):
        count[:] = 0
        for e in range(ptr[i], ptr[i + 1]):
            count[z[neighbour[e]]] += 1
        total, first, second = 0.0, 0.0, 0.0
        for k in range(K):
            p = power[count[k]]
            total += p
            first += p * count[k]
            second += p * count[k] * count[k]
        mean = first / total
        slope += count[z[i]] - mean
        bend += second / total - mean * mean
    return slope, bend


@jit
def clusters(
    ptr: IntArray, neighbour: np.ndarray, bond: float, K: int, z: np.ndarray, parent: np.ndarray, seed: np.ndarray
) -> tuple[float, int]:
    """One update of Swendsen & Wang (1987) without weights: bonds with probability ``bond`` = 1 − exp(−β) between equal
    neighbours, a new label for each cluster. Gives the expected number of equal pairs given the bonds, those within a
    cluster and one in K of the others, and how many there are then."""
    n = len(ptr) - 1
    for i in range(n):
        parent[i] = i
    for i in range(n):
        for e in range(ptr[i], ptr[i + 1]):
            j = neighbour[e]
            if j > i and z[i] == z[j] and uniform(seed) < bond:
                a, b = _root(parent, i), _root(parent, j)
                if a < b:
                    parent[b] = a
                elif b < a:
                    parent[a] = b
    within, same, pairs = 0, 0, 0
    for i in range(n):
        parent[i] = parent[parent[i]]  # a root is below all that it holds, and has been reached before them
        z[i] = min(int(uniform(seed) * K), K - 1) if parent[i] == i else z[parent[i]]
    for i in range(n):
        for e in range(ptr[i], ptr[i + 1]):
            pairs += 1
            within += parent[i] == parent[neighbour[e]]
            same += z[i] == z[neighbour[e]]
    return 0.5 * (within + (pairs - within) / K), same // 2


@jit
def _root(parent: np.ndarray, i: int) -> int:
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i
