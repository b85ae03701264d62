"""The exchange algorithm (Murray, Ghahramani & MacKay 2006): the posterior without any log Z.

With a proposal λ', draw a data set y of N cases from p(·|λ') and accept with probability
min(1, exp((λ' − λ)ᵀ N (f̄(x) − f̄(y))) · prior(λ')/prior(λ)): the normalisers cancel. With exact draws the posterior is
sampled exactly; with Gibbs draws up to what the chains lack in length. Where variables are hidden λᵀN f̄(x) gives way
to Σ_n log Z_n(λ), the sum over what is hidden in each case.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.samplers.auxiliary import Drawing, drawing, unnormalised
from bayesfield.samplers.steps import drive
from bayesfield.types import FloatArray, Options

if TYPE_CHECKING:
    from bayesfield.inference.sampling.sampled import Sampled
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

    def prepare(self, problem: Problem) -> Drawing:
        return drawing(problem, self.engine, self.scale)

    def advance(self, shared: Drawing, chains: list[Chain], draws: int, thin: int) -> tuple[FloatArray, Stats]:
        kept = np.empty((len(chains), draws, len(shared.shape)))
        accepted = np.zeros((len(chains), draws))
        for c, chain in enumerate(chains):
            if chain.memory is None:
                chain.memory = unnormalised(shared.objective, chain.position)
            for step, move in enumerate(shared.moves(chain, draws * thin)):
                accepted[c, step // thin] += self._move(shared, chain, move) / thin
                kept[c, step // thin] = chain.position
        return kept, {"acceptance": accepted}

    def _move(self, shared: Drawing, chain: Chain, move: FloatArray) -> bool:
        """By log p(λ'|x) − log p(λ|x) + log p(y|λ) − log p(y|λ'), with y drawn at λ'."""
        proposal = chain.position + move
        there = unnormalised(shared.objective, proposal)
        ratio = there - float(chain.memory) - float(move @ shared.features(proposal, chain.uniforms))
        if not np.log(chain.uniforms.random()) < ratio:  # no number is no reason to move
            return False
        chain.position, chain.memory = proposal, there
        return True
