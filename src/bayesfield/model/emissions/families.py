"""What is observed of a hidden label: Gaussian, Student, Poisson or categorical, p(y | z = k) with parameters of each.

Of every family each label k has local parameters η_k (unconstrained: a mean, the log of an sd), and a view of the data
answers for U_ik(η) = log p(y_i | k, η_k): the table itself, and, under weights b_ik, Σ_i b_ik ∂U_ik and Σ_i b_ik ∂²U_ik
(``under``). In an exponential family U_ik = Σ_r T_r(y_i) ω_r(η_k) + base(y_i), so that all of these follow from the
sums Σ_i b_ik T_r(y_i). Missing observations have rows of zeros: they say nothing of their labels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from bayesfield.types import BoolArray, FloatArray, InvalidInput

_NARROW = 1e-3  # of the data's sd: no label's sd starts below it
_FARTHEST, _ROOM = 1e75, 700.0  # standardised residuals, and exponents, beyond which powers are no numbers
_HALF = 0.5  # of an observation that every state has in a start
_LOG_TAU = float(np.log(2.0 * np.pi))


class LocalPrior(NamedTuple):
    """Gaussian, the same for every label: location and variance of each local parameter, (p,)."""

    location: FloatArray
    variance: FloatArray


class Under(ABC):
    """Sums over the observations of a view under weights b, (n, K)."""

    @abstractmethod
    def total(self, local: FloatArray) -> float:
        """Σ_ik b_ik U_ik."""

    @abstractmethod
    def slopes(self, local: FloatArray) -> FloatArray:
        """Σ_i b_ik ∂U_ik, (K, p)."""

    @abstractmethod
    def curvature(self, local: FloatArray) -> FloatArray:
        """Σ_i b_ik ∂²U_ik, (K, p, p)."""


class View(ABC):
    """One column of observations as a family sees it. local: η, (K, p). weights: b, (n, K)."""

    @abstractmethod
    def tables(self, local: FloatArray) -> FloatArray:
        """U, (n, K)."""

    @abstractmethod
    def directions(self, local: FloatArray) -> FloatArray:
        """∂U_ik/∂η_k, (n, K, p)."""

    @abstractmethod
    def under(self, weights: FloatArray) -> Under:
        """What the family needs of weights, once for many η."""

    def slopes_many(self, local: FloatArray, weights: FloatArray) -> FloatArray:
        """``Under.slopes`` for many weights (n, K, D), (K, p, D)."""
        return np.stack([self.under(weights[:, :, d]).slopes(local) for d in range(weights.shape[2])], axis=2)

    @abstractmethod
    def maximised(self, weights: FloatArray, local: FloatArray | None) -> FloatArray:
        """η with the largest Σ_i b_ik U_ik, or nearer to it than ``local``."""


class Emission(ABC):
    """A family with its options. marks: names of the local parameters; groups: of the same, for priors."""

    marks: tuple[str, ...]
    groups: tuple[str, ...]

    @property
    def shared(self) -> tuple[bool, ...]:
        """Which local parameters are one for all labels."""
        return (False,) * len(self.marks)

    @abstractmethod
    def view(self, y: FloatArray) -> View:
        """y: (n,), NaN where nothing is observed; refused where the family has no such values."""

    @abstractmethod
    def prior(self, y: FloatArray) -> LocalPrior:
        """Weak, at the scale of the data."""

    @abstractmethod
    def level(self, local: FloatArray) -> FloatArray:
        """What labels are ordered by, (K,): their means."""

    def expected(self, local: FloatArray, probabilities: FloatArray) -> FloatArray:
        """E[y] of labels with these probabilities, (m, K) to (m,); of categories the likeliest one."""
        result: FloatArray = probabilities @ self.level(local)
        return result

    @abstractmethod
    def draw(self, local: FloatArray, labels: np.ndarray, rng: np.random.Generator) -> FloatArray:
        """An observation of each label, like labels."""

    def bound(self, y: FloatArray) -> Emission:
        """The same with what it has to know of the data."""
        return self


def _observed(y: FloatArray) -> tuple[BoolArray, FloatArray]:
    """Which are there; and zeros for those that are not."""
    there = ~np.isnan(y)
    if not there.any():
        raise InvalidInput("there is no observation: all of them are missing")
    if not np.isfinite(y[there]).all():
        raise InvalidInput("observations are finite numbers, or NaN where they are missing")
    return there, np.where(there, y, 0.0)


# --- exponential families -------------------------------------------------------------------------------------------


class Natural(NamedTuple):
    """ω(η), (K, R), with first and second derivatives by η, (K, R, p) and (K, R, p, p)."""

    value: FloatArray
    slope: FloatArray
    bend: FloatArray


class ExponentialView(View):
    """statistics: T, (n, R), zero where nothing is observed. base: (n,)."""

    def __init__(self, family: _Exponential, statistics: FloatArray, base: FloatArray) -> None:
        self.family = family
        self.statistics = statistics
        self.base = base

    def tables(self, local: FloatArray) -> FloatArray:
        result: FloatArray = self.statistics @ self.family.natural(local).value.T
        result += self.base[:, None]
        return result

    def directions(self, local: FloatArray) -> FloatArray:
        slope = self.family.natural(local).slope
        K, R, p = slope.shape
        flat = self.statistics @ slope.transpose(1, 0, 2).reshape(R, K * p)
        return flat.reshape(-1, K, p)

    def under(self, weights: FloatArray) -> Under:
        return _ExponentialUnder(self.family, self.sums(weights), float(self.base @ weights.sum(axis=1)))

    def slopes_many(self, local: FloatArray, weights: FloatArray) -> FloatArray:
        n, K, D = weights.shape
        sums = (self.statistics.T @ weights.reshape(n, K * D)).reshape(-1, K, D)
        result: FloatArray = np.einsum("rkd,krp->kpd", sums, self.family.natural(local).slope)
        return result

    def sums(self, weights: FloatArray) -> FloatArray:
        """Σ_i b_ik T_r(y_i), (K, R)."""
        result: FloatArray = weights.T @ self.statistics
        return result

    def maximised(self, weights: FloatArray, local: FloatArray | None) -> FloatArray:
        return self.family.from_sums(self.sums(weights))


class _ExponentialUnder(Under):
    """sums: Σ_i b_ik T_r(y_i), (K, R). base: Σ_ik b_ik base_i."""

    def __init__(self, family: _Exponential, sums: FloatArray, base: float) -> None:
        self.family = family
        self.sums = sums
        self.base = base

    def total(self, local: FloatArray) -> float:
        return self.base + float(np.sum(self.sums * self.family.natural(local).value))

    def slopes(self, local: FloatArray) -> FloatArray:
        result: FloatArray = np.einsum("kr,krp->kp", self.sums, self.family.natural(local).slope)
        return result

    def curvature(self, local: FloatArray) -> FloatArray:
        result: FloatArray = np.einsum("kr,krpq->kpq", self.sums, self.family.natural(local).bend)
        return result


class _Exponential(Emission):
    """What such families have to say beyond the others."""

    @abstractmethod
    def natural(self, local: FloatArray) -> Natural: ...

    @abstractmethod
    def from_sums(self, sums: FloatArray) -> FloatArray:
        """The maximum of Σ_r sums_kr ω_r(η_k), (K, p). sums: (K, R)."""


@dataclass(frozen=True)
class GaussianEmission(_Exponential):
    """y | k ~ N(μ_k, σ_k²), with parameters μ_k and log σ_k. shared_sd: one σ for all labels.

    The prior is Gaussian in these: μ_k about the data's mean with twice their sd, log σ_k about the log of half their
    sd, with sd 1.
    """

    shared_sd: bool = False
    marks = ("mean", "log_sd")
    groups = ("means", "log_sds")

    @property
    def shared(self) -> tuple[bool, ...]:
        return (False, self.shared_sd)

    def view(self, y: FloatArray) -> View:
        there, filled = _observed(y)
        T = np.column_stack([there.astype(np.float64), filled, filled**2])
        return ExponentialView(self, T, np.zeros(len(y)))

    def natural(self, local: FloatArray) -> Natural:
        """U = −½ log 2π − log σ − (y² − 2 μ y + μ²) / 2σ², T = (1, y, y²)."""
        mu, log_sd = local.T
        q = np.exp(-2.0 * log_sd)
        K = len(mu)
        value = np.column_stack([-0.5 * _LOG_TAU - log_sd - 0.5 * q * mu**2, q * mu, -0.5 * q])
        slope, bend = np.zeros((K, 3, 2)), np.zeros((K, 3, 2, 2))
        slope[:, 0, 0], slope[:, 0, 1] = -q * mu, -1.0 + q * mu**2
        slope[:, 1, 0], slope[:, 1, 1] = q, -2.0 * q * mu
        slope[:, 2, 1] = q
        bend[:, 0, 0, 0], bend[:, 0, 1, 1] = -q, -2.0 * q * mu**2
        bend[:, 0, 0, 1] = bend[:, 0, 1, 0] = 2.0 * q * mu
        bend[:, 1, 0, 1] = bend[:, 1, 1, 0] = -2.0 * q
        bend[:, 1, 1, 1], bend[:, 2, 1, 1] = 4.0 * q * mu, -2.0 * q
        return Natural(value, slope, bend)

    def from_sums(self, sums: FloatArray) -> FloatArray:
        whole = sums.sum(axis=0)
        mean = whole[1] / whole[0]
        least = _NARROW**2 * max(whole[2] / whole[0] - mean**2, 1e-300)
        count = np.maximum(sums[:, 0], 1e-12)
        mu = np.where(sums[:, 0] > 1e-9, sums[:, 1] / count, mean)
        scatter = sums[:, 2] - 2.0 * mu * sums[:, 1] + mu**2 * sums[:, 0]
        variance = np.full(len(mu), scatter.sum() / whole[0]) if self.shared_sd else scatter / count
        return np.column_stack([mu, 0.5 * np.log(np.maximum(variance, least))])

    def prior(self, y: FloatArray) -> LocalPrior:
        return _of_scale(y)

    def level(self, local: FloatArray) -> FloatArray:
        return local[:, 0]

    def draw(self, local: FloatArray, labels: np.ndarray, rng: np.random.Generator) -> FloatArray:
        result: FloatArray = local[labels, 0] + np.exp(local[labels, 1]) * rng.standard_normal(labels.shape)
        return result


@dataclass(frozen=True)
class PoissonEmission(_Exponential):
    """Counts, y | k ~ Poisson(exp ρ_k), with parameters ρ_k, the log rates.

    The prior is Gaussian: ρ_k about the log of the data's mean, with sd 2.
    """

    marks = ("log_rate",)
    groups = ("log_rates",)

    def view(self, y: FloatArray) -> View:
        there, filled = _observed(y)
        if (filled < 0).any() or (filled != np.floor(filled)).any():
            raise InvalidInput("Poisson observations are counts: whole numbers, not below zero")
        T = np.column_stack([there.astype(np.float64), filled])
        return ExponentialView(self, T, -special.gammaln(filled + 1.0) * there)

    def natural(self, local: FloatArray) -> Natural:
        """U = ρ y − e^ρ − log y!, T = (1, y)."""
        rho, rate = local[:, 0], np.exp(local[:, 0])
        one, zero = np.ones_like(rate), np.zeros_like(rate)
        slope, bend = np.column_stack([-rate, one]), np.column_stack([-rate, zero])
        return Natural(np.column_stack([-rate, rho]), slope[:, :, None], bend[:, :, None, None])

    def from_sums(self, sums: FloatArray) -> FloatArray:
        whole = sums.sum(axis=0)
        rate = (sums[:, 1] + _HALF * whole[1] / whole[0]) / (sums[:, 0] + _HALF)
        result: FloatArray = np.log(np.maximum(rate, 1e-12))[:, None]
        return result

    def prior(self, y: FloatArray) -> LocalPrior:
        return LocalPrior(np.array([np.log(max(float(np.nanmean(y)), 1e-3))]), np.array([4.0]))

    def level(self, local: FloatArray) -> FloatArray:
        result: FloatArray = np.exp(local[:, 0])
        return result

    def draw(self, local: FloatArray, labels: np.ndarray, rng: np.random.Generator) -> FloatArray:
        result: FloatArray = rng.poisson(np.exp(local[labels, 0])).astype(np.float64)
        return result


@dataclass(frozen=True)
class CategoricalEmission(_Exponential):
    """Categories 0 … S − 1, p(y = s | k) = softmax of S log weights. states: S; by default as many as the data show.

    The prior of each log weight is Gaussian, about the log of how often the data show that category, with sd 1; it also
    holds their common level, which no data tell.
    """

    states: int | None = None

    @property
    def marks(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"log_weight={s}" for s in range(self.states or 0))

    @property
    def groups(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("log_weights",) * (self.states or 0)

    def bound(self, y: FloatArray) -> CategoricalEmission:
        if self.states is not None:
            return self
        return CategoricalEmission(int(np.nanmax(_observed(y)[1])) + 1)

    def view(self, y: FloatArray) -> View:
        there, filled = _observed(y)
        S = self.states or 0
        if (filled < 0).any() or (filled != np.floor(filled)).any() or (filled >= S).any():
            raise InvalidInput(f"categories are whole numbers from 0 to {S - 1}; recode the others")
        T = np.zeros((len(y), S))
        T[np.flatnonzero(there), filled[there].astype(np.int64)] = 1.0
        return ExponentialView(self, T, np.zeros(len(y)))

    def natural(self, local: FloatArray) -> Natural:
        """ω_s = a_s − log Σ exp a, T = [y = s]."""
        value = local - special.logsumexp(local, axis=1, keepdims=True)
        p, S = np.exp(value), local.shape[1]
        slope = np.eye(S)[None] - p[:, None, :]
        spread = np.einsum("ks,st->kst", p, np.eye(S)) - np.einsum("ks,kt->kst", p, p)
        return Natural(value, slope, np.repeat(-spread[:, None], S, axis=1))

    def from_sums(self, sums: FloatArray) -> FloatArray:
        share = sums.sum(axis=0) + _HALF
        result: FloatArray = np.log((sums + share / share.sum()) / (sums.sum(axis=1, keepdims=True) + 1.0))
        return result

    def prior(self, y: FloatArray) -> LocalPrior:
        seen = np.bincount(y[~np.isnan(y)].astype(np.int64), minlength=self.states or 0) + _HALF
        return LocalPrior(np.log(seen / seen.sum()), np.ones(self.states or 0))

    def level(self, local: FloatArray) -> FloatArray:
        result: FloatArray = special.softmax(local, axis=1) @ np.arange(local.shape[1])
        return result

    def expected(self, local: FloatArray, probabilities: FloatArray) -> FloatArray:
        result: FloatArray = (probabilities @ special.softmax(local, axis=1)).argmax(axis=1).astype(np.float64)
        return result

    def draw(self, local: FloatArray, labels: np.ndarray, rng: np.random.Generator) -> FloatArray:
        ends = np.cumsum(special.softmax(local, axis=1), axis=1)[labels]
        result: FloatArray = (rng.random(labels.shape)[..., None] > ends[..., :-1]).sum(axis=-1).astype(np.float64)
        return result


# --- heavy tails ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StudentEmission(Emission):
    """y | k ~ μ_k + σ_k t_ν, for outliers, with parameters μ_k and log σ_k. freedom: ν, given. shared_sd: one σ for all
    labels. The prior is as the Gaussian emission's."""

    freedom: float = 4.0
    shared_sd: bool = False
    marks = ("mean", "log_scale")
    groups = ("means", "log_scales")

    def __post_init__(self) -> None:
        if not self.freedom > 0:
            raise InvalidInput(f"freedom, the degrees of freedom, is above zero; got {self.freedom!r}")

    @property
    def shared(self) -> tuple[bool, ...]:
        return (False, self.shared_sd)

    def view(self, y: FloatArray) -> View:
        return _StudentView(y, self.freedom, self.shared_sd)

    def prior(self, y: FloatArray) -> LocalPrior:
        return _of_scale(y)

    def level(self, local: FloatArray) -> FloatArray:
        return local[:, 0]

    def draw(self, local: FloatArray, labels: np.ndarray, rng: np.random.Generator) -> FloatArray:
        noise = rng.standard_t(self.freedom, labels.shape)
        result: FloatArray = local[labels, 0] + np.exp(local[labels, 1]) * noise
        return result


class _StudentView(View):
    """U = c − log σ − (ν + 1)/2 log(1 + z²/ν), z = (y − μ)/σ."""

    def __init__(self, y: FloatArray, freedom: float, shared: bool) -> None:
        self.there, self.y = _observed(y)
        self.nu, self.shared = freedom, shared
        self.constant = float(
            special.gammaln(0.5 * (freedom + 1.0)) - special.gammaln(0.5 * freedom) - 0.5 * np.log(freedom * np.pi)
        )

    def tables(self, local: FloatArray) -> FloatArray:
        z = self.standardised(local)
        U = self.constant - local[:, 1] - 0.5 * (self.nu + 1.0) * np.log1p(z**2 / self.nu)
        return np.where(self.there[:, None], U, 0.0)

    def directions(self, local: FloatArray) -> FloatArray:
        z = self.standardised(local)
        pull = (self.nu + 1.0) * z / (self.nu + z**2)
        result = np.stack([pull * np.exp(-local[:, 1]), pull * z - 1.0], axis=2)
        result[~self.there] = 0.0
        return result

    def under(self, weights: FloatArray) -> Under:
        return _StudentUnder(self, np.where(self.there[:, None], weights, 0.0))

    def maximised(self, weights: FloatArray, local: FloatArray | None) -> FloatArray:
        """One step of EM with the mixing of variances hidden, too (Lange, Little & Taylor 1989)."""
        w = np.where(self.there[:, None], weights, 0.0)
        count = np.maximum(w.sum(axis=0), 1e-12)
        if local is not None:
            w = w * (self.nu + 1.0) / (self.nu + self.standardised(local) ** 2)
        mu = (w * self.y[:, None]).sum(axis=0) / np.maximum(w.sum(axis=0), 1e-12)
        scatter = (w * (self.y[:, None] - mu) ** 2).sum(axis=0)
        variance = np.full(len(mu), scatter.sum() / count.sum()) if self.shared else scatter / count
        least = (_NARROW * float(self.y[self.there].std()) + 1e-150) ** 2
        return np.column_stack([mu, 0.5 * np.log(np.maximum(variance, least))])

    def standardised(self, local: FloatArray) -> FloatArray:
        """z, within what has a fourth power: a step of a search may go far beyond, and is then shortened."""
        with np.errstate(over="ignore"):
            z = (self.y[:, None] - local[:, 0]) * np.exp(np.minimum(-local[:, 1], _ROOM))
        result: FloatArray = np.clip(z, -_FARTHEST, _FARTHEST)
        return result


class _StudentUnder(Under):
    """weights: b, (n, K), zero where nothing is observed."""

    def __init__(self, view: _StudentView, weights: FloatArray) -> None:
        self.view = view
        self.weights = weights

    def total(self, local: FloatArray) -> float:
        return float(np.sum(self.weights * self.view.tables(local)))

    def slopes(self, local: FloatArray) -> FloatArray:
        result: FloatArray = np.einsum("nk,nkp->kp", self.weights, self.view.directions(local))
        return result

    def curvature(self, local: FloatArray) -> FloatArray:
        z, nu, narrow = self.view.standardised(local), self.view.nu, np.exp(-local[:, 1])
        b = self.weights * (nu + 1.0) / (nu + z**2) ** 2
        result = np.empty((len(local), 2, 2))
        result[:, 0, 0] = -((b * (nu - z**2)).sum(axis=0)) * narrow**2
        result[:, 0, 1] = result[:, 1, 0] = -2.0 * nu * (b * z).sum(axis=0) * narrow
        result[:, 1, 1] = -2.0 * nu * (b * z**2).sum(axis=0)
        return result


def _of_scale(y: FloatArray) -> LocalPrior:
    """Of a location and a log scale: means within twice the data's sd, scales about half of it within a factor e."""
    centre, sd = float(np.nanmean(y)), float(np.nanstd(y))
    if not sd > 0.0:
        raise InvalidInput("all observations are alike: there is no scale to learn")
    return LocalPrior(np.array([centre, np.log(0.5 * sd)]), np.array([4.0 * sd**2, 1.0]))
