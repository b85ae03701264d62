"""From a field and data to draws from the posterior of its parameters."""

import copy
import time
from typing import Any

import numpy as np

from bayesfield.inference import Auto, Bethe, Exact, Sampled
from bayesfield.learning import mrf_objective
from bayesfield.model import Normal, RandomField
from bayesfield.posterior import Posterior, fit
from bayesfield.response.base import require_dense
from bayesfield.samplers.contract import Plan, Problem, Progress, Sampler, new_chains
from bayesfield.samplers.draws import Draws
from bayesfield.samplers.nuts import NUTS
from bayesfield.types import InvalidInput


def sample_posterior(
    field: RandomField,
    X: Any,
    prior: Normal | None = None,
    sampler: Sampler | None = None,
    *,
    draws: int = 1000,
    chains: int = 4,
    warmup: int | None = None,
    thin: int = 1,
    shape: Posterior | None = None,
    seed: int = 0,
    resume: Draws | None = None,
    watch: Progress | None = None,
) -> Draws:
    """Draws of a field's parameters given fully observed cases, by Markov chains.

    X: (N, n) array or DataFrame in the states' own values. prior: by default Normal(variance=1). sampler: bf.NUTS() by
    default; bf.Metropolis(), bf.Exchange() or bf.Langevin(), each with options of its own.

    draws: kept for each chain, every ``thin``-th step. warmup: steps before, which tune step sizes and are not kept;
    by default 300 for NUTS and 50 · F, at least 1,000, for the others. shape: a posterior whose Gaussian gives starts,
    proposals and mass matrix; by default a quick fit. resume: earlier draws to go on from, without warm-up unless
    asked for; the new draws are appended. watch: called with the share of the work done.
    """
    begun = time.perf_counter()
    chosen = NUTS() if sampler is None else sampler
    if not isinstance(chosen, Sampler):
        raise InvalidInput(f"sampler is an object such as bf.NUTS() or bf.Metropolis(); got {chosen!r}")
    if draws < 1 or chains < 1 or thin < 1 or (warmup is not None and warmup < 0):
        raise InvalidInput("draws, chains and thin must be above zero, and warmup not below it")
    problem = _problem(field, X, prior or Normal(variance=1.0), chosen, shape)
    if resume is not None and (resume.sampler != repr(chosen) or resume.values.shape[2] != problem.size):
        raise InvalidInput(
            f"these draws came from {resume.sampler} on {resume.values.shape[2]} parameters: go on alike"
        )
    state = new_chains(problem, chains, seed) if resume is None else copy.deepcopy(resume.chains)
    if warmup is None:
        warmup = 0 if resume is not None and not isinstance(chosen, NUTS) else _warmup(chosen, problem.size)
    run = chosen.run(problem, state, Plan(warmup, draws, thin), watch or (lambda done: None))
    values, stats, seconds = run.draws, run.stats, time.perf_counter() - begun
    if resume is not None:
        values = np.concatenate([resume.values, values], axis=1)
        stats = {name: np.concatenate([resume.stats[name], stats[name]], axis=1) for name in stats}
        warmup, seconds = resume.warmup, resume.seconds + seconds
    return Draws(field, values, stats, run.chains, repr(chosen), warmup, thin, seconds)


def _warmup(sampler: Sampler, size: int) -> int:
    return 300 if isinstance(sampler, NUTS) else max(1000, 50 * size)


def _problem(field: RandomField, X: Any, prior: Normal, sampler: Sampler, shape: Posterior | None) -> Problem:
    require_dense(field.n_parameters, "a sampler's proposals", "Tie parameters, or take bf.fit.")
    engine = getattr(sampler, "engine", None)
    objective = mrf_objective(field, X, prior, engine if engine is not None else Exact())
    if shape is None:
        shape = fit(field, X, prior, _shaping(engine), correction="none", form="dense")
    if len(shape.mean) != field.n_parameters:
        raise InvalidInput(f"the shape has {len(shape.mean)} parameters, the field {field.n_parameters}")
    factor = shape.form.draws(np.eye(field.n_parameters))
    return Problem(objective, shape.mean, factor)


def _shaping(engine: Any) -> Any:
    """The engine of the quick fit: the sampler's own, where that gives a log Z."""
    return Auto() if engine is None or isinstance(engine, Sampled | Bethe) else engine
