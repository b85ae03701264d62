"""The engine of tied fields on large graphs: few chains, long, that stream the sums of the features only.

It answers for log Z near one point of the parameters: ``learning.search.tied`` runs its chains at parameters spread
over the posterior and fits log Z to their means, and the phase of that surface then answers as any other with log Z.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bayesfield.inference.contract import Price, Traits
from bayesfield.inference.messages.belief_propagation import Bethe
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.types import Cost, FloatArray, IntArray, InvalidInput, Marginals, Options, Status

if TYPE_CHECKING:
    from bayesfield.graph.compiled import Design
    from bayesfield.graph.structure import Graph
    from bayesfield.response.base import Response

_EACH = 2e-6  # seconds of one evaluation of the surface among many
_USUAL = 1e5  # variables
_PER_VARIABLE = 150  # bytes: neighbours, pairs and words of all chains
_BELIEFS = Sampled(chains=256)


@dataclass(frozen=True, repr=False)
class Streamed(Options):
    """Inference for fits of few parameters that are tied over many variables.

    error: Monte-Carlo error of the mode, in posterior standard deviations, at which chains end. budget: counted work
    that they may take, in seconds of one core of our machine, for up to 100,000 variables; more are allowed more, up to
    eight times as much. seed: of everything.
    """

    error: float = 0.085
    budget: float = 8.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.error > 0.0 or not self.budget > 0.0:
            raise InvalidInput(f"error and budget must be above zero; got {self.error} and {self.budget}")

    traits = Traits(streams=True)

    def allowed(self, graph: Graph) -> float:
        """Seconds of counted work for this graph."""
        return self.budget * min(max(len(graph.arrays.cardinality) / _USUAL, 1.0), 8.0)

    def price(self, graph: Graph, size: int) -> Price:
        """Of the surface, once it is there; what the chains take is counted by the plan."""
        return Price(1e-4, 1e-4, _EACH)

    def preview(self, graph: Graph) -> Cost:
        n = len(graph.arrays.cardinality)
        return Cost(graph.n_entries, float(_PER_VARIABLE * n), f"chains of {n:,} variables that stream the features")

    def infer(self, graph: Graph, theta: FloatArray, start: Any = None) -> Marginals:
        """Beliefs of all tables are not this engine's work: some chains of the sampled one find them, without log Z."""
        return _BELIEFS.infer(graph, theta, start)

    def response(self, graph: Graph, design: Design, theta: FloatArray, marginals: Marginals) -> Response:
        return _BELIEFS.response(graph, design, theta, marginals)

    def maximise(self, graph: Graph, theta: FloatArray) -> tuple[IntArray, Status]:
        return Bethe().maximise(graph, theta)
