"""From a field and data to its posterior."""

import time
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from bayesfield.correction.sampled import sampled_variational
from bayesfield.correction.second_order import CorrectionRecord, bends, mean_shift, sampled_shift
from bayesfield.correction.skewness import field_skewness, sampled_features
from bayesfield.correction.variational import variational
from bayesfield.fitting.learners import Learner, as_method, for_evidence, learn, uncorrected
from bayesfield.fitting.optimum import (
    Corrected,
    Found,
    checked_start,
    dense_precision,
    fit_record,
    precision_at,
    resolved,
    warn_of,
)
from bayesfield.fitting.plan import SAMPLED, correction_kind, picked, precision_form, search_method
from bayesfield.fitting.prior_learning import adapted
from bayesfield.inference.auto import Auto
from bayesfield.inference.by_name import as_engine
from bayesfield.inference.contract import Engine
from bayesfield.inference.messages.belief_propagation import Bethe
from bayesfield.inference.messages.kikuchi import Kikuchi
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.learning.objective import FieldObjective
from bayesfield.learning.phases.composite import PseudoLikelihood, pseudo_likelihood_map
from bayesfield.learning.phases.hidden import HiddenObjective, mrf_objective
from bayesfield.learning.phases.spread import spread_objective
from bayesfield.learning.precision.forms import Precision
from bayesfield.learning.search.minimise import Iteration, Optimum, Watch, lbfgs, newton
from bayesfield.learning.search.modes import Starts
from bayesfield.learning.search.sampled_newton import enough_chains, sampled_newton
from bayesfield.learning.search.starts import begin, best_of, stochastic_em
from bayesfield.model.field import RandomField
from bayesfield.model.partitions import CaseFiles
from bayesfield.model.prior import Parametrised, Prior, as_prior
from bayesfield.posterior.check import Check, check_fit
from bayesfield.posterior.posterior import Posterior
from bayesfield.posterior.prior_record import PriorRecord
from bayesfield.response.linear import NotSparse
from bayesfield.types import FloatArray, IndefiniteCurvature, InvalidInput

__all__ = ["Iteration", "fit"]

Correction = Literal["none", "mean", "variational", "auto"]
_LEANING = 3.0  # skewness of a marginal beyond which modes of hidden variables are taken to overlap
_FAR = 1.0  # posterior sd: largest shift of a mean that is believed to second order
ROUGH = 1e-3  # tolerance of a search from several starts
Form = Literal["auto", "dense", "sparse", "matrix-free", "block"]


def fit(
    field: RandomField,
    X: Any,
    prior: Prior | None = None,
    engine: Engine | str | None = None,
    response: Engine | str | None = None,
    *,
    method: str | Learner = "auto",
    correction: Correction = "auto",
    form: Form = "auto",
    start: Any = None,
    starts: int | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    rng: np.random.Generator | int | None = 0,
    watch: Watch | None = None,
    client: Any = None,
    weights: Any = None,
) -> Posterior:
    """The Gaussian posterior of a field's parameters, given cases that may have holes.

    X: (N, n) array or DataFrame in the states' own values, or bf.CaseFiles; missing cells (NaN, None, pd.NA) and hidden
    variables are summed over, and a case with nothing observed is left out. client: a dask.distributed.Client, whose
    workers keep the cases (files are read there). weights: (N,) what each case counts for, instead of one, such as
    relatives in an alignment or answers in a survey; the posterior is as wide as the sum of them makes it.

    prior: by default Normal(variance=1); the data choose its variance with Normal(variance="evidence"), and which
    parameters stay with ARD(). engine: finds the most probable parameters; "auto", the default, takes the exact one if
    it is affordable, else Kikuchi or Bethe, checks the fit, and ends with the sampled one if the check fails
    (record.choice says why). response: gives the curvature there; by default the same engine. ``engine=bf.Exact(),
    response=bf.Bethe()`` is the paper's BL-MP, ``engine=bf.Bethe()`` its BL-BP.

    method: "newton", or "lbfgs" where curvature is dear; "auto" goes by the cost of one covariance. Or another learner
    (posterior.methods): "pseudo_likelihood", "cd", "pcd", "iterative_scaling", "pseudo_moments", or an object that has
    its options, such as bf.PseudoLikelihood(block=16). start: parameters to begin from; by default the better of
    pseudo-moment matching and the prior mean. starts: how many points to search from where variables are hidden, by
    default 8 if some parameters are never shown; record.starts tells how they ended. tolerance: distance to the optimum
    in posterior standard deviations. watch: called with every Iteration of the search, and then of
    the correction, whose distance is how far it still moves; for progress displays.

    correction: of the mode towards the mean, and of the width (posterior.correction): "none" is the plain Laplace
    posterior, "mean" shifts the mean to second order, "variational" refines mean and precision; "auto" takes the best
    that costs no more than half a minute, and leaves BL-MP and BL-BP as the paper has them. rng: of its draws.
    form: of the precision (learning.precision): "auto" is dense up to some thousands of parameters; "block" is for the
    pseudo-likelihood of very many.
    """
    known = as_prior(prior)
    settings = Settings(as_method(method), form, start, tolerance, max_iterations, watch, starts)
    objective = field_objective(field, X, known, as_engine(engine), client, weights)
    if weights is not None and not isinstance(settings.method, str | PseudoLikelihood):
        raise InvalidInput(f'with weights method is "auto", "newton", "lbfgs" or "pseudo_likelihood"; got {method!r}')
    if client is not None and settings.method not in ("auto", "newton", "lbfgs"):
        raise InvalidInput(f'with a client method is "auto", "newton" or "lbfgs"; got {method!r}')
    given = None if objective.engine == Auto() else objective.engine
    curved = None if response is None else as_engine(response)
    return fit_objective(field, objective, round(objective.weight), known, given, curved, settings, correction, rng)


def field_objective(
    field: RandomField, X: Any, prior: Prior, engine: Engine, client: Any, weights: Any = None
) -> FieldObjective:
    """The objective of cases, here or on a client's workers."""
    if client is not None:
        if weights is not None:
            raise InvalidInput("weights are for cases that are here, not on a client's workers")
        return spread_objective(field, X, prior, engine, client)
    if isinstance(X, CaseFiles):
        X = X.all([name for i, name in enumerate(field.names) if i not in set(field.hidden)])
    return mrf_objective(field, X, prior, engine, weights)


@dataclass(frozen=True, eq=False)
class Settings:
    """How to search: the arguments of ``fit`` of these names."""

    method: str | Learner = "auto"
    form: str = "auto"
    start: Any = None
    tolerance: float = 1e-6
    max_iterations: int = 200
    watch: Watch | None = None
    starts: int | None = None

    def __post_init__(self) -> None:
        if self.tolerance <= 0 or self.max_iterations < 1:
            raise InvalidInput("tolerance and max_iterations must be above zero")


def fit_objective(
    field: Parametrised,
    objective: FieldObjective,
    n_cases: int,
    prior: Prior,
    engine: Engine | None,
    response: Engine | None,
    settings: Settings,
    correction: str,
    rng: np.random.Generator | int | None,
) -> Posterior:
    """``fit`` for an objective: of a field, or of conditional fields. engine: the user's, or None."""
    begun = time.perf_counter()
    ruled = uncorrected(settings.method, correction)
    generator = np.random.default_rng(rng)
    seed = int(generator.integers(2**31)) if isinstance(objective, HiddenObjective) else 0
    task = _Task(objective, field, response, seed=seed, **vars(settings))
    found, choice, check = _found(task, engine, generator)
    found, learned = _adapted(task, prior, found, engine, generator)
    kind, reason = ruled or correction_kind(found.objective, found.curved, correction, explicit=not choice)
    corrected = _corrected(found, kind, reason, generator, settings.watch)
    if correction == "auto" and not corrected.record.settled:
        corrected = _second_order(found, corrected.record.kind, generator)
    names = found.engine_name, found.response_name, found.method
    record = fit_record(found, corrected, names, n_cases, time.perf_counter() - begun)
    record = replace(record, choice=choice, check=check, starts=found.starts, prior=learned)
    mode = found.optimum.parameters
    posterior = Posterior(
        field,
        corrected.mean,
        corrected.precision,
        record,
        mode,
        found.objective,
        corrected.skewness,
        None if found.own else found.precision,
        resolved(prior, found.objective),
    )
    warn_of(record, depth=4)
    return posterior


@dataclass(frozen=True, eq=False)
class _Task:
    """What ``fit`` was asked for."""

    objective: FieldObjective
    field: Parametrised
    curved: Engine | None
    method: str | Learner
    form: str
    start: Any
    tolerance: float
    max_iterations: int
    watch: Watch | None
    starts: int | None
    seed: int

    def find(self, engine: Engine, start: FloatArray | None = None) -> Found:
        """The optimum by an engine, and the precision there. start: instead of the user's."""
        if isinstance(engine, Sampled):
            engine = enough_chains(engine, int(self.objective.weight))
        objective = replace(self.objective, engine=engine, form=self.form_for(engine))
        first = self.start if start is None else start
        curved = objective if self.curved is None else replace(objective, engine=self.curved)
        method = search_method(objective, self.method if isinstance(self.method, str) else "auto")
        starts: Starts | None = None
        if isinstance(engine, Sampled):
            optimum, matrix = self._sampled(objective, first)
            if curved is objective:
                status = optimum.point.marginals.status
                precision = dense_precision(matrix, self.field, optimum.status, status)
                return Found(objective, curved, optimum, precision, status, method)
        else:
            try:
                optimum, starts = self._search(objective, method, first)
            except NotSparse:
                if self.form != "auto":
                    raise
                return replace(self, form="matrix-free").find(engine, start)
        precision, status = precision_at(objective, curved, optimum, self.field)
        return Found(objective, curved, optimum, precision, status, method, starts=starts)

    def _search(self, objective: FieldObjective, method: str, first: Any) -> tuple[Optimum, Starts | None]:
        """From one point, or roughly from several and then from the best."""
        minimise = newton if method == "newton" else lbfgs
        points = begin(objective, self.field, first, self.starts, self.seed)
        return best_of(
            points,
            lambda p: lbfgs(objective, p, ROUGH, self.max_iterations, self.watch),
            lambda p: minimise(objective, p, self.tolerance, self.max_iterations, self.watch),
        )

    def form_for(self, engine: Engine) -> str:
        """The form of the precision, with what this engine can do."""
        return precision_form(self.form, self.objective, engine)

    def _sampled(self, objective: FieldObjective, first: Any) -> tuple[Optimum, FloatArray]:
        """Stochastic Newton from a given point, or from the pseudo-likelihood's optimum."""
        here = checked_start(self.field, first)
        if here is None and isinstance(objective, HiddenObjective):
            here = stochastic_em(objective, self.seed)
        elif here is None:
            o = objective
            here = pseudo_likelihood_map(o.field, o.codes, o.precision, o.location, o.case_weights)
        optimum, precision, _ = sampled_newton(objective, here, self.max_iterations, self.watch)
        return optimum, precision


def _found(task: _Task, engine: Engine | None, rng: np.random.Generator) -> tuple[Found, tuple[str, ...], Check | None]:
    """The optimum and the precision there, why by this engine, and the check that was made. engine: the user's."""
    if not isinstance(task.method, str):
        found, choice = learn(task, task.method, engine)
        return found, choice, None
    if engine is None or isinstance(engine, Auto):
        return _choose(task, engine or Auto(), rng)
    return task.find(engine), (), None


def _adapted(
    task: _Task, prior: Prior, found: Found, engine: Engine | None, rng: np.random.Generator
) -> tuple[Found, PriorRecord | None]:
    """The same under the prior that the data choose, by the engine that was found good."""
    tails = prior.tails(task.field)
    if tails is None and not prior.learned(task.field):
        return found, None
    chosen = found.objective.engine if isinstance(task.method, str) else engine
    method = for_evidence(task.method)

    def solve(precision: FloatArray, location: FloatArray, start: FloatArray, by: str | Learner = method) -> Found:
        objective = replace(task.objective, precision=precision, location=location, tails=tails)
        return _found(replace(task, method=by, objective=objective, start=start), chosen, rng)[0]

    def again(last: Found, by: str | Learner) -> Found:
        return solve(last.objective.precision, last.objective.location, last.optimum.parameters, by)

    if method == task.method:
        return adapted(prior, task.field, found, solve)
    last, record = adapted(prior, task.field, again(found, method), solve)
    return again(last, task.method), record


def _choose(task: _Task, auto: Auto, rng: np.random.Generator) -> tuple[Found, tuple[str, ...], Check | None]:
    """By cost first; then an approximate fit is checked, and the sampled engine takes over where it fails."""
    objective = task.objective
    engine, reason = picked(objective, auto)
    if isinstance(engine, Exact) or not objective.weight:
        return task.find(engine), (reason,), None
    if task.field.n_parameters > SAMPLED:
        return (
            task.find(engine),
            (reason, f"not checked: more than {SAMPLED:,} parameters, the most for sampling"),
            None,
        )
    seed = int(rng.integers(2**31))
    found, check, verdict = _try(task, engine, seed)
    if found is not None and check is not None and check.passed:
        return found, (reason, verdict), check
    if task.curved is not None:
        if found is None:
            raise IndefiniteCurvature(f"no posterior: {reason}; {verdict}")
        return found, (reason, verdict, "sampling did not take over: a response of its own was asked for"), check
    near = found is not None and check is not None and check.rms < 1.0
    begin = found.optimum.parameters if near and found is not None else None
    sampled = task.find(Sampled(seed=seed + 1), begin)
    last = _check(sampled, task.field, seed)
    origin = "the mode that it had found" if near else "the pseudo-likelihood's optimum"
    return sampled, (reason, verdict, f"so sampling took over, from {origin}; its check: {last}"), last


def _try(task: _Task, engine: Bethe | Kikuchi, seed: int) -> tuple[Found | None, Check | None, str]:
    """An approximate fit, its check if it ended well, and what to say of it.

    By messages alone: where they do not settle, sampling does better than minimising the free energy.
    """
    try:
        found = task.find(replace(engine, max_direct=0))
    except IndefiniteCurvature as error:
        return None, None, f"its check: it gave no posterior ({error})"
    if not found.good:
        return found, None, f"its check: it did not end well ({found.optimum.status}; {found.inference})"
    check = _check(found, task.field, seed)
    return found, check, f"its check: {check}"


def _check(found: Found, field: Parametrised, seed: int) -> Check:
    engine = enough_chains(Sampled(seed=seed), int(found.objective.weight))
    return check_fit(found.objective, field.parameter_names, found.optimum.parameters, found.precision.sd, engine)


def _corrected(found: Found, kind: str, reason: str, rng: np.random.Generator, watch: Watch | None = None) -> Corrected:
    """The corrected posterior, with the skewness of its marginals."""
    mean, precision, record = _correct(found, kind, rng, watch)
    skewness = field_skewness(found.objective, mean, precision) if record.kind != "none" else None
    return Corrected(mean, precision, replace(record, reason=reason), skewness)


def _second_order(found: Found, unsettled: str, rng: np.random.Generator) -> Corrected:
    """What auto takes where the steps of a correction do not settle: the mean's shift, where that can be believed."""
    shifted = _corrected(found, "mean", f"the {unsettled} one did not come to rest", rng)
    leaning = 0.0 if shifted.skewness is None else float(np.abs(shifted.skewness).max(initial=0.0))
    overlapping = isinstance(found.objective, HiddenObjective) and leaning > _LEANING
    if shifted.record.shift[1] <= _FAR and not overlapping:
        return shifted
    return _corrected(
        found, "none", "far from a Gaussian: no correction came to rest; bf.sample_posterior is right here", rng
    )


def _correct(
    found: Found, kind: str, rng: np.random.Generator, watch: Watch | None
) -> tuple[FloatArray, Precision, CorrectionRecord]:
    """Mean, precision and record after the correction."""
    objective, mode, precision = found.objective, found.optimum.parameters, found.precision
    if kind == "none" or not len(mode) or not found.optimum.status.converged:
        return mode, precision, CorrectionRecord("none")
    if isinstance(objective.engine, Sampled):
        if kind == "variational":
            return sampled_variational(objective, mode, precision, rng, watch)
        features = sampled_features(objective, found.optimum.point)
        of_data: FloatArray | float = 0.0
        if isinstance(objective, HiddenObjective):
            of_data = bends(lambda here: objective.weight * objective.statistic_at(here), mode, precision, rng).total
        mean, record = sampled_shift(features, objective.weight, mode, precision, of_data)
        return mean, precision, record
    if kind == "mean":
        mean, record = mean_shift(objective.slope, mode, precision, rng, objective.bends)
        return mean, precision, record
    return variational(objective, found.curved, mode, precision, rng, watch)
