"""A field compiled to flat arrays: the factor graph that engines see, and the design θ = θ₀ + Aλ, E[f] = Aᵀb.

Factors over the same variables share one table. Bethe's approximation is the better for it (a doubled edge is no
loop), and exact inference does not care.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayesfield import parallel
from bayesfield.graph.structure import Graph, graph_arrays, offsets, unique_rows
from bayesfield.kernels import tables as kernel
from bayesfield.model import FactorBlock, RandomField
from bayesfield.model.field import block_shape
from bayesfield.types import FloatArray, GraphArrays, IntArray, InvalidInput

_ROWS = 4096  # of features that one thread fills at a time


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
