"""Labelled graphs as an objective: one field over the labels of all their nodes, with tied parameters, seen once."""

from dataclasses import dataclass, replace

import numpy as np

from bayesfield.inference.contract import Engine
from bayesfield.learning.objective import GaussianPrior, Objective, Pointwise
from bayesfield.learning.phases.base import Phase
from bayesfield.learning.phases.cases import Cases, clamped_phases, read_cases
from bayesfield.learning.phases.crf_design import compiled_graphs
from bayesfield.learning.phases.graph import GraphPhase
from bayesfield.model.conditional import CRF
from bayesfield.model.graphs import Graphs
from bayesfield.types import BoolArray, FloatArray, IntArray, InvalidInput


@dataclass(frozen=True, eq=False)
class LabelledGraphs:
    """crf: the model. graphs: with their labels. weights: (S,), or None. cases: one case over all nodes."""

    crf: CRF
    graphs: Graphs
    cases: Cases
    weights: FloatArray | None = None

    @property
    def here(self) -> bool:
        return True

    @property
    def matches_moments(self) -> bool:
        return False

    @property
    def n_cases(self) -> int:
        return len(self.graphs)

    def unseen(self) -> IntArray:
        return self.cases.unseen()

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


def graph_cases(crf: CRF, data: Graphs, weights: FloatArray | None = None) -> Cases:
    """All nodes as one case of the union's field; where labels are sets, those are what is summed over."""
    if weights is not None:
        raise InvalidInput("this learner takes every sequence or graph once: leave weights out, or take newton")
    field = compiled_graphs(crf, data)
    codes, allowed = _states(crf, data)
    cases = read_cases(field, codes[None, :], empty=True)
    return cases if allowed is None or cases.clamped is None else _with_sets(cases, allowed)


def _states(crf: CRF, data: Graphs) -> tuple[IntArray, BoolArray | None]:
    """The state of every node, −1 where it is open; and the states that are allowed, where some nodes have sets."""
    assert data.labels is not None
    if data.allowed is None:
        return data.labels, None
    single = data.allowed.sum(axis=1) == 1
    return np.where(single, data.allowed.argmax(axis=1), -1), data.allowed


def _with_sets(cases: Cases, allowed: BoolArray) -> Cases:
    """States that labels do not allow are forbidden in the clamped phases."""
    assert cases.clamped is not None
    phases = []
    for phase in cases.clamped.phases:
        offset = phase.design.offset.copy()
        barred = ~allowed[phase.cells[:, 1]]  # (n, K), all nodes having K states
        offset[: barred.size][barred.ravel()] = -np.inf
        phases.append(replace(phase, design=replace(phase.design, offset=offset)))
    return replace(cases, clamped=replace(cases.clamped, phases=tuple(phases)))
