"""The negative log posterior for samplers that run in compiled code: of a lane of chains, and with its gradient."""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.kernels.messages import bethe_lanes
from bayesfield.kernels.messages.bethe_lanes import WIDTH
from bayesfield.kernels.messages.pairs import PairArrays
from bayesfield.kernels.trees import passes as trees
from bayesfield.kernels.trees.passes import TreeArrays
from bayesfield.types import FloatArray, GraphArrays, IntArray

TOLERANCE = 1e-4  # of Bethe's messages; log Z is stationary in them, so it is right to 1e-7 (measured)
SWEEPS = 100  # after which a move counts as one without log Z


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
    single: FloatArray  # (T,) one lane's θ


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


class Packed(NamedTuple):
    """Many arrays in two: handing an array to compiled code takes 0.25 µs, and a tree alone has 22 of them."""

    whole: IntArray  # the tree's arrays, then A's row_ptr and column
    whole_ptr: IntArray
    real: FloatArray  # A's value, θ₀, f̄, μ, Λ⁻¹ (diagonal and matrix), centre, factor
    real_ptr: IntArray
    work: FloatArray  # room for θ, beliefs, tables and buffer
    buffer_size: int
    weight: float


@jit
def _part(flat: np.ndarray, ptr: IntArray, k: int) -> np.ndarray:
    return flat[ptr[k] : ptr[k + 1]]


@jit
def _unpacked_tree(i: IntArray, p: IntArray, buffer_size: int) -> TreeArrays:
    return TreeArrays(
        _part(i, p, 0), _part(i, p, 1), _part(i, p, 2), _part(i, p, 3), _part(i, p, 4), _part(i, p, 5), _part(i, p, 6),
        _part(i, p, 7), _part(i, p, 8), _part(i, p, 9), _part(i, p, 10), _part(i, p, 11), _part(i, p, 12),
        _part(i, p, 13), _part(i, p, 14), buffer_size, _part(i, p, 15), _part(i, p, 16), _part(i, p, 17),
        _part(i, p, 18), _part(i, p, 19), _part(i, p, 20), _part(i, p, 21),
    )  # fmt: skip


@jit
def log_density(packed: Packed, z: FloatArray, gradient: FloatArray) -> float:
    """log posterior at λ = centre + factor·z with exact log Z, and its gradient in z, in one call."""
    tree = _unpacked_tree(packed.whole, packed.whole_ptr, packed.buffer_size)
    row_ptr, column = _part(packed.whole, packed.whole_ptr, 22), _part(packed.whole, packed.whole_ptr, 23)
    real, p, F = packed.real, packed.real_ptr, len(z)
    value, offset, statistic, location = _part(real, p, 0), _part(real, p, 1), _part(real, p, 2), _part(real, p, 3)
    matrix, factor = _part(real, p, 5), _part(real, p, 7).reshape(F, F)
    T, room = len(offset), packed.work
    theta, beliefs = room[:T], room[T : 2 * T]
    tables, buffer = room[2 * T : 2 * T + tree.table_ptr[-1]], room[2 * T + tree.table_ptr[-1] :]
    position = _part(real, p, 6) + np.dot(factor, z)
    for t in range(T):
        theta[t] = offset[t]
        for k in range(row_ptr[t], row_ptr[t + 1]):
            theta[t] += value[k] * position[column[k]]
    log_z = trees.calibrate(tree, theta, tables, buffer, beliefs)
    slope, away = packed.weight * statistic, position - location
    density = np.dot(slope, position) - packed.weight * log_z
    for t in range(T):
        for k in range(row_ptr[t], row_ptr[t + 1]):
            slope[column[k]] -= packed.weight * value[k] * beliefs[t]
    pull = _part(real, p, 4) * away
    if len(matrix):
        pull += np.dot(matrix.reshape(F, F), away)
    slope -= pull
    gradient[:] = np.dot(slope, factor)
    return density - 0.5 * np.dot(pull, away)
