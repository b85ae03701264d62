"""The auxiliary variable method (Møller, Pettitt, Reeves & Berthelsen 2006), with bridges (Murray et al. 2006).

Beside λ stand N drawn cases x. With g(x|λ) = e^{λᵀf(x)}, unnormalised, of all N together, the chain's target is

    p(λ) p(D|λ) p(x|λ̃)   ∝   p(λ) g(D|λ) / Z(λ)^N · g(x|λ̃),

whose marginal in λ is the posterior, whatever the fixed λ̃ (here the centre of the problem's Gaussian). A move proposes
λ' and new cases x' drawn from p(·|λ'), and is accepted with probability

    min(1, p(λ') g(D|λ') w(λ', x') / p(λ) g(D|λ) w(λ, x)),      w(λ, x) = g(x|λ̃) / g(x|λ):

the normalisers of target and proposal cancel. Unlike the exchange algorithm, which forgets the drawn data after each
move, w stays as it was until a move is accepted, so that a lucky draw holds a chain. log w varies by about √F nats,
since λ is that many posterior standard deviations from λ̃, all parameters together. B bridges make that √(F/B): x is B
data sets, drawn at λ_k = λ + (k/B)(λ̃ − λ), k = 0, …, B − 1, with targets p(x_k|λ_{k+1}), so that again all normalisers
but those of λ and λ̃ cancel, and

    log w = Σ_k (λ_{k+1} − λ_k)ᵀ f(x_k) = (λ̃ − λ)ᵀ (1/B) Σ_k f(x_k).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.samplers.auxiliary import Drawing, drawing, unnormalised
from bayesfield.samplers.steps import drive
from bayesfield.types import FloatArray, InvalidInput, Options

if TYPE_CHECKING:
    from bayesfield.inference.sampling.sampled import Sampled
    from bayesfield.samplers.contract import Chain, Plan, Problem, Progress, Run, Stats

_NOISE = 1.5  # variance of log w that is worth its price (Doucet, Pitt, Deligiannidis & Kohn 2015)


@dataclass(frozen=True, repr=False)
class Moller(Options):
    """Metropolis whose normalisers are replaced by data that are kept beside the parameters.

    engine: bf.Exact() draws the data from the junction tree; bf.Sampled(burn_in=…) by Gibbs chains of so many sweeps.
    bridges: sets of data for each move; None for as many as keep the noise near its best, F/1.5; 1 is Møller et al.'s.
    scale: of the proposals at the start of warm-up, 1 being best for Metropolis on a Gaussian.
    """

    engine: Exact | Sampled = field(default_factory=Exact)
    bridges: int | None = None
    scale: float = 0.5

    def __post_init__(self) -> None:
        if self.bridges is not None and self.bridges < 1:
            raise InvalidInput(f"bridges is at least 1, or None for as many as are worth it; got {self.bridges}")

    @property
    def target(self) -> float:
        """Below that of Metropolis: the weight's own noise refuses moves of any length."""
        return 0.15

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
                chain.memory = self._weighed(shared, chain.position, chain.uniforms)
            for step, move in enumerate(shared.moves(chain, draws * thin)):
                accepted[c, step // thin] += self._move(shared, chain, move) / thin
                kept[c, step // thin] = chain.position
        return kept, {"acceptance": accepted}

    def _move(self, shared: Drawing, chain: Chain, move: FloatArray) -> bool:
        proposal = chain.position + move
        there = self._weighed(shared, proposal, chain.uniforms)
        ratio = float(there.sum()) - float(chain.memory.sum())
        if not np.log(chain.uniforms.random()) < ratio:  # no number is no reason to move
            return False
        chain.position, chain.memory = proposal, there
        return True

    def _weighed(self, shared: Drawing, parameters: FloatArray, rng: np.random.Generator) -> FloatArray:
        """log prior · g(D|λ) with what is hidden summed over, and log w."""
        away = shared.centre - parameters
        count = self.bridges or max(1, round(len(away) / _NOISE))
        features = [shared.features(parameters + (k / count) * away, rng) for k in range(count)]
        return np.array([unnormalised(shared.objective, parameters), float(away @ np.mean(features, axis=0))])
