"""log p(D, λ) of a tiny field by enumeration, its mode, and an ensemble of chains: all in NumPy, from the definition.

log p(D, λ) = sᵀλ − N log Z(λ) − |λ|²/(2v) − (F/2) log 2πv, with s = Σ_n f(x_n) and Z the sum over all joint states.
It is log-concave, so that slices along lines are intervals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayesfield.types import BoolArray, FloatArray

_ROWS = 1 << 14  # points looked at together
_FAR = 60  # doublings of an interval: 2^60 directions is beyond any prior


@dataclass(frozen=True, eq=False)
class LogDensity:
    """features: (S, F) of the joint states, each once. log_weights: (S,) log of how many joint states have these.
    total: s, (F,). cases: N. variance: v."""

    features: FloatArray
    log_weights: FloatArray
    total: FloatArray
    cases: float
    variance: float

    @classmethod
    def of(cls, features: FloatArray, counts: FloatArray, variance: float) -> LogDensity:
        distinct, times = np.unique(features, axis=0, return_counts=True)
        return cls(distinct, np.log(times), counts @ features, float(counts.sum()), variance)

    @property
    def size(self) -> int:
        return len(self.total)

    def __call__(self, points: FloatArray) -> FloatArray:
        """log p(D, λ) at (n, F) points."""
        result = np.empty(len(points))
        for k in range(0, len(points), _ROWS):
            some = points[k : k + _ROWS]
            result[k : k + _ROWS] = self.at(some @ self.features.T, some @ self.total, (some**2).sum(axis=1))
        return result

    def at(self, energies: FloatArray, linear: FloatArray, squares: FloatArray) -> FloatArray:
        """The same from λᵀf of all states, (n, S), from sᵀλ and from |λ|²."""
        exponents = energies + self.log_weights
        highest = exponents.max(axis=1)
        log_z = highest + np.log(np.exp(exponents - highest[:, None]).sum(axis=1))
        constant = 0.5 * self.size * np.log(2 * np.pi * self.variance)
        result: FloatArray = linear - self.cases * log_z - squares / (2 * self.variance) - constant
        return result

    def derivatives(self, point: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gradient (F,) and minus the Hessian (F, F)."""
        exponents = self.features @ point + self.log_weights
        p = np.exp(exponents - exponents.max())
        p /= p.sum()
        mean = p @ self.features
        centred = self.features - mean
        curvature = self.cases * (centred.T * p) @ centred + np.eye(self.size) / self.variance
        return self.total - self.cases * mean - point / self.variance, curvature


def mode(density: LogDensity) -> tuple[FloatArray, FloatArray]:
    """Newton's method, damped: the mode (F,) and minus the Hessian there."""
    point = np.zeros(density.size)
    for _ in range(500):
        gradient, curvature = density.derivatives(point)
        step = np.linalg.solve(curvature, gradient)
        if gradient @ step < 1e-16:
            break
        here, length = density(point[None])[0], 1.0
        while density((point + length * step)[None])[0] < here and length > 1e-12:
            length /= 2
        point = point + length * step
    return point, density.derivatives(point)[1]


def ensemble(density: LogDensity, chains: int, snapshots: int, rng: np.random.Generator) -> FloatArray:
    """Draws by ensemble slice sampling (Karamanis and Beutler 2021), (chains · snapshots, F).

    Each chain moves along the difference of two chains of the other half, so that directions take the shape of the
    posterior; along a line the slice is an interval, drawn from exactly. Used to place the other methods only.
    """
    centre, curvature = mode(density)
    root = np.linalg.cholesky(np.linalg.inv(curvature))
    points = centre + rng.standard_normal((chains, density.size)) @ root.T
    halves, kept = [points[: chains // 2], points[chains // 2 :]], []
    between = 2 + density.size
    for step in range((snapshots + 12) * between):
        for half in (0, 1):
            halves[half] = _moved(density, halves[half], halves[1 - half], rng)
        if step >= 12 * between and step % between == 0:
            kept.append(np.concatenate(halves))
    return np.concatenate(kept)


@dataclass(frozen=True, eq=False)
class _Lines:
    """The density at points + t · directions, for each row its t. Energies are linear in t, squares quadratic."""

    density: LogDensity
    energies: tuple[FloatArray, FloatArray]
    linear: tuple[FloatArray, FloatArray]
    squares: tuple[FloatArray, FloatArray, FloatArray]

    @classmethod
    def through(cls, density: LogDensity, points: FloatArray, directions: FloatArray) -> _Lines:
        return cls(
            density,
            (points @ density.features.T, directions @ density.features.T),
            (points @ density.total, directions @ density.total),
            ((points**2).sum(axis=1), 2 * (points * directions).sum(axis=1), (directions**2).sum(axis=1)),
        )

    def at(self, t: FloatArray, rows: BoolArray) -> FloatArray:
        s = t[rows]
        constant, slope, curvature = self.squares
        return self.density.at(
            self.energies[0][rows] + s[:, None] * self.energies[1][rows],
            self.linear[0][rows] + s * self.linear[1][rows],
            constant[rows] + s * slope[rows] + s**2 * curvature[rows],
        )


def _moved(density: LogDensity, points: FloatArray, others: FloatArray, rng: np.random.Generator) -> FloatArray:
    """One slice move of every point, along differences of the others."""
    count = len(points)
    first = rng.integers(len(others), size=count)
    second = (first + rng.integers(1, len(others), size=count)) % len(others)
    directions = 1.5 * (others[first] - others[second])
    lines = _Lines.through(density, points, directions)
    level = lines.at(np.zeros(count), np.ones(count, dtype=bool)) - rng.exponential(size=count)
    right = rng.random(count)
    left = right - 1.0
    for end in (left, right):
        rows = np.ones(count, dtype=bool)
        for _ in range(_FAR):
            rows[rows] = lines.at(end, rows) > level[rows]
            if not rows.any():
                break
            end[rows] *= 2.0
    steps = _within(lines, left, right, level, rng)
    result: FloatArray = points + steps[:, None] * directions
    return result


def _within(
    lines: _Lines, left: FloatArray, right: FloatArray, level: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Uniform on the slice, an interval about 0 within (left, right): draws outside shrink it."""
    t = np.zeros(len(level))
    rows = np.ones(len(level), dtype=bool)
    while rows.any():
        t[rows] = left[rows] + rng.random(int(rows.sum())) * (right - left)[rows]
        outside = np.zeros_like(rows)
        outside[rows] = lines.at(t, rows) <= level[rows]
        left = np.where(outside & (t < 0), t, left)
        right = np.where(outside & (t >= 0), t, right)
        rows = outside & (right - left > 1e-14)
    return t
