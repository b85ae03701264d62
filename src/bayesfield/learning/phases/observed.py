"""Observations of hidden labels as an objective: log p(y|λ) = log Z(λ, y) − log Z(λ), equation (17)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesfield.learning.objective import GaussianPrior, Objective
from bayesfield.learning.phases.markov import MarkovPhase
from bayesfield.model.emissions.hidden import HiddenModel
from bayesfield.types import FloatArray, IntArray, InvalidInput


@dataclass(frozen=True, eq=False)
class Observations:
    """y: (n, D), NaN where missing. ptr: (S + 1,) where sequences begin and end."""

    model: HiddenModel
    y: FloatArray
    ptr: IntArray
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

    def unseen(self) -> IntArray:
        """Where a search begins is found from the observations themselves (learning.search.hidden_start)."""
        return np.empty(0, dtype=np.int64)


def observed_chains(model: HiddenModel, y: FloatArray, ptr: IntArray, prior: GaussianPrior) -> Objective:
    """Of hidden Markov chains."""
    phase = MarkovPhase(model, model.emitted.views(y), ptr)
    return Objective(prior, (phase,), np.zeros(prior.size), 0.0, Observations(model, y, ptr))
