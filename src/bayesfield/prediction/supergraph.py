"""The paper's super-graph (figure 1): copies of the field at drawn parameters, tied at every position, and max-product.

Each position has one label of its own, the hub, and one in each copy; a tie takes its strength off where a copy differs
from the hub. What it maximises is Σ_s log-weight of copy s − strength · (number of differences).

Know what it is: with hard ties all copies are equal, the sum is linear in λ, and its true maximum is the best labelling
at the *mean* of the drawn parameters. Loopy max-product need not find that maximum; soft ties have another one.
"""

import numpy as np

from bayesfield.graph import Graph, pair_graph
from bayesfield.inference import Bethe
from bayesfield.inference.chain import best_labellings
from bayesfield.kernels.chain import ChainArrays
from bayesfield.types import FloatArray, IntArray, InvalidInput, Status

_ENGINE = Bethe(damping=0.3, max_sweeps=300)


def supergraph_labels(
    chains: ChainArrays, nodes: list[FloatArray], edges: list[FloatArray], tie: float, engine: Bethe = _ENGINE
) -> tuple[IntArray, Status]:
    """Labels of the hubs by max-product, (P,). nodes, edges: potentials of each copy. tie: strength; ∞ for hard."""
    if not tie > 0.0:
        raise InvalidInput(f"the tie's strength is above zero, or infinite; got {tie}")
    graph, theta = _tied_copies(chains, nodes, edges, tie)
    states, status = engine.maximise(graph, theta)
    return states[: len(nodes[0])], status


def hard_tie_labels(chains: ChainArrays, nodes: list[FloatArray], edges: list[FloatArray]) -> IntArray:
    """The true maximum with hard ties: the best labelling at the mean of the copies' potentials."""
    labels: IntArray = best_labellings(chains, np.mean(nodes, axis=0), np.mean(edges, axis=0))[0][0]
    return labels


def _tied_copies(
    chains: ChainArrays, nodes: list[FloatArray], edges: list[FloatArray], tie: float
) -> tuple[Graph, FloatArray]:
    """Variables: the hubs, then the positions of each copy. Factors: ties first, then the copies' own edges."""
    P, K = nodes[0].shape
    hub = np.arange(P)
    goes_on = np.ones(P, dtype=bool)
    goes_on[chains.ptr[1:][np.diff(chains.ptr) > 0] - 1] = False
    t = np.flatnonzero(goes_on)
    pairs, tables = [], []
    agree = np.where(np.eye(K, dtype=bool), 0.0, -tie)
    for s in range(1, len(nodes) + 1):
        pairs.append(np.stack([hub, s * P + hub], axis=1))
        tables.append(np.broadcast_to(agree, (P, K, K)))
    for s, edge in enumerate(edges, start=1):
        pairs.append(np.stack([s * P + t, s * P + t + 1], axis=1))
        tables.append(edge[chains.which[t]])
    graph = pair_graph(np.full(P * (len(nodes) + 1), K), np.concatenate(pairs))
    flat = [np.zeros(P * K), *(node.ravel() for node in nodes), *(table.ravel() for table in tables)]
    return graph, np.concatenate(flat)
