"""How far to trust a fit: one Newton step from its mode with sampled means.

λ − λ_true ≈ P⁻¹ g with g = N (E_true[f] − f̄) + Λ⁻¹ (λ − μ) the true gradient at the mode λ, here in posterior standard
deviations, with E_true and P sampled. At an engine's own optimum g = N (E_true[f] − E_engine[f]): its bias.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from bayesfield.posterior.record import Check
from bayesfield.types import FloatArray

if TYPE_CHECKING:
    from bayesfield.inference.sampling.sampled import Sampled
    from bayesfield.learning.objective import Objective
    from bayesfield.learning.phases.graph import GraphPhase


def check_fit(objective: Objective, names: list[str], mode: FloatArray, sd: FloatArray, engine: Sampled) -> Check:
    """Compare a fit with ``engine`` at its mode. The objective's own engine is not asked for the free phase."""
    judge: GraphPhase = objective.free.with_engine(engine)
    answer = judge.at(mode)
    means = judge.weight * judge.design.expectations_many(answer.state.batch_means)
    gradients = means - objective.observed_mean(mode) + objective.prior.pull(mode)
    free = judge.response(answer).covariance()
    _, factor = objective.sampled_factor(free, objective.observed_covariance(mode))
    sampled_sd = np.sqrt(np.diag(linalg.cho_solve(factor, np.eye(len(mode)))))
    gaps = linalg.cho_solve(factor, gradients.T).T / sampled_sd
    error = gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps))
    return Check(names, gaps.mean(axis=0), error, sd / sampled_sd)
