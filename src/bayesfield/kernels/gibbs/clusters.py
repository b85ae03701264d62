"""Cluster updates of binary pairwise fields: Swendsen & Wang (1987), on any graph.

In spins s = ±1 a binary pairwise field is log p(s) = Σ_e J_e s_i s_j + Σ_i h_i s_i + constant. With a bond on each edge
that agrees with its coupling (J_e s_i s_j > 0) with probability 1 − exp(−2|J_e|), the spins that bonds join keep their
signs relative to one another, and each cluster c takes one of its two orientations by its field H_c = Σ_{i∈c} h_i s_i:
it stays as it is with probability 1 / (1 + exp(−2 H_c)). This is the ghost spin of Fortuin & Kasteleyn with its bonds
summed out: a ghost bond would freeze a cluster, here one that fields of both signs pull at still turns.

This leaves p invariant whatever the signs of the couplings. It mixes well where no loop is frustrated, that is where
flips of some spins make all couplings of one sign (``gauge``): bonds then join what really is correlated.

A chain needs 13 bytes a spin beside its states, and an update takes one number for each edge that agrees.
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.gibbs.general import uniform
from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, GraphArrays


class Spins(NamedTuple):
    """A binary pairwise field in spins ±1: n spins, m edges."""

    first: np.ndarray  # (m,) int32: one end of each edge
    second: np.ndarray  # (m,) int32: the other
    coupling: FloatArray  # (m,) J
    field: FloatArray  # (n,) h
    bond: FloatArray  # (m,) 1 − exp(−2|J|)


class Gauge(NamedTuple):
    """Which spins to flip for all couplings to be ≥ 0, part by part of the graph of couplings that are not zero."""

    part: np.ndarray  # (n,) int32: a spin of the part, the same for all its spins
    sign: np.ndarray  # (n,) int8: ±1; J_e sign_i sign_j ≥ 0 where the part is not frustrated
    frustrated: np.ndarray  # (n,) bool, at every spin of the part: no signs do


@jit
def spins(first: np.ndarray, second: np.ndarray, coupling: FloatArray, field: FloatArray) -> Spins:
    return Spins(first, second, coupling, field, 1.0 - np.exp(-2.0 * np.abs(coupling)))


@jit
def graph_spins(g: GraphArrays, theta: FloatArray) -> Spins:
    """Of a graph with two states everywhere and factors of two variables, edges in the order of its factors.

    With x = (1 + s)/2 a table is c + a s_i + b s_j + J s_i s_j, J = (θ₁₁ − θ₁₀ − θ₀₁ + θ₀₀)/4.
    """
    n, m = len(g.cardinality), len(g.table_ptr) - 1
    first, second = np.empty(m, dtype=np.int32), np.empty(m, dtype=np.int32)
    coupling, field = np.empty(m), np.empty(n)
    for i in range(n):
        field[i] = 0.5 * (theta[g.node_ptr[i] + 1] - theta[g.node_ptr[i]])
    for e in range(m):
        i, j = g.scope[g.scope_ptr[e]], g.scope[g.scope_ptr[e] + 1]
        at = g.table_ptr[e]
        t00, t01, t10, t11 = theta[at], theta[at + 1], theta[at + 2], theta[at + 3]
        coupling[e] = 0.25 * (t11 - t10 - t01 + t00)
        field[i] += 0.25 * (t11 + t10 - t01 - t00)
        field[j] += 0.25 * (t11 - t10 + t01 - t00)
        first[e], second[e] = i, j
    return spins(first, second, coupling, field)


@jit
def update_chains(
    f: Spins,
    states: np.ndarray,
    seeds: np.ndarray,
    updates: int,
    count: bool,
    site: FloatArray,
    pair: FloatArray,
) -> None:
    """Cluster updates of all chains. states (chains, n) of 0 and 1, and seeds (chains, 2), are moved on in place.

    site (n,) and pair (m,) gather, if ``count``, E[s_i | bonds] and E[s_i s_j | bonds] at every update: s_i tanh H_c,
    and s_i s_j within a cluster, the product of both means otherwise.
    """
    n = len(f.field)
    parent, pull = np.empty(n, dtype=np.int32), np.empty(n)
    turn = np.empty(n, dtype=np.bool_)
    for c in range(len(states)):
        x, seed = states[c], seeds[c]
        for _ in range(updates):
            _join(f, x, seed, parent)
            _pulls(f, x, parent, pull)
            if count:
                _count(f, x, parent, pull, site, pair)
            for i in range(n):
                if parent[i] == i:
                    turn[i] = uniform(seed) * (1.0 + np.exp(-2.0 * pull[i])) >= 1.0
            for i in range(n):
                if turn[parent[i]]:
                    x[i] = 1 - x[i]


class Lanes(NamedTuple):
    """A field whose variables are words of 64 chains (kernels.gibbs.words): m edges by class, n spins by type."""

    first: np.ndarray  # (m,) int32
    second: np.ndarray  # (m,) int32
    pair: np.ndarray  # (m,) int32: its class
    kind: np.ndarray  # (n,) int32: its type


@jit
def turn_lanes(
    o: Lanes, x: np.ndarray, coupling: FloatArray, field: FloatArray, first: int, last: int, seeds: np.ndarray,
    flips: np.ndarray,
) -> None:  # fmt: skip
    """One cluster update of chains first … last − 1. x: (n,) words. coupling: (classes, 64) J. field: (types, 64) h.
    seeds: (64, 2). flips: (n,) words, to which the chains' bits are added where spins turn."""
    n = len(x)
    parent, pull, turn = np.empty(n, dtype=np.int32), np.empty(n), np.empty(n, dtype=np.bool_)
    spin = np.empty(n, dtype=np.bool_)
    bond = np.empty(len(coupling))
    for lane in range(first, last):
        seed, shift = seeds[lane], np.uint64(lane)
        for c in range(len(coupling)):
            bond[c] = 1.0 - np.exp(-2.0 * np.abs(coupling[c, lane]))
        for i in range(n):
            parent[i] = i
            spin[i] = (x[i] >> shift) & np.uint64(1)
        for e in range(len(o.first)):
            i, j = o.first[e], o.second[e]
            c = o.pair[e]
            agree = coupling[c, lane] > 0.0 if spin[i] == spin[j] else coupling[c, lane] < 0.0
            if agree and uniform(seed) < bond[c]:
                a, b = _root(parent, i), _root(parent, j)
                if a < b:
                    parent[b] = a
                else:
                    parent[a] = b
        for i in range(n):  # parents come before their children
            root = parent[parent[i]]
            parent[i] = root
            own = field[o.kind[i], lane] if spin[i] else -field[o.kind[i], lane]
            if root == i:
                pull[i] = own
            else:
                pull[root] += own
        for i in range(n):
            if parent[i] == i:
                turn[i] = uniform(seed) * (1.0 + np.exp(-2.0 * pull[i])) >= 1.0
            if turn[parent[i]]:
                flips[i] |= np.uint64(1) << shift


@jit
def gauge(n: int, first: np.ndarray, second: np.ndarray, coupling: FloatArray) -> Gauge:
    """Parts by union and find, every spin with its sign relative to the one above it."""
    parent, sign = np.arange(n).astype(np.int32), np.ones(n, dtype=np.int8)
    frustrated = np.zeros(n, dtype=np.bool_)
    for e in range(len(coupling)):
        if coupling[e] == 0.0:
            continue
        wanted = np.int8(1) if coupling[e] > 0.0 else np.int8(-1)
        a, b = _signed_root(parent, sign, first[e]), _signed_root(parent, sign, second[e])
        between = sign[first[e]] * sign[second[e]]
        if a == b:
            frustrated[a] |= between != wanted
        else:
            low, high = min(a, b), max(a, b)
            parent[high], sign[high] = low, between * wanted
            frustrated[low] |= frustrated[high]
    for i in range(n):
        root = _signed_root(parent, sign, i)
        frustrated[i] = frustrated[root]
    return Gauge(parent, sign, frustrated)


@jit
def _signed_root(parent: np.ndarray, sign: np.ndarray, i: int) -> int:
    """The root of i; afterwards all on the way point to it, with their signs relative to it. A root's sign is 1."""
    root, product = i, np.int8(1)
    while parent[root] != root:
        product *= sign[root]
        root = parent[root]
    while parent[i] != root and i != root:
        above, own = parent[i], sign[i]
        parent[i], sign[i] = root, product
        product *= own
        i = above
    return root


@jit
def _root(parent: np.ndarray, i: int) -> int:
    """With every second step on the way cut short."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@jit
def _join(f: Spins, x: np.ndarray, seed: np.ndarray, parent: np.ndarray) -> None:
    """Draw the bonds; afterwards every spin's parent is the root of its cluster, the first of its spins."""
    for i in range(len(parent)):
        parent[i] = i
    for e in range(len(f.coupling)):
        i, j = f.first[e], f.second[e]
        agree = f.coupling[e] > 0.0 if x[i] == x[j] else f.coupling[e] < 0.0
        if agree and uniform(seed) < f.bond[e]:
            a, b = _root(parent, i), _root(parent, j)
            if a < b:
                parent[b] = a
            else:
                parent[a] = b
    for i in range(len(parent)):  # parents come before their children
        parent[i] = parent[parent[i]]


@jit
def _pulls(f: Spins, x: np.ndarray, parent: np.ndarray, pull: FloatArray) -> None:
    """H of every cluster, at its root."""
    for i in range(len(parent)):
        own = f.field[i] if x[i] == 1 else -f.field[i]
        if parent[i] == i:
            pull[i] = own
        else:
            pull[parent[i]] += own


@jit
def _count(f: Spins, x: np.ndarray, parent: np.ndarray, pull: FloatArray, site: FloatArray, pair: FloatArray) -> None:
    for i in range(len(parent)):
        mean = np.tanh(pull[parent[i]])
        site[i] += mean if x[i] == 1 else -mean
    for e in range(len(f.coupling)):
        i, j = f.first[e], f.second[e]
        a, b = parent[i], parent[j]
        mean = 1.0 if a == b else np.tanh(pull[a]) * np.tanh(pull[b])
        pair[e] += mean if x[i] == x[j] else -mean
