"""Where the Cholesky factor of a sparse matrix has entries, and how its work is shared; the values do not matter.

The order of elimination is SuperLU's minimum degree. Parts of the elimination tree that know nothing of one another are
tasks, which threads take; what is above them follows.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from bayesfield import parallel
from bayesfield.kernels.cholesky import supernodes
from bayesfield.kernels.cholesky.supernodal import BLOCK, STRIP, Fronts
from bayesfield.types import Cost, IntArray

_TASKS = 24  # parts of the tree, about, that threads take one after the other
_LITTLE = 1e-3  # beside a diagonal of ones
_OWN_COST = 3000.0  # of a front beside its arithmetic, in the same units


class Walk(NamedTuple):
    """Supernodes in postorder, ~s for those of other walks that it goes on from."""

    nodes: IntArray
    factor_stack: int  # numbers that stand on the stack at once
    inverse_stack: int
    scratch: int


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where a symmetric matrix's factor has entries, and how the work is shared.

    position: (n,) of every row in the order of elimination. source: (entries,) which of the given entries each of the
    sorted ones is. tasks: walks that know nothing of one another. top: what is left above them.
    """

    position: IntArray
    source: IntArray
    fronts: Fronts
    tasks: list[Walk]
    top: Walk
    kept_ptr: IntArray
    kept: int

    @property
    def n(self) -> int:
        return len(self.position)

    @property
    def numbers(self) -> int:
        """In the factor, with the zeros that the blocks hold."""
        return int(self.fronts.value_ptr[-1])

    @property
    def cost(self) -> Cost:
        """Of a factor and its inverse."""
        own = [w.scratch + max(w.factor_stack, w.inverse_stack) for w in (self.top, *self.tasks)]
        beside = max(own[0], sum(sorted(own[1:])[-parallel.cores() :])) + self.kept
        return Cost(self.numbers, 8 * (self.numbers + beside), f"{self.numbers:,} numbers and fronts beside them")


def analyse(rows: IntArray, columns: IntArray, n: int) -> Pattern:
    """The pattern of a matrix with the entries (rows, columns) and their mirror images: each pair once, no gaps in the
    diagonal."""
    position = _minimum_degree(rows, columns, n)
    low, high = supernodes.ends(position, rows, columns)
    order = supernodes.postorder(supernodes.elimination_tree(*supernodes.left_of_diagonal(low, high, n), n))
    renumbered = np.empty(n, dtype=np.int64)
    renumbered[order] = np.arange(n)
    position = renumbered[position]
    low, high = supernodes.ends(position, rows, columns)
    by_row = supernodes.left_of_diagonal(low, high, n)
    parent = supernodes.elimination_tree(*by_row, n)
    count = supernodes.column_counts(*by_row, parent)
    column_ptr, source = supernodes.grouped(low, n)
    fronts = _fronts(parent, count, column_ptr, high[source])
    return _shared_out(position, source, fronts)


def _minimum_degree(rows: IntArray, columns: IntArray, n: int) -> IntArray:
    """SuperLU's order, without its factor: all but the diagonal is too small to be kept."""
    ptr, column, value = supernodes.both_sides(rows, columns, n, _LITTLE)
    matrix = sparse.csc_array((value, column, ptr), shape=(n, n))
    loose = {"SymmetricMode": True}
    found = sparse.linalg.spilu(matrix, 1.0, 1.0, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=loose)
    result: IntArray = found.perm_c.astype(np.int64)
    return result


def _fronts(parent: IntArray, count: IntArray, column_ptr: IntArray, row: IntArray) -> Fronts:
    first = supernodes.partition(parent, count)
    above = supernodes.tree_of(first, parent)
    wide, below = np.diff(first), count[first[1:] - 1] - 1
    row_ptr, value_ptr = (np.concatenate([[0], np.cumsum(sizes)]) for sizes in (below, wide * (wide + below)))
    rows = supernodes.row_lists(first, above, column_ptr, row, row_ptr)
    within = supernodes.relative_rows(first, above, row_ptr, rows)
    place = supernodes.entry_places(first, row_ptr, rows, value_ptr, column_ptr, row)
    return Fronts(first, above, row_ptr, rows, within, value_ptr, column_ptr[first], place)


def _shared_out(position: IntArray, source: IntArray, f: Fronts) -> Pattern:
    wide, below = np.diff(f.first), np.diff(f.row_ptr)
    cost = wide * (wide + below).astype(np.float64) ** 2 + _OWN_COST
    size, total = supernodes.subtrees(f.above, cost)
    roots = supernodes.cut(f.above, total, total[f.above < 0].sum() / _TASKS)
    kept_ptr = np.full(len(wide), -1, dtype=np.int64)
    kept_ptr[roots] = np.cumsum(below[roots] ** 2) - below[roots] ** 2
    tasks = [_walk(f, np.arange(r - size[r] + 1, r + 1), kept_ptr) for r in roots[np.argsort(-total[roots])]]
    inside = np.zeros(len(wide) + 1, dtype=np.int64)
    np.add.at(inside, roots - size[roots] + 1, 1)
    np.add.at(inside, roots + 1, -1)
    top = np.flatnonzero(np.cumsum(inside[:-1]) == 0)
    nodes = np.concatenate([top, roots])
    nodes = np.where(np.isin(nodes, roots), ~nodes, nodes)[np.argsort(nodes)]
    return Pattern(position, source, f, tasks, _walk(f, nodes, kept_ptr), kept_ptr, int((below[roots] ** 2).sum()))


def _walk(f: Fronts, nodes: IntArray, kept_ptr: IntArray) -> Walk:
    own = nodes[nodes >= 0]
    wide, below = (np.diff(f.first)[own], np.diff(f.row_ptr)[own]) if len(own) else (np.zeros(1), np.zeros(1))
    height = wide + below
    products = np.maximum(wide, STRIP) * (BLOCK + height) + BLOCK * height  # see supernodal._take_off
    scratch = int(max(products.max(), (height**2 + 2 * wide * height).max()))
    up, down = supernodes.stack_sizes(f.first, f.above, f.row_ptr, nodes, kept_ptr)
    return Walk(nodes, up, down, scratch)
