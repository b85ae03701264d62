"""Gibbs sampling where all factors join two variables, of any numbers of states.

Each variable has, for each neighbour and each of that one's states, the factor's potentials exp(θ) side by side, so
that a conditional is a product of rows, without exponentials; means are gathered in the same places. Rows have
eight places, for vector registers. With five states and 16 neighbours twice as fast as the general kernel (gibbs).
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.gibbs.general import uniform
from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, GraphArrays, IntArray

WIDTH = 8  # places of a row: the most states a variable may have; a constant, for the loops to be unrolled
WIDE = 600.0  # most that |θ| may add up to around a variable, for products of exp(θ) to stay within doubles


class PairTables(NamedTuple):
    """Rows as each variable sees them, WIDTH places each, zeros beyond its own states.

    row: (E,) for each slot, in the order of ``slots``, where the row of the neighbour's first state begins; neighbour:
    (E,). own: (n,) where the variable's own row begins. value: exp(θ − top of the row). entry: where each place stands
    in θ, −1 for none. steepest: the largest sum of |θ| around a variable.
    """

    row: IntArray
    neighbour: IntArray
    own: IntArray
    value: FloatArray
    entry: IntArray
    steepest: float


@jit
def pair_tables(g: GraphArrays, theta: FloatArray) -> PairTables:
    n, slots, rows = len(g.cardinality), len(g.slots), len(g.cardinality)
    for a in range(len(g.table_ptr) - 1):
        for k in range(g.scope_ptr[a], g.scope_ptr[a + 1]):
            rows += g.cardinality[g.scope[k]]
    row, neighbour, own = np.empty(slots, dtype=np.int64), np.empty(slots, dtype=np.int64), np.empty(n, dtype=np.int64)
    value, entry = np.zeros(rows * WIDTH), np.full(rows * WIDTH, -1, dtype=np.int64)
    at, steepest = 0, 0.0
    for i in range(n):
        own[i] = at
        steep = _fill(theta, g.node_ptr[i], 1, g.cardinality[i], value, entry, at)
        at += WIDTH
        for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
            slot = g.slots[k]
            a = g.slot_factor[slot]
            first = g.scope_ptr[a]
            other = first + 1 if slot == first else first
            row[k], neighbour[k] = at, g.scope[other]
            worst = 0.0
            for y in range(g.cardinality[neighbour[k]]):
                begin = g.table_ptr[a] + y * g.stride[other]
                worst = max(worst, _fill(theta, begin, g.stride[slot], g.cardinality[i], value, entry, at))
                at += WIDTH
            steep += worst
        steepest = max(steepest, steep)
    return PairTables(row, neighbour, own, value, entry, steepest)


@jit
def _fill(theta: FloatArray, begin: int, stride: int, K: int, value: FloatArray, entry: IntArray, at: int) -> float:
    """One row; returns how far its smallest θ lies below its largest."""
    top, low = theta[begin], theta[begin]
    for s in range(K):
        entry[at + s] = begin + s * stride
        top, low = max(top, theta[entry[at + s]]), min(low, theta[entry[at + s]])
    for s in range(K):
        value[at + s] = np.exp(theta[entry[at + s]] - top)
    return top - low


@jit
def sweep_chains(
    g: GraphArrays, t: PairTables, states: np.ndarray, seeds: np.ndarray, sweeps: int, count: bool, means: FloatArray
) -> None:
    """As gibbs.sweep_chains; count: whether means (T,) are gathered."""
    p = np.empty(WIDTH)
    gathered = np.zeros(len(t.value))
    for c in range(len(states)):
        x, seed = states[c], seeds[c]
        for _ in range(sweeps):
            for i in range(len(g.cardinality)):
                x[i] = _update(g, t, i, x, seed, p)
                if count:
                    at = t.own[i]
                    for y in range(WIDTH):
                        gathered[at + y] += p[y]
                    for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
                        at = t.row[k] + WIDTH * x[t.neighbour[k]]
                        for y in range(WIDTH):
                            gathered[at + y] += p[y]
    for k in range(len(gathered)):
        if t.entry[k] >= 0:
            means[t.entry[k]] += gathered[k]


@jit
def _update(g: GraphArrays, t: PairTables, i: int, x: np.ndarray, seed: np.ndarray, p: FloatArray) -> int:
    """p(x_i | rest) into p, and a draw from it."""
    at = t.own[i]
    for s in range(WIDTH):
        p[s] = t.value[at + s]
    for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
        at = t.row[k] + WIDTH * x[t.neighbour[k]]
        for s in range(WIDTH):
            p[s] *= t.value[at + s]
    total = 0.0
    for s in range(WIDTH):
        total += p[s]
    scale = 1.0 / total
    for s in range(WIDTH):
        p[s] *= scale
    left = uniform(seed)
    chosen, last = 0, g.cardinality[i] - 1
    while chosen < last and left >= p[chosen]:
        left -= p[chosen]
        chosen += 1
    return chosen
