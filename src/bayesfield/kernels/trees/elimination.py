"""Elimination orders and the cliques they make. Vertices are the variables with more than one state."""

import numpy as np

from bayesfield.kernels.jit import jit, popcount
from bayesfield.types import FloatArray, IntArray

MIN_FILL, MIN_DEGREE, MIN_WEIGHT, WEIGHTED_FILL = 0, 1, 2, 3


@jit
def bit_rows(neighbour_ptr: IntArray, neighbours: IntArray) -> np.ndarray:
    """Adjacency as one row of bits a vertex: (n, ⌈n/64⌉)."""
    n = len(neighbour_ptr) - 1
    rows = np.zeros((n, (n + 63) // 64), dtype=np.uint64)
    for v in range(n):
        for k in range(neighbour_ptr[v], neighbour_ptr[v + 1]):
            u = neighbours[k]
            rows[v, u >> 6] |= np.uint64(1) << np.uint64(u & 63)
    return rows


@jit
def _members(row: np.ndarray, out: IntArray) -> int:
    """Positions of the bits set in a row; returns how many."""
    count = 0
    for w in range(len(row)):
        word = row[w]
        base = w * 64
        while word:
            low = word & (~word + np.uint64(1))
            out[count] = base + popcount(low - np.uint64(1))
            count += 1
            word ^= low
    return count


@jit
def _score(rows: np.ndarray, v: int, log_size: FloatArray, heuristic: int, members: IntArray) -> float:
    """The cost of eliminating v now: fill edges, neighbours, or table size, by heuristic."""
    count = _members(rows[v], members)
    if heuristic == 1:
        return float(count)
    if heuristic == 2:
        total = log_size[v]
        for k in range(count):
            total += log_size[members[k]]
        return total
    fill = 0.0
    for k in range(count):
        u = members[k]
        for w in range(rows.shape[1]):
            lacking = rows[v, w] & ~rows[u, w]
            if heuristic == 0:
                fill += popcount(lacking)
            else:
                while lacking:
                    low = lacking & (~lacking + np.uint64(1))
                    fill += log_size[u] + log_size[w * 64 + popcount(low - np.uint64(1))]
                    lacking ^= low
    return fill - (count if heuristic == 0 else 0.0)


@jit
def greedy_order(
    bits: np.ndarray, log_size: FloatArray, heuristic: int, jitter: FloatArray, limit: float
) -> tuple[IntArray, float]:
    """Eliminate the cheapest vertex next; ties go by ``jitter``. Returns the order and Σ clique sizes.

    Gives up, returning infinity, once the sum passes ``limit``.
    """
    n = len(bits)
    rows = bits.copy()
    order = np.empty(n, dtype=np.int64)
    alive = np.ones(n, dtype=np.bool_)
    scores = np.empty(n)
    stale = np.ones(n, dtype=np.bool_)
    members = np.empty(n + 1, dtype=np.int64)
    around = np.empty(n + 1, dtype=np.int64)
    total = 0.0
    for step in range(n):
        best = -1
        for v in range(n):
            if alive[v]:
                if stale[v]:
                    scores[v] = _score(rows, v, log_size, heuristic, members)
                    stale[v] = False
                if best < 0 or scores[v] < scores[best] or (scores[v] == scores[best] and jitter[v] < jitter[best]):
                    best = v
        order[step] = best
        alive[best] = False
        count = _members(rows[best], members)
        log_clique = log_size[best]
        for k in range(count):
            log_clique += log_size[members[k]]
        total += np.exp(log_clique)
        if total > limit:
            return order, np.inf
        own = np.uint64(1) << np.uint64(best & 63)
        for k in range(count):
            u = members[k]
            for w in range(rows.shape[1]):  # as an array expression, two more
                rows[u, w] |= rows[best, w]
            rows[u, u >> 6] &= ~(np.uint64(1) << np.uint64(u & 63))
            rows[u, best >> 6] &= ~own
        for k in range(count):
            stale[members[k]] = True
            if heuristic == 0 or heuristic == 3:
                beyond = _members(rows[members[k]], around)
                for j in range(beyond):
                    stale[around[j]] = True
    return order, total


@jit
def cliques(
    order: IntArray, neighbour_ptr: IntArray, neighbours: IntArray, log_size: FloatArray, limit: float
) -> tuple[IntArray, IntArray, float]:
    """The clique of each elimination step, in positions of the order: (pointer, members), descending, own step last.

    Step p's clique is {p}, its neighbours that are eliminated later, and what its children pass on. The third value
    is Σ clique sizes, infinite (and the rest unusable) once it passes ``limit``.
    """
    n = len(order)
    position = np.empty(n, dtype=np.int64)
    for p in range(n):
        position[order[p]] = p
    ptr = np.zeros(n + 1, dtype=np.int64)
    members = np.empty(max(4 * n, 16), dtype=np.int64)
    first_child = np.full(n, -1, dtype=np.int64)
    next_child = np.full(n, -1, dtype=np.int64)
    mark = np.full(n, -1, dtype=np.int64)
    gathered = np.empty(n, dtype=np.int64)
    total = 0.0
    for p in range(n):
        count = 0
        mark[p] = p
        for k in range(neighbour_ptr[order[p]], neighbour_ptr[order[p] + 1]):
            q = position[neighbours[k]]
            if q > p and mark[q] != p:
                mark[q] = p
                gathered[count] = q
                count += 1
        child = first_child[p]
        while child >= 0:
            for k in range(ptr[child], ptr[child + 1] - 1):
                q = members[k]
                if mark[q] != p:
                    mark[q] = p
                    gathered[count] = q
                    count += 1
            child = next_child[child]
        log_clique = log_size[order[p]]
        for k in range(count):
            log_clique += log_size[order[gathered[k]]]
        total += np.exp(log_clique)
        if total > limit:
            return ptr, members, np.inf
        start = ptr[p]
        if start + count + 1 > len(members):
            grown = np.empty(2 * len(members) + count + 1, dtype=np.int64)
            for k in range(start):  # a slice set to a slice costs two seconds of compilation
                grown[k] = members[k]
            members = grown
        for k in range(count):  # by insertion: few, and NumPy's sort would take a second to compile
            at = start + k
            while at > start and members[at - 1] < gathered[k]:
                members[at] = members[at - 1]
                at -= 1
            members[at] = gathered[k]
        members[start + count] = p
        ptr[p + 1] = start + count + 1
        if count:
            parent = members[start + count - 1]
            next_child[p] = first_child[parent]
            first_child[parent] = p
    return ptr, members[: ptr[n]].copy(), total


@jit
def absorb(ptr: IntArray, members: IntArray) -> tuple[IntArray, IntArray]:
    """Drop cliques that lie inside a child's: returns for each step the step that holds it, and its parent's step.

    A parent of exactly one variable less than its child is a subset of it. The merged clique is known by its last
    (highest) step, so that children still come before parents.
    """
    n = len(ptr) - 1
    widest = np.arange(n)  # the step whose clique stands for this one
    host = np.arange(n)  # the step under which the merged clique is known
    parent = np.full(n, -1, dtype=np.int64)
    for p in range(n):
        size = ptr[p + 1] - ptr[p]
        if size > 1:
            parent[p] = members[ptr[p + 1] - 2]
            q = parent[p]
            if widest[q] == q and ptr[q + 1] - ptr[q] == size - 1:
                widest[q] = widest[p]
    for p in range(n - 1, -1, -1):
        q = parent[p]
        if q >= 0 and widest[q] == widest[p]:
            host[p] = host[q]
    return widest, host
