"""The prior of the parameters as one object: λ ~ N(μ, Λ), equation (2), with its products, its diagonal, its density.

Nobody else asks whether Λ⁻¹ is a diagonal or a matrix.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from bayesfield.model.prior import Normal, Parametrised, Prior, Shared
from bayesfield.types import FloatArray


@dataclass(frozen=True, eq=False)
class GaussianPrior:
    """N(location, Λ). precision: Λ⁻¹, its diagonal (F,) where the parameters are independent, else the matrix (F, F).

    tails: (F,) scales of the parameters whose prior is a Cauchy, infinite for the others; None where all are Gaussian.
    Location and precision are then its expansion about the mode (fitting.prior_learning). learned: the variances that
    the data are to choose.
    """

    location: FloatArray
    precision: FloatArray
    tails: FloatArray | None = None
    learned: tuple[Shared, ...] = ()

    @property
    def size(self) -> int:
        """F."""
        return len(self.location)

    @property
    def independent(self) -> bool:
        """Whether Λ⁻¹ is diagonal."""
        return self.precision.ndim == 1

    @property
    def diagonal(self) -> FloatArray:
        """diag(Λ⁻¹), (F,)."""
        return self.precision if self.independent else np.diag(self.precision)

    def matrix(self) -> FloatArray:
        """Λ⁻¹, (F, F)."""
        return np.diag(self.precision) if self.independent else self.precision

    @property
    def bound(self) -> FloatArray:
        """d, (F,), with δᵀΛ⁻¹δ ≤ Σ_k d_k δ_k²: the sums of the rows' absolute values."""
        return self.precision if self.independent else np.abs(self.precision).sum(axis=1)

    def times(self, vectors: FloatArray) -> FloatArray:
        """Λ⁻¹ · vectors, for (F,) or (F, D)."""
        if self.precision.ndim == 2:
            product: FloatArray = self.precision @ vectors
            return product
        return self.precision * vectors if vectors.ndim == 1 else self.precision[:, None] * vectors

    def plus(self, matrix: FloatArray) -> FloatArray:
        """matrix + Λ⁻¹; the matrix is changed in place."""
        if self.independent:
            matrix[np.diag_indices_from(matrix)] += self.precision
        else:
            matrix += self.precision
        return matrix

    def pull(self, parameters: FloatArray) -> FloatArray:
        """−∇ log p(λ) = Λ⁻¹ (λ − μ)."""
        return self.times(parameters - self.location)

    def log_kernel(self, parameters: FloatArray) -> float:
        """log p(λ) up to a constant."""
        away = parameters - self.location
        return -0.5 * float(away @ self.times(away))

    def log_density(self, parameters: FloatArray) -> float:
        """log p(λ), with its constant; where tails are heavy, of the Cauchy itself and not of its expansion."""
        gaussian = np.ones(self.size, dtype=np.bool_) if self.tails is None else ~np.isfinite(self.tails)
        cauchy = 0.0
        if self.tails is not None:
            s = self.tails[~gaussian]
            cauchy = float(np.sum(np.log(s / np.pi) - np.log(s**2 + parameters[~gaussian] ** 2)))
        if self.independent:
            own, away = self.precision[gaussian], (parameters - self.location)[gaussian]
            return cauchy + 0.5 * float(np.log(own / (2.0 * np.pi)).sum() - own @ away**2)
        volume = float(np.linalg.slogdet(self.precision)[1]) - self.size * float(np.log(2.0 * np.pi))
        return cauchy + 0.5 * volume + self.log_kernel(parameters)

    @cached_property
    def covariance(self) -> FloatArray:
        """Λ, (F, F)."""
        return np.diag(1.0 / self.precision) if self.independent else linalg.inv(self.precision)

    def scaled(self, factor: float) -> Normal:
        """What a user would state for this Gaussian with its variances multiplied by a factor."""
        if self.independent:
            return Normal(variance=factor / self.precision, mean=self.location)
        return Normal(covariance=factor * self.covariance, mean=self.location)


def gaussian(prior: Prior, model: Parametrised) -> GaussianPrior:
    """A model's prior as a user stated it; where the data are to choose it, where the search begins."""
    return GaussianPrior(prior.location(model), prior.precision(model), prior.tails(model), prior.learned(model))


def flat(size: int) -> GaussianPrior:
    """No prior: for parts of an objective whose prior counts elsewhere."""
    return GaussianPrior(np.zeros(size), np.zeros(size))
