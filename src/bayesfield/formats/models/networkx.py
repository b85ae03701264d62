"""Fields and posteriors as graphs of networkx, and graphs as fields."""

from collections.abc import Hashable, Sequence
from typing import Any

import networkx as nx
import numpy as np

from bayesfield.model.builders import pairwise, potts
from bayesfield.model.field import RandomField, as_states
from bayesfield.posterior.posterior import Posterior
from bayesfield.types import InvalidInput


def to_networkx(field: RandomField | Posterior, probability: float = 0.5) -> nx.Graph:
    """A graph with a node for each variable, by its name, and an edge for each pair that shares a factor.

    Nodes have their states; hidden ones are marked. Of a posterior they also have the mean and sd of the parameter of
    their own, or, where there are several, of each by its name; and edges what ``posterior.edges(probability)`` tells:
    log_bayes_factor, inclusion, mean, sd, p_positive, where they are known.
    """
    own = field.field if isinstance(field, Posterior) else field
    if not isinstance(own, RandomField):
        raise InvalidInput(f"this takes a bf.RandomField, or a posterior of one; got {own!r}")
    graph = nx.Graph()
    hidden = set(own.hidden)
    for i, (name, states) in enumerate(zip(own.names, own.states, strict=True)):
        graph.add_node(name, states=tuple(states), **({"hidden": True} if i in hidden else {}))
    graph.add_edges_from((own.names[i], own.names[j]) for i, j in own.edges)
    if isinstance(field, Posterior):
        _tell_nodes(graph, field, own)
        _tell_edges(graph, field, probability)
    return graph


def from_networkx(graph: Any, states: int | Sequence[Hashable] = (0, 1)) -> RandomField:
    """A pairwise field on the graph, variables named as its nodes (by text); bf.potts where there are over two states.

    Directions, weights and repeated edges do not matter; edges from a node to itself are refused.
    """
    labels = as_states(states, "the field")
    nodes = list(graph.nodes())
    number = {node: i for i, node in enumerate(nodes)}
    edges = [(number[a], number[b]) for a, b in graph.edges()]
    names = [str(node) for node in nodes]
    return (potts if len(labels) > 2 else pairwise)(len(nodes), edges, labels, names=names)


def _tell_nodes(graph: nx.Graph, posterior: Posterior, field: RandomField) -> None:
    """Means and widths of the parameters of factors over one variable."""
    own: dict[int, list[int]] = {}
    for block in field.blocks:
        if block.scopes.shape[1] == 1:
            for (i,), parameters in zip(block.scopes.tolist(), block.parameters.tolist(), strict=True):
                own.setdefault(i, []).extend(parameters)
    sd = posterior.sd
    for i, parameters in own.items():
        node = graph.nodes[field.names[i]]
        if len(parameters) == 1:
            node.update(mean=float(posterior.mean[parameters[0]]), sd=float(sd[parameters[0]]))
        else:
            names = [field.parameter_names[k] for k in parameters]
            node["mean"] = dict(zip(names, posterior.mean[parameters].tolist(), strict=True))
            node["sd"] = dict(zip(names, sd[parameters].tolist(), strict=True))


def _tell_edges(graph: nx.Graph, posterior: Posterior, probability: float) -> None:
    """What ``posterior.edges`` knows; nothing where it has no answer, as for edges that share parameters."""
    try:
        table = posterior.edges(probability)
    except InvalidInput:
        return
    numbers = table.select_dtypes(include=[np.number]).columns
    for row in table.to_dict("records"):
        graph.edges[row["first"], row["second"]].update({str(name): float(row[name]) for name in numbers})
