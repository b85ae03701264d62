"""Residual belief propagation (Elidan, McGraw & Koller 2006): always send the message that would change most."""

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.kernels.messages.sum_product import _blend, _gap, _send, _update_cavities, cavities, potentials
from bayesfield.types import FloatArray, GraphArrays, IntArray


@jit
def _sift(heap: IntArray, place: IntArray, key: FloatArray, slot: int) -> None:
    """Restore a max-heap after ``key[slot]`` changed; ``place`` knows where each slot stands."""
    at = place[slot]
    while at > 0 and key[heap[(at - 1) // 2]] < key[slot]:
        heap[at] = heap[(at - 1) // 2]
        place[heap[at]] = at
        at = (at - 1) // 2
    while 2 * at + 1 < len(heap):
        child = 2 * at + 1
        if child + 1 < len(heap) and key[heap[child + 1]] > key[heap[child]]:
            child += 1
        if key[heap[child]] <= key[slot]:
            break
        heap[at] = heap[child]
        place[heap[at]] = at
        at = child
    heap[at] = slot
    place[slot] = at


@jit
def run_residual(
    g: GraphArrays,
    theta: FloatArray,
    inbox: FloatArray,
    damping: float,
    tolerance: float,
    history: FloatArray,
    maximise: bool,
) -> tuple[int, float]:
    """Like messages.run_sweeps; a sweep is as many messages as there are slots."""
    E = len(g.scope)
    psi = potentials(g, theta)
    cavity, weight = cavities(g, theta, inbox)
    candidate = np.empty_like(inbox)
    key = np.zeros(E)
    heap = np.arange(E)
    place = np.arange(E)
    for slot in range(E):
        at, size = g.message_ptr[slot], g.cardinality[g.scope[slot]]
        _send(g, theta, psi, cavity, weight, slot, maximise, candidate[at:])
        key[slot] = _gap(candidate[at:], inbox[at:], cavity[at:], size)[0]
        _sift(heap, place, key, slot)
    for sweep in range(len(history)):
        for _ in range(E):
            slot = heap[0]
            if key[slot] <= tolerance:
                history[sweep] = key[slot]
                return sweep + 1, key[slot]
            _commit(g, theta, psi, inbox, cavity, weight, candidate, key, heap, place, slot, damping, maximise)
        history[sweep] = key[heap[0]] if E else 0.0
        if history[sweep] <= tolerance:
            return sweep + 1, history[sweep]
    return len(history), history[len(history) - 1]


@jit
def _commit(
    g: GraphArrays,
    theta: FloatArray,
    psi: FloatArray,
    inbox: FloatArray,
    cavity: FloatArray,
    weight: FloatArray,
    candidate: FloatArray,
    key: FloatArray,
    heap: IntArray,
    place: IntArray,
    slot: int,
    damping: float,
    maximise: bool,
) -> None:
    """Send one message, and work out anew every message that depends on it."""
    i = g.scope[slot]
    at, size = g.message_ptr[slot], g.cardinality[i]
    _blend(inbox[at:], candidate[at:], size, damping)
    key[slot] = _gap(candidate[at:], inbox[at:], cavity[at:], size)[0]
    _sift(heap, place, key, slot)
    _update_cavities(g, theta, inbox, cavity, weight, i)
    for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
        a = g.slot_factor[g.slots[k]]
        if a == g.slot_factor[slot]:
            continue
        for other in range(g.scope_ptr[a], g.scope_ptr[a + 1]):
            if g.scope[other] != i:
                to = g.message_ptr[other]
                _send(g, theta, psi, cavity, weight, other, maximise, candidate[to:])
                key[other] = _gap(candidate[to:], inbox[to:], cavity[to:], g.cardinality[g.scope[other]])[0]
                _sift(heap, place, key, other)
