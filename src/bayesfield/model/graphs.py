"""Labelled graphs of any shape, each with inputs at its nodes and edges: the instances of a conditional field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from bayesfield.model.conditional import CRF, input_matrix, label_codes
from bayesfield.types import BoolArray, FloatArray, IntArray, InvalidInput


@dataclass(frozen=True, eq=False)
class Graphs:
    """Graphs side by side: P nodes of S graphs.

    ptr: (S+1,) where the nodes of each begin. inputs: x, (P, D) sparse. edges: (m, 2) nodes, numbered through all
    graphs; a table's first axis is the first node's. edge_inputs: z, (m, E). labels: (P,) numbers,
    −1 where one is not known, or None. allowed: (P, K) the states that what is known allows, where that is not one at
    every node.
    """

    ptr: IntArray
    inputs: sparse.csr_array[Any, tuple[int, int]]
    edges: IntArray
    edge_inputs: FloatArray
    labels: IntArray | None = None
    allowed: BoolArray | None = None

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @property
    def nodes(self) -> int:
        return int(self.ptr[-1])

    def run(self, first: int, last: int) -> Graphs:
        """The graphs first … last − 1."""
        begin, end = int(self.ptr[first]), int(self.ptr[last])
        own = (self.edges[:, 0] >= begin) & (self.edges[:, 0] < end)
        return Graphs(
            self.ptr[first : last + 1] - begin,
            self.inputs[begin:end],
            self.edges[own] - begin,
            self.edge_inputs[own],
            None if self.labels is None else self.labels[begin:end],
            None if self.allowed is None else self.allowed[begin:end],
        )

    def chosen(self, which: BoolArray) -> Graphs:
        """The graphs that are marked."""
        lengths = np.diff(self.ptr)
        node = np.repeat(which, lengths)
        number = np.cumsum(node) - 1
        own = node[self.edges[:, 0]] if len(self.edges) else np.zeros(0, dtype=np.bool_)
        rows = np.flatnonzero(node)
        return Graphs(
            np.concatenate([[0], np.cumsum(lengths[which])]).astype(np.int64),
            self.inputs[rows],
            number[self.edges[own]],
            self.edge_inputs[own],
            None if self.labels is None else self.labels[rows],
            None if self.allowed is None else self.allowed[rows],
        )


def as_graphs(crf: CRF, X: Sequence[Any], y: Sequence[Any] | None = None) -> Graphs:
    """X: for each graph (node_features, edges) or (node_features, edges, edge_features). y: labels of its nodes.

    node_features: (nodes, D). edges: (m, 2) numbers of nodes. edge_features: (m, E), where the model has edge inputs.
    """
    parts = [_instance(crf, instance, k) for k, instance in enumerate(X)]
    lengths = np.array([x.shape[0] for x, *_ in parts], dtype=np.int64)
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    no_inputs = sparse.csr_array((0, len(crf.inputs)))
    edges = [pairs + first for (_, pairs, _), first in zip(parts, ptr, strict=False)]
    return Graphs(
        ptr,
        sparse.csr_array(sparse.vstack([no_inputs, *(x for x, *_ in parts)], format="csr")),
        np.concatenate([np.empty((0, 2), dtype=np.int64), *edges]),
        np.concatenate([np.empty((0, len(crf.edge_inputs))), *(z for *_, z in parts)]),
        *((None, None) if y is None else label_codes(crf, y, lengths)),
    )


def _instance(crf: CRF, instance: Any, k: int) -> tuple[Any, IntArray, FloatArray]:
    if not isinstance(instance, tuple | list) or len(instance) not in (2, 3):
        raise InvalidInput(f"graph {k}: give (node_features, edges) or (node_features, edges, edge_features)")
    x = input_matrix(instance[0], crf.inputs, f"graph {k}")
    edges = np.asarray(instance[1])
    edges = edges.reshape(0, 2) if edges.size == 0 else edges
    if edges.ndim != 2 or edges.shape[1] != 2 or (not np.issubdtype(edges.dtype, np.integer) and edges.size):
        raise InvalidInput(f"graph {k}: edges are pairs of node numbers, shape (m, 2); got {edges.shape}")
    edges = edges.astype(np.int64)
    if edges.size and (edges.min() < 0 or edges.max() >= x.shape[0] or (edges[:, 0] == edges[:, 1]).any()):
        raise InvalidInput(f"graph {k}: edges join two different nodes from 0 to {x.shape[0] - 1}")
    return x, edges, _edge_inputs(crf, instance, k, len(edges))


def _edge_inputs(crf: CRF, instance: Any, k: int, m: int) -> FloatArray:
    E = len(crf.edge_inputs)
    if len(instance) == 2:
        if not crf.constant_edges:
            raise InvalidInput(f"graph {k}: this model has {E} edge inputs; give (node_features, edges, edge_features)")
        return np.ones((m, 1))
    z = np.asarray(instance[2], dtype=np.float64)
    z = z.reshape(0, E) if z.size == 0 else z
    if z.shape != (m, E) or not np.isfinite(z).all():
        raise InvalidInput(f"graph {k}: edge features need shape {(m, E)} and finite numbers; got shape {z.shape}")
    return z
