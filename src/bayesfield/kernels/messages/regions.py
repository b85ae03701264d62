"""Message passing on region graphs of two levels (Heskes, Albers & Kappen 2003): generalized belief propagation.

Outer regions α (clusters, counting number 1) exchange messages with the inner regions β inside them (intersections,
counting number c_β). Along each slot (α, β) run ``inbox`` m_{α→β} and ``outbox`` μ_{β→α}, tables over β in logs:

    log b_α = θ_α + Σ_β μ_{β→α}(x_β)
    m_{α→β}(y) = log Σ_{x_α: x_β = y} exp(log b_α) − μ_{β→α}(y)
    log q_β = Σ_α m_{α→β} / (n_β + c_β),     μ_{β→α} = log q_β − m_{α→β}

n_β is the number of outer regions around β. With factors as outer regions and variables as inner ones (c = 1 − n)
this is belief propagation.
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, IntArray

QUIET = 3  # sweeps without a visible move after which beliefs count as settled (see messages._gap)
RARE = 1e-6
FLOOR = -2e4
RUNAWAY = 50.0  # messages that many times as large as the potentials have left for the boundary


class RegionArrays(NamedTuple):
    """A region graph as flat arrays: outer regions, inner regions, and the slots between them (by inner region)."""

    outer_ptr: IntArray  # (O+1,) table of each outer region
    inner_ptr: IntArray  # (I+1,) table of each inner region
    counting: FloatArray  # (I,) c_β
    slot_ptr: IntArray  # (I+1,) slots of each inner region
    slot_outer: IntArray  # (S,) outer region of each slot
    message_ptr: IntArray  # (S+1,) entries of each slot's messages
    map_ptr: IntArray  # (S+1,) for each slot, for each entry of α's table, …
    map: IntArray  # … the entry of β's table that it belongs to
    term_ptr: IntArray  # (outer entries + 1,) which entries of θ add up to an entry of an outer table
    term: IntArray


@jit
def outer_potentials(r: RegionArrays, theta: FloatArray) -> FloatArray:
    """θ_α for all outer regions."""
    out = np.zeros(len(r.term_ptr) - 1)
    for e in range(len(out)):
        for k in range(r.term_ptr[e], r.term_ptr[e + 1]):
            out[e] += theta[r.term[k]]
    return out


@jit
def outer_logs(r: RegionArrays, potentials: FloatArray, outbox: FloatArray, logs: FloatArray) -> None:
    """log b_α, not normalised, from the messages."""
    logs[:] = potentials
    for slot in range(len(r.slot_outer)):
        start = r.outer_ptr[r.slot_outer[slot]]
        for e in range(r.map_ptr[slot + 1] - r.map_ptr[slot]):
            logs[start + e] += outbox[r.message_ptr[slot] + r.map[r.map_ptr[slot] + e]]


@jit
def _receive(r: RegionArrays, slot: int, logs: FloatArray, outbox: FloatArray, new: FloatArray) -> None:
    """m_{α→β}: the log marginal of α on β without β's own message; maximum 0."""
    a = r.slot_outer[slot]
    start, stop = r.outer_ptr[a], r.outer_ptr[a + 1]
    size = r.message_ptr[slot + 1] - r.message_ptr[slot]
    top = -np.inf
    for e in range(start, stop):
        top = max(top, logs[e])
    new[:size] = 0.0
    for e in range(stop - start):
        new[r.map[r.map_ptr[slot] + e]] += np.exp(logs[start + e] - top)
    best = -np.inf
    for y in range(size):
        own = outbox[r.message_ptr[slot] + y]
        if new[y] < 1e-280:
            new[y] = _log_sum(r, slot, y, logs) - top
        else:
            new[y] = np.log(new[y])
        new[y] = new[y] - own if new[y] > -np.inf and own > -np.inf else -np.inf
        best = max(best, new[y])
    for y in range(size):
        new[y] = max(new[y] - best, FLOOR) if new[y] > -np.inf else -np.inf


@jit
def _log_sum(r: RegionArrays, slot: int, y: int, logs: FloatArray) -> float:
    """log Σ over the entries of α that have β in state y, for sums too small for plain numbers."""
    start = r.outer_ptr[r.slot_outer[slot]]
    top = -np.inf
    for e in range(r.map_ptr[slot + 1] - r.map_ptr[slot]):
        if r.map[r.map_ptr[slot] + e] == y:
            top = max(top, logs[start + e])
    if top == -np.inf:
        return top
    total = 0.0
    for e in range(r.map_ptr[slot + 1] - r.map_ptr[slot]):
        if r.map[r.map_ptr[slot] + e] == y:
            total += np.exp(logs[start + e] - top)
    return top + np.log(total)


@jit
def _visible(new: FloatArray, old: FloatArray, size: int, rare: float) -> float:
    """Largest change of log beliefs relative to the best state's; states rarer than ``rare`` count for less."""
    best = 0
    for y in range(size):
        if new[y] > new[best]:
            best = y
    if not (new[best] > -np.inf and old[best] > -np.inf):
        return np.inf
    gap = 0.0
    for y in range(size):
        p = np.exp(new[y] - new[best])
        if p > 0.0 or rare == 0.0:
            share = min(1.0, p / rare) if rare > 0.0 else 1.0
            gap = max(gap, abs(new[y] - old[y] - new[best] + old[best]) * share)
    return gap


@jit
def run_regions(
    r: RegionArrays,
    theta: FloatArray,
    outbox: FloatArray,
    double_loop: bool,
    inner_sweeps: int,
    damping: float,
    tolerance: float,
    history: FloatArray,
) -> tuple[int, float]:
    """Sweeps over the inner regions, back and forth, until no belief visibly moves. Returns sweeps and residual.

    double_loop: where c_β < 0, replace the concave −c_β H_β by its tangent at q°, log q = (Σ m − c_β log q°) / n; that
    is a descent of the free energy, and converges. Else q° is q itself: single-loop message passing.
    """
    potentials = outer_potentials(r, theta)
    logs = np.empty(len(potentials))
    outer_logs(r, potentials, outbox, logs)
    # only with zeros in tables may a state drift to probability zero; elsewhere that is divergence, and must count
    rare = 0.0
    limit = 0.0
    for e in range(len(potentials)):
        if potentials[e] == -np.inf:
            rare = RARE
        else:
            limit = max(limit, abs(potentials[e]))
    limit = RUNAWAY * (1.0 + limit)
    count = len(r.counting)
    logq = np.zeros(r.inner_ptr[count])
    tangent = np.zeros(len(logq))
    widest = 0
    for b in range(count):
        widest = max(widest, r.inner_ptr[b + 1] - r.inner_ptr[b])
    fresh = np.empty(widest)
    inbox = np.zeros(len(outbox))
    residual = np.inf
    quiet = 0
    for sweep in range(len(history)):
        residual = 0.0
        if sweep % inner_sweeps == 0:
            tangent[:] = logq
        for step in range(count):
            b = step if sweep % 2 == 0 else count - 1 - step
            first, last = r.slot_ptr[b], r.slot_ptr[b + 1]
            if first == last:
                continue
            size = r.inner_ptr[b + 1] - r.inner_ptr[b]
            for slot in range(first, last):
                _receive(r, slot, logs, outbox, inbox[r.message_ptr[slot] :])
            _combine(r, b, inbox, tangent, double_loop and r.counting[b] < 0.0, fresh)
            at = r.inner_ptr[b]
            residual = max(residual, _visible(fresh, logq[at:], size, rare) if sweep else np.inf)
            if double_loop and r.counting[b] < 0.0:
                residual = max(residual, _visible(fresh, tangent[at:], size, rare))
            logq[at : at + size] = fresh[:size]
            for slot in range(first, last):
                residual = max(residual, _send_back(r, slot, logq[at:], inbox, outbox, logs, size, damping, rare))
        history[sweep] = residual
        if rare == 0.0 and _largest(outbox) > limit:
            return sweep + 1, np.inf
        quiet = quiet + 1 if residual <= tolerance else 0
        if quiet == QUIET:
            return sweep + 1, residual
    return len(history), residual


@jit
def _largest(values: FloatArray) -> float:
    top = 0.0
    for k in range(len(values)):
        top = max(top, abs(values[k]))
    return top


@jit
def _combine(
    r: RegionArrays, b: int, inbox: FloatArray, tangent: FloatArray, linearised: bool, out: FloatArray
) -> None:
    """log q_β from what comes in; maximum 0."""
    first, last = r.slot_ptr[b], r.slot_ptr[b + 1]
    size = r.inner_ptr[b + 1] - r.inner_ptr[b]
    count = last - first
    best = -np.inf
    for y in range(size):
        total = 0.0
        for slot in range(first, last):
            total += inbox[r.message_ptr[slot] + y]
        if linearised:
            out[y] = (total - r.counting[b] * tangent[r.inner_ptr[b] + y]) / count
        else:
            out[y] = total / (count + r.counting[b])
        best = max(best, out[y])
    for y in range(size):
        if best > -np.inf:
            out[y] -= best


@jit
def _send_back(
    r: RegionArrays,
    slot: int,
    logq: FloatArray,
    inbox: FloatArray,
    outbox: FloatArray,
    logs: FloatArray,
    size: int,
    damping: float,
    rare: float,
) -> float:
    """μ_{β→α} = log q − m, and log b_α with it. Returns the visible mismatch between b_α's marginal and q."""
    at = r.message_ptr[slot]
    gap = 0.0
    shift = 0.0
    best = 0
    for y in range(size):
        if logq[y] > logq[best]:
            best = y
    shift = logq[best] - inbox[at + best] - outbox[at + best]
    for y in range(size):
        if logq[y] > -np.inf and inbox[at + y] > -np.inf:
            change = logq[y] - inbox[at + y] - outbox[at + y]
            p = np.exp(logq[y] - logq[best])
            share = min(1.0, p / rare) if rare > 0.0 else 1.0
            gap = max(gap, abs(change - shift) * share)
            inbox[at + y] = (1.0 - damping) * (change - shift)  # reused for the change of the message
        else:  # impossible: α must hear of it, if it did not say so itself
            inbox[at + y] = -np.inf if inbox[at + y] > -np.inf else 0.0
    start = r.outer_ptr[r.slot_outer[slot]]
    for y in range(size):
        outbox[at + y] += inbox[at + y]
    for e in range(r.map_ptr[slot + 1] - r.map_ptr[slot]):
        logs[start + e] += inbox[at + r.map[r.map_ptr[slot] + e]]
    return gap


@jit
def region_beliefs(r: RegionArrays, theta: FloatArray, outbox: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """b_α of all outer regions, q_β of all inner ones, and log Z = −F, the negative region free energy.

    F = Σ_α Σ b_α (log b_α − θ_α) + Σ_β c_β Σ q_β log q_β.
    """
    potentials = outer_potentials(r, theta)
    outer = np.empty(len(potentials))
    outer_logs(r, potentials, outbox, outer)
    inner = np.zeros(r.inner_ptr[len(r.counting)])
    log_z = 0.0
    for a in range(len(r.outer_ptr) - 1):
        part = outer[r.outer_ptr[a] : r.outer_ptr[a + 1]]
        top = part.max()
        if top == -np.inf:
            return outer, inner, -np.inf
        total = 0.0
        for e in range(len(part)):
            total += np.exp(part[e] - top)
        log_total = top + np.log(total)
        for e in range(len(part)):
            logb = part[e] - log_total
            part[e] = np.exp(logb)
            if part[e] > 0.0:
                log_z -= part[e] * (logb - potentials[r.outer_ptr[a] + e])
    for b in range(len(r.counting)):
        q = inner[r.inner_ptr[b] : r.inner_ptr[b + 1]]
        count = r.slot_ptr[b + 1] - r.slot_ptr[b]
        for slot in range(r.slot_ptr[b], r.slot_ptr[b + 1]):
            start = r.outer_ptr[r.slot_outer[slot]]
            for e in range(r.map_ptr[slot + 1] - r.map_ptr[slot]):
                q[r.map[r.map_ptr[slot] + e]] += outer[start + e] / count
        for y in range(len(q)):
            if q[y] > 0.0:
                log_z -= r.counting[b] * q[y] * np.log(q[y])
    return outer, inner, log_z
