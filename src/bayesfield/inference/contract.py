"""What every engine can do. Options are objects: ``engine=bf.Bethe(damping=0.3)``."""

from typing import Any, Protocol, runtime_checkable

from bayesfield.graph.compiled import Design
from bayesfield.graph.structure import Graph
from bayesfield.response.base import Response
from bayesfield.types import Cost, FloatArray, IntArray, Marginals, Status


@runtime_checkable
class Engine(Protocol):
    """Tables θ in; log Z, beliefs, status and, on request, covariances out."""

    def preview(self, graph: Graph) -> Cost:
        """What ``infer`` would cost, found without allocating it."""
        ...

    def infer(self, graph: Graph, theta: FloatArray, start: Any = None) -> Marginals:
        """log Z and beliefs of all tables.

        start: the state of an earlier answer on this graph, to go on from; engines that need none take no notice.
        """
        ...

    def response(self, graph: Graph, design: Design, theta: FloatArray, marginals: Marginals) -> Response:
        """The covariance of the features at what ``infer`` returned."""
        ...

    def maximise(self, graph: Graph, theta: FloatArray) -> tuple[IntArray, Status]:
        """The most probable joint state, or the engine's approximation of it."""
        ...
