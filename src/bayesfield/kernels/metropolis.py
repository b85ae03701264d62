"""Random-walk Metropolis on the parameters, a lane for each chain, with exact or Bethe log Z in the acceptance."""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels import bethe_lanes, trees
from bayesfield.kernels.bethe_lanes import WIDTH
from bayesfield.kernels.jit import jit
from bayesfield.kernels.pairs import PairArrays
from bayesfield.kernels.trees import TreeArrays
from bayesfield.types import FloatArray, GraphArrays, IntArray

TOLERANCE = 1e-5  # of Bethe's messages; log Z is stationary in them, so it is right to about 1e-10
SWEEPS = 300


class Target(NamedTuple):
    """The negative log posterior, and which of the two log Z enters it. What the other needs is empty."""

    exact: bool
    tree: TreeArrays
    graph: GraphArrays
    pairs: PairArrays
    row_ptr: IntArray  # A by rows of θ
    column: IntArray
    value: FloatArray
    offset: FloatArray  # θ₀
    statistic: FloatArray  # f̄
    weight: float  # N
    location: FloatArray  # μ
    diagonal: FloatArray  # Λ⁻¹, (F,), zero where the matrix is given
    matrix: FloatArray  # Λ⁻¹, (F, F), or (0, 0)


class Work(NamedTuple):
    theta: FloatArray  # (T, WIDTH)
    log_z: FloatArray  # (WIDTH,)
    lanes: bethe_lanes.Lanes
    tables: FloatArray
    buffer: FloatArray
    single: FloatArray  # (T,)


@jit
def make_work(target: Target) -> Work:
    size = len(target.offset)
    room = target.tree.table_ptr[-1] if target.exact else 0
    return Work(
        np.zeros((size, WIDTH)),
        np.zeros(WIDTH),
        bethe_lanes.make_lanes(target.graph),
        np.empty(room),
        np.empty(target.tree.buffer_size if target.exact else 0),
        np.empty(size),
    )


@jit
def energies(target: Target, position: FloatArray, active: int, work: Work, out: FloatArray) -> None:
    """Negative log posterior of each lane's λ, position (F, WIDTH); NaN where belief propagation did not settle."""
    for t in range(len(target.offset)):
        row = work.theta[t]
        row[:] = target.offset[t]
        for k in range(target.row_ptr[t], target.row_ptr[t + 1]):
            a, x = target.value[k], position[target.column[k]]
            for c in range(WIDTH):
                row[c] += a * x[c]
    if target.exact:
        for c in range(active):
            work.single[:] = work.theta[:, c]
            work.log_z[c], safe = trees.collect(target.tree, work.single, work.tables, work.buffer)
            if not safe:
                work.log_z[c] = trees.collect_log(target.tree, work.single, work.tables, work.buffer, False)
    else:
        bethe_lanes.log_z(target.graph, target.pairs, work.theta, work.lanes, TOLERANCE, SWEEPS, work.log_z)
    for c in range(WIDTH):
        out[c] = target.weight * work.log_z[c]
    for f in range(len(target.statistic)):
        pull, N, mean = target.diagonal[f], target.weight * target.statistic[f], target.location[f]
        for c in range(WIDTH):
            away = position[f, c] - mean
            out[c] += 0.5 * pull * away * away - N * position[f, c]
        for other in range(target.matrix.shape[0]):
            for c in range(WIDTH):
                away = position[other, c] - target.location[other]
                out[c] += 0.5 * target.matrix[f, other] * away * (position[f, c] - mean)


@jit
def walk(
    target: Target,
    work: Work,
    noise: FloatArray,
    log_uniform: FloatArray,
    active: int,
    position: FloatArray,
    energy: FloatArray,
    kept: FloatArray,
    trace: FloatArray,
) -> None:
    """Steps along noise (steps, F, WIDTH), each accepted if log_uniform (steps, WIDTH) allows. In place.

    kept (draws, F, WIDTH): positions after every steps/draws steps. trace (draws, 3, WIDTH): the energy there, the
    share of moves accepted since the last, and the share that had no log Z (which are refused).
    """
    F, thin = len(position), len(noise) // len(kept)
    proposal, new = np.zeros((F, WIDTH)), np.zeros(WIDTH)
    trace[:] = 0.0
    for step in range(len(noise)):
        for f in range(F):
            for c in range(WIDTH):
                proposal[f, c] = position[f, c] + noise[step, f, c]
        energies(target, proposal, active, work, new)
        draw = step // thin
        for c in range(active):
            if np.isnan(new[c]):
                trace[draw, 2, c] += 1.0 / thin
            elif log_uniform[step, c] < energy[c] - new[c]:
                trace[draw, 1, c] += 1.0 / thin
                energy[c] = new[c]
                for f in range(F):
                    position[f, c] = proposal[f, c]
        if (step + 1) % thin == 0:
            kept[draw] = position
            trace[draw, 0] = energy
