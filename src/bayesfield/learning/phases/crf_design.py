"""The design of a conditional field: θ = Aλ and E[f] = Aᵀb with A = inputs ⊗ tables, which is not formed for chains;
and instances as one compiled field, the union of their graphs.

Chains: sparse products, SciPy's where inputs are few; else on all cores, cut into a fixed number of parts, so that sums
come out the same on any number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import ndtri

from bayesfield import parallel
from bayesfield.graph.compiled import CompiledField, Design
from bayesfield.graph.structure import pair_graph
from bayesfield.kernels.chains import inputs as kernel
from bayesfield.kernels.chains.inputs import Entries, Inputs, Support
from bayesfield.kernels.chains.noise import BITS, potentials_noise
from bayesfield.model.conditional import CRF, Sequences
from bayesfield.model.graphs import Graphs
from bayesfield.types import BoolArray, FloatArray, IntArray

_SMALL = 100_000  # inputs up to which threads are not worth their start
_PARTS = 4
_QUANTILES = ndtri((np.arange(2**BITS) + 0.5) / 2**BITS)
_QUANTILES /= _QUANTILES.std()  # the tails beyond the last are cut off: 1e-4 of the variance


class PairInputs(NamedTuple):
    """Every pair of nodes that edges join, once: pairs (m, 2) ascending; inputs of its edges, summed, (m, E): of those
    that are given along, and of those against, whose tables are transposed."""

    pairs: IntArray
    along: FloatArray
    against: FloatArray


def pair_inputs(data: Graphs) -> PairInputs:
    """Edges that are given twice share a table and add up."""
    turned = data.edges[:, 0] > data.edges[:, 1]
    pairs, table = np.unique(np.sort(data.edges, axis=1), axis=0, return_inverse=True)
    parts = [np.zeros((len(pairs), data.edge_inputs.shape[1])) for _ in range(2)]
    for part, some in zip(parts, (~turned, turned), strict=True):
        np.add.at(part, table.reshape(-1)[some], data.edge_inputs[some])
    return PairInputs(pairs, *parts)


def compiled_graphs(crf: CRF, data: Graphs) -> CompiledField:
    """The union of the graphs."""
    K, pairs, tables = len(crf.labels), pair_inputs(data), crf.sparse_edge_tables
    node = sparse.kron(data.inputs, crf.node_tables.T)
    edge = sparse.kron(sparse.csr_array(pairs.along), tables.T)
    if pairs.against.any():
        turned = tables[:, np.arange(K * K).reshape(K, K).T.ravel()]
        edge = edge + sparse.kron(sparse.csr_array(pairs.against), turned.T)
    matrix = sparse.csr_array(sparse.block_diag([node, edge]))
    if crf.seen is not None:
        matrix = sparse.csr_array(sparse.csc_array(matrix)[:, crf.places])
    design = Design(matrix, sparse.csr_array(matrix.T), np.zeros(matrix.shape[0]))
    return CompiledField(pair_graph(np.full(data.nodes, K), pairs.pairs), design, np.empty(0, dtype=np.int64))


def as_union(data: Sequences) -> Graphs:
    """Sequences as graphs whose edges join neighbours."""
    first = data.pair_starts()
    edges = np.stack([first, first + 1], axis=1)
    return Graphs(data.ptr, data.inputs, edges, data.edge_rows[data.which[first]], data.labels, data.allowed)


def restricted(design: Design, allowed: BoolArray) -> Design:
    """The design of a union with states that are not allowed, (P, K), forbidden."""
    offset = design.offset.copy()
    offset[: allowed.size][~allowed.ravel()] = -np.inf
    return Design(design.matrix, design.transpose, offset)


# --- chains: products with A and its transpose ------------------------------------------------------------------------


def potentials(crf: CRF, data: Sequences, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
    """node (P, K) and edge (Q, K, K) log-potentials."""
    K, n = len(crf.labels), crf.n_state
    if crf.seen is not None:
        table = np.zeros(K * K)
        table[crf.seen.pair] = parameters[n:]
        return _some_times(crf, data, parameters[:n]), np.outer(data.edge_rows, table).reshape(-1, K, K)
    W, V = parameters[:n].reshape(len(crf.inputs), -1), parameters[n:].reshape(len(crf.edge_inputs), -1)
    node = inputs_times(data, np.ascontiguousarray(W if crf.plain_nodes else W @ crf.node_tables))
    edge = data.edge_rows @ (V if crf.plain_edges else V @ flat_tables(crf.edge_tables))
    return node, edge.reshape(-1, K, K)


def expectations(crf: CRF, data: Sequences, marginal: FloatArray, transitions: FloatArray) -> FloatArray:
    """Σ over positions and pairs of the features, (F,), from marginals (P, K) and transitions (Q, K, K)."""
    node = state_sums(crf, data, marginal if crf.plain_nodes else marginal @ crf.node_tables.T)
    edge = data.edge_rows.T @ flat_tables(transitions)
    if crf.seen is not None:
        return np.concatenate([node, edge.ravel()[crf.seen.pair]])
    return np.concatenate([node, (edge if crf.plain_edges else edge @ flat_tables(crf.edge_tables).T).ravel()])


def state_sums(crf: CRF, data: Sequences, rows: FloatArray) -> FloatArray:
    """Σ_t x_td rows[t, g] for each weight of a state, (n_state,); rows (P, G)."""
    return inputs_transposed(data, rows).ravel() if crf.seen is None else _some_scattered(crf, data, rows)


def widened(crf: CRF, columns: FloatArray) -> FloatArray:
    """(F, …) of the weights that were seen among all, zeros for the others."""
    K = len(crf.labels)
    out = np.zeros((len(crf.inputs) * K + K * K, *columns.shape[1:]))
    out[crf.places] = columns
    return out


def flat_tables(tables: FloatArray) -> FloatArray:
    """(…, K, K) as (…, K²)."""
    return tables.reshape(len(tables), -1)


def inputs_times(data: Sequences, weights: FloatArray) -> FloatArray:
    """X · weights, (P, K)."""
    if len(data.inputs.data) <= _SMALL:
        few: FloatArray = data.inputs @ weights
        return few
    rows, out = _rows(data), np.empty((data.positions, weights.shape[1]))
    _on_parts(data, data.positions, lambda first, last: kernel.times(rows, weights, first, last, out))
    return out


def inputs_transposed(data: Sequences, rows: FloatArray) -> FloatArray:
    """Xᵀ · rows, (D, K)."""
    if len(data.inputs.data) <= _SMALL:
        few: FloatArray = data.inputs.T @ rows
        return few
    columns, out = Inputs(*data.columns), np.empty((data.inputs.shape[1], rows.shape[1]))
    rows = np.ascontiguousarray(rows)
    _on_parts(data, len(out), lambda first, last: kernel.gathered(columns, rows, first, last, out), columns.ptr)
    return out


def support(crf: CRF) -> Support:
    assert crf.seen is not None
    return Support(crf.seen.ptr, crf.seen.label, crf.wide_rows)


def entries_of(crf: CRF, data: Sequences) -> Entries:
    """What each position has of the weights that were seen; kept with the data."""
    kept: tuple[CRF, Entries] | None = data.__dict__.get("_entries")
    if kept is not None and kept[0] is crf:
        return kept[1]
    if crf.seen is None:  # a row of the table for every input
        X, none = _rows(data), np.empty(0, dtype=np.int32)
        return Entries(X.ptr, X.number, X.value, np.zeros(len(X.ptr), dtype=np.int64), none, none, np.empty(0))
    rows, some, P = _rows(data), support(crf), data.positions
    wide_ptr, few_ptr = np.empty(P + 1, dtype=np.int64), np.empty(P + 1, dtype=np.int64)
    kernel.counted(rows, some, wide_ptr, few_ptr)
    wide, few = int(wide_ptr[-1]), int(few_ptr[-1])
    values = (0, 0) if data.indicators else (wide, few)
    made = Entries(
        wide_ptr, np.empty(wide, dtype=np.int32), np.empty(values[0]),
        few_ptr, np.empty(few, dtype=np.int32), np.empty(few, dtype=np.int32), np.empty(values[1]),
    )  # fmt: skip
    kernel.listed(rows, some, made)
    data.__dict__["_entries"] = (crf, made)
    return made


def state_table(crf: CRF, weights: FloatArray) -> FloatArray:
    """The rows of inputs with many labels, as kernels take them, (R, K); of all inputs where all weights are there."""
    if crf.seen is None:
        return np.ascontiguousarray(weights.reshape(len(crf.inputs), -1))
    table = np.empty((crf.n_wide, len(crf.labels)))
    kernel.filled(support(crf), weights, table)
    return table


def _some_times(crf: CRF, data: Sequences, weights: FloatArray) -> FloatArray:
    entries, out = entries_of(crf, data), np.empty((data.positions, len(crf.labels)))
    weights = np.ascontiguousarray(weights)
    table = state_table(crf, weights)

    def part(first: int, last: int) -> None:
        kernel.some_times(entries, weights, table, first, last, out)

    _on_parts(data, data.positions, part)
    return out


def _some_scattered(crf: CRF, data: Sequences, rows: FloatArray) -> FloatArray:
    entries, rows = entries_of(crf, data), np.ascontiguousarray(rows)
    parts = _parts(data.positions) if len(data.inputs.data) > _SMALL else [(0, data.positions)]

    def part(bounds: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
        table, out = np.zeros((crf.n_wide, rows.shape[1])), np.zeros(crf.n_state)
        kernel.some_scattered(entries, rows, *bounds, table, out)
        return table, out

    sums = parallel.thread_map(part, parts)
    table, out = sums[0]
    for other, more in sums[1:]:
        table += other
        out += more
    kernel.taken(support(crf), table, out)
    return out


def node_noise(crf: CRF, data: Sequences, sd: FloatArray, seed: int) -> FloatArray:
    """What independent weights with these widths, (F,), add to the node log-potentials, (P, K): one draw, in which each
    sequence has weights of its own."""
    out, of_states = np.empty((data.positions, len(crf.labels))), np.ascontiguousarray(sd[: crf.n_state])
    entries, table = entries_of(crf, data), state_table(crf, of_states)

    def part(bounds: tuple[int, int]) -> None:
        potentials_noise(entries, data.ptr, of_states, table, seed, _QUANTILES, *bounds, out)

    parallel.thread_map(part, _parts(len(data)) if len(data) >= _PARTS else [(0, len(data))])
    return out


def edge_noise(crf: CRF, sd: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The same of the transitions, one draw for all sequences, (K, K)."""
    K = len(crf.labels)
    table, drawn = np.zeros(K * K), sd[crf.n_state :] * rng.standard_normal(len(sd) - crf.n_state)
    table[slice(None) if crf.seen is None else crf.seen.pair] = drawn
    return table.reshape(K, K)


def _rows(data: Sequences) -> Inputs:
    X = data.inputs
    return Inputs(X.indptr, X.indices, np.empty(0) if data.indicators else X.data)


def _on_parts(data: Sequences, count: int, part: Callable[[int, int], None], ptr: IntArray | None = None) -> None:
    """part(first, last) for runs of 0 … count; with as many inputs in each, where ptr tells how they are spread."""
    if len(data.inputs.data) <= _SMALL:
        part(0, count)
        return
    bounds = _parts(count)
    if ptr is not None:
        ends = np.searchsorted(ptr, np.linspace(0, ptr[-1], _PARTS + 1))
        ends[0], ends[-1] = 0, count
        bounds = parallel.spans(ends.tolist())
    parallel.thread_map(lambda some: part(*some), bounds)


def _parts(count: int) -> list[tuple[int, int]]:
    return parallel.spans(np.linspace(0, count, _PARTS + 1).astype(np.int64).tolist())
