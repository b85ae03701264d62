"""Gibbs sweeps of binary pairwise fields by multi-spin coding: a word holds one variable of 64 chains.

For fields whose couplings take few values. Given its neighbours a variable's log odds are a + Σ_c b_c n_c, with n_c how
many neighbours along couplings of class c are 1: a *type* of variable has few *situations* (n_1, n_2, …). Each has one
probability in every chain, so that the 64 chains may stand at 64 different parameters. The masks of the situations come
from the neighbours' words by bit-wise adders; a chain's uniform number is compared with its probability bit by bit, the
most significant first, until all chains of a block are decided: about log₂(64 · WIDTH) + 1 of the BITS.

**What is shared.** Nothing: each chain has random bits of its own at each variable, bit c of the generator's words.
(One uniform number for all chains would be far cheaper, and is not valid here: chains at neighbouring parameters
would meet and then move together, so that 64 chains would count for one.) Bits of one generator's word are independent
as far as xoroshiro128++ is good; its sums are rotated and added again, so that low bits are as good as high ones.
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import IntArray

LANES = 64  # chains in a word
WIDTH = 16  # words that are worked side by side, in vector registers
BITS = 32  # of a probability: right to 2⁻³³
SITUATIONS = 64  # that a type may have, at most

_ONES, _ZERO = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0)
_R17, _R49, _R28, _S21 = np.uint64(17), np.uint64(49), np.uint64(28), np.uint64(21)
_L17, _L49, _L28 = np.uint64(47), np.uint64(15), np.uint64(36)
_PLANES = 16  # of the counters: 2¹⁶ − 1 words at most before they are emptied
_FULL = (1 << _PLANES) - 1


class Blocks(NamedTuple):
    """Variables in blocks of one colour and one type, up to WIDTH in each."""

    site: np.ndarray  # (B, WIDTH) int32; the last is repeated where a block is not full
    size: np.ndarray  # (B,) int32
    kind: np.ndarray  # (B,) int32 the type
    first: IntArray  # (B,) where its neighbours begin
    neighbour: np.ndarray  # (Σ degree · WIDTH,) int32: for each block (degree, WIDTH)
    degree: np.ndarray  # (types,) int32
    step: np.ndarray  # (types, most degree) int32: by how much a neighbour that is 1 raises the situation
    situations: np.ndarray  # (types,) int32


@jit
def sweep(
    o: Blocks, planes: np.ndarray, x: np.ndarray, low: np.ndarray, high: np.ndarray, first: int, last: int, sweeps: int
) -> None:
    """Draw the variables of blocks first … last − 1 in all chains so many times. planes: (types, SITUATIONS, BITS)
    words, bit c of plane b the b-th binary digit of chain c's probability. x: (n,) words. low, high: (WIDTH,) the
    generators."""
    mask = np.zeros((SITUATIONS, WIDTH), dtype=np.uint64)
    word, t = np.zeros(WIDTH, dtype=np.uint64), np.zeros(WIDTH, dtype=np.uint64)
    open_, drawn = np.zeros(WIDTH, dtype=np.uint64), np.zeros(WIDTH, dtype=np.uint64)
    for _ in range(sweeps):
        for block in range(first, last):
            kind = o.kind[block]
            _situations(o, block, kind, x, mask, t)
            _draw(planes[kind], mask, o.situations[kind], word, t, open_, drawn, low, high)
            for w in range(o.size[block]):
                x[o.site[block, w]] = drawn[w]


@jit
def _situations(o: Blocks, block: int, kind: int, x: np.ndarray, mask: np.ndarray, t: np.ndarray) -> None:
    """mask[s]: the chains whose neighbours are in situation s; neighbours are added one by one."""
    total = o.situations[kind]
    for w in range(WIDTH):
        mask[0, w] = _ONES
    for s in range(1, total):
        for w in range(WIDTH):
            mask[s, w] = _ZERO
    first, top = o.first[block], 0
    for k in range(o.degree[kind]):
        for w in range(WIDTH):
            t[w] = x[o.neighbour[first + k * WIDTH + w]]
        step = o.step[kind, k]
        for s in range(top, -1, -1):
            above, here = mask[s + step], mask[s]
            for w in range(WIDTH):
                above[w] |= here[w] & t[w]
                here[w] &= ~t[w]
        top += step


@jit
def _draw(
    planes: np.ndarray,
    mask: np.ndarray,
    total: int,
    word: np.ndarray,
    t: np.ndarray,
    undecided: np.ndarray,
    drawn: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> None:
    """drawn: 1 where a uniform number is below the probability of the chain's situation: where, at the first digit in
    which the two differ, the probability has the 1."""
    for w in range(WIDTH):
        undecided[w] = _ONES
        drawn[w] = _ZERO
    for b in range(BITS):
        for w in range(WIDTH):
            t[w] = _ZERO
        for s in range(total):
            plane, here = planes[s, b], mask[s]
            for w in range(WIDTH):
                t[w] |= here[w] & plane
        for w in range(WIDTH):  # xoroshiro128++
            s0, s1 = low[w], high[w]
            total_ = s0 + s1
            word[w] = ((total_ << _R17) | (total_ >> _L17)) + s0
            s1 ^= s0
            low[w] = ((s0 << _R49) | (s0 >> _L49)) ^ s1 ^ (s1 << _S21)
            high[w] = (s1 << _R28) | (s1 >> _L28)
        left = _ZERO
        for w in range(WIDTH):
            differs = undecided[w] & (word[w] ^ t[w])
            drawn[w] |= differs & t[w]
            undecided[w] &= ~differs
            left |= undecided[w]
        if left == _ZERO:
            break


@jit
def count(x: np.ndarray, left: np.ndarray, right: np.ndarray, group: np.ndarray, totals: np.ndarray) -> None:
    """Add to totals (LANES, groups) in how many pairs of a group both variables are 1, for each chain; single variables
    are pairs of themselves. group: sorted, as counters are emptied where it changes."""
    counter, held, last = np.zeros(_PLANES, dtype=np.uint64), 0, 0
    for e in range(len(left)):
        if held == _FULL or (held and group[e] != last):
            _empty(counter, totals, last)
            held = 0
        last = group[e]
        _add(counter, x[left[e]] & x[right[e]])
        held += 1
    if held:
        _empty(counter, totals, last)


@jit
def _add(counter: np.ndarray, word: np.uint64) -> None:
    """One to the counters of the chains in ``word``: plane b has the b-th binary digit of all 64 counters."""
    carry, b = word, 0
    while carry != _ZERO and b < _PLANES:
        here = counter[b]
        counter[b] = here ^ carry
        carry &= here
        b += 1


@jit
def _empty(counter: np.ndarray, totals: np.ndarray, group: int) -> None:
    for b in range(_PLANES):
        word = counter[b]
        for c in range(LANES):
            totals[c, group] += ((word >> np.uint64(c)) & np.uint64(1)) << np.uint64(b)
        counter[b] = _ZERO
