"""The oracle: every joint state, one by one. Slow, short, and right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfield import memory
from bayesfield.graph.structure import Graph, table_entries
from bayesfield.inference.contract import Price, Traits
from bayesfield.response.base import Response, TableResponse
from bayesfield.types import Cost, FloatArray, IntArray, Marginals, Options, Outcome, Status

if TYPE_CHECKING:
    from bayesfield.graph.compiled import Design


@dataclass(frozen=True, repr=False)
class Enumeration(Options):
    """Exact inference by summing over all joint states; for checking the other engines on small fields."""

    traits = Traits(exact=True)

    def price(self, graph: Graph, size: int) -> Price:
        entries = float(self.preview(graph).entries) * (len(graph.arrays.cardinality) + len(graph.arrays.table_ptr))
        return Price(1e-4 + 2e-8 * entries, 1e-4 + 2e-8 * entries * size)

    def preview(self, graph: Graph) -> Cost:
        states = float(np.prod(graph.arrays.cardinality.astype(float)))
        tables = len(graph.arrays.cardinality) + len(graph.arrays.table_ptr) - 1
        count = int(min(states, 1e18))
        return Cost(count, count * 8 * (tables + 4), f"{states:.4g} joint states")

    def infer(self, graph: Graph, theta: FloatArray, start: Any = None) -> Marginals:
        memory.require(self.preview(graph), "enumeration", "Use bf.Exact() or bf.Bethe().")
        entries = table_entries(graph.arrays, _joint_states(graph.arrays.cardinality))
        energy = theta[entries].sum(axis=1)
        top = energy.max()
        if not np.isfinite(top):
            return Marginals(-np.inf, np.full(graph.n_entries, np.nan), Status(Outcome.IMPOSSIBLE))
        weights = np.exp(energy - top)
        probability = weights / weights.sum()
        tables = _accumulate(entries, probability, graph.n_entries)
        return Marginals(float(top + np.log(weights.sum())), tables, Status(Outcome.EXACT), (entries, probability))

    def response(self, graph: Graph, design: Design, theta: FloatArray, marginals: Marginals) -> Response:
        return _EnumerationResponse(design, *marginals.state)

    def maximise(self, graph: Graph, theta: FloatArray) -> tuple[IntArray, Status]:
        states = _joint_states(graph.arrays.cardinality)
        return states[np.argmax(theta[table_entries(graph.arrays, states)].sum(axis=1))], Status(Outcome.EXACT)

    def sample(self, graph: Graph, theta: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
        _, probability = self.infer(graph, theta).state
        return _joint_states(graph.arrays.cardinality)[rng.choice(len(probability), size=n, p=probability)]


class _EnumerationResponse(TableResponse):
    def __init__(self, design: Design, entries: IntArray, probability: FloatArray) -> None:
        super().__init__(design)
        self._entries, self._probability = entries, probability

    def table_product(self, directions: FloatArray) -> FloatArray:
        out = np.empty_like(directions)
        for d in range(directions.shape[1]):
            score = directions[self._entries, d].sum(axis=1)
            centred = self._probability * (score - self._probability @ score)
            out[:, d] = _accumulate(self._entries, centred, len(directions))
        return out


def _joint_states(cardinality: IntArray) -> IntArray:
    """(states, n) all of them, last variable fastest."""
    count = int(np.prod(cardinality))
    result = np.empty((count, len(cardinality)), dtype=np.int64)
    rest = np.arange(count)
    for i in range(len(cardinality) - 1, -1, -1):
        result[:, i] = rest % cardinality[i]
        rest = rest // cardinality[i]
    return result


def _accumulate(entries: IntArray, weights: FloatArray, size: int) -> FloatArray:
    total = np.zeros(size)
    for column in entries.T:
        total += np.bincount(column, weights=weights, minlength=size)
    return total
