"""The curvature of a pseudo-likelihood by blocks: one for the parameters of each edge, one for those of all variables.

With many states a whole curvature does not fit (a protein family of 53 positions has half a million couplings), but
the part of it that belongs to one edge does. For edge (i, j), in the entries of its table,

    H_e = Σ_n w_n [ Cov(1[x_i = ·] | x_n) at x_j = x_nj  +  Cov(1[x_j = ·] | x_n) at x_i = x_ni ].

What ties edges to one another is left out: a block's inverse is the covariance *given all other parameters*.
"""

from __future__ import annotations

import numpy as np

from bayesfield import memory, parallel
from bayesfield.kernels.likelihood import conditionals as kernel
from bayesfield.learning.objective import Objective, Point
from bayesfield.learning.phases.conditionals import CompositePhase
from bayesfield.learning.precision.block import BlockPrecision
from bayesfield.types import Cost, FloatArray, IntArray, InvalidInput


def pair_block_precision(objective: Objective, point: Point) -> BlockPrecision:
    """P at the optimum of a pseudo-likelihood without what ties edges to one another."""
    composite: CompositePhase = objective.free
    edges, rest = _parameters(composite, objective.prior.independent)
    ridge, theta = objective.prior.diagonal, point.answers[0].found
    size = len(edges[0]) if edges else 0
    entries = 3.0 * len(edges) * size**2 + 3.0 * len(rest) ** 2
    cost = Cost(entries, 8 * entries, f"{len(edges):,} blocks of {size}²")
    memory.require(cost, "the precision", "Put states together.")
    g = composite.field.graph.arrays
    p = np.zeros((len(composite.distinct), int(g.node_ptr[-1])))

    def part(rows: slice) -> None:
        kernel.conditionals(g, composite.blocks_of, theta, composite.distinct[rows], p[rows])

    parallel.thread_map(part, composite.parts())
    blocks = np.zeros((len(edges), size, size))

    def edge(a: int) -> None:
        blocks[a] = _block(composite, p, a, edges[a]) + np.diag(ridge[edges[a]])

    parallel.thread_map(edge, range(len(edges)))
    order = np.concatenate([*edges, rest]) if edges else rest
    return BlockPrecision(blocks, _variables(composite, p, rest) + np.diag(ridge[rest]), order)


def _parameters(composite: CompositePhase, independent: bool) -> tuple[list[IntArray], IntArray]:
    """Of each edge, and of all variables; refuses what does not fall apart so."""
    g, A = composite.field.graph.arrays, composite.field.design.matrix
    single = (np.bincount(composite.blocks_of.of_variable) == 1).all()
    if (np.diff(g.scope_ptr) != 2).any() or not independent or not single:
        raise InvalidInput('form="block" is for fields of pairs, single sites (block=1) and independent priors')
    found = [np.unique(A[g.table_ptr[a] : g.table_ptr[a + 1]].indices) for a in range(len(g.table_ptr) - 1)]
    rest = np.unique(A[: g.node_ptr[-1]].indices)
    every = np.concatenate([*found, rest])
    if len(np.unique(every)) < len(every) or len(every) < A.shape[1] or len({len(own) for own in found}) > 1:
        raise InvalidInput('form="block" is for edges with as many parameters each, none of them shared')
    return [own.astype(np.int64) for own in found], rest.astype(np.int64)


def _block(composite: CompositePhase, p: FloatArray, a: int, own: IntArray) -> FloatArray:
    """Aᵀ H_e A of one edge."""
    g, design = composite.field.graph.arrays, composite.field.design.matrix
    i, j = (int(v) for v in g.scope[g.scope_ptr[a] : g.scope_ptr[a + 1]])
    qi, qj = int(g.cardinality[i]), int(g.cardinality[j])
    given_j, given_i = np.zeros((qj, qi, qi)), np.zeros((qi, qj, qj))
    at = {v: slice(int(g.node_ptr[v]), int(g.node_ptr[v + 1])) for v in (i, j)}
    kernel.add_covariances(np.ascontiguousarray(p[:, at[i]]), composite.distinct[:, j], composite.counts, given_j)
    kernel.add_covariances(np.ascontiguousarray(p[:, at[j]]), composite.distinct[:, i], composite.counts, given_i)
    A = design[int(g.table_ptr[a]) : int(g.table_ptr[a + 1])][:, own].toarray().reshape(qi, qj, len(own))
    # entries (s, b) and (r, b) share x_j = b; entries (s, b) and (s, c) share x_i = s
    result: FloatArray = np.einsum("sbk,bsr,rbl->kl", A, given_j, A, optimize=True)
    result += np.einsum("sbk,sbc,scl->kl", A, given_i, A, optimize=True)
    return (result + result.T) / 2


def _variables(composite: CompositePhase, p: FloatArray, rest: IntArray) -> FloatArray:
    """The same for the parameters of the variables' own tables, all together."""
    g, design = composite.field.graph.arrays, composite.field.design.matrix
    total = np.zeros((len(rest), len(rest)))
    for i in range(len(g.cardinality)):
        at = slice(int(g.node_ptr[i]), int(g.node_ptr[i + 1]))
        own = np.zeros((1, at.stop - at.start, at.stop - at.start))
        kernel.add_covariances(np.ascontiguousarray(p[:, at]), np.zeros(len(p), dtype=np.int64), composite.counts, own)
        A = design[at.start : at.stop][:, rest].toarray()
        total += A.T @ own[0] @ A
    return total
