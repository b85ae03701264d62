"""The structure of a factor graph as flat arrays."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayesfield import parallel
from bayesfield.kernels import tables as kernel
from bayesfield.types import FloatArray, GraphArrays, IntArray

Plan = TypeVar("Plan")

_CELLS = 1_000_000  # of data that a thread is worth
_DENSE_PAIRS = 16  # entries of the matrix of all indicators for one of a table, up to which it is the faster way
_INDICATORS = 8192  # cases whose indicators are multiplied together
_COMPARED = 16_384  # rows that are compared at a time


@dataclass(frozen=True, eq=False)
class Graph:
    """The structure of a factor graph. Engines keep what they derive from it alone (a junction tree) in ``plans``."""

    arrays: GraphArrays
    plans: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def n_entries(self) -> int:
        """T, the length of θ and of the stacked beliefs."""
        return int(self.arrays.table_ptr[-1])

    @property
    def binary_pairs(self) -> bool:
        """Whether every variable has two states and every factor two variables."""
        return self.pairs and self.plan("binary", lambda g: bool((g.cardinality == 2).all()))

    @property
    def pairs(self) -> bool:
        """Whether every factor has two variables."""
        return self.plan("all pairs", lambda g: bool((np.diff(g.scope_ptr) == 2).all()))

    def plan(self, key: Any, make: Callable[[GraphArrays], Plan]) -> Plan:
        """What ``make`` derives from the structure, kept for the next call."""
        if key not in self.plans:
            self.plans[key] = make(self.arrays)
        result: Plan = self.plans[key]
        return result

    def plan_with(self, key: Any, owner: Any, make: Callable[[], Plan]) -> Plan:
        """What ``make`` derives from the structure and a design, kept for the last one that asked."""
        kept = self.plans.get(key)
        if kept is None or kept[0] is not owner:
            kept = self.plans[key] = (owner, make())
        result: Plan = kept[1]
        return result


def pair_graph(cardinality: IntArray, pairs: IntArray) -> Graph:
    """A graph of pairwise factors in the given order, (m, 2), each pair ascending."""
    cards = np.ascontiguousarray(cardinality, dtype=np.int64)
    return Graph(
        graph_arrays(cards, 2 * np.arange(len(pairs) + 1), np.ascontiguousarray(pairs, dtype=np.int64).ravel())
    )


def table_entries(g: GraphArrays, codes: IntArray) -> IntArray:
    """(N, n + m) the entry of θ that each joint state (N, n) takes in each table: variables, then factors."""
    out = np.empty((len(codes), len(g.cardinality) + len(g.table_ptr) - 1), dtype=np.int64)
    kernel.entries(g, codes, out)
    return out


def counts(graph: Graph, codes: IntArray | NDArray[np.int32]) -> FloatArray:
    """How often the cases (N, n) take each entry of each table: (T,)."""
    if codes.size <= _CELLS:  # samplers ask for single states, by the million
        total = np.zeros(graph.n_entries)
        kernel.count_entries(graph.arrays, codes, total)
        return total
    if graph.pairs and float(graph.arrays.node_ptr[-1]) ** 2 <= _DENSE_PAIRS * graph.n_entries:
        return _pair_counts(graph.arrays, codes)
    parts = parallel.shares(0, len(codes), least=_CELLS // max(codes.shape[1], 1) + 1)
    totals = [np.zeros(graph.n_entries) for _ in parts]

    def one(k: int) -> None:
        kernel.count_entries(graph.arrays, codes[slice(*parts[k])], totals[k])

    parallel.thread_map(one, range(len(parts)))
    for other in totals[1:]:
        totals[0] += other  # whole numbers: the same in any order
    return totals[0]


def _pair_counts(g: GraphArrays, codes: IntArray | NDArray[np.int32]) -> FloatArray:
    """The same for dense pairs: all tables from one matrix product of indicators, whole numbers in single precision."""
    nodes, total = int(g.node_ptr[-1]), np.zeros(int(g.table_ptr[-1]))

    def products(first: int) -> NDArray[np.float32]:
        here = codes[first : first + _INDICATORS]
        one = np.zeros((len(here), nodes), dtype=np.float32)
        one[np.arange(len(here))[:, None], g.node_ptr[:-1] + here] = 1.0
        return np.asarray(one.T @ one)

    joint = np.zeros((nodes, nodes))
    for part in parallel.blas_map(products, range(0, len(codes), _INDICATORS)):
        joint += part
    total[:nodes] = np.diag(joint)
    ends, strides = g.scope.reshape(-1, 2), g.stride.reshape(-1, 2)
    shapes = g.cardinality[ends]
    for qi, qj in np.unique(shapes, axis=0).tolist():
        some = np.flatnonzero((shapes == (qi, qj)).all(axis=1))
        for s in range(qi):
            for t in range(qj):
                at = g.table_ptr[some] + s * strides[some, 0] + t * strides[some, 1]
                total[at] = joint[g.node_ptr[ends[some, 0]] + s, g.node_ptr[ends[some, 1]] + t]
    return total


def weighted_counts(graph: Graph, codes: IntArray, weights: FloatArray) -> FloatArray:
    """The same where each case counts for its weight, (N,)."""
    total = np.zeros(graph.n_entries)
    kernel.weigh_entries(graph.arrays, codes, weights, total)
    return total


def graph_arrays(cardinality: IntArray, scope_ptr: IntArray, scope: IntArray) -> GraphArrays:
    n, m, slots = len(cardinality), len(scope_ptr) - 1, len(scope)
    node_ptr = offsets(cardinality)
    slot_factor = np.repeat(np.arange(m, dtype=np.int64), np.diff(scope_ptr))
    sizes = cardinality[scope]
    stride, table_sizes = _strides(sizes, scope_ptr)
    by_variable = np.argsort(scope, kind="stable").astype(np.int64)
    return GraphArrays(
        cardinality=cardinality,
        node_ptr=node_ptr,
        table_ptr=node_ptr[n] + offsets(table_sizes),
        scope_ptr=scope_ptr,
        scope=scope,
        stride=stride,
        slot_factor=slot_factor,
        slot_ptr=offsets(np.bincount(scope, minlength=n).astype(np.int64)),
        slots=by_variable,
        message_ptr=offsets(sizes) if slots else np.zeros(1, dtype=np.int64),
    )


def _strides(sizes: IntArray, scope_ptr: IntArray) -> tuple[IntArray, IntArray]:
    """Row-major strides within each factor, and each factor's number of entries; a pass for each scope position."""
    degree = np.diff(scope_ptr)
    stride = np.ones(len(sizes), dtype=np.int64)
    running = np.ones(len(degree), dtype=np.int64)
    for back in range(1, int(degree.max(initial=0)) + 1):
        has = degree >= back
        slot = scope_ptr[1:][has] - back
        stride[slot] = running[has]
        running[has] *= sizes[slot]
    return stride, running


def unique_rows(rows: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """np.unique over rows; by one integer key a row where that fits, which is some thirty times faster."""
    if float(n) ** rows.shape[1] >= 2.0**62:
        unique, inverse = np.unique(rows, axis=0, return_inverse=True)
        return unique, inverse.reshape(-1)
    keys = np.zeros(len(rows), dtype=np.int64)
    for axis in range(rows.shape[1]):
        keys = keys * n + rows[:, axis]
    if (np.diff(keys) > 0).all():
        return rows, np.arange(len(rows))
    _, where, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return rows[where], inverse.reshape(-1)


def distinct_rows(rows: NDArray[Any]) -> tuple[IntArray, IntArray]:
    """Where each distinct row of small whole numbers stands first, (M,), and which of them every row is, (N,).

    By a hash of 64 bits, with every row compared to the one that it is taken for; where two differ, by sorting.
    """
    keys: Any = np.random.default_rng(0).integers(1, 2**63, size=rows.shape[1], dtype=np.uint64)
    hashed = np.zeros(len(rows), dtype=np.uint64)
    for i in range(rows.shape[1]):
        hashed ^= (rows[:, i].astype(np.uint64) + np.uint64(2)) * keys[i]
        hashed ^= hashed >> np.uint64(29)
        hashed *= np.uint64(0xBF58476D1CE4E5B9)
    _, where, which = np.unique(hashed, return_index=True, return_inverse=True)
    which = which.reshape(-1)
    parts = [slice(k, k + _COMPARED) for k in range(0, len(rows), _COMPARED)]
    if len(where) < len(rows) and any((rows[p] != rows[where[which[p]]]).any() for p in parts):
        _, where, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return where, which.reshape(-1)


def offsets(sizes: IntArray) -> IntArray:
    """Where each of these sizes begins, one after the other, and where the last ends."""
    out = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=out[1:])
    return out
