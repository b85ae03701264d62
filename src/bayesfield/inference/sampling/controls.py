"""What chains of scored pairs know of their own noise, taken out of their means.

A surprise is what an item's score was drawn as, less what was expected: ε_i = u_i − E[u_i | rest], whose mean is zero,
and so is that of ε_i u_j, u_j at the time of the draw. Their sums over a run are the noise that drives the chains. Were
E[u_i | rest] linear in the other scores, δ = u − μ would follow the regression on them,

    δ_i ← Σ_k A_ik δ_k + ε_i,      A_ik = −Θ_ik / Θ_ii,      Θ = Cov(u)⁻¹,

and averages over a run of T sweeps, which see each state before and after an update, would have the errors

    e_i = Σ_k A_ik e_k + ε̄_i,      E_ij = Σ_k A_ik E_kj + ⟨ε_i δ_j⟩,

i in turn, e and E as the sweep finds them: what it left, plus (δ, δδᵀ at the begin of the run less those at its end)/T.
E_jj hangs on e_j by the regression of δ_j² on δ_j, for two states exactly. Expectations are not linear, and A is not
exact: what is taken off has mean zero whatever A is, and is what it can explain of the noise. A share of it is taken,
the same for all, that leaves the least variance between batches. *Measured* on complete networks of 16, 40 and 100
items as benchmarks/dense.py draws them, in runs of 12 to 200 sweeps: a 12th to a 75th of the variance of means is left;
with couplings 2.5 times as strong, where the field begins to freeze, a half to a fifth.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from bayesfield.types import FloatArray

if TYPE_CHECKING:
    from bayesfield.graph.scored import ScoredPairs
    from bayesfield.graph.structure import Graph
    from bayesfield.inference.sampling.gibbs_chains import Gathered

_SWEEPS, _SETTLED = 200, 1e-3  # of the recursion at most; relative change at which it ends
_LEAST = 1e-12  # variance
_RIDGE = 1e-6  # on correlations: items that do not vary, or always together


def less_noise(
    graph: Graph,
    scores: ScoredPairs,
    means: FloatArray,
    gathered: list[Gathered],
    ends: tuple[NDArray[np.int32], NDArray[np.int32]],
    sweeps: int,
) -> FloatArray:
    """The means of tables (batches, T) less what surprises explain. ends: states (chains, n) before and after all
    sweeps."""
    g = graph.arrays
    n = len(g.cardinality)
    row = np.repeat(np.arange(n), g.cardinality)
    column = np.arange(len(row)) - g.node_ptr[row]
    edges = len(ends[0]) * np.arange(len(means) + 1) // len(means)
    states = sweeps * np.diff(edges).astype(np.float64)
    alone = np.sum([part.alone for part in gathered], axis=0)[:, row, column] / states[:, None]
    pairs = np.sum([part.pairs for part in gathered], axis=0) / states[:, None, None]
    p, starts = alone.mean(axis=0), g.node_ptr[:-1]
    mean = np.add.reduceat(p * scores.u, starts)
    away = scores.u - mean[row]
    variance = np.maximum(np.add.reduceat(p * away**2, starts), _LEAST)
    skew = np.add.reduceat(p * away**3, starts) / variance
    second = pairs[:, :n].mean(axis=0)
    A = _regressions((second + second.T) / 2.0 - np.outer(mean, mean), variance)
    first, last = (scores.u[starts + x] - mean for x in ends)
    batches = [slice(a, b) for a, b in itertools.pairwise(edges)]
    moved = np.array([first[b].T @ first[b] - last[b].T @ last[b] for b in batches]) / states[:, None, None]
    moved_mean = np.array([first[b].sum(axis=0) - last[b].sum(axis=0) for b in batches]) / states[:, None]
    drawn, expected, joint = _explained(A, skew, mean, pairs[:, n:], (moved_mean, moved))
    alone_error = (p * away / variance[row]) * expected[:, row]
    pair_error = joint + mean[:, None] * drawn[:, None, :] + expected[:, :, None] * mean
    found = np.array([scores.by_theta(a, 0.5 * e) for a, e in zip(alone_error, pair_error, strict=True)])
    return means - _share(means, found) * found


def _regressions(second: FloatArray, variance: FloatArray) -> FloatArray:
    """A from the covariances, whose diagonal is ``variance``."""
    scale = np.sqrt(variance)
    correlation = second / np.outer(scale, scale)
    np.fill_diagonal(correlation, 1.0 + _RIDGE)
    values, vectors = linalg.eigh(correlation)
    inverse = (vectors / np.maximum(values, _RIDGE)) @ vectors.T
    A: FloatArray = -inverse / np.diag(inverse)[:, None] * scale[:, None] / scale
    np.fill_diagonal(A, 0.0)
    return A


def _explained(
    A: FloatArray, skew: FloatArray, mean: FloatArray, surprises: FloatArray, moved: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Errors of the means of u_i as drawn and as expected, (batches, n), and of E[δ_i | rest] δ_j, (batches, n, n)."""
    n = len(A)
    own = np.diagonal(surprises, axis1=1, axis2=2)
    drawn = linalg.solve(np.eye(n) - A, (own + moved[0] @ np.triu(A).T).T).T
    noise = surprises - own[:, :, None] * mean  # of ε_i δ_j
    E, joint = np.zeros(surprises.shape), np.zeros(surprises.shape)
    at = np.arange(n)
    E[:, at, at] = skew * drawn
    for _ in range(_SWEEPS):
        before = joint.copy()
        E += moved[1]
        for i in range(n):
            joint[:, i] = A[i] @ E  # A_ii = 0
            E[:, i] = joint[:, i] + noise[:, i]
            E[:, i, i] = skew[i] * drawn[:, i]
            E[:, :, i] = E[:, i]
        E[:, at, at] = skew * drawn
        if np.linalg.norm(joint - before) < _SETTLED * np.linalg.norm(joint):
            break
    joint[:, at, at] = 0.0
    return drawn, drawn - own, joint


def _share(means: FloatArray, explained: FloatArray) -> float:
    """The share of it that leaves the least variance between batches, entries in units of their noise."""
    x, y = means - means.mean(axis=0), explained - explained.mean(axis=0)
    unit = np.maximum(np.einsum("bt,bt->t", x, x), _LEAST)
    square = float(np.sum(y**2 / unit))
    return min(max(float(np.sum(x * y / unit)) / square, 0.0), 1.0) if square > 0.0 else 0.0
