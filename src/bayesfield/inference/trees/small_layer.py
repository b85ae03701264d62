"""Exact inference in fields of two layers, such as restricted Boltzmann machines: the smaller layer is summed over.

2^s states of s variables, whatever the size L of the other layer: a junction tree has as many tables of that size as
there are variables in the larger layer. The covariance comes from the same sum: with f = (x, 1) ⊗ (h, 1)

    E[x_i x_k h_j h_l] = Σ_h p(h) p_i(h) p_k(h) h_j h_l  for i ≠ k,   E[x_i h_j h_l] for i = k,

L² / 2 tables of 2^s numbers, each reduced to its pairs of bits by two thin matrix products.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import special

from bayesfield import memory
from bayesfield.graph.layers import (
    LayerPotentials,
    Layers,
    layer_beliefs,
    layer_potentials,
    layer_products,
    layers_of,
)
from bayesfield.inference.contract import Price, Traits
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.kernels.trees import layers as kernel
from bayesfield.response.base import TableResponse, require_dense
from bayesfield.response.indicators import Sparse
from bayesfield.types import Cost, FloatArray, IntArray, Marginals, Options, Outcome, Status

if TYPE_CHECKING:
    from bayesfield.graph.compiled import Design
    from bayesfield.graph.structure import Graph
    from bayesfield.response.base import Response

MOST = 2**18  # states of the smaller layer
_FAST = 8  # bits of the smaller layer that make a row, which stays in the cache
_ROOM = 600.0  # exponents beyond which the products of the fast way are too large to be numbers
_ROWS = 2_000_000  # numbers of the larger layer that are held at a time
_EXACT = Status(Outcome.EXACT)
# Seconds of one core: of a state and a variable of the larger layer in an inference, of two in a covariance
_PER_STATE, _PER_PAIR, _PER_PRODUCT = 7e-10, 1.5e-9, 4e-9
_OTHERWISE = Exact()


@dataclass(frozen=True, repr=False)
class SmallLayer(Options):
    """Exact inference in a field of two layers of binary variables, by a sum over all states of the smaller layer.

    ``engine="auto"`` takes it where at most 2^18 states are summed over, so that nobody needs to name it. Fields that
    are no two layers, or whose tables forbid states, go to ``bf.Exact()``.
    """

    traits = Traits(exact=True)

    def fits(self, graph: Graph) -> bool:
        """Whether the field is two layers, one of them small enough."""
        layers = layers_of(graph)
        return layers is not None and 2.0 ** len(layers.small) <= MOST

    def price(self, graph: Graph, size: int) -> Price:
        layers = layers_of(graph)
        if layers is None:
            return _OTHERWISE.price(graph, size)
        L, states = float(len(layers.large)), 2.0 ** len(layers.small)
        products = float(len(layers.row) + len(graph.arrays.cardinality))
        inference = 1e-4 + _PER_STATE * states * L
        value = 1e-4 + 0.5 * _PER_STATE * states * L
        return Price(inference, inference + _PER_PAIR * states * L * L + _PER_PRODUCT * products**2, value=value)

    def preview(self, graph: Graph) -> Cost:
        layers = layers_of(graph)
        if layers is None:
            return _OTHERWISE.preview(graph)
        L, s = len(layers.large), len(layers.small)
        states, products = 2.0**s, float(len(layers.row) + len(graph.arrays.cardinality))
        held = 8.0 * (3.0 * states + min(states, MOST) * L + 2.0 * products**2)
        return Cost(states * L, held, f"a sum over {states:,.0f} states of the smaller layer, {s} of {L + s} variables")

    def infer(self, graph: Graph, theta: FloatArray, start: Any = None) -> Marginals:
        layers = layers_of(graph)
        if layers is None or not np.isfinite(theta).all():
            return _OTHERWISE.infer(graph, theta, start)
        memory.require(self.preview(graph), "a sum over the smaller layer", "Take bf.Sampled().")
        summed = sum_over_layer(layer_potentials(graph, layers, theta))
        means = summed.means()
        return Marginals(summed.log_z, layer_beliefs(graph, layers, *means), _EXACT, summed)

    def response(self, graph: Graph, design: Design, theta: FloatArray, marginals: Marginals) -> Response:
        layers = layers_of(graph)
        if layers is None or not isinstance(marginals.state, LayerSum):
            return _OTHERWISE.response(graph, design, theta, marginals)
        return LayerResponse(graph, layers, design, marginals.state)

    def maximise(self, graph: Graph, theta: FloatArray) -> tuple[IntArray, Status]:
        """The state h with the largest bᵀh + Σ_i max(0, a_i + W_i h), and the x that go with it."""
        layers = layers_of(graph)
        if layers is None or not np.isfinite(theta).all():
            return _OTHERWISE.maximise(graph, theta)
        t = layer_potentials(graph, layers, theta)
        best, found = -np.inf, np.zeros(len(t.small))
        for h, x in _blocks(t):
            value = h @ t.small + np.maximum(x, 0.0).sum(axis=0)
            k = int(np.argmax(value))
            if value[k] > best:
                best, found = float(value[k]), h[k]
        states = np.zeros(len(graph.arrays.cardinality), dtype=np.int64)
        states[layers.small] = found
        states[layers.large] = t.large + t.joint @ found > 0.0
        return states, _EXACT

    def sample(self, graph: Graph, theta: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
        """n independent joint states, (n, variables): h from its table, then x given h."""
        layers = layers_of(graph)
        if layers is None or not np.isfinite(theta).all():
            return _OTHERWISE.sample(graph, theta, n, rng)
        t = layer_potentials(graph, layers, theta)
        p = sum_over_layer(t).probabilities
        edges = np.cumsum(p)
        number = np.minimum(np.searchsorted(edges, rng.random(n) * edges[-1], side="right"), len(p) - 1)
        h = number[:, None] >> np.arange(len(t.small)) & 1
        states = np.empty((n, len(graph.arrays.cardinality)), dtype=np.int64)
        states[:, layers.small] = h
        states[:, layers.large] = rng.random((n, len(t.large))) < special.expit(t.large + h @ t.joint.T)
        return states


@dataclass(frozen=True, eq=False)
class LayerSum:
    """All states of the smaller layer: log p̃(h) less c, (2^s,), and log Z. fast: bits of a row; 0 where exponents are
    too large for the fast way."""

    potentials: LayerPotentials
    log_weights: FloatArray
    log_z: float
    fast: int

    @cached_property
    def probabilities(self) -> FloatArray:
        """p(h), (2^s,); the number of a state has h_0 as its lowest bit."""
        result: FloatArray = np.exp(self.log_weights - (self.log_z - self.potentials.constant))
        return result

    def means(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """E[x], (L,), E[h], (s,), and E[x hᵀ], (L, s)."""
        t, p = self.potentials, self.probabilities
        L, s = t.joint.shape
        if not self.fast:
            parts = [self._slowly(h, x, first) for first, (h, x) in _numbered(t)]
            return tuple(np.sum(part, axis=0) for part in zip(*parts, strict=True))
        table = p.reshape(-1, 2**self.fast)
        by_row, by_column = np.empty((L, len(table))), np.empty((L, table.shape[1]))
        kernel.layer_means(t.large, t.joint, self.fast, table, by_row, by_column)
        slow, quick = states_of(s - self.fast), states_of(self.fast)
        small = np.concatenate([table.sum(axis=0) @ quick, table.sum(axis=1) @ slow])
        return by_row.sum(axis=1), small, np.hstack([by_column @ quick, by_row @ slow])

    def _slowly(self, h: FloatArray, x: FloatArray, first: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        p = self.probabilities[first : first + len(h)]
        q = special.expit(x) * p
        return q.sum(axis=1), p @ h, q @ h


def sum_over_layer(t: LayerPotentials) -> LayerSum:
    """log p̃(h) of every state, and their sum."""
    s = len(t.small)
    fast = min(_FAST, s)
    if float(np.max(np.abs(t.large) + np.abs(t.joint).sum(axis=1), initial=0.0)) > _ROOM:
        fast = 0
    log_weights = np.empty(2**s)
    if fast:
        joint = np.ascontiguousarray(t.joint)
        kernel.layer_weights(t.large, t.small, joint, fast, log_weights.reshape(-1, 2**fast))
    else:
        for first, (h, x) in _numbered(t):
            log_weights[first : first + len(h)] = h @ t.small + np.logaddexp(0.0, x).sum(axis=0)
    top = float(log_weights.max())
    log_z = t.constant + top + float(np.log(np.exp(log_weights - top).sum()))
    return LayerSum(t, log_weights, log_z, fast)


def states_of(bits: int) -> FloatArray:
    """All states of so many bits, (2^bits, bits), the lowest bit first."""
    result: FloatArray = (np.arange(2**bits)[:, None] >> np.arange(bits) & 1).astype(np.float64)
    return result


def _numbered(t: LayerPotentials) -> Any:
    """Blocks of states with the number of their first: h (S, s), and a + W h, (L, S)."""
    L, s = t.joint.shape
    step = max(1, _ROWS // max(L, 1))
    for first in range(0, 2**s, step):
        number = np.arange(first, min(first + step, 2**s))
        h = (number[:, None] >> np.arange(s) & 1).astype(np.float64)
        yield first, (h, t.large[:, None] + t.joint @ h.T)


def _blocks(t: LayerPotentials) -> Any:
    return (block for _, block in _numbered(t))


# --- covariances ----------------------------------------------------------------------------------------------------


class _Halves(NamedTuple):
    """The bits of the states in two halves, h = (low, high), and the products of each half's pairs of bits."""

    low: FloatArray  # (2^l, 1 + l)
    high: FloatArray  # (2^k, 1 + k)
    low_pairs: FloatArray  # (2^l, (1 + l)²)
    high_pairs: FloatArray  # (2^k, (1 + k)²)


def _halves(s: int) -> _Halves:
    few = s // 2
    low, high = (np.hstack([np.ones((2**n, 1)), states_of(n)]) for n in (few, s - few))
    return _Halves(low, high, *((m[:, :, None] * m[:, None, :]).reshape(len(m), -1) for m in (low, high)))


def _pairs_of_bits(tables: FloatArray, s: int, halves: _Halves) -> FloatArray:
    """Σ_h t(h) g_j g_l with g = (1, h), (R, s + 1, s + 1), of tables (R, 2^s)."""
    bits, R = s // 2, len(tables)
    cube = tables.reshape(R, 2 ** (s - bits), 2**bits)
    rows = cube @ halves.low  # (R, 2^k, 1 + l)
    out = np.empty((R, s + 1, s + 1))
    low, high = np.arange(1, bits + 1), np.arange(bits + 1, s + 1)
    crossed = np.matmul(halves.high.T, rows)  # (R, 1 + k, 1 + l)
    own_low = (cube.sum(axis=1) @ halves.low_pairs).reshape(R, bits + 1, bits + 1)
    own_high = (rows[:, :, 0] @ halves.high_pairs).reshape(R, s - bits + 1, s - bits + 1)
    with_one = np.r_[0, low]
    out[np.ix_(np.arange(R), with_one, with_one)] = own_low
    out[np.ix_(np.arange(R), high, high)] = own_high[:, 1:, 1:]
    out[np.ix_(np.arange(R), high, with_one)] = crossed[:, 1:]
    out[np.ix_(np.arange(R), with_one, high)] = crossed[:, 1:].transpose(0, 2, 1)
    return out


def layer_moments(summed: LayerSum) -> FloatArray:
    """E[f fᵀ] of f = (x, 1) ⊗ (1, h), as (L + 1, s + 1, L + 1, s + 1)."""
    t, p = summed.potentials, summed.probabilities
    L, s = t.joint.shape
    halves, total = _halves(s), np.empty((L + 1, s + 1, L + 1, s + 1))
    x = np.empty((L + 1, 2**s))
    for first, (h, logits) in _numbered(t):
        x[:L, first : first + len(h)] = special.expit(logits)
    x[L] = 1.0
    held = np.empty_like(x)
    for i in range(L + 1):
        own = x[i] * p
        others = np.multiply(x[: i + 1], own, out=held[: i + 1])
        if i < L:
            others[i] = own
        found = _pairs_of_bits(others, s, halves)  # (i + 1, s + 1, s + 1)
        total[: i + 1, :, i, :] = found
        total[i, :, : i + 1, :] = found.transpose(1, 0, 2)
    return total


class LayerResponse(TableResponse):
    """The exact covariance, from that of x, h and x hᵀ."""

    def __init__(self, graph: Graph, layers: Layers, design: Design, summed: LayerSum) -> None:
        super().__init__(design)
        self._graph, self._layers, self._summed = graph, layers, summed

    @cached_property
    def _products(self) -> FloatArray:
        """Cov(m) of the products m: x, h, and x_i h_j of every factor."""
        (L, s), layers = self._summed.potentials.joint.shape, self._layers
        at = np.concatenate([np.arange(L) * (s + 1), L * (s + 1) + 1 + np.arange(s)])
        at = np.concatenate([at, layers.row * (s + 1) + layers.column + 1])
        moments = layer_moments(self._summed).reshape((L + 1) * (s + 1), -1)
        mean = moments[at, L * (s + 1)]
        result: FloatArray = moments[np.ix_(at, at)] - np.outer(mean, mean)
        return result

    @property
    def _indicators(self) -> Sparse:
        return layer_products(self._graph, self._layers)

    def covariance(self) -> FloatArray:
        require_dense(self.size, "the full covariance")
        rows = (self._indicators.T @ self.design.matrix).tocsr()
        result: FloatArray = rows.T @ (rows.T @ self._products).T
        return (result + result.T) / 2

    def table_product(self, directions: FloatArray) -> FloatArray:
        result: FloatArray = self._indicators @ (self._products @ (self._indicators.T @ directions))
        return result
