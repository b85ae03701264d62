"""Region graphs for the Kikuchi approximation: clusters, their intersections, counting numbers.

Clusters come from the user or are found: loops up to a length (plaquettes of a lattice are its loops of four),
triplets, or the mini-buckets of an elimination order with bounded tables. Every factor and every variable is put
inside some cluster; clusters inside others are dropped; intersections are added until there are no more (closure);
and c_r = 1 − Σ_{s ⊃ r} c_s (Möbius), so that each variable and each factor is counted once.
"""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from bayesfield.kernels.messages.regions import RegionArrays
from bayesfield.types import GraphArrays, IntArray, InvalidInput, Region, RegionGraph


def loops(g: GraphArrays, length: int) -> list[Region]:
    """Chordless loops of the model's graph of at most ``length`` variables."""
    pairs = _pairs(g)
    if length <= 4:
        return _short_loops(pairs, length)
    import networkx as nx  # takes longer to import than most fits

    network = nx.Graph()
    network.add_edges_from(pairs)
    return [tuple(sorted(cycle)) for cycle in nx.chordless_cycles(network, length_bound=length)]


def _short_loops(pairs: Iterable[tuple[int, int]], length: int) -> list[Region]:
    """Triangles, and squares without a chord; 40 times faster than the general search on a lattice."""
    around: dict[int, set[int]] = {}
    for s, t in pairs:
        around.setdefault(s, set()).add(t)
        around.setdefault(t, set()).add(s)
    found: list[Region] = []
    for u in sorted(around):
        later = {v for v in around[u] if v > u}
        if length >= 3:
            found += [(u, v, w) for v in sorted(later) for w in sorted(later & around[v]) if w > v]
        if length < 4:
            continue
        opposite: dict[int, list[int]] = {}  # corners across from u, with the neighbours of u that lead there
        for a in sorted(later):
            for w in around[a]:
                if w > u and w not in around[u]:
                    opposite.setdefault(w, []).append(a)
        for w, between in opposite.items():
            for a, b in itertools.combinations(between, 2):
                if b not in around[a]:
                    x, y, z = sorted((a, b, w))
                    found.append((u, x, y, z))
    return found


def mini_buckets(g: GraphArrays, max_entries: int) -> list[Region]:
    """Cliques of a min-degree elimination in which no cluster's table grows beyond ``max_entries``.

    When eliminating a variable, the clusters around it are merged as long as the table fits; what does not fit starts
    another mini-bucket. With an unlimited size these are the cliques of a junction tree.
    """
    clusters = {frozenset(scope) for scope in _scopes(g)} | {frozenset([i]) for i in range(len(g.cardinality))}
    found: list[Region] = []
    left = set(range(len(g.cardinality)))
    while left:
        variable = min(left, key=lambda v: (len(set().union(*(c for c in clusters if v in c))), v))
        left.discard(variable)
        around = sorted((c for c in clusters if variable in c), key=lambda c: (-len(c), sorted(c)))
        clusters -= set(around)
        for bucket in _merge(around, g.cardinality, max_entries):
            found.append(tuple(sorted(bucket)))
            if len(bucket) > 1:
                clusters.add(bucket - {variable})
    return found


def _merge(around: Sequence[frozenset[int]], cardinality: IntArray, max_entries: int) -> list[frozenset[int]]:
    buckets: list[frozenset[int]] = []
    for scope in around:
        for k, bucket in enumerate(buckets):
            union = bucket | scope
            if scope <= bucket or np.prod(cardinality[sorted(union)].astype(float)) <= max_entries:
                buckets[k] = union
                break
        else:
            buckets.append(scope)
    return buckets


def region_graph(g: GraphArrays, clusters: Iterable[Sequence[int]]) -> RegionGraph:
    """The closure of clusters (completed by the factors' scopes) under intersection, with counting numbers."""
    n = len(g.cardinality)
    given = [frozenset(int(v) for v in cluster) for cluster in clusters]
    for cluster in given:
        if not cluster or min(cluster) < 0 or max(cluster) >= n:
            raise InvalidInput(f"a cluster is a set of variables numbered 0 to {n - 1}; got {sorted(cluster)}")
    wanted = given + [frozenset(s) for s in _scopes(g)] + [frozenset([i]) for i in range(n)]
    outer = _maximal(wanted)
    inner = _intersections(outer)
    counting: dict[frozenset[int], int] = dict.fromkeys(outer, 1)
    holders = _containing(n, outer)
    for region in sorted(inner, key=len, reverse=True):
        above = set.intersection(*(holders[v] for v in region))
        counting[region] = 1 - sum(counting[s] for s in above if s > region and s in counting)
        for v in region:
            holders[v].add(region)
    result = RegionGraph(
        tuple(sorted(tuple(sorted(r)) for r in outer)),
        tuple(sorted((tuple(sorted(r)) for r in inner), key=lambda r: (-len(r), r))),
        (),
    )
    numbers = tuple(counting[frozenset(r)] for r in result.inner)
    checked = result._replace(counting=numbers)
    _check(g, checked)
    return checked


def _maximal(regions: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    """Those that lie in no other."""
    kept: list[frozenset[int]] = []
    holders: dict[int, list[frozenset[int]]] = {}
    for region in sorted(set(regions), key=lambda r: (-len(r), sorted(r))):
        around = holders.get(next(iter(region)), [])
        if not any(region <= other for other in around):
            kept.append(region)
            for v in region:
                holders.setdefault(v, []).append(region)
    return kept


def _containing(n: int, regions: Iterable[frozenset[int]]) -> list[set[frozenset[int]]]:
    holders: list[set[frozenset[int]]] = [set() for _ in range(n)]
    for region in regions:
        for v in region:
            holders[v].add(region)
    return holders


def _intersections(outer: Sequence[frozenset[int]]) -> set[frozenset[int]]:
    """All intersections of clusters, of those with clusters, and so on."""
    inner: set[frozenset[int]] = set()
    by_variable: dict[int, list[frozenset[int]]] = {}
    for region in outer:
        for v in region:
            by_variable.setdefault(v, []).append(region)
    new = set(outer)
    while new:
        meet = {
            region & other
            for region in new
            for other in {o for v in region for o in by_variable[v]}
            if not region <= other and not other <= region
        }
        new = {m for m in meet if m and m not in inner}
        inner |= new
    return inner - set(outer)


def _check(g: GraphArrays, regions: RegionGraph) -> None:
    """Counting numbers of every variable and every factor sum to one."""
    holders = _containing(len(g.cardinality), [frozenset(r) for r in (*regions.outer, *regions.inner)])
    number: dict[frozenset[int], float] = {frozenset(r): 1 for r in regions.outer}
    number.update({frozenset(r): c for r, c in zip(regions.inner, regions.counting, strict=True)})
    for scope in [*_scopes(g), *((i,) for i in range(len(g.cardinality)))]:
        total = sum(number[r] for r in set.intersection(*(holders[v] for v in scope)))
        if total != 1:
            raise InvalidInput(f"the region graph is not valid: variables {scope} are counted {total} times, not once")


def region_arrays(g: GraphArrays, regions: RegionGraph) -> RegionArrays:
    """The region graph laid out for the kernels."""
    size = g.cardinality
    outer_ptr = _offsets([int(np.prod(size[list(r)])) for r in regions.outer])
    inner_ptr = _offsets([int(np.prod(size[list(r)])) for r in regions.inner])
    holders: list[set[int]] = [set() for _ in range(len(size))]
    for k, region in enumerate(regions.outer):
        for v in region:
            holders[v].add(k)
    slots: list[tuple[int, int]] = []
    slot_counts = []
    for b, region in enumerate(regions.inner):
        around = sorted(set.intersection(*(holders[v] for v in region)))
        slot_counts.append(len(around))
        slots += [(a, b) for a in around]
    maps = [_map(size, regions.outer[a], regions.inner[b]) for a, b in slots]
    messages = [int(inner_ptr[b + 1] - inner_ptr[b]) for _, b in slots]
    term_ptr, term = _terms(g, regions, holders, outer_ptr)
    return RegionArrays(
        outer_ptr=outer_ptr,
        inner_ptr=inner_ptr,
        counting=np.array(regions.counting, dtype=np.float64),
        slot_ptr=_offsets(slot_counts),
        slot_outer=np.array([a for a, _ in slots], dtype=np.int64),
        message_ptr=_offsets(messages),
        map_ptr=_offsets([len(m) for m in maps]),
        map=np.concatenate([np.empty(0, dtype=np.int64), *maps]),
        term_ptr=term_ptr,
        term=term,
    )


def _terms(
    g: GraphArrays, regions: RegionGraph, holders: list[set[int]], outer_ptr: IntArray
) -> tuple[IntArray, IntArray]:
    """Each table of θ goes to the first outer region around it: entries of θ for each entry of the outer tables."""
    rows, values = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    tables: list[tuple[Region, int]] = [((i,), int(g.node_ptr[i])) for i in range(len(g.cardinality))]
    tables += [(scope, int(g.table_ptr[f])) for f, scope in enumerate(_scopes(g))]
    for scope, start in tables:
        a = min(set.intersection(*(holders[v] for v in scope)))
        index = _map(g.cardinality, regions.outer[a], scope)
        rows.append(outer_ptr[a] + np.arange(len(index)))
        values.append(start + index)
    row, value = np.concatenate(rows), np.concatenate(values)
    order = np.argsort(row, kind="stable")
    counts = np.bincount(row, minlength=int(outer_ptr[-1]))
    return _offsets(counts.tolist()), value[order]


def _map(size: IntArray, outer: Region, inner: Region) -> IntArray:
    """For every entry of an outer table the entry of an inner one that it belongs to."""
    step, strides = 1, {}
    for v in reversed(inner):
        strides[v] = step
        step *= int(size[v])
    index = np.zeros(1, dtype=np.int64)
    for v in outer:
        index = np.add.outer(index, strides.get(v, 0) * np.arange(size[v])).ravel()
    return index


def _scopes(g: GraphArrays) -> list[Region]:
    return [tuple(g.scope[g.scope_ptr[a] : g.scope_ptr[a + 1]].tolist()) for a in range(len(g.table_ptr) - 1)]


def _pairs(g: GraphArrays) -> set[tuple[int, int]]:
    return {(s, t) for scope in _scopes(g) for s in scope for t in scope if s < t}


def _offsets(sizes: Sequence[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))]).astype(np.int64)
