"""Planning a junction tree: an elimination order, its cliques, and their layout for the kernels.

Axes of every table stand in the order of elimination, last eliminated first. A message's axes are then a subsequence
of the parent's with the same ending, so that most index maps are the identity (see kernels.trees).
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from bayesfield.kernels.trees import elimination
from bayesfield.kernels.trees import passes as trees
from bayesfield.kernels.trees.passes import TreeArrays
from bayesfield.types import Cost, FloatArray, GraphArrays, IntArray

MAX_ENTRIES = 2**33  # table entries (64 GiB) at which the search for an order gives up
_GREEDY_LIMIT = 4096  # variables; beyond it rows of bits cost too much and the order comes from Cuthill-McKee
_BLOCK = 512  # entries of a clique's table worked on at a time: a few such vectors fit in the first-level cache
_CORE = 256  # entries of a table that collects several factors
_LARGE = 2**22  # entries of a tree from which a longer search for a better order pays …
_PATIENCE = 6  # … and how much longer
_BYTES = 8  # of a table entry


@dataclass(frozen=True)
class Elimination:
    """The best order found, in terms of the variables with more than one state.

    variables: (v,) their numbers. order: (v,) positions in ``variables`` as eliminated. entries: Σ clique sizes,
    infinite when no order stays below MAX_ENTRIES. clique_ptr, clique_members: see kernels.trees.elimination.cliques;
    widest, host: ``absorb`` there.
    """

    variables: IntArray
    order: IntArray
    entries: float
    clique_ptr: IntArray
    clique_members: IntArray
    widest: IntArray
    host: IntArray


def eliminate(graph: GraphArrays, tries: int, seed: int) -> Elimination:
    """Several greedy orders, ties broken at random; the cheapest wins. Large trees are searched for longer."""
    variables = np.flatnonzero(graph.cardinality > 1)
    log_size = np.log(graph.cardinality[variables].astype(np.float64))
    ptr, neighbours = _adjacency(graph, variables)
    n = len(variables)
    if n > _GREEDY_LIMIT:
        matrix = sparse.csr_matrix((np.ones(len(neighbours), dtype=np.int8), neighbours, ptr), shape=(n, n))
        order = sparse.csgraph.reverse_cuthill_mckee(matrix, symmetric_mode=True)[::-1].astype(np.int64)
    else:
        order = _greedy(ptr, neighbours, log_size, tries, seed)
    clique_ptr, members, total = elimination.cliques(order, ptr, neighbours, log_size, float(MAX_ENTRIES))
    none = np.empty(0, dtype=np.int64)
    widest, host = elimination.absorb(clique_ptr, members) if np.isfinite(total) else (none, none)
    return Elimination(variables, order, total, clique_ptr, members, widest, host)


def _greedy(ptr: IntArray, neighbours: IntArray, log_size: FloatArray, tries: int, seed: int) -> IntArray:
    n = len(log_size)
    bits = elimination.bit_rows(ptr, neighbours)
    rng = np.random.default_rng(seed)
    heuristics = (
        elimination.MIN_FILL, elimination.WEIGHTED_FILL, elimination.MIN_WEIGHT, elimination.MIN_DEGREE,
    )  # fmt: skip
    best, best_total = np.arange(n, dtype=np.int64), float(MAX_ENTRIES)
    for attempt in range(_PATIENCE * max(tries, 1)):
        hopeless = attempt > 0 and best_total >= MAX_ENTRIES  # four heuristics have found none that is possible
        if hopeless or (attempt >= tries and best_total < _LARGE):
            break
        for heuristic in heuristics if attempt == 0 else heuristics[:2]:
            jitter = np.arange(n) / max(n, 1) if attempt == 0 else rng.random(n)
            order, total = elimination.greedy_order(bits, log_size, heuristic, jitter, best_total)
            if total < best_total:
                best, best_total = order, total
    return best


def _adjacency(graph: GraphArrays, variables: IntArray) -> tuple[IntArray, IntArray]:
    """Neighbours of each variable of more than one state: pairs that share a factor, as pointer and list."""
    n = len(graph.cardinality)
    rank = np.full(n, -1, dtype=np.int64)
    rank[variables] = np.arange(len(variables))
    degree = np.diff(graph.scope_ptr)
    keys = []
    for d in np.unique(degree):
        scopes = rank[graph.scope[(graph.scope_ptr[:-1][degree == d, None] + np.arange(d))]]
        for s in range(d):
            for t in range(d):
                if s != t:
                    both = (scopes[:, s] >= 0) & (scopes[:, t] >= 0)
                    keys.append(scopes[both, s] * len(variables) + scopes[both, t])
    pairs = np.unique(np.concatenate(keys)) if keys else np.empty(0, dtype=np.int64)
    first = pairs // max(len(variables), 1)
    ptr = np.concatenate([[0], np.cumsum(np.bincount(first, minlength=len(variables)))]).astype(np.int64)
    return ptr, pairs % max(len(variables), 1)


def cost(graph: GraphArrays, found: Elimination) -> Cost:
    """Tables of the maximal cliques, and the messages between them."""
    if not np.isfinite(found.entries):
        return Cost(np.inf, np.inf, f"more than {MAX_ENTRIES:,} table entries")
    ptr, members = found.clique_ptr, found.clique_members
    log_size = np.log(graph.cardinality[found.variables[found.order]].astype(np.float64))
    log_clique = np.add.reduceat(log_size[members], ptr[:-1]) if len(members) else np.empty(0)
    widest, host = found.widest, found.host
    kept = np.flatnonzero(host == np.arange(len(host)))
    entries = int(np.exp(log_clique[widest[kept]]).sum())
    messages = int(np.exp(log_clique[kept] - log_size[kept]).sum())
    width = int(np.diff(ptr).max(initial=0))
    text = f"{len(kept)} cliques of up to {width} variables and {entries:,} table entries"
    return Cost(entries, _BYTES * (entries + messages), text)


def layout(graph: GraphArrays, found: Elimination) -> TreeArrays:
    """The junction tree of an order, as arrays."""
    return _Layout(graph, found).build()


class _Layout:
    """Working state of one layout; lives only while ``layout`` runs."""

    def __init__(self, graph: GraphArrays, found: Elimination) -> None:
        self.graph = graph
        self.variable = found.variables[found.order]  # of each elimination step
        self.position = np.full(len(graph.cardinality), -1, dtype=np.int64)
        self.position[self.variable] = np.arange(len(self.variable))
        self.size = graph.cardinality[self.variable]
        self._merge(found)

    def _merge(self, found: Elimination) -> None:
        """Maximal cliques only: members by position, descending; rows before columns."""
        ptr, members = found.clique_ptr, found.clique_members
        widest, host = found.widest, found.host
        steps = np.flatnonzero(host == np.arange(len(host)))  # the last step of each merged clique
        number = np.full(len(host), -1, dtype=np.int64)
        number[steps] = np.arange(len(steps))
        self.clique_of = number[host]
        self.members = [members[ptr[w] : ptr[w + 1]] for w in widest[steps]]
        self.rows = [ptr[h + 1] - ptr[h] - 1 for h in steps]  # how many of the members are separator
        self.parent = np.array(
            [self.clique_of[m[r - 1]] if r else -1 for m, r in zip(self.members, self.rows, strict=True)],
            dtype=np.int64,
        )

    def build(self) -> TreeArrays:
        cores, terms = self._cores()
        core_sizes = [int(np.prod(self.size[axes], dtype=np.int64)) for _, axes in cores]
        core_ptr = _offsets(core_sizes)
        sizes = [self.size[m] for m in self.members]
        row_counts = [int(np.prod(s[:r])) for s, r in zip(sizes, self.rows, strict=True)]
        if any(c == len(self.members) for c, _ in cores):  # tables that depend on nothing: see _cores
            self.members.append(np.empty(0, dtype=np.int64))
            self.rows.append(0)
            self.parent = np.append(self.parent, -1)
            sizes.append(np.empty(0, dtype=np.int64))
            row_counts.append(1)
        messages = core_ptr[-1] + _offsets(row_counts)
        table_sizes = [int(np.prod(s)) for s in sizes]
        columns = np.array([t // r for t, r in zip(table_sizes, row_counts, strict=True)], dtype=np.int64)
        block = np.array([_block_size(s) for s in sizes], dtype=np.int64)
        inputs = self._inputs(cores, core_ptr, messages)
        term_ptr, term = self._terms(cores, terms, core_sizes)
        separators = [m[:r] for m, r in zip(self.members, self.rows, strict=True)]
        residuals = [m[r:] for m, r in zip(self.members, self.rows, strict=True)]
        return TreeArrays(
            table_ptr=_offsets(table_sizes),
            columns=columns,
            block=block,
            message=messages[:-1],
            parent=self.parent,
            input_ptr=_offsets([len(i) for i in inputs]),
            source=np.array([at for per_clique in inputs for at, _ in per_clique], dtype=np.int64),
            **self._maps(inputs, sizes, table_sizes, block),
            core_ptr=core_ptr,
            term_ptr=term_ptr,
            term=term,
            buffer_size=int(messages[-1]),
            separator_ptr=_offsets([len(s) for s in separators]),
            separator=self.variable[_concatenate(separators)],
            separator_stride=_concatenate([_strides(self.size[s]) for s in separators]),
            residual_ptr=_offsets([len(r) for r in residuals]),
            residual=self.variable[_concatenate(residuals)],
            residual_stride=_concatenate([_strides(self.size[r]) for r in residuals]),
            residual_size=_concatenate([self.size[r] for r in residuals]),
        )

    def _cores(self) -> tuple[list[tuple[int, IntArray]], list[list[tuple[int, IntArray]]]]:
        """Group the tables of θ that meet in a clique into cores of at most _CORE entries.

        Returns for each core its clique and its axes (positions, descending), and for each core its tables: start in
        θ and strides along the core's axes. A table goes where its first eliminated variable goes; one that depends on
        nothing (all its variables have one state) goes to a clique of its own without variables.
        """
        waiting: dict[int, list[tuple[int, IntArray, IntArray]]] = {}
        for start, positions, strides in self._tables():
            clique = int(self.clique_of[positions[-1]]) if len(positions) else len(self.members)
            waiting.setdefault(clique, []).append((start, positions, strides))
        cores: list[tuple[int, IntArray]] = []
        terms: list[list[tuple[int, IntArray]]] = []
        for clique in sorted(waiting):
            for axes, grouped in self._group(waiting[clique]):
                cores.append((clique, axes))
                own = []
                for start, positions, strides in grouped:
                    own.append((start, _align(axes, positions, strides)))
                terms.append(own)
        return cores, terms

    def _tables(self) -> list[tuple[int, IntArray, IntArray]]:
        """Every table of θ: start, positions of its variables (descending), strides."""
        g = self.graph
        result = []
        for i in range(len(g.cardinality)):
            p = self.position[i : i + 1]
            result.append((int(g.node_ptr[i]), p[p >= 0], np.ones(1, dtype=np.int64)[p >= 0]))
        for f in range(len(g.table_ptr) - 1):
            slots = slice(g.scope_ptr[f], g.scope_ptr[f + 1])
            positions, strides = self.position[g.scope[slots]], g.stride[slots]
            order = np.argsort(-positions)
            order = order[positions[order] >= 0]
            result.append((int(g.table_ptr[f]), positions[order], strides[order]))
        return result

    def _group(
        self, tables: list[tuple[int, IntArray, IntArray]]
    ) -> list[tuple[IntArray, list[tuple[int, IntArray, IntArray]]]]:
        groups: list[tuple[set[int], list[tuple[int, IntArray, IntArray]]]] = []
        for table in sorted(tables, key=lambda t: -len(t[1])):
            own = set(table[1].tolist())
            for axes, grouped in groups:
                union = axes | own
                if own <= axes or np.prod(self.size[sorted(union)].astype(float)) <= _CORE:
                    axes |= own
                    grouped.append(table)
                    break
            else:
                groups.append((own, [table]))
        return [(np.array(sorted(axes, reverse=True), dtype=np.int64), grouped) for axes, grouped in groups]

    def _terms(
        self,
        cores: list[tuple[int, IntArray]],
        terms: list[list[tuple[int, IntArray]]],
        core_sizes: list[int],
    ) -> tuple[IntArray, IntArray]:
        """For every core entry the entries of θ that add up there."""
        listed = []
        for (_, axes), tables in zip(cores, terms, strict=True):
            columns = [start + _outer(self.size[axes], strides) for start, strides in tables]
            listed.append(np.stack(columns, axis=1).ravel())
        counts = [len(t) for size, t in zip(core_sizes, terms, strict=True) for _ in range(size)]
        return _offsets(counts), _concatenate(listed)

    def _inputs(
        self, cores: list[tuple[int, IntArray]], core_ptr: IntArray, messages: IntArray
    ) -> list[list[tuple[int, IntArray]]]:
        """What multiplies into each clique: place in the buffer and axes. Straight ones (messages) first."""
        inputs: list[list[tuple[int, IntArray]]] = [[] for _ in self.members]
        for child, parent in enumerate(self.parent):
            if parent >= 0:
                inputs[parent].append((int(messages[child]), self.members[child][: self.rows[child]]))
        for k, (clique, axes) in enumerate(cores):
            inputs[clique].append((int(core_ptr[k]), axes))
        return inputs

    def _maps(
        self,
        inputs: list[list[tuple[int, IntArray]]],
        sizes: list[IntArray],
        table_sizes: list[int],
        block: IntArray,
    ) -> dict[str, IntArray]:
        axis_sizes, axis_strides, low, high = [], [], [], []
        for c, listed in enumerate(inputs):
            for _, axes in listed:
                axis_sizes.append(sizes[c])
                axis_strides.append(_align(self.members[c], axes, _strides(self.size[axes])))
                low.append(int(block[c]))
                high.append(table_sizes[c] // int(block[c]))
        low_ptr, low_map, high_ptr, high_map, straight = trees.build_maps(
            _offsets([len(s) for s in axis_sizes]),
            _concatenate(axis_sizes),
            _concatenate(axis_strides),
            np.array(low, dtype=np.int64),
            np.array(high, dtype=np.int64),
        )
        return {
            "low_ptr": low_ptr[:-1], "low": low_map, "high_ptr": high_ptr[:-1], "high": high_map, "straight": straight,
        }  # fmt: skip


def _align(axes: IntArray, own: IntArray, strides: IntArray) -> IntArray:
    """Strides of a table along the axes of a larger one: its own where it has the axis, else zero."""
    result = np.zeros(len(axes), dtype=np.int64)
    place = dict(zip(axes.tolist(), range(len(axes)), strict=True))
    for p, stride in zip(own.tolist(), strides, strict=True):
        result[place[p]] = stride
    return result


def _outer(sizes: IntArray, strides: IntArray) -> IntArray:
    index = np.zeros(1, dtype=np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        index = np.add.outer(index, stride * np.arange(size)).ravel()
    return index


def _block_size(sizes: IntArray) -> int:
    """Product of the last axes, as many as stay within _BLOCK."""
    block = 1
    for size in sizes[::-1]:
        if block > 1 and block * int(size) > _BLOCK:
            break
        block *= int(size)
    return block


def _strides(sizes: IntArray) -> IntArray:
    """Row-major."""
    if not len(sizes):
        return np.empty(0, dtype=np.int64)
    return np.concatenate([np.cumprod(sizes[::-1])[-2::-1], [1]]).astype(np.int64)


def _offsets(sizes: list[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))]).astype(np.int64)


def _concatenate(parts: list[IntArray]) -> IntArray:
    return np.concatenate(parts).astype(np.int64) if parts else np.empty(0, dtype=np.int64)
