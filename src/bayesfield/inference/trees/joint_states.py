"""Exact inference in dense fields of pairs, by all joint states: log Z, beliefs, and covariances from one table.

A junction tree of such a field is one clique, and pays for maps into it; here nothing is looked up. The covariance of
all tables costs little more than an inference: see ``kernels.trees.joint``.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse

from bayesfield import memory, parallel
from bayesfield.graph.structure import Graph, offsets
from bayesfield.inference.contract import Price
from bayesfield.kernels.trees import joint
from bayesfield.response.base import TableResponse, require_dense
from bayesfield.response.indicators import Sparse
from bayesfield.types import Cost, FloatArray, GraphArrays, IntArray, Marginals

if TYPE_CHECKING:
    from bayesfield.graph.compiled import Design

_LEAST = 64  # joint states below which a junction tree is as fast
MOST = 2**26  # joint states
_INNER, _ROW = 16_384, 256  # joint states that are summed over in the cache, and of one of its rows
_PRODUCTS = 3000  # products of indicators, whose covariances are dense
_SURE = 5e7  # bytes that there always are
_WORTH = 1_000_000  # joint states that are worth a thread
# Seconds of one core: of a joint state in an inference, of one in a table that is stored and summed, of two products
_PER_STATE, _PER_STORED, _PER_PRODUCT = 3e-10, 8e-9, 1.2e-8


class JointStates(NamedTuple):
    """The layout of a field's joint states. size: how many there are.

    Beliefs of all tables follow from the means of products m of indicators of states above 0, of one variable or two.
    indicators: (T, M), how, up to a constant. entries: (M,) the entry of θ whose belief is E[m]. numbers, digits, ptr:
    the products as ``kernels.trees.joint.second_moments`` takes them.
    """

    arrays: joint.JointArrays
    size: int
    indicators: Sparse
    entries: IntArray
    numbers: IntArray
    digits: IntArray
    ptr: IntArray

    def price(self, size: int) -> Price:
        inference = 2e-5 + _PER_STATE * self.size
        stored = 5e-5 + _PER_STORED * self.size + _PER_PRODUCT * len(self.entries) ** 2 + 2e-9 * size**2
        return Price(inference, inference + stored, inference, 0.4 * inference, 4.0 * inference)

    @property
    def bytes(self) -> int:
        """Of a covariance; an inference holds next to nothing."""
        return 8 * self.size + 16 * len(self.entries) ** 2


def joint_states(g: GraphArrays) -> JointStates | None:
    """None where a factor has more than two variables, or where there are too many states."""
    with np.errstate(over="ignore"):
        size = float(np.prod(g.cardinality.astype(np.float64)))
    if not _LEAST <= size <= MOST or not (np.diff(g.scope_ptr) == 2).all():
        return None
    pairs, above = g.scope.reshape(-1, 2), g.cardinality - 1
    if above.sum() + (above[pairs[:, 0]] * above[pairs[:, 1]]).sum() > _PRODUCTS:
        return None
    n = len(g.cardinality)
    pair_start = np.full((n, n), -1, dtype=np.int64)
    pair_start[pairs[:, 0], pairs[:, 1]] = g.table_ptr[:-1]
    sizes = np.cumprod(g.cardinality)
    step = sizes // g.cardinality
    n_inner = max(int(np.searchsorted(sizes, _INNER, side="right")), 1)
    starts = np.concatenate([g.node_ptr[:-1], g.table_ptr])
    fast = max(int(np.searchsorted(sizes[:n_inner], _ROW, side="right")), 1)
    arrays = joint.JointArrays(g.cardinality, g.node_ptr, starts, pair_start, step, n_inner, fast, int(sizes[fast - 1]))
    return JointStates(arrays, int(size), *_products(g, pairs, step))


def _products(g: GraphArrays, pairs: IntArray, step: IntArray) -> tuple[Sparse, IntArray, IntArray, IntArray, IntArray]:
    """With D = [[1, −1, −1, …], [0, 1, 0, …], …] the indicators of a variable's states are D (1, m_1, m_2, …)ᵀ, and
    those of a pair of variables follow from the Kronecker product of theirs."""
    bases = [np.eye(k) - np.concatenate([[np.r_[0.0, np.ones(k - 1)]], np.zeros((k - 1, k))]) for k in g.cardinality]
    first = np.concatenate([[0], np.cumsum(g.cardinality - 1)])  # the products of one variable
    single = [np.r_[-1, first[i] + np.arange(k - 1)] for i, k in enumerate(g.cardinality)]
    entries = [g.node_ptr[i] + np.arange(1, k) for i, k in enumerate(g.cardinality)]
    digits = [np.array([[[i, s, step[i]]] for s in range(1, k)]).reshape(-1, 3) for i, k in enumerate(g.cardinality)]
    lengths = [np.ones(first[-1], dtype=np.int64)]
    blocks = [(g.node_ptr[i], bases[i], single[i]) for i in range(len(g.cardinality))]
    count = int(first[-1])
    for (i, j), start in zip(pairs.tolist(), g.table_ptr.tolist(), strict=False):
        a, b = int(g.cardinality[i]), int(g.cardinality[j])
        columns = np.empty((a, b), dtype=np.int64)
        columns[:, 0], columns[0] = single[i], single[j]
        columns[1:, 1:] = count + np.arange((a - 1) * (b - 1)).reshape(a - 1, b - 1)
        count += (a - 1) * (b - 1)
        blocks.append((start, np.kron(bases[i], bases[j]), columns.ravel()))
        s, t = (x.ravel() for x in np.meshgrid(np.arange(1, a), np.arange(1, b), indexing="ij"))
        entries.append(start + s * b + t)
        both = [np.stack([np.full(len(s), k), x, np.full(len(s), step[k])], axis=1) for k, x in ((i, s), (j, t))]
        digits.append(np.stack(both, axis=1).reshape(-1, 3))
        lengths.append(np.full(len(s), 2))
    every, ptr = np.concatenate(digits).astype(np.int64), offsets(np.concatenate(lengths))
    numbers = np.add.reduceat(every[:, 1] * every[:, 2], ptr[:-1]) if count else np.empty(0, dtype=np.int64)
    return _stacked(blocks, int(g.table_ptr[-1]), count), np.concatenate(entries), numbers, every, ptr


def _stacked(blocks: list[tuple[int, FloatArray, IntArray]], rows: int, columns: int) -> Sparse:
    """A sparse matrix of blocks at their first rows and with their columns; those of number −1 are left out."""
    at: list[IntArray] = []
    values = []
    for start, block, where in blocks:
        row, column = np.nonzero(block)
        some = where[column] >= 0
        at.append(np.stack([start + row[some], where[column[some]]]))
        values.append(block[row[some], column[some]])
    return sparse.csr_array((np.concatenate(values), np.concatenate(at, axis=1)), shape=(rows, columns))


def infer_many(states: JointStates, thetas: FloatArray) -> tuple[FloatArray, FloatArray]:
    """log Z, (S,), and beliefs, (S, T); NaN where weights are too small to be numbers."""
    log_z, beliefs = np.empty(len(thetas)), np.empty_like(thetas)

    def part(rows: tuple[int, int]) -> None:
        joint.infer_many(states.arrays, thetas, *rows, log_z, beliefs)

    parallel.thread_map(part, parallel.shares(0, len(thetas), least=max(1, _WORTH // states.size)))
    return log_z, beliefs


def log_z_many(states: JointStates, thetas: FloatArray) -> FloatArray:
    """log Z alone, (S,), which takes a third of the time."""
    log_z = np.empty(len(thetas))

    def part(rows: tuple[int, int]) -> None:
        joint.log_z_many(states.arrays, thetas, *rows, log_z)

    parallel.thread_map(part, parallel.shares(0, len(thetas), least=max(1, _WORTH // states.size)))
    return log_z


def covariance_sum(states: JointStates, thetas: FloatArray, log_z: FloatArray, beliefs: FloatArray) -> FloatArray:
    """Σ_s Cov_s(m), (M, M), at potentials (S, T) with what ``infer_many`` says there.

    Probabilities are added up over s before they are summed along the axes, which is then done once.
    """
    if states.bytes > _SURE:
        cost = Cost(states.size, states.bytes, f"a table of {states.size:,} joint states")
        memory.require(cost, "an exact covariance", 'Take bf.Sampled(), or method="pseudo_likelihood".')
    table = np.empty(states.size)
    joint.probabilities(states.arrays, thetas, log_z, table)
    joint.sum_onto_zero(states.arrays, table)
    total = np.empty((len(states.entries), len(states.entries)))
    joint.second_moments(table, states.numbers, states.digits, states.ptr, total)
    means = beliefs[:, states.entries]
    total -= means.T @ means
    return total


def feature_covariance(graph: Graph, states: JointStates, design: Design, covariance: FloatArray) -> FloatArray:
    """C, (F, F), from the covariance of the products of indicators."""
    rows: Sparse = graph.plan_with(
        "features by products", design, lambda: (states.indicators.T @ design.matrix).tocsr()
    )
    result: FloatArray = rows.T @ (rows.T @ covariance).T
    return (result + result.T) / 2


class JointResponse(TableResponse):
    """Covariances at one point, from those of the products of indicators."""

    def __init__(
        self, graph: Graph, design: Design, states: JointStates, theta: FloatArray, marginals: Marginals
    ) -> None:
        super().__init__(design)
        self._graph, self._states, self._theta, self._marginals = graph, states, theta, marginals

    @cached_property
    def _products(self) -> FloatArray:
        log_z, beliefs = np.array([self._marginals.log_z]), self._marginals.tables[None]
        return covariance_sum(self._states, self._theta[None], log_z, beliefs)

    def covariance(self) -> FloatArray:
        require_dense(self.size, "the full covariance")
        return feature_covariance(self._graph, self._states, self.design, self._products)

    def table_product(self, directions: FloatArray) -> FloatArray:
        indicators = self._states.indicators
        result: FloatArray = indicators @ (self._products @ (indicators.T @ directions))
        return result
