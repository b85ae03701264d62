"""How far to trust a fit: one Newton step from its mode with sampled means.

λ − λ_true ≈ P⁻¹ g with g = N (E_true[f] − f̄) + Λ⁻¹ (λ − μ) the true gradient at the mode λ, here in posterior standard
deviations, with E_true and P sampled. At an engine's own optimum g = N (E_true[f] − E_engine[f]): its bias.

Chains begin at the data, at random and at low temperature; where these have not met there is no E_true, and no pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from bayesfield.inference.sampling.mixing import Mixing, group_gap, unmixed_error
from bayesfield.inference.sampling.sampled import chain_means
from bayesfield.posterior.record import Check
from bayesfield.types import FloatArray

if TYPE_CHECKING:
    from bayesfield.inference.sampling.sampled import Sampled
    from bayesfield.learning.objective import Objective
    from bayesfield.learning.phases.graph import GraphPhase
    from bayesfield.response.sampled import SampleResponse

_APART = 0.1  # posterior sd (root mean square): by which chains that began apart may differ


def check_fit(objective: Objective, names: list[str], mode: FloatArray, sd: FloatArray, engine: Sampled) -> Check:
    """Compare a fit with ``engine`` at its mode. The objective's own engine is not asked for the free phase."""
    judge: GraphPhase = objective.free.with_engine(engine)
    start = engine.begin(judge.graph, judge.design.potentials(mode), objective.observed_codes())
    answer = judge.at(mode, start)
    means = judge.weight * judge.design.expectations_many(answer.state.batch_means)
    gradients = means - objective.observed_mean(mode) + objective.prior.pull(mode)
    response: SampleResponse = judge.response(answer)  # type: ignore[assignment]
    free = response.covariance()
    _, factor = objective.sampled_factor(free, objective.observed_covariance(mode))
    inverse = linalg.cho_solve(factor, np.eye(len(mode)))
    sampled_sd = np.sqrt(np.diag(inverse))
    gaps = gradients @ inverse / sampled_sd
    error = gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps))
    mixing: Mixing | None = answer.state.mixing
    if mixing is None:
        return Check(names, gaps.mean(axis=0), error, sd / sampled_sd)
    by_chain = judge.weight * chain_means(response, answer.state)
    figure = mixing.figure
    if mixing.mixed:  # variable by variable; now in the directions that matter
        figure = max(figure, group_gap(by_chain, mixing.groups, factor) / _APART)
    step = inverse / sampled_sd  # of w f, in posterior sd
    variance = judge.weight**2 * np.einsum("fk,fg,gk->k", step, free, step, optimize=True)
    unknown = unmixed_error(mixing, variance, by_chain @ step)
    return Check(names, gaps.mean(axis=0), np.hypot(error, unknown), sd / sampled_sd, figure)
