"""Labelled graphs as an objective: one field over the labels of all their nodes, with tied parameters, seen once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayesfield.inference.contract import Engine
from bayesfield.learning.objective import GaussianPrior, Objective, Pointwise
from bayesfield.learning.phases.cases import Labelled, Terms, clamped_phases, graph_cases, labelled_objective
from bayesfield.learning.phases.graph import GraphPhase
from bayesfield.model.conditional import CRF
from bayesfield.model.graphs import Graphs
from bayesfield.types import FloatArray, IntArray


class LabelledGraphs(Labelled):
    """Graphs with their labels."""

    def unseen(self) -> IntArray:
        return self.union.unseen()

    def pointwise(self, objective: Objective, points: FloatArray) -> Pointwise:
        """log p(y_n | x_n, λ) of every graph, each by itself, at each of the parameters, points (S, F)."""
        columns = []
        for k in range(len(self.items)):
            alone = graph_objective(
                self.crf, self.items.run(k, k + 1), objective.prior, objective.free.engine, learned=False
            )
            free = alone.free.log_z_along(points)
            clamped = sum(-p.weight * p.log_z_along(points) for p in alone.phases[1:])  # type: ignore[attr-defined]
            columns.append(points @ alone.statistic + alone.constant + clamped - free)
        values = np.stack(columns, axis=1) if columns else np.empty((len(points), 0))
        return Pointwise(np.where(np.isfinite(values), values, np.nan), np.arange(len(self.items)))


def graph_objective(
    crf: CRF,
    data: Graphs,
    prior: GaussianPrior,
    engine: Engine,
    weights: FloatArray | None = None,
    learned: bool = True,
) -> Objective:
    """The objective of labelled graphs. weights: (S,). learned: as in ``labelled_objective``."""
    labelled = LabelledGraphs(crf, data, weights)

    def terms(some: Graphs, weight: float) -> Terms:
        cases = labelled.union if some is data else graph_cases(crf, some)
        field = cases.field
        free = GraphPhase(field.graph, field.design, engine, weight)
        clamped = [replace(p, weight=weight * p.weight) for p in clamped_phases(cases, engine)]
        return free, field.design.expectations(cases.counts), clamped

    return labelled_objective(labelled, prior, terms, learned)
