"""The reweighted engine: a Bethe free energy made convex by its counting numbers (Wainwright, Jaakkola & Willsky 2005).

    log Z ≤ max_b  θᵀb + Σ_i (1 − ρ d_i) H_i + ρ Σ_a H_a

with ρ ≤ 1 the share of spanning forests, of a set that covers all factors evenly, that each factor is in: the average
of forests' entropies is above the field's. The bound is convex in θ, its optimum is one, and messages find it; so a
contrastive free energy made of it is smooth everywhere, where Bethe's jumps between fixed points. The price is a bias:
entropies are too large, so correlations are too small, and couplings that are fitted too large.

Divided by ρ this is a region graph whose factors count once: potentials θ/ρ, and variables that count 1/ρ − d_i. Its
messages, beliefs and linear response are the Kikuchi engine's, and log Z = ρ log Z'(θ/ρ), C = C'(θ/ρ)/ρ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayesfield.inference.contract import Price, Traits
from bayesfield.inference.messages.kikuchi import Kikuchi, RegionState
from bayesfield.inference.messages.region_graph import region_arrays, region_graph
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.kernels.messages import regions as kernel
from bayesfield.response.base import WeightedResponse
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

_FORESTS = 400  # spanning forests, made one after the other from the factors that were in fewest


@dataclass(frozen=True, repr=False)
class Reweighted(Options):
    """Approximate inference by tree-reweighted messages: a bound on log Z, convex, with one optimum; exact on trees.

    ``bf.fit(..., engine=bf.Reweighted())`` is for fields with hidden variables where Bethe's contrastive free energy
    has no optimum, and neither exact inference nor sampling is wanted. share: ρ, what each factor counts; by default
    the largest that spanning forests allow, which keeps the bound. Up to 1, which is Bethe, larger ones are fractional
    belief propagation: less bias, no bound. damping, tolerance, max_sweeps, max_direct: as in ``bf.Kikuchi``.
    """

    share: float | None = None
    damping: float = 0.3
    tolerance: float = 1e-12
    max_sweeps: int = 1000
    max_direct: int = 20_000

    def __post_init__(self) -> None:
        if self.share is not None and not 0.0 < self.share <= 1.0:
            raise InvalidInput(f"share, what each factor counts, lies above 0 and up to 1; got {self.share}")
        self._messages()  # which checks the rest

    traits = Traits()

    def price(self, graph: Graph, size: int) -> Price:
        return self._messages().price(graph, size)

    def preview(self, graph: Graph) -> Cost:
        return self._messages().preview(graph)

    def share_of(self, graph: Graph) -> float:
        """ρ on this graph."""
        return self.share or float(graph.plan("share of forests", _share))

    def infer(self, graph: Graph, theta: FloatArray, start: RegionState | None = None) -> Marginals:
        r, rho = self._arrays(graph)[1], self.share_of(graph)
        outbox = np.zeros(r.message_ptr[-1]) if start is None else start.outbox.copy()
        history, residual, outcome = np.empty(0), np.inf, Outcome.NOT_CONVERGED
        scaled = theta / rho
        for k, (descend, inner, damping, budget) in enumerate(self._messages().attempts()):
            if k:
                outbox[:] = 0.0
            passed = np.zeros(budget)
            sweeps, residual = kernel.run_regions(r, scaled, outbox, descend, inner, damping, self.tolerance, passed)
            history = np.concatenate([history, passed[:sweeps]])
            if residual <= self.tolerance:
                outcome = Outcome.MINIMISED if descend else Outcome.CONVERGED
                break
        outer, inner_beliefs, log_z = kernel.region_beliefs(r, scaled, outbox)
        if log_z == -np.inf:
            return Marginals(-np.inf, np.full(graph.n_entries, np.nan), Status(Outcome.IMPOSSIBLE))
        tables = np.bincount(r.term, weights=np.repeat(outer, np.diff(r.term_ptr)), minlength=graph.n_entries)
        status = Status(outcome, len(history), float(residual), history=history)
        state = RegionState(r, self._arrays(graph)[0], outbox, outer, inner_beliefs)
        return Marginals(rho * float(log_z), tables.astype(np.float64), status, state)

    def response(self, graph: Graph, design: Design, theta: FloatArray, marginals: Marginals) -> Response:
        state: RegionState = marginals.state
        nodes = marginals.tables[: int(graph.arrays.node_ptr[-1])]
        scaled = region_response(graph, design, state.graph, state.arrays, nodes, state.outer, state.inner)
        return WeightedResponse([(1.0 / self.share_of(graph), scaled)])

    def maximise(self, graph: Graph, theta: FloatArray) -> tuple[IntArray, Status]:
        """The most probable state, exactly."""
        return Exact().maximise(graph, theta)

    def _messages(self) -> Kikuchi:
        return Kikuchi("factors", 4, 4096, self.damping, self.tolerance, self.max_sweeps, self.max_direct)

    def _arrays(self, graph: Graph) -> tuple[RegionGraph, RegionArrays]:
        rho = self.share_of(graph)

        def made(g: GraphArrays) -> tuple[RegionGraph, RegionArrays]:
            found = region_graph(g, [])
            arrays = region_arrays(g, found)
            around = np.diff(arrays.slot_ptr)
            counting = 1.0 / rho - around
            whole = found._replace(counting=tuple(counting.tolist()))
            return whole, arrays._replace(counting=counting)

        return graph.plan(("reweighted regions", rho), made)


def _share(g: GraphArrays) -> float:
    """The largest ρ, about, with which ρ on every factor is below an average of spanning forests.

    Forest after forest, each from the factors that were in fewest (Kruskal): the least share of any factor converges to
    the largest that is possible, the inverse of the field's fractional arboricity. Factors of more than two variables
    count as in a hypergraph's forest: no two of their variables may be joined already.
    """
    factors, n = len(g.table_ptr) - 1, len(g.cardinality)
    if not factors:
        return 1.0
    scopes = [g.scope[g.scope_ptr[a] : g.scope_ptr[a + 1]].tolist() for a in range(factors)]
    used = np.zeros(factors)
    for done in range(1, _FORESTS + 1):
        root = list(range(n))
        for a in np.argsort(used, kind="stable"):
            tops = {_top(root, v) for v in scopes[a]}
            if len(tops) == len(scopes[a]):
                first = tops.pop()
                for other in tops:
                    root[other] = first
                used[a] += 1.0
        if used.min() == done:  # a forest itself
            return 1.0
    return float(used.min() / _FORESTS)


def _top(root: list[int], v: int) -> int:
    while root[v] != v:
        root[v] = root[root[v]]
        v = root[v]
    return v
