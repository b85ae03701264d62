"""Observations of hidden labels as an objective: log p(y|λ) = log Z(λ, y) − log Z(λ), equation (17)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from bayesfield.graph.compiled import Design, compiled
from bayesfield.inference.auto import Auto
from bayesfield.learning.hidden.emission import EmissionPhase
from bayesfield.learning.hidden.markov import MarkovPhase
from bayesfield.learning.objective import GaussianPrior, Objective, Pointwise
from bayesfield.learning.phases.graph import GraphPhase
from bayesfield.model.emissions.hidden import HiddenModel
from bayesfield.model.emissions.laws import FieldLaw, MarkovChain
from bayesfield.types import FloatArray, IntArray, InvalidInput


@dataclass(frozen=True, eq=False)
class Observations:
    """y: (n, D), NaN where missing. ptr: (S + 1,) where sequences begin and end. first: where a search begins."""

    model: HiddenModel
    y: FloatArray
    ptr: IntArray
    first: Callable[[Objective], FloatArray] | None = None
    weights = None
    here = True
    matches_moments = False
    imputable = False

    @property
    def n_cases(self) -> int:
        return len(self.ptr) - 1

    @property
    def cases(self) -> Any:
        raise InvalidInput("observations of hidden labels are no table of cases")

    @property
    def chains(self) -> bool:
        """Whether labels are chains, of which passes tell all."""
        return isinstance(self.model.law, MarkovChain)

    @property
    def emits(self) -> bool:
        """Whether chains of labels can stream the sums of a large field: one coupling, no label preferred."""
        return isinstance(self.model.law, FieldLaw) and self.model.law.exchangeable

    def pointwise(self, objective: Objective, points: FloatArray) -> Pointwise:
        """log p(y of a sequence | λ) of every sequence at each of the parameters, points (S, F)."""
        if not self.chains or self.n_cases < 2:
            raise InvalidInput("leave-one-out takes several sequences: there is nothing here to leave out")
        phase: Any = objective.free
        values = np.array([phase.marginals(here).log_z for here in points])
        return Pointwise(np.where(np.isfinite(values), values, np.nan), np.arange(self.n_cases))

    def unseen(self) -> IntArray:
        """Where a search begins is found from the observations themselves (learning.hidden.expectation)."""
        return np.empty(0, dtype=np.int64)


def starting(objective: Objective, first: Callable[[Objective], FloatArray]) -> Objective:
    """The same with where a search begins."""
    return replace(objective, data=replace(objective.data, first=first))


def observed_objective(model: HiddenModel, y: FloatArray, ptr: IntArray, prior: GaussianPrior) -> Objective:
    """Of any hidden field."""
    if isinstance(model.law, MarkovChain):
        return observed_chains(model, y, ptr, prior)
    assert isinstance(model.law, FieldLaw)
    if model.law.field.n_variables != len(y):
        raise InvalidInput(f"the field has {model.law.field.n_variables} labels, and there are {len(y)} observations")
    return observed_field(model, model.law, y, prior)


def observed_field(model: HiddenModel, law: FieldLaw, y: FloatArray, prior: GaussianPrior) -> Objective:
    """Of one field: log Z of the labels given y against that of the labels alone."""
    field = compiled(law.field)
    rest = sparse.csr_array((field.design.matrix.shape[0], model.emitted.size))
    matrix = sparse.csr_array(sparse.hstack([field.design.matrix, rest]))
    padded = Design(matrix, sparse.csr_array(matrix.T), field.design.offset, field.design.constant)
    free = GraphPhase(field.graph, padded, Auto(), 1.0)
    clamped = EmissionPhase(GraphPhase(field.graph, field.design, Auto(), -1.0, True), model.emitted.views(y))
    data = Observations(model, y, np.array([0, len(y)]))
    return Objective(prior, (free, clamped), np.zeros(prior.size), 0.0, data)


def observed_chains(model: HiddenModel, y: FloatArray, ptr: IntArray, prior: GaussianPrior) -> Objective:
    """Of hidden Markov chains."""
    phase = MarkovPhase(model, model.emitted.views(y), ptr)
    return Objective(prior, (phase,), np.zeros(prior.size), 0.0, Observations(model, y, ptr))
