"""The sampled engine: many Gibbs chains, Rao-Blackwellised means, sample covariances, and their Monte-Carlo errors.

No log Z. For dense fields, where Bethe and Kikuchi break down and a junction tree does not fit.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayesfield import parallel
from bayesfield.graph import Design, Graph, table_entries
from bayesfield.inference.belief_propagation import Bethe
from bayesfield.kernels import gibbs
from bayesfield.response import Response
from bayesfield.types import Cost, FloatArray, GraphArrays, IntArray, InvalidInput, Marginals, Options, Outcome, Status

_BATCHES = 8  # groups of chains: their spread is the Monte-Carlo error


class Chains(NamedTuple):
    """Where the chains stand, and what each batch of them found; ``infer(start=…)`` goes on from here."""

    states: NDArray[np.int32]  # (chains, n)
    seeds: NDArray[np.uint64]  # (chains, 2)
    batch_means: FloatArray  # (batches, T)


@dataclass(frozen=True, repr=False)
class Sampled(Options):
    """Inference by Gibbs sampling.

    chains: independent chains, spread over all cores. burn_in: sweeps before the first means; sweeps: those that count.
    snapshots: how many times in between the states are kept for covariances. error: Monte-Carlo error, in posterior
    standard deviations, at which a fit with this engine ends; it takes at least four times as many chains as cases.
    seed: of everything.
    """

    chains: int = 4000
    burn_in: int = 50
    sweeps: int = 20
    snapshots: int = 4
    error: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if self.chains < _BATCHES or self.sweeps < self.snapshots or self.snapshots < 1 or self.burn_in < 0:
            raise InvalidInput(f"Sampled needs at least {_BATCHES} chains, and sweeps ≥ snapshots ≥ 1")

    def preview(self, graph: Graph) -> Cost:
        g = graph.arrays
        numbers = self.chains * len(g.cardinality) * (1 + self.snapshots)
        updates = self.chains * (self.sweeps + self.burn_in) * (len(g.scope) + len(g.cardinality))
        return Cost(graph.n_entries, 4 * numbers + 8 * _BATCHES * graph.n_entries, f"{updates:.3g} table look-ups")

    def infer(self, graph: Graph, theta: FloatArray, start: Chains | None = None) -> Marginals:
        """start: chains to go on from; else they begin at random and burn in."""
        g = graph.arrays
        if start is None:
            states, seeds = self._fresh(g)
            _run(g, theta, states, seeds, self.burn_in)
        else:
            states, seeds = start.states.copy(), start.seeds.copy()
        means = np.zeros((_BATCHES, graph.n_entries))
        snapshots = []
        for part in np.array_split(np.arange(self.sweeps), self.snapshots):
            means += _run(g, theta, states, seeds, len(part))
            snapshots.append(states.copy())
        tables = _normalised(g, means)
        moved = Chains(np.concatenate(snapshots), seeds, tables)
        error = tables.std(axis=0, ddof=1).max(initial=0.0) / np.sqrt(_BATCHES)
        detail = f"{self.chains} chains × {self.sweeps} sweeps, largest error of a mean {error:.2g}"
        status = Status(Outcome.SAMPLED, self.sweeps, float(error), detail)
        return Marginals(float("nan"), tables.mean(axis=0), status, moved)

    def last(self, marginals: Marginals) -> Chains:
        """The chains at the end of a run, to go on from."""
        chains: Chains = marginals.state
        return chains._replace(states=chains.states[-self.chains :])

    def response(self, graph: Graph, design: Design, theta: FloatArray, marginals: Marginals) -> Response:
        return SampleResponse(graph.arrays, design, marginals.state.states)

    def maximise(self, graph: Graph, theta: FloatArray) -> tuple[IntArray, Status]:
        """By max-product: sampling has no better way."""
        return Bethe().maximise(graph, theta)

    def _fresh(self, g: GraphArrays) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
        rng = np.random.default_rng(self.seed)
        states = rng.integers(0, g.cardinality, size=(self.chains, len(g.cardinality)), dtype=np.int32)
        return states, parallel.chain_seeds(self.seed, self.chains)


class SampleResponse(Response):
    """Covariance of the features over sampled states."""

    def __init__(self, g: GraphArrays, design: Design, states: NDArray[np.int32]) -> None:
        super().__init__(design)
        self.features = sample_features(g, design, states)
        self.features -= self.features.mean(axis=0)

    def product(self, vectors: FloatArray) -> FloatArray:
        result: FloatArray = self.features.T @ (self.features @ vectors) / len(self.features)
        return result

    def covariance(self) -> FloatArray:
        result: FloatArray = self.features.T @ self.features / len(self.features)
        return result


def sample_features(g: GraphArrays, design: Design, states: NDArray[np.int32]) -> FloatArray:
    """f(x) of every sampled state, (samples, F)."""
    columns = table_entries(g, states.astype(np.int64))
    ptr = np.arange(len(states) + 1) * columns.shape[1]
    hot = sparse.csr_array((np.ones(columns.size), columns.ravel(), ptr), shape=(len(states), int(g.table_ptr[-1])))
    result: FloatArray = (hot @ design.matrix).toarray()
    return result


def _run(
    g: GraphArrays, theta: FloatArray, states: NDArray[np.int32], seeds: NDArray[np.uint64], sweeps: int
) -> FloatArray:
    """Sweeps of all chains, batches on all cores; sums by batch, (batches, T)."""

    def batch(rows: NDArray[np.int64]) -> FloatArray:
        sums = np.zeros(int(g.table_ptr[-1]))
        first, last = int(rows[0]), int(rows[-1]) + 1
        gibbs.sweep_chains(g, theta, states[first:last], seeds[first:last], sweeps, sums)
        return sums

    return np.array(parallel.thread_map(batch, np.array_split(np.arange(len(states)), _BATCHES)))


def _normalised(g: GraphArrays, sums: FloatArray) -> FloatArray:
    """Sums of conditionals to tables that each sum to one."""
    sizes = np.concatenate([g.cardinality, np.diff(g.table_ptr)])
    starts = np.concatenate([g.node_ptr[:-1], g.table_ptr[:-1]])
    if not len(starts):
        return sums
    totals = np.add.reduceat(sums, starts, axis=1)
    result: FloatArray = sums / np.repeat(totals, sizes, axis=1)
    return result
