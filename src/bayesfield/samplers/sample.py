"""From a field and data to draws from the posterior of its parameters."""

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bayesfield.fitting.fields import fit
from bayesfield.fitting.sequences import fit_sequences
from bayesfield.inference.auto import Auto
from bayesfield.inference.messages.belief_propagation import Bethe
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.learning.phases.hidden import mrf_objective
from bayesfield.learning.phases.hidden_chain import sequence_objective
from bayesfield.model.conditional import CRF, Sequences, as_sequences
from bayesfield.model.field import RandomField
from bayesfield.model.prior import Parametrised, Prior, as_prior
from bayesfield.parallel import Cluster
from bayesfield.posterior.posterior import Posterior
from bayesfield.response.base import require_dense
from bayesfield.samplers.contract import Chain, Plan, Problem, Progress, Run, Sampler, new_chains
from bayesfield.samplers.draws import Draws
from bayesfield.samplers.langevin import Langevin
from bayesfield.samplers.metropolis import Metropolis
from bayesfield.samplers.nuts import NUTS
from bayesfield.types import InvalidInput

_FULL = 1000  # parameters up to which NUTS takes correlations from the shape, too


def sample_posterior(
    field: RandomField,
    X: Any,
    prior: Prior | None = None,
    sampler: Sampler | None = None,
    *,
    draws: int = 1000,
    chains: int | None = None,
    warmup: int | None = None,
    thin: int | None = None,
    shape: Posterior | None = None,
    seed: int = 0,
    resume: Draws | None = None,
    watch: Progress | None = None,
    client: Any = None,
) -> Draws:
    """Draws of a field's parameters given cases, by Markov chains.

    X: (N, n) array or DataFrame in the states' own values; missing cells and hidden variables are summed over. prior:
    by default Normal(variance=1). sampler: bf.NUTS() by default; bf.Metropolis(), bf.Exchange() or bf.Langevin(), each
    with options of its own.

    draws: kept for each of the chains (by default 4), every ``thin``-th step (by default every one). warmup: steps
    before, which tune step sizes and are not kept; by default 300 for NUTS and 50 · F, at least 1,000, for the others.
    shape: a posterior whose Gaussian gives starts, proposals and mass matrix; by default a quick fit. resume: earlier
    draws of the same posterior to go on from, with as many chains and as thin, without warm-up unless asked for; the
    new draws are appended. watch: called with the share of the work done. client: a dask.distributed.Client, whose
    workers run a chain each; the same numbers.
    """
    chosen = NUTS() if sampler is None else sampler
    problem = _problem(field, X, _fixed(prior, field), _checked(chosen), shape)
    length = _length(draws, chains, warmup, thin, resume)
    return sample_problem(field, problem, chosen, length, seed, resume, watch, client)


def sample_sequences(
    crf: CRF,
    X: Sequence[Any] | Sequences,
    y: Sequence[Any] | None = None,
    prior: Prior | None = None,
    sampler: Sampler | None = None,
    *,
    Z: Sequence[Any] | None = None,
    draws: int = 1000,
    chains: int | None = None,
    warmup: int | None = None,
    thin: int | None = None,
    shape: Posterior | None = None,
    seed: int = 0,
    resume: Draws | None = None,
    watch: Progress | None = None,
    client: Any = None,
) -> Draws:
    """Draws of a chain CRF's parameters given labelled sequences.

    X, y, Z, prior: as in ``bf.fit_sequences``. sampler: bf.NUTS() or bf.Metropolis(), with exact log Z, or
    bf.Langevin(). The rest as in ``bf.sample_posterior``. With more than a thousand parameters NUTS takes widths from
    the shape, not its correlations: a full product would take longer than a gradient.
    """
    chosen = NUTS() if sampler is None else sampler
    if not isinstance(chosen, NUTS | Metropolis | Langevin):
        raise InvalidInput(f"chains of labels have bf.NUTS(), bf.Metropolis() and bf.Langevin(); got {chosen!r}")
    given, data = _fixed(prior, crf), X if isinstance(X, Sequences) else as_sequences(crf, X, y, Z)
    objective = sequence_objective(crf, data, given)
    if shape is None:
        shape = fit_sequences(crf, data, prior=given, correction="none", form="dense")
    small = crf.n_parameters <= _FULL or not isinstance(chosen, NUTS)
    problem = Problem(objective, shape.mean, shape.form.draws(np.eye(crf.n_parameters)) if small else shape.sd)
    length = _length(draws, chains, warmup, thin, resume)
    return sample_problem(crf, problem, chosen, length, seed, resume, watch, client)


@dataclass(frozen=True)
class Length:
    """draws: kept for each of the chains, one every ``thin`` steps. warmup: steps before; None for the usual."""

    draws: int = 1000
    chains: int = 4
    warmup: int | None = None
    thin: int = 1

    def __post_init__(self) -> None:
        if self.draws < 1 or self.chains < 1 or self.thin < 1 or (self.warmup is not None and self.warmup < 0):
            raise InvalidInput("draws, chains and thin must be above zero, and warmup not below it")


def _length(draws: int, chains: int | None, warmup: int | None, thin: int | None, resume: Draws | None) -> Length:
    """What was asked for; where draws are to be gone on with, as they were."""
    if resume is None:
        return Length(draws, 4 if chains is None else chains, warmup, 1 if thin is None else thin)
    known = {"chains": len(resume.chains), "thin": resume.thin}
    for (name, had), wanted in zip(known.items(), (chains, thin), strict=True):
        if wanted not in (None, had):
            raise InvalidInput(f"these draws have {name}={had}, and go on alike; got {name}={wanted}")
    return Length(draws, warmup=warmup, **known)


def sample_problem(
    model: Parametrised,
    problem: Problem,
    sampler: Sampler,
    length: Length,
    seed: int = 0,
    resume: Draws | None = None,
    watch: Progress | None = None,
    client: Any = None,
) -> Draws:
    """Draws of a model's parameters. seed, resume, watch, client: as in ``sample_posterior``."""
    begun, warmup, target = time.perf_counter(), length.warmup, problem.fingerprint()
    if resume is not None and (resume.sampler != repr(sampler) or resume.values.shape[2] != problem.size):
        raise InvalidInput(
            f"these draws came from {resume.sampler} on {resume.values.shape[2]} parameters: go on alike"
        )
    if resume is not None and resume.target not in ("", target):
        raise InvalidInput("these draws are of another posterior (other cases, or another prior): begin anew")
    state = new_chains(problem, length.chains, seed) if resume is None else copy.deepcopy(resume.chains)
    if warmup is None:
        warmup = 0 if resume is not None and not isinstance(sampler, NUTS) else _warmup(sampler, problem.size)
    plan, tell = Plan(warmup, length.draws, length.thin), watch or (lambda done: None)
    if client is None:
        run = sampler.run(problem, state, plan, tell)
    else:
        run = _apart(sampler, problem, state, plan, tell, client)
    values, stats, seconds = run.draws, run.stats, time.perf_counter() - begun
    if resume is not None:
        values = np.concatenate([resume.values, values], axis=1)
        stats = {name: np.concatenate([resume.stats[name], stats[name]], axis=1) for name in stats}
        warmup, seconds = resume.warmup, resume.seconds + seconds
    return Draws(model, values, stats, run.chains, repr(sampler), warmup, length.thin, seconds, target)


def _apart(sampler: Sampler, problem: Problem, chains: list[Chain], plan: Plan, watch: Progress, client: Any) -> Run:
    """Every chain on a worker."""
    call = partial(_alone, sampler, problem, plan)
    runs = Cluster(client).map(call, chains, lambda done: watch(done / len(chains)))
    stats = {name: np.concatenate([run.stats[name] for run in runs]) for name in runs[0].stats}
    return Run(np.concatenate([run.draws for run in runs]), stats, [chain for run in runs for chain in run.chains])


def _alone(sampler: Sampler, problem: Problem, plan: Plan, chain: Chain) -> Run:
    return sampler.run(problem, [chain], plan, lambda done: None)


def _checked(sampler: Any) -> Any:
    if not isinstance(sampler, Sampler):
        raise InvalidInput(f"sampler is an object such as bf.NUTS() or bf.Metropolis(); got {sampler!r}")
    if isinstance(sampler, NUTS | Metropolis) and isinstance(sampler.engine, Sampled):
        raise InvalidInput(
            f"{sampler!r} needs log Z, which sampling does not give; bf.Exchange(bf.Sampled()) does without, or take "
            "another engine"
        )
    return sampler


def _warmup(sampler: Sampler, size: int) -> int:
    return 300 if isinstance(sampler, NUTS) else max(1000, 50 * size)


def _fixed(prior: Prior | None, field: Parametrised) -> Prior:
    """A prior whose shape does not depend on the data."""
    known = as_prior(prior)
    if known.learned(field) or known.tails(field) is not None:
        raise InvalidInput(
            "samplers take a bf.Normal whose variances are numbers; where the data are to choose them, fit first and "
            "give posterior.prior"
        )
    return known


def _problem(field: RandomField, X: Any, prior: Prior, sampler: Sampler, shape: Posterior | None) -> Problem:
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
