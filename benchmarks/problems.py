"""Pairwise fields with random parameters, in our form and as plain tables for the peers."""

from dataclasses import dataclass

import numpy as np

import bayesfield as bf
from bayesfield.graph.compiled import compiled
from bayesfield.graph.structure import Graph


@dataclass(frozen=True, eq=False)
class Problem:
    """A field of n variables with K states each and m edges, at given parameters."""

    name: str
    field: bf.RandomField
    parameters: np.ndarray  # λ
    graph: Graph
    theta: np.ndarray  # θ = Aλ, tables of all variables and then of all edges
    edges: np.ndarray  # (m, 2)
    unary: np.ndarray  # (n, K) log-potentials
    pair: np.ndarray  # (m, K, K) log-potentials

    @property
    def names(self) -> list[str]:
        return [f"x{i}" for i in range(len(self.unary))]


def grid(rows: int, columns: int, coupling: float = 0.3) -> Problem:
    """A ±1 lattice; normal parameters."""
    field = bf.grid(rows, columns, states=(-1, 1))
    return _problem(f"binary grid {rows}×{columns}", field, coupling)


def random_graph(n: int, m: int, coupling: float = 0.2) -> Problem:
    """m distinct edges among n binary variables, all such graphs alike."""
    rng = np.random.default_rng(1)
    ends = rng.integers(0, n, size=(2 * m, 2))
    ends = np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1)
    _, first = np.unique(ends[:, 0] * n + ends[:, 1], return_index=True)
    field = bf.pairwise(n, ends[np.sort(first)[:m]], states=(-1, 1))
    return _problem(f"binary random graph, {n:,} variables, {m:,} edges", field, coupling)


def tables(side: int, states: int, interaction: str) -> Problem:
    """A lattice of variables with many states; "table" for general pair tables, "equal" for Potts ones."""
    field = bf.potts(side * side, bf.grid_edges(side, side), states, interaction=interaction)
    kind = "general" if interaction == "table" else "Potts"
    return _problem(f"{states}-state grid {side}×{side}, {kind} tables", field, 0.3)


def _problem(name: str, field: bf.RandomField, coupling: float) -> Problem:
    known = compiled(field)
    n, k = field.n_variables, len(field.states[0])
    parameters = np.random.default_rng(0).normal(0.0, coupling, field.n_parameters)
    theta = known.design.potentials(parameters)
    edges = known.graph.arrays.scope.reshape(-1, 2)
    unary, pair = theta[: n * k].reshape(n, k), theta[n * k :].reshape(-1, k, k)
    return Problem(name, field, parameters, known.graph, theta, edges, unary, pair)


def laplacian(side: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and values of a positive definite matrix on a lattice, each pair once."""
    rng = np.random.default_rng(0)
    edges, n = bf.grid_edges(side, side), side * side
    weights = rng.normal(size=len(edges))
    diagonal = np.full(n, 0.3)
    np.add.at(diagonal, edges.ravel(), np.repeat(np.abs(weights), 2))
    sites = np.arange(n)
    rows, columns = np.concatenate([sites, edges[:, 0]]), np.concatenate([sites, edges[:, 1]])
    return rows, columns, np.concatenate([diagonal, weights])
