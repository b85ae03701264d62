"""The sampled engine: many Gibbs chains, Rao-Blackwellised means, sample covariances, and their Monte-Carlo errors.

No log Z. For dense fields, where Bethe and Kikuchi break down and a junction tree does not fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bayesfield import memory
from bayesfield.inference.contract import Price, Traits
from bayesfield.inference.messages.belief_propagation import Bethe
from bayesfield.inference.sampling import gibbs_chains as gibbs
from bayesfield.inference.sampling.gibbs_chains import Chains
from bayesfield.inference.sampling.mixing import judge, unmixed_error
from bayesfield.response.sampled import SampleResponse
from bayesfield.types import (
    Cost,
    FloatArray,
    IndefiniteCurvature,
    IntArray,
    InvalidInput,
    Marginals,
    Options,
    Outcome,
    Status,
)

if TYPE_CHECKING:
    from bayesfield.graph.compiled import Design
    from bayesfield.graph.structure import Graph

_BATCHES = 16  # groups of chains: their spread is the Monte-Carlo error
_MOST_CHAINS = 40_000  # that a fit takes by itself
_SHRINKABLE = 2000  # parameters up to which a dense target of the shrinkage is made
_TARGET = Bethe(max_sweeps=200, max_direct=0)


@dataclass(frozen=True, repr=False)
class Sampled(Options):
    """Inference by Gibbs sampling.

    chains: independent chains, spread over all cores. burn_in: sweeps before the first means; sweeps: those that count.
    snapshots: how many times in between the states are kept for covariances. shrink: whether sample covariances are
    shrunk towards linear response where that exists. error: Monte-Carlo error, in posterior standard deviations, at
    which a fit with this engine ends; it takes at least four times as many chains as cases. seed: of everything.
    """

    chains: int = 4096
    burn_in: int = 50
    sweeps: int = 50
    snapshots: int = 10
    shrink: bool = True
    error: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if self.chains < 2 or self.sweeps < self.snapshots or self.snapshots < 1 or self.burn_in < 0:
            raise InvalidInput("Sampled needs at least 2 chains, and sweeps ≥ snapshots ≥ 1")
        if not self.error > 0.0:
            raise InvalidInput(f"error, at which a fit ends, must be above zero; got {self.error}")

    traits = Traits(has_log_z=False)

    def enough_for(self, cases: float) -> Sampled:
        """With as many chains as the data ask for: one Newton step's noise is about √(N / samples) posterior sd."""
        return replace(self, chains=max(self.chains, min(4 * int(cases), _MOST_CHAINS)))

    def price(self, graph: Graph, size: int) -> Price:
        """Updates of sites, faster where all factors are binary pairs; samples times the square of the features."""
        n = len(graph.arrays.cardinality)
        updates = self.chains * (self.sweeps + self.burn_in) * (n + len(graph.arrays.scope))
        samples = float(self.chains * self.snapshots)
        return Price(
            1e-3 + (1e-10 if graph.binary_pairs else 1e-8) * updates, 1e-3 + 2e-10 * samples * size * (size + 50)
        )

    def preview(self, graph: Graph) -> Cost:
        g = graph.arrays
        numbers = self.chains * len(g.cardinality) * (4 + self.snapshots)  # where they stand, were, and both centred
        updates = self.chains * (self.sweeps + self.burn_in) * len(g.cardinality)
        detail = f"{self.chains:,} chains of {len(g.cardinality):,} variables, {updates:.3g} updates"
        return Cost(graph.n_entries, 4 * numbers + 8 * 3 * self.batches * graph.n_entries, detail)

    def infer(self, graph: Graph, theta: FloatArray, start: Chains | None = None) -> Marginals:
        """start: chains to go on from; else they begin apart and burn in. The state is ``Chains``, with its mixing.

        Chains that have not mixed (sampling.mixing) end as ``Outcome.SLOW``.
        """
        thetas = np.broadcast_to(theta, (self.batches, len(theta)))
        chains = self._run(graph, thetas, start, parts=1)
        tables, error = chains.batch_means.mean(axis=0), monte_carlo_error(chains.batch_means)
        mixing, figure, outcome = chains.mixing, None, Outcome.SAMPLED
        how = "whether they mix cannot be told by so few"
        if mixing is not None:
            figure, how = mixing.figure, str(mixing)
            if not mixing.mixed:
                outcome, error = Outcome.SLOW, np.sqrt(error**2 + mixing.kept * tables * (1.0 - tables))
        worst = float(error.max(initial=0.0))
        detail = f"{self.chains} chains × {self.sweeps} sweeps, largest error of a mean {worst:.2g}; {how}"
        return Marginals(float("nan"), tables, Status(outcome, self.sweeps, worst, detail, mixing=figure), chains)

    def spread(self, graph: Graph, thetas: FloatArray, start: Chains | None = None) -> Chains:
        """Chains at many potentials at once, thetas (batches, T): an equal share of the chains at each."""
        return self._run(graph, thetas, start, parts=len(thetas))

    def begin(self, graph: Graph, theta: FloatArray, cases: IntArray | None = None) -> Chains:
        """Chains after their burn-in, which began at random, at low temperature, and at the cases (N, n) if given."""
        return self._begin(graph, np.broadcast_to(theta, (self.batches, len(theta))), cases)

    def _begin(self, graph: Graph, thetas: FloatArray, cases: IntArray | None) -> Chains:
        memory.require(self.preview(graph), "sampling", "Take fewer chains: bf.Sampled(chains=…).")
        states, seeds, ways = gibbs.begun_apart(graph, thetas, self.chains, self.seed, cases)
        unjudged = min(self.burn_in, self.burn_in + self.sweeps - self._lag)
        gibbs.run(graph, thetas, states, seeds, unjudged, count=False)
        early = states.copy()
        gibbs.run(graph, thetas, states, seeds, self.burn_in - unjudged, count=False)
        return Chains(states[None], seeds, np.empty((0, 0)), ways, early, self.burn_in - unjudged)

    def _run(self, graph: Graph, thetas: FloatArray, start: Chains | None, parts: int) -> Chains:
        """parts: how many of the batches' potentials differ, 1 or all."""
        if start is None:
            start = self._begin(graph, thetas, None)
        else:
            memory.require(self.preview(graph), "sampling", "Take fewer chains: bf.Sampled(chains=…).")
        states, seeds, sums = start.states[-1].copy(), start.seeds.copy(), np.zeros(thetas.shape)
        kept = np.empty((self.snapshots, *states.shape), dtype=np.int32)
        for k, part in enumerate(np.array_split(np.arange(self.sweeps), self.snapshots)):
            sums += gibbs.run(graph, thetas, states, seeds, len(part))
            kept[k] = states
        means, lag = gibbs.normalised(graph.arrays, sums), start.lag + self.sweeps
        if lag < self._lag:
            return start._replace(states=kept, seeds=seeds, batch_means=means, lag=lag)
        mixing = judge(graph, thetas, start.early, kept, start.groups, lag, parts)
        return Chains(kept, seeds, means, start.groups, states, 0, mixing)

    @property
    def _lag(self) -> int:
        """Sweeps over which chains must forget: what a burn-in leaves of the start is what they keep over as many."""
        return max(self.burn_in, self.sweeps // 2)

    def response(self, graph: Graph, design: Design, theta: FloatArray, marginals: Marginals) -> SampleResponse:
        chains: Chains = marginals.state
        target = self.target(graph, design, theta)
        return SampleResponse(graph, design, chains.states, len(chains.batch_means), True, target)

    def maximise(self, graph: Graph, theta: FloatArray) -> tuple[IntArray, Status]:
        """By max-product: sampling has no better way."""
        return Bethe().maximise(graph, theta)

    @property
    def batches(self) -> int:
        return min(_BATCHES, self.chains)

    def target(self, graph: Graph, design: Design, theta: FloatArray) -> FloatArray | None:
        """What covariances are shrunk towards: Bethe's, if wanted, if messages settle, and if it is one."""
        if not self.shrink or design.matrix.shape[1] > _SHRINKABLE:
            return None
        beliefs = _TARGET.infer(graph, theta)
        if not beliefs.status.converged:
            return None
        try:
            return _TARGET.response(graph, design, theta, beliefs).covariance()
        except IndefiniteCurvature:
            return None


def monte_carlo_error(batch_means: FloatArray) -> FloatArray:
    """Standard error of the mean over batches."""
    result: FloatArray = batch_means.std(axis=0, ddof=1) / np.sqrt(len(batch_means))
    return result


def sampling_error(graph: Graph, design: Design, marginals: Marginals) -> tuple[FloatArray, FloatArray]:
    """Standard error of every E[f], and the number of independent draws that would have the same error.

    Where chains have not mixed, with what they do not know: the weights of states that they do not cross.
    """
    chains: Chains = marginals.state
    batches = np.array([design.expectations(tables) for tables in chains.batch_means])
    error = monte_carlo_error(batches)
    response = SampleResponse(graph, design, chains.states, len(batches), True)
    variance = response.diagonal()
    if chains.mixing is not None:
        error = np.hypot(error, unmixed_error(chains.mixing, variance, chain_means(response, chains)))
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = np.where(error > 0.0, variance / error**2, np.inf)
    return error, effective


def chain_means(response: SampleResponse, chains: Chains) -> FloatArray:
    """The mean of the features over the snapshots of every chain, less that over all, (chains, F)."""
    snapshots, count, _ = chains.states.shape
    result: FloatArray = response.features.reshape(count, snapshots, -1).mean(axis=1)
    return result
