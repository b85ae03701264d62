"""Gibbs sweeps of fields of scored pairs (kernels.gibbs.scored) at a ladder of temperatures, with swaps in between.

A chain stays where it is for all of its sweeps at all temperatures. Moved by a call for every sweep and temperature,
ladders of many small batches spent most of their time between kernels. Energies follow from what each update changes,
for S_i is at hand, and cost nothing beside it.
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.gibbs.scored import (
    FLUSH,
    WIDTH,
    ScoredField,
    ScoredLane,
    Sweeps,
    draw,
    flush,
    keep,
    keep_drawn,
    load,
    store,
    sums_of,
    weigh,
    weigh_two,
)
from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray

_HALF, _ONE = np.float32(0.5), np.float32(1.0)


class Ladder(NamedTuple):
    """betas: (R,), up to 1. states and seeds of all chains at each but the last, (R − 1, chains, n) and (R − 1, chains,
    2), and at the last. Chains first … last have this field."""

    betas: FloatArray
    states: np.ndarray
    seeds: np.ndarray
    top: np.ndarray
    top_seeds: np.ndarray
    first: int
    last: int


@jit
def sweep_ladder(
    f: ScoredField,
    ladder: Ladder,
    sweeps: int,
    count: bool,
    alone: FloatArray,
    pairs: FloatArray,
    swapped: FloatArray,
    record: FloatArray,
) -> None:
    """Sweeps at potentials βθ, each followed by swaps of neighbours, even pairs and then odd ones; all moved in place.

    alone and pairs gather what ``sweep_scored`` does, at β = 1. swapped (R − 1,) gathers probabilities of swaps, record
    (sweeps or 0, R, chains) the energies θ(x) − θ(0) before them.
    """
    n, most = f.alone.shape
    levels = len(ladder.betas)
    bits = np.zeros(WIDTH, dtype=np.int32)
    room, weight = np.zeros((3, WIDTH), dtype=np.float32), np.zeros((most, WIDTH), dtype=np.float32)
    low, high = np.zeros((levels, WIDTH), dtype=np.uint64), np.zeros((levels, WIDTH), dtype=np.uint64)
    u, x = np.zeros((levels, n, WIDTH), dtype=np.float32), np.zeros((levels, n, WIDTH), dtype=np.float32)
    energy, before = np.zeros((levels, WIDTH)), np.zeros((3, WIDTH), dtype=np.float32)
    u_before, x_before, moved = before[0], before[1], before[2]
    columns = FLUSH * WIDTH if count else 0
    kept = Sweeps(
        np.zeros((len(pairs), columns), dtype=np.float32),
        np.zeros((n, columns), dtype=np.float32),
        np.zeros((n, columns), dtype=np.float32),
    )
    for start in range(ladder.first, ladder.last, WIDTH):
        width = min(WIDTH, ladder.last - start)
        for r in range(levels):
            lane = ScoredLane(bits, bits.view(np.float32), room[0], room[1], weight, room[2], low[r], high[r])
            if r == levels - 1:
                load(f, ladder.top, ladder.top_seeds, start, width, u[r], x[r], lane)
            else:
                load(f, ladder.states[r], ladder.seeds[r], start, width, u[r], x[r], lane)
            _energies(f, u[r], x[r], lane, energy[r])
        for sweep in range(sweeps):
            for r in range(levels):
                lane = ScoredLane(bits, bits.view(np.float32), room[0], room[1], weight, room[2], low[r], high[r])
                counts, beta = count and r == levels - 1, np.float32(ladder.betas[r])
                moved[:] = np.float32(0.0)
                for i in range(n):
                    sums_of(f.coupling[i], u[r], lane.sums)
                    if f.states[i] == 2:
                        weigh_two(f, i, beta, lane)
                    else:
                        weigh(f, i, beta, lane)
                    if counts:
                        keep(f, i, sweep % FLUSH, width, u[r, i], lane, kept, alone)
                    u_before[:] = u[r, i]
                    x_before[:] = x[r, i]
                    draw(f, i, u[r, i], x[r, i], lane)
                    _moved(f, i, u_before, x_before, u[r, i], x[r, i], lane.sums, moved)
                    if counts:
                        keep_drawn(i, sweep % FLUSH, width, u[r, i], lane, kept)
                for c in range(WIDTH):
                    energy[r, c] += moved[c]
            if len(record):
                record[sweep, :, start : start + width] = energy[:, :width]
            for parity in range(2):
                for r in range(parity, levels - 1, 2):
                    lane = ScoredLane(bits, bits.view(np.float32), room[0], room[1], weight, room[2], low[r], high[r])
                    swapped[r] += _swap(ladder.betas[r + 1] - ladder.betas[r], r, width, u, x, energy, lane)
            if count and (sweep % FLUSH == FLUSH - 1 or sweep == sweeps - 1):
                flush(kept, pairs)
        for r in range(levels):
            lane = ScoredLane(bits, bits.view(np.float32), room[0], room[1], weight, room[2], low[r], high[r])
            if r == levels - 1:
                store(ladder.top, ladder.top_seeds, start, width, x[r], lane)
            else:
                store(ladder.states[r], ladder.seeds[r], start, width, x[r], lane)


@jit
def _energies(f: ScoredField, u: np.ndarray, x: np.ndarray, lane: ScoredLane, energy: FloatArray) -> None:
    """Σ_i a_i(x_i) + ½ Σ_i u_i S_i, which is θ(x) − θ(0)."""
    energy[:] = 0.0
    for i in range(len(u)):
        sums_of(f.coupling[i], u, lane.sums)
        for c in range(WIDTH):
            energy[c] += f.alone[i, np.int64(x[i, c])] + _HALF * u[i, c] * lane.sums[c]


@jit
def _moved(
    f: ScoredField,
    i: int,
    u_before: np.ndarray,
    x_before: np.ndarray,
    u: np.ndarray,
    x: np.ndarray,
    sums: np.ndarray,
    moved: np.ndarray,
) -> None:
    """What x_i's update adds to the energy, at S_i of the same moment."""
    if f.states[i] == 2:
        a, step = f.alone[i, 1] - f.alone[i, 0], f.scores[i, 1] - f.scores[i, 0]
        for c in range(WIDTH):
            moved[c] += (x[c] - x_before[c]) * (a + step * sums[c])
        return
    for c in range(WIDTH):
        alone = f.alone[i, np.int64(x[c])] - f.alone[i, np.int64(x_before[c])]
        moved[c] += alone + (u[c] - u_before[c]) * sums[c]


@jit
def _swap(step: float, r: int, width: int, u: np.ndarray, x: np.ndarray, energy: FloatArray, lane: ScoredLane) -> float:
    """Exchange of the states at temperatures r and r + 1, with probability min(1, a); Σ min(1, a).

    log a = (β_{r+1} − β_r)(θ(x_r) − θ(x_{r+1})).
    """
    total, taken = 0.0, np.zeros(WIDTH, dtype=np.bool_)
    _uniforms(lane.low, lane.high, lane.bits)
    for c in range(WIDTH):
        a = np.exp(min(0.0, step * (energy[r, c] - energy[r + 1, c])))
        if c < width:
            total += a
        taken[c] = lane.real[c] - _ONE < a
        if taken[c]:
            energy[r, c], energy[r + 1, c] = energy[r + 1, c], energy[r, c]
    for i in range(u.shape[1]):
        _exchange(taken, u[r, i], u[r + 1, i])
        _exchange(taken, x[r, i], x[r + 1, i])
    return total


@jit
def _exchange(taken: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    for c in range(WIDTH):
        one, other = low[c], high[c]
        low[c] = other if taken[c] else one
        high[c] = one if taken[c] else other


@jit
def _uniforms(low: np.ndarray, high: np.ndarray, bits: np.ndarray) -> None:
    """From 1 to 2, as the bits of real numbers; the generators' words move on. Every
    update of a site has these lines among its own, where a call would take 2 ns."""
    for c in range(WIDTH):
        s0, s1 = low[c], high[c]
        bits[c] = np.int32(((s0 + s1) >> np.uint64(41)) | np.uint64(0x3F800000))
        s1 ^= s0
        low[c] = ((s0 << np.uint64(24)) | (s0 >> np.uint64(40))) ^ s1 ^ (s1 << np.uint64(16))
        high[c] = (s1 << np.uint64(37)) | (s1 >> np.uint64(27))
