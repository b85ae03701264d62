"""Where inputs lie: by coordinates or by a graph, and the correlations of their weights that follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse, spatial

from bayesfield import memory
from bayesfield.model.prior import as_numbers
from bayesfield.model.smooth.coupling import Coupling
from bayesfield.types import BoolArray, Cost, FloatArray, IntArray, InvalidInput

_SYMMETRIC = 1e-9  # of the largest weight


class Numbers(NamedTuple):
    """length: ℓ; variance: v; nugget: n. others: variance of the inputs that lie nowhere; transitions: of the rest."""

    length: float
    variance: float
    nugget: float
    others: float
    transitions: float


class Near(NamedTuple):
    """members: (D, G) parameters of the inputs that lie somewhere; others, transitions: all else. between: squares of
    distances, or the Laplacian, (D, D)."""

    members: IntArray
    others: IntArray
    transitions: IntArray
    kernel: str
    between: FloatArray

    @property
    def spacing(self) -> float:
        """A typical distance of an input's nearest neighbour; one edge, in a graph."""
        if self.kernel != "gaussian":
            return 1.0
        gaps = self.between + np.where(np.eye(len(self.between)) > 0, np.inf, 0.0)
        nearest = np.sqrt(gaps.min(axis=1))
        return float(np.median(nearest[nearest > 0.0])) if (nearest > 0.0).any() else 1.0

    @property
    def size(self) -> int:
        """F."""
        return self.members.size + len(self.others) + len(self.transitions)

    def correlation(self, length: float) -> FloatArray:
        """k, (D, D)."""
        if self.kernel == "gaussian":
            near: FloatArray = np.exp(-0.5 * self.between / length**2)
            return near
        if self.kernel == "diffusion":
            raw = linalg.expm(-0.5 * length**2 * self.between)
        else:
            raw = linalg.inv(np.eye(len(self.between)) + length**2 * self.between)
        scale = 1.0 / np.sqrt(np.diag(raw))
        result: FloatArray = scale[:, None] * ((raw + raw.T) / 2) * scale
        return result

    def covariance(self, numbers: Numbers) -> FloatArray:
        """v C, (D, D)."""
        own = numbers.nugget
        matrix = (1.0 - own) * self.correlation(numbers.length)
        matrix[np.diag_indices_from(matrix)] += own
        return numbers.variance * matrix

    def coupling(self, numbers: Numbers) -> Coupling:
        apart = np.zeros(self.size)
        apart[self.others] = 1.0 / numbers.others
        apart[self.transitions] = 1.0 / numbers.transitions
        return Coupling(self.members, self.covariance(numbers), apart)


# --- from what a user states -----------------------------------------------------------------------------------------


def by_distance(coordinates: Any, names: Sequence[str]) -> tuple[BoolArray, FloatArray]:
    """Which inputs lie somewhere, (D,), and the squares of the distances between these."""
    places = _named_places(coordinates, names) if isinstance(coordinates, Mapping) else _places(coordinates, len(names))
    which: BoolArray = np.asarray(np.isfinite(places).all(axis=1), dtype=np.bool_)
    if np.isinf(places).any():
        raise InvalidInput("coordinates must be finite, or NaN for an input that lies nowhere")
    _require_some(int(which.sum()), len(which), "coordinates")
    gaps: FloatArray = spatial.distance.cdist(places[which], places[which], "sqeuclidean")
    return which, gaps


def _places(coordinates: Any, count: int) -> FloatArray:
    places = as_numbers(coordinates, "coordinates")
    places = places[:, None] if places.ndim == 1 else places
    if places.ndim != 2 or len(places) != count:
        raise InvalidInput(
            f"coordinates need a row for each of {count} inputs; got shape {places.shape}. Give NaN to inputs that lie "
            "nowhere, or a mapping from names"
        )
    return places


def _named_places(coordinates: Mapping[str, Any], names: Sequence[str]) -> FloatArray:
    named = [k for k, name in enumerate(names) if name in coordinates]
    rows = [np.atleast_1d(as_numbers(coordinates[names[k]], "coordinates")) for k in named]
    if len({row.shape for row in rows}) > 1 or any(row.ndim > 1 for row in rows):
        raise InvalidInput("coordinates are as many numbers for each input; some here have more than others")
    places = np.full((len(names), len(rows[0]) if rows else 1), np.nan)
    for k, row in zip(named, rows, strict=True):
        places[k] = row
    return places


def by_graph(graph: Any, names: Sequence[str]) -> tuple[BoolArray, FloatArray]:
    """Which inputs have an edge, (D,), and the graph's Laplacian over these."""
    weights = _edge_weights(graph, names)
    if weights.shape != (len(names), len(names)):
        raise InvalidInput(f"a graph needs a row and a column for each of {len(names)} inputs; got {weights.shape}")
    if not np.isfinite(weights.data).all() or (weights.data < 0.0).any():
        raise InvalidInput("the weights of a graph's edges must be finite, and none below zero")
    if abs(weights - weights.T).max() > _SYMMETRIC * abs(weights).max():
        raise InvalidInput("the weights of a graph must be symmetric: an edge joins two inputs alike")
    weights = weights - sparse.diags_array(weights.diagonal())
    which: BoolArray = np.asarray(weights.sum(axis=1)).ravel() > 0.0
    _require_some(int(which.sum()), len(which), "edges of the graph")
    inner = weights[np.flatnonzero(which)][:, np.flatnonzero(which)].toarray()
    return which, np.diag(inner.sum(axis=1)) - inner


def _edge_weights(graph: Any, names: Sequence[str]) -> Any:
    """(D, D), sparse."""
    pairs = [] if isinstance(graph, np.ndarray) else list(graph)
    if not pairs or not all(len(p) == 2 and all(isinstance(name, str) for name in p) for p in pairs):
        weights = as_numbers(graph, "a graph")
        if weights.ndim != 2:
            raise InvalidInput(f"a graph is a matrix, or pairs of names of inputs; got shape {weights.shape}")
        return sparse.csr_array(weights)
    number = {name: k for k, name in enumerate(names)}
    there = {tuple(sorted((number[a], number[b]))) for a, b in pairs if a in number and b in number}
    first, second = np.array(sorted(there), dtype=np.int64).reshape(-1, 2).T
    half = sparse.coo_array((np.ones(len(first)), (first, second)), shape=(len(names), len(names)))
    return sparse.csr_array(half + half.T)


def _require_some(there: int, count: int, what: str) -> None:
    if there < 2:
        raise InvalidInput(
            f"a smooth prior ties two inputs or more, and the {what} are of {there} of the model's {count}; are names "
            "spelled as the model's?"
        )
    cost = Cost(there**2, 32.0 * there**2, f"matrices of {there:,} × {there:,} inputs")
    memory.require(cost, "a smooth prior", "Give coordinates to fewer inputs.")
