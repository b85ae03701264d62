"""log Z of each part of a graph that falls into parts: one exact inference for all of them.

For any state x that can be, log Z = θ(x) − log p(x). Both are sums, over tables and over cliques of the junction tree,
and each table and each clique belongs to one part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfield.graph.structure import Graph, table_entries
from bayesfield.kernels.trees import passes as trees
from bayesfield.types import FloatArray, IntArray

if TYPE_CHECKING:
    from bayesfield.kernels.trees.passes import TreeArrays


def log_z_by_component(engine: Any, graph: Graph, theta: FloatArray, part: IntArray, count: int) -> FloatArray:
    """(count,) log Z of every part, by bf.Exact(). part: (n,) which one each variable belongs to."""
    marginals = engine.infer(graph, theta)
    if marginals.state is None:  # some part cannot be
        return np.full(count, -np.inf)
    tree, conditionals, _ = marginals.state
    g = graph.arrays
    x = np.zeros((1, len(g.cardinality)), dtype=np.int64)
    trees.draw(tree, conditionals, np.full((1, len(tree.columns)), 0.5), x)  # the middle state: it can be
    of_table = np.concatenate([part, part[g.scope[g.scope_ptr[:-1]]]])
    energy: FloatArray = np.bincount(of_table, theta[table_entries(g, x)[0]], minlength=count).astype(np.float64)
    own, log_p = _clique_log_p(tree, conditionals, x[0])
    result: FloatArray = energy - np.bincount(part[own], log_p, minlength=count)
    return result


def _clique_log_p(tree: TreeArrays, conditionals: FloatArray, x: IntArray) -> tuple[IntArray, FloatArray]:
    """For every clique that eliminates variables, the first of them and log p(columns | separator) at x."""
    row = _digits(tree.separator_ptr, tree.separator, tree.separator_stride, x)
    column = _digits(tree.residual_ptr, tree.residual, tree.residual_stride, x)
    some = np.flatnonzero(np.diff(tree.residual_ptr))
    entry = tree.table_ptr[some] + row[some] * tree.columns[some] + column[some]
    return tree.residual[tree.residual_ptr[some]], np.log(conditionals[entry])


def _digits(ptr: IntArray, variables: IntArray, strides: IntArray, x: IntArray) -> IntArray:
    """Σ stride · state over the variables ptr[c]:ptr[c+1] of every clique."""
    running = np.concatenate([[0], np.cumsum(strides * x[variables])])
    result: IntArray = running[ptr[1:]] - running[ptr[:-1]]
    return result
