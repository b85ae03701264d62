"""LV-CD, the paper's Langevin sampler: unadjusted steps along a contrastive-divergence gradient.

λ ← λ + ½ε² M g_k(λ) + ε M^½ η, with g_k the gradient whose expectation comes from k Gibbs sweeps that start at the
data, and M the covariance of the problem's Gaussian. Two errors stay however long it runs: of the gradient (k sweeps
do not reach the model's distribution), and of the step (a Gaussian comes out wider by 1/√(1 − ε²/4)).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayesfield import parallel
from bayesfield.graph import counts
from bayesfield.kernels import gibbs, langevin
from bayesfield.kernels.gibbs_single import HALF, WIDTH
from bayesfield.learning import FieldObjective
from bayesfield.samplers.contract import Chain, Plan, Problem, Progress, Run, Stats
from bayesfield.samplers.density import of_field
from bayesfield.samplers.steps import drive
from bayesfield.types import FloatArray, InvalidInput, Options


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

    def prepare(self, problem: Problem) -> "_Shared":
        objective = of_field(problem.objective)
        finite = bool(np.isfinite(objective.field.design.offset).all())
        fast = _contrast(objective) if objective.field.graph.binary_pairs and finite and objective.weight else None
        return _Shared(problem, objective, problem.factor @ problem.factor.T, fast)

    def advance(self, shared: "_Shared", chains: list[Chain], draws: int, thin: int) -> tuple[FloatArray, Stats]:
        size = shared.problem.size
        kept = np.empty((len(chains), draws, size))
        for c, chain in enumerate(chains):
            if chain.memory is None:
                chain.memory = parallel.chain_seeds(int(chain.uniforms.integers(2**62)), self._generators(shared))
            noise = self.step * chain.normals.standard_normal((draws * thin, size)) @ shared.problem.factor.T
            position = chain.position.copy()
            if shared.fast is not None:
                langevin.drift(
                    shared.fast, shared.covariance, noise, self.step, self.sweeps, position, chain.memory, kept[c]
                )
            else:
                self._drift_slowly(shared, noise, position, chain.memory, kept[c])
            chain.position = position
        return kept, {}

    def _generators(self, shared: "_Shared") -> int:
        return HALF if shared.fast is not None else max(len(shared.objective.codes), 1)

    def _drift_slowly(
        self, shared: "_Shared", noise: FloatArray, x: FloatArray, seeds: np.ndarray, kept: FloatArray
    ) -> None:
        """The same for any tables: a Gibbs chain for each case."""
        objective, thin = shared.objective, len(noise) // len(kept)
        graph, design = objective.field.graph, objective.field.design
        data = objective.codes.astype(np.int32)
        unused = np.zeros(graph.n_entries)
        for k in range(len(noise)):
            states = data.copy()
            gibbs.sweep_chains(graph.arrays, design.potentials(x), states, seeds, self.sweeps, unused)
            mean = design.expectations(counts(graph, states.astype(np.int64))) / max(len(data), 1)
            x += 0.5 * self.step**2 * (shared.covariance @ -objective.gradient(x, mean)) + noise[k]
            kept[k // thin] = x


class _Shared(NamedTuple):
    problem: Problem
    objective: FieldObjective
    covariance: FloatArray
    fast: langevin.Contrast | None


def _contrast(objective: FieldObjective) -> langevin.Contrast:
    design, codes = objective.field.design, objective.codes
    batches = -(-len(codes) // WIDTH)
    data = np.zeros((batches * WIDTH, codes.shape[1]), dtype=np.float32)
    data[: len(codes)] = codes
    precision = objective.precision
    return langevin.Contrast(
        graph=objective.field.graph.arrays,
        data=np.ascontiguousarray(data.reshape(batches, WIDTH, -1).transpose(0, 2, 1)),
        cases=len(codes),
        row_ptr=design.matrix.indptr.astype(np.int64),
        column=design.matrix.indices.astype(np.int64),
        value=design.matrix.data,
        offset=design.offset,
        statistic=objective.statistic,
        location=objective.location,
        precision=precision if precision.ndim == 2 else np.diag(precision),
    )
