"""Curvature of the pseudo-likelihood, edge by edge."""

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.kernels.likelihood.composite import Blocks, _bases, _conditional, _offsets, _room
from bayesfield.types import FloatArray, GraphArrays


@jit
def conditionals(g: GraphArrays, sites: Blocks, theta: FloatArray, codes: np.ndarray, out: FloatArray) -> None:
    """p(x_i | rest) of every state of every variable that is a site, into out (N, node entries).

    sites: blocks of one variable each. What stands in out for other variables is left as it is.
    """
    offset, base, p = _room(sites)
    for i in range(len(g.cardinality)):
        b = sites.of_variable[i]
        if b < 0:
            continue
        tables, states = sites.table_ptr[b + 1] - sites.table_ptr[b], sites.states[b]
        _offsets(g, sites, b, offset)
        for c in range(len(codes)):
            own = _bases(g, sites, b, codes[c], base)
            _conditional(theta, offset, base, tables, states, own, p)
            for s in range(states):
                out[c, g.node_ptr[i] + s] = p[s]


@jit
def add_covariances(p: FloatArray, other: np.ndarray, weights: FloatArray, out: FloatArray) -> None:
    """Adds Σ_n w_n Cov(indicators of x_i) over the cases where x_j = b, to out[b] (q_i, q_i). p: (N, q_i)."""
    q = p.shape[1]
    for c in range(len(p)):
        here = out[other[c]]
        for s in range(q):
            half = weights[c] * p[c, s]
            here[s, s] += half
            for r in range(q):
                here[s, r] -= half * p[c, r]
