"""The no-U-turn sampler with an engine's gradients; the sampler itself is nutpie's.

It works in coordinates z with λ = centre + factor·z, in which the posterior is about a standard normal, so that the
mass matrix starts out right and trajectories are short.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bayesfield import parallel
from bayesfield.inference import Engine, Exact
from bayesfield.learning import Objective
from bayesfield.samplers.contract import Chain, Plan, Problem, Progress, Run, Stats
from bayesfield.types import FloatArray, InvalidInput, Options

_STATS = {"logp": "log_density", "energy": "energy", "n_steps": "gradients", "step_size": "step_size"}
_NUDGE = 0.05  # sd of the scatter around a chain's start, as nutpie wants distinct points


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
        objective = replace(problem.objective, engine=self.engine)
        objective.at(problem.centre)  # compiled and planned before threads ask for it
        if not problem.size:
            return Run(np.empty((len(chains), plan.draws, 0)), {}, chains)
        starts = iter([np.linalg.solve(problem.factor, c.position - problem.centre) for c in chains])
        model = nutpie.compiled_pyfunc.from_pyfunc(
            problem.size,
            lambda: _density(objective, problem),
            lambda *seeds: lambda z: {"z": z},
            [np.dtype("float64")],
            [(problem.size,)],
            ["z"],
            make_initial_point_fn=lambda seed: next(starts),
        )
        trace = nutpie.sample(
            model,
            draws=plan.draws * plan.thin,
            tune=plan.warmup,
            chains=len(chains),
            cores=min(parallel.cores(), len(chains)),
            seed=int(chains[0].uniforms.integers(2**31)),
            target_accept=self.accept,
            save_warmup=False,
            progress_bar=False,
        )
        watch(1.0)
        return _collect(trace, problem, chains, plan)


def _density(objective: Objective, problem: Problem) -> Callable[[FloatArray], tuple[float, FloatArray]]:
    """log posterior and its gradient in z."""
    turned = np.ascontiguousarray(problem.factor.T)

    def log_density(z: FloatArray) -> tuple[float, FloatArray]:
        point = objective.at(problem.centre + problem.factor @ z)
        return -point.value, -(turned @ point.gradient)

    return log_density


def _collect(trace: Any, problem: Problem, chains: list[Chain], plan: Plan) -> Run:
    z = trace.posterior["z"].values[:, plan.thin - 1 :: plan.thin]
    draws = problem.centre + z @ problem.factor.T
    for chain, own in zip(chains, draws, strict=True):
        chain.position = own[-1] if len(own) else chain.position
    found = trace.sample_stats
    stats: Stats = {
        ours: found[theirs].values[:, plan.thin - 1 :: plan.thin].astype(float) for theirs, ours in _STATS.items()
    }
    stats["diverging"] = found["diverging"].values[:, plan.thin - 1 :: plan.thin].astype(float)
    return Run(draws, stats, chains)


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
