"""Chains that stream the sums of few features over many variables, each chain at parameters of its own.

For tied fields on large graphs: no beliefs of all tables and no snapshots are kept, only f(x) of every chain as time
goes by. Binary fields whose couplings take few values are swept 64 chains to a word (kernels.gibbs.words); all others
by the kernels of the sampled engine, one chain to a batch.

**Turning all at once.** Without a field a lattice and its negative are equally likely, and near a critical point single
sites need long to get from one to the other, beyond it for ever. So words draw between x and 1 − x whenever features
are looked at, with probabilities from both of their energies, which the same counts tell; and what is handed out beside
f of the state drawn is its mean over the two, which has less noise. Where variables far apart go together even so,
``hasten`` adds cluster updates (kernels.gibbs.clusters): one costs as much as some fifty sweeps by words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bayesfield import parallel
from bayesfield.graph.compiled import features
from bayesfield.inference.sampling import gibbs_chains as gibbs
from bayesfield.kernels.gibbs import clusters
from bayesfield.kernels.gibbs import pairs as gibbs_pairs
from bayesfield.kernels.gibbs import words as kernel
from bayesfield.types import FloatArray, IntArray

if TYPE_CHECKING:
    from bayesfield.graph.compiled import Design
    from bayesfield.graph.structure import Graph

CHAINS = kernel.LANES  # that plans count with
WAYS = 4  # in which chains begin, by turns: at the data, at random, all in the first state, all in the last;
# large fields at the data, at random, at the data, at random
_TYPES = 512  # of variables, by what they are and what couples them, up to which words are worth their tables
_LARGE, _PARTS = 30_000, 4  # variables from which each colour is swept in so many parts, by threads
_PLAIN = 32  # chains of fields that are not swept by words
_UPDATES = 1.8e9  # a second of one core, by words (python -m benchmarks images)
_CLUSTERED = 3e7  # the same by clusters
_PERIOD = 8  # sweeps between two cluster updates: they add an eighth to what those take
_PLAIN_UPDATES, _MANY_STATES = 2e7, 1e7  # the same one chain at a time; and of more states than two, times states


class Series(NamedTuple):
    """Features as time goes by, (T, chains, F). states: of the chains. means: E[f | all but what was drawn last], which
    has the same mean and less noise. negatives: f of the states 1 − x."""

    states: FloatArray
    means: FloatArray
    negatives: FloatArray


class Streams(Protocol):
    """Chains of one graph. They move on from where they stand: ``run`` changes them."""

    chains: int
    hastened: bool
    turned: FloatArray | None  # (F + 1,) f of the data less f of their negatives, on average; None where not known

    def run(self, points: FloatArray, sweeps: int, every: int = 1) -> Series:
        """The features after every so many sweeps, T = sweeps // every. points: (chains, F) parameters."""
        ...

    def hasten(self) -> bool:
        """Cluster updates between sweeps from here on; False where there are none."""
        ...

    def price(self) -> float:
        """Counted work of one sweep of all chains, in seconds."""
        ...


def streams(graph: Graph, design: Design, cases: IntArray | None, seed: int, chains: int | None = None) -> Streams:
    """Chains that begin in WAYS by turns. cases: (N, n), −1 in the holes. chains: how many there must be."""
    packed = graph.plan_with("words", design, lambda: pack(graph, design))
    if packed is not None and chains in (None, kernel.LANES):
        chains_of_words = WordStreams(packed, _words(packed.n, cases, seed), seed)
        if cases is not None and 0 < len(cases) <= kernel.LANES // WAYS:
            here, other = packed.features(chains_of_words.words)
            step = WAYS if packed.n < _LARGE else 2
            chains_of_words.turned = (here - other)[: step * len(cases) : step].mean(axis=0)
        return chains_of_words
    states = _begun(graph.arrays.cardinality, cases, seed, chains or _PLAIN)
    return PlainStreams(graph, design, states, parallel.chain_seeds(seed, len(states)))


def seconds_a_sweep(graph: Graph, design: Design) -> float:
    """Counted work of one sweep of one chain."""
    packed = graph.plan_with("words", design, lambda: pack(graph, design))
    return _plain_seconds(graph) if packed is None else packed.n / _UPDATES


def _plain_seconds(graph: Graph) -> float:
    g = graph.arrays
    return len(g.cardinality) / _PLAIN_UPDATES if graph.binary_pairs else float(g.cardinality.sum()) / _MANY_STATES


def way(chain: NDArray[Any]) -> NDArray[Any]:
    """In which way each of the chains began."""
    return chain % WAYS


# --- 64 chains to a word --------------------------------------------------------------------------------------------


class Packed(NamedTuple):
    """A binary pairwise field as log odds by type, and its features by class.

    With x in {0, 1} θ(x) = const + Σ_i a_i x_i + Σ_e b_e x_i x_j; a and b are linear in λ, and few of their rows
    differ.
    """

    n: int
    blocks: kernel.Blocks
    colour_ptr: IntArray  # (colours + 1,) where the blocks of each colour begin
    own: FloatArray  # (types, F + 1): a of each type, the offset last
    counts: IntArray  # (types, SITUATIONS, edge classes): n_c of every situation
    pair: FloatArray  # (edge classes, F + 1): b
    constant: FloatArray  # (F + 1,): f of the state that is all zeros
    degrees: IntArray  # (types, edge classes): neighbours
    sites: NDArray[np.int32]  # (n,) by type
    site_group: NDArray[np.int32]
    edges: clusters.Lanes  # by class

    def planes(self, points: FloatArray) -> NDArray[np.uint64]:
        """The probabilities of 1 of every type and situation at points (64, F), by binary digits."""
        with_one = np.column_stack([points, np.ones(len(points))])
        a, b = self.own @ with_one.T, self.pair @ with_one.T  # (types, 64), (classes, 64)
        odds = a[:, None, :] + np.einsum("tsc,cl->tsl", self.counts, b)
        digits = np.minimum(np.rint(2.0**kernel.BITS / (1.0 + np.exp(-np.clip(odds, -40.0, 40.0)))), 2.0**32 - 1)
        digits = digits.astype(np.uint64)
        lane = np.arange(kernel.LANES, dtype=np.uint64)
        out = np.empty((*digits.shape[:2], kernel.BITS), dtype=np.uint64)
        for k in range(kernel.BITS):
            bit = (digits >> np.uint64(kernel.BITS - 1 - k)) & np.uint64(1)
            out[:, :, k] = np.bitwise_or.reduce(bit << lane, axis=2)
        return out

    def features(self, x: NDArray[np.uint64]) -> tuple[FloatArray, FloatArray]:
        """f, and θ₀ in the last column, of 64 chains and of their negatives 1 − x, (64, F + 1) each.

        Of the pairs of a class Σ (1 − x_i)(1 − x_j) = m − Σ_i d_i x_i + Σ x_i x_j, d_i neighbours along it.
        """
        ones = np.zeros((kernel.LANES, len(self.own)), dtype=np.int64)
        both = np.zeros((kernel.LANES, len(self.pair)), dtype=np.int64)
        kernel.count(x, self.sites, self.sites, self.site_group, ones)
        kernel.count(x, self.edges.first, self.edges.second, self.edges.pair, both)
        whole, pairs = np.bincount(self.site_group, minlength=len(self.own)), np.bincount(self.edges.pair)
        here = self.constant + ones @ self.own + both @ self.pair
        turned = self.constant + (whole - ones) @ self.own + (pairs - ones @ self.degrees + both) @ self.pair
        return here, turned

    def spins(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """J of every class of edges, (classes, 64), and h of every type, (types, 64): with x = (1 + s)/2
        a x + b x x' = b/4 s s' + (a/2 + b/4) s + …"""
        with_one = np.column_stack([points, np.ones(len(points))])
        coupling = np.ascontiguousarray(0.25 * self.pair @ with_one.T)
        return coupling, np.ascontiguousarray(0.5 * self.own @ with_one.T + self.degrees @ coupling)


@dataclass(eq=False)
class WordStreams:
    """words: (n,)."""

    packed: Packed
    words: NDArray[np.uint64]
    seed: int

    def __post_init__(self) -> None:
        self.chains, self.hastened, self._since = kernel.LANES, False, 0
        self.turned: FloatArray | None = None
        parts = _PARTS if self.packed.n >= _LARGE else 1
        seeds = parallel.chain_seeds(self.seed, parts * kernel.WIDTH).reshape(parts, kernel.WIDTH, 2)
        self._low, self._high = np.ascontiguousarray(seeds[:, :, 0]), np.ascontiguousarray(seeds[:, :, 1])
        self._lane_seeds = parallel.chain_seeds(self.seed + 1, kernel.LANES)
        self._rng = np.random.default_rng([self.seed, 1])
        # blocks of one colour see none of one another, so that threads may share them; as many parts on any machine
        ends = self.packed.colour_ptr if parts > 1 else self.packed.colour_ptr[[0, -1]]
        self._turns = [parallel.shares(a, b, always=parts, least=1) for a, b in parallel.spans(ends.tolist())]

    def hasten(self) -> bool:
        self.hastened = True
        return True

    def price(self) -> float:
        updates = kernel.LANES * self.packed.n
        return updates * (1.0 / _UPDATES + (1.0 / (_CLUSTERED * _PERIOD) if self.hastened else 0.0))

    def run(self, points: FloatArray, sweeps: int, every: int = 1) -> Series:
        planes = self.packed.planes(points)
        spins = self.packed.spins(points) if self.hastened else None
        found = Series(*(np.empty((sweeps // every, *points.shape)) for _ in range(3)))
        with_one = np.column_stack([points, np.ones(len(points))])
        with parallel.hands() as by_hands:
            for t in range(len(found.states)):
                left = every
                while left:
                    now = left if spins is None else min(left, _PERIOD - self._since)
                    self._sweep(planes, now, by_hands)
                    left -= now
                    self._since += now if self.hastened else 0
                    if spins is not None and self._since >= _PERIOD:
                        self._cluster(spins, by_hands)
                        self._since = 0
                for kept, now_found in zip(found, self._turn(with_one), strict=True):
                    kept[t] = now_found
        return found

    def _turn(self, with_one: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Each chain stays, or takes its negative, by their energies: f then, its mean, and f of the other."""
        here, other = self.packed.features(self.words)
        stays = special.expit(np.einsum("cf,cf->c", with_one, here - other))[:, None]
        turns = self._rng.random(len(here))[:, None] >= stays
        lanes = np.flatnonzero(turns).astype(np.uint64)
        if len(lanes):
            self.words ^= np.bitwise_or.reduce(np.uint64(1) << lanes)
        mean = stays * here + (1.0 - stays) * other
        return np.where(turns, other, here)[:, :-1], mean[:, :-1], np.where(turns, here, other)[:, :-1]

    def _cluster(self, spins: tuple[FloatArray, FloatArray], by_hands: Any) -> None:
        def part(k: int) -> NDArray[np.uint64]:
            flips = np.zeros(len(self.words), dtype=np.uint64)
            first, last = lanes[k]
            clusters.turn_lanes(self.packed.edges, self.words, *spins, first, last, self._lane_seeds, flips)
            return flips

        lanes = parallel.shares(0, kernel.LANES, always=_PARTS, least=1)
        for flips in by_hands(part, range(len(lanes))):
            self.words ^= flips

    def _sweep(self, planes: NDArray[np.uint64], sweeps: int, by_hands: Any) -> None:
        def part(k: int) -> None:
            first, last = turn[k]
            kernel.sweep(self.packed.blocks, planes, self.words, self._low[k], self._high[k], first, last, many)

        many = sweeps if len(self._low) == 1 else 1
        for _ in range(sweeps // many):
            for turn in self._turns:
                by_hands(part, range(len(turn)))


def pack(graph: Graph, design: Design) -> Packed | None:
    """None where words are not worth it: more than two states, larger factors, forbidden states, many couplings."""
    g = graph.arrays
    if not graph.binary_pairs or not len(g.scope) or not np.isfinite(design.offset).all():
        return None
    unary = _rows(design, g.node_ptr[:-1] + 1) - _rows(design, g.node_ptr[:-1])
    t00, t01, t10, t11 = (_rows(design, g.table_ptr[:-1] + k) for k in range(4))
    ends = g.scope.reshape(-1, 2)
    for column in range(unary.shape[1]):
        unary[:, column] += np.bincount(ends[:, 0], (t10 - t00)[:, column], len(unary))
        unary[:, column] += np.bincount(ends[:, 1], (t01 - t00)[:, column], len(unary))
    constant = _rows(design, g.node_ptr[:-1]).sum(axis=0) + t00.sum(axis=0)
    pair_rows, pair_class = classes(t11 - t10 - t01 + t00)
    site_rows, site_class = classes(unary)
    if len(site_rows) > _TYPES or len(pair_rows) > _TYPES:
        return None
    arranged = _arranged(graph, site_class, pair_class, len(pair_rows))
    if arranged is None:
        return None
    blocks, colour_ptr, kind, own, counts, degrees = arranged
    sites, pairs = (np.argsort(c, kind="stable").astype(np.int32) for c in (kind, pair_class))
    first, second = (ends[pairs, k].astype(np.int32) for k in range(2))
    edges = clusters.Lanes(first, second, pair_class[pairs].astype(np.int32), kind.astype(np.int32))
    return Packed(
        len(unary), blocks, colour_ptr, site_rows[own], counts, pair_rows, constant, degrees, sites,
        kind[sites].astype(np.int32), edges,
    )  # fmt: skip


def _rows(design: Design, entries: IntArray) -> FloatArray:
    """A and θ₀ at some entries, dense: (entries, F + 1)."""
    return np.column_stack([design.matrix[entries].toarray(), design.offset[entries]])


def classes(rows: FloatArray) -> tuple[FloatArray, IntArray]:
    """The rows that differ, and the number of each row's; by one number a row, which sorts thirty times faster."""
    keys = np.round(rows, 10) @ np.sqrt(np.arange(2.0, rows.shape[1] + 2.0))
    _, where, inverse = np.unique(np.round(keys, 8), return_index=True, return_inverse=True)
    return rows[where], inverse.astype(np.int64)


def _arranged(
    graph: Graph, site_class: IntArray, pair_class: IntArray, n_classes: int
) -> tuple[kernel.Blocks, IntArray, IntArray, IntArray, IntArray, IntArray] | None:
    """Blocks of one colour and type; where each colour begins; the type of each variable; the site class of each type;
    how many neighbours of each class are 1 in each of its situations; and how many there are."""
    g, n = graph.arrays, len(site_class)
    slot_factor = g.slot_factor[g.slots]
    other = g.scope.reshape(-1, 2).sum(axis=1)[slot_factor] - np.repeat(np.arange(n), np.diff(g.slot_ptr))
    along = pair_class[slot_factor]
    if n_classes > 1:  # neighbours of one class side by side
        order = np.lexsort((along, np.repeat(np.arange(n), np.diff(g.slot_ptr))))
        other, along = other[order], along[order]
    tags = np.random.default_rng(1).integers(1, 2**62, size=n_classes + 1, dtype=np.uint64)
    sums = np.concatenate([[np.uint64(0)], np.cumsum(tags[along], dtype=np.uint64)])
    keys = (sums[g.slot_ptr[1:]] - sums[g.slot_ptr[:-1]]) * np.uint64(len(site_class)) + site_class.astype(np.uint64)
    _, where, kind = np.unique(keys, return_index=True, return_inverse=True)
    if len(where) > _TYPES:
        return None
    degree = np.diff(g.slot_ptr)[where]
    step, situations = np.zeros((len(where), max(int(degree.max()), 1)), np.int32), np.ones(len(where), np.int32)
    counts = np.zeros((len(where), kernel.SITUATIONS, n_classes), dtype=np.int64)
    for t, site in enumerate(where):
        own, stride = along[g.slot_ptr[site] : g.slot_ptr[site + 1]], 1
        which, many = np.unique(own, return_counts=True)
        if np.prod(many + 1.0) > kernel.SITUATIONS:
            return None
        for c, d in zip(which, many, strict=True):
            step[t, : len(own)][own == c] = stride
            counts[t, :, c] = np.arange(kernel.SITUATIONS) // stride % (d + 1)
            stride *= int(d) + 1
        situations[t] = stride
    colour = gibbs_pairs.colours(g)
    blocks = _blocks(colour, kind, g.slot_ptr, other, (degree, step, situations))
    colour_ptr = np.searchsorted(colour[blocks.site[:, 0]], np.arange(int(colour.max()) + 2))
    degrees = counts[np.arange(len(where)), situations - 1]
    return blocks, colour_ptr.astype(np.int64), kind.reshape(-1), site_class[where], counts, degrees


def _blocks(
    colour: IntArray, kind: IntArray, slot_ptr: IntArray, other: IntArray, types: tuple[IntArray, Any, Any]
) -> kernel.Blocks:
    degree, step, situations = types
    width = kernel.WIDTH
    group = colour * len(degree) + kind
    order = np.argsort(group, kind="stable")
    begins = np.flatnonzero(np.diff(group[order], prepend=-1))
    sizes = np.diff(np.append(begins, len(order)))
    per_group = -(-sizes // width)
    start = np.repeat(begins, per_group) + width * (
        np.arange(per_group.sum()) - np.repeat(np.cumsum(per_group) - per_group, per_group)
    )
    size = np.minimum(np.repeat(begins + sizes, per_group) - start, width)
    site = order[start[:, None] + np.minimum(np.arange(width), size[:, None] - 1)]
    block_kind = kind[site[:, 0]]
    block_degree = degree[block_kind]
    first = np.concatenate([[0], np.cumsum(block_degree * width)])
    neighbour = np.empty(int(first[-1]), dtype=np.int32)
    for d in np.unique(block_degree[block_degree > 0]):
        some = np.flatnonzero(block_degree == d)
        found = other[slot_ptr[site[some]][:, None, :] + np.arange(d)[None, :, None]]  # (blocks, d, width)
        neighbour[first[some][:, None] + np.arange(d * width)] = found.reshape(len(some), -1)
    return kernel.Blocks(
        site.astype(np.int32), size.astype(np.int32), block_kind.astype(np.int32), first[:-1], neighbour,
        degree.astype(np.int32), step, situations,
    )  # fmt: skip


def _words(n: int, cases: IntArray | None, seed: int) -> NDArray[np.uint64]:
    """Chains c, c + 4, … begin alike: at the cases by turns, at random, all 0, all 1."""
    drawn = np.random.default_rng(seed).integers(0, 2**64, size=n, dtype=np.uint64)
    lanes = [np.uint64(sum(1 << c for c in range(w, kernel.LANES, WAYS))) for w in range(WAYS)]
    at_random, ones = lanes[1], lanes[3]
    if n >= _LARGE:  # from all alike a large field needs some ten times 2τ to come back: half begin at random instead
        at_random, ones = at_random | lanes[3], np.uint64(0)
    if cases is None or not len(cases):
        return (drawn & (at_random | lanes[0] | (lanes[2] if n >= _LARGE else np.uint64(0)))) | ones
    out = (drawn & at_random) | ones
    for k, c in enumerate(range(0, kernel.LANES, WAYS if n < _LARGE else 2)):
        row, bit = cases[k % len(cases)], np.uint64(1) << np.uint64(c)
        out |= np.where(row < 0, drawn & bit, np.where(row > 0, bit, np.uint64(0)))
    return out


# --- one chain at a time --------------------------------------------------------------------------------------------


@dataclass(eq=False)
class PlainStreams:
    """states: (chains, n). seeds: (chains, 2)."""

    graph: Graph
    design: Design
    states: NDArray[np.int32]
    seeds: NDArray[np.uint64]

    def __post_init__(self) -> None:
        self.chains, self.hastened = len(self.states), False
        self.turned: FloatArray | None = None

    def hasten(self) -> bool:
        return False

    def price(self) -> float:
        return self.chains * _plain_seconds(self.graph)

    def run(self, points: FloatArray, sweeps: int, every: int = 1) -> Series:
        thetas = self.design.potentials_many(points)
        out = np.empty((sweeps // every, *points.shape))
        for t in range(len(out)):
            gibbs.run(self.graph, thetas, self.states, self.seeds, every, count=False)
            out[t] = features(self.graph, self.design, self.states)
        return Series(out, out, out)


def _begun(cardinality: IntArray, cases: IntArray | None, seed: int, chains: int) -> NDArray[np.int32]:
    """The same for states of any number."""
    rng = np.random.default_rng(seed)
    states = rng.integers(0, cardinality, size=(chains, len(cardinality)), dtype=np.int32)
    states[2::WAYS], states[3::WAYS] = 0, cardinality - 1
    if cases is not None and len(cases):
        rows = cases[np.arange(len(states[::WAYS])) % len(cases)]
        states[::WAYS] = np.where(rows >= 0, rows, states[::WAYS])
    return states
