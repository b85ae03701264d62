"""What samplers share that draw data instead of computing normalisers: ``exchange`` and ``moller``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesfield.types import FloatArray

if TYPE_CHECKING:
    from bayesfield.inference.contract import Engine
    from bayesfield.learning.objective import Objective
    from bayesfield.samplers.contract import Chain, Problem


class Drawing(NamedTuple):
    """What all chains share. shape: factor of the proposals' covariance. centre: of the problem's Gaussian."""

    objective: Objective
    engine: Engine
    shape: FloatArray
    centre: FloatArray

    def moves(self, chain: Chain, steps: int) -> FloatArray:
        """Proposed moves, (steps, F)."""
        result: FloatArray = chain.scale * chain.normals.standard_normal((steps, len(self.shape))) @ self.shape.T
        return result

    def features(self, parameters: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Sums of the features over data as many as were observed, drawn at these parameters; none without data."""
        if not self.objective.weight:
            return np.zeros(len(parameters))
        found: FloatArray = self.objective.free.drawn(parameters, self.engine, rng)
        return found


def drawing(problem: Problem, engine: Engine, scale: float) -> Drawing:
    """scale: of the proposals, 1 being best for Metropolis on a Gaussian."""
    shape = problem.factor * (scale * 2.38 / np.sqrt(max(problem.size, 1)))
    problem.objective.free.prepare_drawn(engine)  # planned once, before threads ask for it
    return Drawing(problem.objective, engine, shape, problem.centre)


def unnormalised(objective: Objective, parameters: FloatArray) -> float:
    """log of prior · g(D|λ), all that is hidden summed over; −∞ where inference there does not converge."""
    return objective.prior.log_kernel(parameters) + observed(objective, parameters)


def observed(objective: Objective, parameters: FloatArray) -> float:
    """log g(D|λ) = λᵀ N f̄, or Σ_n log Z_n(λ) over what is hidden in each case."""
    total = float(parameters @ objective.statistic)
    for phase in objective.phases[1:]:
        answer = phase.at(parameters)
        if not answer.status.converged:
            return -np.inf
        total -= phase.weight * answer.log_z
    return total
