"""LV-CD, the paper's Langevin sampler: unadjusted steps along a contrastive-divergence gradient.

λ ← λ + ½ε² M g_k(λ) + ε M^½ η, with g_k the gradient whose expectation comes from k Gibbs sweeps that start at the
data, and M the covariance of the problem's Gaussian. Two errors stay however long it runs: of the gradient (k sweeps
do not reach the model's distribution), and of the step (a Gaussian comes out wider by 1/√(1 − ε²/4)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesfield import parallel
from bayesfield.samplers.contrasts import Contrast, Steps, contrast_of
from bayesfield.samplers.steps import drive
from bayesfield.types import FloatArray, InvalidInput, Options

if TYPE_CHECKING:
    from bayesfield.samplers.contract import Chain, Plan, Problem, Progress, Run, Stats


@dataclass(frozen=True, repr=False)
class Langevin(Options):
    """Unadjusted Langevin steps with a CD-k gradient (LV-CD). Fast, and biased: see the module.

    sweeps: k. step: ε, in standard deviations of the problem's Gaussian; 0.45 widens a Gaussian by 2.6 % and forgets
    in some twenty steps.
    """

    sweeps: int = 1
    step: float = 0.45

    def __post_init__(self) -> None:
        if self.sweeps < 1 or not 0.0 < self.step < 2.0:
            raise InvalidInput(f"sweeps is at least 1 and step lies between 0 and 2; got {self.sweeps} and {self.step}")

    @property
    def target(self) -> None:
        return None

    def run(self, problem: Problem, chains: list[Chain], plan: Plan, watch: Progress) -> Run:
        return drive(self, problem, chains, plan, watch)

    def lanes(self, chains: int) -> int:
        return 1

    def prepare(self, problem: Problem) -> _Shared:
        return _Shared(problem, problem.factor @ problem.factor.T, contrast_of(problem.objective))

    def advance(self, shared: _Shared, chains: list[Chain], draws: int, thin: int) -> tuple[FloatArray, Stats]:
        size = shared.problem.size
        kept = np.empty((len(chains), draws, size))
        for c, chain in enumerate(chains):
            generators = shared.contrast.generators
            if chain.memory is None:
                chain.memory = parallel.chain_seeds(int(chain.uniforms.integers(2**62)), generators)
            if len(chain.memory) != generators:
                raise InvalidInput(
                    f"these chains go on with {generators} generators, and have {len(chain.memory)}: other cases"
                )
            noise = self.step * chain.normals.standard_normal((draws * thin, size)) @ shared.problem.factor.T
            position = chain.position.copy()
            shared.contrast.drift(
                Steps(shared.covariance, noise, self.step, self.sweeps), position, chain.memory, kept[c]
            )
            chain.position = position
        return kept, {}


class _Shared(NamedTuple):
    problem: Problem
    covariance: FloatArray
    contrast: Contrast
