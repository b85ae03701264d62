"""The paper's super-graph (figure 1): copies of the field at drawn parameters, tied at every position, and max-product.

Each position has one label of its own, the hub, and one in each copy; a tie takes its strength off where a copy differs
from the hub. What it maximises is Σ_s log-weight of copy s − strength · (number of differences).

Know what it is: with hard ties all copies are equal, the sum is linear in λ, and its true maximum is the best labelling
at the *mean* of the drawn parameters. Loopy max-product need not find that maximum; soft ties have another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayesfield.graph.structure import Graph, pair_graph
from bayesfield.inference.messages.belief_propagation import Bethe
from bayesfield.types import FloatArray, IntArray, InvalidInput, Status

if TYPE_CHECKING:
    from bayesfield.inference.contract import Engine

_ENGINE = Bethe(damping=0.3, max_sweeps=100)


def supergraph_labels(
    pairs: IntArray, nodes: list[FloatArray], tables: list[FloatArray], tie: float, engine: Engine = _ENGINE
) -> tuple[IntArray, Status]:
    """Labels of the hubs by max-product, (P,).

    pairs: (m, 2) neighbours, ascending. nodes (P, K) and tables (m, K, K): potentials of each copy. tie: strength; ∞
    for hard.
    """
    if not tie > 0.0:
        raise InvalidInput(f"the tie's strength is above zero, or infinite; got {tie}")
    graph, theta = _tied_copies(pairs, nodes, tables, tie)
    states, status = engine.maximise(graph, theta)
    return states[: len(nodes[0])], status


def hard_tie_labels(pairs: IntArray, nodes: list[FloatArray], tables: list[FloatArray], engine: Engine) -> IntArray:
    """The true maximum with hard ties, if the engine is exact: the best labelling at the copies' mean potentials."""
    P, K = nodes[0].shape
    theta = np.concatenate([np.mean(nodes, axis=0).ravel(), np.mean(tables, axis=0).ravel()])
    return engine.maximise(pair_graph(np.full(P, K), pairs), theta)[0]


def _tied_copies(
    pairs: IntArray, nodes: list[FloatArray], tables: list[FloatArray], tie: float
) -> tuple[Graph, FloatArray]:
    """Variables: the hubs, then the positions of each copy. Factors: ties first, then the copies' own."""
    P, K = nodes[0].shape
    hub, copies = np.arange(P), range(1, len(nodes) + 1)
    agree = np.where(np.eye(K, dtype=bool), 0.0, -tie)
    joined = [np.stack([hub, s * P + hub], axis=1) for s in copies] + [s * P + pairs for s in copies]
    graph = pair_graph(np.full(P * (len(nodes) + 1), K), np.concatenate(joined))
    ties = np.broadcast_to(agree, (len(nodes) * P, K, K))
    parts = [np.zeros(P * K), *(node.ravel() for node in nodes), ties.ravel(), *(table.ravel() for table in tables)]
    return graph, np.concatenate(parts)
