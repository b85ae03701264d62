"""Second moments of features that have two values, by counting bits: 64 samples in one AND and one count.

A word holds the bits of 64 samples, so that Σ_s b_a b_b is a sum of popcount(B_a & B_b) over words. For 171 to 1,035
features and 160,000 samples that takes a quarter to a third of the time of the same sums by floating-point products
(``python -m benchmarks widths``; beside other work, where BLAS's threads wait for one another, a tenth was seen).
"""

import numpy as np

from bayesfield.kernels.jit import jit, popcount
from bayesfield.types import BoolArray, FloatArray, GraphArrays, IntArray

CHUNK = 256  # words of a row that are worked at a time: 2 kB, so that a few hundred rows stay in the cache
_TILE = 8  # rows that share what is loaded
_SQUARE = 32  # columns of a block whose transpose stays in the cache


@jit
def fill(
    g: GraphArrays,
    tables: IntArray,
    high_ptr: IntArray,
    high: BoolArray,
    codes: np.ndarray,
    sample: IntArray,
    part: IntArray,
    first: int,
    last: int,
    words: np.ndarray,
) -> None:
    """The bits of features first … last − 1 into words (F, W).

    tables: the table of each feature, i for variable i and n + a for factor a. high: for each entry of it whether the
    feature is high there, from high_ptr[f] on. codes: (n, N). sample, part: (P+1,) where the samples and the words of
    each part begin; a part's last word ends in zeros.
    """
    n = len(g.cardinality)
    entry = np.zeros(64, dtype=np.int64)
    for f in range(first, last):
        t = tables[f]
        begin, end = (0, 0) if t < n else (g.scope_ptr[t - n], g.scope_ptr[t - n + 1])
        for p in range(len(part) - 1):
            for w in range(part[p], part[p + 1]):
                s = sample[p] + 64 * (w - part[p])
                size = min(64, sample[p + 1] - s)
                entry[:] = high_ptr[f]
                if t < n:
                    for k in range(size):
                        entry[k] += codes[t, s + k]
                for slot in range(begin, end):
                    own, stride = codes[g.scope[slot]], g.stride[slot]
                    for k in range(size):
                        entry[k] += stride * own[s + k]
                word = np.uint64(0)
                for k in range(size):
                    word |= np.uint64(high[entry[k]]) << np.uint64(k)
                words[f, w] = word


@jit
def count(words: np.ndarray, part: IntArray, totals: np.ndarray) -> None:
    """How many bits of each row are set in each part, totals (parts, F). part: (P+1,) where its words begin."""
    for f in range(len(words)):
        for p in range(len(part) - 1):
            found = 0
            for w in range(part[p], part[p + 1]):
                found += popcount(words[f, w])
            totals[p, f] = found


@jit
def _both(left: np.ndarray, right: np.ndarray) -> np.int64:
    """Σ popcount(left & right). Over whole slices: with indices from elsewhere LLVM makes no vectors of it, and takes
    five times as long."""
    found = np.uint64(0)
    for w in range(len(left)):
        found += np.uint64(popcount(left[w] & right[w]))
    return np.int64(found)


@jit
def pair_counts(words: np.ndarray, first: int, last: int, out: np.ndarray) -> None:
    """Σ popcount(words[a] & words[b]) for first ≤ a < last and b ≥ a, added to out (F, F)."""
    F, W = words.shape
    for begin in range(0, W, CHUNK):
        end = min(begin + CHUNK, W)
        for low in range(first, last, _TILE):
            for b in range(low, F):
                right = words[b, begin:end]
                for a in range(low, min(low + _TILE, last, b + 1)):
                    out[a, b] += _both(words[a, begin:end], right)


@jit
def later_counts(
    words: np.ndarray, later: IntArray, others: np.ndarray, first: int, last: int, out: np.ndarray
) -> None:
    """Σ popcount(words[a] & others[b]) for first ≤ a < last and b ≥ later[a], added to out (A, B). later: ascending
    within a tile, or nearly so."""
    W = words.shape[1]
    for begin in range(0, W, CHUNK):
        end = min(begin + CHUNK, W)
        for low in range(first, last, _TILE):
            high = min(low + _TILE, last)
            for b in range(later[low:high].min(), len(others)):
                right = others[b, begin:end]
                for a in range(low, high):
                    if b >= later[a]:
                        out[a, b] += _both(words[a, begin:end], right)


@jit
def spread_counts(
    one: IntArray, other: IntArray, at: IntArray, singles: IntArray, triples: np.ndarray, quads: np.ndarray,
    first: int, last: int, out: np.ndarray,
) -> None:  # fmt: skip
    """How often products a and b of bits are both set, for first ≤ a < last and b ≥ a, into out (F, F).

    one, other: (F,) i ≤ j of each feature, equal for a single bit. at: (n, n) the number of the pair i < j. singles:
    (n + pairs,) how often each bit and each pair is set. triples: (n, pairs) and quads: (pairs, pairs), where all
    indices of the second are above those of the first.
    """
    n = len(at)
    found = np.zeros(4, dtype=np.int64)
    for a in range(first, last):
        for b in range(a, len(one)):
            found[0], found[1], found[2], found[3] = one[a], other[a], one[b], other[b]
            count = 0
            for k in range(4):  # insertion, each index once
                value, place, new = found[k], count, True
                while place > 0 and found[place - 1] >= value:
                    if found[place - 1] == value:
                        new = False
                    place -= 1
                if new:
                    for m in range(count, place, -1):
                        found[m] = found[m - 1]
                    found[place] = value
                    count += 1
            if count == 1:
                out[a, b] = singles[found[0]]
            elif count == 2:
                out[a, b] = singles[n + at[found[0], found[1]]]
            elif count == 3:
                out[a, b] = triples[found[0], at[found[1], found[2]]]
            else:
                out[a, b] = quads[at[found[0], found[1]], at[found[2], found[3]]]


@jit
def centred(both: np.ndarray, products: FloatArray, step: FloatArray, scale: float, first: int, last: int) -> None:
    """scale · step_a step_b (both − products) into both halves of products (F, F), for first ≤ a < last and b ≥ a."""
    F = len(step)
    for low in range(first, F, _SQUARE):
        for a in range(first, last):
            for b in range(max(low, a), min(low + _SQUARE, F)):
                value = scale * step[a] * step[b] * (both[a, b] - products[a, b])
                products[a, b] = value
                products[b, a] = value
