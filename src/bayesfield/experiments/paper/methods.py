"""The methods of the comparison: draws from each one's posterior, what they cost, and whether it ended well.

Seconds are those of the processor, so that they mean the same on a busy machine and with any number of jobs.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from bayesfield import diagnostics
from bayesfield.fitting.fields import fit
from bayesfield.fitting.sequences import fit_sequences
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.samplers.nuts import NUTS
from bayesfield.samplers.sample import Length, sample_posterior, sample_sequences
from bayesfield.types import FitWarning, FloatArray, IndefiniteCurvature

if TYPE_CHECKING:
    from bayesfield.model.conditional import CRF, Sequences
    from bayesfield.model.field import RandomField
    from bayesfield.model.prior import Normal
    from bayesfield.posterior.posterior import Posterior
    from bayesfield.samplers.contract import Sampler
    from bayesfield.samplers.draws import Draws

AGREED = 1.1  # MPSRF below which restarts agree
MIXED = 1.05  # the largest R-hat below which exact samplers do
_PILOT = 400  # draws of each chain from which the autocorrelation time is read
_APART = 10.0  # MPSRF of the pilot beyond which chains live in different places


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
    exact_draws: int = 2000  # in all, of samplers that are exact and slow, where there are enough to be compared
    exact_thin: float = 1.0  # times their autocorrelation time that these are thinned by


QUICK = Scale(
    "quick",
    models=1,
    sets=1,
    draws=2000,
    restarts=4,
    exchange_draws=40,
    exchange_thin=50,
    patience=1,
    exact_draws=400,
    exact_thin=0.2,
)
PAPER = Scale("paper", models=5, sets=10, draws=10_000, restarts=5, exchange_draws=200, exchange_thin=250)
PRACTICE = Scale(
    "practice",
    models=1,
    sets=1,
    draws=10,
    restarts=2,
    exchange_draws=16,
    exchange_thin=1,
    patience=1,
    exact_draws=16,
    exact_thin=0.0,
)
SCALES = {scale.name: scale for scale in (QUICK, PAPER)}


class Problem(Protocol):
    """Data with a model and a prior. shape: exact Laplace: starts, proposals and mass matrices of all chains."""

    @property
    def shape(self) -> Posterior: ...

    def fit(self, rng: np.random.Generator, **options: Any) -> Posterior:
        """A Gaussian posterior, by these options."""
        ...

    def sample(self, sampler: Sampler, length: Length, seed: int) -> Draws:
        """Chains from the posterior."""
        ...


class FieldProblem(NamedTuple):
    field: RandomField
    X: Any
    prior: Normal
    shape: Posterior

    def fit(self, rng: np.random.Generator, **options: Any) -> Posterior:
        return fit(self.field, self.X, self.prior, rng=rng, **options)

    def sample(self, sampler: Sampler, length: Length, seed: int) -> Draws:
        return sample_posterior(self.field, self.X, self.prior, sampler, shape=self.shape, rng=seed, **length.options())


class ChainProblem(NamedTuple):
    crf: CRF
    data: Sequences
    prior: Normal
    shape: Posterior

    def fit(self, rng: np.random.Generator, **options: Any) -> Posterior:
        return fit_sequences(self.crf, self.data, prior=self.prior, rng=rng, **options)

    def sample(self, sampler: Sampler, length: Length, seed: int) -> Draws:
        options = length.options()
        return sample_sequences(
            self.crf, self.data, prior=self.prior, sampler=sampler, shape=self.shape, rng=seed, **options
        )


class Outcome(NamedTuple):
    """draws: (sets, draws, F), or None where the method gave no posterior. mpsrf: of the chains, else NaN."""

    draws: FloatArray | None
    seconds: float
    converged: bool
    mpsrf: float = float("nan")
    note: str = ""


Method = Callable[[Problem, Scale, np.random.SeedSequence], Outcome]


def fitted(**options: Any) -> Method:
    """A Gaussian posterior by these options, and draws from it."""

    def run(problem: Problem, scale: Scale, seed: np.random.SeedSequence) -> Outcome:
        begun, rng = time.process_time(), np.random.default_rng(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)  # the table says it
            try:
                posterior = problem.fit(rng, **options)
            except IndefiniteCurvature as error:
                return Outcome(None, time.process_time() - begun, False, note=str(error))
        draws = posterior.sample(scale.sets * scale.draws, rng).reshape(scale.sets, scale.draws, -1)
        record = posterior.record
        ended = record.status.converged and record.inference.converged and record.correction.settled
        note = f"{record.status}; correction {record.correction}"
        return Outcome(draws, time.process_time() - begun, ended, note=note)

    return run


def chained(sampler: Sampler, warmup: int, guess: int) -> Method:
    """Chains from restarts, thinned by the mean autocorrelation time of a pilot run. guess: of that time, roughly.

    Thinning ends at ``patience`` times the guess: where chains hardly mix MPSRF says so, and more would take hours.
    Chains that never meet are thinned as little as the pilot: no length of theirs would bring MPSRF to 1.1.
    """

    def run(problem: Problem, scale: Scale, seed: np.random.SeedSequence) -> Outcome:
        begun, start = time.process_time(), int(seed.generate_state(1)[0])
        step = max(1, guess // 5)
        pilot = problem.sample(sampler, Length(_PILOT, scale.restarts, warmup, step), start)
        times = step * diagnostics.autocorrelation_time(pilot.values)
        apart = diagnostics.multivariate_r_hat(pilot.values) > _APART
        thin = step if apart else min(int(np.ceil(np.nanmean(times))), scale.patience * guess)
        each = -(-scale.sets * scale.draws // scale.restarts)
        made = problem.sample(sampler, Length(each, scale.restarts, warmup, thin), start + 1)
        seconds = time.process_time() - begun
        mpsrf = diagnostics.multivariate_r_hat(made.values)
        unsettled = float(np.mean(made.stats.get("unsettled", np.zeros(1))))
        note = f"thinned by {thin}" + (", as chains never meet" if apart else "")
        note += f"; {unsettled:.1%} of the moves had no log Z" if unsettled else ""
        return Outcome(_sets(made.flat, scale.sets, scale.draws), seconds, mpsrf < AGREED, mpsrf, note)

    return run


def few_steps(sampler: Sampler) -> Method:
    """An exact sampler whose steps are dear: one set, of fewer draws, as a check on the reference.

    So few cannot bring the multivariate factor to 1.1, with 65 parameters: the largest R-hat of any stands for it.
    """

    def run(problem: Problem, scale: Scale, seed: np.random.SeedSequence) -> Outcome:
        begun, thin = time.process_time(), scale.exchange_thin
        each = -(-scale.exchange_draws // scale.restarts)
        made = problem.sample(sampler, Length(each, scale.restarts, 10 * thin, thin), int(seed.generate_state(1)[0]))
        mpsrf, worst = diagnostics.multivariate_r_hat(made.values), float(np.nanmax(diagnostics.r_hat(made.values)))
        note = f"one set of {len(made.flat)} draws, thinned by {thin}; largest R-hat {worst:.2f}"
        return Outcome(made.flat[None], time.process_time() - begun, worst < AGREED, mpsrf, note)

    return run


def exact_chains(sampler: Sampler, thin: int, share: float = 1.0) -> Method:
    """An exact sampler, from restarts: one set of draws, enough for R-hat to tell.

    thin: about its autocorrelation time. share: of the scale's number of such draws.
    """

    def run(problem: Problem, scale: Scale, seed: np.random.SeedSequence) -> Outcome:
        begun = time.process_time()
        each = -(-round(share * scale.exact_draws) // scale.restarts)
        own = max(1, round(scale.exact_thin * thin))
        length = Length(each, scale.restarts, 20 * own, own)
        made = problem.sample(sampler, length, int(seed.generate_state(1)[0]))
        mpsrf, worst = diagnostics.multivariate_r_hat(made.values), float(np.nanmax(diagnostics.r_hat(made.values)))
        note = f"one set of {len(made.flat)} draws, thinned by {own}; largest R-hat {worst:.3f}"
        return Outcome(made.flat[None], time.process_time() - begun, worst < MIXED, mpsrf, note)

    return run


def reference(problem: Problem, scale: Scale, seed: np.random.SeedSequence) -> Outcome:
    """NUTS with exact gradients: one set more than the scale asks for, so that each has another to be compared with."""
    begun = time.process_time()
    each = -(-(scale.sets + 1) * scale.draws // scale.restarts)
    made = problem.sample(NUTS(Exact()), Length(each, scale.restarts), int(seed.generate_state(1)[0]))
    mpsrf = diagnostics.multivariate_r_hat(made.values)
    draws = _sets(made.flat, scale.sets + 1, scale.draws)
    return Outcome(draws, time.process_time() - begun, mpsrf < AGREED, mpsrf)


def _sets(flat: FloatArray, sets: int, draws: int) -> FloatArray:
    return flat[: sets * draws].reshape(sets, draws, -1)
