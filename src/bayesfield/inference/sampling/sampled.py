"""The sampled engine: many chains, Rao-Blackwellised means, sample covariances, and their Monte-Carlo errors.

log Z on request only (``log_partition``). For dense fields, where Bethe and Kikuchi break down and a junction tree does
not fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bayesfield import memory, parallel
from bayesfield.graph.scored import ScoredPairs, scored_pairs
from bayesfield.inference.contract import Price, Traits
from bayesfield.inference.messages.belief_propagation import Bethe
from bayesfield.inference.sampling import gibbs_chains as gibbs
from bayesfield.inference.sampling.controls import less_noise
from bayesfield.inference.sampling.gibbs_chains import Chains
from bayesfield.inference.sampling.mixing import Mixing, judge, unmixed_error
from bayesfield.inference.sampling.moves import Clusters, Moves, Single, clusters_help, has_spins
from bayesfield.inference.sampling.tempering import tempered
from bayesfield.inference.sampling.thermodynamic import LogPartition, log_partition
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
_MOST_STATES = 2e7  # of chains, for a mode; …
_WORTH = 8.0  # … where they know their noise each is worth so many
_BRIEF = 4  # times fewer sweeps before a search is near
_SHRINKABLE = 2000  # parameters up to which a dense target of the shrinkage is made
MANY_NEIGHBOURS = 12  # on average, beyond which messages are not asked
MOVES = ("auto", "single", "clusters", "tempering")
_MOST_UPDATES = 3e10  # of sites, by a ladder of √n temperatures, that "auto" takes: half a minute
_TARGET = Bethe(max_sweeps=200, max_direct=0)


@dataclass(frozen=True, repr=False)
class Sampled(Options):
    """Inference by Gibbs sampling.

    chains: independent chains, spread over all cores. burn_in: sweeps before the first means; sweeps: those that count.
    snapshots: how many times in between the states are kept for covariances. shrink: whether sample covariances are
    shrunk towards linear response where that exists. error: Monte-Carlo error, in posterior standard deviations, at
    which a fit with this engine ends; it takes at least four times as many chains as cases. seed: of everything.
    moves: "single" (sites), "clusters" (Swendsen & Wang, for binary pairs), "tempering" (a ladder of temperatures), or
    "auto": single sites, and where chains have not mixed by them, clusters if no loop is frustrated, then tempering.
    scores: set by fits of dense fields whose interactions are products of scores; chains are then faster, and means
    right for features only.
    """

    chains: int = 4096
    burn_in: int = 50
    sweeps: int = 50
    snapshots: int = 10
    shrink: bool = True
    error: float = 0.05
    seed: int = 0
    moves: str = "auto"
    scores: ScoredPairs | None = field(default=None, repr=False, compare=False, metadata={"derived": True})

    def __post_init__(self) -> None:
        if self.moves not in MOVES:
            raise InvalidInput(f"moves must be one of {', '.join(MOVES)}; got {self.moves!r}")
        if self.chains < 2 or self.sweeps < self.snapshots or self.snapshots < 1 or self.burn_in < 0:
            raise InvalidInput("Sampled needs at least 2 chains, and sweeps ≥ snapshots ≥ 1")
        if not self.error > 0.0:
            raise InvalidInput(f"error, at which a fit ends, must be above zero; got {self.error}")

    traits = Traits(has_log_z=False)

    def for_fields(self, graph: Graph, design: Design) -> Sampled:
        """For potentials of this design alone."""
        return replace(self, scores=graph.plan_with("scored pairs", design, lambda: scored_pairs(graph, design)))

    def enough_for(self, cases: float) -> Sampled:
        """With as many chains as the data ask for: one Newton step's noise is about √(N / states) posterior sd, of
        scored pairs a fifth or less. With very many cases the error that _MOST_STATES leave is enough."""
        each, states = (4.0, _MOST_STATES) if self.scores is None else (0.5, _WORTH * _MOST_STATES)
        error = max(self.error, float(np.sqrt(cases / states)))
        return replace(self, chains=max(self.chains, min(int(each * cases), _MOST_CHAINS)), error=error)

    @property
    def brief(self) -> Sampled:
        """With a quarter of the sweeps, for steps on the way to where all of them count; on sparse fields the same,
        whose chains may be slow: with fewer a 7×7 magnet's search took twenty steps instead of fourteen."""
        return self if self.scores is None else replace(self, sweeps=max(self.snapshots, self.sweeps // _BRIEF))

    def price(self, graph: Graph, size: int) -> Price:
        """Updates of sites, faster where all factors are binary pairs; samples times the square of the features."""
        n = len(graph.arrays.cardinality)
        updates = self.chains * (self.sweeps + self.burn_in) * float(n)
        samples, by_bits = float(self.chains * self.snapshots), graph.binary_pairs and dense(graph)
        each = (1e-10 if graph.binary_pairs else 1e-8) * (1.0 + len(graph.arrays.scope) / max(n, 1))
        if self.scores is not None:
            each = 4e-9 + 2e-9 * int(graph.arrays.cardinality.max()) + 1e-10 * n
        covariance = 5e-12 * samples * size * (size + 500) if by_bits else 2e-10 * samples * size * (size + 50)
        return Price(1e-3 + each * updates, 1e-3 + covariance)

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
                outcome, error = (
                    Outcome.SLOW,
                    np.sqrt(error**2 + mixing.kept * np.maximum(tables * (1.0 - tables), 0.0)),
                )
        worst = float(error.max(initial=0.0))
        by = "" if chains.moves is None else f" {chains.moves}"
        detail = f"{self.chains} chains × {self.sweeps} sweeps{by}, largest error of a mean {worst:.2g}; {how}"
        return Marginals(float("nan"), tables, Status(outcome, self.sweeps, worst, detail, mixing=figure), chains)

    def spread(self, graph: Graph, thetas: FloatArray, start: Chains | None = None, parts: int | None = None) -> Chains:
        """Chains at many potentials at once, thetas (batches, T): an equal share of the chains at each.

        parts: 1 where all potentials are the same.
        """
        return self._run(graph, thetas, start, len(thetas) if parts is None else parts)

    def begin(self, graph: Graph, theta: FloatArray, cases: IntArray | None = None) -> Chains:
        """Chains after their burn-in, which began at random, at low temperature, and at the cases (N, n) if given."""
        return self._begin(graph, np.broadcast_to(theta, (self.batches, len(theta))), cases)

    def beside(self, graph: Graph, thetas: FloatArray, chains: Chains) -> Chains:
        """Chains for ``spread`` that begin where those at potentials nearby ended, and burn in a fifth as long."""
        memory.require(self.preview(graph), "sampling", "Take fewer chains: bf.Sampled(chains=…).")
        last, moves = chains.states[-1], None
        own = np.arange(self.chains) % (len(last) - len(last) % chains.groups)  # each in the way in which it began
        if chains.moves is not None:
            moves = self._moves(graph, thetas, chains.moves.name, self.chains)
        begun, seeds = replace(self, burn_in=self.burn_in // 5), parallel.chain_seeds(self.seed + 1, self.chains)
        return begun._burnt_in(graph, thetas, last[own], seeds, chains.groups, moves)

    def draws(self, graph: Graph, theta: FloatArray, n: int, seed: int) -> tuple[IntArray, Mixing | None]:
        """The states of n chains after burn_in + sweeps, (n, variables), and whether they mixed."""
        first: str = "single" if self.moves == "auto" else self.moves
        drawn, mixing = np.empty((0, 0), dtype=np.int64), None
        thetas = gibbs.shared(graph, theta, n, self.burn_in + self.sweeps)
        for name in (first, *self._others(graph, thetas, first)):
            if name == first or (mixing is not None and not mixing.mixed):
                moves = None if name == "single" else self._moves(graph, thetas, name, n)
                drawn, mixing = gibbs.mixed_draws(graph, thetas, n, self.burn_in, self.sweeps, seed, moves)
        return drawn, mixing

    def log_partition(self, graph: Graph, theta: FloatArray, goal: float = 0.05) -> LogPartition:
        """log Z with its error, in nats, by thermodynamic integration or along a ladder of temperatures."""
        return log_partition(graph, theta, self, self.infer(graph, theta).tables, goal)

    def _moves(self, graph: Graph, thetas: FloatArray, name: str, chains: int) -> Moves:
        theta = np.ascontiguousarray(thetas[0] if thetas.strides[0] == 0 else thetas.mean(axis=0))
        if name == "tempering":
            inner = Clusters() if clusters_help(graph, theta) else self._single
            return tempered(graph, thetas, chains, self.seed, inner)
        if not has_spins(graph, theta):
            raise InvalidInput(
                'moves="clusters" needs variables of two states, joined by pairs, none of them forbidden (−inf); take '
                'moves="tempering" or "single"'
            )
        return Clusters()

    def _others(self, graph: Graph, thetas: FloatArray, name: str) -> list[str]:
        """What "auto" tries next where chains have not mixed, by counts."""
        if self.moves != "auto":
            return []
        n = len(graph.arrays.cardinality)
        theta = np.ascontiguousarray(thetas[0] if thetas.strides[0] == 0 else thetas.mean(axis=0))
        others = ["clusters"] if name == "single" and clusters_help(graph, theta) else []
        affordable = self.chains * (self.burn_in + self.sweeps) * float(n) ** 1.5 <= _MOST_UPDATES
        return [*others, "tempering"] if name != "tempering" and affordable else others

    def _begin(self, graph: Graph, thetas: FloatArray, cases: IntArray | None) -> Chains:
        memory.require(self.preview(graph), "sampling", "Take fewer chains: bf.Sampled(chains=…).")
        states, seeds, ways = gibbs.begun_apart(graph, thetas, self.chains, self.seed, cases, self.scores)
        single = self.moves in ("auto", "single")
        moves = None if single else self._moves(graph, thetas, self.moves, self.chains)
        return self._burnt_in(graph, thetas, states, seeds, ways, moves)

    def _burnt_in(
        self,
        graph: Graph,
        thetas: FloatArray,
        states: NDArray[np.int32],
        seeds: NDArray[np.uint64],
        ways: int,
        moves: Moves | None,
    ) -> Chains:
        run = (moves or self._single).run
        unjudged = min(self.burn_in, self.burn_in + self.sweeps - self._lag)
        run(graph, thetas, states, seeds, unjudged, count=False)
        early = states.copy()
        run(graph, thetas, states, seeds, self.burn_in - unjudged, count=False)
        return Chains(states[None], seeds, np.empty((0, 0)), ways, early, self.burn_in - unjudged, moves=moves)

    def _run(self, graph: Graph, thetas: FloatArray, start: Chains | None, parts: int) -> Chains:
        """parts: how many of the batches' potentials differ, 1 or all. Other moves follow where these do not mix."""
        if start is None:
            start = self._begin(graph, thetas, None)
        else:
            memory.require(self.preview(graph), "sampling", "Take fewer chains: bf.Sampled(chains=…).")
        chains = self._counted(graph, thetas, start, parts)
        if chains.mixing is None or chains.mixing.mixed:
            return chains
        last = self._single if start.moves is None else start.moves
        worn = chains.moves is not None and chains.moves.worn
        for name in [last.name] if worn else self._others(graph, thetas, last.name):
            moves = self._moves(graph, thetas, name, len(start.seeds))
            states, seeds = chains.states[-1].copy(), chains.seeds.copy()
            begun = self._burnt_in(graph, thetas, states, seeds, start.groups, moves)
            chains = self._counted(graph, thetas, begun, parts)
            if chains.mixing is None or chains.mixing.mixed:
                break
        return chains

    def _counted(self, graph: Graph, thetas: FloatArray, start: Chains, parts: int) -> Chains:
        moves = None if start.moves is None else start.moves.copy()
        gathered: list[gibbs.Gathered] = []
        run = (moves or Single(scores=self.scores, gathered=gathered if parts == 1 else None)).run
        states, seeds, sums = start.states[-1].copy(), start.seeds.copy(), np.zeros(thetas.shape)
        kept = np.empty((self.snapshots, *states.shape), dtype=np.int32)
        for k, part in enumerate(np.array_split(np.arange(self.sweeps), self.snapshots)):
            sums += run(graph, thetas, states, seeds, len(part))
            kept[k] = states
        means, lag = gibbs.normalised(graph.arrays, sums), start.lag + self.sweeps
        if gathered and self.scores is not None:
            ends = start.states[-1], states
            means = less_noise(graph, self.scores, means, gathered, ends, self.sweeps)
        if lag < self._lag:
            return start._replace(states=kept, seeds=seeds, batch_means=means, lag=lag, moves=moves)
        mixing = judge(graph, thetas, start.early, kept, start.groups, lag, parts)
        return Chains(kept, seeds, means, start.groups, states, 0, mixing, moves)

    @property
    def _single(self) -> Single:
        return Single(scores=self.scores)

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
        if not self.shrink or design.matrix.shape[1] > _SHRINKABLE or dense(graph):
            return None
        beliefs = _TARGET.infer(graph, theta)
        if not beliefs.status.converged:
            return None
        try:
            return _TARGET.response(graph, design, theta, beliefs).covariance()
        except IndefiniteCurvature:
            return None


def dense(graph: Graph) -> bool:
    """Whether a variable has so many neighbours on average that messages, which take them for independent, say
    little: then nothing is asked of them."""
    g = graph.arrays
    return len(g.scope) > MANY_NEIGHBOURS * max(len(g.cardinality), 1)


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
