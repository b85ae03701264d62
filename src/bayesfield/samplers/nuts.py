"""The no-U-turn sampler with an engine's gradients; the sampler itself is nutpie's.

It works in coordinates z with λ = centre + factor·z, in which the posterior is about a standard normal, so that the
mass matrix starts out right and trajectories are short.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfield import parallel
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.kernels.likelihood import density
from bayesfield.samplers.contract import Chain, Plan, Problem, Progress, Run
from bayesfield.samplers.density import fast_target, pack
from bayesfield.types import FloatArray, InvalidInput, Options

if TYPE_CHECKING:
    from bayesfield.inference.contract import Engine
    from bayesfield.learning.objective import Objective

_STATS = {
    "logp": "log_density",
    "energy": "energy",
    "n_steps": "gradients",
    "step_size": "step_size",
    "diverging": "diverging",
}


@dataclass(frozen=True, repr=False)
class NUTS(Options):
    """Hamiltonian Monte Carlo without U-turns (nutpie). With bf.Exact() the ground truth of the comparisons.

    engine: gives value and gradient. accept: the acceptance that warm-up tunes the step for.
    """

    engine: Engine = field(default_factory=Exact)
    accept: float = 0.8

    def run(self, problem: Problem, chains: list[Chain], plan: Plan, watch: Progress) -> Run:
        """Chains go on from where they stand, with a step size tuned anew: not the same numbers as in one long run."""
        nutpie = _nutpie()
        objective = problem.objective.with_engine(self.engine)
        objective.at(problem.centre)  # compiled and planned before threads ask for it
        if not problem.size:
            return Run(np.empty((len(chains), plan.draws, 0)), {}, chains)
        seeds = [int(chain.uniforms.integers(2**31)) for chain in chains]
        finished: list[int] = []

        def one(k: int) -> Any:
            trace = self._trace(nutpie, objective, problem, chains[k].position, seeds[k], plan)
            finished.append(k)
            watch(len(finished) / len(chains))
            return trace

        return _collect(parallel.thread_map(one, range(len(chains))), problem, chains, plan)

    def _trace(
        self, nutpie: Any, objective: Objective, problem: Problem, start: FloatArray, seed: int, plan: Plan
    ) -> Any:
        """One chain: so its numbers depend on its own seed only, on any number of threads."""
        first = problem.coordinates(start)
        model = nutpie.compiled_pyfunc.from_pyfunc(
            problem.size,
            lambda: _density(objective, problem),
            lambda *seeds: lambda z: {"z": z},
            [np.dtype("float64")],
            [(problem.size,)],
            ["z"],
            make_initial_point_fn=lambda seed: first,
        )
        return nutpie.sample(
            model,
            draws=plan.draws * plan.thin,
            tune=plan.warmup,
            chains=1,
            cores=1,
            seed=seed,
            target_accept=self.accept,
            save_warmup=False,
            progress_bar=False,
        )


def _density(objective: Objective, problem: Problem) -> Callable[[FloatArray], tuple[float, FloatArray]]:
    """log posterior and its gradient in z; in one compiled call where the engine is exact."""
    engine = objective.free.engine
    target = fast_target(objective, engine) if engine.traits.batched else None
    wide = problem.factor.ndim == 2
    turned = np.ascontiguousarray(problem.factor.T)

    def log_density(z: FloatArray) -> tuple[float, FloatArray]:
        point = objective.at(problem.place(z))
        return -point.value, -(turned @ point.gradient if wide else turned * point.gradient)

    if target is None or not wide:
        return log_density
    packed = pack(target, problem.centre, problem.factor)

    def compiled_density(z: FloatArray) -> tuple[float, FloatArray]:
        gradient = np.empty(len(z))
        return density.log_density(packed, z, gradient), gradient

    return compiled_density


def _collect(traces: list[Any], problem: Problem, chains: list[Chain], plan: Plan) -> Run:
    def stacked(group: str, name: str) -> FloatArray:
        values = [trace[group][name].values[0, plan.thin - 1 :: plan.thin] for trace in traces]
        return np.stack(values).astype(np.float64)

    draws = problem.place(stacked("posterior", "z"))
    for chain, own in zip(chains, draws, strict=True):
        chain.position = own[-1]
    return Run(draws, {ours: stacked("sample_stats", theirs) for theirs, ours in _STATS.items()}, chains)


def _nutpie() -> Any:
    try:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ArviZ announces its next version at import
            import nutpie
            import nutpie.compiled_pyfunc
    except ImportError:
        raise InvalidInput(
            'NUTS needs the package nutpie: pip install "bayesfield[samplers]"; bf.Metropolis() needs no other package'
        ) from None
    return nutpie
