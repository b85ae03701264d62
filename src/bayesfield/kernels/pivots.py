"""Gibbs sampling of which parameters a Gaussian model has, by the sweep operator.

M is the symmetric (F + 1, F + 1) matrix [[P, h], [hᵀ, 0]] of a Gaussian with precision P and mean P⁻¹h. Swept on a set
A of parameters it holds, for k outside A, the precision c_k = M_kk and the slope r_k = M_kF that λ_k would have beside
A; for k in A, minus its variance and its mean. To put a parameter in or out is one sweep, of rank one.
"""

import math
from typing import NamedTuple

import numpy as np

from bayesfield.kernels.gibbs.general import uniform
from bayesfield.kernels.jit import jit
from bayesfield.types import BoolArray, FloatArray, IntArray


class Groups(NamedTuple):
    """Parameters that come and go together: those of group g are members[ptr[g] : ptr[g+1]].

    prior_at_zero: (F,) log density of each parameter's prior at zero. odds: (G,) log prior odds of one more group
    when so many others are in.
    """

    ptr: IntArray
    members: IntArray
    prior_at_zero: FloatArray
    odds: FloatArray


class Tally(NamedTuple):
    """Sums over updates. inclusion: (G,) probability of being in, given the rest. mean, square, positive: (F,) that
    probability times E[λ], E[λ²] and P(λ > 0) when in."""

    inclusion: FloatArray
    mean: FloatArray
    square: FloatArray
    positive: FloatArray


@jit
def pivot(M: FloatArray, k: int, inside: bool) -> None:
    """Put parameter k in (inside: it is not yet) or out."""
    size = len(M)
    d = 1.0 / M[k, k]
    sign = 1.0 if inside else -1.0
    row = M[k].copy()
    row[k] = 0.0
    for i in range(size):
        share = row[i] * d
        if share != 0.0:
            for j in range(size):
                M[i, j] -= share * row[j]
    for i in range(size):
        if i != k:
            M[i, k] = M[k, i] = sign * d * row[i]
    M[k, k] = -d


@jit
def move(M: FloatArray, groups: Groups, g: int, inside: bool) -> float:
    """Put all parameters of a group in or out; the log evidence that being in adds."""
    last = len(M) - 1
    total = 0.0
    for k in groups.members[groups.ptr[g] : groups.ptr[g + 1]]:
        if not inside:
            pivot(M, k, False)
        c, r = M[k, k], M[k, last]
        total += groups.prior_at_zero[k] + 0.5 * (np.log(2.0 * np.pi / c) + r * r / c)
        if inside:
            pivot(M, k, True)
    return total


@jit
def gain(M: FloatArray, groups: Groups, g: int, present: bool) -> float:
    """The log evidence that a group adds to the others, M left as it is but for rounding."""
    first, end, last = groups.ptr[g], groups.ptr[g + 1], len(M) - 1
    if end - first == 1:
        k = groups.members[first]
        c = -1.0 / M[k, k] if present else M[k, k]
        r = M[k, last] * c if present else M[k, last]
        return groups.prior_at_zero[k] + 0.5 * (np.log(2.0 * np.pi / c) + r * r / c)
    total = move(M, groups, g, not present)
    move(M, groups, g, present)
    return total


@jit
def _count(M: FloatArray, groups: Groups, g: int, present: bool, probability: float, tally: Tally) -> None:
    """Add what is known of a group given the others. A group of several parameters must be in."""
    last = len(M) - 1
    tally.inclusion[g] += probability
    for k in groups.members[groups.ptr[g] : groups.ptr[g + 1]]:
        variance = -M[k, k] if present else 1.0 / M[k, k]
        mean = M[k, last] if present else M[k, last] * variance
        tally.mean[k] += probability * mean
        tally.square[k] += probability * (mean * mean + variance)
        tally.positive[k] += probability * 0.5 * (1.0 + math.erf(mean / np.sqrt(2.0 * variance)))


@jit
def search(
    M: FloatArray, groups: Groups, present: BoolArray, seed: np.ndarray, order: IntArray, count: bool, tally: Tally
) -> float:
    """One sweep over all groups in a given order, M and present changed in place; the change of log evidence."""
    change = 0.0
    inside = 0
    for g in range(len(present)):
        inside += present[g]
    for g in order:
        others = inside - present[g]
        several = groups.ptr[g + 1] - groups.ptr[g] > 1
        entered = several and not present[g]  # to know its worth, and stays if it is wanted
        worth = move(M, groups, g, True) if entered else gain(M, groups, g, present[g])
        log_odds = worth + groups.odds[others]
        probability = 1.0 / (1.0 + np.exp(-log_odds))
        if count:
            _count(M, groups, g, present[g] or entered, probability, tally)
        wanted = uniform(seed) < probability
        if wanted != (present[g] or entered):
            move(M, groups, g, wanted)
        if wanted != present[g]:
            change += worth if wanted else -worth
            inside += 1 if wanted else -1
            present[g] = wanted
    return change
