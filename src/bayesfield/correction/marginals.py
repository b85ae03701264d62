"""The marginal of every parameter: quantiles, probabilities and densities, whatever the posterior is made of.

Joint draws keep the correlations of ranks of the Gaussian (a copula): a draw's z-scores become parameters by
``from_normal``. Skewed normals (correction.skewness) are what corrections leave; draws and profiles are for posteriors
that no such shape fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import special

from bayesfield.correction.skewness import SkewedMarginals, from_skewed
from bayesfield.types import FloatArray, IntArray

_NEAR = 30.0  # draws that a kernel must hold for its density to be believed


class Marginals(Protocol):
    """mean, sd, skewness: (F,)."""

    @property
    def mean(self) -> FloatArray: ...
    @property
    def sd(self) -> FloatArray: ...
    @property
    def skewness(self) -> FloatArray: ...

    def from_normal(self, z: FloatArray) -> FloatArray:
        """Parameters at the quantiles Φ(z), (…, F)."""
        ...

    def below(self, x: FloatArray) -> FloatArray:
        """P(λ_k < x_k), (F,)."""
        ...

    def log_density(self, x: FloatArray) -> FloatArray:
        """log p(λ_k = x_k), for (…, F)."""
        ...

    def only(self, which: IntArray) -> Marginals:
        """Those of some parameters."""
        ...


@dataclass(frozen=True, eq=False)
class DrawnMarginals:
    """Those of draws. points: (S, F). weights: (S,), normalised."""

    points: FloatArray
    weights: FloatArray

    @cached_property
    def mean(self) -> FloatArray:
        result: FloatArray = self.weights @ self.points
        return result

    @cached_property
    def covariance(self) -> FloatArray:
        """(F, F), as an estimate from as many draws as the weights are worth."""
        away = self.points - self.mean
        effective = 1.0 / float(np.sum(self.weights**2))
        result: FloatArray = (self.weights * away.T) @ away * (effective / max(effective - 1.0, 1.0))
        return (result + result.T) / 2

    @cached_property
    def sd(self) -> FloatArray:
        return np.sqrt(np.diag(self.covariance))

    @cached_property
    def skewness(self) -> FloatArray:
        result: FloatArray = self.weights @ ((self.points - self.mean) / self.sd) ** 3
        return result

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """n of the draws, (n, F), by their weights; each at most once where the weights are equal and they suffice."""
        count, equal = len(self.weights), bool(np.ptp(self.weights) < 1e-15)
        rows = rng.choice(count, n, replace=not equal or n > count, p=None if equal else self.weights)
        return self.points[rows]

    @cached_property
    def _sorted(self) -> tuple[FloatArray, FloatArray]:
        """Each parameter's draws in order, (F, S), and the share of the weights below each."""
        order = np.argsort(self.points.T, axis=1)
        weights = self.weights[order]
        return np.take_along_axis(self.points.T, order, axis=1), np.cumsum(weights, axis=1) - 0.5 * weights

    def from_normal(self, z: FloatArray) -> FloatArray:
        values, shares = self._sorted
        p = special.ndtr(z)
        columns = [np.interp(p[..., k], shares[k], values[k]) for k in range(len(values))]
        return np.stack(columns, axis=-1) if columns else np.zeros_like(z)

    def below(self, x: FloatArray) -> FloatArray:
        result: FloatArray = np.clip(self.weights @ (self.points < x), 0.0, 1.0)  # weights add up to 1 but for rounding
        return result

    def log_density(self, x: FloatArray) -> FloatArray:
        """By a kernel on the scores that a skewed normal of the same moments gives the draws, which is then nearly a
        standard normal; where too few draws lie nearby, that skewed normal itself."""
        fitted = SkewedMarginals(self.mean, self.sd, self.skewness)
        scores, _ = from_skewed((self.points - self.mean) / self.sd, self.skewness)
        at, slope = from_skewed((x - self.mean) / self.sd, self.skewness)
        effective = 1.0 / float(np.sum(self.weights**2))
        width = 1.06 * effective**-0.2
        share = np.empty(at.shape)
        for row in np.ndindex(at.shape[:-1]):
            with np.errstate(invalid="ignore"):
                kernel = np.exp(-0.5 * ((scores - at[row]) / width) ** 2)
            share[row] = self.weights @ np.nan_to_num(kernel)
        near = (share * effective > _NEAR) & np.isfinite(at) & np.isfinite(slope)
        with np.errstate(divide="ignore", invalid="ignore"):
            smooth = np.log(share / (width * np.sqrt(2.0 * np.pi))) + slope - np.log(self.sd)
        result: FloatArray = np.where(near, smooth, fitted.log_density(x))
        return result

    def only(self, which: IntArray) -> DrawnMarginals:
        return DrawnMarginals(self.points[:, which], self.weights)
