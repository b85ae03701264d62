"""Max-product on graphs of pairs, variable by variable, back and forth: all in one function, in logs, without exps.

The general kernel (kernels.messages) does the same for factors of any size; calls that carry the whole graph cost it
most of its time.
"""

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.kernels.messages.sum_product import FLOOR, QUIET, RARE
from bayesfield.types import FloatArray, GraphArrays, IntArray


@jit
def max_pairs(
    g: GraphArrays, theta: FloatArray, inbox: FloatArray, damping: float, tolerance: float, history: FloatArray
) -> tuple[int, float]:
    """Sweeps until no undamped update moves a log-message by more than ``tolerance``, as messages.run_sweeps."""
    n, widest = len(g.cardinality), g.cardinality.max() if len(g.cardinality) else 0
    cavity, new = np.zeros_like(inbox), np.empty(widest)
    finite, barred = np.empty(widest), np.empty(widest, dtype=np.int64)
    for i in range(n):
        _cavities(
            g.slot_ptr, g.slots, g.message_ptr, g.node_ptr, g.cardinality, theta, inbox, cavity, finite, barred, i
        )
    residual, quiet = 0.0, 0
    for sweep in range(len(history)):
        residual, moved = 0.0, 0.0
        for step in range(n):
            i = step if sweep % 2 == 0 else n - 1 - step
            K = g.cardinality[i]
            for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
                slot = g.slots[k]
                a = g.slot_factor[slot]
                other = 2 * g.scope_ptr[a] + 1 - slot
                at, there, start = g.message_ptr[slot], g.message_ptr[other], g.table_ptr[a]
                along, across, width = g.stride[slot], g.stride[other], g.cardinality[g.scope[other]]
                top = -np.inf
                for x in range(K):
                    best = -np.inf
                    for y in range(width):
                        best = max(best, theta[start + x * along + y * across] + cavity[there + y])
                    new[x] = best
                    top = max(top, best)
                if top > -np.inf:
                    for x in range(K):
                        new[x] -= top
                        if FLOOR > new[x] > -np.inf:
                            new[x] = FLOOR
                gap, visible = _moved(new, inbox, cavity, at, K, tolerance)
                moved, residual = max(moved, gap), max(residual, visible)
                for x in range(K):
                    keep = damping > 0.0 and inbox[at + x] > -np.inf and new[x] > -np.inf
                    inbox[at + x] = damping * inbox[at + x] + (1.0 - damping) * new[x] if keep else new[x]
            _cavities(
                g.slot_ptr, g.slots, g.message_ptr, g.node_ptr, g.cardinality, theta, inbox, cavity, finite, barred, i
            )
        history[sweep] = residual
        quiet = quiet + 1 if residual <= tolerance else 0
        if moved <= tolerance or quiet == QUIET:
            return sweep + 1, residual
    return len(history), residual


@jit
def _moved(
    new: FloatArray, inbox: FloatArray, cavity: FloatArray, at: int, K: int, tolerance: float
) -> tuple[float, float]:
    """As messages._gap, with an exponential only where a change is above the tolerance."""
    best = 0
    for x in range(K):
        if new[x] + cavity[at + x] > new[best] + cavity[at + best]:
            best = x
    top = new[best] + cavity[at + best]
    if not (top > -np.inf and inbox[at + best] > -np.inf):
        return np.inf, np.inf
    shift = new[best] - inbox[at + best]
    gap, visible = 0.0, 0.0
    for x in range(K):
        if new[x] > -np.inf or inbox[at + x] > -np.inf:
            change = abs(new[x] - inbox[at + x] - shift)
            gap = max(gap, change)
            if change > visible:
                less = top - new[x] - cavity[at + x]
                visible = max(visible, change * min(1.0, np.exp(-less) / RARE) if change > tolerance else change)
    return gap, visible


@jit
def _cavities(
    slot_ptr: IntArray,
    slots: IntArray,
    message_ptr: IntArray,
    node_ptr: IntArray,
    cardinality: IntArray,
    theta: FloatArray,
    inbox: FloatArray,
    cavity: FloatArray,
    finite: FloatArray,
    barred: IntArray,
    i: int,
) -> None:
    """cavity_{i→a} = θ_i + Σ_{b≠a} m_{b→i}, with the largest at zero; −∞ counted apart from the sum."""
    K = cardinality[i]
    for x in range(K):
        own = theta[node_ptr[i] + x]
        finite[x], barred[x] = (own, 0) if own > -np.inf else (0.0, 1)
    for k in range(slot_ptr[i], slot_ptr[i + 1]):
        at = message_ptr[slots[k]]
        for x in range(K):
            if inbox[at + x] > -np.inf:
                finite[x] += inbox[at + x]
            else:
                barred[x] += 1
    for k in range(slot_ptr[i], slot_ptr[i + 1]):
        at, top = message_ptr[slots[k]], -np.inf
        for x in range(K):
            own = inbox[at + x]
            if own > -np.inf:
                cavity[at + x] = finite[x] - own if barred[x] == 0 else -np.inf
            else:
                cavity[at + x] = finite[x] if barred[x] == 1 else -np.inf
            top = max(top, cavity[at + x])
        if top > -np.inf:
            for x in range(K):
                cavity[at + x] -= top
