"""Where the Cholesky factor of a sparse symmetric matrix has entries, in columns that share a pattern: supernodes.

A matrix comes as its lower triangle in the order of elimination: entries (row ≥ column) by columns, rows ascending. The
parent of a column is the first row below it in the factor; a supernode's columns follow one another, each the parent of
the one before, with the same rows below them all. Supernodes whose merger adds few zeros are merged (Ashcraft & Grimes
1989), because dense blocks are what processors are fast at.
"""

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import IntArray


@jit
def ends(position: IntArray, rows: IntArray, columns: IntArray) -> tuple[np.ndarray, np.ndarray]:
    """Of every entry the end that is eliminated first, and the other."""
    low, high = np.empty(len(rows), dtype=np.int32), np.empty(len(rows), dtype=np.int32)
    for e in range(len(rows)):
        i, j = position[rows[e]], position[columns[e]]
        low[e], high[e] = min(i, j), max(i, j)
    return low, high


@jit
def grouped(key: np.ndarray, n: int) -> tuple[IntArray, IntArray]:
    """Entries in the order of their keys 0, …, n − 1, and where each key's begin."""
    ptr = np.zeros(n + 1, dtype=np.int64)
    for e in range(len(key)):
        ptr[key[e] + 1] += 1
    for k in range(n):
        ptr[k + 1] += ptr[k]
    filled, order = ptr[:-1].copy(), np.empty(len(key), dtype=np.int64)
    for e in range(len(key)):
        order[filled[key[e]]] = e
        filled[key[e]] += 1
    return ptr, order


@jit
def left_of_diagonal(low: np.ndarray, high: np.ndarray, n: int) -> tuple[IntArray, np.ndarray]:
    """By rows, the columns left of the diagonal."""
    ptr = np.zeros(n + 1, dtype=np.int64)
    for e in range(len(low)):
        if low[e] != high[e]:
            ptr[high[e] + 1] += 1
    for k in range(n):
        ptr[k + 1] += ptr[k]
    filled, column = ptr[:-1].copy(), np.empty(ptr[n], dtype=np.int32)
    for e in range(len(low)):
        if low[e] != high[e]:
            column[filled[high[e]]] = low[e]
            filled[high[e]] += 1
    return ptr, column


@jit
def both_sides(rows: IntArray, columns: IntArray, n: int, off: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A symmetric matrix by rows, with ones on the diagonal and ``off`` elsewhere."""
    ptr = np.zeros(n + 1, dtype=np.int32)
    for i in range(n):
        ptr[i + 1] = 1
    for e in range(len(rows)):
        if rows[e] != columns[e]:
            ptr[rows[e] + 1] += 1
            ptr[columns[e] + 1] += 1
    for i in range(n):
        ptr[i + 1] += ptr[i]
    filled = ptr[:-1].copy()
    column, value = np.empty(ptr[n], dtype=np.int32), np.empty(ptr[n])
    for i in range(n):
        column[filled[i]], value[filled[i]] = i, 1.0
        filled[i] += 1
    for e in range(len(rows)):
        if rows[e] != columns[e]:
            for i, j in ((rows[e], columns[e]), (columns[e], rows[e])):
                column[filled[i]], value[filled[i]] = j, off
                filled[i] += 1
    return ptr, column, value


@jit
def elimination_tree(ptr: IntArray, row: np.ndarray, n: int) -> IntArray:
    """The parent of every column, −1 for roots (Liu 1990). ptr, row: by rows, the columns left of the diagonal."""
    parent = np.full(n, -1, dtype=np.int64)
    above = np.full(n, -1, dtype=np.int64)  # a shortcut towards the root
    for i in range(n):
        for e in range(ptr[i], ptr[i + 1]):
            k = np.int64(row[e])
            while k != -1 and k < i:
                further = above[k]
                above[k] = i
                if further == -1:
                    parent[k] = i
                k = further
    return parent


@jit
def postorder(parent: IntArray) -> IntArray:
    """The columns, every one after all below it in the tree."""
    n = len(parent)
    first = np.full(n, -1, dtype=np.int64)
    following = np.full(n, -1, dtype=np.int64)
    for k in range(n - 1, -1, -1):
        if parent[k] >= 0:
            following[k] = first[parent[k]]
            first[parent[k]] = k
    order = np.empty(n, dtype=np.int64)
    stack = np.empty(n, dtype=np.int64)
    done = 0
    for root in range(n):
        if parent[root] >= 0:
            continue
        stack[0], top = root, 1
        while top:
            k = stack[top - 1]
            if first[k] >= 0:
                stack[top] = first[k]
                first[k] = following[first[k]]
                top += 1
            else:
                order[done] = k
                done += 1
                top -= 1
    return order


@jit
def column_counts(ptr: IntArray, row: np.ndarray, parent: IntArray) -> IntArray:
    """Entries of every column of the factor, the diagonal among them. ptr, row: by rows, left of the diagonal."""
    n = len(parent)
    count = np.ones(n, dtype=np.int64)
    seen = np.full(n, -1, dtype=np.int64)
    for i in range(n):
        seen[i] = i
        for e in range(ptr[i], ptr[i + 1]):
            k = np.int64(row[e])
            while seen[k] != i:  # up the tree: all these columns have an entry in row i
                seen[k] = i
                count[k] += 1
                k = parent[k]
    return count


@jit
def partition(parent: IntArray, count: IntArray) -> IntArray:
    """First column of every supernode, and n: supernodes in postorder, merged where that adds few zeros."""
    n = len(parent)
    first = np.empty(n + 1, dtype=np.int64)
    zeros = np.zeros(n, dtype=np.int64)
    m = 0  # supernodes so far; first[m - 1] is where the last one begins
    for j in range(n):
        if j and parent[j - 1] == j and count[j - 1] == count[j] + 1 and m:
            pass  # the same rows
        else:
            first[m], zeros[m] = j, 0
            m += 1
        ends = j + 1 == n or not (parent[j] == j + 1 and count[j] == count[j + 1] + 1)
        while ends and m > 1:  # merge with the one before, if this one is its parent
            start, begin = first[m - 2], first[m - 1]
            if not begin <= parent[begin - 1] <= j:
                break
            wide = j + 1 - start
            height = wide + count[j] - 1
            all_of_it = wide * height - wide * (wide - 1) // 2
            added = zeros[m - 2] + zeros[m - 1]
            added += (begin - start) * (j + count[j] - (begin - 1) - count[begin - 1])
            if not _worth_it(wide, added, all_of_it):
                break
            m -= 1
            zeros[m - 1] = added
    first[m] = n
    return first[: m + 1].copy()


@jit
def _worth_it(wide: int, zeros: int, entries: int) -> bool:
    """Whether a supernode of so many columns may hold so many zeros."""
    share = zeros / entries
    return wide <= 4 or (wide <= 16 and share < 0.6) or (wide <= 48 and share < 0.15) or share < 0.05


@jit
def tree_of(first: IntArray, parent: IntArray) -> IntArray:
    """The parent of every supernode."""
    m = len(first) - 1
    owner = np.empty(first[m], dtype=np.int64)
    for s in range(m):
        owner[first[s] : first[s + 1]] = s
    out = np.empty(m, dtype=np.int64)
    for s in range(m):
        above = parent[first[s + 1] - 1]
        out[s] = owner[above] if above >= 0 else -1
    return out


@jit
def row_lists(first: IntArray, above: IntArray, ptr: IntArray, row: np.ndarray, row_ptr: IntArray) -> np.ndarray:
    """The rows below every supernode's columns, ascending. ptr, row: by columns, the diagonal and below."""
    m = len(first) - 1
    out = np.empty(row_ptr[m], dtype=np.int32)
    mark = np.full(first[m], -1, dtype=np.int64)
    child = np.full(m, -1, dtype=np.int64)  # one of them, and from each the next
    following = np.full(m, -1, dtype=np.int64)
    for s in range(m):
        last, filled = first[s + 1], row_ptr[s]
        for e in range(ptr[first[s]], ptr[last]):
            i = row[e]
            if i >= last and mark[i] != s:
                mark[i] = s
                out[filled] = i
                filled += 1
        t = child[s]
        while t >= 0:
            for k in range(row_ptr[t], row_ptr[t + 1]):
                i = out[k]
                if i >= last and mark[i] != s:
                    mark[i] = s
                    out[filled] = i
                    filled += 1
            t = following[t]
        out[row_ptr[s] : filled].sort()
        if above[s] >= 0:
            following[s] = child[above[s]]
            child[above[s]] = s
    return out


@jit
def relative_rows(first: IntArray, above: IntArray, row_ptr: IntArray, rows: np.ndarray) -> np.ndarray:
    """Where every supernode's rows stand in its parent's front: its columns, then its rows."""
    out = np.empty(len(rows), dtype=np.int32)
    for s in range(len(above)):
        p = above[s]
        if p < 0:
            continue
        wide = first[p + 1] - first[p]
        at = row_ptr[p]
        for k in range(row_ptr[s], row_ptr[s + 1]):
            if rows[k] < first[p + 1]:
                out[k] = rows[k] - first[p]
            else:
                while rows[at] != rows[k]:
                    at += 1
                out[k] = wide + at - row_ptr[p]
    return out


@jit
def entry_places(
    first: IntArray, row_ptr: IntArray, rows: np.ndarray, value_ptr: IntArray, ptr: IntArray, row: np.ndarray
) -> IntArray:
    """Where the matrix's entries, by columns, stand among the values of all supernodes' panels."""
    out = np.empty(len(row), dtype=np.int64)
    place = np.zeros(first[-1], dtype=np.int64)
    for s in range(len(first) - 1):
        wide = first[s + 1] - first[s]
        height = wide + row_ptr[s + 1] - row_ptr[s]
        for k in range(wide):
            place[first[s] + k] = k
        for k in range(row_ptr[s], row_ptr[s + 1]):
            place[rows[k]] = wide + k - row_ptr[s]
        for j in range(first[s], first[s + 1]):
            for e in range(ptr[j], ptr[j + 1]):
                out[e] = value_ptr[s] + (j - first[s]) * height + place[row[e]]
    return out


@jit
def subtrees(above: IntArray, cost: np.ndarray) -> tuple[IntArray, np.ndarray]:
    """How many supernodes are at and below each, and what they cost together."""
    size, total = np.ones(len(above), dtype=np.int64), cost.copy()
    for s in range(len(above)):
        if above[s] >= 0:
            size[above[s]] += size[s]
            total[above[s]] += total[s]
    return size, total


@jit
def cut(above: IntArray, total: np.ndarray, most: float) -> IntArray:
    """Supernodes under which no subtree costs more than ``most``, while those above them do; ascending."""
    m = len(above)
    out = np.empty(m, dtype=np.int64)
    count = 0
    for s in range(m):
        if total[s] <= most and (above[s] < 0 or total[above[s]] > most):
            out[count] = s
            count += 1
    return out[:count].copy()


@jit
def stack_sizes(
    first: IntArray, above: IntArray, row_ptr: IntArray, nodes: IntArray, kept_ptr: IntArray
) -> tuple[int, int]:
    """Numbers on the stack at most, in a walk up (see supernodal.factorise) and in one down (supernodal.invert)."""
    waiting = np.empty(len(nodes) + 1, dtype=np.int64)
    count, top, up = 0, 0, 0
    for s in nodes:
        if s >= 0:
            size = (row_ptr[s + 1] - row_ptr[s]) ** 2 if kept_ptr[s] < 0 else 0
            up = max(up, top + size)
            while count and above[waiting[count - 1]] == s:
                count -= 1
                t = waiting[count]
                top -= (row_ptr[t + 1] - row_ptr[t]) ** 2 if kept_ptr[t] < 0 else 0
            top += size
        waiting[count] = s if s >= 0 else ~s
        count += 1
    begins = np.zeros(len(nodes) + 1, dtype=np.int64)
    count, top, down = 0, 0, 0
    for k in range(len(nodes) - 1, -1, -1):
        s = nodes[k]
        if s < 0:
            continue
        while count and waiting[count - 1] != above[s]:
            count -= 1
            top = begins[count]
        waiting[count], begins[count] = s, top
        count += 1
        top += (first[s + 1] - first[s] + row_ptr[s + 1] - row_ptr[s]) ** 2
        down = max(down, top)
    return up, down
