"""The clamped phase: one graph for each case, over what is hidden in it.

log p(observed part of x_n | λ) = log Z_n(λ) − log Z(λ), where Z_n sums over the hidden variables of case n alone.
Tables all of whose variables are observed are constants and are counted; those with one hidden variable add to its own
table; the rest become factors of a disjoint union of all cases. What stands in the union is linear in θ, hence in λ: a
design of its own. Cases that are alike share their places: one that occurs 5 times stands in the union that counts
once and in that which counts 4 times, so that Σ_n log Z_n is a sum over a few phases, of weights 1, 2, 4, …, of the
weight times the log Z of a union.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from bayesfield.graph.compiled import CompiledField, Design
from bayesfield.graph.structure import Graph, graph_arrays, offsets, unique_rows
from bayesfield.types import FloatArray, GraphArrays, IntArray

_PAIRS = 10_000_000  # (case, factor) pairs that are looked at together


@dataclass(frozen=True, eq=False)
class Phase:
    """A union of graphs, each of which stands for ``weight`` cases.

    cells: (n, 2) for every variable of the union the row of the data (the first of those alike) and the column.
    """

    graph: Graph
    design: Design
    weight: float
    cells: IntArray


@dataclass(frozen=True, eq=False)
class Clamped:
    """Cases with holes. counts: (T,) how often tables that are observed whole take each entry. phases: the rest.

    first: (N,) for every case the first that is like it. often: (N,) how many are.
    """

    counts: FloatArray
    phases: tuple[Phase, ...]
    first: IntArray
    often: IntArray


def clamp(field: CompiledField, codes: IntArray, weights: FloatArray | None = None) -> Clamped:
    """codes: (N, n) positions in the states, −1 where hidden. weights: (N,) what each case counts for, by default 1.

    With weights there is a phase for every weight that cases alike add up to.
    """
    found = np.unique(codes, axis=0, return_index=True, return_inverse=True, return_counts=True)
    distinct, where, inverse, often = found
    counts = np.zeros(field.graph.n_entries)
    phases = []
    holes, back = np.any(distinct < 0, axis=1), inverse.reshape(-1)
    total = None if weights is None else np.bincount(back, weights, minlength=len(distinct)).astype(np.float64)
    for weight, some in _groups(often, total):
        union = _Union(field.graph.arrays, distinct[some])
        counts += weight * union.counts
        if np.any(holes[some]):
            cells = np.stack([where[some[union.cells[:, 0]]], union.cells[:, 1]], axis=1)
            phases.append(Phase(*union.compiled(field.design), weight, cells))
    return Clamped(counts, tuple(phases), where[back], often[back])


def _groups(often: IntArray, total: FloatArray | None) -> list[tuple[float, IntArray]]:
    """Cases that count alike: by the bits of how often they occur, or by their weights."""
    if total is not None:
        return [(float(w), np.flatnonzero(total == w)) for w in np.unique(total) if w > 0]
    bits = range(int(often.max(initial=0)).bit_length())
    return [(2.0**bit, np.flatnonzero(often >> bit & 1)) for bit in bits]


class _Tables(NamedTuple):
    """Tables of one shape: a variable's own, or a factor's."""

    start: IntArray  # (m,) first entry in θ
    scopes: IntArray  # (m, d) variables
    strides: IntArray  # (m, d)
    shape: tuple[int, ...]


class _Reduced(NamedTuple):
    """What is left of tables some of whose variables are hidden."""

    scopes: IntArray  # (r, h) variables of the union
    entries: IntArray  # (r, size) the entry of θ that each entry of the smaller table is


class _Union:
    """The union of some cases' hidden parts, and the count of what is not hidden in them."""

    def __init__(self, g: GraphArrays, codes: IntArray) -> None:
        self._codes, self._cardinality = codes, g.cardinality
        self.cells = np.argwhere(codes < 0)
        self._number = np.full(codes.shape, -1, dtype=np.int64)
        self._number[codes < 0] = np.arange(len(self.cells))
        self.counts = np.zeros(int(g.table_ptr[-1]))
        self._reduced: list[_Reduced] = []
        for tables in _by_shape(g):
            step = max(1, _PAIRS // len(tables.start))
            for first in range(0, len(codes), step):
                self._reduce(tables, first, first + step)

    def compiled(self, design: Design) -> tuple[Graph, Design]:
        """The union as a graph, with the design that fills its tables."""
        empty = np.empty(0, dtype=np.int64)
        scopes: list[IntArray] = []
        table_of: dict[int, IntArray] = {}  # by scope size
        for h in sorted({r.scopes.shape[1] for r in self._reduced} - {1}):
            stacked = np.concatenate([r.scopes for r in self._reduced if r.scopes.shape[1] == h])
            unique, inverse = unique_rows(stacked, len(self.cells))
            table_of[h] = sum(len(s) for s in scopes) + inverse
            scopes.append(unique)
        degree = np.concatenate([empty, *(np.full(len(s), s.shape[1]) for s in scopes)])
        flat = np.concatenate([empty, *(s.ravel() for s in scopes)])
        union = graph_arrays(self._cardinality[self.cells[:, 1]], offsets(degree), flat)
        move = self._move(union, table_of)
        matrix = sparse.csr_array(move @ design.matrix)
        return Graph(union), Design(matrix, sparse.csr_array(matrix.T), move @ design.offset)

    def _reduce(self, tables: _Tables, first: int, last: int) -> None:
        """Tables by which of their variables are hidden, in some of the cases."""
        codes = self._codes[first:last][:, tables.scopes]  # (cases, m, d)
        d = len(tables.shape)
        pattern = (codes < 0) @ (1 << np.arange(d))
        for bits in np.unique(pattern):
            case, table = np.nonzero(pattern == bits)
            axes = [a for a in range(d) if bits >> a & 1]
            seen = np.where(codes[case, table] < 0, 0, codes[case, table])
            entries = (tables.start[table] + (seen * tables.strides[table]).sum(axis=1))[:, None]
            for a in axes:
                steps = tables.strides[table, a][:, None] * np.arange(tables.shape[a])
                entries = (entries[:, :, None] + steps[:, None, :]).reshape(len(table), -1)
            if axes:
                scopes = self._number[first + case[:, None], tables.scopes[table][:, axes]]
                self._reduced.append(_Reduced(scopes, entries))
            else:
                self.counts += np.bincount(entries[:, 0], minlength=len(self.counts))

    def _move(self, union: GraphArrays, table_of: dict[int, IntArray]) -> sparse.csr_array[Any, tuple[int, int]]:
        """(T of the union, T): which entries of θ add up to each entry of the union's tables."""
        rows, columns = [], []
        taken = dict.fromkeys(table_of, 0)
        for scopes, entries in self._reduced:
            h = scopes.shape[1]
            if h == 1:
                start = union.node_ptr[scopes[:, 0]]
            else:
                start = union.table_ptr[table_of[h][taken[h] : taken[h] + len(scopes)]]
                taken[h] += len(scopes)
            rows.append((start[:, None] + np.arange(entries.shape[1])).ravel())
            columns.append(entries.ravel())
        where = (np.concatenate(rows), np.concatenate(columns))
        shape = (int(union.table_ptr[-1]), len(self.counts))
        return sparse.csr_array((np.ones(len(where[0])), where), shape=shape)


def _by_shape(g: GraphArrays) -> Iterator[_Tables]:
    """All tables, those of one shape together."""
    for size in np.unique(g.cardinality):
        own = np.flatnonzero(g.cardinality == size)
        yield _Tables(g.node_ptr[own], own[:, None], np.ones((len(own), 1), dtype=np.int64), (int(size),))
    degree = np.diff(g.scope_ptr)
    for d in np.unique(degree):
        factors = np.flatnonzero(degree == d)
        slots = g.scope_ptr[factors][:, None] + np.arange(d)
        shapes, which = np.unique(g.cardinality[g.scope[slots]], axis=0, return_inverse=True)
        for k, shape in enumerate(shapes):
            own = which.reshape(-1) == k
            yield _Tables(
                g.table_ptr[factors[own]], g.scope[slots[own]], g.stride[slots[own]], tuple(int(s) for s in shape)
            )
