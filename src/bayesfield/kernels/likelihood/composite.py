"""The composite likelihood Π_B p(x_B | rest) over blocks of variables: value, gradient, curvature and scores.

A block's joint states are numbered row-major, s = Σ_v step_v x_v. Only the tables that hold a member of the block
matter to p(x_B | rest): with the members in state 0 table t stands at entry base_t, which the rest of the case gives,
and in joint state s at base_t + offset_ts, which it does not. So a block's offsets are laid out once for all cases.
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, GraphArrays, IntArray


class Blocks(NamedTuple):
    """Disjoint blocks of variables, and the tables that each of them touches."""

    of_variable: IntArray  # (n,) the block of each variable, −1 for none
    step: IntArray  # (n,) by how much the block's joint state goes up with the variable's state
    states: IntArray  # (B,) joint states
    table_ptr: IntArray  # (B+1,) tables of block b: tables[table_ptr[b]:table_ptr[b+1]]
    tables: IntArray  # i for the table of variable i, n + a for that of factor a
    local_ptr: IntArray  # (B+1,) parameters of block b: local[local_ptr[b]:local_ptr[b+1]]
    local: IntArray  # the parameters in the block's tables


class Rows(NamedTuple):
    """The design by table entry: entry e has features column[ptr[e]:ptr[e+1]] with these values."""

    ptr: IntArray
    column: IntArray
    value: FloatArray


@jit
def _room(blocks: Blocks) -> tuple[IntArray, IntArray, FloatArray]:
    """Room for the largest block: offsets (tables, states), bases (tables,), probabilities (states,)."""
    tables, states = 1, 1
    for b in range(len(blocks.states)):
        tables = max(tables, blocks.table_ptr[b + 1] - blocks.table_ptr[b])
        states = max(states, blocks.states[b])
    return np.zeros((tables, states), dtype=np.int64), np.zeros(tables, dtype=np.int64), np.zeros(states)


@jit
def _offsets(g: GraphArrays, blocks: Blocks, b: int, offset: IntArray) -> None:
    n, first = len(g.cardinality), blocks.table_ptr[b]
    for k in range(blocks.table_ptr[b + 1] - first):
        t = blocks.tables[first + k]
        for s in range(blocks.states[b]):
            if t < n:
                offset[k, s] = s // blocks.step[t] % g.cardinality[t]
                continue
            offset[k, s] = 0
            for slot in range(g.scope_ptr[t - n], g.scope_ptr[t - n + 1]):
                v = g.scope[slot]
                if blocks.of_variable[v] == b:
                    offset[k, s] += g.stride[slot] * (s // blocks.step[v] % g.cardinality[v])


@jit
def _bases(g: GraphArrays, blocks: Blocks, b: int, x: np.ndarray, base: IntArray) -> int:
    """Where the block's tables stand with its members in state 0; returns the block's own joint state."""
    n, first, own = len(g.cardinality), blocks.table_ptr[b], 0
    for k in range(blocks.table_ptr[b + 1] - first):
        t = blocks.tables[first + k]
        if t < n:
            base[k] = g.node_ptr[t]
            own += blocks.step[t] * x[t]
            continue
        base[k] = g.table_ptr[t - n]
        for slot in range(g.scope_ptr[t - n], g.scope_ptr[t - n + 1]):
            v = g.scope[slot]
            if blocks.of_variable[v] != b:
                base[k] += g.stride[slot] * x[v]
    return own


@jit
def _conditional(
    theta: FloatArray, offset: IntArray, base: IntArray, tables: int, states: int, own: int, p: FloatArray
) -> float:
    """p(x_B | rest) into p; returns −log p of the block's own state."""
    for s in range(states):
        p[s] = 0.0
    for k in range(tables):
        for s in range(states):
            p[s] += theta[base[k] + offset[k, s]]
    top = p[0]
    for s in range(1, states):
        top = max(top, p[s])
    taken, total = p[own], 0.0
    for s in range(states):
        p[s] = np.exp(p[s] - top)
        total += p[s]
    for s in range(states):
        p[s] /= total
    return top + np.log(total) - taken


@jit
def value_and_slope(
    g: GraphArrays, blocks: Blocks, theta: FloatArray, codes: np.ndarray, weights: FloatArray, slope: FloatArray
) -> float:
    """−Σ_n w_n Σ_B log p(x_B | rest); adds its gradient with respect to θ to slope (T,)."""
    offset, base, p = _room(blocks)
    value = 0.0
    for b in range(len(blocks.states)):
        tables, states = blocks.table_ptr[b + 1] - blocks.table_ptr[b], blocks.states[b]
        _offsets(g, blocks, b, offset)
        for c in range(len(codes)):
            own = _bases(g, blocks, b, codes[c], base)
            value += weights[c] * _conditional(theta, offset, base, tables, states, own, p)
            p[own] -= 1.0
            for k in range(tables):
                for s in range(states):
                    slope[base[k] + offset[k, s]] += weights[c] * p[s]
    return value


@jit
def scores(g: GraphArrays, blocks: Blocks, design: Rows, theta: FloatArray, codes: np.ndarray, out: FloatArray) -> None:
    """Adds to out (N, F) each case's Σ_B ∇ log p(x_B | rest)."""
    offset, base, p = _room(blocks)
    for b in range(len(blocks.states)):
        tables, states = blocks.table_ptr[b + 1] - blocks.table_ptr[b], blocks.states[b]
        _offsets(g, blocks, b, offset)
        for c in range(len(codes)):
            own = _bases(g, blocks, b, codes[c], base)
            _conditional(theta, offset, base, tables, states, own, p)
            p[own] -= 1.0
            for k in range(tables):
                for s in range(states):
                    e = base[k] + offset[k, s]
                    for z in range(design.ptr[e], design.ptr[e + 1]):
                        out[c, design.column[z]] -= design.value[z] * p[s]


@jit
def _add_square(gram: FloatArray, weight: float, d: FloatArray) -> None:
    """Adds weight · d dᵀ to the lower triangle."""
    for i in range(len(d)):
        scaled, row = weight * d[i], gram[i]
        if scaled != 0.0:
            for j in range(i + 1):
                row[j] += scaled * d[j]


@jit
def _add_covariance(gram: FloatArray, weight: float, p: FloatArray, states: int, f: FloatArray) -> None:
    """Adds weight · Cov_p(f), f (states, L). Two states have a covariance of rank one."""
    if states == 2:
        for j in range(f.shape[1]):
            f[0, j] -= f[1, j]
        _add_square(gram, weight * p[0] * p[1], f[0])
        return
    for j in range(f.shape[1]):
        mean = 0.0
        for s in range(states):
            mean += p[s] * f[s, j]
        for s in range(states):
            f[s, j] -= mean
    for s in range(states):
        _add_square(gram, weight * p[s], f[s])


@jit
def curvature(
    g: GraphArrays,
    blocks: Blocks,
    design: Rows,
    theta: FloatArray,
    codes: np.ndarray,
    weights: FloatArray,
    b: int,
    where: IntArray,
    gram: FloatArray,
) -> None:
    """Adds Σ_n w_n Cov(f) of block b given its neighbours to the lower triangle of gram (L, L).

    where: room (F,) for the place of a parameter among the block's own L.
    """
    offset, base, p = _room(blocks)
    tables, states = blocks.table_ptr[b + 1] - blocks.table_ptr[b], blocks.states[b]
    for j in range(len(gram)):
        where[blocks.local[blocks.local_ptr[b] + j]] = j
    f = np.zeros((states, len(gram)))
    _offsets(g, blocks, b, offset)
    for c in range(len(codes)):
        own = _bases(g, blocks, b, codes[c], base)
        _conditional(theta, offset, base, tables, states, own, p)
        f[:] = 0.0
        for k in range(tables):
            for s in range(states):
                e = base[k] + offset[k, s]
                for z in range(design.ptr[e], design.ptr[e + 1]):
                    f[s, where[design.column[z]]] += design.value[z]
        _add_covariance(gram, weights[c], p, states, f)


@jit
def scatter(gram: FloatArray, local: IntArray, total: FloatArray) -> None:
    """Adds a block's lower triangle to both triangles of total (F, F)."""
    for i in range(len(gram)):
        for j in range(i + 1):
            total[local[i], local[j]] += gram[i, j]
            if i != j:
                total[local[j], local[i]] += gram[i, j]
