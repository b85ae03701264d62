"""Sum-product and max-product for any cardinalities and factor sizes, in the log domain.

Two messages run along each slot (a factor a, one of its variables i): ``inbox`` from factor to variable, m_{a→i}, and
``cavity`` from variable to factor. Both are logs with maximum 0; −∞ marks an impossible state. ``weight`` is
exp(cavity): sums over a factor's table are products of plain numbers, and only a sum that comes out so small that
underflow could matter is done again in logs. So the result is that of log-domain arithmetic at a fraction of its cost.
"""

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, GraphArrays, IntArray

TINY = 1e-280  # below this a sum of plain numbers is done again in logs
RARE = 1e-6  # probability below which a state's message need not have settled quite as well (see _gap) …
QUIET = 10  # … if nothing visible moves for so many sweeps
FLOOR = -2e4  # log of the least likely message that is not impossible; e⁻²⁰⁰⁰⁰ is no number in data


@jit
def potentials(g: GraphArrays, theta: FloatArray) -> FloatArray:
    """exp(θ_a − max θ_a) for every factor; zeros stand for the variables' own tables, which nobody reads."""
    psi = np.zeros(len(theta))
    for a in range(len(g.table_ptr) - 1):
        part = theta[g.table_ptr[a] : g.table_ptr[a + 1]]
        top = part.max()
        for e in range(len(part)):
            psi[g.table_ptr[a] + e] = np.exp(part[e] - top) if top > -np.inf else 0.0
    return psi


@jit
def _rest(g: GraphArrays, slot: int, entry: int, values: FloatArray, logs: bool) -> float:
    """What the other members of a factor contribute to an entry of its table: a product, or a sum of logs."""
    a = g.slot_factor[slot]
    total = 0.0 if logs else 1.0
    for k in range(g.scope_ptr[a], g.scope_ptr[a + 1]):
        if k != slot:
            state = entry // g.stride[k] % g.cardinality[g.scope[k]]
            if logs:
                total += values[g.message_ptr[k] + state]
            else:
                total *= values[g.message_ptr[k] + state]
    return total


@jit
def _sum_in_logs(g: GraphArrays, theta: FloatArray, cavity: FloatArray, slot: int, state: int, maximise: bool) -> float:
    """log Σ (or max) over the entries of a factor's table that have the slot's variable in a state."""
    a = g.slot_factor[slot]
    size = g.cardinality[g.scope[slot]]
    start = g.table_ptr[a]
    top = -np.inf
    for e in range(g.table_ptr[a + 1] - start):
        if e // g.stride[slot] % size == state:
            top = max(top, theta[start + e] + _rest(g, slot, e, cavity, True))
    if maximise or top == -np.inf:
        return top
    total = 0.0
    for e in range(g.table_ptr[a + 1] - start):
        if e // g.stride[slot] % size == state:
            total += np.exp(theta[start + e] + _rest(g, slot, e, cavity, True) - top)
    return top + np.log(total)


@jit
def _send(
    g: GraphArrays,
    theta: FloatArray,
    psi: FloatArray,
    cavity: FloatArray,
    weight: FloatArray,
    slot: int,
    maximise: bool,
    out: FloatArray,
) -> None:
    """The message of a slot's factor to its variable, given the cavities of the factor's other members."""
    a = g.slot_factor[slot]
    first, last = g.scope_ptr[a], g.scope_ptr[a + 1]
    start = g.table_ptr[a]
    size = g.cardinality[g.scope[slot]]
    step = g.stride[slot]
    other = first + last - 1 - slot  # where there are two
    if maximise and last - first == 2:
        at = g.message_ptr[other]
        for x in range(size):
            out[x] = -np.inf
            for y in range(g.cardinality[g.scope[other]]):
                out[x] = max(out[x], theta[start + x * step + y * g.stride[other]] + cavity[at + y])
    if not maximise:
        out[:size] = 0.0
        if last - first == 2:
            at = g.message_ptr[other]
            for x in range(size):
                total = 0.0
                for y in range(g.cardinality[g.scope[other]]):
                    total += psi[start + x * step + y * g.stride[other]] * weight[at + y]
                out[x] = total
        else:
            for e in range(g.table_ptr[a + 1] - start):
                out[e // step % size] += psi[start + e] * _rest(g, slot, e, weight, False)
    top = -np.inf
    shift = 0.0 if maximise else theta[start : g.table_ptr[a + 1]].max()
    for x in range(size):
        if maximise:
            if last - first != 2:
                out[x] = _sum_in_logs(g, theta, cavity, slot, x, True)
        elif out[x] < TINY:
            out[x] = _sum_in_logs(g, theta, cavity, slot, x, False) - shift
        else:
            out[x] = np.log(out[x])
        top = max(top, out[x])
    if top > -np.inf:
        for x in range(size):
            out[x] -= top
            if FLOOR > out[x] > -np.inf:
                out[x] = FLOOR


@jit
def _update_cavities(
    g: GraphArrays, theta: FloatArray, inbox: FloatArray, cavity: FloatArray, weight: FloatArray, i: int
) -> None:
    """cavity_{i→a} = θ_i + Σ_{b≠a} m_{b→i} for every factor a of variable i."""
    K = g.cardinality[i]
    for x in range(K):
        finite = theta[g.node_ptr[i] + x]
        barred = 0
        if finite == -np.inf:
            finite = 0.0
            barred = 1
        for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
            m = inbox[g.message_ptr[g.slots[k]] + x]
            if m == -np.inf:
                barred += 1
            else:
                finite += m
        for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
            at = g.message_ptr[g.slots[k]] + x
            own = inbox[at]
            if own == -np.inf:
                cavity[at] = finite if barred == 1 else -np.inf
            else:
                cavity[at] = finite - own if barred == 0 else -np.inf
    for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
        at = g.message_ptr[g.slots[k]]
        _normalise(cavity[at : at + K], weight[at : at + K])


@jit
def _normalise(logs: FloatArray, weight: FloatArray) -> None:
    top = logs.max()
    for x in range(len(logs)):
        if top > -np.inf:
            logs[x] -= top
        weight[x] = np.exp(logs[x])


@jit
def largest(theta: FloatArray) -> float:
    """The largest finite |θ|."""
    found = 0.0
    for e in range(len(theta)):
        if found < abs(theta[e]) < np.inf:
            found = abs(theta[e])
    return found


@jit
def cavities(g: GraphArrays, theta: FloatArray, inbox: FloatArray) -> tuple[FloatArray, FloatArray]:
    """All messages from variables to factors: logs and plain."""
    cavity = np.empty_like(inbox)
    weight = np.empty_like(inbox)
    for i in range(len(g.cardinality)):
        _update_cavities(g, theta, inbox, cavity, weight, i)
    return cavity, weight


@jit
def _gap(new: FloatArray, old: FloatArray, rest: FloatArray, size: int) -> tuple[float, float]:
    """Largest change of a log-message relative to that of the most probable state; new + rest is the log belief.

    A state that is on its way to probability zero drifts for ever in logs. So there is a second figure, in which a
    state's change counts p / RARE once its probability p is below RARE: beliefs decide, and not the logs of what
    cannot be seen in them.
    """
    best = 0
    for x in range(size):
        if new[x] + rest[x] > new[best] + rest[best]:
            best = x
    top = new[best] + rest[best]
    if not (top > -np.inf and old[best] > -np.inf):
        return np.inf, np.inf
    shift = new[best] - old[best]
    gap, visible = 0.0, 0.0
    for x in range(size):
        p = np.exp(new[x] + rest[x] - top)
        if new[x] > -np.inf or old[x] > -np.inf:
            change = abs(new[x] - old[x] - shift)
            gap = max(gap, change)
            if p > 0.0:
                visible = max(visible, change * min(1.0, p / RARE))
    return gap, visible


@jit
def _blend(inbox: FloatArray, new: FloatArray, size: int, damping: float) -> None:
    for x in range(size):
        if damping > 0.0 and np.isfinite(inbox[x]) and np.isfinite(new[x]):
            inbox[x] = damping * inbox[x] + (1.0 - damping) * new[x]
        else:
            inbox[x] = new[x]


@jit
def run_sweeps(
    g: GraphArrays,
    theta: FloatArray,
    inbox: FloatArray,
    flooding: bool,
    damping: float,
    tolerance: float,
    history: FloatArray,
    maximise: bool,
) -> tuple[int, float]:
    """Message passing until no undamped update moves a log-message by more than ``tolerance`` (see _gap).

    Sequential: variable by variable, back and forth. Flooding: all messages from the old ones. At most len(history)
    sweeps. Returns their number and the last residual.
    """
    psi = potentials(g, theta)
    cavity, weight = cavities(g, theta, inbox)
    widest = g.cardinality.max() if len(g.cardinality) else 0
    new = np.empty(widest)
    n = len(g.cardinality)
    residual = 0.0
    quiet = 0
    for sweep in range(len(history)):
        residual = 0.0
        moved = 0.0
        for step in range(n):
            i = step if sweep % 2 == 0 or flooding else n - 1 - step
            for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
                slot = g.slots[k]
                at = g.message_ptr[slot]
                _send(g, theta, psi, cavity, weight, slot, maximise, new)
                gap, visible = _gap(new, inbox[at:], cavity[at:], g.cardinality[i])
                moved = max(moved, gap)
                residual = max(residual, visible)
                _blend(inbox[at:], new, g.cardinality[i], damping)
            if not flooding:
                _update_cavities(g, theta, inbox, cavity, weight, i)
        if flooding:
            for i in range(n):
                _update_cavities(g, theta, inbox, cavity, weight, i)
        history[sweep] = residual
        quiet = quiet + 1 if residual <= tolerance else 0
        if moved <= tolerance or quiet == QUIET:
            return sweep + 1, residual
    return len(history), residual


@jit
def beliefs(g: GraphArrays, theta: FloatArray, inbox: FloatArray, cavity: FloatArray, out: FloatArray) -> float:
    """Beliefs of all tables from the messages, and the Bethe log Z; −∞ when some table has no possible state.

    log Z = Σ_i log Z_i + Σ_a log Z_a − Σ_slots log Z_ai, stationary in the messages.
    """
    log_z = 0.0
    for i in range(len(g.cardinality)):
        part = out[g.node_ptr[i] : g.node_ptr[i + 1]]
        part[:] = theta[g.node_ptr[i] : g.node_ptr[i + 1]]
        for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
            at = g.message_ptr[g.slots[k]]
            for x in range(len(part)):
                part[x] += inbox[at + x]
        log_z += _softmax(part)
    for a in range(len(g.table_ptr) - 1):
        start = g.table_ptr[a]
        part = out[start : g.table_ptr[a + 1]]
        part[:] = theta[start : g.table_ptr[a + 1]]
        for k in range(g.scope_ptr[a], g.scope_ptr[a + 1]):
            size = g.cardinality[g.scope[k]]
            at = g.message_ptr[k]
            inner = g.stride[k]
            e = 0
            while e < len(part):  # the slot's state is constant over runs of ``stride`` entries
                for x in range(size):
                    for _ in range(inner):
                        part[e] += cavity[at + x]
                        e += 1
        log_z += _softmax(part)
    for slot in range(len(g.scope)):
        top = -np.inf
        for k in range(g.message_ptr[slot], g.message_ptr[slot + 1]):
            top = max(top, inbox[k] + cavity[k])
        total = 0.0
        for k in range(g.message_ptr[slot], g.message_ptr[slot + 1]):
            total += np.exp(inbox[k] + cavity[k] - top) if top > -np.inf else 0.0
        log_z -= top + np.log(total) if top > -np.inf else 0.0
    return log_z


@jit
def _softmax(logs: FloatArray) -> float:
    """Turn logs into probabilities in place; returns log Σ exp."""
    top = logs.max()
    if top == -np.inf:
        logs[:] = np.nan
        return -np.inf
    total = 0.0
    for x in range(len(logs)):
        logs[x] = np.exp(logs[x] - top)
        total += logs[x]
    scale = 1.0 / total
    for x in range(len(logs)):
        logs[x] *= scale
    return top + np.log(total)


@jit
def double_loop(
    g: GraphArrays, theta: FloatArray, inbox: FloatArray, tolerance: float, inner: int, history: FloatArray
) -> tuple[int, float]:
    """Minimise the Bethe free energy (Heskes 2006): never moves uphill, so it converges where messages circle.

    The concave part Σ_i (d_i − 1) H_i is replaced by its tangent at q°, and the convex rest minimised by
    log q_i = (θ_i + (d_i − 1) log q°_i + Σ_a m_{a→i}) / d_i,  cavity_{i→a} = log q_i − m_{a→i}.
    A fixed point q = q° is a fixed point of belief propagation. Returns sweeps and the last change of log q − log q°.
    """
    psi = potentials(g, theta)
    cavity, weight = cavities(g, theta, inbox)
    n = len(g.cardinality)
    logq = np.zeros(g.node_ptr[n])
    for i in range(n):
        _node_logs(g, theta, inbox, i, logq)
    previous = logq.copy()
    new = np.empty(g.cardinality.max() if n else 0)
    none = np.zeros(len(new))
    residual = np.inf
    quiet = 0
    for sweep in range(len(history)):
        if sweep % inner == 0:
            previous[:] = logq
        residual = 0.0
        for step in range(n):
            i = step if sweep % 2 == 0 else n - 1 - step
            size = g.cardinality[i]
            for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
                at = g.message_ptr[g.slots[k]]
                _send(g, theta, psi, cavity, weight, g.slots[k], False, new)
                residual = max(residual, _gap(new, inbox[at:], cavity[at:], size)[1])
                inbox[at : at + size] = new[:size]
            _relaxed_cavities(g, theta, inbox, previous, cavity, weight, i, logq)
            at = g.node_ptr[i]
            residual = max(residual, _gap(logq[at:], previous[at:], none, size)[1])
        history[sweep] = residual
        quiet = quiet + 1 if residual <= tolerance else 0
        if quiet == QUIET:
            return sweep + 1, residual
    return len(history), residual


@jit
def _node_logs(g: GraphArrays, theta: FloatArray, inbox: FloatArray, i: int, logq: FloatArray) -> None:
    """log q_i = θ_i + Σ_a m_{a→i}, up to a constant that makes the maximum 0."""
    part = logq[g.node_ptr[i] : g.node_ptr[i + 1]]
    part[:] = theta[g.node_ptr[i] : g.node_ptr[i + 1]]
    for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
        at = g.message_ptr[g.slots[k]]
        for x in range(len(part)):
            part[x] += inbox[at + x]
    top = part.max()
    if top > -np.inf:
        part -= top


@jit
def _relaxed_cavities(
    g: GraphArrays,
    theta: FloatArray,
    inbox: FloatArray,
    previous: FloatArray,
    cavity: FloatArray,
    weight: FloatArray,
    i: int,
    logq: FloatArray,
) -> None:
    """The variable's step of double_loop."""
    degree = g.slot_ptr[i + 1] - g.slot_ptr[i]
    _node_logs(g, theta, inbox, i, logq)
    if degree == 0:
        return
    at = g.node_ptr[i]
    size = g.cardinality[i]
    top = -np.inf
    for x in range(size):
        if logq[at + x] > -np.inf and previous[at + x] > -np.inf:
            logq[at + x] = (logq[at + x] + (degree - 1) * previous[at + x]) / degree
        else:
            logq[at + x] = -np.inf
        top = max(top, logq[at + x])
    for x in range(size):
        if top > -np.inf:
            logq[at + x] -= top
    for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
        to = g.message_ptr[g.slots[k]]
        for x in range(size):
            cavity[to + x] = logq[at + x] - inbox[to + x] if logq[at + x] > -np.inf else -np.inf
        _normalise(cavity[to : to + size], weight[to : to + size])


@jit
def decode(g: GraphArrays, theta: FloatArray, inbox: FloatArray, order: IntArray, states: IntArray) -> None:
    """A joint state from max-product messages: variables in ``order``, each the best given those before it.

    With the order of a walk along the graph this is exact on trees, ties included.
    """
    psi = np.empty(0)
    cavity, weight = cavities(g, theta, inbox)
    widest = g.cardinality.max() if len(g.cardinality) else 0
    new = np.empty(widest)
    total = np.empty(widest)
    for i in order:
        size = g.cardinality[i]
        total[:size] = theta[g.node_ptr[i] : g.node_ptr[i + 1]]
        for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
            _send(g, theta, psi, cavity, weight, g.slots[k], True, new)
            for x in range(size):
                total[x] += new[x]
        states[i] = np.argmax(total[:size])
        for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
            at = g.message_ptr[g.slots[k]]
            cavity[at : at + size] = -np.inf
            cavity[at + states[i]] = 0.0
