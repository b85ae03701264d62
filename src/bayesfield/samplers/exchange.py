"""The exchange algorithm (Murray, Ghahramani & MacKay 2006): the posterior without any log Z.

With a proposal λ', draw a data set y of N cases from p(·|λ') and accept with probability
min(1, exp((λ' − λ)ᵀ N (f̄(x) − f̄(y))) · prior(λ')/prior(λ)): the normalisers cancel. With exact draws the posterior is
sampled exactly; with Gibbs draws up to what the chains lack in length. Where variables are hidden λᵀN f̄(x) gives way
to Σ_n log Z_n(λ), the sum over what is hidden in each case.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesfield.graph.structure import counts
from bayesfield.inference.sampling.gibbs_chains import gibbs_draws
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.samplers.density import require_graph
from bayesfield.samplers.steps import drive
from bayesfield.types import FloatArray, IntArray, Options

if TYPE_CHECKING:
    from bayesfield.inference.sampling.sampled import Sampled
    from bayesfield.learning.objective import Objective
    from bayesfield.samplers.contract import Chain, Plan, Problem, Progress, Run, Stats


@dataclass(frozen=True, repr=False)
class Exchange(Options):
    """Metropolis in which drawn data stand for the normalisers.

    engine: bf.Exact() draws the data from the junction tree; bf.Sampled(burn_in=…) by Gibbs chains of so many sweeps.
    scale: of the proposals at the start of warm-up, 1 being best for Metropolis on a Gaussian.
    """

    engine: Exact | Sampled = field(default_factory=Exact)
    scale: float = 0.5

    @property
    def target(self) -> float:
        """That of Metropolis; the drawn data add noise to the ratio, so moves come out shorter. Not tuned further."""
        return 0.234

    def run(self, problem: Problem, chains: list[Chain], plan: Plan, watch: Progress) -> Run:
        return drive(self, problem, chains, plan, watch)

    def lanes(self, chains: int) -> int:
        return 1

    def prepare(self, problem: Problem) -> _Shared:
        shape = problem.factor * (self.scale * 2.38 / np.sqrt(max(problem.size, 1)))
        objective = problem.objective
        require_graph(objective)
        self.engine.preview(objective.free.graph)  # planned once, before threads ask for it
        return _Shared(objective, shape)

    def advance(self, shared: _Shared, chains: list[Chain], draws: int, thin: int) -> tuple[FloatArray, Stats]:
        kept = np.empty((len(chains), draws, len(shared.shape)))
        accepted = np.zeros((len(chains), draws))
        for c, chain in enumerate(chains):
            noise = chain.scale * chain.normals.standard_normal((draws * thin, len(shared.shape))) @ shared.shape.T
            for step, move in enumerate(noise):
                accepted[c, step // thin] += self._move(shared.objective, chain, move) / thin
                kept[c, step // thin] = chain.position
        return kept, {"acceptance": accepted}

    def _move(self, objective: Objective, chain: Chain, move: FloatArray) -> bool:
        proposal = chain.position + move
        phase, N = objective.free, int(objective.weight)
        # log p(λ'|x) − log p(λ|x) + log p(y|λ) − log p(y|λ'); the gradient has N (f̄(y) − f̄(x)) and the prior's pull
        ratio = 0.0
        if N:
            drawn = self._draw(objective, phase.design.potentials(proposal), N, chain.uniforms)
            drawn_features = phase.design.expectations(counts(phase.graph, drawn))
            ratio = self._gain(objective, chain, proposal) - float(move @ drawn_features)
        ratio += objective.prior.log_kernel(proposal) - objective.prior.log_kernel(chain.position)
        if not np.log(chain.uniforms.random()) < ratio:  # no number is no reason to move
            return False
        chain.position, chain.memory = proposal, None
        return True

    def _gain(self, objective: Objective, chain: Chain, proposal: FloatArray) -> float:
        """By how much the proposal raises the data's unnormalised log-probability, all holes summed over."""
        gain = float((proposal - chain.position) @ objective.statistic)
        clamped = objective.phases[1:]
        if not clamped:
            return gain
        if chain.memory is None:
            chain.memory = sum(-phase.weight * phase.at(chain.position).log_z for phase in clamped)
        answers = [phase.at(proposal) for phase in clamped]
        if not all(answer.status.converged for answer in answers):
            return -np.inf
        there = sum(-phase.weight * answer.log_z for phase, answer in zip(clamped, answers, strict=True))
        return gain + float(there) - float(chain.memory)

    def _draw(self, objective: Objective, theta: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
        graph = objective.free.graph
        if self.engine.traits.exact:
            return self.engine.sample(graph, theta, n, rng)  # type: ignore[union-attr]
        return gibbs_draws(graph, theta, n, self.engine.burn_in, int(rng.integers(2**62)))  # type: ignore[union-attr]


class _Shared(NamedTuple):
    objective: Objective
    shape: FloatArray
