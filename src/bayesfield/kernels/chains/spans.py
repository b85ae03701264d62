"""Probabilities of spans along chains of labels, and the best spans that do not overlap.

A run is followed from its first position on: b and i are the joint probabilities, given the inputs up to position t, of
its labels so far where the last of them is B-type or I-type. All sums are of terms above zero: nothing cancels.
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.chains.passes import ChainArrays, Messages
from bayesfield.kernels.jit import jit
from bayesfield.types import BoolArray, FloatArray, IntArray


class Marks(NamedTuple):
    """The labels that mark spans of each of N types, −1 where there is none; whole: (1,) 1 where a span of several
    positions needs its end label (IOBES), 0 where it lasts as long as its type goes on (BIO)."""

    begin: IntArray
    inside: IntArray
    end: IntArray
    single: IntArray
    whole: IntArray


@jit
def _begun(chains: ChainArrays, m: Messages, marks: Marks, kind: int, t: int, begin: int) -> tuple[float, float]:
    """b and i of a run whose first position is t, in a sequence from ``begin`` on."""
    first, inside = marks.begin[kind], marks.inside[kind]
    b = m.a[t, first] if first >= 0 else 0.0
    if marks.whole[0] or inside < 0:
        return b, 0.0
    if t == begin:
        return b, m.a[t, inside]
    total = 0.0
    for k in range(m.a.shape[1]):
        if k != first and k != inside:
            total += m.a[t - 1, k] * m.M[chains.which[t - 1], k, inside]
    return b, total * m.psi[t, inside] / m.c[t]


@jit
def _continued(chains: ChainArrays, m: Messages, marks: Marks, kind: int, t: int, b: float, i: float) -> float:
    """i at t + 1, from b and i at t."""
    first, inside, total = marks.begin[kind], marks.inside[kind], 0.0
    if inside < 0:
        return 0.0
    if first >= 0:
        total += b * m.M[chains.which[t], first, inside]
    total += i * m.M[chains.which[t], inside, inside]
    return total * m.psi[t + 1, inside] / m.c[t + 1]


@jit
def _so_far(m: Messages, marks: Marks, kind: int, t: int, b: float, i: float) -> float:
    """The probability of the run's labels up to t, whatever follows."""
    total = 0.0
    if marks.begin[kind] >= 0:
        total += b * m.b[t, marks.begin[kind]]
    if marks.inside[kind] >= 0:
        total += i * m.b[t, marks.inside[kind]]
    return total


@jit
def _stopped(chains: ChainArrays, m: Messages, marks: Marks, kind: int, t: int, end: int, b: float, i: float) -> float:
    """BIO: the probability that t is the run's last position, in a sequence up to ``end``."""
    if t == end - 1:
        return _so_far(m, marks, kind, t, b, i)
    first, inside, total, q = marks.begin[kind], marks.inside[kind], 0.0, chains.which[t]
    for k in range(m.a.shape[1]):
        if k != inside:
            weight = b * m.M[q, first, k] if first >= 0 else 0.0
            if inside >= 0:
                weight += i * m.M[q, inside, k]
            total += weight * m.v[t + 1, k]
    return total


@jit
def _closed(chains: ChainArrays, m: Messages, marks: Marks, kind: int, t: int, b: float, i: float) -> float:
    """IOBES: the probability that the run has its end label at t + 1."""
    first, inside, last, total, q = marks.begin[kind], marks.inside[kind], marks.end[kind], 0.0, chains.which[t]
    if last < 0:
        return 0.0
    if first >= 0:
        total += b * m.M[q, first, last]
    if inside >= 0:
        total += i * m.M[q, inside, last]
    return total * m.v[t + 1, last]


@jit
def span_probabilities(
    chains: ChainArrays,
    m: Messages,
    marks: Marks,
    sequence: IntArray,
    first: IntArray,
    end: IntArray,
    kind: IntArray,
    out: FloatArray,
) -> None:
    """out[n] = p(positions first[n] … end[n] − 1 are a span of this kind)."""
    for n in range(len(first)):
        begin, stop = chains.ptr[sequence[n]], chains.ptr[sequence[n] + 1]
        t, y = first[n], kind[n]
        if marks.whole[0] and end[n] - t == 1:
            label = marks.single[y]
            out[n] = m.a[t, label] * m.b[t, label] if label >= 0 else 0.0
            continue
        b, i = _begun(chains, m, marks, y, t, begin)
        while t < end[n] - 1 - marks.whole[0]:
            b, i, t = 0.0, _continued(chains, m, marks, y, t, b, i), t + 1
        if marks.whole[0]:
            out[n] = _closed(chains, m, marks, y, t, b, i)
        else:
            out[n] = _stopped(chains, m, marks, y, t, stop, b, i)


@jit
def likely_spans(chains: ChainArrays, m: Messages, marks: Marks, least: float, spans: IntArray) -> int:
    """All spans of at least this probability, rows (sequence, first, end, kind); how many there are, which may be more
    than spans (N, 4) has room for. A run is given up where its labels so far are less likely."""
    count = 0
    for s in range(len(chains.ptr) - 1):
        begin, stop = chains.ptr[s], chains.ptr[s + 1]
        for first in range(begin, stop):
            for y in range(len(marks.begin)):
                label = marks.single[y]
                if marks.whole[0] and label >= 0 and m.a[first, label] * m.b[first, label] >= least:
                    count = _noted(spans, count, s, first, first + 1, y)
                t = first
                b, i = _begun(chains, m, marks, y, first, begin)
                while _so_far(m, marks, y, t, b, i) >= least:
                    if marks.whole[0]:
                        if t + 1 < stop and _closed(chains, m, marks, y, t, b, i) >= least:
                            count = _noted(spans, count, s, first, t + 2, y)
                    elif _stopped(chains, m, marks, y, t, stop, b, i) >= least:
                        count = _noted(spans, count, s, first, t + 1, y)
                    if t + 1 == stop:
                        break
                    b, i, t = 0.0, _continued(chains, m, marks, y, t, b, i), t + 1
    return count


@jit
def _noted(spans: IntArray, count: int, sequence: int, first: int, end: int, kind: int) -> int:
    if count < len(spans):
        spans[count, 0], spans[count, 1], spans[count, 2], spans[count, 3] = sequence, first, end, kind
    return count + 1


@jit
def expected_spans(chains: ChainArrays, m: Messages, marks: Marks) -> float:
    """The expected number of spans of all sequences, of any length."""
    total = 0.0
    for s in range(len(chains.ptr) - 1):
        begin, stop = chains.ptr[s], chains.ptr[s + 1]
        for y in range(len(marks.begin)):
            inside = 0.0
            for t in range(begin, stop):
                b, i = _begun(chains, m, marks, y, t, begin)
                if not marks.whole[0]:
                    total += _so_far(m, marks, y, t, b, i)
                    continue
                if marks.single[y] >= 0:
                    total += m.a[t, marks.single[y]] * m.b[t, marks.single[y]]
                if t + 1 < stop:
                    total += _closed(chains, m, marks, y, t, b, inside)
                    inside = _continued(chains, m, marks, y, t, b, inside)
    return total


@jit
def best_disjoint(first: IntArray, end: IntArray, gain: FloatArray, positions: int, chosen: BoolArray) -> None:
    """Marks the spans of the largest sum of gains among those that do not overlap; they come ordered by their ends.

    By dynamic programming: the best of the positions before t is that of those before t − 1, or a span that ends there
    after the best of what is before it.
    """
    best, last, n = np.zeros(positions + 1), np.full(positions + 1, -1), 0
    for t in range(1, positions + 1):
        best[t] = best[t - 1]
        while n < len(end) and end[n] == t:
            value = best[first[n]] + gain[n]
            if value > best[t]:
                best[t], last[t] = value, n
            n += 1
    chosen[:] = False
    t = positions
    while t > 0:
        if last[t] >= 0:
            chosen[last[t]] = True
            t = first[last[t]]
        else:
            t -= 1
