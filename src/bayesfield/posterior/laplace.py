"""The Laplace posterior, equation (7): a Gaussian at the most probable parameters, with precision P = N C + Λ⁻¹."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import linalg, stats

from bayesfield.inference import Sampled
from bayesfield.learning import Iteration, Objective, enough_chains
from bayesfield.model import RandomField
from bayesfield.posterior.check import Check, check_fit
from bayesfield.posterior.correction import CorrectionRecord
from bayesfield.types import FloatArray, IndefiniteCurvature, InvalidInput, Status


@dataclass(frozen=True)
class FitRecord:
    """How a posterior was found.

    status: of the optimisation. inference: of the engine at the optimum. distance: √(gᵀP⁻¹g), how far the optimum may
    still be, in posterior standard deviations. log_likelihood: Σ log p(x_n|λ_MP) by the engine.
    """

    engine: str
    response: str
    method: str
    status: Status
    inference: Status
    iterations: tuple[Iteration, ...]
    gradient_norm: float
    distance: float
    log_likelihood: float
    n_cases: int
    correction: CorrectionRecord
    seconds: float

    def __str__(self) -> str:
        return "\n".join(
            [
                f"engine      {self.engine}",
                f"response    {self.response}",
                f"inference   {self.inference}",
                f"optimum     {self.status}",
                f"correction  {self.correction}",
                f"cases       {self.n_cases}, log-likelihood {self.log_likelihood:.6g}",
                f"optimum within {self.distance:.1g} posterior sd; {self.seconds:.3g} s",
            ]
        )


class Posterior:
    """λ | D ≈ N(mean, precision⁻¹).

    mean: (F,), λ_MP or its correction. precision: P, (F, F). mode: λ_MP. field: what the parameters belong to.
    record: how it was found. objective: what was minimised, for ``check``.
    """

    def __init__(
        self,
        field: RandomField,
        mean: FloatArray,
        precision: FloatArray,
        record: FitRecord,
        mode: FloatArray | None = None,
        objective: Objective | None = None,
    ) -> None:
        self.field = field
        self.objective = objective
        self.mean = mean
        self.mode = mean if mode is None else mode
        self.precision = precision
        self.record = record
        try:
            self._cholesky: FloatArray = linalg.cholesky(precision, lower=True)
        except (linalg.LinAlgError, ValueError):
            raise IndefiniteCurvature(_refusal(field, precision, record)) from None

    @cached_property
    def _covariance(self) -> FloatArray:
        inverse = linalg.cho_solve((self._cholesky, True), np.eye(len(self.mean)))
        result: FloatArray = (inverse + inverse.T) / 2
        return result

    @cached_property
    def sd(self) -> FloatArray:
        """Posterior standard deviation of every parameter, (F,)."""
        return np.sqrt(np.diag(self._covariance))

    def covariance(self) -> FloatArray:
        """P⁻¹, (F, F)."""
        return self._covariance.copy()

    def sample(self, n: int, rng: np.random.Generator | int | None = None) -> FloatArray:
        """n draws of the parameters, (n, F)."""
        if n < 0:
            raise InvalidInput(f"the number of draws must not be negative; got {n}")
        noise = np.random.default_rng(rng).standard_normal((len(self.mean), n))
        draws = linalg.solve_triangular(self._cholesky, noise, lower=True, trans="T") if len(self.mean) else noise
        result: FloatArray = self.mean + draws.T
        return result

    def check(self, rng: np.random.Generator | int | None = 0, engine: Sampled | None = None) -> Check:
        """How far the mode is from the true one, and the widths from the true ones, by sampling at the mode.

        engine: chains to use; by default as many as make the Monte-Carlo error some hundredths of a standard deviation.
        """
        if self.objective is None:
            raise InvalidInput("this posterior came without its data, so there is nothing to check it against")
        if engine is None:
            seed = int(np.random.default_rng(rng).integers(2**31))
            engine = enough_chains(Sampled(seed=seed), self.record.n_cases)
        return check_fit(self.objective, self.field.parameter_names, self.mode, self.sd, engine)

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """A row for each parameter: mean, sd, the central interval of that level, and P(λ > 0)."""
        if not 0.0 < level < 1.0:
            raise InvalidInput(f"level lies between 0 and 1; got {level}")
        z = stats.norm.ppf(0.5 + level / 2)
        return pd.DataFrame(
            {
                "mean": self.mean,
                "sd": self.sd,
                "lower": self.mean - z * self.sd,
                "upper": self.mean + z * self.sd,
                "p_positive": stats.norm.cdf(self.mean / self.sd),
            },
            index=pd.Index(self.field.parameter_names, name="parameter"),
        )

    def __repr__(self) -> str:
        return (
            f"Posterior({len(self.mean)} parameters, {self.record.n_cases} cases, {self.record.engine}: "
            f"{self.record.status})"
        )


def _refusal(field: RandomField, precision: FloatArray, record: FitRecord) -> str:
    """Why there is no posterior: the parameters in the directions along which the curvature is not positive."""
    head = f"no posterior: its precision is not positive definite at the point reached ({record.status})"
    if not np.isfinite(precision).all():
        return head + "; it holds numbers that are not finite: take a narrower prior or another engine"
    values, vectors = np.linalg.eigh(precision)
    strongest = np.argsort(-np.abs(vectors[:, 0]))[:5]
    names = ", ".join(field.parameter_names[k] for k in strongest)
    return (
        f"{head}. Smallest eigenvalue {values[0]:.3g} ({int((values <= 0).sum())} not above zero), along: {names}. "
        "Take a narrower prior, an engine that is exact on this field, or drop or tie these parameters"
    )
