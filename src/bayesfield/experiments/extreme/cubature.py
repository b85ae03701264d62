"""Integrals over one to three parameters: Gauss–Legendre on cells that are split where halving them changes anything.

Coordinates are whitened by draws: the posterior has mean 0 and covariance about 1, and its tails fall at least as
exp(−|z|) (log-concave), so that the box of ±20 misses 1e-8. What is returned are nodes with weights.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

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


def integrate(density: LogDensity, centre: FloatArray, root: FloatArray) -> Weighted:
    """λ = centre + root z, over the box |z_i| ≤ 20."""
    rule = _rule(density.size)
    half = _REACH / _CELLS[density.size]
    ticks = -_REACH + half * (1 + 2 * np.arange(_CELLS[density.size]))
    centres = np.stack(np.meshgrid(*[ticks] * density.size, indexing="ij"), axis=-1).reshape(-1, density.size)
    highest = float(density(centre[None])[0])
    parents = _values(density, centre, root, centres, half, rule, highest)
    kept, change = [], 0.0
    for level in range(_LEVELS):
        children = _split(centres, half)
        half /= 2
        values = _values(density, centre, root, children, half, rule, highest)
        fine, coarse = _monitor(children, half, rule, values), _monitor(centres, 2 * half, rule, parents)
        moved = np.abs(fine.reshape(len(centres), -1).sum(axis=1) - coarse)
        total = fine.sum() + sum(_monitor(*cell[:2], rule, cell[2]).sum() for cell in kept)
        heavy = values.sum(axis=1).reshape(len(centres), -1).max(axis=1) > _MASS[density.size] * total
        again = ((moved > _TOLERANCE[density.size] * total) | heavy) & (level < _LEVELS - 1)
        change += moved[~again].sum()
        rows = np.repeat(again, 2**density.size)
        kept.append((children[~rows], half, values[~rows]))
        centres, parents = children[rows], values[rows]
        if not again.any():
            break
    return _collected(kept, rule, centre, root, highest, change / total)


def _collected(kept, rule, centre, root, highest, error):  # type: ignore[no-untyped-def]
    nodes, _ = rule
    z = np.concatenate([(c[:, None] + half * nodes).reshape(-1, len(centre)) for c, half, _ in kept])
    weights = np.concatenate([values.ravel() for _, _, values in kept])
    sum_ = weights.sum()
    use = weights > 1e-13 * sum_
    log_evidence = highest + np.log(sum_) + np.linalg.slogdet(root)[1]
    return Weighted(centre + z[use] @ root.T, weights[use] / sum_, float(log_evidence), float(error))


def _rule(size: int) -> tuple[FloatArray, FloatArray]:
    """Nodes (m, F) and weights (m,) of the cell [−1, 1]^F."""
    x, w = np.polynomial.legendre.leggauss(_NODES[size])
    nodes = np.array(list(itertools.product(x, repeat=size)))
    return nodes, np.array(list(itertools.product(w, repeat=size))).prod(axis=1)


def _values(density, centre, root, centres, half, rule, highest):  # type: ignore[no-untyped-def]
    """Density times weight at all nodes of all cells: (cells, m)."""
    nodes, weights = rule
    z = (centres[:, None] + half * nodes).reshape(-1, density.size)
    values = np.exp(density(centre + z @ root.T) - highest).reshape(len(centres), -1)
    return values * weights * half**density.size


def _monitor(centres, half, rule, values):  # type: ignore[no-untyped-def]
    """∫ (1 + |z|²) p of every cell: bounds the changes of mass, means and second moments."""
    squares = ((centres[:, None] + half * rule[0]) ** 2).sum(axis=2)
    return (values * (1.0 + squares)).sum(axis=1)


def _split(centres: FloatArray, half: float) -> FloatArray:
    """The 2^F cells of half the side, those of a cell side by side."""
    corners = np.array(list(itertools.product((-0.5, 0.5), repeat=centres.shape[1])))
    return (centres[:, None] + half * corners).reshape(-1, centres.shape[1])
