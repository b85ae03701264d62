"""Exact inference by a junction tree: log Z, marginals, covariances, samples, the most probable state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfield import memory, parallel
from bayesfield.inference.contract import Price, Traits
from bayesfield.inference.trees import tree_plan
from bayesfield.inference.trees.joint_states import (
    JointResponse,
    JointStates,
    covariance_sum,
    feature_covariance,
    infer_many,
    joint_states,
    log_z_many,
)
from bayesfield.kernels.trees import joint
from bayesfield.kernels.trees import passes as trees
from bayesfield.response.base import Response, TableResponse, require_dense
from bayesfield.response.components import UNION, component_covariance
from bayesfield.response.components import JointStates as ComponentStates
from bayesfield.response.components import joint_states as states_of_components
from bayesfield.types import Cost, FloatArray, IntArray, InvalidInput, Marginals, Options, Outcome, Status

if TYPE_CHECKING:
    from bayesfield.graph.compiled import Design
    from bayesfield.graph.structure import Graph
    from bayesfield.kernels.trees.passes import TreeArrays

_ADVICE = "Use bf.Bethe(), which needs only the model's own tables, or condition on more evidence."
_SURE = 5e7  # bytes that there always are
_DENSE = 4  # joint states for each entry of the junction tree, up to which all joint states are summed over instead
_SLAB = 1_000_000  # numbers of directions that are carried in one piece
_WORTH = 200_000  # entries of tables that are worth a thread
_DIRECTIONS = 32  # derivatives carried at a time: long enough for vector registers, short enough for the cache


@dataclass(frozen=True, repr=False)
class Exact(Options):
    """Exact inference by a junction tree; by all joint states where the field is dense.

    tries: how many rounds of greedy orders to try, ties broken at random after the first; the cheapest order wins, and
    trees that stay large are searched for six times as long. seed: of the ties.
    """

    tries: int = 4
    seed: int = 0

    traits = Traits(exact=True, batched=True)

    def price(self, graph: Graph, size: int) -> Price:
        states = self._joint_states(graph)
        if states is not None:
            return states.price(size)
        entries = float(self.preview(graph).entries)
        each = 1e-6 + 4.5e-8 * graph.n_entries + 6e-9 * entries * (1.0 + min(entries / 5e4, 2.5))  # beyond the cache
        return Price(5e-5 + 5e-8 * entries, 3e-4 + 2e-8 * entries * size, each)

    def preview(self, graph: Graph) -> Cost:
        """Size of the junction tree, found without building it; or how many joint states are summed over instead."""
        states = self._joint_states(graph)
        if states is not None:
            return Cost(states.size, states.bytes, f"a sum over {states.size:,} joint states")
        return self._tree_cost(graph)

    def _tree_cost(self, graph: Graph) -> Cost:
        key = ("size of the junction tree", self)
        if key not in graph.plans:
            graph.plans[key] = tree_plan.cost(graph.arrays, self._elimination(graph))
        cost: Cost = graph.plans[key]
        return cost

    def prepare(self, graph: Graph) -> None:
        """What inference needs of the structure alone."""
        if self._joint_states(graph) is None:
            self.junction_tree(graph)

    def _joint_states(self, graph: Graph) -> JointStates | None:
        """The layout of all joint states where the junction tree of a field of pairs has about as many entries."""
        key = ("all joint states", self)
        if key not in graph.plans:
            log_size = float(np.log(graph.arrays.cardinality).sum())
            dense = log_size <= np.log(_DENSE * max(self._tree_cost(graph).entries, 1))
            graph.plans[key] = joint_states(graph.arrays) if dense else None
        result: JointStates | None = graph.plans[key]
        return result

    def infer(self, graph: Graph, theta: FloatArray, start: Any = None) -> Marginals:
        states = self._joint_states(graph)
        if states is not None:
            beliefs = np.empty(len(theta))
            log_z = joint.infer(states.arrays, theta, beliefs)
            if np.isfinite(log_z):
                return Marginals(log_z, beliefs, _EXACT, states)
        key = ("junction tree", self)
        tree = graph.plans[key] if key in graph.plans else self.junction_tree(graph)
        tables, marginal, beliefs = np.empty(tree.table_ptr[-1]), np.empty(tree.buffer_size), np.empty(len(theta))
        log_z = trees.calibrate(tree, theta, tables, marginal, beliefs)
        if log_z == -np.inf:
            return Marginals(-np.inf, np.full(graph.n_entries, np.nan), Status(Outcome.IMPOSSIBLE))
        return Marginals(log_z, beliefs, _EXACT, (tree, tables, marginal))

    def infer_many(self, graph: Graph, thetas: FloatArray) -> tuple[FloatArray, FloatArray]:
        """log Z, (S,), and beliefs, (S, T), at many potentials (S, T); −∞ where every state has probability zero."""
        states = self._joint_states(graph)
        if states is not None:
            log_z, beliefs = infer_many(states, thetas)
            if np.isfinite(log_z).all():
                return log_z, beliefs
        beliefs = np.empty_like(thetas)
        return self._calibrated(graph, thetas, beliefs), beliefs

    def _calibrated(self, graph: Graph, thetas: FloatArray, beliefs: FloatArray) -> FloatArray:
        """log Z, (S,); beliefs (S, T) are filled, unless they are (0, T)."""
        tree, log_z = self.junction_tree(graph), np.empty(len(thetas))
        if thetas.size <= _WORTH:
            trees.calibrate_many(tree, thetas, 0, len(thetas), log_z, beliefs)
            return log_z

        def part(rows: tuple[int, int]) -> None:
            trees.calibrate_many(tree, thetas, *rows, log_z, beliefs)

        parallel.thread_map(part, parallel.shares(0, len(thetas), least=max(1, _WORTH // max(thetas.shape[1], 1))))
        return log_z

    def log_z_many(self, graph: Graph, thetas: FloatArray) -> FloatArray:
        """log Z alone, (S,), at many potentials (S, T)."""
        states = self._joint_states(graph)
        if states is not None:
            log_z = log_z_many(states, thetas)
            if np.isfinite(log_z).all():
                return log_z
        return self._calibrated(graph, thetas, np.empty((0, thetas.shape[1])))

    def covariance_sum(self, graph: Graph, design: Design, thetas: FloatArray) -> FloatArray | None:
        """Σ_s Cov_s of the features at potentials (S, T), all at once; None where the field is large."""
        states = self._joint_states(graph)
        if states is not None:
            log_z, beliefs = infer_many(states, thetas)
            if np.isfinite(log_z).all():
                products = covariance_sum(states, thetas, log_z, beliefs)
                return feature_covariance(graph, states, design, products)
        if design.matrix.shape[0] * design.matrix.shape[1] > _SLAB or _components(graph) is not None:
            return None
        directions = np.ascontiguousarray(design.matrix.toarray())
        total = np.zeros_like(directions)
        for k in range(0, directions.shape[1], _DIRECTIONS):
            part = np.ascontiguousarray(directions[:, k : k + _DIRECTIONS])
            moved = np.zeros_like(part)
            if not trees.tangent_sum(self.junction_tree(graph), thetas, part, moved):
                return None
            total[:, k : k + _DIRECTIONS] = moved
        result: FloatArray = design.transpose @ total
        return (result + result.T) / 2

    def response(self, graph: Graph, design: Design, theta: FloatArray, marginals: Marginals) -> Response:
        if isinstance(marginals.state, JointStates):
            return JointResponse(graph, design, marginals.state, theta, marginals)
        return TreeResponse(self, graph, design, theta, *marginals.state)

    def maximise(self, graph: Graph, theta: FloatArray) -> tuple[IntArray, Status]:
        """The most probable joint state."""
        tree = self.junction_tree(graph)
        tables, buffer = np.empty(tree.table_ptr[-1]), np.empty(tree.buffer_size)
        best = trees.collect_log(tree, theta, tables, buffer, True)
        states = np.zeros(len(graph.arrays.cardinality), dtype=np.int64)
        if best == -np.inf:
            return states, Status(Outcome.IMPOSSIBLE)
        trees.decode(tree, tables, states)
        return states, _EXACT

    def sample(self, graph: Graph, theta: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
        """n independent joint states, exactly from p."""
        tree = self.junction_tree(graph)
        tables = np.empty(tree.table_ptr[-1])
        log_z = trees.calibrate(tree, theta, tables, np.empty(tree.buffer_size), np.empty(len(theta)))
        states = np.zeros((n, len(graph.arrays.cardinality)), dtype=np.int64)
        if log_z == -np.inf:
            raise InvalidInput(f"nothing to sample: {Outcome.IMPOSSIBLE.value}")
        step = max(1, 4_000_000 // max(len(tree.columns), 1))
        for k in range(0, n, step):
            part = states[k : k + step]
            trees.draw(tree, tables, rng.random((len(part), len(tree.columns))), part)
        return states

    def _elimination(self, graph: Graph) -> tree_plan.Elimination:
        key = ("elimination", self)
        if key not in graph.plans:
            graph.plans[key] = tree_plan.eliminate(graph.arrays, tries=self.tries, seed=self.seed)
        found: tree_plan.Elimination = graph.plans[key]
        return found

    def junction_tree(self, graph: Graph) -> TreeArrays:
        key = ("junction tree", self)
        if key not in graph.plans:
            cost = self._tree_cost(graph)
            if cost.bytes > _SURE:
                memory.require(cost, "exact inference", _ADVICE)
            graph.plans[key] = tree_plan.layout(graph.arrays, found=self._elimination(graph))
        tree: TreeArrays = graph.plans[key]
        return tree


_EXACT = Status(Outcome.EXACT)


class TreeResponse(TableResponse):
    """Exact covariances, by the derivative of the two passes along each direction, or by components' joint states."""

    def __init__(
        self,
        engine: Exact,
        graph: Graph,
        design: Design,
        theta: FloatArray,
        tree: TreeArrays,
        tables: FloatArray,
        marginal: FloatArray,
    ) -> None:
        self.design, self._engine, self._graph, self._theta = design, engine, graph, theta
        self._tree, self._tables, self._marginal = tree, tables, marginal

    def covariance(self) -> FloatArray:
        small = self._engine.covariance_sum(self._graph, self.design, self._theta[None])
        if small is not None:
            return small
        states = _components(self._graph)
        if states is None:
            return super().covariance()
        require_dense(self.size, "the full covariance")
        return component_covariance(self._graph, states, self.design, self._theta)

    def table_product(self, directions: FloatArray) -> FloatArray:
        out = np.empty_like(directions)
        for k in range(0, directions.shape[1], _DIRECTIONS):
            part = np.ascontiguousarray(directions[:, k : k + _DIRECTIONS])
            moved = np.empty_like(part)
            trees.tangent(self._tree, self._tables, self._marginal, part, moved)
            out[:, k : k + _DIRECTIONS] = moved
        return out


def _components(graph: Graph) -> ComponentStates | None:
    """The joint states of a union of many small graphs, whose covariance goes by them; None for others."""
    return states_of_components(graph) if len(graph.arrays.cardinality) >= UNION else None
