"""A phase whose log Z is known about one point of the parameters, from sampled features.

With λ = λ₀ + S z and chains at many z, in two ways.

*Polynomial.*  log Z(λ) ≈ log Z(λ₀) + mᵀ(λ − λ₀) + Σ_k a_k φ_k(z), monomials φ_k of degree 1 … D, by least squares on
the chains' means, which are its slopes. This tells more than the chains' covariances: with slopes known to ε at points
as far apart as ±R curvature is known to about ε / R, where n independent states tell a variance to √(2 / n). It is
taken where it fits: on large lattices, whose posteriors are narrow.

*Weights.*  Z(λ) ∝ Σ_s exp(λᵀf_s) / Σ_k n_k exp(λ_kᵀf_s) / Z_k over the states of all chains, which is exact whatever
the form of log Z (Ferrenberg & Swendsen 1989; Shirts & Chodera 2008). It is noisier, as only chains nearby count.

Beyond radius R both continue with the curvature of the centre, so that nothing is asked of states that are not there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, special

from bayesfield.inference.contract import Engine, Price, Traits
from bayesfield.learning.phases.base import Answer, Answers
from bayesfield.learning.phases.graph import GraphPhase
from bayesfield.response.base import MatrixResponse, Response
from bayesfield.types import FloatArray, IntArray, Outcome, Status

_DEGREES = [2, 3, 4, 5, 6]
_ROWS = 256  # points whose weights are held at once
_SOLVE, _SOLVED = 200, 1e-6  # steps for the log Z of all chains at most; share of a chain to which they are solved
_RICH = 3.0  # slopes for each coefficient, at least


@dataclass(frozen=True, eq=False)
class Surface(ABC):
    """log Z about centre. scale: S, (F, F). slope: m, (F,). radius: R, in z."""

    centre: FloatArray
    scale: FloatArray
    slope: FloatArray
    radius: float

    @abstractmethod
    def local(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """log Z less log Z(λ₀) + mᵀ(λ − λ₀), (P,), and its slopes in z, (P, F)."""

    @abstractmethod
    def curvature(self, z: FloatArray) -> FloatArray:
        """Its second derivatives at one z, (F, F)."""

    def values(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """log Z less log Z(λ₀), (P,), and E[f], (P, F), at points (P, F)."""
        z, inner = self._inner(points)
        value, slope = self.local(inner)
        beyond = z - inner
        if beyond.any():
            push = beyond @ self._middle
            value = value + np.einsum("pf,pf->p", slope + 0.5 * push, beyond)
            slope = slope + push  # what clipping adds along the sphere is left out
        return (points - self.centre) @ self.slope + value, self.slope + slope @ self._inverse

    def covariance(self, point: FloatArray) -> FloatArray:
        """C, (F, F)."""
        _, inner = self._inner(point[None])
        result: FloatArray = self._inverse.T @ self.curvature(inner[0]) @ self._inverse
        return (result + result.T) / 2

    @cached_property
    def _inverse(self) -> FloatArray:
        result: FloatArray = linalg.inv(self.scale)
        return result

    @cached_property
    def _middle(self) -> FloatArray:
        return self.curvature(np.zeros(len(self.centre)))

    def _inner(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        z = (points - self.centre) @ self._inverse.T
        length = np.linalg.norm(z, axis=1, keepdims=True)
        return z, z * np.minimum(1.0, self.radius / np.maximum(length, 1e-300))


@dataclass(frozen=True, eq=False)
class Polynomial(Surface):
    """powers: (K, F). coefficients: a, (K,)."""

    powers: IntArray
    coefficients: FloatArray

    def local(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        return monomials(z, self.powers) @ self.coefficients, monomial_slopes(z, self.powers) @ self.coefficients

    def curvature(self, z: FloatArray) -> FloatArray:
        size = len(z)
        out = np.empty((size, size))
        for j in range(size):
            lower = np.maximum(self.powers - np.eye(size, dtype=np.int64)[j], 0)
            out[j] = monomial_slopes(z[None], lower)[0] @ (self.coefficients * self.powers[:, j])
        return out


@dataclass(frozen=True, eq=False)
class Weighted(Surface):
    """states: (S, F) features less m, in z. log_weights: (S,), so that they sum to one at z = 0."""

    states: FloatArray
    log_weights: FloatArray

    def local(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        value, slope = np.empty(len(z)), np.empty(z.shape)
        for first in range(0, len(z), _ROWS):
            rows = slice(first, first + _ROWS)
            log = z[rows] @ self.states.T + self.log_weights
            top = log.max(axis=1)
            w = np.exp(log - top[:, None])
            total = w.sum(axis=1)
            value[rows], slope[rows] = top + np.log(total), (w @ self.states) / total[:, None]
        return value, slope

    def curvature(self, z: FloatArray) -> FloatArray:
        log = self.states @ z + self.log_weights
        w = np.exp(log - log.max())
        w /= w.sum()
        away = self.states - w @ self.states
        result: FloatArray = (away * w[:, None]).T @ away
        return result


def log_weights(states: FloatArray, z: FloatArray) -> FloatArray:
    """Of states (chains, T, F), chain k at z[k]: −log Σ_k n_k exp(z_kᵀf − F_k), scaled to sum to one at z = 0.

    The chains' own log Z, F_k, solve Σ_s exp(z_kᵀf_s + w_s) = exp F_k: the optimum of a concave function, by Newton.
    """
    chains, each, size = states.shape
    flat = states.reshape(-1, size)
    energy = flat @ z.T  # (S, chains)
    means = states.mean(axis=1)
    free = 0.5 * np.einsum("kf,kf->k", z, means)  # log Z would be zᵀm / 2 if it were quadratic about z = 0
    for _ in range(_SOLVE):
        log = energy - free
        top = log.max(axis=1, keepdims=True)
        share = np.exp(log - top)
        share /= share.sum(axis=1, keepdims=True)  # (S, chains): of which chain a state would be
        gradient = each - share.sum(axis=0)
        hessian = np.diag(share.sum(axis=0)) - share.T @ share
        hessian[np.diag_indices(chains)] += 1e-3 * each + np.abs(gradient)  # damped, and fixed along a constant
        step = linalg.solve(hessian, -gradient, assume_a="pos")
        free = free + step
        if np.abs(gradient).max() < _SOLVED * each:
            break
    weights = -special.logsumexp(energy - free, axis=1)
    result: FloatArray = weights - special.logsumexp(weights)
    return result


def degrees_for(size: int, slopes: int) -> list[int]:
    """The degrees that so many slopes can tell."""
    return [d for d in _DEGREES if _RICH * len(exponents(size, d)) <= slopes] or _DEGREES[:1]


def exponents(size: int, degree: int) -> IntArray:
    """Of all monomials of degree 1 … degree in so many variables, (K, size)."""
    rows = [
        np.bincount(np.array(chosen), minlength=size)
        for d in range(1, degree + 1)
        for chosen in combinations_with_replacement(range(size), d)
    ]
    return np.array(rows, dtype=np.int64)


def monomials(z: FloatArray, powers: IntArray) -> FloatArray:
    """φ_k(z), (P, K)."""
    result: FloatArray = np.prod(z[:, None, :] ** powers, axis=2)
    return result


def monomial_slopes(z: FloatArray, powers: IntArray) -> FloatArray:
    """∂φ_k/∂z_j, (P, F, K)."""
    size = z.shape[1]
    out = np.empty((len(z), size, len(powers)))
    for j in range(size):
        lower = powers - np.eye(size, dtype=np.int64)[j]
        out[:, j] = powers[:, j] * monomials(z, np.maximum(lower, 0))
    return out


class Fitted(NamedTuple):
    """coefficients: (K,), with covariance (K, K), by the noise alone. residuals: (P, F). misfit: their mean square over
    that of noise, at least 1."""

    powers: IntArray
    coefficients: FloatArray
    covariance: FloatArray
    residuals: FloatArray
    misfit: float


def fitted(z: FloatArray, slopes: FloatArray, noise: FloatArray) -> Fitted:
    """Generalised least squares, with the degree that predicts best (generalised cross-validation).

    noise: (F, F), the covariance of the slopes' noise at every point.
    """
    root = linalg.cholesky(linalg.inv(noise), lower=False)  # rootᵀ root = noise⁻¹
    best: Fitted | None = None
    least = np.inf
    for degree in degrees_for(z.shape[1], slopes.size):
        powers = exponents(z.shape[1], degree)
        rows = monomial_slopes(z, powers)  # (P, F, K)
        G = np.einsum("ij,pjk->pik", root, rows).reshape(-1, len(powers))
        gram = G.T @ G
        coefficients = linalg.solve(gram, G.T @ (slopes @ root.T).ravel(), assume_a="pos")
        residuals = slopes - rows @ coefficients
        free = 1.0 - len(powers) / slopes.size
        mean_square = float(np.mean((residuals @ root.T) ** 2)) / free
        if mean_square / free < least:
            least = mean_square / free
            best = Fitted(powers, coefficients, linalg.inv(gram), residuals, max(mean_square, 1.0))
    assert best is not None
    return best


@dataclass(frozen=True, eq=False)
class SurfacePhase(GraphPhase):
    """w log Z(λ) of a graph by its surface. status: how the chains ended."""

    surface: Surface | None = None
    status: Status | None = None

    @property
    def traits(self) -> Traits:
        return Traits(relative=True)

    @property
    def monte_carlo(self) -> float:  # type: ignore[override]
        return 0.0 if self.status is None else self.status.residual

    def with_engine(self, engine: Engine) -> GraphPhase:  # type: ignore[override]
        return GraphPhase(self.graph, self.design, engine, self.weight, self.contrasts).with_engine(engine)

    def price(self, size: int) -> Price:
        return self.engine.price(self.graph, size)

    def at(self, parameters: FloatArray, start: Any = None) -> Answer:
        assert self.surface is not None
        assert self.status is not None
        value, mean = self.surface.values(parameters[None])
        status = Status(Outcome.SAMPLED, self.status.iterations, self.status.residual, self.status.detail)
        return Answer(float(value[0]), mean[0], status, None, parameters)

    def at_many(self, points: FloatArray, starts: Any = None) -> Answers:
        assert self.surface is not None
        values, means = self.surface.values(points)
        return Answers(values, means, np.isfinite(values))

    def response(self, answer: Answer) -> Response:
        assert self.surface is not None
        return MatrixResponse(self.surface.covariance(answer.found))

    def variances(self, answer: Answer) -> FloatArray:
        return np.diag(self.response(answer).covariance()).copy()

    def log_z_along(self, points: FloatArray) -> FloatArray:
        return self.at_many(points).log_z
