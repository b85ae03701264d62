"""A field compiled to flat arrays: the factor graph that engines see, and the design θ = θ₀ + Aλ, E[f] = Aᵀb.

Factors over the same variables share one table. Bethe's approximation is the better for it (a doubled edge is no
loop), and exact inference does not care.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayesfield import parallel
from bayesfield.graph.structure import Graph, graph_arrays, offsets, unique_rows
from bayesfield.kernels import tables as kernel
from bayesfield.model.field import refuse_beyond
from bayesfield.types import LARGEST, FloatArray, GraphArrays, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.model.field import RandomField

Sparse = Any  # scipy's sparse arrays
_ROWS = 4096  # of features that one thread fills at a time
_UNTIED = 8  # entries of tables for each parameter, up to which it counts as belonging to one
_PAIRS = 1e7  # of parameters of the same tables, from which they are counted exactly


@dataclass(frozen=True, eq=False)
class Design:
    """θ = θ₀ + Aλ and its transpose E[f] = Aᵀb, side by side.

    matrix: A, (T, F) sparse. transpose: Aᵀ, (F, T) sparse. offset: θ₀, (T,). constant: a term of the energy that
    depends on no variable; it enters log Z only.
    """

    matrix: sparse.csr_array[Any, tuple[int, int]]
    transpose: sparse.csr_array[Any, tuple[int, int]]
    offset: FloatArray
    constant: float = 0.0

    def potentials(self, parameters: FloatArray) -> FloatArray:
        result = self.offset.copy()
        A = self.matrix
        kernel.sparse_product(A.indptr, A.indices, A.data, parameters, result)
        return result

    def potentials_many(self, parameters: FloatArray) -> FloatArray:
        """θ at each of the parameters (S, F), (S, T)."""
        result: FloatArray = (self.matrix @ parameters.T).T
        return np.ascontiguousarray(result + self.offset)

    def expectations_many(self, tables: FloatArray) -> FloatArray:
        """E[f] from each of the beliefs (S, T), (S, F)."""
        return np.ascontiguousarray((self.transpose @ tables.T).T)

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


def as_parameters(random_field: RandomField, parameters: Any) -> FloatArray:
    """λ as a checked (F,) vector."""
    vector = np.ascontiguousarray(parameters, dtype=np.float64)
    if vector.shape != (random_field.n_parameters,):
        raise InvalidInput(
            f"parameters need shape ({random_field.n_parameters},), one number for each of field.parameter_names; "
            f"got {vector.shape}"
        )
    if not (np.abs(vector) <= LARGEST).all():
        raise InvalidInput(
            f"parameters must be finite and within ±{LARGEST:g}; to forbid states, put −inf into a factor's log_table"
        )
    return vector


def potentials_at(random_field: RandomField, parameters: Any) -> FloatArray:
    """θ = θ₀ + Aλ at checked parameters, (T,)."""
    theta = compiled(random_field).design.potentials(as_parameters(random_field, parameters))
    refuse_beyond(theta, "a table at these parameters")
    return theta


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


def pairs_within(graph: Graph, design: Design) -> float:
    """Σ over factors of the square of how many parameters their tables have: the entries of all Cov_{b_a}(f_a).

    Exactly where they are many, else from above, by the entries of A; 0 where hardly a parameter is in several tables.
    """
    A, ptr = design.matrix, graph.arrays.table_ptr
    if A.nnz <= _UNTIED * A.shape[1]:
        return 0.0
    stored = np.diff(A.indptr[ptr]).astype(np.float64)
    total = float(stored @ stored)
    if total <= _PAIRS:
        return total
    n, factors = int(ptr[0]), np.repeat(np.arange(len(stored)), np.diff(ptr))
    owner = sparse.csr_array((np.ones(len(factors)), (factors, np.arange(len(factors)))))
    counts = np.diff((owner @ abs(A[n:])).indptr).astype(np.float64)
    return float(counts @ counts)


# --- compilation --------------------------------------------------------------------------------------------------


def _compile(random_field: RandomField) -> CompiledField:
    cardinality = random_field.cardinalities
    scopes, block_tables = _distinct_scopes(random_field.blocks, len(cardinality))
    empty = np.empty(0, dtype=np.int64)
    degree = np.concatenate([empty, *(np.full(len(s), s.shape[1]) for s in scopes)])
    scope = np.concatenate([empty, *(s.ravel() for s in scopes)])
    arrays = graph_arrays(cardinality, offsets(degree), scope)
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
        unique, inverse = unique_rows(stacked, n)
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


class _Placed(NamedTuple):
    """Where one block's features are not zero: (m,) first entries, (q,) entries, features and values."""

    start: IntArray
    entry: IntArray
    feature: IntArray
    value: FloatArray
    parameters: IntArray


def _design(arrays: GraphArrays, random_field: RandomField, block_tables: list[IntArray], constant: float) -> Design:
    size = int(arrays.table_ptr[-1])
    offset = np.zeros(size)
    placed = []
    for block, tables in zip(random_field.blocks, block_tables, strict=True):
        if block.scopes.shape[1] == 0:
            continue
        start, width = _table_start(arrays, tables), int(np.prod(block.features.shape[1:]))
        if block.log_table is not None:
            np.add.at(offset, start[:, None] + np.arange(width), block.log_table.ravel())
        flat = block.features.reshape(len(block.features), width)
        feature, entry = np.nonzero(flat)
        placed.append(_Placed(start, entry, feature, flat[feature, entry], block.parameters))
    matrix, transpose = _both_ways(placed, size, random_field.n_parameters)
    return Design(matrix, transpose, offset, constant)


def _both_ways(placed: list[_Placed], size: int, n_parameters: int) -> tuple[Sparse, Sparse]:
    """A and Aᵀ by rows, in one pass: a field of millions of parameters has no room for lists of coordinates."""
    row_ptr, column_ptr = np.zeros(size + 1, dtype=np.int64), np.zeros(n_parameters + 1, dtype=np.int64)
    for p in placed:
        kernel.design_counts(p.start, p.entry, p.feature, p.parameters, row_ptr[1:], column_ptr[1:])
    np.cumsum(row_ptr, out=row_ptr)
    np.cumsum(column_ptr, out=column_ptr)
    count = int(row_ptr[-1])
    kind = np.int32 if max(count, size, n_parameters) < 2**31 else np.int64
    rows = row_ptr[:-1].copy(), np.empty(count, dtype=kind), np.empty(count)
    columns = column_ptr[:-1].copy(), np.empty(count, dtype=kind), np.empty(count)
    for p in placed:
        kernel.fill_design(p.start, p.entry, p.feature, p.value, p.parameters, rows, columns)
    A = sparse.csr_array((rows[2], rows[1], row_ptr.astype(kind)), shape=(size, n_parameters))
    transpose = sparse.csr_array((columns[2], columns[1], column_ptr.astype(kind)), shape=(n_parameters, size))
    for matrix in (A, transpose):
        matrix.sum_duplicates()  # a parameter may come twice in one entry; sorts, too
    return A, transpose


def _table_start(arrays: GraphArrays, tables: IntArray) -> IntArray:
    """First entry of each table, with the numbering of CompiledField.factor_table."""
    result: IntArray = np.where(
        tables < 0,
        arrays.node_ptr[np.where(tables < 0, -1 - tables, 0)],
        arrays.table_ptr[np.where(tables < 0, 0, tables)],
    )
    return result
