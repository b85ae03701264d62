"""Two passes over a tree of cliques: log Z, marginals, derivatives, samples, the most probable state.

The letters: a clique's table has S rows, one for each state of its separator towards the parent, and R columns, one
for each state of the variables it alone eliminates. It is stored as the conditional p(column | row), from which all
else follows by products and sums of numbers in [0, 1]. What multiplies into a clique, its *inputs*, are small tables
of potentials (cores) and the messages of children; all inputs stand in one buffer, and their marginals in a second
buffer of the same layout.

An entry e = h·B + l of a clique's table meets entry high[h] + low[l] of an input, so index maps cost S·R/B + B
integers and not S·R. Where ``low`` is the identity, the inner loop is a plain vector operation.
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, IntArray

# Inputs have maximum 1, so a clique's largest product can only sink when messages contradict one another. As long as
# it stays above this bound, what underflowed to zero was below 1e-100 of what counts.
SAFE = 1e-200
TINY = 1e-300


class TreeArrays(NamedTuple):
    """A junction tree laid out for the kernels; cliques in an order with children before parents."""

    table_ptr: IntArray  # (C+1,) entries of each clique's table
    columns: IntArray  # (C,) R
    block: IntArray  # (C,) B
    message: IntArray  # (C,) where the clique's message to its parent stands in the buffer
    parent: IntArray  # (C,) −1 for a root
    input_ptr: IntArray  # (C+1,) inputs of each clique
    source: IntArray  # (I,) where the input stands in the buffer
    low_ptr: IntArray  # (I,) start of its low map
    high_ptr: IntArray  # (I,) start of its high map
    straight: IntArray  # (I,) 1 where the low map is the identity
    low: IntArray
    high: IntArray
    core_ptr: IntArray  # (K+1,) entries of each core in the buffer; cores come first
    term_ptr: IntArray  # (entries of cores + 1,) which entries of θ add up to a core's entry
    term: IntArray
    buffer_size: int
    separator_ptr: IntArray  # (C+1,) variables of each separator …
    separator: IntArray
    separator_stride: IntArray  # … and the step of each in the row number
    residual_ptr: IntArray  # (C+1,) variables of each clique's columns …
    residual: IntArray
    residual_stride: IntArray
    residual_size: IntArray


@jit
def build_maps(
    axis_ptr: IntArray, axis_size: IntArray, axis_stride: IntArray, low_size: IntArray, high_size: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Index maps of every input. Input i sees its clique's axes axis_ptr[i]:axis_ptr[i+1] with its own strides."""
    count = len(low_size)
    low_ptr = np.zeros(count + 1, dtype=np.int64)
    high_ptr = np.zeros(count + 1, dtype=np.int64)
    for i in range(count):
        low_ptr[i + 1] = low_ptr[i] + low_size[i]
        high_ptr[i + 1] = high_ptr[i] + high_size[i]
    low = np.zeros(low_ptr[count], dtype=np.int64)
    high = np.zeros(high_ptr[count], dtype=np.int64)
    straight = np.ones(count, dtype=np.int64)
    for i in range(count):
        for part in range(2):
            size = low_size[i] if part == 0 else high_size[i]
            step = 1 if part == 0 else low_size[i]
            for e in range(size):
                rest = e * step
                index = 0
                for k in range(axis_ptr[i + 1] - 1, axis_ptr[i] - 1, -1):
                    index += (rest % axis_size[k]) * axis_stride[k]
                    rest //= axis_size[k]
                if part == 0:
                    low[low_ptr[i] + e] = index
                    if index != e:
                        straight[i] = 0
                else:
                    high[high_ptr[i] + e] = index
    return low_ptr, low, high_ptr, high, straight


@jit
def core_logs(tree: TreeArrays, theta: FloatArray, buffer: FloatArray) -> None:
    """Sum the potentials that share a core: log tables at the head of the buffer."""
    for e in range(len(tree.term_ptr) - 1):
        total = 0.0
        for k in range(tree.term_ptr[e], tree.term_ptr[e + 1]):
            total += theta[tree.term[k]]
        buffer[e] = total


@jit
def collect(tree: TreeArrays, theta: FloatArray, tables: FloatArray, buffer: FloatArray) -> tuple[float, bool]:
    """Leaves to roots with plain numbers. Returns log Z, and False when it may have underflowed (use collect_log)."""
    core_logs(tree, theta, buffer)
    log_z = 0.0
    for k in range(len(tree.core_ptr) - 1):
        core = buffer[tree.core_ptr[k] : tree.core_ptr[k + 1]]
        top = core.max()
        if not np.isfinite(top):
            return -np.inf, False
        log_z += top
        for e in range(len(core)):
            core[e] = np.exp(core[e] - top)
    return _upwards(tree, log_z, tables, buffer)


@jit
def _upwards(tree: TreeArrays, log_z: float, tables: FloatArray, buffer: FloatArray) -> tuple[float, bool]:
    """Clique by clique: multiply the inputs block by block, sum the columns into the message, keep the conditionals.

    Offsets instead of slices, and one function for all cliques: on small ones making slices and handing the tree's
    many arrays on takes longer than the work (measured on the 5×5 grid: 19 µs, and 6 this way).
    """
    for c in range(len(tree.columns)):
        R, B = tree.columns[c], tree.block[c]
        start, stop, up = tree.table_ptr[c], tree.table_ptr[c + 1], tree.message[c]
        rows = (stop - start) // R
        if R > B:
            for s in range(up, up + rows):
                buffer[s] = 0.0
        for h in range((stop - start) // B):
            at = start + h * B
            for i in range(tree.input_ptr[c], tree.input_ptr[c + 1]):
                source = tree.source[i] + tree.high[tree.high_ptr[i] + h]
                low = -1 if tree.straight[i] else tree.low_ptr[i]
                _multiply(tree.low, low, B, at, tables, source, buffer, i == tree.input_ptr[c])
            if R > B:
                total = 0.0
                for j in range(at, at + B):
                    total += tables[j]
                buffer[up + h * B // R] += total
            elif R == 2:
                _normalise_pairs(tables, at, buffer, up + h * B // 2, B // 2)
            else:
                _normalise_rows(tables, at, R, buffer, up + h * B // R, B // R)
        top = 0.0
        for s in range(up, up + rows):
            if R > B:
                scale = 1.0 / max(buffer[s], TINY)
                for j in range(start + (s - up) * R, start + (s - up + 1) * R):
                    tables[j] *= scale
            top = max(top, buffer[s])
        if not top >= SAFE:
            return log_z, False
        log_z += np.log(top)
        scale = 1.0 / top
        for s in range(up, up + rows):
            buffer[s] *= scale
    return log_z, True


@jit
def _multiply(
    maps: IntArray, low: int, B: int, at: int, tables: FloatArray, source: int, buffer: FloatArray, first: bool
) -> None:
    """tables[at : at + B] times (or, first, set to) an input's entries, in order (low < 0) or by its low map."""
    if low < 0:
        if first:
            for j in range(B):
                tables[at + j] = buffer[source + j]
        else:
            for j in range(B):
                tables[at + j] *= buffer[source + j]
    elif first:
        for j in range(B):
            tables[at + j] = buffer[source + maps[low + j]]
    else:
        for j in range(B):
            tables[at + j] *= buffer[source + maps[low + j]]


@jit
def _normalise_pairs(tables: FloatArray, at: int, up: FloatArray, first: int, rows: int) -> None:
    """_normalise_rows for two columns: a loop the compiler turns into vector code."""
    for s in range(rows):
        total = tables[at + 2 * s] + tables[at + 2 * s + 1]
        up[first + s] = total
        scale = 1.0 / max(total, TINY)  # of zeros if at all; a branch would keep the loop out of vector registers
        tables[at + 2 * s] *= scale
        tables[at + 2 * s + 1] *= scale


@jit
def _normalise_rows(tables: FloatArray, at: int, R: int, up: FloatArray, first: int, rows: int) -> None:
    for s in range(rows):
        row = at + s * R
        total = 0.0
        for r in range(R):
            total += tables[row + r]
        up[first + s] = total
        scale = 1.0 / total if total > TINY else 0.0  # below it 1 / total may be infinite, and times zero not a number
        for r in range(R):
            tables[row + r] *= scale


@jit
def collect_log(tree: TreeArrays, theta: FloatArray, tables: FloatArray, buffer: FloatArray, maximise: bool) -> float:
    """Leaves to roots in logs, safe for any range. Leaves conditionals, or with ``maximise`` log-ratios to the best."""
    core_logs(tree, theta, buffer)
    log_z = 0.0
    for c in range(len(tree.columns)):
        R, B = tree.columns[c], tree.block[c]
        start, stop = tree.table_ptr[c], tree.table_ptr[c + 1]
        for h in range((stop - start) // B):
            t = tables[start + h * B : start + (h + 1) * B]
            t[:] = 0.0
            for i in range(tree.input_ptr[c], tree.input_ptr[c + 1]):
                at = tree.source[i] + tree.high[tree.high_ptr[i] + h]
                low = tree.low[tree.low_ptr[i] : tree.low_ptr[i] + B]
                for j in range(B):
                    t[j] += buffer[at + low[j]]
        rows = (stop - start) // R
        up = buffer[tree.message[c] : tree.message[c] + rows]
        for s in range(rows):
            row = tables[start + s * R : start + (s + 1) * R]
            top = row.max()
            if top == -np.inf:
                up[s] = -np.inf
                row[:] = -np.inf if maximise else 0.0
            elif maximise:
                up[s] = top
                row -= top
            else:
                total = 0.0
                for r in range(R):
                    row[r] = np.exp(row[r] - top)
                    total += row[r]
                up[s] = top + np.log(total)
                row /= total
        top = up.max()
        if top == -np.inf:
            return -np.inf
        log_z += top
        up -= top
    return log_z


@jit
def distribute(tree: TreeArrays, tables: FloatArray, marginal: FloatArray) -> None:
    """Roots to leaves: the marginals of all inputs, from the conditionals."""
    marginal[:] = 0.0
    scratch = np.empty(tree.block.max() if len(tree.block) else 0)
    for c in range(len(tree.columns) - 1, -1, -1):
        R, B = tree.columns[c], tree.block[c]
        start, stop = tree.table_ptr[c], tree.table_ptr[c + 1]
        at = tree.message[c]
        if tree.parent[c] < 0:
            marginal[at] = 1.0
        b = scratch[:B]
        for h in range((stop - start) // B):
            t = tables[start + h * B : start + (h + 1) * B]
            if R == 2 and B >= 2:
                first = at + h * B // 2
                for s in range(B // 2):
                    p = marginal[first + s]
                    b[2 * s] = t[2 * s] * p
                    b[2 * s + 1] = t[2 * s + 1] * p
            else:
                for j in range(B):
                    b[j] = t[j] * marginal[at + (h * B + j) // R]
            for i in range(tree.input_ptr[c], tree.input_ptr[c + 1]):
                to = tree.source[i] + tree.high[tree.high_ptr[i] + h]
                if tree.straight[i]:
                    m = marginal[to : to + B]
                    for j in range(B):
                        m[j] += b[j]
                else:
                    low = tree.low[tree.low_ptr[i] : tree.low_ptr[i] + B]
                    for j in range(B):
                        marginal[to + low[j]] += b[j]


@jit
def core_beliefs(tree: TreeArrays, marginal: FloatArray, beliefs: FloatArray) -> None:
    """From marginals of the cores to beliefs laid out like θ."""
    beliefs[:] = 0.0
    for e in range(len(tree.term_ptr) - 1):
        for k in range(tree.term_ptr[e], tree.term_ptr[e + 1]):
            beliefs[tree.term[k]] += marginal[e]


@jit
def calibrate(
    tree: TreeArrays, theta: FloatArray, tables: FloatArray, buffer: FloatArray, beliefs: FloatArray
) -> float:
    """log Z and all beliefs: plain numbers first, logs where those underflow. One call, as calls cost microseconds.

    Leaves the conditionals in ``tables`` and the marginals of all inputs in ``buffer``.
    """
    log_z = partition(tree, theta, tables, buffer)
    if log_z > -np.inf:
        distribute(tree, tables, buffer)
        core_beliefs(tree, buffer, beliefs)
    return log_z


@jit
def partition(tree: TreeArrays, theta: FloatArray, tables: FloatArray, buffer: FloatArray) -> float:
    """log Z alone."""
    log_z, safe = collect(tree, theta, tables, buffer)
    return log_z if safe else collect_log(tree, theta, tables, buffer, False)


@jit
def calibrate_many(
    tree: TreeArrays, thetas: FloatArray, first: int, last: int, log_z: FloatArray, beliefs: FloatArray
) -> None:
    """The rows first … last of log Z, (S,), and of the beliefs, (S, T) or (0, T) for none, at potentials (S, T)."""
    tables, buffer = np.empty(tree.table_ptr[-1]), np.empty(tree.buffer_size)
    for s in range(first, last):
        if len(beliefs):
            log_z[s] = calibrate(tree, thetas[s], tables, buffer, beliefs[s])
        else:
            log_z[s] = partition(tree, thetas[s], tables, buffer)


@jit
def tangent(
    tree: TreeArrays,
    tables: FloatArray,
    marginal: FloatArray,
    direction: FloatArray,
    out: FloatArray,
) -> None:
    """Derivative of all beliefs along D directions of θ at once: out = Cov · direction, both (T, D).

    Up: υ[s] = Σ_r p(r|s) τ[s,r], the expected perturbation of the subtree given the separator, where τ sums the
    inputs' perturbations. Down: an entry's belief b changes by b·(τ − υ[s] + β[s]), β the change of log marginal of
    the row, known from the parent.
    """
    D = direction.shape[1]
    score = np.zeros((tree.buffer_size, D))
    change = np.zeros((tree.buffer_size, D))
    for e in range(len(tree.term_ptr) - 1):
        for k in range(tree.term_ptr[e], tree.term_ptr[e + 1]):
            score[e] += direction[tree.term[k]]
    tau = np.empty(D)
    for c in range(len(tree.columns)):
        R, B = tree.columns[c], tree.block[c]
        for e in range(tree.table_ptr[c + 1] - tree.table_ptr[c]):
            p = tables[tree.table_ptr[c] + e]
            if p > 0.0:
                row = tree.message[c] + e // R
                for i in range(tree.input_ptr[c], tree.input_ptr[c + 1]):
                    at = _position(tree, i, e, B)
                    for d in range(D):
                        score[row, d] += p * score[at, d]
    for c in range(len(tree.columns) - 1, -1, -1):
        R, B = tree.columns[c], tree.block[c]
        rows = (tree.table_ptr[c + 1] - tree.table_ptr[c]) // R
        for row in range(tree.message[c], tree.message[c] + rows):
            scale = 1.0 / marginal[row] if marginal[row] > TINY and tree.parent[c] >= 0 else 0.0
            for d in range(D):
                change[row, d] = change[row, d] * scale - score[row, d]
        for e in range(tree.table_ptr[c + 1] - tree.table_ptr[c]):
            row = tree.message[c] + e // R
            b = tables[tree.table_ptr[c] + e] * marginal[row]
            if b > 0.0:
                tau[:] = change[row]
                for i in range(tree.input_ptr[c], tree.input_ptr[c + 1]):
                    at = _position(tree, i, e, B)
                    for d in range(D):
                        tau[d] += score[at, d]
                for d in range(D):
                    tau[d] *= b
                for i in range(tree.input_ptr[c], tree.input_ptr[c + 1]):
                    at = _position(tree, i, e, B)
                    for d in range(D):
                        change[at, d] += tau[d]
    out[:] = 0.0
    for e in range(len(tree.term_ptr) - 1):
        for k in range(tree.term_ptr[e], tree.term_ptr[e + 1]):
            out[tree.term[k]] += change[e]


@jit
def tangent_sum(tree: TreeArrays, thetas: FloatArray, direction: FloatArray, total: FloatArray) -> bool:
    """Σ_s Cov_s · direction at potentials (S, T), added to total, (T, D). False where a state is not possible."""
    tables, buffer = np.empty(tree.table_ptr[-1]), np.empty(tree.buffer_size)
    beliefs, moved = np.empty(thetas.shape[1]), np.empty_like(direction)
    for s in range(len(thetas)):
        if calibrate(tree, thetas[s], tables, buffer, beliefs) == -np.inf:
            return False
        tangent(tree, tables, buffer, direction, moved)
        total += moved
    return True


@jit
def _position(tree: TreeArrays, i: int, e: int, B: int) -> int:
    """Where entry e of a clique's table meets input i in the buffer."""
    return tree.source[i] + tree.high[tree.high_ptr[i] + e // B] + tree.low[tree.low_ptr[i] + e % B]


@jit
def _row(tree: TreeArrays, c: int, x: IntArray) -> int:
    row = 0
    for k in range(tree.separator_ptr[c], tree.separator_ptr[c + 1]):
        row += x[tree.separator[k]] * tree.separator_stride[k]
    return row


@jit
def _assign(tree: TreeArrays, c: int, column: int, x: IntArray) -> None:
    for k in range(tree.residual_ptr[c], tree.residual_ptr[c + 1]):
        x[tree.residual[k]] = column // tree.residual_stride[k] % tree.residual_size[k]


@jit
def draw(tree: TreeArrays, tables: FloatArray, uniforms: FloatArray, states: IntArray) -> None:
    """Exact samples, roots to leaves: each clique's columns given its separator. uniforms (N, C), states (N, n)."""
    for sample in range(len(states)):
        x = states[sample]
        for c in range(len(tree.columns) - 1, -1, -1):
            R = tree.columns[c]
            start = tree.table_ptr[c] + _row(tree, c, x) * R
            left = uniforms[sample, c]
            column = 0
            last = 0
            for r in range(R):
                p = tables[start + r]
                if p > 0.0:
                    last = r
                    if left < p:
                        break
                    left -= p
            column = last
            _assign(tree, c, column, x)


@jit
def decode(tree: TreeArrays, tables: FloatArray, x: IntArray) -> None:
    """The most probable state, from the log-ratios that collect_log leaves with ``maximise``."""
    for c in range(len(tree.columns) - 1, -1, -1):
        R = tree.columns[c]
        start = tree.table_ptr[c] + _row(tree, c, x) * R
        _assign(tree, c, int(np.argmax(tables[start : start + R])), x)
