"""The engine that chooses: exact where a junction tree is small enough, else Bethe; and says which and why."""

from dataclasses import dataclass, field, replace

from bayesfield.graph import Design, Graph
from bayesfield.inference.belief_propagation import Bethe
from bayesfield.inference.junction_tree import Exact
from bayesfield.response import Response
from bayesfield.types import Cost, FloatArray, IntArray, Marginals, Options, Status


@dataclass(frozen=True, repr=False)
class Auto(Options):
    """``exact`` if its junction tree has at most ``max_entries`` table entries, else ``otherwise``.

    Ten million entries take about 0.1 s an inference.
    """

    max_entries: int = 2**24
    exact: Exact = field(default_factory=Exact)
    otherwise: Bethe = field(default_factory=Bethe)

    def choose(self, graph: Graph) -> tuple[Exact | Bethe, str]:
        """The engine for this graph, and the reason."""
        cost = self.exact.preview(graph)
        if cost.entries <= self.max_entries:
            return (
                self.exact,
                f"exact inference was chosen: {cost.detail}, within the budget of {self.max_entries:,}",
            )
        return self.otherwise, (
            f"Bethe was chosen: exact inference would need {cost.detail}, over the budget of {self.max_entries:,}"
        )

    def preview(self, graph: Graph) -> Cost:
        return self.choose(graph)[0].preview(graph)

    def infer(self, graph: Graph, theta: FloatArray) -> Marginals:
        engine, reason = self.choose(graph)
        marginals = engine.infer(graph, theta)
        return replace(marginals, status=replace(marginals.status, detail=reason))

    def response(self, graph: Graph, design: Design, theta: FloatArray, marginals: Marginals) -> Response:
        return self.choose(graph)[0].response(graph, design, theta, marginals)

    def maximise(self, graph: Graph, theta: FloatArray) -> tuple[IntArray, Status]:
        engine, reason = self.choose(graph)
        states, status = engine.maximise(graph, theta)
        return states, replace(status, detail=reason)
