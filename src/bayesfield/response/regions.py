"""Linear response on the Kikuchi approximation: K = Σ_r c_r embed(V_r⁻¹) with what one outer region owns eliminated.

Coordinates are the products of state indicators (reference states left out) of all sets of variables that lie inside
some inner region. Outer regions are the blocks of LinearResponse; inner regions add Σ_β c_β embed(V_β⁻¹).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse

from bayesfield.response.constrained import free_basis, generalised_inverses
from bayesfield.response.indicators import IMPOSSIBLE, Sparse
from bayesfield.response.linear import Blocks, LinearResponse, Pieces, SingularFactor, assemble, block_inverses, moments
from bayesfield.types import FloatArray, GraphArrays, IntArray, Region, RegionGraph

if TYPE_CHECKING:
    from bayesfield.graph.compiled import Design
    from bayesfield.graph.structure import Graph
    from bayesfield.kernels.messages.regions import RegionArrays

States = tuple[tuple[int, ...], ...]  # of each variable
Product = tuple[tuple[int, int], ...]  # (variable, state) pairs: the product of their indicators


class RegionIndicators(NamedTuple):
    """What depends on the regions and on the reference states only, and is kept from call to call."""

    outer: Blocks
    inner: Blocks
    weights: FloatArray  # counting number of each inner region's local coordinate


def region_response(
    graph: Graph,
    design: Design,
    regions: RegionGraph,
    arrays: RegionArrays,
    node_beliefs: FloatArray,
    outer: FloatArray,
    inner: FloatArray,
) -> LinearResponse:
    """The covariance of the features at a fixed point with beliefs b_α (outer) and q_β (inner)."""
    states = _free_states(graph.arrays, node_beliefs)
    key = ("region indicators", regions.outer, states)
    s = graph.plan(key, lambda g: _indicators(g, regions, states))
    expand = sparse.csr_array(
        (np.ones(len(arrays.term)), arrays.term, arrays.term_ptr), shape=(len(outer), design.matrix.shape[0])
    )
    pieces = s.inner._replace(beliefs=inner, features=sparse.csr_array((0, len(inner))))
    blocks = s.outer._replace(beliefs=outer, features=design.transpose @ expand.T)
    m, within = moments(blocks), moments(pieces).members
    weights = sparse.diags_array(s.weights)
    try:
        inverse, inner_inverse = block_inverses(blocks.local_ptr, m.members), block_inverses(pieces.local_ptr, within)
        basis = None
    except SingularFactor:
        inverse, null = generalised_inverses(blocks.local_ptr, m.members)
        inner_inverse, inner_null = generalised_inverses(pieces.local_ptr, within)
        basis = free_basis(sparse.hstack([blocks.embed.T @ null, pieces.embed.T @ inner_null]))
    shared = pieces.embed.T @ weights @ inner_inverse @ pieces.embed
    inside = Pieces(pieces, inner_inverse, s.weights)
    return assemble(design, blocks, m, inverse, shared, basis=basis, pieces=inside)


def _indicators(g: GraphArrays, regions: RegionGraph, states: States) -> RegionIndicators:
    coordinate = _coordinates(regions.inner, states)
    inner = _blocks(g, regions.inner, coordinate, states)
    weights = np.repeat(np.array(regions.counting, dtype=np.float64), np.diff(inner.local_ptr))
    return RegionIndicators(_blocks(g, regions.outer, coordinate, states), inner, weights)


def _free_states(g: GraphArrays, q: FloatArray) -> States:
    """States of each variable that can occur, without the most probable one."""
    result = []
    for i in range(len(g.cardinality)):
        p = q[g.node_ptr[i] : g.node_ptr[i + 1]]
        top = int(np.argmax(p))
        result.append(tuple(x for x in range(len(p)) if x != top and p[x] > IMPOSSIBLE))
    return tuple(result)


def _products(variables: Region, states: States) -> list[Product]:
    """All products of indicators over non-empty sets of variables."""
    return [
        tuple(zip(subset, choice, strict=True))
        for size in range(1, len(variables) + 1)
        for subset in itertools.combinations(variables, size)
        for choice in itertools.product(*(states[v] for v in subset))
    ]


def _coordinates(inner: Sequence[Region], states: States) -> dict[Product, int]:
    coordinate: dict[Product, int] = {}
    for region in inner:
        for product in _products(region, states):
            coordinate.setdefault(product, len(coordinate))
    return coordinate


def _blocks(
    g: GraphArrays,
    regions: Sequence[Region],
    coordinate: dict[Product, int],
    states: States,
) -> Blocks:
    """The regions' tables and the products of indicators that each shares; no features and no beliefs yet."""
    rows: list[IntArray] = []
    columns: list[IntArray] = []
    shared: list[int] = []
    owner: list[IntArray] = []
    local_ptr, start = [0], 0
    for k, region in enumerate(regions):
        shape = [int(g.cardinality[v]) for v in region]
        index = dict(zip(region, np.indices(shape).reshape(len(shape), -1), strict=True))
        for product in _products(region, states):
            if product in coordinate:
                on = np.logical_and.reduce([index[v] == x for v, x in product])
                entries = np.flatnonzero(on)
                rows.append(start + entries)
                columns.append(np.full(len(entries), len(shared)))
                shared.append(coordinate[product])
        size = int(np.prod(shape))
        owner.append(np.full(size, k))
        local_ptr.append(len(shared))
        start += size
    return Blocks(
        features=None,
        beliefs=np.empty(0),
        owner=_ones(np.arange(start), _join(owner), (start, len(regions))),
        members=_ones(_join(rows), _join(columns), (start, len(shared))),
        local_ptr=np.array(local_ptr, dtype=np.int64),
        embed=_ones(np.arange(len(shared)), np.array(shared, dtype=np.int64), (len(shared), len(coordinate))),
    )


def _join(parts: list[IntArray]) -> IntArray:
    return np.concatenate([np.empty(0, dtype=np.int64), *parts]).astype(np.int64)


def _ones(rows: IntArray, columns: IntArray, shape: tuple[int, int]) -> Sparse:
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
