"""A field compiled to flat arrays: the factor graph that engines see, and the design θ = θ₀ + Aλ, E[f] = Aᵀb.

Factors over the same variables share one table. Bethe's approximation is the better for it (a doubled edge is no
loop), and exact inference does not care.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayesfield import parallel
from bayesfield.kernels import tables as kernel
from bayesfield.model import FactorBlock, RandomField
from bayesfield.model.field import block_shape
from bayesfield.types import FloatArray, GraphArrays, IntArray, InvalidInput

Plan = TypeVar("Plan")
_ROWS = 4096  # of features that one thread fills at a time


@dataclass(frozen=True, eq=False)
class Graph:
    """The structure of a factor graph. Engines keep what they derive from it alone (a junction tree) in ``plans``."""

    arrays: GraphArrays
    plans: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def n_entries(self) -> int:
        """T, the length of θ and of the stacked beliefs."""
        return int(self.arrays.table_ptr[-1])

    @property
    def binary_pairs(self) -> bool:
        """Whether every variable has two states and every factor two variables."""
        return self.plan(
            "binary pairs", lambda g: bool((g.cardinality == 2).all() and (np.diff(g.scope_ptr) == 2).all())
        )

    def plan(self, key: Any, make: Callable[[GraphArrays], Plan]) -> Plan:
        """What ``make`` derives from the structure, kept for the next call."""
        if key not in self.plans:
            self.plans[key] = make(self.arrays)
        result: Plan = self.plans[key]
        return result


@dataclass(frozen=True, eq=False)
class Design:
    """θ = θ₀ + Aλ and its transpose E[f] = Aᵀb, side by side.

    matrix: A, (T, F) sparse. transpose: Aᵀ, (F, T) sparse. offset: θ₀, (T,). constant: a term of the energy that
    depends on no variable; it enters log Z only.
    """

    matrix: "sparse.csr_array[Any, tuple[int, int]]"
    transpose: "sparse.csr_array[Any, tuple[int, int]]"
    offset: FloatArray
    constant: float = 0.0

    def potentials(self, parameters: FloatArray) -> FloatArray:
        result = self.offset.copy()
        A = self.matrix
        kernel.sparse_product(A.indptr, A.indices, A.data, parameters, result)
        return result

    def expectations(self, tables: FloatArray) -> FloatArray:
        result = np.zeros(self.transpose.shape[0])
        A = self.transpose
        kernel.sparse_product(A.indptr, A.indices, A.data, tables, result)
        return result


@dataclass(frozen=True, eq=False)
class CompiledField:
    """graph and design of a field, and for each of its factors the number of the table that holds it."""

    graph: Graph
    design: Design
    factor_table: IntArray  # (n_factors,): −1−i for the table of variable i, a for factor a, n + m for none


def compiled(random_field: RandomField) -> CompiledField:
    """The field's arrays; made once and kept with the field."""
    known = random_field.__dict__.get("_compiled")
    if known is None:
        known = _compile(random_field)
        random_field.__dict__["_compiled"] = known
    result: CompiledField = known
    return result


def pair_graph(cardinality: IntArray, pairs: IntArray) -> Graph:
    """A graph of pairwise factors in the given order, (m, 2), each pair ascending."""
    cards = np.ascontiguousarray(cardinality, dtype=np.int64)
    return Graph(
        _graph_arrays(cards, 2 * np.arange(len(pairs) + 1), np.ascontiguousarray(pairs, dtype=np.int64).ravel())
    )


def as_parameters(random_field: RandomField, parameters: Any) -> FloatArray:
    """λ as a checked (F,) vector."""
    vector = np.ascontiguousarray(parameters, dtype=np.float64)
    if vector.shape != (random_field.n_parameters,):
        raise InvalidInput(
            f"parameters need shape ({random_field.n_parameters},), one number for each of field.parameter_names; "
            f"got {vector.shape}"
        )
    if not np.isfinite(vector).all():
        raise InvalidInput("parameters must be finite; forbid states with −inf in a factor's log_table instead")
    return vector


@dataclass(frozen=True, eq=False)
class Conditioned:
    """A graph with some variables fixed: they keep one state each. θ' = θ[entries] and b[entries] = b'."""

    graph: Graph
    entries: IntArray

    def restore(self, tables: FloatArray, size: int) -> FloatArray:
        """Beliefs of the conditioned graph in the layout of the full one; what was ruled out has belief zero."""
        full = np.zeros(size)
        full[self.entries] = tables
        return full


def table_entries(g: GraphArrays, codes: IntArray) -> IntArray:
    """(N, n + m) the entry of θ that each joint state (N, n) takes in each table: variables, then factors."""
    out = np.empty((len(codes), len(g.cardinality) + len(g.table_ptr) - 1), dtype=np.int64)
    kernel.entries(g, codes, out)
    return out


def counts(graph: Graph, codes: IntArray | NDArray[np.int32]) -> FloatArray:
    """How often the cases (N, n) take each entry of each table: (T,)."""
    total = np.zeros(graph.n_entries)
    kernel.count_entries(graph.arrays, codes, total)
    return total


def features(graph: Graph, design: Design, codes: IntArray | NDArray[np.int32]) -> FloatArray:
    """f(x) of the joint states (N, n): (N, F)."""
    out = np.zeros((len(codes), design.matrix.shape[1]))
    A = design.matrix

    def part(rows: slice) -> None:
        kernel.sum_features(graph.arrays, A.indptr, A.indices, A.data, codes[rows], out[rows])

    parallel.thread_map(part, [slice(k, k + _ROWS) for k in range(0, len(codes), _ROWS)])
    return out


def local_variances(graph: Graph, design: Design, beliefs: FloatArray) -> FloatArray:
    """Variance of every feature, (F,), as if different tables knew nothing of one another."""
    g, A = graph.arrays, design.matrix
    sizes = np.concatenate([g.cardinality, np.diff(g.table_ptr)])
    owner = np.repeat(np.arange(len(sizes)), sizes)
    inside = sparse.csr_array((beliefs, (owner, np.arange(len(owner)))), shape=(len(sizes), len(owner)))
    means = inside @ A  # (tables, F)
    result: FloatArray = A.power(2).T @ beliefs - means.power(2).sum(axis=0)
    return np.maximum(result, 0.0)


def condition(graph: Graph, evidence: Mapping[int, int]) -> Conditioned:
    """Fix variables to states (numbers of both). Fixed variables add nothing to the size of any table."""
    a = graph.arrays
    n = len(a.cardinality)
    lowest = np.zeros(n, dtype=np.int64)
    cardinality = a.cardinality.copy()
    for variable, state in evidence.items():
        if not 0 <= variable < n:
            raise InvalidInput(f"evidence names variable {variable}; the model has the variables 0 to {n - 1}")
        if not 0 <= state < a.cardinality[variable]:
            raise InvalidInput(
                f"evidence puts variable {variable} in state {state}; it has {a.cardinality[variable]} states, from 0"
            )
        lowest[variable], cardinality[variable] = state, 1
    reduced = _graph_arrays(cardinality, a.scope_ptr, a.scope)
    entries = [a.node_ptr[i] + lowest[i] + np.arange(cardinality[i]) for i in range(n)]
    for f in range(len(a.table_ptr) - 1):
        members = slice(a.scope_ptr[f], a.scope_ptr[f + 1])
        index = np.array(a.table_ptr[f])
        for variable, stride in zip(a.scope[members], a.stride[members], strict=True):
            index = np.add.outer(index, stride * (lowest[variable] + np.arange(cardinality[variable])))
        entries.append(index.ravel())
    flat = np.concatenate(entries) if entries else np.empty(0, dtype=np.int64)
    return Conditioned(Graph(reduced), flat)


# --- compilation --------------------------------------------------------------------------------------------------


def _compile(random_field: RandomField) -> CompiledField:
    cardinality = random_field.cardinalities
    scopes, block_tables = _distinct_scopes(random_field.blocks, len(cardinality))
    empty = np.empty(0, dtype=np.int64)
    degree = np.concatenate([empty, *(np.full(len(s), s.shape[1]) for s in scopes)])
    scope = np.concatenate([empty, *(s.ravel() for s in scopes)])
    arrays = _graph_arrays(cardinality, _offsets(degree), scope)
    constant = sum(float(b.log_table) for b in random_field.blocks if b.log_table is not None and b.log_table.ndim == 0)
    design = _design(arrays, random_field, block_tables, constant)
    return CompiledField(Graph(arrays), design, np.concatenate([empty, *block_tables]))


def _distinct_scopes(blocks: Any, n: int) -> tuple[list[IntArray], list[IntArray]]:
    """Scopes of two or more variables without repetition, by size and then sorted; and the table of every factor."""
    block_tables: list[IntArray] = [np.empty(0, dtype=np.int64)] * len(blocks)
    sizes = sorted({b.scopes.shape[1] for b in blocks if b.scopes.shape[1] >= 2})
    distinct: list[IntArray] = []
    first = 0
    for d in sizes:
        members = [k for k, b in enumerate(blocks) if b.scopes.shape[1] == d]
        stacked = np.concatenate([blocks[k].scopes for k in members])
        unique, inverse = _unique_rows(stacked, n)
        starts = np.cumsum([0] + [len(blocks[k].scopes) for k in members])
        for k, start, stop in zip(members, starts[:-1], starts[1:], strict=True):
            block_tables[k] = first + inverse[start:stop]
        distinct.append(unique)
        first += len(unique)
    for k, b in enumerate(blocks):
        if b.scopes.shape[1] == 1:
            block_tables[k] = -1 - b.scopes[:, 0]
        elif b.scopes.shape[1] == 0:
            block_tables[k] = np.full(len(b.scopes), n + first, dtype=np.int64)
    return distinct, block_tables


def _unique_rows(rows: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """np.unique over rows; by one integer key a row where that fits, which is some thirty times faster."""
    if float(n) ** rows.shape[1] >= 2.0**62:
        unique, inverse = np.unique(rows, axis=0, return_inverse=True)
        return unique, inverse.reshape(-1)
    keys = np.zeros(len(rows), dtype=np.int64)
    for axis in range(rows.shape[1]):
        keys = keys * n + rows[:, axis]
    if (np.diff(keys) > 0).all():
        return rows, np.arange(len(rows))
    _, where, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return rows[where], inverse.reshape(-1)


def _graph_arrays(cardinality: IntArray, scope_ptr: IntArray, scope: IntArray) -> GraphArrays:
    n, m, slots = len(cardinality), len(scope_ptr) - 1, len(scope)
    node_ptr = _offsets(cardinality)
    slot_factor = np.repeat(np.arange(m, dtype=np.int64), np.diff(scope_ptr))
    sizes = cardinality[scope]
    stride, table_sizes = _strides(sizes, scope_ptr)
    by_variable = np.argsort(scope, kind="stable").astype(np.int64)
    return GraphArrays(
        cardinality=cardinality,
        node_ptr=node_ptr,
        table_ptr=node_ptr[n] + _offsets(table_sizes),
        scope_ptr=scope_ptr,
        scope=scope,
        stride=stride,
        slot_factor=slot_factor,
        slot_ptr=_offsets(np.bincount(scope, minlength=n).astype(np.int64)),
        slots=by_variable,
        message_ptr=_offsets(sizes) if slots else np.zeros(1, dtype=np.int64),
    )


def _strides(sizes: IntArray, scope_ptr: IntArray) -> tuple[IntArray, IntArray]:
    """Row-major strides within each factor, and each factor's number of entries; a pass for each scope position."""
    degree = np.diff(scope_ptr)
    stride = np.ones(len(sizes), dtype=np.int64)
    running = np.ones(len(degree), dtype=np.int64)
    for back in range(1, int(degree.max(initial=0)) + 1):
        has = degree >= back
        slot = scope_ptr[1:][has] - back
        stride[slot] = running[has]
        running[has] *= sizes[slot]
    return stride, running


def _design(arrays: GraphArrays, random_field: RandomField, block_tables: list[IntArray], constant: float) -> Design:
    size = int(arrays.table_ptr[-1])
    offset = np.zeros(size)
    rows, columns, values = [], [], []
    for block, tables in zip(random_field.blocks, block_tables, strict=True):
        if block.scopes.shape[1] == 0:
            continue
        start = _table_start(arrays, tables)
        width = int(np.prod(block_shape(block)))
        if block.log_table is not None:
            np.add.at(offset, start[:, None] + np.arange(width), block.log_table.ravel())
        r, c, v = _block_entries(block, start, width)
        rows.append(r)
        columns.append(c)
        values.append(v)
    empty = np.empty(0, dtype=np.int64)
    where = (np.concatenate(rows or [empty]), np.concatenate(columns or [empty]))
    matrix = sparse.csr_array((np.concatenate(values or [np.empty(0)]), where), shape=(size, random_field.n_parameters))
    return Design(matrix, matrix.T.tocsr(), offset, constant)


def _block_entries(block: FactorBlock, start: IntArray, width: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Rows, columns and values of A that one block contributes."""
    feature, entry = np.nonzero(block.features.reshape(len(block.features), width))
    value = block.features.reshape(len(block.features), width)[feature, entry]
    rows = start[:, None] + entry[None, :]
    columns = block.parameters[:, feature]
    return rows.ravel(), columns.ravel(), np.broadcast_to(value, rows.shape).ravel()


def _table_start(arrays: GraphArrays, tables: IntArray) -> IntArray:
    """First entry of each table, with the numbering of CompiledField.factor_table."""
    result: IntArray = np.where(
        tables < 0,
        arrays.node_ptr[np.where(tables < 0, -1 - tables, 0)],
        arrays.table_ptr[np.where(tables < 0, 0, tables)],
    )
    return result


def _offsets(sizes: IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
