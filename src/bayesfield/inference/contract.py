"""What every engine can do. Options are objects: ``engine=bf.Bethe(damping=0.3)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from bayesfield.types import Cost, FloatArray, IntArray, Marginals, Status

if TYPE_CHECKING:
    from bayesfield.graph.compiled import Design
    from bayesfield.graph.structure import Graph
    from bayesfield.response.base import Response


class Traits(NamedTuple):
    """What an engine is, so that nobody asks for its type.

    exact: its means and covariances are those of the model. has_log_z: it gives log Z. linear_response: its covariances
    come from one sparse system, so that the precision has a sparse form. as_published: the paper has posteriors by it
    without a correction, and so does ``correction="auto"`` where a user asks for it. chooses: it stands for another
    engine, ``choose(graph)``. batched: it has ``infer_many``. streams: the search makes a surface of log Z about
    the mode, by chains that stream the features (learning.search.tied). relative: log Z is known up to a constant.
    """

    exact: bool = False
    has_log_z: bool = True
    linear_response: bool = False
    as_published: bool = False
    chooses: bool = False
    batched: bool = False
    streams: bool = False
    relative: bool = False


class Price(NamedTuple):
    """Counted work of one inference and of one covariance of all features, in seconds on one core of our machine.

    each: of one of many inferences that are asked for in one call, where that is cheaper; else 0. value: of one of many
    log Z without the rest, likewise. summed: of one of many covariances whose sum is asked for, likewise. tangled: the
    part of the covariance that tables with many parameters each take, whatever its form.
    """

    inference: float
    covariance: float
    each: float = 0.0
    value: float = 0.0
    summed: float = 0.0
    tangled: float = 0.0


@runtime_checkable
class Engine(Protocol):
    """Tables θ in; log Z, beliefs, status and, on request, covariances out."""

    @property
    def traits(self) -> Traits: ...

    def preview(self, graph: Graph) -> Cost:
        """What ``infer`` would cost, found without allocating it."""
        ...

    def price(self, graph: Graph, size: int) -> Price:
        """What ``infer`` and the covariance of ``size`` features take, by counts alone."""
        ...

    def infer(self, graph: Graph, theta: FloatArray, start: Any = None) -> Marginals:
        """log Z and beliefs of all tables.

        start: the state of an earlier answer on this graph, to continue from; engines that need none ignore it.
        """
        ...

    def response(self, graph: Graph, design: Design, theta: FloatArray, marginals: Marginals) -> Response:
        """The covariance of the features at what ``infer`` returned."""
        ...

    def maximise(self, graph: Graph, theta: FloatArray) -> tuple[IntArray, Status]:
        """The most probable joint state, or the engine's approximation of it."""
        ...
