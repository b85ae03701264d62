"""Cases with holes as complete ones: all joint states of few holes, or draws of them given what is observed."""

import numpy as np

from bayesfield.kernels.gibbs.general import uniform
from bayesfield.kernels.jit import jit
from bayesfield.kernels.likelihood.composite import Blocks, _bases, _conditional, _offsets, _room
from bayesfield.types import FloatArray, GraphArrays, IntArray


@jit
def count_states(codes: np.ndarray, cardinality: IntArray, most: int, out: IntArray) -> None:
    """out[c]: joint states of the holes (−1) of case c; most + 1 for more than ``most``."""
    for c in range(codes.shape[0]):
        out[c] = 1
        for i in range(codes.shape[1]):
            if codes[c, i] < 0:
                out[c] = min(out[c] * cardinality[i], most + 1)


@jit
def fill_states(codes: np.ndarray, cardinality: IntArray, ptr: IntArray, out: np.ndarray) -> None:
    """Rows ptr[c] … ptr[c+1] of out: case c with its holes in joint states 0, 1, …, numbered by mixed radix."""
    for c in range(codes.shape[0]):
        for k in range(ptr[c], ptr[c + 1]):
            rest = k - ptr[c]
            for i in range(codes.shape[1]):
                if codes[c, i] >= 0:
                    out[k, i] = codes[c, i]
                else:
                    out[k, i] = rest % cardinality[i]
                    rest //= cardinality[i]


@jit
def sweep_holes(
    g: GraphArrays,
    sites: Blocks,
    theta: FloatArray,
    holes: np.ndarray,
    sweeps: int,
    seeds: np.ndarray,
    out: np.ndarray,
) -> None:
    """Gibbs sweeps over the holes of every row of out, given the rest of it. holes: (K, n). seeds: (K, 2)."""
    offset, base, p = _room(sites)
    for i in range(out.shape[1]):  # a start that depends on the seed alone
        for k in range(out.shape[0]):
            if holes[k, i] and out[k, i] < 0:
                out[k, i] = int(uniform(seeds[k]) * g.cardinality[i])
    for _ in range(sweeps):
        for i in range(out.shape[1]):
            b = sites.of_variable[i]
            tables, states = sites.table_ptr[b + 1] - sites.table_ptr[b], sites.states[b]
            _offsets(g, sites, b, offset)
            for k in range(out.shape[0]):
                if not holes[k, i]:
                    continue
                own = _bases(g, sites, b, out[k], base)
                _conditional(theta, offset, base, tables, states, own, p)
                left, s = uniform(seeds[k]) - p[0], 0
                while left > 0.0 and s < states - 1:
                    s += 1
                    left -= p[s]
                out[k, i] = s


@jit
def add_features(entries: IntArray, ptr: np.ndarray, column: np.ndarray, value: FloatArray, out: FloatArray) -> None:
    """Adds to out (N, F) the features of the table entries that each case takes, (N, tables)."""
    for c in range(entries.shape[0]):
        for k in range(entries.shape[1]):
            e = entries[c, k]
            for z in range(ptr[e], ptr[e + 1]):
                out[c, column[z]] += value[z]
