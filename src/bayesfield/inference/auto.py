"""The engine that chooses by cost: exact, then Kikuchi where short loops are few, else Bethe; and says why."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfield.graph.layers import FEW
from bayesfield.inference.contract import Price, Traits
from bayesfield.inference.messages.belief_propagation import Bethe
from bayesfield.inference.messages.kikuchi import Kikuchi
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.inference.trees.small_layer import SmallLayer
from bayesfield.types import Cost, FloatArray, IntArray, Marginals, Options, Status

if TYPE_CHECKING:
    from bayesfield.graph.compiled import Design
    from bayesfield.graph.structure import Graph
    from bayesfield.response.base import Response

_DEARER = 8  # entries of regions are passed so many times as often as those of a junction tree, at least
_LAYERED = SmallLayer()
_DENSE = 12  # factors around a variable above which short loops are not looked for: they are too many


@dataclass(frozen=True, repr=False)
class Auto(Options):
    """``exact`` if its junction tree has at most ``max_entries`` table entries, else ``loops`` or ``otherwise``; on two
    layers, one of them small, sums over the smaller one.

    Ten million entries take about 0.1 s an inference. ``loops`` (Kikuchi) is taken where it has clusters beyond the
    factors, at most ``max_clusters`` of them for each variable, and on at most ``max_factors`` factors; elsewhere
    ``otherwise`` (Bethe). ``bf.fit`` goes further: it checks the fit, and samples if the check fails.
    """

    max_entries: int = 2**24
    max_clusters: float = 2.0
    max_factors: int = 20_000
    exact: Exact = field(default_factory=Exact)
    loops: Kikuchi = field(default_factory=Kikuchi)
    otherwise: Bethe = field(default_factory=Bethe)

    traits = Traits(chooses=True)

    def price(self, graph: Graph, size: int) -> Price:
        return self.choose(graph)[0].price(graph, size)

    def choose(self, graph: Graph) -> tuple[Exact | Kikuchi | Bethe | SmallLayer, str]:
        """The engine for this graph, and the reason."""
        if (
            self.max_entries and len(graph.arrays.cardinality) > FEW and _LAYERED.fits(graph)
        ):  # before a junction tree is looked for, which takes longer
            return _LAYERED, f"exact inference was chosen: {_LAYERED.preview(graph).detail}"
        cost = self.exact.preview(graph)
        if cost.entries <= self.max_entries:
            return (
                self.exact,
                f"exact inference was chosen: {cost.detail}, within the budget of {self.max_entries:,}",
            )
        beyond = f"exact inference would need {cost.detail}, over the budget of {self.max_entries:,}"
        loops = graph.plan(("worthwhile", self), lambda _: self._worthwhile(graph))
        if loops:
            return self.loops, f"Kikuchi was chosen: {beyond}, and {loops}"
        return self.otherwise, f"Bethe was chosen: {beyond}, and short loops are too many or none"

    def _worthwhile(self, graph: Graph) -> str:
        """Why Kikuchi is worth its cost here; empty if it is not."""
        g = graph.arrays
        n, factors = len(g.cardinality), len(g.table_ptr) - 1
        if factors > self.max_factors or np.bincount(g.scope, minlength=1).max() > _DENSE:
            return ""
        regions = self.loops.regions(graph)
        wide = sum(len(r) > 2 for r in regions.outer)
        cost = self.loops.preview(graph)
        if wide > 0 and len(regions.outer) <= self.max_clusters * n and cost.entries <= self.max_entries / _DEARER:
            return f"short loops are few: {cost.detail}"
        return ""

    def preview(self, graph: Graph) -> Cost:
        return self.choose(graph)[0].preview(graph)

    def infer(self, graph: Graph, theta: FloatArray, start: Any = None) -> Marginals:
        engine, reason = self.choose(graph)
        marginals = engine.infer(graph, theta, start)
        return replace(marginals, status=replace(marginals.status, detail=reason))

    def response(self, graph: Graph, design: Design, theta: FloatArray, marginals: Marginals) -> Response:
        return self.choose(graph)[0].response(graph, design, theta, marginals)

    def maximise(self, graph: Graph, theta: FloatArray) -> tuple[IntArray, Status]:
        engine, reason = self.choose(graph)
        maximiser = engine if engine.traits.exact else self.otherwise  # Kikuchi has no max-product
        states, status = maximiser.maximise(graph, theta)
        return states, replace(status, detail=reason)
