"""Gibbs sweeps of binary pairwise fields in single precision, 128 chains side by side, for their states alone.

Twice as fast as ``gibbs_pairs``, whose averages of probabilities need the digits: here a probability is right to 1e-6
and a uniform number has 23 bits, which no count of drawn states can tell from exact ones.
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.gibbs.pairs import PairOdds
from bayesfield.kernels.jit import jit
from bayesfield.types import IntArray

WIDTH = 128
HALF = WIDTH // 2  # generators: each 64-bit word makes two numbers

_ONE = np.float32(1.0)
_C2, _C3, _C4, _C5, _C6 = (np.float32(1.0 / k) for k in (2, 3, 4, 5, 6))
_LOG2E, _LN2 = np.float32(1.4426950408889634), np.float32(0.6931471805599453)
_ROUND, _MOST = np.float32(0.5), np.float32(80.0)


class SingleOdds(NamedTuple):
    """gibbs_pairs.PairOdds in single precision, with where each variable's neighbours begin."""

    field: np.ndarray  # (n,)
    weight: np.ndarray  # (slots,)
    neighbour: IntArray
    ptr: IntArray  # (n+1,)


class SingleLane(NamedTuple):
    """Room for WIDTH numbers. bits and real, word and half are two views of the same memory."""

    bits: np.ndarray
    real: np.ndarray
    odds: np.ndarray
    p: np.ndarray
    low: np.ndarray  # the generators' state
    high: np.ndarray
    word: np.ndarray
    half: np.ndarray


@jit
def single_odds(o: PairOdds, ptr: IntArray) -> SingleOdds:
    return SingleOdds(o.field.astype(np.float32), o.weight.astype(np.float32), o.neighbour, ptr)


@jit
def single_lane(seeds: np.ndarray) -> SingleLane:
    """With generators at seeds (HALF, 2)."""
    bits, word = np.zeros(WIDTH, dtype=np.int32), np.zeros(HALF, dtype=np.uint64)
    odds, p = np.zeros(WIDTH, dtype=np.float32), np.zeros(WIDTH, dtype=np.float32)
    low, high = seeds[:, 0].copy(), seeds[:, 1].copy()
    return SingleLane(bits, bits.view(np.float32), odds, p, low, high, word, word.view(np.uint32))


@jit
def sweep(o: SingleOdds, x: np.ndarray, lane: SingleLane) -> None:
    """Draw every variable once, in order, in all chains. x: (n, WIDTH) float32, 0 or 1."""
    for i in range(len(o.field)):
        lane.odds[:] = o.field[i]
        for k in range(o.ptr[i], o.ptr[i + 1]):
            w, other = o.weight[k], x[o.neighbour[k]]
            for c in range(WIDTH):
                lane.odds[c] += w * other[c]
        _logistic(lane)
        _uniforms(lane)
        own = x[i]
        for c in range(WIDTH):
            own[c] = _ONE if lane.real[c] < lane.p[c] else np.float32(0.0)


class ColourOdds(NamedTuple):
    """A field's log odds with its variables in order of colour; small numbers, as memory is what sweeps wait for."""

    site: np.ndarray  # (n,) int32
    field: np.ndarray  # (n,)
    ptr: np.ndarray  # (n+1,) int32
    neighbour: np.ndarray  # (slots,) int32
    weight: np.ndarray  # (slots,)


@jit
def colour_odds(o: PairOdds, ptr: IntArray, order: IntArray) -> ColourOdds:
    n, slots = len(order), len(o.weight)
    site, field = order.astype(np.int32), np.empty(n, dtype=np.float32)
    first, k = np.zeros(n + 1, dtype=np.int32), 0
    neighbour, weight = np.empty(slots, dtype=np.int32), np.empty(slots, dtype=np.float32)
    for c in range(n):
        i = order[c]
        field[c] = o.field[i]
        for slot in range(ptr[i], ptr[i + 1]):
            neighbour[k], weight[k] = o.neighbour[slot], o.weight[slot]
            k += 1
        first[c + 1] = k
    return ColourOdds(site, field, first, neighbour, weight)


@jit
def sweep_colours(o: ColourOdds, colour_ptr: IntArray, x: np.ndarray, lane: SingleLane) -> None:
    """Draw every variable of one chain once, WIDTH of a colour at a time. x: (n,) int8."""
    for colour in range(len(colour_ptr) - 1):
        for start in range(colour_ptr[colour], colour_ptr[colour + 1], WIDTH):
            width = min(WIDTH, colour_ptr[colour + 1] - start)
            for c in range(width):
                odds = o.field[start + c]
                for k in range(o.ptr[start + c], o.ptr[start + c + 1]):
                    odds += o.weight[k] * np.float32(x[o.neighbour[k]])
                lane.odds[c] = odds
            _logistic(lane)
            _uniforms(lane)
            for c in range(width):
                x[o.site[start + c]] = np.int8(1) if lane.real[c] < lane.p[c] else np.int8(0)


@jit
def _logistic(lane: SingleLane) -> None:
    """p = 1 / (1 + exp(−odds)), with exp as 2^k times a Taylor series on |r| ≤ ln 2 / 2."""
    for c in range(WIDTH):
        z = min(max(-lane.odds[c], -_MOST), _MOST)
        k = np.floor(z * _LOG2E + _ROUND)
        r = z - k * _LN2
        e = _ONE + r * _C6
        e = _ONE + r * e * _C5
        e = _ONE + r * e * _C4
        e = _ONE + r * e * _C3
        e = _ONE + r * e * _C2
        lane.p[c] = _ONE + r * e
        lane.bits[c] = (np.int32(k) + np.int32(127)) << np.int32(23)
    for c in range(WIDTH):
        lane.p[c] = _ONE / (_ONE + lane.p[c] * lane.real[c])


@jit
def _uniforms(lane: SingleLane) -> None:
    """WIDTH numbers in [0, 1), from the upper and the lower half of HALF generators' words (xoroshiro128+)."""
    for c in range(HALF):
        s0, s1 = lane.low[c], lane.high[c]
        lane.word[c] = s0 + s1
        s1 ^= s0
        lane.low[c] = ((s0 << np.uint64(24)) | (s0 >> np.uint64(40))) ^ s1 ^ (s1 << np.uint64(16))
        lane.high[c] = (s1 << np.uint64(37)) | (s1 >> np.uint64(27))
    for c in range(WIDTH):
        lane.bits[c] = np.int32((lane.half[c] >> np.uint32(9)) | np.uint32(0x3F800000))
    for c in range(WIDTH):
        lane.real[c] -= _ONE
