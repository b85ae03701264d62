"""Blocks of neighbouring variables for the composite likelihood."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from bayesfield import memory, parallel
from bayesfield.graph.compiled import CompiledField
from bayesfield.kernels.likelihood.composite import Blocks
from bayesfield.types import BoolArray, Cost, GraphArrays, IntArray


def grown_blocks(g: GraphArrays, largest: int) -> list[list[int]]:
    """Every variable in one block of at most ``largest`` joint states (a single variable may have more).

    Blocks grow from the first variable that is left, always by the neighbour with the most links into the block, and
    among those by the one that was met first: on a lattice 16 states of ±1 sites make squares, not strips.
    """
    n = len(g.cardinality)
    if largest <= 1:
        return [[i] for i in range(n)]
    free = np.ones(n, dtype=bool)
    blocks = []
    for i in range(n):
        if free[i]:
            blocks.append(_grow(g, i, largest, free))
    return blocks


def _grow(g: GraphArrays, first: int, largest: int, free: BoolArray) -> list[int]:
    block, states = [first], int(g.cardinality[first])
    free[first] = False
    links: dict[int, int] = {}  # in the order of meeting
    _meet(g, first, links)
    while True:
        fitting = [v for v in links if free[v] and states * g.cardinality[v] <= largest]
        if not fitting:
            return block
        best = max(fitting, key=lambda v: links[v])  # the first of the best
        block.append(best)
        states *= int(g.cardinality[best])
        free[best] = False
        _meet(g, best, links)


def _meet(g: GraphArrays, variable: int, links: dict[int, int]) -> None:
    for slot in g.slots[g.slot_ptr[variable] : g.slot_ptr[variable + 1]]:
        a = g.slot_factor[slot]
        for v in g.scope[g.scope_ptr[a] : g.scope_ptr[a + 1]].tolist():
            links[v] = links.get(v, 0) + 1


def block_arrays(compiled_field: CompiledField, blocks: Sequence[Iterable[int]]) -> Blocks:
    """Blocks of variable numbers as arrays. They need not cover all variables, but must not overlap."""
    g = compiled_field.graph.arrays
    n, m = len(g.cardinality), len(g.table_ptr) - 1
    of_variable, step = np.full(n, -1, dtype=np.int64), np.ones(n, dtype=np.int64)
    states = np.ones(len(blocks), dtype=np.int64)
    for b, members in enumerate(blocks):
        for v in reversed(list(members)):
            of_variable[v], step[v] = b, states[b]
            states[b] *= g.cardinality[v]
    inside = np.flatnonzero(of_variable >= 0)
    held = np.flatnonzero(of_variable[g.scope] >= 0)
    owner = np.concatenate([of_variable[inside], of_variable[g.scope[held]]])
    table = np.concatenate([inside, n + g.slot_factor[held]])
    touched = _incidence(owner, table, (len(blocks), n + m))
    sizes = np.concatenate([g.cardinality, np.diff(g.table_ptr)])
    size = compiled_field.graph.n_entries
    entries = _incidence(np.repeat(np.arange(n + m), sizes), np.arange(size), (n + m, size))
    local = (touched @ entries @ (compiled_field.design.matrix != 0)).tocsr()
    local.sort_indices()
    _require_room(int(np.diff(touched.indptr).max(initial=0)), int(states.max(initial=1)))
    pointers = [part.astype(np.int64) for m in (touched, local) for part in (m.indptr, m.indices)]
    return Blocks(of_variable, step, states, *pointers)


def _require_room(tables: int, states: int) -> None:
    """For offsets of the largest block's tables, and its probabilities, of every thread."""
    numbers = float(parallel.cores()) * (tables + 1) * states
    what = Cost(numbers, 8.0 * numbers, f"a block of {states:,} joint states in {tables:,} tables")
    memory.require(what, "a composite likelihood", "Take smaller blocks: bf.PseudoLikelihood(block=…).")


def _incidence(rows: IntArray, columns: IntArray, shape: tuple[int, int]) -> Any:
    """1 at the given places, however often they are given."""
    matrix = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    matrix.sum_duplicates()
    return matrix
