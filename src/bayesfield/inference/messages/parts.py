"""Unions of many graphs: messages of one graph know nothing of another's, so that those that settle need not wait.

Sweeps over all graphs go on only for a while. Where a graph's messages still move then, it is taken by itself; it has
the same messages there as it would have among the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from bayesfield.graph.structure import Graph, graph_arrays, offsets
from bayesfield.kernels.messages import sum_product as kernel
from bayesfield.types import FloatArray, GraphArrays, IntArray


class Part(NamedTuple):
    """A connected part of a graph, and where its entries of θ and its messages are among all."""

    graph: Graph
    entries: IntArray
    messages: IntArray


def component_of(g: GraphArrays) -> IntArray:
    """(n,) the number of the connected part of each variable."""
    n, m = len(g.cardinality), len(g.table_ptr) - 1
    joined = sparse.coo_array((np.ones(len(g.scope)), (g.scope, n + g.slot_factor)), shape=(n + m, n + m))
    _, component = sparse.csgraph.connected_components(joined.tocsr(), directed=False)
    found: IntArray = component[:n].astype(np.int64)
    return found


def part_of(graph: Graph, component: int) -> Part:
    """One of the connected parts; kept with the graph."""
    return graph.plan(("part", component), lambda g: _part(g, graph.plan("components", component_of) == component))


def _part(g: GraphArrays, inside: np.ndarray) -> Part:
    slots = np.flatnonzero(inside[g.scope])
    nodes, factors = np.flatnonzero(inside), np.unique(g.slot_factor[slots])
    number = np.cumsum(inside) - 1
    arrays = graph_arrays(
        np.ascontiguousarray(g.cardinality[nodes]), offsets(np.diff(g.scope_ptr)[factors]), number[g.scope[slots]]
    )
    entries = np.concatenate([_ranges(g.node_ptr, nodes), _ranges(g.table_ptr, factors)])
    return Part(Graph(arrays), entries, _ranges(g.message_ptr, slots))


def _ranges(ptr: IntArray, which: IntArray) -> IntArray:
    """ptr[k], …, ptr[k+1] − 1 for each k of these, end to end."""
    sizes = (ptr[1:] - ptr[:-1])[which]
    first = np.repeat(ptr[:-1][which] - (np.cumsum(sizes) - sizes), sizes)
    result: IntArray = first + np.arange(sizes.sum())
    return result


def unsettled(graph: Graph, theta: FloatArray, inbox: FloatArray, tolerance: float) -> list[int]:
    """The parts in which one more sweep moves a message, or its states that hardly matter, by more than the
    tolerance."""
    g, moved = graph.arrays, inbox.copy()
    kernel.run_sweeps(g, theta, moved, False, 0.0, tolerance, np.zeros(1), False)
    with np.errstate(invalid="ignore"):
        change, sizes = moved - inbox, np.diff(g.message_ptr)
        mean = np.add.reduceat(change, g.message_ptr[:-1]) / sizes  # messages are known up to a constant
        still = ~(np.abs(change - np.repeat(mean, sizes)) <= tolerance)
    owners = np.repeat(g.scope, sizes)[still]
    return [int(k) for k in np.unique(graph.plan("components", component_of)[owners])]
