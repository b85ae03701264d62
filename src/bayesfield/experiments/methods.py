"""The methods of the comparison: draws from each one's posterior, what they cost, and whether it ended well.

Seconds are those of the processor, so that they mean the same on a busy machine and with any number of jobs.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bayesfield import diagnostics
from bayesfield.inference import Bethe, Exact, Kikuchi, Sampled
from bayesfield.learning import PseudoLikelihood
from bayesfield.model import Normal, RandomField
from bayesfield.posterior import Posterior, fit
from bayesfield.samplers import NUTS, Exchange, Langevin, Metropolis, Sampler, sample_posterior
from bayesfield.types import FitWarning, FloatArray, IndefiniteCurvature

AGREED = 1.1  # MPSRF below which restarts agree
_PILOT = 400  # draws of each chain from which the autocorrelation time is read


@dataclass(frozen=True)
class Scale:
    """How much of everything: repetitions, sets of draws, chains. The paper's own, or quick."""

    name: str
    models: int
    sets: int
    draws: int  # of a set
    restarts: int
    exchange_draws: int  # in all: each costs N drawn cases a step
    exchange_thin: int
    patience: int = 2  # times its usual autocorrelation time that a chain is thinned by at most


QUICK = Scale("quick", models=1, sets=1, draws=2000, restarts=4, exchange_draws=40, exchange_thin=50, patience=1)
PAPER = Scale("paper", models=5, sets=10, draws=10_000, restarts=5, exchange_draws=200, exchange_thin=250)
SCALES = {scale.name: scale for scale in (QUICK, PAPER)}


class Problem(NamedTuple):
    field: RandomField
    X: Any
    prior: Normal
    shape: Posterior  # exact Laplace: starts, proposals and mass matrices of all chains


class Outcome(NamedTuple):
    """draws: (sets, draws, F), or None where the method gave no posterior. mpsrf: of the chains, else NaN."""

    draws: FloatArray | None
    seconds: float
    converged: bool
    mpsrf: float = float("nan")
    note: str = ""


Method = Callable[[Problem, Scale, np.random.SeedSequence], Outcome]


def fitted(**options: Any) -> Method:
    """A Gaussian posterior by ``bf.fit`` with these options, and draws from it."""

    def run(problem: Problem, scale: Scale, seed: np.random.SeedSequence) -> Outcome:
        begun, rng = time.process_time(), np.random.default_rng(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)  # the table says it
            try:
                posterior = fit(problem.field, problem.X, problem.prior, rng=rng, **options)
            except IndefiniteCurvature as error:
                return Outcome(None, time.process_time() - begun, False, note=str(error))
        draws = posterior.sample(scale.sets * scale.draws, rng).reshape(scale.sets, scale.draws, -1)
        ended = posterior.record.status.converged and posterior.record.inference.converged
        return Outcome(draws, time.process_time() - begun, ended, note=str(posterior.record.status))

    return run


def chained(sampler: Sampler, warmup: int, guess: int) -> Method:
    """Chains from restarts, thinned by the mean autocorrelation time of a pilot run. guess: of that time, roughly.

    Thinning ends at ``patience`` times the guess: where chains hardly mix MPSRF says so, and more would take hours.
    """

    def run(problem: Problem, scale: Scale, seed: np.random.SeedSequence) -> Outcome:
        begun, start = time.process_time(), int(seed.generate_state(1)[0])
        settings: Any = {"prior": problem.prior, "sampler": sampler, "shape": problem.shape, "chains": scale.restarts}
        step = max(1, guess // 5)
        pilot = sample_posterior(
            problem.field, problem.X, draws=_PILOT, thin=step, warmup=warmup, seed=start, **settings
        )
        times = step * diagnostics.autocorrelation_time(pilot.values)
        thin = min(int(np.ceil(np.nanmean(times))), scale.patience * guess)
        each = -(-scale.sets * scale.draws // scale.restarts)
        made = sample_posterior(
            problem.field, problem.X, draws=each, thin=thin, warmup=warmup, seed=start + 1, **settings
        )
        seconds = time.process_time() - begun
        mpsrf = diagnostics.multivariate_r_hat(made.values)
        unsettled = float(np.mean(made.stats.get("unsettled", np.zeros(1))))
        note = f"thinned by {thin}" + (f"; {unsettled:.1%} of the moves had no log Z" if unsettled else "")
        return Outcome(_sets(made.flat, scale.sets, scale.draws), seconds, mpsrf < AGREED, mpsrf, note)

    return run


def exchange(problem: Problem, scale: Scale, seed: np.random.SeedSequence) -> Outcome:
    """Exact, but each step draws N cases: one set, of fewer draws, as a check on the reference."""
    begun = time.process_time()
    made = sample_posterior(
        problem.field,
        problem.X,
        problem.prior,
        Exchange(),
        draws=-(-scale.exchange_draws // scale.restarts),
        chains=scale.restarts,
        warmup=10 * scale.exchange_thin,
        thin=scale.exchange_thin,
        shape=problem.shape,
        seed=int(seed.generate_state(1)[0]),
    )
    mpsrf = diagnostics.multivariate_r_hat(made.values)
    note = f"one set of {len(made.flat)} draws, thinned by {scale.exchange_thin}"
    return Outcome(made.flat[None], time.process_time() - begun, mpsrf < AGREED, mpsrf, note)


def reference(problem: Problem, scale: Scale, seed: np.random.SeedSequence) -> Outcome:
    """NUTS with exact gradients: one set more than the scale asks for, so that each has another to be compared with."""
    begun = time.process_time()
    made = sample_posterior(
        problem.field,
        problem.X,
        problem.prior,
        NUTS(Exact()),
        draws=-(-(scale.sets + 1) * scale.draws // scale.restarts),
        chains=scale.restarts,
        shape=problem.shape,
        seed=int(seed.generate_state(1)[0]),
    )
    mpsrf = diagnostics.multivariate_r_hat(made.values)
    draws = _sets(made.flat, scale.sets + 1, scale.draws)
    return Outcome(draws, time.process_time() - begun, mpsrf < AGREED, mpsrf)


def _sets(flat: FloatArray, sets: int, draws: int) -> FloatArray:
    return flat[: sets * draws].reshape(sets, draws, -1)


PAPERS: dict[str, Method] = {
    "BL-MP": fitted(engine=Exact(), response=Bethe()),
    "BL-BP": fitted(engine=Bethe()),
    "LV-CD": chained(Langevin(), warmup=1000, guess=20),
    "MC-BP": chained(Metropolis(Bethe()), warmup=5000, guess=250),
}
OURS: dict[str, Method] = {
    "Kikuchi + correction": fitted(engine=Kikuchi(), correction="auto"),
    "Sampled": fitted(engine=Sampled()),
    "PL naive": fitted(method=PseudoLikelihood(covariance="naive")),
    "PL sandwich": fitted(method=PseudoLikelihood()),
    "exchange": exchange,
}
METHODS = {**PAPERS, **OURS}
