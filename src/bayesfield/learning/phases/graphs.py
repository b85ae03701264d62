"""Labelled graphs as an objective: one field over the labels of all their nodes, with tied parameters, seen once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bayesfield.learning.objective import GaussianPrior, Objective, Pointwise
from bayesfield.learning.phases.cases import Cases, clamped_phases, counted_once, graph_cases
from bayesfield.learning.phases.graph import GraphPhase
from bayesfield.types import FloatArray, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.inference.contract import Engine
    from bayesfield.learning.phases.base import Phase
    from bayesfield.model.conditional import CRF
    from bayesfield.model.graphs import Graphs


@dataclass(frozen=True, eq=False)
class LabelledGraphs:
    """crf: the model. graphs: with their labels. union: one case over all nodes. weights: (S,), or None."""

    crf: CRF
    graphs: Graphs
    union: Cases
    weights: FloatArray | None = None
    here = True
    matches_moments = False

    @property
    def n_cases(self) -> int:
        return len(self.graphs)

    @property
    def cases(self) -> Cases:
        return counted_once(self.union, self.weights)

    def unseen(self) -> IntArray:
        return self.union.unseen()

    def pointwise(self, objective: Objective, points: FloatArray) -> Pointwise:
        """log p(y_n | x_n, λ) of every graph, each by itself, at each of the parameters, points (S, F)."""
        columns = []
        for k in range(len(self.graphs)):
            alone = graph_objective(
                self.crf, self.graphs.run(k, k + 1), objective.prior, objective.free.engine, learned=False
            )
            free = alone.free.log_z_along(points)
            clamped = sum(-p.weight * p.log_z_along(points) for p in alone.phases[1:])  # type: ignore[attr-defined]
            columns.append(points @ alone.statistic + alone.constant + clamped - free)
        values = np.stack(columns, axis=1) if columns else np.empty((len(points), 0))
        return Pointwise(np.where(np.isfinite(values), values, np.nan), np.arange(len(self.graphs)))


def graph_objective(
    crf: CRF,
    data: Graphs,
    prior: GaussianPrior,
    engine: Engine,
    weights: FloatArray | None = None,
    learned: bool = True,
) -> Objective:
    """The objective of labelled graphs; graphs that count alike share a phase. weights: (S,).

    learned: whether they are to learn from, so that some label must be known.
    """
    if data.labels is None:
        raise InvalidInput("a CRF is fitted to labelled graphs: give y")
    if learned and data.allowed is not None and data.nodes and data.allowed.all():
        raise InvalidInput("there is nothing to learn from: no label is known")
    free: list[Phase] = []
    clamped: list[Phase] = []
    statistic = np.zeros(crf.n_parameters)
    distinct = [1.0] if weights is None else np.unique(weights[weights > 0]).tolist()
    if not distinct:
        raise InvalidInput("there is nothing to learn from: all weights are zero")
    whole = graph_cases(crf, data)
    for weight in distinct:
        part = whole if weights is None else graph_cases(crf, data.chosen(weights == weight))
        field = part.field
        free.append(GraphPhase(field.graph, field.design, engine, weight))
        statistic += weight * field.design.expectations(part.counts)
        clamped += [replace(p, weight=weight * p.weight) for p in clamped_phases(part, engine)]  # type: ignore[type-var]
    return Objective(prior, (*free, *clamped), statistic, 0.0, LabelledGraphs(crf, data, whole, weights))
