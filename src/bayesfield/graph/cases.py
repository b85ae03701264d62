"""The energy of single cases: θ summed over the tables that a case observes whole, linear in λ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from bayesfield.graph.structure import table_entries
from bayesfield.types import FloatArray, GraphArrays, IntArray

if TYPE_CHECKING:
    from bayesfield.graph.compiled import CompiledField

_CELLS = 4_000_000  # (case, table) pairs that are looked at together


class CaseDesign(NamedTuple):
    """energy of each case = fixed + matrix · λ. matrix: (N, F) sparse. fixed: (N,), −∞ for what θ₀ forbids."""

    matrix: sparse.csr_array[Any, tuple[int, int]]
    fixed: FloatArray


def case_design(compiled_field: CompiledField, codes: IntArray) -> CaseDesign:
    """codes: (N, n) positions in the states, −1 in the holes; tables with a hole are left out."""
    g, design = compiled_field.graph.arrays, compiled_field.design
    whole = _observed_whole(g, codes)
    taken = table_entries(g, np.maximum(codes, 0))
    rows, tables = np.nonzero(whole)
    where = (rows, taken[rows, tables])
    counts = sparse.csr_array((np.ones(len(rows)), where), shape=(len(codes), len(design.offset)))
    return CaseDesign(sparse.csr_array(counts @ design.matrix), counts @ design.offset)


def case_energies(compiled_field: CompiledField, codes: IntArray, points: FloatArray) -> FloatArray:
    """(S, N) the energy of every case at each of the parameters, points (S, F)."""
    g = compiled_field.graph.arrays
    step = max(1, _CELLS // max(len(g.cardinality) + len(g.table_ptr) - 1, 1))
    result = np.empty((len(points), len(codes)))
    for k in range(0, len(codes), step):
        own = case_design(compiled_field, codes[k : k + step])
        result[:, k : k + step] = own.fixed + (own.matrix @ points.T).T
    return result


def _observed_whole(g: GraphArrays, codes: IntArray) -> Any:
    """(N, n + m) whether each case observes all variables of each table."""
    seen = codes >= 0
    if not len(g.scope):
        return seen
    return np.concatenate([seen, np.logical_and.reduceat(seen[:, g.scope], g.scope_ptr[:-1], axis=1)], axis=1)
