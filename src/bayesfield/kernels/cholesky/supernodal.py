"""Cholesky factor, solves and selected inverse of a sparse matrix by dense blocks: one front for every supernode.

A front spans a supernode's columns J, |J| = wide, and the rows R below them. Its panel holds the columns of L_JJ and
L_RJ one after the other, (wide, wide + |R|) with L_ij at [j, i]; what stands left of the diagonal means nothing.

*Factor*, from the leaves (Duff & Reid 1983): the panel is the matrix's own entries plus what the children pass up;
after its columns are eliminated, A_RR − L_RJ L_RJᵀ goes to the parent. Upper triangles, by rows.
*Inverse*, from the roots: with Z = (L Lᵀ)⁻¹ known on the parent's front, hence on R,

    Y = L_RJ L_JJ⁻¹,   Z_RJ = −Z_RR Y,   Z_JJ = L_JJ⁻ᵀ L_JJ⁻¹ − Yᵀ Z_RJ

Fronts follow one another on a stack, as the tree is walked in postorder or back; those that other walks need are kept.
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, IntArray

_PLAIN = 2048  # numbers in a panel up to which plain loops do as well as BLAS
STRIP = 48  # columns that are eliminated one by one, before the rest follow at once
BLOCK = 128  # rows of an update that one product makes
# What is that small beside the diagonal is zero: the inverse falls off with distance on the graph, and numbers that
# underflow cost a processor a hundred times as much as others.
_NOTHING = 1e-120


class Fronts(NamedTuple):
    """The supernodes of a matrix, in postorder."""

    first: IntArray  # (m+1,) their first columns, and n
    above: IntArray  # (m,) their parents, −1 for roots
    row_ptr: IntArray  # (m+1,)
    rows: np.ndarray  # int32: the rows below each
    within: np.ndarray  # int32: where these stand in the parent's front
    value_ptr: IntArray  # (m+1,) where each panel starts
    entry_ptr: IntArray  # (m+1,) the matrix's entries in each panel
    place: IntArray  # (entries,) where each stands among the values


@jit
def factorise(
    f: Fronts,
    nodes: IntArray,
    kept_ptr: IntArray,
    kept: FloatArray,
    data: FloatArray,
    values: FloatArray,
    stack: FloatArray,
    scratch: FloatArray,
) -> int:
    """Factors the fronts of ``nodes``, in postorder, into values. Returns a node whose pivot is not positive, or −1.

    nodes: ~s for one that another walk has factorised. kept_ptr: (m,) where the update of a front is kept for another
    walk, −1 where it goes on the stack. data: the matrix's entries.
    """
    waiting = np.empty(len(nodes), dtype=np.int64)  # nodes whose parents have not come yet
    count, top = 0, 0
    for s in nodes:
        if s < 0:
            waiting[count] = ~s
            count += 1
            continue
        wide, below = f.first[s + 1] - f.first[s], f.row_ptr[s + 1] - f.row_ptr[s]
        panel = values[f.value_ptr[s] : f.value_ptr[s + 1]]
        panel[:] = 0.0
        for e in range(f.entry_ptr[s], f.entry_ptr[s + 1]):
            panel[f.place[e] - f.value_ptr[s]] += data[e]
        target = kept if kept_ptr[s] >= 0 else stack
        start = kept_ptr[s] if kept_ptr[s] >= 0 else top
        update = target[start : start + below * below]
        update[:] = 0.0
        base = top
        while count and f.above[waiting[count - 1]] == s:
            count -= 1
            t = waiting[count]
            size = f.row_ptr[t + 1] - f.row_ptr[t]
            if kept_ptr[t] < 0:
                base -= size * size
            source = stack if kept_ptr[t] < 0 else kept
            begin = base if kept_ptr[t] < 0 else kept_ptr[t]
            _add(
                f.within[f.row_ptr[t] : f.row_ptr[t + 1]],
                source[begin : begin + size * size],
                wide,
                below,
                panel,
                update,
            )
        if not _eliminate(panel.reshape(wide, wide + below), wide, update.reshape(below, below), scratch):
            return s
        top = base
        if kept_ptr[s] < 0:
            for k in range(below * below):  # down to where the children's were
                stack[base + k] = update[k]
            top += below * below
        waiting[count] = s
        count += 1
    return -1


@jit
def _add(within: np.ndarray, passed: FloatArray, wide: int, below: int, panel: FloatArray, update: FloatArray) -> None:
    """A child's update, its upper triangle by rows, to its parent's front."""
    size = len(within)
    for a in range(size):
        i = within[a]
        row = passed[a * size : (a + 1) * size]
        if i < wide:
            at = i * (wide + below)
            for b in range(a, size):
                panel[at + within[b]] += row[b]
        else:
            at = (i - wide) * below - wide
            for b in range(a, size):
                update[at + within[b]] += row[b]


@jit
def _eliminate(panel: FloatArray, wide: int, update: FloatArray, scratch: FloatArray) -> bool:
    """Factors a panel in place and takes L_RJ L_RJᵀ off the update; False where a pivot is not positive."""
    height = panel.shape[1]
    for start in range(0, wide, STRIP):
        stop = min(start + STRIP, wide)
        for k in range(start, stop):
            pivot = panel[k, k]
            if not pivot > 0.0:
                return False
            scale = 1.0 / np.sqrt(pivot)
            least = _NOTHING * np.sqrt(pivot)
            for i in range(k, height):
                value = panel[k, i] * scale
                panel[k, i] = value if abs(value) > least else 0.0
            for j in range(k + 1, stop):
                weight = panel[k, j]
                for i in range(j, height):
                    panel[j, i] -= weight * panel[k, i]
        if stop < wide:
            _take_off(panel[start:stop], stop, wide, panel, 0, scratch)
    if height > wide:
        _take_off(panel, wide, height, update, wide, scratch)
    return True


@jit
def _take_off(strip: FloatArray, first: int, last: int, target: FloatArray, offset: int, scratch: FloatArray) -> None:
    """target[j − offset, i − offset] −= Σ_k strip[k, j] strip[k, i] for first ≤ j < last and i ≥ j."""
    depth, height = strip.shape
    if depth <= 4 or depth * (height - first) < _PLAIN:
        for k in range(depth):
            for j in range(first, last):
                weight = strip[k, j]
                for i in range(j, height):
                    target[j - offset, i - offset] -= weight * strip[k, i]
        return
    for low in range(first, last, BLOCK):
        size, rest = min(BLOCK, last - low), height - low
        left = scratch[: depth * size].reshape(depth, size)
        right = scratch[depth * size : depth * (size + rest)].reshape(depth, rest)
        product = scratch[depth * (size + rest) : depth * (size + rest) + size * rest].reshape(size, rest)
        left[:, :] = strip[:, low : low + size]
        right[:, :] = strip[:, low:]
        np.dot(left.T, right, product)
        for j in range(size):
            for i in range(j, rest):
                target[low + j - offset, low + i - offset] -= product[j, i]


@jit
def forward(f: Fronts, values: FloatArray, x: FloatArray) -> None:
    """x ← L⁻¹ x, (n,)."""
    inside = np.empty(len(x))
    for s in range(len(f.above)):
        start, wide, below = f.first[s], f.first[s + 1] - f.first[s], f.row_ptr[s + 1] - f.row_ptr[s]
        rows, panel = f.rows[f.row_ptr[s] : f.row_ptr[s + 1]], values[f.value_ptr[s] : f.value_ptr[s + 1]]
        inside[:below] = 0.0
        for k in range(wide):
            column = panel[k * (wide + below) : (k + 1) * (wide + below)]
            known = x[start + k] / column[k]
            x[start + k] = known
            for i in range(k + 1, wide):
                x[start + i] -= known * column[i]
            for i in range(below):
                inside[i] += known * column[wide + i]
        for i in range(below):
            x[rows[i]] -= inside[i]


@jit
def backward(f: Fronts, values: FloatArray, x: FloatArray) -> None:
    """x ← L⁻ᵀ x, (n,)."""
    inside = np.empty(len(x))
    for s in range(len(f.above) - 1, -1, -1):
        start, wide, below = f.first[s], f.first[s + 1] - f.first[s], f.row_ptr[s + 1] - f.row_ptr[s]
        rows, panel = f.rows[f.row_ptr[s] : f.row_ptr[s + 1]], values[f.value_ptr[s] : f.value_ptr[s + 1]]
        for i in range(below):
            inside[i] = x[rows[i]]
        for k in range(wide - 1, -1, -1):
            column = panel[k * (wide + below) : (k + 1) * (wide + below)]
            total = x[start + k]
            for i in range(k + 1, wide):
                total -= column[i] * x[start + i]
            for i in range(below):
                total -= column[wide + i] * inside[i]
            x[start + k] = total / column[k]


@jit
def product(f: Fronts, values: FloatArray, z: FloatArray, out: FloatArray) -> None:
    """out ← L z, (n,)."""
    out[:] = 0.0
    inside = np.empty(len(z))
    for s in range(len(f.above)):
        start, wide, below = f.first[s], f.first[s + 1] - f.first[s], f.row_ptr[s + 1] - f.row_ptr[s]
        rows, panel = f.rows[f.row_ptr[s] : f.row_ptr[s + 1]], values[f.value_ptr[s] : f.value_ptr[s + 1]]
        inside[:below] = 0.0
        for k in range(wide):
            column = panel[k * (wide + below) : (k + 1) * (wide + below)]
            for i in range(k, wide):
                out[start + i] += column[i] * z[start + k]
            for i in range(below):
                inside[i] += column[wide + i] * z[start + k]
        for i in range(below):
            out[rows[i]] += inside[i]


@jit
def log_diagonal(f: Fronts, values: FloatArray) -> float:
    """Σ log L_jj."""
    total = 0.0
    for s in range(len(f.above)):
        wide, below = f.first[s + 1] - f.first[s], f.row_ptr[s + 1] - f.row_ptr[s]
        for k in range(wide):
            total += np.log(values[f.value_ptr[s] + k * (wide + below) + k])
    return total


@jit
def invert(
    f: Fronts,
    nodes: IntArray,
    kept_ptr: IntArray,
    kept: FloatArray,
    values: FloatArray,
    stack: FloatArray,
    scratch: FloatArray,
    out: FloatArray,
) -> None:
    """out_e = Z_ij of every entry e of the matrix in the fronts of ``nodes``, which come from the roots down.

    nodes: ~s for one that another walk will go on from: its Z_RR is kept.
    """
    waiting = np.empty(len(nodes) + 1, dtype=np.int64)
    begins = np.empty(len(nodes) + 1, dtype=np.int64)
    count, top = 0, 0
    for coded in nodes:
        s = coded if coded >= 0 else ~coded
        wide, below = f.first[s + 1] - f.first[s], f.row_ptr[s + 1] - f.row_ptr[s]
        height = wide + below
        while count and waiting[count - 1] != f.above[s]:
            count -= 1
            top = begins[count]
        within = f.within[f.row_ptr[s] : f.row_ptr[s + 1]]
        known = scratch[: below * below]
        if kept_ptr[s] >= 0:
            known = kept[kept_ptr[s] : kept_ptr[s] + below * below]
        if count and below:
            p = waiting[count - 1]
            full = f.first[p + 1] - f.first[p] + f.row_ptr[p + 1] - f.row_ptr[p]
            _gather(within, stack[begins[count - 1] : begins[count - 1] + full * full], full, known)
        if coded < 0:
            continue
        front = stack[top : top + height * height].reshape(height, height)
        panel = values[f.value_ptr[s] : f.value_ptr[s + 1]].reshape(wide, height)
        _front_inverse(panel, known.reshape(below, below), front, scratch[below * below :])
        for e in range(f.entry_ptr[s], f.entry_ptr[s + 1]):
            out[e] = stack[top + f.place[e] - f.value_ptr[s]]
        waiting[count], begins[count] = s, top
        count += 1
        top += height * height


@jit
def _gather(within: np.ndarray, front: FloatArray, height: int, out: FloatArray) -> None:
    """The parent's Z at a front's own rows."""
    size = len(within)
    for a in range(size):
        row = front[within[a] * height : (within[a] + 1) * height]
        for b in range(size):
            out[a * size + b] = row[within[b]]


@jit
def _front_inverse(panel: FloatArray, known: FloatArray, front: FloatArray, scratch: FloatArray) -> None:
    """Z on a front, from its panel of L and Z_RR."""
    wide, height = panel.shape
    below = height - wide
    back = scratch[: wide * wide].reshape(wide, wide)  # L_JJ⁻¹
    across = scratch[wide * wide : wide * height].reshape(wide, below)  # Yᵀ
    reach = scratch[wide * height : wide * height + wide * below].reshape(wide, below)  # Z_JR
    rest = scratch[wide * height + wide * below :]
    _triangular_inverse(panel, back, rest)
    if wide * height < _PLAIN:
        _small_front(panel, known, back, across, reach, front)
    else:
        _large_front(panel, known, back, across, reach, front, rest)
    for k in range(wide):
        least = _NOTHING * front[k, k]
        for a in range(below):
            value = reach[k, a] if abs(reach[k, a]) > least else 0.0
            front[k, wide + a] = value
            front[wide + a, k] = value
    for a in range(below):
        for b in range(below):
            front[wide + a, wide + b] = known[a, b]


@jit
def _triangular_inverse(panel: FloatArray, back: FloatArray, scratch: FloatArray) -> None:
    """L_JJ⁻¹ by rows: row i is (e_i − Σ_{j<i} L_ij row j) / L_ii, where j of strips before come by one product."""
    wide = len(back)
    back[:, :] = 0.0
    for start in range(0, wide, STRIP):
        stop = min(start + STRIP, wide)
        size = stop - start
        if start:
            left = scratch[: start * size].reshape(start, size)
            product = scratch[start * size : start * size + size * wide].reshape(size, wide)
            left[:, :] = -panel[:start, start:stop]
            np.dot(left.T, back[:start], product)
            back[start:stop] = product
        for i in range(start, stop):
            for j in range(start, i):
                weight = panel[j, i]
                for k in range(j + 1):
                    back[i, k] -= weight * back[j, k]
            scale = 1.0 / panel[i, i]
            for k in range(i):
                value = back[i, k] * scale
                back[i, k] = value if abs(value) > _NOTHING * scale else 0.0
            back[i, i] = scale


@jit
def _small_front(
    panel: FloatArray,
    known: FloatArray,
    back: FloatArray,
    across: FloatArray,
    reach: FloatArray,
    front: FloatArray,
) -> None:
    wide, below = across.shape
    across[:, :] = 0.0
    reach[:, :] = 0.0
    for k in range(wide):
        for j in range(k, wide):
            weight = back[j, k]
            for a in range(below):
                across[k, a] += weight * panel[j, wide + a]
        for a in range(below):
            weight = across[k, a]
            for b in range(below):
                reach[k, b] -= weight * known[a, b]
    for k in range(wide):
        for j in range(k, wide):
            total = 0.0
            for i in range(j, wide):
                total += back[i, k] * back[i, j]
            for a in range(below):
                total -= across[k, a] * reach[j, a]
            front[k, j] = total
            front[j, k] = total


@jit
def _large_front(
    panel: FloatArray,
    known: FloatArray,
    back: FloatArray,
    across: FloatArray,
    reach: FloatArray,
    front: FloatArray,
    scratch: FloatArray,
) -> None:
    wide, below = across.shape
    own = scratch[: wide * wide].reshape(wide, wide)
    np.dot(back.T, back, own)
    front[:wide, :wide] = own
    if below:
        reach[:, :] = -panel[:, wide:]
        np.dot(back.T, reach, across)  # −Yᵀ
        np.dot(across, known, reach)
        np.dot(across, reach.T, own)
        front[:wide, :wide] += own
