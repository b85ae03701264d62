"""A field of binary pairs as two layers, no pair within either: energies c + aᵀx + bᵀh + xᵀW h.

Restricted Boltzmann machines are such fields. Given one layer the variables of the other are independent, so that one
layer is summed over by itself: log p̃(h) = c + bᵀh + Σ_i log(1 + exp(a_i + W_i h)).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from bayesfield.graph.clamp import Clamped, Phase, clamp
from bayesfield.graph.compiled import CompiledField
from bayesfield.graph.structure import Graph
from bayesfield.types import FloatArray, GraphArrays, IntArray

Sparse = Any  # scipy's sparse arrays

_FILLED = 0.5  # share of all pairs between the layers that are joined, from which matrices are the right form
FEW = 16  # log2 of joint states up to which a sum over all of them is as fast


class Layers(NamedTuple):
    """large, small: the variables of each layer, (L,) and (s,). row, column: (m,) the place of each factor in W.

    flipped: (m,) whether a factor's first variable is in the small layer.
    """

    large: IntArray
    small: IntArray
    row: IntArray
    column: IntArray
    flipped: IntArray


class LayerPotentials(NamedTuple):
    """constant: c. large: a, (L,). small: b, (s,). joint: W, (L, s)."""

    constant: float
    large: FloatArray
    small: FloatArray
    joint: FloatArray


def layers_of(graph: Graph) -> Layers | None:
    """The two layers of a field that has them, joined in most pairs; None for all others, and for tiny ones."""
    result: Layers | None = graph.plan("layers", _layers)
    return result


def _layers(g: GraphArrays) -> Layers | None:
    n = len(g.cardinality)
    if n <= FEW or not (g.cardinality == 2).all() or not (np.diff(g.scope_ptr) == 2).all():
        return None
    pairs = g.scope.reshape(-1, 2)
    ones = np.ones(len(pairs))
    joined = sparse.csr_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    order, before = sparse.csgraph.breadth_first_order(joined, pairs[0, 0] if len(pairs) else 0, directed=False)
    if len(order) < n:
        return None
    side = np.zeros(n, dtype=np.int64)
    for i in order[1:]:
        side[i] = 1 - side[before[i]]
    if (side[pairs[:, 0]] == side[pairs[:, 1]]).any():
        return None
    fewer = int(side.sum() < n - side.sum())
    large, small = np.flatnonzero(side != fewer), np.flatnonzero(side == fewer)
    if len(pairs) < _FILLED * len(large) * len(small):
        return None
    place = np.empty(n, dtype=np.int64)
    place[large], place[small] = np.arange(len(large)), np.arange(len(small))
    flipped = (side[pairs[:, 0]] == fewer).astype(np.int64)
    rows = place[np.where(flipped == 1, pairs[:, 1], pairs[:, 0])]
    columns = place[np.where(flipped == 1, pairs[:, 0], pairs[:, 1])]
    return Layers(large, small, rows, columns, flipped)


def layer_potentials(graph: Graph, layers: Layers, theta: FloatArray) -> LayerPotentials:
    """From tables θ: with t the table of a pair, W = t₁₁ − t₁₀ − t₀₁ + t₀₀, and t₁₀ − t₀₀ is the first variable's."""
    g = graph.arrays
    n = len(g.cardinality)
    nodes, tables = theta[: 2 * n].reshape(n, 2), theta[2 * n :].reshape(-1, 2, 2)
    pairs = g.scope.reshape(-1, 2)
    field = nodes[:, 1] - nodes[:, 0]
    field = field + np.bincount(pairs[:, 0], tables[:, 1, 0] - tables[:, 0, 0], minlength=n)
    field += np.bincount(pairs[:, 1], tables[:, 0, 1] - tables[:, 0, 0], minlength=n)
    joint = np.zeros((len(layers.large), len(layers.small)))
    joint[layers.row, layers.column] = tables[:, 1, 1] - tables[:, 1, 0] - tables[:, 0, 1] + tables[:, 0, 0]
    constant = float(nodes[:, 0].sum() + tables[:, 0, 0].sum())
    return LayerPotentials(constant, field[layers.large], field[layers.small], joint)


def layer_beliefs(graph: Graph, layers: Layers, large: FloatArray, small: FloatArray, joint: FloatArray) -> FloatArray:
    """Beliefs of all tables, (T,), from E[x], (L,), E[h], (s,), and E[x hᵀ], (L, s)."""
    g = graph.arrays
    n = len(g.cardinality)
    p = np.empty(n)
    p[layers.large], p[layers.small] = large, small
    pairs, both = g.scope.reshape(-1, 2), joint[layers.row, layers.column]
    result = np.empty(graph.n_entries)
    result[: 2 * n] = np.stack([1.0 - p, p], axis=1).ravel()
    first, second = p[pairs[:, 0]], p[pairs[:, 1]]
    result[2 * n :] = np.stack([1.0 - first - second + both, second - both, first - both, both], axis=1).ravel()
    return np.maximum(result, 0.0)


def layer_products(graph: Graph, layers: Layers) -> Sparse:
    """(T, M): how beliefs follow from the means of the products m, up to a constant: x, h, and x_i h_j of every factor.
    Its transpose takes θ to the potentials of these products."""
    result: Sparse = graph.plan("products of layers", lambda _: _by_products(graph, layers))
    return result


def _by_products(graph: Graph, layers: Layers) -> Sparse:
    g = graph.arrays
    n, m = len(g.cardinality), len(layers.row)
    place = np.empty(n, dtype=np.int64)
    place[layers.large] = np.arange(len(layers.large))
    place[layers.small] = len(layers.large) + np.arange(len(layers.small))
    first, second = place[g.scope.reshape(-1, 2)].T
    pair, table = n + np.arange(m), 2 * n + 4 * np.arange(m)
    parts = [(2 * np.arange(n), place, -1.0), (2 * np.arange(n) + 1, place, 1.0)]
    parts += [(table, first, -1.0), (table, second, -1.0), (table, pair, 1.0)]
    parts += [(table + 1, second, 1.0), (table + 1, pair, -1.0), (table + 2, first, 1.0), (table + 2, pair, -1.0)]
    parts += [(table + 3, pair, 1.0)]
    rows, columns = (np.concatenate([p[k] for p in parts]) for k in (0, 1))
    values = np.concatenate([np.full(len(p[0]), p[2]) for p in parts])
    return sparse.csr_array((values, (rows, columns)), shape=(graph.n_entries, n + m))


class SeenLayer:
    """Cases that show one layer of a field and nothing of the other, as ``graph.clamp.Clamped``.

    layers: of the field. x: (M, L) distinct cases of the layer that is seen; often: (M,) what each counts for. seen,
    hidden: the variables of each layer. flipped: whether the smaller layer is the one that is seen. which: (N,) the
    distinct case of each. What a union of graphs would say is made when it is asked for.
    """

    def __init__(self, field: CompiledField, codes: IntArray, weights: FloatArray | None, layers: Layers) -> None:
        self.field, self._codes, self._weights, self.layers = field, codes, weights, layers
        self.flipped = bool((codes[0, layers.small] >= 0).all())
        self.seen, self.hidden = (layers.small, layers.large) if self.flipped else (layers.large, layers.small)
        distinct, which = np.unique(codes[:, self.seen], axis=0, return_inverse=True)
        self.which: IntArray = which.reshape(-1)
        self.x = np.ascontiguousarray(distinct, dtype=np.float64)
        self.often: FloatArray = np.bincount(self.which, weights, minlength=len(distinct)).astype(np.float64)
        n = len(field.graph.arrays.cardinality)
        own = np.zeros((n, 2))
        ones = self.often @ self.x
        own[self.seen] = np.stack([self.often.sum() - ones, ones], axis=1)
        self.counts = np.zeros(field.graph.n_entries)
        self.counts[: 2 * n] = own.ravel()

    @cached_property
    def union(self) -> Clamped:
        return clamp(self.field, self._codes, self._weights)

    @property
    def phases(self) -> tuple[Phase, ...]:
        return self.union.phases

    @property
    def first(self) -> IntArray:
        return self.union.first

    def potentials(self, parameters: FloatArray) -> LayerPotentials:
        """θ without what belongs to the seen variables alone; ``large`` is the seen layer."""
        theta = self.field.design.potentials(parameters)
        nodes = theta[: 2 * len(self.field.graph.arrays.cardinality)].reshape(-1, 2)
        nodes[self.seen] = 0.0
        t = layer_potentials(self.field.graph, self.layers, theta)
        return LayerPotentials(t.constant, t.small, t.large, t.joint.T) if self.flipped else t


def seen_layer(field: CompiledField, codes: IntArray, weights: FloatArray | None) -> SeenLayer | None:
    """Where every case shows the whole of one layer and nothing of the other; None elsewhere."""
    layers = layers_of(field.graph)
    if layers is None or not len(codes) or not np.isfinite(field.design.offset).all():
        return None
    holes = codes < 0
    for seen, hidden in ((layers.large, layers.small), (layers.small, layers.large)):
        if holes[:, hidden].all() and not holes[:, seen].any():
            return SeenLayer(field, codes, weights, layers)
    return None
