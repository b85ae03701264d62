"""The network of the page: which edges, how sure each is, and where its nodes stand."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx
import numpy as np
import pandas as pd

from bayesfield.model.field import RandomField
from bayesfield.posterior.edges import Edge, edges_of
from bayesfield.report.rows import OF_EDGES, Rows
from bayesfield.report.wording import finite, short
from bayesfield.types import BayesfieldError, FitWarning, FloatArray, IntArray

if TYPE_CHECKING:
    from bayesfield.posterior.posterior import Posterior

MOST_NODES, MOST_EDGES = 450, 1000
_ON_A_CIRCLE = 25  # nodes
_FACTS = 6  # parameters that a tooltip spells out
_TABLES = 2000  # parameters up to which edges with several parameters are judged here
_LATTICE = re.compile(r"\D*\[(\d+),\s*(\d+)\]")

Place = tuple[float, float]


class Known(NamedTuple):
    """What is known of a field's edges. table: ``posterior.edges()``, None where it has none; then note says why.

    note: what to mind about the table, or why it, or any edge, is missing.
    """

    edges: list[Edge]
    table: pd.DataFrame | None
    note: str

    def by_parameter(self, size: int) -> dict[str, FloatArray]:
        """Inclusion and Bayes factor for the parameter of every edge that has just one; NaN for the others."""
        if self.table is None or any(len(e.parameters) > 1 for e in self.edges):
            return {}
        result = {name: np.full(size, np.nan) for name in OF_EDGES}
        own = np.array([e.parameters[0] for e in self.edges])
        for name, values in result.items():
            values[own] = self.table[name].to_numpy(dtype=np.float64)
        return result


@dataclass(frozen=True, eq=False)
class Network:
    """nodes, edges: as page.js reads them. by: what certainty is: "inclusion" or "sign". aspect: height over width.

    n_nodes, n_edges: how many the field has.
    """

    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    by: str
    aspect: float
    n_nodes: int
    n_edges: int

    def data(self) -> dict[str, Any]:
        return {"nodes": self.nodes, "edges": self.edges, "by": self.by, "aspect": self.aspect}


def known_edges(posterior: Posterior) -> Known:
    """The edges of a posterior's field, with their Bayes factors where these can be had."""
    try:
        edges = edges_of(posterior.field)
    except BayesfieldError as error:
        return Known([], None, str(error))
    if len(posterior.mean) > _TABLES and any(len(e.parameters) > 1 for e in edges):
        return Known(edges, None, "edges with several parameters each take long to judge here: see posterior.edges()")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", FitWarning)
        try:
            table = posterior.edges()
        except BayesfieldError as error:
            return Known(edges, None, str(error))
    return Known(edges, table, "; ".join(str(w.message) for w in told))


def network_of(posterior: Posterior, known: Known, rows: Rows, summary: pd.DataFrame, most: int) -> Network | None:
    """The surest edges, at most so many, and their nodes; all nodes where they are few."""
    field = posterior.field
    if not isinstance(field, RandomField) or not field.n_variables:
        return None
    certainty = _certainty(known, summary)
    order = np.argsort(-certainty, kind="stable")[:most]
    chosen = [known.edges[k] for k in order]
    kept = _kept_nodes(field.n_variables, chosen)
    number = {node: k for k, node in enumerate(kept)}
    places, aspect = _layout(field, kept, chosen, certainty[order])
    nodes = [_node(field, node, place, rows, summary) for node, place in zip(kept, places, strict=True)]
    for node, own in zip(nodes, _touching(field, kept), strict=True):
        node["rows"] = rows.at(own)
    edges = []
    for k, edge in zip(order, chosen, strict=True):
        if edge.first in number and edge.second in number:
            entry = _edge(edge, known, int(k), float(certainty[k]), rows, summary)
            edges.append(entry | {"a": number[edge.first], "b": number[edge.second]})
    by = "sign" if known.table is None else "inclusion"
    return Network(nodes, edges, by, aspect, field.n_variables, len(known.edges))


def _certainty(known: Known, summary: pd.DataFrame) -> FloatArray:
    """(edges,) probability that an edge is there; where that is not known, of the sign of its surest parameter."""
    if known.table is not None:
        found: FloatArray = np.nan_to_num(known.table["inclusion"].to_numpy(dtype=np.float64))
        return found
    positive = summary["p_positive"].to_numpy(dtype=np.float64)
    sure = np.nan_to_num(np.maximum(positive, 1.0 - positive))
    return np.array([sure[e.parameters].max() for e in known.edges], dtype=np.float64)


def _kept_nodes(n: int, edges: list[Edge]) -> list[int]:
    if n <= MOST_NODES:
        return list(range(n))
    ends = dict.fromkeys(node for e in edges for node in (e.first, e.second))
    return sorted(list(ends)[:MOST_NODES]) or list(range(MOST_NODES))


def _edge(edge: Edge, known: Known, k: int, certainty: float, rows: Rows, summary: pd.DataFrame) -> dict[str, Any]:
    mean = summary["mean"].to_numpy(dtype=np.float64)[edge.parameters]
    entry: dict[str, Any] = {
        "effect": finite(np.sqrt(np.sum(mean**2))),
        "sign": int(np.sign(mean[0])) if len(mean) == 1 and np.isfinite(mean[0]) else 0,
        "sure": finite(certainty),
        "rows": rows.at(edge.parameters),
    } | _facts(edge.parameters, summary)
    if known.table is not None:
        entry |= {name: finite(known.table[name].iloc[k]) for name in OF_EDGES}
        entry["verdict"] = str(known.table["at_10"].iloc[k])
    return entry


def _node(field: RandomField, node: int, place: Place, rows: Rows, summary: pd.DataFrame) -> dict[str, Any]:
    return {
        "name": short(field.names[node]),
        "x": finite(place[0]),
        "y": finite(place[1]),
        "hidden": node in field.hidden,
    } | _facts(_own(field, node), summary)


def _facts(parameters: IntArray, summary: pd.DataFrame) -> dict[str, Any]:
    """Name and numbers of the first few parameters, and how many there are."""
    table = summary.iloc[parameters[:_FACTS]]
    facts = [
        [short(str(name)), *map(finite, values)] for name, values in zip(table.index, table.to_numpy(), strict=True)
    ]
    return {"facts": facts, "parameters": len(parameters)}


def _own(field: RandomField, node: int) -> IntArray:
    """Parameters of the factors over this variable alone."""
    found = [b.parameters[b.scopes[:, 0] == node].ravel() for b in field.blocks if b.scopes.shape[1] == 1]
    return np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)


def _touching(field: RandomField, nodes: list[int]) -> list[IntArray]:
    """For each node the parameters of all factors that hold it."""
    found: dict[int, set[int]] = {node: set() for node in nodes}
    for block in field.blocks:
        for scope, own in zip(block.scopes.tolist(), block.parameters.tolist(), strict=True):
            for node in scope:
                if node in found:
                    found[node].update(own)
    return [np.array(sorted(own), dtype=np.int64) for own in found.values()]


def _layout(
    field: RandomField, nodes: list[int], edges: list[Edge], certainty: FloatArray
) -> tuple[list[Place], float]:
    """Places in the unit square, and height over width: a lattice as it lies, few on a circle, others by springs."""
    sites = [_LATTICE.fullmatch(field.names[node]) for node in nodes]
    if len(nodes) > 1 and all(sites):
        return _in_rows([(int(s[2]), int(s[1])) for s in sites if s])
    if len(nodes) <= _ON_A_CIRCLE:
        angle = 2 * np.pi * np.arange(len(nodes)) / max(len(nodes), 1) - np.pi / 2
        spread = 0.5 if len(nodes) > 1 else 0.0
        return [(0.5 + spread * float(np.cos(a)), 0.5 + spread * float(np.sin(a))) for a in angle], 1.0
    graph = nx.Graph()
    graph.add_nodes_from(nodes)
    graph.add_weighted_edges_from((e.first, e.second, w) for e, w in zip(edges, certainty, strict=True) if w >= 0.5)
    graph.remove_nodes_from(set(graph) - set(nodes))
    found = nx.spring_layout(graph, seed=0, k=2.2 / np.sqrt(len(nodes)))
    points = np.array([found[node] for node in nodes])
    low, high = points.min(axis=0), points.max(axis=0)
    unit = (points - low) / np.maximum(high - low, 1e-9)
    return [(float(x), float(y)) for x, y in unit], 0.8


def _in_rows(sites: list[tuple[int, int]]) -> tuple[list[Place], float]:
    points = np.array(sites, dtype=np.float64)
    low, span = points.min(axis=0), np.maximum(np.ptp(points, axis=0), 1e-9)
    wide, tall = float(np.ptp(points[:, 0])), float(np.ptp(points[:, 1]))
    unit = np.where(np.ptp(points, axis=0) > 0, (points - low) / span, 0.5)
    return [(float(x), float(y)) for x, y in unit], float(np.clip(tall / max(wide, 1.0), 0.2, 1.4))
