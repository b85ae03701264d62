"""Instances of a conditional field as one compiled field: the union of their graphs, and A = inputs ⊗ tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from bayesfield.graph.compiled import CompiledField, Design
from bayesfield.graph.structure import pair_graph
from bayesfield.model.conditional import CRF, Sequences
from bayesfield.model.graphs import Graphs
from bayesfield.types import BoolArray, FloatArray, IntArray


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
