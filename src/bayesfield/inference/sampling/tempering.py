"""Parallel tempering: every chain has a ladder of copies at potentials βθ, 0 = β_0 < … < 1, that swap their states.

At β = 0 all joint states are equally probable, one sweep draws afresh, and log Z is known; from there states climb to
β = 1, past barriers that single sites do not cross. The ladder is placed by counted pilot runs: a rejection rate r_k
between two neighbours adds to the barrier Λ(β) = Σ r_k, whatever the spacing, and steps that are equal in Λ have equal
swap rates (Syed, Bouchard-Côté, Deligiannidis & Doucet 2022). They also find the number of steps that is best, where
rates are 1/2. Swaps are of even and of odd pairs by turns, after every sweep.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from bayesfield import memory, parallel
from bayesfield.inference.sampling import gibbs_chains as gibbs
from bayesfield.inference.sampling.mixing import energies as table_energies
from bayesfield.inference.sampling.mixing import quadratic
from bayesfield.kernels.gibbs import pairs as gibbs_pairs
from bayesfield.kernels.gibbs import tempering as kernel
from bayesfield.kernels.gibbs.ladders import Ladder, sweep_ladder
from bayesfield.types import Cost, FloatArray

if TYPE_CHECKING:
    from bayesfield.graph.scored import ScoredPairs
    from bayesfield.graph.structure import Graph
    from bayesfield.inference.sampling.moves import Moves, Seeds, States
    from bayesfield.kernels.gibbs.scored import ScoredField

_RATE = 0.5  # of swaps between neighbours
_FEWEST, _MOST = 3, 64  # temperatures
_PILOTS = 256  # chains of pilot runs, …
_GRID, _AT_EACH = 32, 5  # … which are annealed in so many steps, of so many sweeps, …
_ROUNDS, _SETTLE, _SWAPS = 2, 10, 30  # … and then swap: so many times, without and with counting …
_MORE_ROUNDS, _LEAST_RATE = 6, 0.2  # … and on, while a rate is below that: where phases change within one step
_LEVELS_A_ROUND = 8  # a sweep of a longer ladder is as many rounds of swaps as states need to climb on
_SQUARE = 8  # times the ends of pairs, up to which n² products are faster than looking them up
_COOLING = 2  # sweeps at each temperature for the states that a ladder begins with
_GAUSSIAN = 0.564  # rejection rate over β-step times sd of θ(x), where that is small: 1/√π
_APART = 1 << 40  # between the seeds of ladders and those of the chains themselves


@dataclass
class Tempering:
    """A ladder above chains at β = 1, which are handed to ``run`` as those of other moves are.

    betas: (R,), 0 to 1. states: (R−1, chains, n), and seeds, at all but the last. inner: how chains move at each.
    swapped: (R−1,) sums of the probabilities of swaps, out of ``tried``. record: where not None, θ(x) of all chains
    after every sweep, (R, chains) each.
    """

    betas: FloatArray
    states: States
    seeds: Seeds
    inner: Moves
    swapped: FloatArray = field(default_factory=lambda: np.zeros(0))
    tried: int = 0
    record: list[FloatArray] | None = None
    name: str = "tempering"
    scores: ScoredPairs | None = None

    @property
    def rates(self) -> FloatArray:
        """Mean probability of a swap between neighbours, from β = 0 up, (R−1,)."""
        return self.swapped / max(self.tried, 1)

    @property
    def worn(self) -> bool:
        return bool(self.rates.min(initial=1.0) < _LEAST_RATE)

    def copy(self) -> Tempering:
        """With counters at zero."""
        record: list[FloatArray] | None = None if self.record is None else []
        fresh = np.zeros(len(self.betas) - 1)
        return replace(self, states=self.states.copy(), seeds=self.seeds.copy(), swapped=fresh, tried=0, record=record)

    def __str__(self) -> str:
        low, high = self.rates.min(initial=1.0), self.rates.max(initial=0.0)
        return f"with {self.inner.name} moves at {len(self.betas)} temperatures, swap rates {low:.2f} to {high:.2f}"

    def run(
        self, graph: Graph, thetas: FloatArray, states: States, seeds: Seeds, sweeps: int, count: bool = True
    ) -> FloatArray:
        if self.inner.scores is not None and gibbs.moderate(thetas):
            return self._run_scored(graph, thetas, states, seeds, self._rounds(sweeps), count)
        hot = [scaled(thetas, b) for b in self.betas[:-1]]
        ladder = [*self.states, states]
        sums = np.zeros(thetas.shape)
        for _ in range(self._rounds(sweeps)):
            for theta, x, own in zip(hot, self.states, self.seeds, strict=True):
                self.inner.run(graph, theta, x, own, 1, count=False)
            sums += self.inner.run(graph, thetas, states, seeds, 1, count)
            energies = np.array([energies_of(graph, thetas, x) for x in ladder])
            if self.record is not None:
                self.record.append(energies.copy())
            self._swap(ladder, energies)
        return sums

    def _rounds(self, sweeps: int) -> int:
        return sweeps * -(-len(self.betas) // _LEVELS_A_ROUND)

    def _run_scored(
        self, graph: Graph, thetas: FloatArray, states: States, seeds: Seeds, rounds: int, count: bool
    ) -> FloatArray:
        """Every chain with all of its temperatures in one kernel."""
        chains = len(states)
        record = np.zeros((0 if self.record is None else rounds, len(self.betas), chains))

        def batch(field: ScoredField, first: int, last: int, alone: FloatArray, pairs: FloatArray) -> None:
            ladder = Ladder(self.betas, self.states, self.seeds, states, seeds, first, last)
            shares[first] = np.zeros(len(self.betas) - 1)
            sweep_ladder(field, ladder, rounds, count, alone, pairs, shares[first], record)

        shares: dict[int, FloatArray] = {}
        assert self.inner.scores is not None
        sums = gibbs.by_batches(graph, thetas, chains, count * rounds, self.inner.scores, batch)
        swapped = np.sum([shares[first] for first in sorted(shares)], axis=0)  # in order, whichever ended first
        self.swapped = swapped if not len(self.swapped) else self.swapped + swapped
        self.tried += rounds * chains
        if self.record is not None:
            g = graph.arrays
            zero = thetas[:, g.node_ptr[:-1]].sum(axis=1) + thetas[:, g.table_ptr[:-1]].sum(axis=1)  # θ(0) by batch
            ends = [chains * (b + 1) // len(thetas) for b in range(len(thetas))]
            self.record += list(record + np.repeat(zero, np.diff(ends, prepend=0)))
        return sums

    def _swap(self, ladder: list[States], energies: FloatArray) -> None:
        steps = np.diff(self.betas)
        if not len(self.swapped):
            self.swapped = np.zeros(len(steps))
        for parity in (0, 1):
            for r in range(parity, len(steps), 2):
                self.swapped[r] += kernel.swap_chains(
                    steps[r], ladder[r], ladder[r + 1], energies[r], energies[r + 1], self.seeds[r]
                )
        self.tried += len(energies[0])


def tempered(graph: Graph, thetas: FloatArray, chains: int, seed: int, inner: Moves) -> Tempering:
    """A ladder for so many chains at potentials thetas (batches, T), placed for their mean."""
    theta = thetas[0] if thetas.strides[0] == 0 else thetas.mean(axis=0)
    betas = place(graph, np.ascontiguousarray(theta), inner, seed + _APART)
    n = len(graph.arrays.cardinality)
    what = f"{len(betas)} temperatures of {chains:,} chains of {n:,} variables"
    memory.require(
        Cost(0.0, 4.0 * len(betas) * chains * n, what), "tempering", "Take fewer chains: bf.Sampled(chains=…)."
    )
    ladder, _ = _annealed(graph, thetas, betas, chains, seed + _APART, _COOLING, inner)
    return ladder


def place(graph: Graph, theta: FloatArray, inner: Moves, seed: int) -> FloatArray:
    """Temperatures with swap rates of about _RATE, by annealed chains first and then by counted swaps."""
    thetas, grid = theta[None], np.linspace(0.0, 1.0, _GRID)
    states, seeds = gibbs.fresh(graph.arrays, _PILOTS, seed)
    width = []
    for b in grid:
        inner.run(graph, scaled(thetas, b), states, seeds, _AT_EACH, count=False)
        width.append(energies_of(graph, thetas, states).std())
    mean_width = (np.array(width[1:]) + np.array(width[:-1])) / 2
    betas = _spaced(grid, _GAUSSIAN * mean_width * np.diff(grid))
    for k in range(_MORE_ROUNDS):
        ladder, top = _annealed(graph, thetas, betas, _PILOTS, seed + k + 1, _COOLING, inner)
        ladder.run(graph, thetas, *top, _SETTLE, count=False)
        counted = ladder.copy()
        counted.run(graph, thetas, *top, _SWAPS, count=False)
        betas = _spaced(betas, 1.0 - counted.rates)
        if k >= _ROUNDS - 1 and counted.rates.min() >= _LEAST_RATE:
            break
    return betas


def _spaced(betas: FloatArray, rejected: FloatArray) -> FloatArray:
    """As many temperatures as have rejection rates of 1 − _RATE, equal in what is rejected between two neighbours."""
    barrier = np.concatenate([[0.0], np.cumsum(np.maximum(rejected, 1e-9))])
    steps = int(np.clip(np.ceil(barrier[-1] / (1.0 - _RATE)), _FEWEST - 1, _MOST - 1))
    result: FloatArray = np.interp(np.linspace(0.0, barrier[-1], steps + 1), barrier, betas)
    result[[0, -1]] = 0.0, 1.0
    return result


def _annealed(
    graph: Graph, thetas: FloatArray, betas: FloatArray, chains: int, seed: int, sweeps: int, inner: Moves
) -> tuple[Tempering, tuple[States, Seeds]]:
    """A ladder whose states were carried up from β = 0, and such states at β = 1."""
    x, _ = gibbs.fresh(graph.arrays, chains, seed)
    seeds = parallel.chain_seeds(seed, chains * len(betas)).reshape(len(betas), chains, 2)
    states = np.empty((len(betas), *x.shape), dtype=np.int32)
    for r, b in enumerate(betas):
        inner.run(graph, scaled(thetas, b), x, seeds[r], sweeps, count=False)
        states[r] = x
    return Tempering(betas, states[:-1], seeds[:-1], inner), (states[-1], seeds[-1])


def scaled(thetas: FloatArray, beta: float) -> FloatArray:
    """βθ; what is forbidden is so at every temperature. Batches that share their potentials still do."""
    some = thetas[:1] if thetas.strides[0] == 0 else thetas
    return np.broadcast_to(
        np.where(np.isfinite(some), beta * np.where(np.isfinite(some), some, 0.0), some), thetas.shape
    )


def energies_of(graph: Graph, thetas: FloatArray, states: States) -> FloatArray:
    """θ(x) of every chain, by its batch's potentials, (chains,)."""
    if not graph.binary_pairs or not np.isfinite(thetas[:1] if thetas.strides[0] == 0 else thetas).all():
        return table_energies(graph, thetas, states)
    g, result = graph.arrays, np.empty(len(states))
    square = len(g.cardinality) ** 2 <= _SQUARE * len(g.scope)

    def batch(b: int) -> None:
        first, last = (len(states) * k // len(thetas) for k in (b, b + 1))
        theta = np.ascontiguousarray(thetas[b])
        if square:
            result[first:last] = quadratic(graph, theta, states[first:last])
        else:
            kernel.pair_energies(g, gibbs_pairs.pair_odds(g, theta), states[first:last], result[first:last])
        result[first:last] += theta[g.node_ptr[:-1]].sum() + theta[g.table_ptr[:-1]].sum()

    parallel.blas_map(batch, range(len(thetas)))
    return result


def log_ratios(betas: FloatArray, energies: FloatArray) -> FloatArray:
    """log Z(β_{k+1}) / Z(β_k) for all k, (R−1,), from θ(x) of as many states at each β, (R, samples).

    Bennett (1976): the f at which Σ_low 1/(1 + e^{f − δθ}) = Σ_high 1/(1 + e^{δθ − f}), by bisection.
    """
    result = np.empty(len(betas) - 1)
    for k, step in enumerate(np.diff(betas)):
        low, high = step * energies[k], step * energies[k + 1]
        a, b = min(low.min(), high.min()) - 1.0, max(low.max(), high.max()) + 1.0
        while b - a > 1e-9 * (1.0 + abs(a) + abs(b)):
            f = (a + b) / 2
            gap = _logistic(low - f).sum() - _logistic(f - high).sum()
            a, b = (f, b) if gap > 0.0 else (a, f)
        result[k] = (a + b) / 2
    return result


def _logistic(z: FloatArray) -> FloatArray:
    result: FloatArray = 1.0 / (1.0 + np.exp(-z))
    return result
