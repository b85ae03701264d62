"""How chains move: by single sites, by clusters, or along a ladder of temperatures.

All leave the same field invariant and gather the same tables. ``Sampled(moves="auto")`` begins with single sites, whose
results stand where they mix; where they do not, clusters follow if no loop is frustrated, and a ladder otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from bayesfield import parallel
from bayesfield.inference.sampling import gibbs_chains as gibbs
from bayesfield.kernels.gibbs import clusters
from bayesfield.types import FloatArray

if TYPE_CHECKING:
    from bayesfield.graph.scored import ScoredPairs
    from bayesfield.graph.structure import Graph

_SWEEPS_AN_UPDATE = 2  # single sites between clusters: these move whole domains, those their borders

States = NDArray[np.int32]
Seeds = NDArray[np.uint64]


class Moves(Protocol):
    """One way to move chains. What it keeps between runs is its own: ``copy`` before a run that may be repeated."""

    @property
    def name(self) -> str: ...

    @property
    def scores(self) -> ScoredPairs | None:
        """Of single sites that go by products of scores."""
        ...

    def run(
        self, graph: Graph, thetas: FloatArray, states: States, seeds: Seeds, sweeps: int, count: bool = True
    ) -> FloatArray:
        """Sweeps of all chains, in place; sums of tables by batch, (batches, T). See gibbs_chains.run."""
        ...

    def copy(self) -> Self: ...

    @property
    def worn(self) -> bool:
        """Whether it was made for potentials too far from these to be of use."""
        ...


class Single(NamedTuple):
    """Gibbs sweeps, a variable at a time. scores, gathered: as ``gibbs_chains.run`` takes them."""

    name: str = "single"
    scores: ScoredPairs | None = None
    gathered: list[gibbs.Gathered] | None = None

    def run(
        self, graph: Graph, thetas: FloatArray, states: States, seeds: Seeds, sweeps: int, count: bool = True
    ) -> FloatArray:
        return gibbs.run(graph, thetas, states, seeds, sweeps, count, self.scores, self.gathered)

    def copy(self) -> Single:
        return self

    @property
    def worn(self) -> bool:
        return False

    def __str__(self) -> str:
        return "by single sites"


class Clusters(NamedTuple):
    """Swendsen & Wang's clusters of binary pairs, with Gibbs sweeps in between."""

    name: str = "clusters"
    scores: ScoredPairs | None = None

    def run(
        self, graph: Graph, thetas: FloatArray, states: States, seeds: Seeds, sweeps: int, count: bool = True
    ) -> FloatArray:
        sums = np.zeros(thetas.shape)
        for first in range(0, sweeps, _SWEEPS_AN_UPDATE):
            sums += _updates(graph, thetas, states, seeds, count)
            sums += gibbs.run(graph, thetas, states, seeds, min(_SWEEPS_AN_UPDATE, sweeps - first), count)
        return sums

    def copy(self) -> Clusters:
        return self

    @property
    def worn(self) -> bool:
        return False

    def __str__(self) -> str:
        return "by clusters"


def clusters_help(graph: Graph, theta: FloatArray) -> bool:
    """Whether all couplings of a binary pairwise field agree in sign, but for flips of variables."""
    if not has_spins(graph, theta):
        return False
    spins = clusters.graph_spins(graph.arrays, theta)
    gauge = clusters.gauge(len(spins.field), spins.first, spins.second, spins.coupling)
    return not bool(gauge.frustrated.any())


def has_spins(graph: Graph, theta: FloatArray) -> bool:
    return graph.binary_pairs and len(graph.arrays.scope) > 0 and bool(np.isfinite(theta).all())


def _updates(graph: Graph, thetas: FloatArray, states: States, seeds: Seeds, count: bool) -> FloatArray:
    """One cluster update of all chains; sums of tables as in gibbs_chains.run."""

    def batch(b: int) -> FloatArray:
        first, last = (len(states) * k // len(thetas) for k in (b, b + 1))
        spins = clusters.graph_spins(graph.arrays, np.ascontiguousarray(thetas[b]))
        site, pair = np.zeros(len(spins.field)), np.zeros(len(spins.coupling))
        clusters.update_chains(spins, states[first:last], seeds[first:last], 1, count, site, pair)
        return _tables(graph, spins, site, pair, last - first) if count else np.zeros(graph.n_entries)

    return np.array(parallel.thread_map(batch, range(len(thetas))))


def _tables(graph: Graph, spins: clusters.Spins, site: FloatArray, pair: FloatArray, total: int) -> FloatArray:
    """Sums of E[s_i] and of E[s_i s_j] as sums of tables: (1 + a s_i + b s_j + ab s_i s_j)/4 of each entry (a, b)."""
    n, signs = len(site), np.array([-1.0, 1.0])
    result = np.empty(graph.n_entries)
    result[: 2 * n] = ((total + signs * site[:, None]) / 2).ravel()
    a, b = (m.ravel() for m in np.meshgrid(signs, signs, indexing="ij"))
    ends = total + a * site[spins.first, None] + b * site[spins.second, None]
    result[2 * n :] = np.maximum((ends + a * b * pair[:, None]) / 4, 0.0).ravel()
    return result
