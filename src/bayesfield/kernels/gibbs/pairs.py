"""Gibbs sampling of binary pairwise fields, 64 chains (or 64 sites of one colour) at a time in vector registers.

With states 0 and 1 every pair table is θ = c + a·x_i + b·x_j + w·x_i·x_j, so that a variable's log odds are
h_i + Σ_j w_ij x_j: no table look-up. ``sweep_chains`` runs many chains side by side; ``sweep_colours`` one long chain
on a large field, where all variables of a colour (no two share a factor) move together: a chequerboard on a lattice.
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, GraphArrays, IntArray

WIDTH = 64


class PairOdds(NamedTuple):
    """A binary pairwise field by its log odds."""

    field: FloatArray  # (n,) h_i
    weight: FloatArray  # (slots,) w_ij, by variable: row i is slot_ptr[i] to slot_ptr[i+1]
    neighbour: IntArray  # (slots,) j


class Lane(NamedTuple):
    """Room for WIDTH numbers side by side. bits and real are two views of the same words."""

    bits: np.ndarray
    real: np.ndarray
    odds: FloatArray
    p: FloatArray
    low: np.ndarray  # the generators' words of state
    high: np.ndarray


@jit
def pair_odds(g: GraphArrays, theta: FloatArray) -> PairOdds:
    """h and w of a field with two states everywhere and factors of two variables."""
    n, slots = len(g.cardinality), len(g.scope)
    field, weight, neighbour = np.empty(n), np.empty(slots), np.empty(slots, dtype=np.int64)
    for i in range(n):
        field[i] = theta[g.node_ptr[i] + 1] - theta[g.node_ptr[i]]
        for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
            slot = g.slots[k]
            a = g.slot_factor[slot]
            start, own = g.table_ptr[a], g.stride[slot]
            other = 3 - own  # strides of a 2×2 table are 2 and 1
            field[i] += theta[start + own] - theta[start]
            weight[k] = theta[start + 3] - theta[start + own] - theta[start + other] + theta[start]
            neighbour[k] = g.scope[g.scope_ptr[a]] + g.scope[g.scope_ptr[a] + 1] - i
    return PairOdds(field, weight, neighbour)


@jit
def _lane() -> Lane:
    bits = np.zeros(WIDTH, dtype=np.int64)
    low, high = np.zeros(WIDTH, dtype=np.uint64), np.zeros(WIDTH, dtype=np.uint64)
    return Lane(bits, bits.view(np.float64), np.zeros(WIDTH), np.zeros(WIDTH), low, high)


@jit
def _logistic(lane: Lane) -> None:
    """p = 1 / (1 + exp(−odds)), with exp as 2^k times a Taylor series on |r| ≤ ln 2 / 2: good to 1e-14."""
    for c in range(WIDTH):
        z = min(max(-lane.odds[c], -700.0), 700.0)
        k = np.floor(z * 1.4426950408889634 + 0.5)
        r = z - k * 0.6931471805599453
        e = 1.0 + r / 11.0
        e = 1.0 + r * e * 0.1
        e = 1.0 + r * e * (1.0 / 9.0)
        e = 1.0 + r * e * 0.125
        e = 1.0 + r * e * (1.0 / 7.0)
        e = 1.0 + r * e * (1.0 / 6.0)
        e = 1.0 + r * e * 0.2
        e = 1.0 + r * e * 0.25
        e = 1.0 + r * e * (1.0 / 3.0)
        e = 1.0 + r * e * 0.5
        lane.p[c] = 1.0 + r * e
        lane.bits[c] = (np.int64(np.int32(k)) + 1023) << 52
    for c in range(WIDTH):
        lane.p[c] = 1.0 / (1.0 + lane.p[c] * lane.real[c])


@jit
def _uniforms(lane: Lane) -> None:
    """WIDTH numbers in [0, 1) from as many generators (xoroshiro128+), into ``real``."""
    for c in range(WIDTH):
        s0, s1 = lane.low[c], lane.high[c]
        lane.bits[c] = np.int64(((s0 + s1) >> np.uint64(12)) | np.uint64(0x3FF0000000000000))
        s1 ^= s0
        lane.low[c] = ((s0 << np.uint64(24)) | (s0 >> np.uint64(40))) ^ s1 ^ (s1 << np.uint64(16))
        lane.high[c] = (s1 << np.uint64(37)) | (s1 >> np.uint64(27))
    for c in range(WIDTH):
        lane.real[c] -= 1.0


@jit
def _update(o: PairOdds, first: int, last: int, i: int, x: FloatArray, lane: Lane) -> None:
    """Draw variable i of all chains in the lane; leaves p(x_i = 1 | rest) in lane.p."""
    lane.odds[:] = o.field[i]
    for k in range(first, last):
        w, other = o.weight[k], x[o.neighbour[k]]
        for c in range(WIDTH):
            lane.odds[c] += w * other[c]
    _logistic(lane)
    _uniforms(lane)
    own = x[i]
    for c in range(WIDTH):
        own[c] = 1.0 if lane.real[c] < lane.p[c] else 0.0


@jit
def _dot(a: FloatArray, b: FloatArray, width: int) -> float:
    total = 0.0
    for c in range(width):
        total += a[c] * b[c]
    return total


@jit
def sweep_chains(
    g: GraphArrays, o: PairOdds, states: np.ndarray, seeds: np.ndarray, sweeps: int, count: bool, means: FloatArray
) -> None:
    """Gibbs sweeps of all chains. states (chains, n) and seeds (chains, 2) are moved on in place.

    means (T,) gathers Rao-Blackwellised frequencies of every table entry, if ``count``: see gibbs.sweep_chains.
    """
    n, slots = len(o.field), len(o.weight)
    lane = _lane()
    x = np.zeros((n, WIDTH))
    inside = np.ones(WIDTH)
    for start in range(0, len(states), WIDTH):
        width = min(WIDTH, len(states) - start)
        inside[width:] = 0.0
        _load(states, seeds, start, width, x, lane)
        own, before, after, joint = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(slots)
        for _ in range(sweeps):
            for i in range(n):
                if count:
                    before[i] += _dot(x[i], inside, WIDTH)
                _update(o, g.slot_ptr[i], g.slot_ptr[i + 1], i, x, lane)
                if count:
                    after[i] += _dot(x[i], inside, WIDTH)
                    own[i] += _dot(lane.p, inside, WIDTH)
                    for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
                        joint[k] += _dot(lane.p, x[o.neighbour[k]], width)
        _store(states, seeds, start, width, x, lane)
        if count:
            other = np.empty(slots)  # Σ x_j at the time of i's updates
            for i in range(n):
                for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
                    j = o.neighbour[k]
                    other[k] = after[j] if j < i else before[j]
            _gather(g, float(width * sweeps), own, other, joint, means)


@jit
def _load(states: np.ndarray, seeds: np.ndarray, start: int, width: int, x: FloatArray, lane: Lane) -> None:
    for c in range(width):
        lane.low[c], lane.high[c] = seeds[start + c, 0], seeds[start + c, 1]
        for i in range(len(x)):
            x[i, c] = states[start + c, i]


@jit
def _store(states: np.ndarray, seeds: np.ndarray, start: int, width: int, x: FloatArray, lane: Lane) -> None:
    for c in range(width):
        seeds[start + c, 0], seeds[start + c, 1] = lane.low[c], lane.high[c]
        for i in range(len(x)):
            states[start + c, i] = np.int32(x[i, c])


@jit
def _gather(
    g: GraphArrays, total: float, own: FloatArray, other: FloatArray, joint: FloatArray, means: FloatArray
) -> None:
    """Sums of p_i (n,), of x_j and of p_i x_j (by slot of i) as sums of whole tables; none can come out negative."""
    for i in range(len(own)):
        means[g.node_ptr[i]] += total - own[i]
        means[g.node_ptr[i] + 1] += own[i]
        for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
            slot = g.slots[k]
            start, stride = g.table_ptr[g.slot_factor[slot]], g.stride[slot]
            means[start + 3] += joint[k]
            means[start + stride] += own[i] - joint[k]
            means[start + 3 - stride] += other[k] - joint[k]
            means[start] += total - own[i] - other[k] + joint[k]


@jit
def colours(g: GraphArrays) -> IntArray:
    """The first colour for each variable that none of its neighbours has; two on a lattice."""
    n = len(g.cardinality)
    colour = np.full(n, -1, dtype=np.int64)
    taken = np.full(n + 1, -1, dtype=np.int64)
    for i in range(n):
        for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
            a = g.slot_factor[g.slots[k]]
            for slot in range(g.scope_ptr[a], g.scope_ptr[a + 1]):
                if colour[g.scope[slot]] >= 0:
                    taken[colour[g.scope[slot]]] = i
        colour[i] = 0
        while taken[colour[i]] == i:
            colour[i] += 1
    return colour


@jit
def sweep_colours(
    g: GraphArrays,
    o: PairOdds,
    colour_ptr: IntArray,
    order: IntArray,
    x: np.ndarray,
    seeds: np.ndarray,
    sweeps: int,
    count: bool,
    means: FloatArray,
) -> None:
    """Sweeps of one chain x (n,), WIDTH sites of a colour at a time. seeds: (WIDTH, 2).

    order: variables by colour; colour_ptr: where each colour begins. means: as in sweep_chains.
    """
    lane = _lane()
    for c in range(WIDTH):
        lane.low[c], lane.high[c] = seeds[c, 0], seeds[c, 1]
    size = len(o.weight) if count else 0
    own, other, joint = np.zeros(len(x)), np.zeros(size), np.zeros(size)
    for _ in range(sweeps):
        for colour in range(len(colour_ptr) - 1):
            for start in range(colour_ptr[colour], colour_ptr[colour + 1], WIDTH):
                width = min(WIDTH, colour_ptr[colour + 1] - start)
                for c in range(width):
                    i = order[start + c]
                    odds = o.field[i]
                    for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
                        odds += o.weight[k] * x[o.neighbour[k]]
                    lane.odds[c] = odds
                _logistic(lane)
                _uniforms(lane)
                for c in range(width):
                    i = order[start + c]
                    x[i] = 1 if lane.real[c] < lane.p[c] else 0
                    if count:
                        own[i] += lane.p[c]
                        for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
                            other[k] += x[o.neighbour[k]]
                            joint[k] += lane.p[c] * x[o.neighbour[k]]
    for c in range(WIDTH):
        seeds[c, 0], seeds[c, 1] = lane.low[c], lane.high[c]
    if count:
        _gather(g, float(sweeps), own, other, joint, means)
