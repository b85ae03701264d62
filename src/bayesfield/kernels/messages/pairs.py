"""Fast message passing where every factor has two variables and no table has zeros. Same fixed points as ``messages``.

A variable multiplies what comes in, divides out one neighbour and sends on: no exponentials, no logs. Messages are
kept in the order of the receiving variable's slots. The caller has checked that nothing can overflow (see *_range).
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, GraphArrays, IntArray

SAFE_RANGE = 600.0  # largest log-range of a product of messages that plain numbers are trusted with; e^709 overflows


class PairArrays(NamedTuple):
    """Where a message that a variable sends along its k-th slot arrives."""

    reverse: np.ndarray  # (E,) int32: position of the partner's slot in ``slots``
    offset: IntArray  # (E+1,) where the message of the k-th slot (in order of ``slots``) starts


@jit
def pair_arrays(g: GraphArrays) -> PairArrays:
    E = len(g.slots)
    place = np.empty(E, dtype=np.int64)
    for k in range(E):
        place[g.slots[k]] = k
    reverse = np.empty(E, dtype=np.int32)
    offset = np.zeros(E + 1, dtype=np.int64)
    for k in range(E):
        slot = g.slots[k]
        a = g.slot_factor[slot]
        reverse[k] = place[g.scope_ptr[a] + g.scope_ptr[a + 1] - 1 - slot]
        offset[k + 1] = offset[k] + g.cardinality[g.scope[slot]]
    return PairArrays(reverse, offset)


@jit
def looks(sweep: int, budget: int) -> bool:
    """Whether to measure the residual in this sweep: it slows a sweep down, so later only now and then."""
    return sweep < 8 or sweep % 4 == 0 or sweep == budget - 1


@jit
def log_range(g: GraphArrays, theta: FloatArray) -> float:
    """Bound on the log-range of any product of messages; infinite with zeros in tables."""
    worst = 0.0
    spread = np.empty(len(g.cardinality))
    for i in range(len(spread)):
        part = theta[g.node_ptr[i] : g.node_ptr[i + 1]]
        spread[i] = part.max() - part.min()
    for a in range(len(g.table_ptr) - 1):
        part = theta[g.table_ptr[a] : g.table_ptr[a + 1]]
        width = part.max() - part.min()
        for k in range(g.scope_ptr[a], g.scope_ptr[a + 1]):
            spread[g.scope[k]] += width
    for i in range(len(spread)):
        if not spread[i] <= worst:
            worst = spread[i]
    return worst


@jit
def potts_ratio(g: GraphArrays, psi: FloatArray) -> FloatArray:
    """ψ_equal / ψ_different for tables that have only these two values, else NaN."""
    ratio = np.full(len(g.table_ptr) - 1, np.nan)
    for a in range(len(ratio)):
        K = g.cardinality[g.scope[g.scope_ptr[a]]]
        if g.cardinality[g.scope[g.scope_ptr[a] + 1]] != K or K < 3:
            continue
        t = g.table_ptr[a]
        alike = True
        for x in range(K):
            for y in range(K):
                alike = alike and psi[t + x * K + y] == (psi[t] if x == y else psi[t + 1])
        if alike:
            ratio[a] = psi[t] / psi[t + 1]
    return ratio


@jit
def _transposed(g: GraphArrays, psi: FloatArray, ratio: FloatArray) -> FloatArray:
    """Every table with its axes swapped, so that both directions run along rows; Potts tables are not needed."""
    turned = np.empty_like(psi)
    for a in range(len(ratio)):
        if not ratio[a] > 0.0:
            rows = g.cardinality[g.scope[g.scope_ptr[a]]]
            columns = g.cardinality[g.scope[g.scope_ptr[a] + 1]]
            for x in range(rows):
                for y in range(columns):
                    turned[g.table_ptr[a] + y * rows + x] = psi[g.table_ptr[a] + x * columns + y]
    return turned


@jit
def run_tables(
    g: GraphArrays,
    pairs: PairArrays,
    theta: FloatArray,
    psi: FloatArray,
    ratio: FloatArray,
    inbox: FloatArray,
    flooding: bool,
    damping: float,
    tolerance: float,
    history: FloatArray,
) -> tuple[int, float]:
    """messages.run_sweeps for pairwise fields without zeros, in plain numbers."""
    node = np.empty(g.node_ptr[len(g.cardinality)])
    for i in range(len(g.cardinality)):
        part = theta[g.node_ptr[i] : g.node_ptr[i + 1]]
        node[g.node_ptr[i] : g.node_ptr[i + 1]] = np.exp(part - part.max())
    message = np.empty(len(inbox))
    for k in range(len(g.slots)):
        slot = g.slots[k]
        for x in range(g.cardinality[g.scope[slot]]):
            message[pairs.offset[k] + x] = np.exp(max(inbox[g.message_ptr[slot] + x], -SAFE_RANGE))
    send = message.copy() if flooding else message
    turned = _transposed(g, psi, ratio)
    sweeps = len(history)
    residual = 0.0
    for sweep in range(len(history)):
        look = looks(sweep, len(history))
        moved = _table_sweep(g, pairs, node, psi, turned, ratio, message, send, sweep % 2 == 1, damping, look)
        if flooding:
            message[:] = send
        if look:
            residual = moved
        history[sweep] = residual
        if look and residual <= tolerance:
            sweeps = sweep + 1
            break
    for k in range(len(g.slots)):
        slot = g.slots[k]
        size = g.cardinality[g.scope[slot]]
        part = message[pairs.offset[k] : pairs.offset[k] + size]
        inbox[g.message_ptr[slot] : g.message_ptr[slot] + size] = np.log(part / part.max())
    return sweeps, residual


@jit
def _table_sweep(
    g: GraphArrays,
    pairs: PairArrays,
    node: FloatArray,
    psi: FloatArray,
    turned: FloatArray,
    ratio: FloatArray,
    message: FloatArray,
    send: FloatArray,
    backwards: bool,
    damping: float,
    look: bool,
) -> float:
    n = len(g.cardinality)
    widest = g.cardinality.max() if n else 0
    belief = np.empty(widest)
    cavity = np.empty(widest)
    new = np.empty(widest)
    residual = 0.0
    for step in range(n):
        i = n - 1 - step if backwards else step
        K = g.cardinality[i]
        for x in range(K):
            belief[x] = node[g.node_ptr[i] + x]
        for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
            at = pairs.offset[k]
            for x in range(K):
                belief[x] *= message[at + x]
        for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
            at = pairs.offset[k]
            total = 0.0
            for x in range(K):
                cavity[x] = belief[x] / message[at + x]
                total += cavity[x]
            slot = g.slots[k]
            a = g.slot_factor[slot]
            to = pairs.reverse[k]
            K_to = pairs.offset[to + 1] - pairs.offset[to]
            start = g.table_ptr[a]
            if ratio[a] > 0.0:  # a Potts table: Σ_x cavity + (ratio − 1)·cavity, scaled to sum 1
                flat = 1.0 / (K + ratio[a] - 1.0)
                slope = (ratio[a] - 1.0) * flat / total
                if damping == 0.0 and not look:
                    for y in range(K):
                        send[pairs.offset[to] + y] = flat + slope * cavity[y]
                    continue
                for y in range(K):
                    new[y] = flat + slope * cavity[y]
            elif slot == g.scope_ptr[a]:
                _row_product(cavity, psi[start : start + K * K_to], K, K_to, new)
            else:
                _row_product(cavity, turned[start : start + K * K_to], K, K_to, new)
            if damping == 0.0 and not look:  # _deliver without its call, which costs a third of the update
                total = 0.0
                for y in range(K_to):
                    total += new[y]
                scale = 1.0 / total
                for y in range(K_to):
                    send[pairs.offset[to] + y] = new[y] * scale
                continue
            residual = max(residual, _deliver(new, message, send, pairs.offset[to], K_to, damping))
    return residual


@jit
def _row_product(cavity: FloatArray, table: FloatArray, K: int, K_to: int, new: FloatArray) -> None:
    """new = cavityᵀ · table, four columns at a time in registers."""
    y = 0
    while y + 4 <= K_to:
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        at = y
        for x in range(K):
            c = cavity[x]
            s0 += c * table[at]
            s1 += c * table[at + 1]
            s2 += c * table[at + 2]
            s3 += c * table[at + 3]
            at += K_to
        new[y], new[y + 1], new[y + 2], new[y + 3] = s0, s1, s2, s3
        y += 4
    while y < K_to:
        total = 0.0
        for x in range(K):
            total += cavity[x] * table[x * K_to + y]
        new[y] = total
        y += 1


@jit
def _deliver(new: FloatArray, message: FloatArray, send: FloatArray, at: int, K: int, damping: float) -> float:
    """Scale a message to sum 1, blend it with the old one, store it; returns its largest relative change."""
    total = 0.0
    for y in range(K):
        total += new[y]
    scale = 1.0 / total
    gap = 0.0
    for y in range(K):
        value = new[y] * scale
        old = message[at + y]
        if abs(value - old) > gap * min(value, old):  # a division only when the maximum moves
            gap = abs(value - old) / min(value, old)
        if damping > 0.0:
            value = np.exp(damping * np.log(old) + (1.0 - damping) * np.log(value))
        send[at + y] = value
    return gap
