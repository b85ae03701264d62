"""Bethe's log Z of one binary pairwise field at WIDTH parameter vectors at once, a vector register for each message.

Messages are odds, as in ``pairs``: r' = (aB + r) / (B + ar), with B the odds of the sender's belief and a = e^{2w}.
log Z is stationary in the messages at a fixed point, so messages that are right to 1e-4 leave it right to 1e-8 or so.
Strong couplings have one slow, collective mode; every PERIOD sweeps its geometric series is summed (Aitken), which
takes a few tens of sweeps where plain ones would take hundreds.

A lane whose messages have settled is left as it is, so that its log Z does not depend on its neighbours.
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.kernels.messages.pairs import PairArrays
from bayesfield.types import FloatArray, GraphArrays

WIDTH = 8
PERIOD = 8
SLOWEST = 0.97  # rate of two sweeps up to which the slow mode is extrapolated
LARGE = 1e100  # a product of ratios is turned into its log before it can overflow


class Lanes(NamedTuple):
    """Room for one call; the last axis is the lane."""

    node: FloatArray  # (n, WIDTH) log-odds, then odds, of the fields
    coupling: FloatArray  # (E, WIDTH) a, in the order of ``slots``
    message: FloatArray  # (E, WIDTH) r
    old: FloatArray  # (E, WIDTH) two sweeps ago …
    older: FloatArray  # … and four
    belief: FloatArray  # (n, WIDTH) B
    constant: FloatArray  # (WIDTH,)
    gap: FloatArray  # (WIDTH,)
    moving: FloatArray  # (WIDTH,) 1, or 0 once a lane has settled


@jit
def make_lanes(g: GraphArrays) -> Lanes:
    n, E = len(g.cardinality), len(g.slots)
    return Lanes(
        np.empty((n, WIDTH)),
        np.empty((E, WIDTH)),
        np.empty((E, WIDTH)),
        np.empty((E, WIDTH)),
        np.empty((E, WIDTH)),
        np.empty((n, WIDTH)),
        np.empty(WIDTH),
        np.empty(WIDTH),
        np.empty(WIDTH),
    )


@jit
def log_z(
    g: GraphArrays, pairs: PairArrays, theta: FloatArray, lanes: Lanes, tolerance: float, sweeps: int, out: FloatArray
) -> None:
    """log Z of each lane's θ, theta (T, WIDTH), from uniform messages; NaN where they have not settled in time."""
    _odds(g, pairs, theta, lanes)
    lanes.message[:] = 1.0
    lanes.moving[:] = 1.0
    for sweep in range(sweeps):
        lanes.gap[:] = 0.0
        _sweep(g, pairs, lanes, tolerance, sweep % 2 == 1)
        for c in range(WIDTH):
            lanes.moving[c] *= lanes.gap[c] > 0.0
        if lanes.moving.max() == 0.0:
            break
        phase = sweep % PERIOD
        if phase == PERIOD - 5:
            lanes.older[:] = lanes.message
        elif phase == PERIOD - 3:
            lanes.old[:] = lanes.message
        elif phase == PERIOD - 1:
            _extrapolate(lanes)
    for c in range(WIDTH):
        lanes.constant[c] += 0.0 if lanes.moving[c] == 0.0 else np.nan
    _free_energy(g, pairs, lanes, out)


@jit
def _extrapolate(lanes: Lanes) -> None:
    """r + (r − r₂) ρ/(1 − ρ), with ρ the rate at which the last two differences shrink, within a message's bounds."""
    for c in range(WIDTH):
        both, first = 0.0, 1e-300
        for k in range(len(lanes.message)):
            before, after = lanes.old[k, c] - lanes.older[k, c], lanes.message[k, c] - lanes.old[k, c]
            both += before * after
            first += before * before
        rate = both / first
        if 0.0 < rate < SLOWEST and lanes.moving[c] > 0.0:
            for k in range(len(lanes.message)):
                a = lanes.coupling[k, c]
                new = lanes.message[k, c] + (lanes.message[k, c] - lanes.old[k, c]) * rate / (1.0 - rate)
                lanes.message[k, c] = min(max(new, min(a, 1.0 / a)), max(a, 1.0 / a))


@jit
def _odds(g: GraphArrays, pairs: PairArrays, theta: FloatArray, lanes: Lanes) -> None:
    """Tables as constant + w·xy + u·x + v·y in x, y = ±1."""
    lanes.constant[:] = 0.0
    for i in range(len(g.cardinality)):
        low, high = theta[g.node_ptr[i]], theta[g.node_ptr[i] + 1]
        for c in range(WIDTH):
            lanes.node[i, c] = high[c] - low[c]
            lanes.constant[c] += 0.5 * (low[c] + high[c])
    for k in range(len(g.slots)):
        slot = g.slots[k]
        a = g.slot_factor[slot]
        t = g.table_ptr[a]
        first = slot == g.scope_ptr[a]
        i = g.scope[slot]
        for c in range(WIDTH):
            t0, t1, t2, t3 = theta[t, c], theta[t + 1, c], theta[t + 2, c], theta[t + 3, c]
            lanes.node[i, c] += 0.5 * (t3 - t0 + (t2 - t1 if first else t1 - t2))
            if first:
                w = 0.25 * (t0 - t1 - t2 + t3)
                lanes.coupling[k, c] = np.exp(2.0 * w)
                lanes.constant[c] += 0.25 * (t0 + t1 + t2 + t3) - w
    for k in range(len(g.slots)):
        slot = g.slots[k]
        if slot != g.scope_ptr[g.slot_factor[slot]]:
            lanes.coupling[k] = lanes.coupling[pairs.reverse[k]]
    for i in range(len(g.cardinality)):
        for c in range(WIDTH):
            lanes.constant[c] -= 0.5 * lanes.node[i, c]
            lanes.node[i, c] = np.exp(lanes.node[i, c])


@jit
def _sweep(g: GraphArrays, pairs: PairArrays, lanes: Lanes, tolerance: float, backwards: bool) -> None:
    """One message along every slot. gap: the largest |change| − tolerance · message, below zero when all settled."""
    n = len(g.cardinality)
    for step in range(n):
        i = n - 1 - step if backwards else step
        B = lanes.belief[i]
        for c in range(WIDTH):
            B[c] = lanes.node[i, c]
        for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
            for c in range(WIDTH):
                B[c] *= lanes.message[k, c]
        for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
            r, a, to = lanes.message[k], lanes.coupling[k], lanes.message[pairs.reverse[k]]
            for c in range(WIDTH):
                new = (a[c] * B[c] + r[c]) / (B[c] + a[c] * r[c])
                lanes.gap[c] = max(lanes.gap[c], abs(new - to[c]) - tolerance * new)
                to[c] = new if lanes.moving[c] > 0.0 else to[c]


@jit
def _free_energy(g: GraphArrays, pairs: PairArrays, lanes: Lanes, out: FloatArray) -> None:
    """Σ_i log Z_i + Σ_a (log Z_a − log Z_ai − log Z_aj); with odds q = B/r of the cavities,

    Z_a = e^{−w} (a (1 + q_i q_j) + q_i + q_j) and Z_ai = 1 + B_i. Logs are of products; e^{−w} is in the constant.
    """
    n, product = len(g.cardinality), lanes.gap
    out[:] = lanes.constant
    product[:] = 1.0
    for i in range(n):
        B = lanes.belief[i]
        B[:] = lanes.node[i]
        for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
            for c in range(WIDTH):
                B[c] *= lanes.message[k, c]
    for i in range(n):
        B, degree = lanes.belief[i], g.slot_ptr[i + 1] - g.slot_ptr[i]
        for c in range(WIDTH):
            Z = 1.0 + B[c]
            power = Z if degree == 0 else 1.0
            for _ in range(degree - 1):
                power *= Z
            product[c] = product[c] * power if degree == 0 else product[c] / power
        for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
            back = pairs.reverse[k]
            other = g.scope[g.slots[back]]
            if i < other:
                a, r, s, A = lanes.coupling[k], lanes.message[k], lanes.message[back], lanes.belief[other]
                for c in range(WIDTH):
                    product[c] *= (a[c] * (r[c] * s[c] + B[c] * A[c]) + B[c] * s[c] + A[c] * r[c]) / (r[c] * s[c])
        for c in range(WIDTH):
            if not 1.0 / LARGE < product[c] < LARGE:
                out[c] += np.log(product[c])
                product[c] = 1.0
    for c in range(WIDTH):
        out[c] += np.log(product[c])
