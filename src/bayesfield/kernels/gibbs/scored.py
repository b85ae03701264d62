"""Gibbs sweeps of dense fields of pairs whose interactions are products of scores, 64 chains side by side.

    log p(x_i = s | rest) = a_i(s) + u_i(s) S_i − log Z_i,      S_i = Σ_j B_ij u_j(x_j)

Binary items and ordinal ones are such fields (graph.scored). A state costs one product with a row of B and no look-up.
What is counted are the conditional probabilities of each item's states, and E[u_i | rest] u_j for all pairs, at the
states of j when i is drawn: those of this sweep for j before i, of the last one for j behind it. Beside it the
surprises, u_i as drawn − E[u_i | rest], alone and times u_j: their means are zero, so that they tell the noise of all
else (inference.sampling.controls). These are products of matrices over chains and sweeps, made by BLAS a few sweeps at
a time. Single precision: a probability is right to 1e-6,
which no count of drawn states can tell from exact ones.
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, IntArray

WIDTH = 64
FLUSH = 8  # sweeps whose products are made at a time

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_C2, _C3, _C4, _C5, _C6 = (np.float32(1.0 / k) for k in (2, 3, 4, 5, 6))
_LOG2E, _LN2 = np.float32(1.4426950408889634), np.float32(0.6931471805599453)
_ROUND, _MOST = np.float32(0.5), np.float32(80.0)


class ScoredField(NamedTuple):
    """states: (n,) q_i. alone: (n, Q) a_i(s). scores: (n, Q) u_i(s). coupling: (n, n) B, zeros on its diagonal. All but
    the first in single precision."""

    states: IntArray
    alone: np.ndarray
    scores: np.ndarray
    coupling: np.ndarray


class ScoredLane(NamedTuple):
    """Room for WIDTH chains. bits and real are two views of the same memory."""

    bits: np.ndarray
    real: np.ndarray
    sums: np.ndarray  # S_i
    most: np.ndarray
    weight: np.ndarray  # (Q, WIDTH)
    mean: np.ndarray  # E[u_i | rest]
    low: np.ndarray  # the generators' words of state
    high: np.ndarray


class Sweeps(NamedTuple):
    """What FLUSH sweeps leave: E[u_i | rest], below it the surprises, (2 n, FLUSH · WIDTH); u_i before and after."""

    mean: np.ndarray
    before: np.ndarray
    after: np.ndarray


@jit
def sweep_scored(
    f: ScoredField,
    states: np.ndarray,
    seeds: np.ndarray,
    sweeps: int,
    count: bool,
    alone: FloatArray,
    pairs: FloatArray,
) -> None:
    """Sweeps of all chains. states (chains, n) and seeds (chains, 2) are moved on in place.

    alone (n, Q) gathers Σ p(x_i = s | rest) and pairs (n, n) Σ E[u_i | rest] u_j, if ``count``; in pairs (2 n, n) those
    of the surprises follow, alone on their diagonal.
    """
    n, most = f.alone.shape
    bits = np.zeros(WIDTH, dtype=np.int32)
    room = np.zeros((3, WIDTH), dtype=np.float32)
    low, high = np.zeros(WIDTH, dtype=np.uint64), np.zeros(WIDTH, dtype=np.uint64)
    weight = np.zeros((most, WIDTH), dtype=np.float32)
    lane = ScoredLane(bits, bits.view(np.float32), room[0], room[1], weight, room[2], low, high)
    u, x = np.zeros((n, WIDTH), dtype=np.float32), np.zeros((n, WIDTH), dtype=np.float32)
    columns = FLUSH * WIDTH if count else 0
    kept = Sweeps(
        np.zeros((len(pairs), columns), dtype=np.float32),
        np.zeros((n, columns), dtype=np.float32),
        np.zeros((n, columns), dtype=np.float32),
    )
    for start in range(0, len(states), WIDTH):
        width = min(WIDTH, len(states) - start)
        load(f, states, seeds, start, width, u, x, lane)
        for sweep in range(sweeps):
            for i in range(n):
                sums_of(f.coupling[i], u, lane.sums)  # not one function of all this: a call with records of arrays
                if f.states[i] == 2:  # takes 2 ns an update, for it counts references to each
                    weigh_two(f, i, _ONE, lane)
                else:
                    weigh(f, i, _ONE, lane)
                if count:
                    keep(f, i, sweep % FLUSH, width, u[i], lane, kept, alone)
                draw(f, i, u[i], x[i], lane)
                if count:
                    keep_drawn(i, sweep % FLUSH, width, u[i], lane, kept)
            if count and (sweep % FLUSH == FLUSH - 1 or sweep == sweeps - 1):
                flush(kept, pairs)
        store(states, seeds, start, width, x, lane)


@jit
def sums_of(row: np.ndarray, u: np.ndarray, sums: np.ndarray) -> None:
    """S_i, four items at a time."""
    n = len(row)
    sums[:] = _ZERO
    whole = n - n % 4
    for j in range(0, whole, 4):
        b0, b1, b2, b3 = row[j], row[j + 1], row[j + 2], row[j + 3]
        u0, u1, u2, u3 = u[j], u[j + 1], u[j + 2], u[j + 3]
        for c in range(WIDTH):
            sums[c] += b0 * u0[c] + b1 * u1[c] + b2 * u2[c] + b3 * u3[c]
    for j in range(whole, n):
        b0, u0 = row[j], u[j]
        for c in range(WIDTH):
            sums[c] += b0 * u0[c]


@jit
def _exponential(z: np.ndarray, lane: ScoredLane) -> None:
    """z ← exp(z) for −80 ≤ z ≤ 80, as 2^k times a Taylor series on |r| ≤ ln 2 / 2."""
    for c in range(WIDTH):
        y = min(max(z[c], -_MOST), _MOST)
        k = np.floor(y * _LOG2E + _ROUND)
        r = y - k * _LN2
        e = _ONE + r * _C6
        e = _ONE + r * e * _C5
        e = _ONE + r * e * _C4
        e = _ONE + r * e * _C3
        e = _ONE + r * e * _C2
        z[c] = _ONE + r * e
        lane.bits[c] = (np.int32(k) + np.int32(127)) << np.int32(23)
    for c in range(WIDTH):
        z[c] *= lane.real[c]


@jit
def weigh(f: ScoredField, i: int, beta: np.float32, lane: ScoredLane) -> None:
    """p(x_i ≤ s | rest) into weight[s], and E[u_i | rest], at β times the potentials."""
    q = f.states[i]
    sums, most, weight, mean = lane.sums, lane.most, lane.weight, lane.mean
    most[:] = beta * f.alone[i, 0]
    for s in range(q):
        a, v, w = beta * f.alone[i, s], beta * f.scores[i, s], weight[s]
        for c in range(WIDTH):
            w[c] = a + v * sums[c]
            most[c] = max(most[c], w[c])
    mean[:] = _ZERO
    for s in range(q):
        w, v = weight[s], f.scores[i, s]
        for c in range(WIDTH):
            w[c] -= most[c]
        _exponential(w, lane)
        for c in range(WIDTH):
            mean[c] += v * w[c]
        if s:
            before = weight[s - 1]
            for c in range(WIDTH):
                w[c] += before[c]
    total = weight[q - 1]
    for c in range(WIDTH):
        most[c] = _ONE / total[c]
        mean[c] *= most[c]
    for s in range(q):
        w = weight[s]
        for c in range(WIDTH):
            w[c] *= most[c]


@jit
def weigh_two(f: ScoredField, i: int, beta: np.float32, lane: ScoredLane) -> None:
    """The same for two states: p(x_i = 0 | rest) = 1 / (1 + exp(a_i(1) − a_i(0) + (u_i(1) − u_i(0)) S_i))."""
    a, low, high = f.alone[i, 1] - f.alone[i, 0], f.scores[i, 0], f.scores[i, 1]
    w, step = lane.weight[0], high - low
    for c in range(WIDTH):
        w[c] = beta * (a + step * lane.sums[c])
    _exponential(w, lane)
    for c in range(WIDTH):
        w[c] = _ONE / (_ONE + w[c])
        lane.mean[c] = high - step * w[c]
    lane.weight[1] = _ONE


@jit
def keep(
    f: ScoredField, i: int, at: int, width: int, u: np.ndarray, lane: ScoredLane, kept: Sweeps, alone: FloatArray
) -> None:
    first = at * WIDTH
    below = 0.0
    for s in range(f.states[i]):
        w, upto = lane.weight[s], _ZERO
        for c in range(width):
            upto += w[c]
        alone[i, s] += upto - below
        below = float(upto)
    mean, before = kept.mean[i], kept.before[i]
    for c in range(WIDTH):
        before[first + c] = u[c]
        mean[first + c] = lane.mean[c]
    for c in range(width, WIDTH):
        mean[first + c] = _ZERO


@jit
def keep_drawn(i: int, at: int, width: int, u: np.ndarray, lane: ScoredLane, kept: Sweeps) -> None:
    first = at * WIDTH
    after, n = kept.after[i], len(kept.after)
    for c in range(WIDTH):
        after[first + c] = u[c]
    if len(kept.mean) == n:
        return
    surprise = kept.mean[n + i]
    for c in range(WIDTH):
        surprise[first + c] = u[c] - lane.mean[c]
    for c in range(width, WIDTH):
        surprise[first + c] = _ZERO


@jit
def draw(f: ScoredField, i: int, u: np.ndarray, x: np.ndarray, lane: ScoredLane) -> None:
    """The first state up to which the probability is above a uniform number."""
    for c in range(WIDTH):
        s0, s1 = lane.low[c], lane.high[c]
        lane.bits[c] = np.int32(((s0 + s1) >> np.uint64(41)) | np.uint64(0x3F800000))
        s1 ^= s0
        lane.low[c] = ((s0 << np.uint64(24)) | (s0 >> np.uint64(40))) ^ s1 ^ (s1 << np.uint64(16))
        lane.high[c] = (s1 << np.uint64(37)) | (s1 >> np.uint64(27))
    u[:] = f.scores[i, 0]
    x[:] = _ZERO
    for s in range(f.states[i] - 1):
        w, step = lane.weight[s], f.scores[i, s + 1] - f.scores[i, s]
        for c in range(WIDTH):
            above = _ONE if lane.real[c] - _ONE >= w[c] else _ZERO
            x[c] += above
            u[c] += step * above


@jit
def flush(kept: Sweeps, pairs: FloatArray) -> None:
    n = pairs.shape[1]
    behind = np.dot(kept.mean, kept.before.T)
    ahead = np.dot(kept.mean, kept.after.T)
    for k in range(len(pairs)):
        i = k % n
        for j in range(n):
            if j != i:
                pairs[k, j] += ahead[k, j] if j < i else behind[k, j]
        if k >= n:
            pairs[k, i] += np.sum(kept.mean[k])
    kept.mean[:] = _ZERO  # a last flush may have fewer sweeps


@jit
def load(
    f: ScoredField,
    states: np.ndarray,
    seeds: np.ndarray,
    start: int,
    width: int,
    u: np.ndarray,
    x: np.ndarray,
    lane: ScoredLane,
) -> None:
    for c in range(width):
        lane.low[c], lane.high[c] = seeds[start + c, 0], seeds[start + c, 1]
        for i in range(len(x)):
            x[i, c] = states[start + c, i]
            u[i, c] = f.scores[i, states[start + c, i]]


@jit
def store(states: np.ndarray, seeds: np.ndarray, start: int, width: int, x: np.ndarray, lane: ScoredLane) -> None:
    for c in range(width):
        seeds[start + c, 0], seeds[start + c, 1] = lane.low[c], lane.high[c]
        for i in range(len(x)):
            states[start + c, i] = np.int32(x[i, c])
