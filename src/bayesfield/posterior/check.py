"""How far to trust a fit: one Newton step from its mode with sampled means.

λ − λ_true ≈ P⁻¹ g with g = N (E_true[f] − f̄) + Λ⁻¹ (λ − μ) the true gradient at the mode λ, here in posterior standard
deviations, with E_true and P sampled. At an engine's own optimum g = N (E_true[f] − E_engine[f]): its bias.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import linalg

from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.learning.objective import Objective
from bayesfield.learning.phases.graph import GraphPhase
from bayesfield.learning.search.sampled_newton import factored
from bayesfield.types import FloatArray

_GOOD, _FAIR = 0.1, 0.3  # root mean square bias in posterior sd
_WIDTHS = 0.1  # largest share by which the median width may be off


@dataclass(frozen=True, eq=False)
class Check:
    """What ``posterior.check`` found, parameter by parameter.

    bias: (mode − true mode) / sd. error: its Monte-Carlo error. sd_ratio: the fit's sd over the sampled. Each (F,).
    """

    names: list[str]
    bias: FloatArray
    error: FloatArray
    sd_ratio: FloatArray

    @property
    def rms(self) -> float:
        """Root mean square bias, with what Monte-Carlo error adds to it taken off."""
        if not len(self.bias):
            return 0.0
        return float(np.sqrt(np.clip(np.mean(self.bias**2) - np.mean(self.error**2), 0.0, None)))

    @property
    def passed(self) -> bool:
        return self.rms <= _GOOD and abs(self.width - 1.0) <= _WIDTHS

    @property
    def width(self) -> float:
        """The fit's widths over the sampled ones: the median."""
        return float(np.median(self.sd_ratio)) if len(self.sd_ratio) else 1.0

    @property
    def verdict(self) -> str:
        if self.passed:
            return "good: the mode and the widths are right"
        remedy = "polish it by fit(..., engine=bf.Sampled(), start=posterior.mode), or take larger regions (bf.Kikuchi)"
        grade = "fair" if self.rms <= _FAIR else "poor"
        return f"{grade}: {remedy}"

    def summary(self) -> pd.DataFrame:
        """A row for each parameter."""
        index = pd.Index(self.names, name="parameter")
        return pd.DataFrame({"bias": self.bias, "error": self.error, "sd_ratio": self.sd_ratio}, index=index)

    def __str__(self) -> str:
        noise = float(np.sqrt(np.mean(self.error**2))) if len(self.error) else 0.0
        return (
            f"the mode is within {self.rms:.2f} sd (rms; largest {np.abs(self.bias).max(initial=0.0):.2f}, "
            f"±{noise:.2f}) of the true one, widths are {self.width:.2f} of the sampled ones: {self.verdict}"
        )


def check_fit(objective: Objective, names: list[str], mode: FloatArray, sd: FloatArray, engine: Sampled) -> Check:
    """Compare a fit with ``engine`` at its mode. The objective's own engine is not asked for the free phase."""
    judge: GraphPhase = objective.free.with_engine(engine)
    answer = judge.at(mode)
    means = judge.weight * judge.design.expectations_many(answer.state.batch_means)
    gradients = means - objective.observed_mean(mode) + objective.prior.pull(mode)
    free = judge.response(answer).covariance()
    _, factor = factored(objective, free, objective.observed_covariance(mode))
    sampled_sd = np.sqrt(np.diag(linalg.cho_solve(factor, np.eye(len(mode)))))
    gaps = linalg.cho_solve(factor, gradients.T).T / sampled_sd
    error = gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps))
    return Check(names, gaps.mean(axis=0), error, sd / sampled_sd)
