"""The Kikuchi engine: generalized belief propagation on clusters of variables; exact when they form a junction tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from bayesfield import memory
from bayesfield.inference.contract import Price, Traits
from bayesfield.inference.messages.region_graph import loops, mini_buckets, region_arrays, region_graph
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.kernels.messages import regions as kernel
from bayesfield.response.regions import region_response
from bayesfield.types import (
    Cost,
    FloatArray,
    GraphArrays,
    IntArray,
    InvalidInput,
    Marginals,
    Options,
    Outcome,
    RegionGraph,
    Status,
)

if TYPE_CHECKING:
    from bayesfield.graph.compiled import Design
    from bayesfield.graph.structure import Graph
    from bayesfield.kernels.messages.regions import RegionArrays
    from bayesfield.response.base import Response

Clusters = Literal["loops", "plaquettes", "triplets", "mini-buckets", "factors"] | tuple[tuple[int, ...], ...]

_NAMES = ("loops", "plaquettes", "triplets", "mini-buckets", "factors")
_INNER = 3  # sweeps of the convex problem before its tangent is moved


class RegionState(NamedTuple):
    """What the engine found: region beliefs, and the messages to start from again."""

    arrays: RegionArrays
    graph: RegionGraph
    outbox: FloatArray
    outer: FloatArray
    inner: FloatArray


@dataclass(frozen=True, repr=False)
class Kikuchi(Options):
    """Approximate inference with clusters as regions: better than Bethe where short loops matter.

    clusters: "loops" of at most ``max_length`` variables, "plaquettes" (loops of at most 4: the squares of a lattice),
    "triplets", "mini-buckets" of at most ``max_entries`` table entries, "factors" (Bethe's own regions), or sets of
    variable numbers.
    damping, tolerance, max_sweeps and max_direct are as in Bethe (undamped, messages on nested regions hardly ever
    settle); where they do not settle, they are tried once more with half of what the damping leaves, and then the
    region free energy is minimised by a double loop.
    """

    clusters: Clusters = "loops"
    max_length: int = 4
    max_entries: int = 4096
    damping: float = 0.4
    tolerance: float = 1e-12
    max_sweeps: int = 300
    max_direct: int = 20_000

    def __post_init__(self) -> None:
        if isinstance(self.clusters, str):
            if self.clusters not in _NAMES:
                choice = ", ".join(f'"{name}"' for name in _NAMES)
                raise InvalidInput(f"clusters are {choice} or sets of variables; got {self.clusters!r}")
        else:
            plain = tuple(tuple(int(v) for v in cluster) for cluster in self.clusters)
            object.__setattr__(self, "clusters", plain)
        if not 0.0 <= self.damping < 1.0 or not self.tolerance > 0.0 or self.max_sweeps < 1 or self.max_direct < 0:
            raise InvalidInput("damping lies in [0, 1), tolerance and max_sweeps above zero, max_direct not below it")

    traits = Traits(linear_response=True)

    def price(self, graph: Graph, size: int) -> Price:
        entries = float(self.preview(graph).entries)
        return Price(1e-3 + 1.5e-5 * entries, 1e-3 + 2e-5 * entries + 2e-9 * size * size)

    def preview(self, graph: Graph) -> Cost:
        regions = self.regions(graph)
        size = graph.arrays.cardinality.astype(float)
        entries = float(sum(np.prod(size[list(r)]) for r in regions.outer))
        largest = max((len(r) for r in regions.outer), default=0)
        text = f"{len(regions.outer)} clusters of up to {largest} variables and {entries:,.0f} table entries"
        return Cost(entries, 8 * 24 * entries, text)

    def infer(self, graph: Graph, theta: FloatArray, start: RegionState | None = None) -> Marginals:
        r, regions = self._arrays(graph), self.regions(graph)
        outbox = np.zeros(r.message_ptr[-1]) if start is None else start.outbox.copy()
        history, residual, outcome = np.empty(0), np.inf, Outcome.NOT_CONVERGED
        for k, (descend, inner_sweeps, damping, budget) in enumerate(self.attempts()):
            if k:
                outbox[:] = 0.0
            passed = np.zeros(budget)
            sweeps, residual = kernel.run_regions(
                r, theta, outbox, descend, inner_sweeps, damping, self.tolerance, passed
            )
            history = np.concatenate([history, passed[:sweeps]])
            if residual <= self.tolerance:
                outcome = Outcome.MINIMISED if descend else Outcome.CONVERGED
                break
        outer, inner, log_z = kernel.region_beliefs(r, theta, outbox)
        runaway = outcome is Outcome.NOT_CONVERGED and not np.isfinite(residual)
        detail = "the messages ran away: these clusters do not suit couplings so strong; take others" if runaway else ""
        if log_z == -np.inf:
            return Marginals(-np.inf, np.full(graph.n_entries, np.nan), Status(Outcome.IMPOSSIBLE))
        tables = np.bincount(r.term, weights=np.repeat(outer, np.diff(r.term_ptr)), minlength=graph.n_entries).astype(
            np.float64
        )
        status = Status(outcome, len(history), float(residual), detail, history)
        return Marginals(float(log_z), tables, status, RegionState(r, regions, outbox, outer, inner))

    def attempts(self) -> list[tuple[bool, int, float, int]]:
        """What is tried in turn: descent or messages, sweeps between tangents, damping, most sweeps."""
        messages = [(False, 1, damping, self.max_sweeps) for damping in (self.damping, 0.5 + 0.5 * self.damping)]
        return messages + [(True, _INNER, 0.0, self.max_direct)] * (self.max_direct > 0)

    def response(self, graph: Graph, design: Design, theta: FloatArray, marginals: Marginals) -> Response:
        state: RegionState = marginals.state
        n_node = int(graph.arrays.node_ptr[-1])
        return region_response(
            graph, design, state.graph, state.arrays, marginals.tables[:n_node], state.outer, state.inner
        )

    def maximise(self, graph: Graph, theta: FloatArray) -> tuple[IntArray, Status]:
        """The most probable state, exactly: Kikuchi has no max-product of its own."""
        return Exact().maximise(graph, theta)

    def regions(self, graph: Graph) -> RegionGraph:
        """The clusters, their intersections and counting numbers on this graph."""
        return graph.plan(("regions", self.clusters, self.max_length, self.max_entries), self._find)

    def _find(self, g: GraphArrays) -> RegionGraph:
        found: Sequence[Sequence[int]]
        if not isinstance(self.clusters, str):
            found = self.clusters
        elif self.clusters == "loops":
            found = loops(g, self.max_length)
        elif self.clusters in ("plaquettes", "triplets"):
            found = loops(g, 4 if self.clusters == "plaquettes" else 3)
        elif self.clusters == "mini-buckets":
            found = mini_buckets(g, self.max_entries)
        else:
            found = []
        return region_graph(g, found)

    def _arrays(self, graph: Graph) -> RegionArrays:
        regions = self.regions(graph)
        key = ("region arrays", self.clusters, self.max_length, self.max_entries)
        if key not in graph.plans:
            memory.require(self.preview(graph), "Kikuchi inference", "Take smaller clusters, or bf.Bethe().")
        return graph.plan(key, lambda g: region_arrays(g, regions))
