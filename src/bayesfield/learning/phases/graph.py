"""A phase of factor graphs, by any engine: a field, a union of conditional fields, or cases with holes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayesfield.graph.compiled import Design, local_variances, pairs_within
from bayesfield.graph.structure import Graph, counts
from bayesfield.inference.auto import Auto
from bayesfield.inference.contract import Engine, Price, Traits
from bayesfield.inference.sampling.gibbs_chains import gibbs_draws
from bayesfield.learning.phases.base import Answer, Answers, Phase
from bayesfield.response.base import Response
from bayesfield.types import FloatArray

_PER_ENTRY = 260  # bytes: graph, design, potentials, beliefs, and linear response's own tables
_PAIR = 1.5e-7  # seconds for each pair of parameters of one table, of linear response's sparse products
_ENTRIES = 4_000_000  # of tables, at all points that are evaluated together


@dataclass(frozen=True, eq=False)
class GraphPhase(Phase):
    """w log Z(λ) of a graph, by an engine.

    contrasts: whether it stands for what is hidden in cases; log Z is then asked of another engine where this one has
    none.
    """

    graph: Graph
    design: Design
    engine: Engine
    weight: float
    contrasts: bool = False
    samples = True

    @property
    def cases(self) -> float:
        return self.weight

    @property
    def traits(self) -> Traits:
        return self.engine.traits

    def with_engine(self, engine: Engine) -> GraphPhase:
        if self.contrasts and (engine.traits.streams or not engine.traits.has_log_z):
            engine = Auto()
        if self.contrasts and engine.traits.chooses:
            engine, _ = self.choose(engine)
        return replace(self, engine=engine)

    def choose(self, engine: Any) -> tuple[Engine, str]:
        chosen: tuple[Engine, str] = engine.choose(self.graph)
        return chosen

    def price(self, size: int) -> Price:
        price = self.engine.price(self.graph, size)
        if not self.traits.linear_response:
            return price
        tangled = _PAIR * self._pairs
        return price._replace(covariance=price.covariance + 2 * tangled, tangled=tangled)

    @cached_property
    def _pairs(self) -> float:
        return pairs_within(self.graph, self.design)

    def prepare(self) -> None:
        if self.engine.traits.batched:
            self.engine.prepare(self.graph)  # type: ignore[attr-defined]

    def bytes(self) -> float:
        return float(self.engine.preview(self.graph).bytes + _PER_ENTRY * self.graph.n_entries)

    def at(self, parameters: FloatArray, start: Any = None) -> Answer:
        theta = self.design.potentials(parameters)
        marginals = self.engine.infer(self.graph, theta, start)
        mean = self.design.expectations(marginals.tables)
        return Answer(marginals.log_z, mean, marginals.status, marginals.state, (theta, marginals))

    def at_many(self, points: FloatArray, starts: Sequence[Any] | None = None) -> Answers:
        if not self.engine.traits.batched:
            return super().at_many(points, starts)
        log_z, means = np.empty(len(points)), np.empty(points.shape)
        for rows, thetas in self._potentials(points):
            log_z[rows], beliefs = self.engine.infer_many(self.graph, thetas)  # type: ignore[attr-defined]
            means[rows] = (self.design.transpose @ beliefs.T).T
        return Answers(log_z, means, np.isfinite(log_z))

    def _potentials(self, points: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """θ at the points (S, F), a few at a time."""
        step = max(1, _ENTRIES // max(self.graph.n_entries, 1))
        for first in range(0, len(points), step):
            rows = slice(first, first + step)
            yield rows, np.ascontiguousarray((self.design.matrix @ points[rows].T).T) + self.design.offset

    def log_z_many(self, points: FloatArray) -> FloatArray:
        if not self.engine.traits.batched:
            return super().log_z_many(points)
        log_z = np.empty(len(points))
        for rows, thetas in self._potentials(points):
            log_z[rows] = self.engine.log_z_many(self.graph, thetas)  # type: ignore[attr-defined]
        return np.where(np.isfinite(log_z), log_z, np.nan)

    def response(self, answer: Answer) -> Response:
        theta, marginals = answer.found
        return self.engine.response(self.graph, self.design, theta, marginals)

    def covariances(self, points: FloatArray) -> FloatArray:
        if self.engine.traits.batched:
            thetas = np.ascontiguousarray((self.design.matrix @ points.T).T) + self.design.offset
            total: FloatArray | None = self.engine.covariance_sum(self.graph, self.design, thetas)  # type: ignore[attr-defined]
            if total is not None:
                return total
        return super().covariances(points)

    def prepare_drawn(self, engine: Any) -> None:
        engine.preview(self.graph)

    def drawn(self, parameters: FloatArray, engine: Any, rng: np.random.Generator) -> FloatArray:
        theta, n = self.design.potentials(parameters), int(self.cases)
        if engine.traits.exact:
            states = engine.sample(self.graph, theta, n, rng)
        else:
            states = gibbs_draws(self.graph, theta, n, engine.burn_in, int(rng.integers(2**62)))
        return self.design.expectations(counts(self.graph, states))

    def variances(self, answer: Answer) -> FloatArray:
        return local_variances(self.graph, self.design, answer.found[1].tables)

    def log_z_along(self, points: FloatArray) -> FloatArray:
        """(S,) log Z at one point after the other, each from where the last one ended; NaN where it did not converge.

        Points are draws of a posterior, so that each is near the last.
        """
        if self.engine.traits.batched:
            return self.log_z_many(points)
        result, before = np.full(len(points), np.nan), None
        for s, here in enumerate(points):
            found_one = self.engine.infer(self.graph, self.design.potentials(here), before)
            if found_one.status.converged:
                result[s], before = found_one.log_z, found_one.state
        return result
