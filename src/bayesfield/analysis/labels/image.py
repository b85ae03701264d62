"""An image as the chains of ``kernels.gibbs.number`` see it, with log Z_K(β) of free fields of labels.

log Z_K(β) = n log K + ∫₀^β E_β'[S] dβ', with E[S] by Swendsen and Wang's updates at points in between, joined by a
cubic spline; its error is given by their batches. K = 1 has βE for E edges. Tables depend on the lattice alone: their
chains have seeds of their own, and the last ones are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

from bayesfield.inference.sampling.labels import LabelChain, Neighbours, neighbours
from bayesfield.kernels.gibbs.number import Image
from bayesfield.model.lattices import Offset, offsets_of, pairs_at
from bayesfield.types import BoolArray, FloatArray, InvalidInput

_POINTS, _TABLE = 31, 401  # β at which free fields are sampled; entries of the table
_SETTLE = 0.1  # of a point's updates that do not count
_BATCHES = 20
_DEGREE = 15  # neighbours of a site, at most


@dataclass(frozen=True)
class NumberPrior:
    """Of a hidden Potts field with Gaussian emissions, of standardised observations (mean 0, sd 1).

    β is half-normal with sd ``coupling``, up to ``highest``. σ_k² is inverse gamma with ``shape`` a and ``rate`` b, and
    μ_k given σ_k² normal about 0 with variance σ_k²/``strength``.
    """

    coupling: float = 1.0
    highest: float = 2.0
    shape: float = 2.0
    rate: float = 0.2
    strength: float = 0.1

    def __post_init__(self) -> None:
        if min(self.coupling, self.highest, self.rate, self.strength) <= 0.0 or self.shape < 1.0:
            raise InvalidInput(f"a NumberPrior has positive numbers, and a shape of at least 1; got {self!r}")


class Observed(NamedTuple):
    """image: for the chains. graph: of the sites observed. scale: sd of the observations. log_z_error: (most + 1,) of
    log Z_K, at its largest."""

    image: Image
    graph: Neighbours
    scale: float
    log_z_error: FloatArray


def observed(
    values: FloatArray, most: int, neighbours_: int | list[Offset], prior: NumberPrior, updates: int
) -> Observed:
    """values: (rows, columns), NaN where a site is left out. updates: of free fields at each β."""
    if values.ndim != 2:
        raise InvalidInput(f"an image is a (rows, columns) array of numbers; got shape {values.shape}")
    inside: BoolArray = np.isfinite(values)
    y = values[inside]
    if len(y) < 2 or y.std() == 0.0:
        raise InvalidInput("an image needs at least two sites with different values")
    edges = np.concatenate([pairs_at([inside], offset) for offset in offsets_of(neighbours_)]).astype(np.int64)
    graph = neighbours(len(y), edges)
    if np.diff(graph.ptr).max(initial=0) > _DEGREE:
        raise InvalidInput(f"a site has at most {_DEGREE} neighbours here; take fewer offsets")
    log_z, errors = _tables(_Lattice(len(y), edges.tobytes(), prior.highest, updates), most)
    hyper = np.array([prior.strength, prior.shape, prior.rate, prior.coupling])
    image = Image(graph.ptr, graph.other, (y - y.mean()) / y.std(), hyper, log_z, prior.highest)
    return Observed(image, graph, float(y.std()), errors)


class _Lattice(NamedTuple):
    """What tables depend on. edges: (E, 2) as bytes."""

    n: int
    edges: bytes
    highest: float
    updates: int

    def graph(self) -> Neighbours:
        return neighbours(self.n, np.frombuffer(self.edges, dtype=np.int64).reshape(-1, 2))


def _tables(lattice: _Lattice, most: int) -> tuple[FloatArray, FloatArray]:
    """log Z_K(β), (most + 1, _TABLE), and about its largest error for each K."""
    log_z, errors = np.zeros((most + 1, _TABLE)), np.zeros(most + 1)
    log_z[1] = np.linspace(0.0, lattice.highest, _TABLE) * lattice.graph().edges
    for K in range(2, most + 1):
        log_z[K], errors[K] = _table(lattice, K)
    return log_z, errors


@lru_cache(maxsize=64)
def _table(lattice: _Lattice, K: int) -> tuple[FloatArray, float]:
    rng, graph = np.random.default_rng(K), lattice.graph()
    betas = np.linspace(0.0, lattice.highest, _POINTS)
    chain = LabelChain(graph, K, rng.integers(0, K, graph.n), K)
    same, noise = np.empty(_POINTS), np.zeros(_POINTS)
    same[0] = graph.edges / K
    for p in range(1, _POINTS):
        chain.free(float(betas[p]), max(10, int(_SETTLE * lattice.updates)))
        found = chain.free(float(betas[p]), lattice.updates)[:, 0]
        same[p] = found.mean()
        batches = [part.mean() for part in np.array_split(found, _BATCHES)]
        noise[p] = np.std(batches, ddof=1) / np.sqrt(_BATCHES)
    integral = CubicSpline(betas, same).antiderivative()(np.linspace(0.0, lattice.highest, _TABLE))
    return graph.n * np.log(K) + integral, float(np.sqrt(np.sum((noise * betas[1]) ** 2)))
