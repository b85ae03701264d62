"""Integrals over one to three parameters: Gauss–Legendre on cells that are split where halving them changes anything.

Coordinates are whitened by draws: the posterior has mean 0 and covariance about 1, and its tails fall at least as
exp(−|z|) (log-concave), so that the box of ±20 misses 1e-8. What is returned are nodes with weights.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayesfield.experiments.extreme.density import LogDensity
from bayesfield.types import FloatArray

_REACH = 20.0  # half a side of the box
_CELLS = {1: 40, 2: 24, 3: 16}  # a side, at first
_NODES = {1: 10, 2: 6, 3: 4}  # a side of a cell
_TOLERANCE = {1: 1e-9, 2: 1e-7, 3: 1e-6}  # change of a cell by halving, as a share of the whole
_MASS = {1: 2e-3, 2: 2e-4, 3: 1e-3}  # of a cell at most, for distribution functions
_LEVELS = 14


@dataclass(frozen=True, eq=False)
class Weighted:
    """Points (n, F) with weights (n,) that sum to one; log_evidence: log p(D).

    error: of the integrals of 1, λ and λ² in whitened coordinates; NaN for draws, whose errors follow from their
    weights. p_error: (F,) of P(λ > 0); None for draws.
    """

    points: FloatArray
    weights: FloatArray
    log_evidence: float
    error: float
    p_error: FloatArray | None = None


class _Cells(NamedTuple):
    """centres: (c, F) in whitened coordinates. half: of a side. values: (c, m) density times weight at all nodes."""

    centres: FloatArray
    half: float
    values: FloatArray


@dataclass(frozen=True, eq=False)
class _Target:
    """The density in whitened coordinates, λ = centre + root z, as a multiple of exp(highest); nodes (m, F) and weights
    (m,) of the cell [−1, 1]^F."""

    density: LogDensity
    centre: FloatArray
    root: FloatArray
    highest: float
    nodes: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, density: LogDensity, centre: FloatArray, root: FloatArray) -> _Target:
        x, w = np.polynomial.legendre.leggauss(_NODES[density.size])
        nodes = np.array(list(itertools.product(x, repeat=density.size)))
        weights = np.array(list(itertools.product(w, repeat=density.size))).prod(axis=1)
        return cls(density, centre, root, float(density(centre[None])[0]), nodes, weights)

    def cells(self, centres: FloatArray, half: float) -> _Cells:
        z = (centres[:, None] + half * self.nodes).reshape(-1, self.density.size)
        values = np.exp(self.density(self.centre + z @ self.root.T) - self.highest).reshape(len(centres), -1)
        return _Cells(centres, half, values * self.weights * half**self.density.size)

    def monitor(self, cells: _Cells) -> FloatArray:
        """∫ (1 + |z|²) p of every cell: bounds the changes of mass, means and second moments."""
        squares = ((cells.centres[:, None] + cells.half * self.nodes) ** 2).sum(axis=2)
        result: FloatArray = (cells.values * (1.0 + squares)).sum(axis=1)
        return result


def integrate(density: LogDensity, centre: FloatArray, root: FloatArray) -> Weighted:
    """λ = centre + root z, over the box |z_i| ≤ 20."""
    target, size = _Target.of(density, centre, root), density.size
    half = _REACH / _CELLS[size]
    ticks = -_REACH + half * (1 + 2 * np.arange(_CELLS[size]))
    grid = np.stack(np.meshgrid(*[ticks] * size, indexing="ij"), axis=-1).reshape(-1, size)
    parents, kept = target.cells(grid, half), list[_Cells]()
    change = settled = 0.0
    for level in range(_LEVELS):
        children = target.cells(_split(parents), parents.half / 2)
        fine = target.monitor(children).reshape(-1, 2**size)
        total = settled + fine.sum()
        moved = np.abs(fine.sum(axis=1) - target.monitor(parents))
        heavy = children.values.sum(axis=1).reshape(-1, 2**size).max(axis=1) > _MASS[size] * total
        again = ((moved > _TOLERANCE[size] * total) | heavy) & (level < _LEVELS - 1)
        change += moved[~again].sum()
        settled += fine[~again].sum()
        rows = np.repeat(again, 2**size)
        kept.append(_Cells(children.centres[~rows], children.half, children.values[~rows]))
        parents = _Cells(children.centres[rows], children.half, children.values[rows])
        if not again.any():
            break
    return _collected(target, kept, float(change / total))


def _split(cells: _Cells) -> FloatArray:
    """Centres of the 2^F cells of half the side, those of a cell side by side."""
    size = cells.centres.shape[1]
    corners = np.array(list(itertools.product((-0.5, 0.5), repeat=size)))
    return (cells.centres[:, None] + cells.half * corners).reshape(-1, size)


def _collected(target: _Target, kept: list[_Cells], error: float) -> Weighted:
    """All nodes that have any weight."""
    size = target.density.size
    z = np.concatenate([(cells.centres[:, None] + cells.half * target.nodes).reshape(-1, size) for cells in kept])
    weights = np.concatenate([cells.values.ravel() for cells in kept])
    mass = weights.sum()
    use = weights > 1e-13 * mass
    log_evidence = target.highest + np.log(mass) + np.linalg.slogdet(target.root)[1]
    return Weighted(target.centre + z[use] @ target.root.T, weights[use] / mass, float(log_evidence), error)
