"""The pseudo-likelihood of tied fields, from the few conditionals that differ.

Σ_i log p(x_i | rest) with p(x_i = s | rest) ∝ exp(θ₀ + r_{is}ᵀλ). On a lattice with one field and one coupling the rows
r_i depend on a variable's degree and on its neighbours' sum: some dozens stand for a million variables. They are found
once, and Newton's steps take microseconds, where steps over all variables of a 256 × 256 image took 24 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg, special

from bayesfield.types import FloatArray, IntArray

if TYPE_CHECKING:
    from bayesfield.graph.compiled import CompiledField
    from bayesfield.learning.objective import GaussianPrior
    from bayesfield.learning.phases.cases import Cases

_STEPS = 100
_SHORTEST = 1e-6  # part of a step that is tried
_TOLERANCE = 1e-6


def conditionals_map(cases: Cases, prior: GaussianPrior) -> FloatArray:
    """λ that maximises pseudo-likelihood times prior, by the variables that are observed with all their neighbours."""
    weights = np.ones(len(cases.codes)) if cases.weights is None else cases.weights
    parts = [conditionals(cases.field, row) for row in cases.codes]
    rows, offsets = np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    counts = np.concatenate([w * p[2] for p, w in zip(parts, weights, strict=True)])
    return _newton(rows, offsets, counts, prior)


def conditionals(field: CompiledField, codes: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The distinct conditionals of one case: r_s − r_observed, (G, q, F), the same of θ₀, (G, q), and how many
    variables have each, (G,). States that a variable does not have are forbidden. Variables that are missing, or beside
    one that is, are left out."""
    g, A = field.graph.arrays, field.design.matrix
    kept = codes >= 0
    if not kept.all():
        torn = np.zeros(len(g.table_ptr) - 1, dtype=np.bool_)
        torn[g.slot_factor[codes[g.scope] < 0]] = True
        kept[g.scope[torn[g.slot_factor]]] = False
        codes = np.maximum(codes, 0)
    n, most, size = len(codes), int(g.cardinality.max()), A.shape[1]
    owner = np.repeat(np.arange(n), np.diff(g.slot_ptr))
    factor = g.slot_factor[g.slots]
    entry = g.table_ptr[:-1].copy()
    np.add.at(entry, g.slot_factor, g.stride * codes[g.scope])
    base = entry[factor] - g.stride[g.slots] * codes[owner]
    whole = np.empty((n, most, size + 1))
    for s in range(most):
        state = np.minimum(s, g.cardinality - 1)
        own = g.node_ptr[:-1] + state
        at = base + g.stride[g.slots] * state[owner]
        dense = A[at].toarray()
        for k in range(size):
            whole[:, s, k] = np.bincount(owner, dense[:, k], n)
        whole[:, s, :size] += A[own].toarray()
        whole[:, s, size] = np.bincount(owner, field.design.offset[at], n) + field.design.offset[own]
    whole -= whole[np.arange(n), codes][:, None, :].copy()
    for s in range(most):
        whole[g.cardinality <= s, s, size] = -np.inf
    whole = whole[kept]
    finite = np.where(np.isfinite(whole), whole, -1e6).reshape(len(whole), most * (size + 1))
    keys = np.round(finite @ np.sqrt(np.arange(2.0, finite.shape[1] + 2.0)), 6)
    _, where, many = np.unique(keys, return_index=True, return_counts=True)
    return whole[where, :, :size], whole[where, :, size], many.astype(np.float64)


def _newton(rows: FloatArray, offsets: FloatArray, counts: FloatArray, prior: GaussianPrior) -> FloatArray:
    """Newton, steps halved until the value falls: it is convex."""

    def value(parameters: FloatArray) -> float:
        return float(counts @ special.logsumexp(rows @ parameters + offsets, axis=1)) - prior.log_kernel(parameters)

    here = prior.location.copy()
    for _ in range(_STEPS):
        p = special.softmax(rows @ here + offsets, axis=1)
        mean = np.einsum("gs,gsf->gf", p, rows)
        gradient = prior.pull(here) + counts @ mean
        second = np.einsum("g,gs,gsf,gsh->fh", counts, p, rows, rows) - np.einsum("g,gf,gh->fh", counts, mean, mean)
        step = linalg.solve(prior.plus(second), gradient, assume_a="pos")
        if step @ gradient < _TOLERANCE**2:
            break
        before, size = value(here), 1.0
        while value(here - size * step) > before and size > _SHORTEST:
            size /= 2
        here = here - size * step
    return here
