"""Gibbs chains in batches: which kernel moves them, on all cores, and what they gather.

Each batch has potentials of its own, so that one call serves many chains at one θ (batches then tell the Monte-Carlo
error) as well as chains spread over draws of the parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesfield import parallel
from bayesfield.inference.sampling.mixing import WAYS, Mixing, judge
from bayesfield.kernels.gibbs import general as gibbs
from bayesfield.kernels.gibbs import pairs as gibbs_pairs
from bayesfield.kernels.gibbs import single as gibbs_single
from bayesfield.kernels.gibbs import tables as gibbs_tables
from bayesfield.kernels.gibbs.scored import ScoredField, sweep_scored
from bayesfield.types import FloatArray, GraphArrays, IntArray

if TYPE_CHECKING:
    from collections.abc import Callable

    from bayesfield.graph.scored import ScoredPairs
    from bayesfield.graph.structure import Graph
    from bayesfield.inference.sampling.moves import Moves

_LONELY = 16  # chains in a batch below which a large field is swept colour by colour
_LARGE = 1000  # variables
_PARTS = 32  # batches of draws: as many on any machine, for the kernel goes by a batch's size
_COOLING = (0.5, 1.0, 2.0, 4.0)  # times the potentials, …
_AT_EACH = 2  # … sweeps at each: 4 % of a run of 100 sweeps, for half of the chains
_MODERATE = 1e4  # log-potentials up to which single precision does
_BRIEF = 200_000  # updates below which starting threads takes longer than the work


class Chains(NamedTuple):
    """Where the chains stand, and what each batch of them found; ``Sampled.infer(start=…)`` goes on from here.

    Chain c began in way c mod groups (mixing.WAYS). early: states that are kept until they are old enough to tell
    whether chains remember them; lag: sweeps since then. mixing: None where chains are too few, or too young, to tell.
    moves: by what they move, with its state; None for single sites.
    """

    states: NDArray[np.int32]  # (snapshots, chains, n), the last is where they stand
    seeds: NDArray[np.uint64]  # (chains, 2)
    batch_means: FloatArray  # (batches, T)
    groups: int
    early: NDArray[np.int32]  # (chains, n)
    lag: int
    mixing: Mixing | None = None
    moves: Moves | None = None


class Gathered(NamedTuple):
    """Sums by batch, as of ``kernels.gibbs.scored``: alone (batches, n, Q), pairs (batches, 2 n, n)."""

    alone: FloatArray
    pairs: FloatArray


class Colouring(NamedTuple):
    """Variables by colour, and where each colour begins."""

    order: IntArray
    ptr: IntArray


def fresh(g: GraphArrays, chains: int, seed: int) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """Random states (chains, n) and a generator for each chain."""
    rng = np.random.default_rng(seed)
    states = rng.integers(0, g.cardinality, size=(chains, len(g.cardinality)), dtype=np.int32)
    return states, parallel.chain_seeds(seed, chains)


def begun_apart(
    graph: Graph,
    thetas: FloatArray,
    chains: int,
    seed: int,
    cases: IntArray | None = None,
    scores: ScoredPairs | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.uint64], int]:
    """States of chains that begin in different ways by turns, their generators, and the number of ways.

    At random, at low temperature, and at the cases (N, n) where there are any, holes (−1) filled at random.
    """
    states, seeds = fresh(graph.arrays, chains, seed)
    ways = len(WAYS) if cases is not None and len(cases) else len(WAYS) - 1
    cold, cold_seeds = states[1::ways].copy(), seeds[1::ways].copy()
    for factor in _COOLING:
        hot = thetas[:1] if thetas.strides[0] == 0 else thetas
        run(graph, np.broadcast_to(factor * hot, thetas.shape), cold, cold_seeds, _AT_EACH, False, scores)
    states[1::ways], seeds[1::ways] = cold, cold_seeds
    if cases is not None and ways == len(WAYS):
        rows = cases[np.arange(len(states[2::ways])) % len(cases)]
        states[2::ways] = np.where(rows >= 0, rows, states[2::ways])
    return states, seeds, ways


def run(
    graph: Graph,
    thetas: FloatArray,
    states: NDArray[np.int32],
    seeds: NDArray[np.uint64],
    sweeps: int,
    count: bool = True,
    scores: ScoredPairs | None = None,
    gathered: list[Gathered] | None = None,
) -> FloatArray:
    """Sweeps of all chains, in place, batch b with potentials thetas[b]. Sums of tables by batch, (batches, T).

    scores: of fields whose interactions are products of scores, all of ``thetas`` among them. Sums are then right in
    what they say of E[f], and no tables of ordinal items. gathered: where what they are made of is added.
    """
    if scores is not None and moderate(thetas):
        return _scored(graph, thetas, states, seeds, sweeps, count, scores, gathered)
    binary = graph.binary_pairs

    def batch(b: int) -> FloatArray:
        first, last = (len(states) * k // len(thetas) for k in (b, b + 1))
        own, own_seeds, theta = states[first:last], seeds[first:last], np.ascontiguousarray(thetas[b])
        sums = np.zeros(graph.n_entries)
        if not binary or not np.isfinite(theta).all():
            _many_states(graph, theta, own, own_seeds, sweeps, count, sums)
        elif last - first < _LONELY and states.shape[1] >= _LARGE:
            _by_colour(graph, theta, own, own_seeds, sweeps, count, sums)
        else:
            odds = gibbs_pairs.pair_odds(graph.arrays, theta)
            gibbs_pairs.sweep_chains(graph.arrays, odds, own, own_seeds, sweeps, count, sums)
        return sums

    return np.array(parallel.thread_map(batch, range(len(thetas))))


def moderate(thetas: FloatArray) -> bool:
    """Whether single precision does."""
    return bool(np.abs(thetas[:1] if thetas.strides[0] == 0 else thetas).max(initial=0.0) < _MODERATE)


def _scored(
    graph: Graph,
    thetas: FloatArray,
    states: NDArray[np.int32],
    seeds: NDArray[np.uint64],
    sweeps: int,
    count: bool,
    scores: ScoredPairs,
    gathered: list[Gathered] | None,
) -> FloatArray:
    def batch(field: ScoredField, first: int, last: int, alone: FloatArray, pairs: FloatArray) -> None:
        sweep_scored(field, states[first:last], seeds[first:last], sweeps, count, alone, pairs)

    return by_batches(graph, thetas, len(states), count * sweeps, scores, batch, gathered)


def by_batches(
    graph: Graph,
    thetas: FloatArray,
    chains: int,
    counted: int,
    scores: ScoredPairs,
    batch: Callable[[ScoredField, int, int, FloatArray, FloatArray], None],
    gathered: list[Gathered] | None = None,
) -> FloatArray:
    """Sums of tables of what ``batch`` adds to alone (n, Q) and pairs (n, n) for chains first … last of each field, in
    so many sweeps that count, (batches, T).

    log Z hangs on θ by a, b and the sum of all tables' first entries: dlog Z/dθ is what the sums hold.
    """
    g = graph.arrays
    n, most = len(g.cardinality), int(g.cardinality.max())
    row = np.repeat(np.arange(n), g.cardinality)
    column = np.arange(len(row)) - g.node_ptr[row]
    u = np.zeros((n, most), dtype=np.float32)
    u[row, column] = scores.u
    rows = n if gathered is None else 2 * n

    def one(b: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        first, last = (chains * k // len(thetas) for k in (b, b + 1))
        a, B = scores.natural(thetas[b], n)
        alone = np.zeros((n, most), dtype=np.float32)
        alone[row, column] = a
        field = ScoredField(g.cardinality, alone, u, B.astype(np.float32))
        ones, pairs, sums = np.zeros((n, most)), np.zeros((rows, n)), np.empty(0)
        batch(field, first, last, ones, pairs)
        if counted:
            sums = scores.by_theta(ones[row, column], 0.5 * pairs[:n])
            sums[g.node_ptr[:-1]] += (last - first) * counted
            sums[g.table_ptr[:-1]] += (last - first) * counted
        return sums, ones, pairs

    if not counted:
        parallel.blas_map(one, range(len(thetas)))
        return np.broadcast_to(0.0, thetas.shape)
    sums, *means = zip(*parallel.blas_map(one, range(len(thetas))), strict=True)
    if gathered is not None:
        gathered.append(Gathered(*map(np.array, means)))
    return np.array(sums)


def _many_states(
    graph: Graph,
    theta: FloatArray,
    states: NDArray[np.int32],
    seeds: NDArray[np.uint64],
    sweeps: int,
    count: bool,
    sums: FloatArray,
) -> None:
    """By products of rows where all factors are pairs and no product leaves the range of doubles."""
    few = int(graph.arrays.cardinality.max(initial=0)) <= gibbs_tables.WIDTH
    if graph.pairs and few and np.isfinite(theta).all():
        tables = gibbs_tables.pair_tables(graph.arrays, theta)
        if tables.steepest < gibbs_tables.WIDE:
            gibbs_tables.sweep_chains(graph.arrays, tables, states, seeds, sweeps, count, sums)
            return
    gibbs.sweep_chains(graph.arrays, theta, states, seeds, sweeps, sums)


def mixed_draws(
    graph: Graph, thetas: FloatArray, n: int, burn_in: int, sweeps: int, seed: int, moves: Moves | None = None
) -> tuple[IntArray, Mixing | None]:
    """The states of n chains that began apart, after all their sweeps, (n, variables); and whether they mixed.

    thetas: ``shared``. moves: by what they move; None for single sites.
    """
    states, seeds, ways = begun_apart(graph, thetas, n, seed)
    advance = run if moves is None else moves.run
    lag = max(burn_in, sweeps // 2)
    advance(graph, thetas, states, seeds, burn_in + sweeps - lag, count=False)
    before = states.copy()
    advance(graph, thetas, states, seeds, lag, count=False)
    return states.astype(np.int64), judge(graph, thetas, before, states[None], ways, lag, 1)


def shared(graph: Graph, theta: FloatArray, n: int, sweeps: int) -> FloatArray:
    """One θ for all batches that n chains of so many sweeps are worth."""
    return np.broadcast_to(theta, (_batches(graph, n, sweeps), len(theta)))


def gibbs_draws(graph: Graph, theta: FloatArray, n: int, sweeps: int, seed: int) -> IntArray:
    """The states of n chains after so many sweeps, (n, variables)."""
    states, seeds = fresh(graph.arrays, n, seed)
    thetas = np.broadcast_to(theta, (_batches(graph, n, sweeps), len(theta)))
    run(graph, thetas, states, seeds, sweeps, count=False)
    return states.astype(np.int64)


def _batches(graph: Graph, n: int, sweeps: int) -> int:
    few = n * sweeps * len(graph.arrays.cardinality) < _BRIEF
    return 1 if few else max(1, min(n, _PARTS))


def normalised(g: GraphArrays, sums: FloatArray) -> FloatArray:
    """Sums of conditionals to tables that each sum to one."""
    sizes = np.concatenate([g.cardinality, np.diff(g.table_ptr)])
    starts = np.concatenate([g.node_ptr[:-1], g.table_ptr[:-1]])
    if not len(starts):
        return sums
    totals = np.add.reduceat(sums, starts, axis=1)
    result: FloatArray = sums / np.repeat(totals, sizes, axis=1)
    return result


def _by_colour(
    graph: Graph,
    theta: FloatArray,
    states: NDArray[np.int32],
    seeds: NDArray[np.uint64],
    sweeps: int,
    count: bool,
    sums: FloatArray,
) -> None:
    colouring = graph.plan("colouring", _colouring)
    odds = gibbs_pairs.pair_odds(graph.arrays, theta)
    if not count:
        _states_by_colour(graph.arrays, odds, colouring, states, seeds, sweeps)
        return
    for c in range(len(states)):
        lanes = parallel.chain_seeds(int(seeds[c, 0]), gibbs_pairs.WIDTH)
        gibbs_pairs.sweep_colours(
            graph.arrays, odds, colouring.ptr, colouring.order, states[c], lanes, sweeps, count, sums
        )
        seeds[c] = lanes[0]


def _states_by_colour(
    g: GraphArrays,
    odds: gibbs_pairs.PairOdds,
    colouring: Colouring,
    states: NDArray[np.int32],
    seeds: NDArray[np.uint64],
    sweeps: int,
) -> None:
    """Where nothing is averaged, single precision does."""
    compact = gibbs_single.colour_odds(odds, g.slot_ptr, colouring.order)
    for c in range(len(states)):
        lane = gibbs_single.single_lane(parallel.chain_seeds(int(seeds[c, 0]), gibbs_single.HALF))
        x = states[c].astype(np.int8)
        for _ in range(sweeps):
            gibbs_single.sweep_colours(compact, colouring.ptr, x, lane)
        states[c] = x
        seeds[c] = lane.low[0], lane.high[0]


def _colouring(g: GraphArrays) -> Colouring:
    colour = gibbs_pairs.colours(g)
    counts = np.bincount(colour, minlength=1)
    return Colouring(np.argsort(colour, kind="stable"), np.concatenate([[0], np.cumsum(counts)]))
