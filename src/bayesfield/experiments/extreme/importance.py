"""Integrals over many parameters: importance sampling from a mixture that is fitted to the posterior.

Population Monte Carlo (Cappé, Douc, Guillin, Marin and Robert 2008): draws of a mixture are weighted by the posterior
and the mixture is fitted to the weighted draws, a few times; the draws that count come from the last mixture. Its
components are Student's t, and one of them is wider than the posterior, so that no weight is large: the posterior is
log-concave, with the Gaussian tails of its prior.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from bayesfield.experiments.extreme.cubature import Weighted
from bayesfield.experiments.extreme.density import LogDensity
from bayesfield.types import FloatArray, IntArray

_COMPONENTS = 24
_FREEDOM, _WIDE_FREEDOM = 12.0, 4.0  # degrees of freedom: of the fitted components, of the wide one
_WIDE_SHARE, _WIDE_SCALE = 0.08, 1.5
_LEAST = 1e-4  # variance of a component in whitened coordinates: edges are about 1/100 of the sd
_ADAPTING = (1 << 14, 1 << 15, 1 << 15)  # draws of the rounds that fit the mixture
_ROUND, _ROUNDS = 1 << 17, 16
_EFFECTIVE = 150_000.0  # draws: an error of 0.0013 at most in P(λ > 0), of 0.003 sd in means


@dataclass(frozen=True, eq=False)
class Mixture:
    """shares: (K,). means: (K, F). roots: (K, F, F) Cholesky factors of the scale matrices. freedom: (K,)."""

    shares: FloatArray
    means: FloatArray
    roots: FloatArray
    freedom: FloatArray

    def draws(self, count: int, rng: np.random.Generator) -> FloatArray:
        size = self.means.shape[1]
        each = rng.multinomial(count, self.shares / self.shares.sum())
        parts = []
        for k, n in enumerate(each):
            scale = np.sqrt(self.freedom[k] / rng.chisquare(self.freedom[k], size=n))
            parts.append(self.means[k] + (rng.standard_normal((n, size)) @ self.roots[k].T) * scale[:, None])
        return np.concatenate(parts)

    def log_components(self, z: FloatArray) -> FloatArray:
        """log of share times density of every component: (n, K)."""
        size = z.shape[1]
        result = np.empty((len(z), len(self.shares)))
        for k, nu in enumerate(self.freedom):
            inverse = np.linalg.inv(self.roots[k])
            squares = (((z - self.means[k]) @ inverse.T) ** 2).sum(axis=1)
            constant = special.gammaln((nu + size) / 2) - special.gammaln(nu / 2) - 0.5 * size * np.log(nu * np.pi)
            constant -= np.log(np.diag(self.roots[k])).sum() - np.log(self.shares[k])
            result[:, k] = constant - 0.5 * (nu + size) * np.log1p(squares / nu)
        return result

    def log_density(self, z: FloatArray) -> FloatArray:
        parts = self.log_components(z)
        highest = parts.max(axis=1)
        total: FloatArray = highest + np.log(np.exp(parts - highest[:, None]).sum(axis=1))
        return total


def sample(
    density: LogDensity, draws: FloatArray, centre: FloatArray, root: FloatArray, rng: np.random.Generator
) -> Weighted:
    """Weighted draws λ = centre + root z. draws: of a short run of chains, which the first mixture is fitted to."""
    z: FloatArray = np.linalg.solve(root, (draws - centre).T).T.astype(np.float64)
    mixture = _fitted(_first(z, rng), z, np.ones(len(z)), 12)
    for count in _ADAPTING:
        z = mixture.draws(count, rng)
        weights = _log_weights(density, mixture, z, centre, root)
        use = rng.choice(count, size=count, p=special.softmax(weights))
        mixture = _fitted(mixture, *_distinct(z, use), 3)
    return _weighted(density, mixture, centre, root, rng)


def _weighted(
    density: LogDensity, mixture: Mixture, centre: FloatArray, root: FloatArray, rng: np.random.Generator
) -> Weighted:
    points, logs = [], []
    for _ in range(_ROUNDS):
        z = mixture.draws(_ROUND, rng)
        points.append(z)
        logs.append(_log_weights(density, mixture, z, centre, root))
        weights = special.softmax(np.concatenate(logs))
        if 1.0 / (weights**2).sum() >= _EFFECTIVE:
            break
    every = np.concatenate(logs)
    log_evidence = special.logsumexp(every) - np.log(len(every))
    return Weighted(centre + np.concatenate(points) @ root.T, weights, float(log_evidence), float("nan"))


def _log_weights(
    density: LogDensity, mixture: Mixture, z: FloatArray, centre: FloatArray, root: FloatArray
) -> FloatArray:
    volume = np.linalg.slogdet(root)[1]
    result: FloatArray = density(centre + z @ root.T) + volume - mixture.log_density(z)
    return result


def _distinct(z: FloatArray, use: IntArray) -> tuple[FloatArray, FloatArray]:
    """Resampled draws, each once, with how often it was taken."""
    taken, times = np.unique(use, return_counts=True)
    return z[taken], times.astype(np.float64)


def _first(z: FloatArray, rng: np.random.Generator) -> Mixture:
    """Components at random draws, each as wide as its share of the whole; the wide one last."""
    size = z.shape[1]
    count = max(4, min(_COMPONENTS, len(z) // (10 * size)))
    means = np.concatenate([z[rng.choice(len(z), size=count, replace=False)], np.zeros((1, size))])
    roots = np.repeat(np.eye(size)[None] * np.sqrt(0.5), count + 1, axis=0)
    roots[-1] = np.eye(size) * np.sqrt(_WIDE_SCALE)
    shares = np.append(np.full(count, (1 - _WIDE_SHARE) / count), _WIDE_SHARE)
    return Mixture(shares, means, roots, np.append(np.full(count, _FREEDOM), _WIDE_FREEDOM))


def _fitted(mixture: Mixture, z: FloatArray, weights: FloatArray, steps: int) -> Mixture:
    """Steps of EM on weighted draws, for all components but the wide one."""
    size = z.shape[1]
    for _ in range(steps):
        parts = mixture.log_components(z)
        duties = special.softmax(parts, axis=1)[:, :-1] * weights[:, None]
        shares = duties.sum(axis=0) + 1e-9
        means, roots = mixture.means.copy(), mixture.roots.copy()
        for k in np.flatnonzero(shares > 2.0 * size):
            means[k] = duties[:, k] @ z / shares[k]
            centred = z - means[k]
            scale = (centred.T * duties[:, k]) @ centred / shares[k]
            roots[k] = np.linalg.cholesky(scale + _LEAST * np.eye(size))
        kept = np.maximum(shares, 1e-4 * shares.sum())
        kept *= (1 - _WIDE_SHARE) / kept.sum()
        mixture = Mixture(np.append(kept, _WIDE_SHARE), means, roots, mixture.freedom)
    return mixture
