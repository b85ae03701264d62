"""Langevin steps on the parameters with contrastive-divergence gradients, for binary pairwise fields.

The data stand in batches of 128 cases, a lane for each (gibbs_single.WIDTH); the last batch is padded.
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.gibbs.pairs import pair_odds
from bayesfield.kernels.gibbs.single import WIDTH, single_lane, single_odds, sweep
from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, GraphArrays, IntArray


class Contrast(NamedTuple):
    """The data, the design and the prior of a field."""

    graph: GraphArrays
    data: np.ndarray  # (batches, n, WIDTH) float32, states 0 and 1
    cases: int  # N
    row_ptr: IntArray  # A by rows of θ
    column: IntArray
    value: FloatArray
    offset: FloatArray  # θ₀
    statistic: FloatArray  # f̄
    location: FloatArray  # μ
    precision: FloatArray  # Λ⁻¹ (F, F)


@jit
def contrast(c: Contrast, parameters: FloatArray, sweeps: int, seeds: np.ndarray, slope: FloatArray) -> None:
    """∇ log posterior with E[f] from chains that start at the data: N (f̄ − f̄_k) − Λ⁻¹ (λ − μ). seeds: (HALF, 2)."""
    g = c.graph
    n, m = len(g.cardinality), len(g.table_ptr) - 1
    theta = c.offset.copy()
    for t in range(len(theta)):
        for k in range(c.row_ptr[t], c.row_ptr[t + 1]):
            theta[t] += c.value[k] * parameters[c.column[k]]
    odds, lane = single_odds(pair_odds(g, theta), g.slot_ptr), single_lane(seeds)
    own, joint, x = np.zeros(n), np.zeros(m), np.empty((n, WIDTH), dtype=np.float32)
    for batch in range(len(c.data)):
        width = min(WIDTH, c.cases - batch * WIDTH)
        x[:] = c.data[batch]
        for _ in range(sweeps):
            sweep(odds, x, lane)
        if width < WIDTH:
            x[:, width:] = 0.0
        for i in range(n):
            own[i] += x[i].sum()
        for a in range(m):
            joint[a] += _both(x[g.scope[2 * a]], x[g.scope[2 * a + 1]])
    seeds[:, 0], seeds[:, 1] = lane.low, lane.high
    _slope(c, own, joint, parameters, slope)


@jit
def _both(x: np.ndarray, y: np.ndarray) -> float:
    """Σ x·y of states: whole numbers below 2²⁴, so single precision is exact."""
    total = np.float32(0.0)
    for k in range(WIDTH):
        total += x[k] * y[k]
    return float(total)


@jit
def _slope(c: Contrast, own: FloatArray, joint: FloatArray, parameters: FloatArray, slope: FloatArray) -> None:
    """From counts of x_i = 1 and of x_i = x_j = 1 to the gradient."""
    g, N = c.graph, float(c.cases)
    taken = np.empty(len(c.offset))
    for i in range(len(own)):
        taken[g.node_ptr[i]], taken[g.node_ptr[i] + 1] = N - own[i], own[i]
    for a in range(len(joint)):
        first, second, t = own[g.scope[2 * a]], own[g.scope[2 * a + 1]], g.table_ptr[a]
        taken[t], taken[t + 1] = N - first - second + joint[a], second - joint[a]
        taken[t + 2], taken[t + 3] = first - joint[a], joint[a]
    away = parameters - c.location
    for f in range(len(slope)):
        slope[f] = N * c.statistic[f] - np.dot(c.precision[f], away)
    for t in range(len(taken)):
        for k in range(c.row_ptr[t], c.row_ptr[t + 1]):
            slope[c.column[k]] -= c.value[k] * taken[t]


@jit
def drift(
    c: Contrast,
    covariance: FloatArray,
    noise: FloatArray,
    step: float,
    sweeps: int,
    x: FloatArray,
    seeds: np.ndarray,
    kept: FloatArray,
) -> None:
    """λ ← λ + ½ε² M g + noise, for each row of noise (steps, F), whose covariance is ε² M. x: λ, in place.

    kept: (draws, F), λ after every steps/draws steps.
    """
    slope = np.empty(len(x))
    thin = len(noise) // len(kept)
    for k in range(len(noise)):
        contrast(c, x, sweeps, seeds, slope)
        x += 0.5 * step * step * np.dot(covariance, slope)
        for f in range(len(x)):
            x[f] += noise[k, f]
        if (k + 1) % thin == 0:
            kept[k // thin] = x
