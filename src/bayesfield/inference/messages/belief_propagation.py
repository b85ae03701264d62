"""The Bethe engine: loopy belief propagation, and direct minimisation of its free energy where messages circle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from scipy import sparse

from bayesfield.graph.structure import Graph, table_entries
from bayesfield.inference.contract import Price, Traits
from bayesfield.inference.messages.newton import newton
from bayesfield.inference.messages.odds import Odds, as_odds, beliefs, pass_messages
from bayesfield.inference.messages.parts import component_of, part_of, unsettled
from bayesfield.kernels.messages import pairs
from bayesfield.kernels.messages import sum_product as messages
from bayesfield.kernels.messages.max_product import max_pairs
from bayesfield.kernels.messages.pairs import pair_arrays
from bayesfield.kernels.messages.residual import run_residual
from bayesfield.response.linear import SingularFactor, bethe_response
from bayesfield.response.local import local_response
from bayesfield.response.susceptibility import SusceptibilityResponse
from bayesfield.types import Cost, FloatArray, GraphArrays, IntArray, InvalidInput, Marginals, Options, Outcome, Status

if TYPE_CHECKING:
    from bayesfield.graph.compiled import Design
    from bayesfield.response.base import Response

Schedule = Literal["sequential", "flooding", "residual"]
Run = tuple[int, float]


class _Settled(NamedTuple):
    """How messages ended, and the residual after each sweep: of the part of a graph that took longest."""

    outcome: Outcome
    residual: float
    history: FloatArray


_WORSE = (Outcome.CONVERGED, Outcome.MINIMISED, Outcome.NOT_CONVERGED)


def _nan_last(residual: float) -> float:
    return residual if residual == residual else np.inf


@dataclass(frozen=True, repr=False)
class Bethe(Options):
    """Approximate inference by loopy belief propagation; exact on trees.

    schedule: "sequential" (variable by variable, back and forth), "flooding" (all at once) or "residual" (the message
    that would change most). damping: share of the old log-message kept, in [0, 1). tolerance: largest change of a
    log-message by an undamped update, so damping does not loosen it; never below what rounding allows.
    max_sweeps: budget of message passing. max_direct: budget, in sweeps, of the minimisation that follows if message
    passing has not settled; 0 for none.
    linear_response: "sparse" solves one system as sparse as the graph; "messages" passes derivatives along.
    single: messages of binary pairwise fields in single precision: half the memory, for a tolerance from 1e-6 on.
    """

    schedule: Schedule = "sequential"
    damping: float = 0.0
    tolerance: float = 1e-13
    max_sweeps: int = 1000
    max_direct: int = 50_000
    linear_response: Literal["sparse", "messages"] = "sparse"
    single: bool = False

    def __post_init__(self) -> None:
        if self.schedule not in ("sequential", "flooding", "residual"):
            raise InvalidInput(f'schedule is "sequential", "flooding" or "residual"; got {self.schedule!r}')
        if not 0.0 <= self.damping < 1.0:
            raise InvalidInput(f"damping lies in [0, 1); got {self.damping}")
        if self.linear_response not in ("sparse", "messages"):
            raise InvalidInput(f'linear_response is "sparse" or "messages"; got {self.linear_response!r}')
        if not self.tolerance > 0.0 or self.max_sweeps < 1 or self.max_direct < 0:
            raise InvalidInput("tolerance and max_sweeps must be above zero, and max_direct not below it")
        if self.single and self.tolerance < _SINGLE:
            raise InvalidInput(
                f"single precision tells messages apart to about {_SINGLE:.0e}; got a tolerance of "
                f"{self.tolerance:.0e}: give tolerance={_SINGLE:.0e}, or leave single=True out"
            )

    @property
    def traits(self) -> Traits:
        return Traits(linear_response=self.linear_response == "sparse", as_published=True)

    def price(self, graph: Graph, size: int) -> Price:
        entries = float(graph.n_entries)
        return Price(1e-4 + 1e-6 * entries, 3e-3 + 5e-7 * entries + 1e-9 * size * size)

    def preview(self, graph: Graph) -> Cost:
        numbers = 4 * int(graph.arrays.message_ptr[-1]) + 2 * graph.n_entries
        return Cost(graph.n_entries, 8 * numbers, f"{graph.n_entries:,} table entries and their messages")

    def infer(self, graph: Graph, theta: FloatArray, start: FloatArray | None = None) -> Marginals:
        """start: messages to begin from (``marginals.state`` of an earlier call), else uniform."""
        g = graph.arrays
        tolerance = self._attainable(g, theta)
        inbox = np.zeros(g.message_ptr[-1]) if start is None else start.copy()
        odds = as_odds(graph, theta)
        settled = self._settled(graph, theta, odds, inbox, tolerance)
        outcome, residual, history = settled.outcome, settled.residual, settled.history
        sweeps = len(history)
        tables = np.empty(graph.n_entries)
        if odds is not None:
            log_z = beliefs(graph, theta, odds, inbox, tables)
        else:
            cavity, _ = messages.cavities(g, theta, inbox)
            log_z = messages.beliefs(g, theta, inbox, cavity, tables)
        if log_z == -np.inf:
            outcome = Outcome.IMPOSSIBLE
        return Marginals(float(log_z), tables, Status(outcome, int(sweeps), float(residual), history=history), inbox)

    def _settled(
        self, graph: Graph, theta: FloatArray, odds: Odds | None, inbox: FloatArray, tolerance: float
    ) -> _Settled:
        """Message passing, and where it circles the minimisation; parts of a union that do not settle by themselves."""
        first, few = self.max_sweeps, odds is not None or self.schedule != "sequential" or self.max_sweeps <= _TOGETHER
        if not few and graph.plan("components", component_of).max(initial=0) > 0:
            first = _TOGETHER
        history = np.zeros(first)
        sweeps, residual = self._pass_messages(graph, theta, odds, inbox, history, tolerance)
        history = history[:sweeps]
        if residual <= tolerance:
            return _Settled(Outcome.CONVERGED, residual, history)
        if first < self.max_sweeps:
            return self._settled_by_parts(graph, theta, inbox, tolerance, _Settled(Outcome.CONVERGED, 0.0, history))
        if not self.max_direct:
            return _Settled(Outcome.NOT_CONVERGED, residual, history)
        inbox[~np.isfinite(inbox)] = 0.0
        # states on their way to probability zero have logs so large that their rounding shows in the others
        tolerance = max(tolerance, float(_ROUNDING * np.abs(inbox).max(initial=0.0)))
        residual, descent = self._minimise(graph, theta, inbox, tolerance)
        outcome = Outcome.MINIMISED if residual <= tolerance else Outcome.NOT_CONVERGED
        return _Settled(outcome, residual, np.concatenate([history, descent]))

    def _settled_by_parts(
        self, graph: Graph, theta: FloatArray, inbox: FloatArray, tolerance: float, sofar: _Settled
    ) -> _Settled:
        for component in unsettled(graph, theta, inbox, tolerance):
            part = part_of(graph, component)
            own = inbox[part.messages]
            found = self._settled(part.graph, theta[part.entries], None, own, tolerance)
            inbox[part.messages] = own
            worse = _WORSE.index(found.outcome) > _WORSE.index(sofar.outcome)
            longer = found.history if len(found.history) > len(sofar.history) else sofar.history
            sofar = _Settled(
                found.outcome if worse else sofar.outcome, max(found.residual, sofar.residual, key=_nan_last), longer
            )
        return sofar

    def response(self, graph: Graph, design: Design, theta: FloatArray, marginals: Marginals) -> Response:
        if self.linear_response == "sparse":
            try:
                local = local_response(graph, design, marginals.tables)
                return local if local is not None else bethe_response(graph, design, marginals.tables)
            except SingularFactor:
                pass  # hard constraints tie variables to one another; the messages' way inverts nothing
        return SusceptibilityResponse(graph, design, marginals.tables)

    def maximise(self, graph: Graph, theta: FloatArray) -> tuple[IntArray, Status]:
        """A joint state by max-product; the most probable one on trees."""
        g = graph.arrays
        tolerance = self._attainable(g, theta)
        inbox = np.zeros(g.message_ptr[-1])
        history = np.zeros(self.max_sweeps)
        if self.schedule == "residual":
            run = run_residual(g, theta, inbox, self.damping, tolerance, history, True)
        else:
            in_pairs = self.schedule == "sequential" and bool((np.diff(g.scope_ptr) == 2).all())
            if in_pairs:
                run = max_pairs(g, theta, inbox, self.damping, tolerance, history)
            else:
                flooding = self.schedule == "flooding"
                run = messages.run_sweeps(g, theta, inbox, flooding, self.damping, tolerance, history, True)
        states = np.zeros(len(g.cardinality), dtype=np.int64)
        messages.decode(g, theta, inbox, graph.plan("walk", _walk), states)
        outcome, detail = Outcome.CONVERGED if run[1] <= tolerance else Outcome.NOT_CONVERGED, ""
        if theta[table_entries(g, states[None, :])].sum() == -np.inf:
            cavity, _ = messages.cavities(g, theta, inbox)
            nothing = messages.beliefs(g, theta, inbox, cavity, np.empty(graph.n_entries)) == -np.inf
            outcome, detail = Outcome.NOT_CONVERGED, "the state found has probability zero"
            if nothing:
                outcome, detail = Outcome.IMPOSSIBLE, ""
        return states, Status(outcome, int(run[0]), float(run[1]), detail, history[: run[0]])

    def _attainable(self, g: GraphArrays, theta: FloatArray) -> float:
        """The tolerance, but not below the rounding of sums as large as a variable's potentials can add up to."""
        largest = messages.largest(theta)
        degree = np.diff(g.slot_ptr).max(initial=0)
        return max(self.tolerance, float(_ROUNDING * largest * (1 + degree)))

    def _minimise(
        self, graph: Graph, theta: FloatArray, inbox: FloatArray, tolerance: float
    ) -> tuple[float, FloatArray]:
        """Descend by the double loop; now and then see whether Newton's method finishes from there."""
        history = np.empty(0)
        residual, chunk = np.inf, _FIRST_CHUNK
        while len(history) < self.max_direct:
            descent = np.zeros(min(chunk, self.max_direct - len(history)))
            sweeps, residual = messages.double_loop(graph.arrays, theta, inbox, tolerance, _INNER, descent)
            history = np.concatenate([history, descent[:sweeps]])
            if residual <= tolerance:
                break
            polished = inbox.copy()
            finished = newton(graph, theta, polished, tolerance)
            if finished <= tolerance:
                inbox[:], residual = polished, finished
                history = np.append(history, finished)
                break
            chunk *= 2
        return residual, history

    def _pass_messages(
        self,
        graph: Graph,
        theta: FloatArray,
        odds: Odds | None,
        inbox: FloatArray,
        history: FloatArray,
        tolerance: float,
    ) -> Run:
        """Message passing by the fastest kernel that is safe for these tables."""
        g = graph.arrays
        if self.schedule == "residual":
            return run_residual(g, theta, inbox, self.damping, tolerance, history, False)
        options = (inbox, self.schedule == "flooding", self.damping, tolerance, history)
        if odds is not None:
            return pass_messages(graph, odds, *options, single=self.single)
        if graph.pairs and not graph.binary_pairs and pairs.log_range(g, theta) < pairs.SAFE_RANGE:
            psi = messages.potentials(g, theta)
            ratio = pairs.potts_ratio(g, psi)
            return pairs.run_tables(g, graph.plan("pairs", pair_arrays), theta, psi, ratio, *options)
        return messages.run_sweeps(g, theta, *options, False)


_TOGETHER = 100  # sweeps over all graphs of a union, before those that have not settled go on by themselves
_ROUNDING = 16 * np.finfo(np.float64).eps
_SINGLE = 1e-6  # smallest tolerance with messages in single precision
_FIRST_CHUNK = 300  # sweeps of the double loop before Newton's method is tried; doubled each time it fails
_INNER = 3  # sweeps of the convex problem before its tangent is moved


def _walk(g: GraphArrays) -> IntArray:
    """The variables in breadth-first order, component by component."""
    n, m = len(g.cardinality), len(g.table_ptr) - 1
    pairs_matrix = sparse.coo_array((np.ones(len(g.scope)), (g.scope, n + g.slot_factor)), shape=(n + m, n + m)).tocsr()
    _, component = sparse.csgraph.connected_components(pairs_matrix, directed=False)
    _, first = np.unique(component, return_index=True)
    found = [
        sparse.csgraph.breadth_first_order(pairs_matrix, start, directed=False, return_predecessors=False)
        for start in first
    ]
    order = np.concatenate(found).astype(np.int64) if found else np.empty(0, dtype=np.int64)
    return order[order < n]
