"""State indicators of the variables at given beliefs, as sparse matrices: the coordinates of linear response.

For each variable, one indicator for each state that can occur but one, its reference (the most probable state).
States of probability zero are dropped, not inverted. The indicators of all variables make up n_states coordinates;
those of each factor's members, slot by slot, n_local.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from bayesfield.types import FloatArray, GraphArrays, IntArray

Sparse = Any  # scipy's sparse arrays; their stubs cannot follow the products below

IMPOSSIBLE = 1e-13  # a state below this probability counts as impossible: its share of any covariance is below it too


class Indicators(NamedTuple):
    """T_n entries in the variables' tables, T_f in the factors', n variables, m factors."""

    nodes: Sparse  # (T_n, n_states): a variable's table entries by its indicators: 1, and for the reference −1
    node_tables: Sparse  # (T_n, n): which variable an entry belongs to
    members: Sparse  # (T_f, n_local): which members' indicators are on in a factor's table entry
    factor_tables: Sparse  # (T_f, m): which factor an entry belongs to
    embed: Sparse  # (n_local, n_states): which variable's indicator a factor's member's is
    local_ptr: IntArray  # (m+1,) local coordinates of each factor
    own: IntArray  # (n_local,) entry of the slot's message that belongs to each local coordinate …
    reference: IntArray  # … and the entry of its reference state


def indicators(g: GraphArrays, node_beliefs: FloatArray) -> Indicators:
    n, m, T_n = len(g.cardinality), len(g.table_ptr) - 1, int(g.node_ptr[-1])
    owner = np.repeat(np.arange(n), g.cardinality)
    coordinate, top = _coordinates(g, node_beliefs, owner)
    n_states = int(coordinate.max(initial=-1)) + 1
    slot = np.repeat(np.arange(len(g.scope)), np.diff(g.message_ptr))  # of each message entry
    entry = g.node_ptr[g.scope[slot]] + np.arange(len(slot)) - g.message_ptr[slot]
    own = np.flatnonzero(coordinate[entry] >= 0)
    slot = slot[own]
    per_factor = np.bincount(g.slot_factor[slot], minlength=m)
    factor_of = np.repeat(np.arange(m), np.diff(g.table_ptr))
    return Indicators(
        nodes=_node_matrix(owner, coordinate, top, n_states),
        node_tables=_ones(np.arange(T_n), owner, (T_n, n)),
        members=slot_states(g)[:, own],
        factor_tables=_ones(np.arange(len(factor_of)), factor_of, (len(factor_of), m)),
        embed=_ones(np.arange(len(own)), coordinate[entry[own]], (len(own), n_states)),
        local_ptr=np.concatenate([[0], np.cumsum(per_factor)]).astype(np.int64),
        own=own,
        reference=g.message_ptr[slot] + top[g.scope[slot]] - g.node_ptr[g.scope[slot]],
    )


def slot_states(g: GraphArrays) -> Sparse:
    """(T_f, message entries): which state each slot's variable is in, for every entry of the factors' tables."""
    sizes = np.diff(g.table_ptr)
    factor = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(len(factor)) - (g.table_ptr[:-1] - g.table_ptr[0])[factor]
    degree = np.diff(g.scope_ptr)
    rows, columns = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for position in range(int(degree.max(initial=0))):
        entry = np.flatnonzero(degree[factor] > position)
        slot = g.scope_ptr[factor[entry]] + position
        state = within[entry] // g.stride[slot] % g.cardinality[g.scope[slot]]
        rows.append(entry)
        columns.append(g.message_ptr[slot] + state)
    return _ones(np.concatenate(rows), np.concatenate(columns), (len(factor), int(g.message_ptr[-1]))).tocsc()


def _coordinates(g: GraphArrays, q: FloatArray, owner: IntArray) -> tuple[IntArray, IntArray]:
    """Coordinate of each variable's state (−1: reference or impossible), and each variable's reference entry."""
    if not len(q):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    best = np.maximum.reduceat(q, g.node_ptr[:-1])
    candidates = np.flatnonzero(q == best[owner])[::-1]
    top = np.zeros(len(g.cardinality), dtype=np.int64)
    top[owner[candidates]] = candidates  # the first of equals
    possible = q > IMPOSSIBLE
    possible[top] = False
    return np.where(possible, np.cumsum(possible) - 1, -1).astype(np.int64), top


def _node_matrix(owner: IntArray, coordinate: IntArray, top: IntArray, n_states: int) -> Sparse:
    own = np.flatnonzero(coordinate >= 0)
    rows = np.concatenate([own, top[owner[own]]])
    columns = np.concatenate([coordinate[own], coordinate[own]])
    values = np.concatenate([np.ones(len(own)), -np.ones(len(own))])
    return sparse.csr_array((values, (rows, columns)), shape=(len(owner), n_states))


def _ones(rows: IntArray, columns: IntArray, shape: tuple[int, int]) -> Sparse:
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
