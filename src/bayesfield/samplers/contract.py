"""What samplers of the parameter posterior share: the problem, a chain's state, and what every sampler can do."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from bayesfield.types import FloatArray

if TYPE_CHECKING:
    from bayesfield.learning.objective import Objective

Stats = dict[str, FloatArray]  # by name, (chain, draw)


@dataclass(frozen=True, eq=False)
class Problem:
    """What to sample, and its rough shape.

    objective: the negative log posterior. centre: (F,), where it is. factor: its shape: λ = centre + factor·z makes z
    about standard normal; the covariance of proposals and the mass matrix come from it. (F, F), or (F,) for widths
    alone: with thousands of parameters a full product takes longer than a gradient.
    """

    objective: Objective
    centre: FloatArray
    factor: FloatArray

    def place(self, z: FloatArray) -> FloatArray:
        """λ of z, (F,) or (…, F)."""
        moved = z * self.factor if self.factor.ndim == 1 else z @ self.factor.T
        result: FloatArray = self.centre + moved
        return result

    def coordinates(self, parameters: FloatArray) -> FloatArray:
        """z of λ, (F,)."""
        away = parameters - self.centre
        return np.asarray(away / self.factor if self.factor.ndim == 1 else np.linalg.solve(self.factor, away))

    @property
    def size(self) -> int:
        return len(self.centre)

    def fingerprint(self) -> str:
        """Of the data and the prior, up to rounding; not of the rough shape."""
        o = self.objective
        N = max(o.weight, 1.0)
        parts = [np.array([o.weight]), o.statistic / N, o.prior.location, o.prior.precision]
        parts += [] if o.prior.coupling is None else [o.prior.coupling.covariance]
        return hashlib.sha256(b"".join((np.round(p, 8) + 0.0).tobytes() for p in parts)).hexdigest()[:16]


@dataclass(eq=False)
class Chain:
    """Where a chain stands: all that it needs to go on. Two generators, so that blocks of any length draw alike."""

    position: FloatArray
    normals: np.random.Generator
    uniforms: np.random.Generator
    scale: float = 1.0
    memory: Any = None  # the sampler's own: an energy, generators of Gibbs chains, …


class Run(NamedTuple):
    """draws: (chain, draw, parameter). chains: where they stand at the end."""

    draws: FloatArray
    stats: Stats
    chains: list[Chain]


@dataclass(frozen=True)
class Plan:
    """How long: warm-up steps, draws to keep, steps from one kept draw to the next."""

    warmup: int
    draws: int
    thin: int


@runtime_checkable
class Sampler(Protocol):
    """Chains of λ from (an approximation of) the posterior."""

    def run(self, problem: Problem, chains: list[Chain], plan: Plan, watch: Progress) -> Run:
        """Warm up, then draw, from where the chains stand."""
        ...


class Progress(Protocol):
    def __call__(self, done: float) -> None:
        """done: the share of the work, from 0 to 1."""
        ...


def new_chains(problem: Problem, count: int, seed: int, spread: float = 1.0) -> list[Chain]:
    """Chains that start at draws from the problem's Gaussian, ``spread`` times as wide."""
    chains = []
    for child in np.random.SeedSequence(seed).spawn(count):
        first, second = (np.random.default_rng(s) for s in child.spawn(2))
        position = problem.place(spread * first.standard_normal(problem.size))
        chains.append(Chain(position, first, second))
    return chains
