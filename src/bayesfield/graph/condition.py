"""Variables fixed to states: evidence."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayesfield.graph.structure import Graph, graph_arrays
from bayesfield.types import FloatArray, IntArray, InvalidInput


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
    reduced = graph_arrays(cardinality, a.scope_ptr, a.scope)
    entries = [a.node_ptr[i] + lowest[i] + np.arange(cardinality[i]) for i in range(n)]
    for f in range(len(a.table_ptr) - 1):
        members = slice(a.scope_ptr[f], a.scope_ptr[f + 1])
        index = np.array(a.table_ptr[f])
        for variable, stride in zip(a.scope[members], a.stride[members], strict=True):
            index = np.add.outer(index, stride * (lowest[variable] + np.arange(cardinality[variable])))
        entries.append(index.ravel())
    flat = np.concatenate(entries) if entries else np.empty(0, dtype=np.int64)
    return Conditioned(Graph(reduced), flat)
