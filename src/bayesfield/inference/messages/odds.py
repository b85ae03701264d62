"""Belief propagation on binary pairwise fields in odds: in one block where small, in several where large."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesfield import parallel
from bayesfield.kernels.messages import odds as kernel
from bayesfield.kernels.messages.pairs import SAFE_RANGE, looks, pair_arrays
from bayesfield.types import FloatArray, GraphArrays

if TYPE_CHECKING:
    from bayesfield.graph.structure import Graph
    from bayesfield.kernels.messages.odds import Blocks

_LARGE = 50_000  # edges from which blocks are worth it
_BLOCKS = 8
_CROSSING = 0.05  # share of the messages that may come a sweep late
_PIECES = 8  # of sums, however many cores there are, so that they come out the same


class Odds(NamedTuple):
    """θ as odds: see kernel.odds_form."""

    node: FloatArray
    coupling: FloatArray
    field: FloatArray


def as_odds(graph: Graph, theta: FloatArray) -> Odds | None:
    """None where odds might overflow, or states are not two, or factors not pairs."""
    if not graph.binary_pairs:
        return None
    *odds, worst = kernel.odds_form(graph.arrays, theta)
    return Odds(*odds) if worst < SAFE_RANGE else None


def pass_messages(
    graph: Graph,
    odds: Odds,
    inbox: FloatArray,
    flooding: bool,
    damping: float,
    tolerance: float,
    history: FloatArray,
    single: bool = False,
) -> tuple[int, float]:
    """messages.run_sweeps: to the same fixed points, faster. single: messages in single precision."""
    g = graph.arrays
    if flooding or (len(g.table_ptr) - 1 < _LARGE and not single):
        order = graph.plan("pairs", pair_arrays)
        return kernel.run_odds(g, order, *odds, inbox, flooding, damping, tolerance, history)
    cut: Blocks = graph.plan("blocks", lambda _: _blocks(graph))
    kind = np.float32 if single else np.float64
    node, a = np.empty(len(g.cardinality), kind), np.empty(len(cut.to), kind)
    r = np.empty(len(cut.to) + len(cut.arrives), kind)
    parts = parallel.spans(cut.bounds.tolist())
    sweeps, residual = len(history), 0.0
    with parallel.hands() as each:
        each(lambda part: kernel.start_odds(g, *odds, inbox, part, node, a, r), parts)
        r[len(cut.to) :] = r[cut.arrives]
        for sweep in range(len(history)):
            look, back = looks(sweep, len(history)), sweep % 2 == 1
            send = partial(kernel.sweep_odds, g.slot_ptr, cut.to)
            moved = each(lambda part: send(part, node, a, r, r, back, damping, look), parts)  # noqa: B023
            kernel.deliver(cut.arrives, r)
            residual = max(moved) if look else residual
            history[sweep] = residual
            if look and residual <= tolerance:
                sweeps = sweep + 1
                break
        each(lambda part: kernel.end_odds(g, odds.field, part, r, inbox), parts)
    return sweeps, residual


def _blocks(graph: Graph) -> Blocks:
    """As many as fixed, so that numbers do not depend on the cores; one where many edges would cross borders."""
    g, order = graph.arrays, graph.plan("pairs", pair_arrays)
    slots = np.arange(_BLOCKS + 1) * len(g.slots) // _BLOCKS
    bounds = np.searchsorted(g.slot_ptr, slots)
    bounds[-1] = len(g.cardinality)
    found = kernel.blocks(g, order, bounds)
    if len(found.arrives) <= _CROSSING * len(g.slots):
        return found
    return kernel.blocks(g, order, np.array([0, len(g.cardinality)]))


def beliefs(graph: Graph, theta: FloatArray, odds: Odds, inbox: FloatArray, out: FloatArray) -> float:
    """Beliefs of all tables, and log Z."""
    g: GraphArrays = graph.arrays
    together = np.empty(len(g.cardinality))
    shares = parallel.shares

    def nodes(part: tuple[int, int]) -> float:
        return kernel.node_beliefs(g, odds.node, odds.field, inbox, part, together, out)

    def factors(part: tuple[int, int]) -> float:
        return kernel.factor_beliefs(g, odds.coupling, odds.field, inbox, together, part, out)

    log_z = kernel.constants(g, theta)
    log_z += sum(parallel.thread_map(nodes, shares(0, len(g.cardinality), always=_PIECES)))
    return log_z + sum(parallel.thread_map(factors, shares(0, len(g.table_ptr) - 1, always=_PIECES)))
