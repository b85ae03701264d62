"""Linear response on the Bethe approximation of fields whose parameters each belong to one table.

The same numbers as response.linear, table by table in one pass instead of by products of sparse matrices: of the
minute that a million sites took, nine tenths were these products, and on 25 sites they are as slow. The pattern of Ω
and S and its analysis are kept with the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse

from bayesfield import parallel
from bayesfield.graph.structure import Graph, offsets, unique_rows
from bayesfield.kernels import local as kernel
from bayesfield.kernels.local import LocalArrays, Rows
from bayesfield.response.factors.cholesky import Cholesky
from bayesfield.response.factors.factor import DenseFactor, Factor
from bayesfield.response.factors.pattern import analyse
from bayesfield.response.indicators import IMPOSSIBLE, Sparse
from bayesfield.response.linear import LinearResponse, SingularFactor, System, bethe_response
from bayesfield.types import FloatArray, GraphArrays, IndefiniteCurvature, IntArray, Outcome

if TYPE_CHECKING:
    from bayesfield.graph.compiled import Design

_DENSE = 1200  # coordinates up to which a dense Cholesky factor is faster than a sparse one
_PARTS = 2  # that tables are worked through in
_KEPT = 1e8  # bytes of Ω's factor up to which it is kept: widths do without it, samples do not
_PARAMETERS = 64  # of a table, at most: the plain loops here are cubic in them


class Skeleton(NamedTuple):
    """What the graph and the design say about the response, without the beliefs."""

    arrays: LocalArrays
    rows: IntArray  # (entries,) of the lower triangle of Ω and S
    columns: IntArray
    own_ptr: IntArray  # (F+1,) the rows of B and M⁻¹ …
    own_column: IntArray
    slope_ptr: IntArray  # (F+1,) … and of R and W
    slope_column: IntArray

    @property
    def size(self) -> int:
        return int(self.arrays.coordinate_ptr[-1])


class LocalResponse(LinearResponse):
    """With private, slopes and Ω in the layout of a skeleton. entries: of Ω."""

    def __init__(
        self,
        graph: Graph,
        design: Design,
        skeleton: Skeleton,
        private: FloatArray,
        slopes: FloatArray,
        entries: FloatArray,
        beliefs: FloatArray,
    ) -> None:
        self._graph, self._skeleton, self._entries, self._beliefs = graph, skeleton, entries, beliefs
        super().__init__(design, self._own_matrix(private), self._slope_matrix(slopes))
        if isinstance(self.factor, Cholesky) and 8 * self.factor.pattern.numbers > _KEPT:
            del self.factor  # tried, and made again if it is asked for

    @cached_property
    def factor(self) -> Factor:
        return self._factorise(self._entries)

    def _factorise(self, entries: FloatArray) -> Cholesky | DenseFactor:
        s = self._skeleton
        if s.size > _DENSE:
            return Cholesky(self._graph.plan("factor", lambda _: analyse(s.rows, s.columns, s.size)), entries)
        dense = np.zeros((s.size, s.size))
        dense[s.rows, s.columns] = entries
        dense[s.columns, s.rows] = entries
        return DenseFactor(dense)

    @cached_property
    def omega(self) -> Sparse:
        s = self._skeleton
        off = s.rows != s.columns
        at = np.concatenate([s.rows, s.columns[off]]), np.concatenate([s.columns, s.rows[off]])
        values = np.concatenate([self._entries, self._entries[off]])
        return sparse.csc_array((values, at), shape=(s.size, s.size))

    def second_derivatives(self, directions: FloatArray) -> FloatArray | None:
        """By sparse products, which are made where they are asked for; not for large fields."""
        if self._skeleton.size > _DENSE:
            return None
        return bethe_response(self._graph, self.design, self._beliefs).second_derivatives(directions)

    def system(self, weight: float, ridge: FloatArray) -> System:
        s, g = self._skeleton, self._graph.arrays
        private, slopes = Rows(s.own_ptr, self.private.data), Rows(s.slope_ptr, self.slopes.data)
        inverse, shares, entries = np.empty(len(private.data)), np.empty(len(slopes.data)), self._entries / weight

        def part(tables: tuple[int, int], sums: FloatArray) -> bool:
            return kernel.local_system(g, s.arrays, private, slopes, weight, ridge, inverse, shares, sums, tables)

        if not _in_parts(part, len(s.arrays.par_ptr) - 1, entries):
            raise IndefiniteCurvature(Outcome.INDEFINITE.value)
        joint = self._factorise(entries)
        W = self._slope_matrix(shares)

        def forms() -> FloatArray:
            if isinstance(joint, DenseFactor):
                return joint.inverse_forms(W)
            out = np.empty(len(ridge))
            kernel.local_forms(g, s.arrays, slopes, shares, joint.inverse_entries(), out)
            return out

        return System(self._own_matrix(inverse), W, joint, forms)

    def _own_matrix(self, data: FloatArray) -> Sparse:
        s = self._skeleton
        size = len(s.own_ptr) - 1
        return sparse.csr_array((data, s.own_column, s.own_ptr), shape=(size, size))

    def _slope_matrix(self, data: FloatArray) -> Sparse:
        s = self._skeleton
        return sparse.csr_array((data, s.slope_column, s.slope_ptr), shape=(len(s.own_ptr) - 1, s.size))


def local_response(graph: Graph, design: Design, beliefs: FloatArray) -> LocalResponse | None:
    """None where parameters are shared between tables, or some states cannot occur."""
    g = graph.arrays
    n_node = int(g.node_ptr[-1])
    if not (beliefs[:n_node] > IMPOSSIBLE).all():
        return None
    known = graph.plans.get("skeleton")
    if known is None or known[0] is not design:
        known = graph.plans["skeleton"] = design, _skeleton(g, design)
    skeleton: Skeleton | None = known[1]
    if skeleton is None:
        return None
    s, A = skeleton, design.transpose
    reference = kernel.references(g, beliefs)
    private, slopes = np.zeros(len(s.own_column)), np.empty(len(s.slope_column))
    entries = np.zeros(len(s.rows))
    features = A.indptr, A.indices, A.data
    by_row = Rows(s.own_ptr, private), Rows(s.slope_ptr, slopes)

    def part(factors: tuple[int, int], sums: FloatArray) -> bool:
        return kernel.local_moments(g, s.arrays, reference, *features, beliefs, *by_row, sums, factors)

    if not _in_parts(part, len(g.table_ptr) - 1, entries):
        raise SingularFactor
    kernel.node_moments(g, s.arrays, reference, *features, beliefs, by_row[1], entries)
    return LocalResponse(graph, design, skeleton, private, slopes, entries, beliefs)


def _in_parts(call: Callable[[tuple[int, int], FloatArray], bool], count: int, entries: FloatArray) -> bool:
    """call(range, sums) for parts of a range, each with sums of its own that are then added to the entries.

    Always as many parts, so that the sums are the same on any number of cores; where they are little work, one.
    """
    parts = parallel.shares(0, count, always=_PARTS, least=50_000)
    own = [np.zeros_like(entries) for _ in parts[1:]]
    done = parallel.thread_map(lambda k: call(parts[k], own[k - 1] if k else entries), range(len(parts)))
    for sums in own:
        entries += sums
    return all(done)


def _skeleton(g: GraphArrays, design: Design) -> Skeleton | None:
    home = _homes(g, design)
    if home is None:
        return None
    n, F = len(g.cardinality), len(home)
    par = np.argsort(home, kind="stable")
    par_ptr = offsets(np.bincount(home, minlength=n + len(g.table_ptr) - 1))
    free = g.cardinality - 1
    coordinate_ptr, block_ptr = offsets(free), offsets(free * (free + 1) // 2)
    first, second, link_ptr, link_of = _links(g, n)
    link_start = int(block_ptr[-1]) + offsets(free[first] * free[second])[:-1]
    arrays = LocalArrays(par_ptr, par, coordinate_ptr, block_ptr, link_ptr, link_start[link_of])
    rows, columns = (_short(ends) for ends in _entries(free, coordinate_ptr, first, second))
    wide = np.concatenate([free, kernel.factor_widths(g)])
    own_ptr, slope_ptr = _short(offsets(np.diff(par_ptr)[home])), _short(offsets(wide[home]))
    own_column, slope_column = np.empty(own_ptr[-1], dtype=np.int32), np.empty(slope_ptr[-1], dtype=np.int32)
    kernel.row_columns(g, arrays, own_ptr, slope_ptr, own_column, slope_column)
    if F and np.diff(par_ptr).max() > _PARAMETERS:
        return None
    return Skeleton(arrays, rows, columns, own_ptr, own_column, slope_ptr, slope_column)


def _homes(g: GraphArrays, design: Design) -> IntArray | None:
    """The one table, variables first, that each parameter belongs to; None where one belongs to several or to none."""
    A = design.transpose
    if (np.diff(A.indptr) == 0).any():
        return None
    starts = np.concatenate([g.node_ptr[:-1], g.table_ptr[:-1]])
    low, high = kernel.row_ranges(A.indptr, A.indices)
    home = np.searchsorted(starts, low, side="right") - 1
    return home if np.array_equal(home, np.searchsorted(starts, high, side="right") - 1) else None


def _links(g: GraphArrays, n: int) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Pairs of variables that share factors (both ends), and for every factor's pairs of slots which of them it is."""
    degree = np.diff(g.scope_ptr)
    link_ptr = offsets(degree * (degree - 1) // 2)
    ends = np.empty((link_ptr[-1], 2), dtype=np.int64)
    kernel.slot_pairs(g, link_ptr, ends)
    if (degree == 2).all():
        return ends[:, 0], ends[:, 1], link_ptr, np.arange(len(ends))
    distinct, which = unique_rows(ends, n)
    return distinct[:, 0], distinct[:, 1], link_ptr, which


def _entries(free: IntArray, start: IntArray, first: IntArray, second: IntArray) -> tuple[IntArray, IntArray]:
    """Rows and columns of the entries, in the order of kernels.local."""
    rows, columns = [], []
    x, y = _block(free, free, triangle=True)
    owner = np.repeat(np.arange(len(free)), free * (free + 1) // 2)
    rows.append(start[owner] + x)
    columns.append(start[owner] + y)
    x, y = _block(free[first], free[second], triangle=False)
    pair = np.repeat(np.arange(len(first)), free[first] * free[second])
    rows.append(start[first[pair]] + x)
    columns.append(start[second[pair]] + y)
    return np.concatenate(rows), np.concatenate(columns)


def _block(high: IntArray, wide: IntArray, triangle: bool) -> tuple[IntArray, IntArray]:
    """Row and column of the entries of blocks (high, wide), one block after the other."""
    sizes = high * (high + 1) // 2 if triangle else high * wide
    within = np.arange(int(sizes.sum())) - np.repeat(offsets(sizes)[:-1], sizes)
    if not triangle:
        width = np.repeat(wide, sizes)
        return within // width, within % width
    row = ((np.sqrt(8 * within + 1) - 1) // 2).astype(np.int64)
    return row, within - row * (row + 1) // 2


def _short(numbers: IntArray) -> IntArray:
    """In 32 bits where that is enough: these lists are what a large field has most of."""
    return numbers.astype(np.int32) if numbers.max(initial=0) < 2**31 else numbers
