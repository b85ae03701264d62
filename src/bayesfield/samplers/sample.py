"""From a field and data to draws from the posterior of its parameters."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfield.fitting.fields import fit
from bayesfield.fitting.graphs import fit_graphs
from bayesfield.fitting.sequences import fit_sequences
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.learning.objective import Objective, gaussian
from bayesfield.learning.phases.cases import field_objective
from bayesfield.learning.phases.graphs import graph_objective
from bayesfield.learning.phases.sequences import sequence_objective
from bayesfield.model.conditional import CRF, Sequences, as_sequences
from bayesfield.model.graphs import Graphs, as_graphs
from bayesfield.model.prior import Parametrised, Prior, as_prior
from bayesfield.parallel import Cluster
from bayesfield.response.base import require_dense
from bayesfield.samplers.contract import Chain, Plan, Problem, Progress, Run, Sampler, new_chains
from bayesfield.samplers.draws import Draws
from bayesfield.samplers.metropolis import Metropolis
from bayesfield.samplers.nuts import NUTS
from bayesfield.types import InvalidInput

if TYPE_CHECKING:
    from bayesfield.inference.contract import Engine
    from bayesfield.model.field import RandomField
    from bayesfield.posterior.posterior import Posterior

_FULL = 1000  # parameters up to which NUTS takes correlations from the shape, too


def sample_posterior(
    field: RandomField,
    X: Any,
    prior: Prior | None = None,
    sampler: Sampler | None = None,
    *,
    n_draws: int = 1000,
    chains: int | None = None,
    warmup: int | None = None,
    thin: int | None = None,
    shape: Posterior | None = None,
    rng: np.random.Generator | int | None = 0,
    resume: Draws | None = None,
    watch: Progress | None = None,
    client: Any = None,
) -> Draws:
    """Draws of a field's parameters given cases, by Markov chains.

    X: (N, n) array or DataFrame in the states' own values; missing cells and hidden variables are summed over. prior:
    by default Normal(variance=1). sampler: bf.NUTS() by default; bf.Metropolis(), bf.Exchange(), bf.Moller() or
    bf.Langevin(), each with options of its own.

    n_draws: kept for each of the chains (by default 4), every ``thin``-th step (by default every one). warmup: steps
    before, which tune step sizes and are not kept; by default 300 for NUTS and 50 · F, at least 1,000, for the others.
    shape: a posterior whose Gaussian gives starts, proposals and mass matrix; by default a short fit. resume: earlier
    draws of the same posterior to go on from, with as many chains and as thin, without warm-up unless asked for; the
    new draws are appended. watch: called with the share of the work done. client: a dask.distributed.Client, whose
    workers run a chain each; the same numbers.
    """
    chosen, stated = _checked(sampler), _fixed(prior, field)
    engine = getattr(chosen, "engine", None)
    objective = field_objective(field, X, stated, engine or Exact())

    def shaped() -> Posterior:
        return fit(field, X, stated, _shaping(engine), correction="none", form="dense")

    problem = _problem(field, objective, chosen, shape or shaped())
    length = _length(n_draws, chains, warmup, thin, resume)
    return sample_problem(field, problem, chosen, length, _seed(rng), resume, watch, client)


def sample_sequences(
    crf: CRF,
    X: Sequence[Any] | Sequences,
    y: Sequence[Any] | None = None,
    prior: Prior | None = None,
    sampler: Sampler | None = None,
    *,
    Z: Sequence[Any] | None = None,
    n_draws: int = 1000,
    chains: int | None = None,
    warmup: int | None = None,
    thin: int | None = None,
    shape: Posterior | None = None,
    rng: np.random.Generator | int | None = 0,
    resume: Draws | None = None,
    watch: Progress | None = None,
    client: Any = None,
) -> Draws:
    """Draws of a chain CRF's parameters given labelled sequences.

    X, y, Z, prior: as in ``bf.fit_sequences``. sampler: bf.NUTS() or bf.Metropolis(), with exact log Z, bf.Exchange()
    or bf.Moller(), with exact draws, or bf.Langevin(). The rest as in ``bf.sample_posterior``. With more than a
    thousand parameters NUTS takes widths from the shape, not its correlations: a full product would take longer than a
    gradient.
    """
    chosen, stated = _checked(sampler), _fixed(prior, crf)
    data = X if isinstance(X, Sequences) else as_sequences(crf, X, y, Z)
    objective = sequence_objective(crf, data, gaussian(stated, crf))
    if shape is None:
        shape = fit_sequences(crf, data, prior=stated, correction="none", form="dense")
    problem = _problem(crf, objective, chosen, shape)
    length = _length(n_draws, chains, warmup, thin, resume)
    return sample_problem(crf, problem, chosen, length, _seed(rng), resume, watch, client)


def sample_graphs(
    crf: CRF,
    X: Sequence[Any] | Graphs,
    y: Sequence[Any] | None = None,
    prior: Prior | None = None,
    sampler: Sampler | None = None,
    *,
    n_draws: int = 1000,
    chains: int | None = None,
    warmup: int | None = None,
    thin: int | None = None,
    shape: Posterior | None = None,
    rng: np.random.Generator | int | None = 0,
    resume: Draws | None = None,
    watch: Progress | None = None,
    client: Any = None,
) -> Draws:
    """Draws of a CRF's parameters given labelled graphs.

    X, y, prior: as in ``bf.fit_graphs``. sampler: any, with the engine that it has; bf.NUTS() with exact inference by
    default. The rest as in ``bf.sample_posterior``.
    """
    chosen, stated = _checked(sampler), _fixed(prior, crf)
    data = X if isinstance(X, Graphs) else as_graphs(crf, X, y)
    engine = getattr(chosen, "engine", None)
    objective = graph_objective(crf, data, gaussian(stated, crf), engine or Exact())
    if shape is None:
        shape = fit_graphs(crf, data, prior=stated, engine=_shaping(engine), correction="none", form="dense")
    problem = _problem(crf, objective, chosen, shape)
    length = _length(n_draws, chains, warmup, thin, resume)
    return sample_problem(crf, problem, chosen, length, _seed(rng), resume, watch, client)


@dataclass(frozen=True)
class Length:
    """draws: kept for each of the chains, one every ``thin`` steps. warmup: steps before; None for the usual."""

    draws: int = 1000
    chains: int = 4
    warmup: int | None = None
    thin: int = 1

    def options(self) -> dict[str, Any]:
        """As arguments of ``bf.sample_posterior``."""
        return {"n_draws": self.draws, "chains": self.chains, "warmup": self.warmup, "thin": self.thin}

    def __post_init__(self) -> None:
        if self.draws < 1 or self.chains < 1 or self.thin < 1 or (self.warmup is not None and self.warmup < 0):
            raise InvalidInput("n_draws, chains and thin must be above zero, and warmup not below it")


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
    chosen = NUTS() if sampler is None else sampler
    if not isinstance(chosen, Sampler):
        raise InvalidInput(f"sampler is an object such as bf.NUTS() or bf.Metropolis(); got {sampler!r}")
    if isinstance(chosen, NUTS | Metropolis) and not chosen.engine.traits.has_log_z:
        raise InvalidInput(
            f"{chosen!r} needs log Z, which sampling does not give; bf.Exchange(bf.Sampled()) does without, or take "
            "another engine"
        )
    return chosen


def _seed(rng: np.random.Generator | int | None) -> int:
    return rng if isinstance(rng, int) else int(np.random.default_rng(rng).integers(2**31))


def _warmup(sampler: Sampler, size: int) -> int:
    return 300 if isinstance(sampler, NUTS) else max(1000, 50 * size)


def _fixed(prior: Prior | None, model: Parametrised) -> Prior:
    """A prior whose shape does not depend on the data."""
    stated = as_prior(prior)
    if stated.learned(model) or stated.tails(model) is not None:
        raise InvalidInput(
            "samplers take a bf.Normal whose variances are numbers; where the data are to choose them, fit first and "
            "give posterior.prior"
        )
    return stated


def _problem(model: Parametrised, objective: Objective, sampler: Sampler, shape: Posterior) -> Problem:
    """Where the posterior is, and its shape: widths alone where NUTS has very many parameters."""
    size = model.n_parameters
    if len(shape.mean) != size:
        raise InvalidInput(f"the shape has {len(shape.mean)} parameters, the model {size}")
    if size > _FULL and isinstance(sampler, NUTS) and not objective.free.samples:
        return Problem(objective, shape.mean, shape.sd)
    require_dense(size, "a sampler's proposals", "Tie parameters, or take bf.fit.")
    return Problem(objective, shape.mean, shape.form.draws(np.eye(size)))


def _shaping(engine: Engine | None) -> Engine | str:
    """The engine of the short fit: the sampler's own, where that is exact or has a correction."""
    plain = engine is None or not engine.traits.has_log_z or engine.traits.as_published
    return "auto" if plain or engine is None else engine
