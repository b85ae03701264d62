"""A chain CRF's posterior by expectation propagation, after Qi, Szummer & Minka (2005): a baseline beside Laplace's.

The posterior is p(λ) e^{λᵀf(y)} / Z(λ). Z is a product over positions and pairs of neighbours k of e^{u_k(s)}, summed
over labels, with u_k = Φ_k λ the factor's own log-potentials. Each is given a Gaussian form,
log Z̃(λ) = Σ_k h_kᵀu_k + ½ u_kᵀC_k u_k, fitted with power −1: the factor's cavity is q / Z̃_k, *narrower* than q,

    V = (I + V_u C)⁻¹ V_u,   m = (I + V_u C)⁻¹ (m_u − V_u h),          V_u, m_u: of u_k under q,
    θ(s) = m_s + ½ V_ss,     p = its marginal in the chain with all θ,  S = diag p − ppᵀ,
    C ← S (I + V S)⁻¹,       h ← p − C (m + V p),                       which match the moments of q / Z̃_k · Z_k,

and q has precision Λ⁻¹ + Σ ΦᵀCΦ. All factors move at once, damped, from Laplace's place. What it leaves out: C knows
each factor's labels by themselves, not how labels of different factors go together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from bayesfield import memory
from bayesfield.inference.trees.chain import chain_marginals
from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.learning.objective import Objective
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.response.base import require_dense
from bayesfield.types import Cost, FloatArray, Outcome, Status

_RATE, _LEAST_RATE = 0.5, 0.01  # of a sweep's change that is taken: at first and at most; at least
_SLOWER, _FASTER = 0.5, 1.05  # factors of it: after a sweep that moved the mean farther than the one before, and else
_TOLERANCE = 1e-4  # of the mean, in standard deviations; the last sweeps may swing
_MAX_SWEEPS = 2000


class Propagated(NamedTuple):
    """mean: (F,) of q."""

    mean: FloatArray
    precision: DensePrecision
    status: Status


class _Sites(NamedTuple):
    """Of every position, (P, K) and (P, K, K), and of every pair of neighbours, (m, K²) and (m, K², K²)."""

    h: FloatArray
    C: FloatArray
    h_pair: FloatArray
    C_pair: FloatArray


def expectation_propagation(objective: Objective, start: FloatArray) -> Propagated:
    """The Gaussian q. start: the most probable parameters."""
    passes = _Passes(objective)
    sites = passes.at_mode(start)
    mean, covariance, precision = passes.gaussian(sites)
    change, sweep, rate = float("inf"), 0, _RATE
    while sweep < _MAX_SWEEPS and change > _TOLERANCE:
        fresh = passes.updated(sites, mean, covariance)
        sites = _Sites(*(old + rate * (new - old) for old, new in zip(sites, fresh, strict=True)))
        before, last = mean, change
        mean, covariance, precision = passes.gaussian(sites)
        moved = (mean - before) / np.sqrt(np.diag(covariance)) / rate
        change, sweep = float(np.abs(moved).max(initial=0.0)), sweep + 1
        rate = max(_SLOWER * rate, _LEAST_RATE) if change > last else min(_FASTER * rate, _RATE)
    good = change <= _TOLERANCE
    return Propagated(mean, precision, Status(Outcome.OPTIMUM if good else Outcome.NO_OPTIMUM, sweep, change))


class _Passes:
    """From sites to a Gaussian of λ, and from that to new sites."""

    def __init__(self, objective: Objective) -> None:
        self._objective, crf, data = objective, objective.data.crf, objective.data.sequences
        require_dense(crf.n_parameters, "expectation propagation", 'Take method="newton" or "lbfgs".')
        K, P = len(crf.labels), data.positions
        self._pairs = data.pair_starts()
        numbers = 8 * (len(self._pairs) * K**4 + P * len(crf.inputs))
        memory.require(
            Cost(float(numbers), 8.0 * numbers, f"a {K**2}×{K**2} site for each of {len(self._pairs):,} pairs"),
            "expectation propagation",
            'Take method="newton" or "lbfgs".',
        )
        self._x = data.inputs.toarray()
        self._z = data.edge_rows[data.which[self._pairs]]
        self._T = crf.edge_tables.reshape(len(crf.edge_tables), -1)

    def at_mode(self, parameters: FloatArray) -> _Sites:
        """Laplace's own quadratic, as far as factors go by themselves: q is centred at the mode."""
        node, edge = self._objective.data.potentials(parameters)
        own = edge[self._objective.data.sequences.which[self._pairs]].reshape(len(self._pairs), node.shape[1] ** 2)
        p, pair = self._marginals(node, own)
        S, S_pair = _spread(p), _spread(pair)
        return _Sites(p - _apply(S, node), S, pair - _apply(S_pair, own), S_pair)

    def gaussian(self, sites: _Sites) -> tuple[FloatArray, FloatArray, DensePrecision]:
        """Mean, covariance and precision of q ∝ p(λ) e^{λᵀf(y)} / Z̃."""
        crf, o = self._objective.data.crf, self._objective
        n, B = crf.n_state, crf.node_tables
        prior = o.prior.matrix()
        P = prior.copy()
        P[:n, :n] += _outer(self._x, np.einsum("gi,tij,hj->tgh", B, sites.C, B, optimize=True))
        P[n:, n:] += _outer(self._z, np.einsum("gi,tij,hj->tgh", self._T, sites.C_pair, self._T, optimize=True))
        of_node = self._x.T @ (sites.h @ B.T)
        of_pair = self._z.T @ (sites.h_pair @ self._T.T)
        right = prior @ o.prior.location + o.statistic - np.concatenate([of_node.ravel(), of_pair.ravel()])
        precision = DensePrecision(P)
        return precision.solve(right), linalg.inv(P), precision

    def updated(self, sites: _Sites, mean: FloatArray, covariance: FloatArray) -> _Sites:
        """New sites, each from its cavity, with the labels' chain at the cavities' potentials."""
        crf = self._objective.data.crf
        n = crf.n_state
        W, V = crf.split(mean)
        m, S = _cavity(self._x @ W @ crf.node_tables, _of_factors(self._x, covariance[:n, :n], crf.node_tables), sites)
        pairs = _Sites(sites.h_pair, sites.C_pair, sites.h, sites.C)
        m_pair, S_pair = _cavity(self._z @ V @ self._T, _of_factors(self._z, covariance[n:, n:], self._T), pairs)
        p, pair = self._marginals(m + 0.5 * _diagonals(S), m_pair + 0.5 * _diagonals(S_pair))
        return _Sites(*_matched(p, m, S), *_matched(pair, m_pair, S_pair))

    def _marginals(self, node: FloatArray, pairs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(P, K) and (m, K²) by forward and backward passes; every pair of neighbours has a table of its own."""
        P, K = node.shape
        edge = np.zeros((P, K, K))
        edge[self._pairs] = pairs.reshape(-1, K, K)
        marginals = chain_marginals(ChainArrays(self._objective.data.sequences.ptr, np.arange(P)), node, edge)
        return marginals.marginal, marginals.transitions[self._pairs].reshape(-1, K * K)


def _cavity(m: FloatArray, V: FloatArray, sites: _Sites) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of u under q / Z̃_k."""
    left = np.eye(V.shape[1]) + V @ sites.C
    both = np.linalg.solve(left, np.concatenate([V, (m - _apply(V, sites.h))[:, :, None]], axis=2))
    covariance = both[:, :, :-1]
    return both[:, :, -1], (covariance + covariance.transpose(0, 2, 1)) / 2


def _matched(p: FloatArray, m: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray]:
    S = _spread(p)
    C = np.linalg.solve((np.eye(p.shape[1]) + V @ S).transpose(0, 2, 1), S).transpose(0, 2, 1)
    C = (C + C.transpose(0, 2, 1)) / 2
    return p - _apply(C, m + _apply(V, p)), C


def _of_factors(x: FloatArray, covariance: FloatArray, tables: FloatArray) -> FloatArray:
    """Covariance of u = (x ⊗ tables) λ for every row x, (rows, K, K)."""
    D, G = x.shape[1], len(tables)
    blocks = covariance.reshape(D, G, D, G)
    inner = np.empty((len(x), G, G))
    for g in range(G):
        for h in range(G):
            inner[:, g, h] = np.einsum("td,td->t", x @ blocks[:, g, :, h], x)
    result: FloatArray = np.einsum("tgh,gi,hj->tij", inner, tables, tables, optimize=True)
    return result


def _outer(x: FloatArray, C: FloatArray) -> FloatArray:
    """Σ_t x_t x_tᵀ ⊗ C_t, (D·G, D·G)."""
    D, G = x.shape[1], C.shape[1]
    out = np.empty((D, G, D, G))
    for g in range(G):
        for h in range(G):
            out[:, g, :, h] = x.T @ (C[:, g, h, None] * x)
    return out.reshape(D * G, D * G)


def _spread(p: FloatArray) -> FloatArray:
    """diag p − ppᵀ of every row."""
    out = -p[:, :, None] * p[:, None, :]
    k = np.arange(p.shape[1])
    out[:, k, k] += p
    return out


def _apply(matrices: FloatArray, rows: FloatArray) -> FloatArray:
    result: FloatArray = np.einsum("tij,tj->ti", matrices, rows)
    return result


def _diagonals(matrices: FloatArray) -> FloatArray:
    result: FloatArray = np.einsum("tii->ti", matrices)
    return result
