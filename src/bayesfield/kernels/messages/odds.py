"""Message passing on binary pairwise fields in odds: r' = (aB + r) / (B + ar), B the belief's odds, a = e^{2w}.

Large fields are cut into blocks of variables that follow one another. Each is swept in order, by any thread; what it
sends to another block arrives after the sweep. So the numbers depend on the blocks and not on the threads, and a sweep
carries news as far as one over the whole field does, but for the borders. (Sweeps colour by colour need no borders, but
carry news one step only: on a 1000×1000 grid with couplings of sd 0.5 they took 545 sweeps, blocks 97.)
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.kernels.messages.pairs import PairArrays, looks
from bayesfield.types import FloatArray, GraphArrays, IntArray


@jit
def odds_form(g: GraphArrays, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """θ of a binary pairwise field as odds: node odds, coupling odds a = e^{2w} and a field's odds for each slot.

    A table is c + w·xy + u·x + v·y in x, y = ±1. The last value bounds the log of any odds that can come up.
    """
    n = len(g.cardinality)
    log_node = np.empty(n)
    spread = np.empty(n)
    field = np.empty(len(g.scope))
    coupling = np.empty(len(g.scope))
    for i in range(n):
        log_node[i] = theta[g.node_ptr[i] + 1] - theta[g.node_ptr[i]]
        spread[i] = 0.0
    for a in range(len(g.table_ptr) - 1):
        t = g.table_ptr[a]
        w = 0.25 * (theta[t] - theta[t + 1] - theta[t + 2] + theta[t + 3])
        u = 0.25 * (theta[t + 3] + theta[t + 2] - theta[t + 1] - theta[t])
        v = 0.25 * (theta[t + 3] - theta[t + 2] + theta[t + 1] - theta[t])
        first = g.scope_ptr[a]
        for side in range(2):
            coupling[first + side] = 2.0 * w
            field[first + side] = 2.0 * (u if side == 0 else v)
            log_node[g.scope[first + side]] += field[first + side]
            spread[g.scope[first + side]] += abs(2.0 * w)
    worst = 0.0
    for i in range(n):
        reach = abs(log_node[i]) + spread[i]
        if not reach <= worst:  # also where it is not a number
            worst = reach if reach == reach else np.inf
    return log_node, coupling, field, worst


class Blocks(NamedTuple):
    """Ranges of variables, and where their messages go."""

    bounds: IntArray  # (blocks+1,) first variable of each
    to: np.ndarray  # (E,) int32: where the answer to a message goes: as PairArrays.reverse, or E + x over a border
    arrives: IntArray  # (X,) what goes to E + x belongs here


@jit
def blocks(g: GraphArrays, pairs: PairArrays, bounds: IntArray) -> Blocks:
    E = len(g.slots)
    block = np.empty(E, dtype=np.int32)
    for b in range(len(bounds) - 1):
        block[g.slot_ptr[bounds[b]] : g.slot_ptr[bounds[b + 1]]] = b
    to = pairs.reverse.copy()
    count = 0
    for k in range(E):
        if block[pairs.reverse[k]] != block[k]:
            count += 1
    arrives = np.empty(count, dtype=np.int64)
    count = 0
    for k in range(E):
        if block[pairs.reverse[k]] != block[k]:
            arrives[count] = to[k]
            to[k] = E + count
            count += 1
    return Blocks(bounds, to, arrives)


@jit
def start_odds(
    g: GraphArrays,
    log_node: FloatArray,
    log_coupling: FloatArray,
    field: FloatArray,
    inbox: FloatArray,
    part: tuple[int, int],
    node: np.ndarray,
    a: np.ndarray,
    r: np.ndarray,
) -> None:
    """Node odds, coupling odds and messages of a range of variables, in the order of their slots."""
    for i in range(part[0], part[1]):
        node[i] = np.exp(log_node[i])
        for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
            slot = g.slots[k]
            a[k] = np.exp(log_coupling[slot])
            start = inbox[g.message_ptr[slot] + 1] - inbox[g.message_ptr[slot]] - field[slot]
            bound = abs(log_coupling[slot])
            r[k] = np.exp(min(max(start, -bound), bound))


@jit
def end_odds(g: GraphArrays, field: FloatArray, part: tuple[int, int], r: np.ndarray, inbox: FloatArray) -> None:
    """The messages to a range of variables, as logs."""
    for k in range(g.slot_ptr[part[0]], g.slot_ptr[part[1]]):
        slot = g.slots[k]
        log_odds = np.log(np.float64(r[k])) + field[slot]
        inbox[g.message_ptr[slot]] = min(0.0, -log_odds)
        inbox[g.message_ptr[slot] + 1] = min(0.0, log_odds)


@jit
def run_odds(
    g: GraphArrays,
    pairs: PairArrays,
    log_node: FloatArray,
    log_coupling: FloatArray,
    field: FloatArray,
    inbox: FloatArray,
    flooding: bool,
    damping: float,
    tolerance: float,
    history: FloatArray,
) -> tuple[int, float]:
    """messages.run_sweeps for binary pairwise fields, all in one block."""
    n, E = len(g.cardinality), len(g.slots)
    node, a, r = np.empty(n), np.empty(E), np.empty(E)
    start_odds(g, log_node, log_coupling, field, inbox, (0, n), node, a, r)
    send = r.copy() if flooding else r
    sweeps = len(history)
    residual = 0.0
    for sweep in range(len(history)):
        look = looks(sweep, len(history))
        moved = sweep_odds(g.slot_ptr, pairs.reverse, (0, n), node, a, r, send, sweep % 2 == 1, damping, look)
        if flooding:
            r[:] = send
        if look:
            residual = moved
        history[sweep] = residual
        if look and residual <= tolerance:
            sweeps = sweep + 1
            break
    end_odds(g, field, (0, n), r, inbox)
    return sweeps, residual


@jit
def sweep_odds(
    ptr: IntArray,
    to: np.ndarray,
    part: tuple[int, int],
    node: np.ndarray,
    a: np.ndarray,
    r: np.ndarray,
    send: np.ndarray,
    backwards: bool,
    damping: float,
    look: bool,
) -> float:
    """A range of variables send, in order or back; returns the largest relative change where it looks."""
    residual = 0.0
    for step in range(part[1] - part[0]):
        i = part[1] - 1 - step if backwards else part[0] + step
        B = node[i]
        for k in range(ptr[i], ptr[i + 1]):
            B *= r[k]
        if damping == 0.0 and not look:
            for k in range(ptr[i], ptr[i + 1]):
                send[to[k]] = (a[k] * B + r[k]) / (B + a[k] * r[k])
        else:
            for k in range(ptr[i], ptr[i + 1]):
                new = (a[k] * B + r[k]) / (B + a[k] * r[k])
                old = r[to[k]]
                if abs(new - old) > residual * min(new, old):
                    residual = abs(new - old) / min(new, old)
                if damping > 0.0:
                    new = np.exp(damping * np.log(old) + (1.0 - damping) * np.log(new))
                send[to[k]] = new
    return residual


@jit
def deliver(arrives: IntArray, r: np.ndarray) -> None:
    """What was sent over borders."""
    E = len(r) - len(arrives)
    for x in range(len(arrives)):
        r[arrives[x]] = r[E + x]


@jit
def node_beliefs(
    g: GraphArrays,
    log_node: FloatArray,
    field: FloatArray,
    inbox: FloatArray,
    part: tuple[int, int],
    odds: FloatArray,
    out: FloatArray,
) -> float:
    """Beliefs of a part of the variables and their odds; returns Σ (1 − d) log Z_i with Z_i = B^½ + B^−½."""
    total = 0.0
    for i in range(part[0], part[1]):
        log_odds = log_node[i]
        for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
            at = g.message_ptr[g.slots[k]]
            log_odds += inbox[at + 1] - inbox[at] - field[g.slots[k]]
        odds[i] = log_odds
        small = np.exp(-abs(log_odds))
        low, high = small / (1.0 + small), 1.0 / (1.0 + small)
        at = g.node_ptr[i]
        out[at], out[at + 1] = (low, high) if log_odds > 0.0 else (high, low)
        degree = g.slot_ptr[i + 1] - g.slot_ptr[i]
        total += (1.0 - degree) * (0.5 * abs(log_odds) + np.log1p(small))
    return total


@jit
def factor_beliefs(
    g: GraphArrays,
    log_coupling: FloatArray,
    field: FloatArray,
    inbox: FloatArray,
    odds: FloatArray,
    part: tuple[int, int],
    out: FloatArray,
) -> float:
    """Beliefs of a part of the factors; returns Σ log Z_a with Z_a = Σ_xy exp(w xy) C_i^{x/2} C_j^{y/2}, x, y = ±1.

    The cavity's odds C are the variable's without the factor's message. With these and the variables' Z_i, log Z is
    Σ_a log Z_a + Σ_i (1 − d_i) log Z_i and the tables' constants, since Z_i is also what a message and its cavity
    make together.
    """
    total = 0.0
    for f in range(part[0], part[1]):
        first = g.scope_ptr[f]
        at, other = g.message_ptr[first], g.message_ptr[first + 1]
        u = 0.5 * (odds[g.scope[first]] - (inbox[at + 1] - inbox[at] - field[first]))
        v = 0.5 * (odds[g.scope[first + 1]] - (inbox[other + 1] - inbox[other] - field[first + 1]))
        w = 0.5 * log_coupling[first]
        top = abs(w) + abs(u) + abs(v)
        b0, b1, b2, b3 = (
            np.exp(w - u - v - top),
            np.exp(v - u - w - top),
            np.exp(u - v - w - top),
            np.exp(w + u + v - top),
        )
        scale = b0 + b1 + b2 + b3
        t = g.table_ptr[f]
        out[t], out[t + 1], out[t + 2], out[t + 3] = b0 / scale, b1 / scale, b2 / scale, b3 / scale
        total += top + np.log(scale)
    return total


@jit
def constants(g: GraphArrays, theta: FloatArray) -> float:
    """Σ of every table's mean: what a table in ±1 has beside its fields and its coupling."""
    total = 0.0
    for i in range(len(g.cardinality)):
        total += 0.5 * (theta[g.node_ptr[i]] + theta[g.node_ptr[i] + 1])
    for f in range(len(g.table_ptr) - 1):
        t = g.table_ptr[f]
        total += 0.25 * (theta[t] + theta[t + 1] + theta[t + 2] + theta[t + 3])
    return total
