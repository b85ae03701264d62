"""Gibbs sampling of many independent chains.

Each chain has its own generator (xoroshiro128+, Blackman & Vigna), so that results do not depend on how chains are
spread over threads.
"""

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, GraphArrays, IntArray


@jit
def uniform(seed: np.ndarray) -> float:
    """A number in [0, 1) from two words of state."""
    s0, s1 = seed[0], seed[1]
    result = s0 + s1
    s1 ^= s0
    seed[0] = ((s0 << np.uint64(24)) | (s0 >> np.uint64(40))) ^ s1 ^ (s1 << np.uint64(16))
    seed[1] = (s1 << np.uint64(37)) | (s1 >> np.uint64(27))
    return float(result >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@jit
def _scratch(g: GraphArrays) -> tuple[FloatArray, IntArray]:
    """Room for one variable's conditional and for the entries of its factors."""
    widest, degree = 1, 1
    for i in range(len(g.cardinality)):
        widest = max(widest, g.cardinality[i])
        degree = max(degree, g.slot_ptr[i + 1] - g.slot_ptr[i])
    return np.empty(widest), np.empty(degree, dtype=np.int64)


@jit
def _offset(g: GraphArrays, slot: int, x: np.ndarray) -> int:
    """Entry of θ that a factor takes with the slot's variable in state 0 and the others as they are."""
    a = g.slot_factor[slot]
    entry = g.table_ptr[a]
    for k in range(g.scope_ptr[a], g.scope_ptr[a + 1]):
        if k != slot:
            entry += g.stride[k] * x[g.scope[k]]
    return entry


@jit
def _conditional(g: GraphArrays, theta: FloatArray, i: int, x: np.ndarray, entry: IntArray, p: FloatArray) -> float:
    """p(x_i | rest) into p, the factors' entries into ``entry``; returns the log normaliser."""
    K = g.cardinality[i]
    for s in range(K):
        p[s] = theta[g.node_ptr[i] + s]
    for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
        slot = g.slots[k]
        at = _offset(g, slot, x)
        entry[k - g.slot_ptr[i]] = at
        for s in range(K):
            p[s] += theta[at + s * g.stride[slot]]
    top = p[0]
    for s in range(1, K):
        top = max(top, p[s])
    total = 0.0
    for s in range(K):
        p[s] = np.exp(p[s] - top)
        total += p[s]
    scale = 1.0 / total
    for s in range(K):
        p[s] *= scale
    return top + np.log(total)


@jit
def sweep_chains(
    g: GraphArrays, theta: FloatArray, states: np.ndarray, seeds: np.ndarray, sweeps: int, means: FloatArray
) -> None:
    """Gibbs sweeps of all chains. states (chains, n) and seeds (chains, 2) are moved on in place.

    means (T,) gathers Rao-Blackwellised frequencies of every table entry: at each update of a variable the whole
    conditional counts, for its own table and for the tables of its factors (where each member counts alike).
    """
    n = len(g.cardinality)
    p, entry = _scratch(g)
    for c in range(len(states)):
        x = states[c]
        for _ in range(sweeps):
            for i in range(n):
                K = g.cardinality[i]
                _conditional(g, theta, i, x, entry, p)
                left = uniform(seeds[c])
                s = 0
                while s < K - 1 and left >= p[s]:
                    left -= p[s]
                    s += 1
                x[i] = s
                for y in range(K):
                    means[g.node_ptr[i] + y] += p[y]
                for k in range(g.slot_ptr[i + 1] - g.slot_ptr[i]):
                    stride = g.stride[g.slots[g.slot_ptr[i] + k]]
                    for y in range(K):
                        means[entry[k] + y * stride] += p[y]
