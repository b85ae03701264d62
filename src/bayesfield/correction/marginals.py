"""The marginal of every parameter: quantiles, probabilities and densities, whatever the posterior is made of.

Joint draws keep the correlations of ranks of the Gaussian (a copula): a draw's z-scores become parameters by
``from_normal``. Skewed normals (correction.cumulants) are what corrections leave; draws (correction.draws) and profiles
(correction.profile) are for posteriors that no such shape fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from scipy import special

from bayesfield.correction.cumulants import SkewedMarginals, from_skewed
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
        """Without the covariance, which there may be no room for."""
        effective = 1.0 / float(np.sum(self.weights**2))
        spread = self.weights @ (self.points - self.mean) ** 2
        result: FloatArray = np.sqrt(spread * (effective / max(effective - 1.0, 1.0)))
        return result

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


@dataclass(frozen=True, eq=False)
class ProfiledMarginals:
    """Tables for some parameters, skewed normals for the others.

    base: of all parameters. which: (K,) those with a table. grid: (K, G), increasing. log_densities: (K, G) there,
    normalised; between two points, and beyond the last, log p is a straight line.
    """

    base: SkewedMarginals
    which: IntArray
    grid: FloatArray
    log_densities: FloatArray

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean, sd and skewness of all parameters; of tables by the trapezoidal rule."""
        mean, sd, skewness = self.base.mean.copy(), self.base.sd.copy(), self.base.skewness.copy()
        for k, x, log_p in zip(self.which, self.grid, self.log_densities, strict=True):
            p = np.exp(log_p)
            p /= np.trapezoid(p, x)
            mean[k] = np.trapezoid(p * x, x)
            sd[k] = np.sqrt(np.trapezoid(p * (x - mean[k]) ** 2, x))
            skewness[k] = np.trapezoid(p * ((x - mean[k]) / sd[k]) ** 3, x)
        return mean, sd, skewness

    @property
    def mean(self) -> FloatArray:
        return self._moments[0]

    @property
    def sd(self) -> FloatArray:
        return self._moments[1]

    @property
    def skewness(self) -> FloatArray:
        return self._moments[2]

    @cached_property
    def _tables(self) -> list[_Table]:
        return [_table(x, log_p) for x, log_p in zip(self.grid, self.log_densities, strict=True)]

    def from_normal(self, z: FloatArray) -> FloatArray:
        out = np.array(self.base.from_normal(z))
        for k, table in zip(self.which, self._tables, strict=True):
            out[..., k] = table.at(z[..., k])
        return out

    def below(self, x: FloatArray) -> FloatArray:
        out = np.array(self.base.below(x))
        for k, table in zip(self.which, self._tables, strict=True):
            out[..., k] = table.below(x[..., k])
        return out

    def log_density(self, x: FloatArray) -> FloatArray:
        out = np.array(self.base.log_density(x))
        for k, table in zip(self.which, self._tables, strict=True):
            out[..., k] = table.log_density(x[..., k])
        return out

    def only(self, which: IntArray) -> ProfiledMarginals:
        row = {int(k): j for j, k in enumerate(self.which)}
        some = [(at, row[int(k)]) for at, k in enumerate(which) if int(k) in row]
        places, rows = (np.array(column, dtype=np.int64) for column in (zip(*some, strict=True) if some else ((), ())))
        return ProfiledMarginals(self.base.only(which), places, self.grid[rows], self.log_densities[rows])


class _Table(NamedTuple):
    """A density whose logarithm is straight between the points x, (G,), log_p there, and beyond the ends.

    slope: (G + 1,) of log p, the ends' outside first and last. shares: (G,) the probability below each point. upper:
    above each, which a difference from one would lose.
    """

    x: FloatArray
    log_p: FloatArray
    slope: FloatArray
    shares: FloatArray
    upper: FloatArray

    def log_density(self, x: FloatArray) -> FloatArray:
        place = np.searchsorted(self.x, x)
        at = np.maximum(place - 1, 0)
        result: FloatArray = self.log_p[at] + self.slope[place] * (x - self.x[at])
        return result

    def below(self, x: FloatArray) -> FloatArray:
        place = np.searchsorted(self.x, x)
        at = np.maximum(place - 1, 0)
        inside = np.exp(self.log_p[at]) * _expm1_over(self.slope[place], np.where(place, x - self.x[at], 0.0))
        left = self.shares[0] * np.exp(self.slope[0] * np.minimum(x - self.x[0], 0.0))
        return np.clip(np.where(place == 0, left, self.shares[at] + inside), 0.0, 1.0)

    def at(self, z: FloatArray) -> FloatArray:
        """The quantiles Φ(z): within an interval by inverting its straight log density."""
        p, q = special.ndtr(z), special.ndtr(-z)
        place = np.searchsorted(self.shares, p)
        at = np.maximum(place - 1, 0)
        slope, density = self.slope[place], np.exp(self.log_p[at])
        with np.errstate(divide="ignore", invalid="ignore"):
            left = self.x[0] + np.log(p / self.shares[0]) / self.slope[0]
            right = self.x[-1] + np.log(q / self.upper[-1]) / self.slope[-1]
            share = np.maximum(p - self.shares[at], 0.0) / density
            flat = np.abs(slope * share) < 1e-8
            inside = self.x[at] + np.where(flat, share, np.log1p(np.maximum(slope * share, -1.0)) / slope)
        result: FloatArray = np.where(place == 0, left, np.where(place == len(self.x), right, inside))
        return result


def _table(x: FloatArray, log_p: FloatArray) -> _Table:
    rises = np.diff(log_p) / np.diff(x)
    least = 1.0 / (x[-1] - x[0])
    slope = np.concatenate([[max(rises[0], least)], rises, [min(rises[-1], -least)]])
    masses = np.exp(log_p[:-1]) * _expm1_over(rises, np.diff(x))
    ends = np.exp(log_p[0]) / slope[0], -np.exp(log_p[-1]) / slope[-1]
    total = ends[0] + masses.sum() + ends[1]
    shares = (ends[0] + np.concatenate([[0.0], np.cumsum(masses)])) / total
    upper = (ends[1] + np.concatenate([np.cumsum(masses[::-1])[::-1], [0.0]])) / total
    return _Table(x, log_p - np.log(total), slope, shares, upper)


def _expm1_over(slope: FloatArray, width: FloatArray) -> FloatArray:
    """∫₀^width exp(slope·t) dt."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(np.abs(slope * width) < 1e-8, width, np.expm1(slope * width) / slope)
