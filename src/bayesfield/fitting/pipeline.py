"""The way of every fit: plan → search → precision → check → prior chosen by the data → correction → posterior."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bayesfield import parallel
from bayesfield.correction.correct import Allowed, correct, judged
from bayesfield.correction.cumulants import Corrected
from bayesfield.correction.draws import made_of
from bayesfield.fitting.display import LONG, shown
from bayesfield.fitting.plan import SAMPLED, Planned, make_plan
from bayesfield.fitting.planning.layers import by_layers
from bayesfield.fitting.planning.request import Request, repeatable
from bayesfield.fitting.priors.learned import adapted
from bayesfield.fitting.priors.smooth import numbers_in
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.learning.hidden.labels import surfaced_labels
from bayesfield.learning.layers.ascent import layer_starts
from bayesfield.learning.precision.at import precision_at
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.learning.search.learner import Learner
from bayesfield.learning.search.learner import Request as SearchRequest
from bayesfield.learning.search.minimise import checked_start, search, starting_points
from bayesfield.learning.search.optimum import QUIET, Optimum, Progress
from bayesfield.learning.search.sampled_newton import sampled_newton, sampled_start
from bayesfield.learning.search.tied import surfaced, tied_start
from bayesfield.model.smooth.prior import Smooth
from bayesfield.posterior.certificate import certify, warn
from bayesfield.posterior.check import check_fit
from bayesfield.posterior.posterior import Posterior, reason_for_refusal
from bayesfield.posterior.record import SAMPLED_NEWTON, Check, FitRecord
from bayesfield.response.linear import NotSparse
from bayesfield.types import FloatArray, IndefiniteCurvature, Status

if TYPE_CHECKING:
    from bayesfield.inference.contract import Engine
    from bayesfield.learning.objective import GaussianPrior, Objective
    from bayesfield.learning.precision.base import Precision
    from bayesfield.learning.search.learner import Drawn
    from bayesfield.model.prior import Parametrised, Prior
    from bayesfield.posterior.prior_record import PriorRecord

_SHOWN = 0.05  # posterior sd: error of a mode that adds 0.1 % to widths


@dataclass(frozen=True, eq=False)
class FittedMode:
    """An optimum with the precision there.

    curvature_objective: the objective whose engine gave the precision. inference: how that engine's inference ended.
    method: what found the parameters. learner: how it is written, where that is no engine; ``own``: whether the
    precision is the learner's, too. drawn: the learner's draws of the posterior.
    """

    objective: Objective
    curvature_objective: Objective
    optimum: Optimum
    precision: Precision
    inference: Status
    method: str
    learner: str = ""
    own: bool = False
    drawn: Drawn | None = None

    @property
    def engine_name(self) -> str:
        return self.learner or repr(self.objective.phases[0].engine)  # type: ignore[attr-defined]

    @property
    def response_name(self) -> str:
        return self.learner if self.own else repr(self.curvature_objective.phases[0].engine)  # type: ignore[attr-defined]

    @property
    def good(self) -> bool:
        return self.optimum.status.converged and self.inference.converged


def fit_objective(model: Parametrised, objective: Objective, request: Request, depth: int = 3) -> Posterior:
    """The posterior of a model's parameters. depth: of the user's call, for warnings."""
    begun, kept = time.perf_counter(), repeatable(request)
    if len(objective.phases) > 1:
        objective, request = by_layers(objective, request)
    planned = make_plan(objective, request)
    with ExitStack() as screen:
        if objective.size > parallel.TINY:
            screen.enter_context(parallel.one_blas_thread(objective.size))
        progress: Progress = QUIET
        if request.verbose or (request.verbose is None and planned.plan.total > LONG):
            progress = screen.enter_context(shown(planned.plan, request))
        elif request.watch is not None or request.time_limit is not None:
            progress = Progress(request.watch, request.time_limit)
        generator = np.random.default_rng(request.rng)
        seed = int(generator.integers(2**31)) if planned.counts.hidden else 0
        fit = _Fit(model, objective, request, planned, seed, progress)
        found, reasons, check = fit.mode(generator)
        learned = None
        if objective.prior.learned or objective.prior.tails is not None:
            found, learned = fit.adapted(found, generator)
        if found.method == SAMPLED_NEWTON != planned.plan.method and not found.own:  # sampling took over
            planned = make_plan(objective, request, found.objective.free.engine)
        corrected = correct(
            found.objective,
            found.curvature_objective,
            found.optimum,
            found.precision,
            planned.plan.corrections,
            planned.reason,
            generator,
            progress,
        )
        if found.drawn is not None:
            corrected = made_of(found.drawn, found.optimum.parameters, found.precision)
        plan, converged = planned.plan, found.inference.converged
        allowed = Allowed() if found.own else Allowed(plan.certificate)
        if converged and not found.own and (plan.draws or plan.profiles):
            names = model.parameter_names if plan.profiles else ()
            allowed = Allowed(plan.certificate, plan.draws, plan.profiles, names)
        corrected = judged(found.objective, found.optimum, found.precision, corrected, allowed, generator, progress)
        corrected = _with_noise(found, corrected)
    record = _record(found, corrected, planned.counts.n_cases, time.perf_counter() - begun)
    record = replace(record, choice=reasons, check=check, prior=learned, plan=fit.planned.plan)
    if planned.plan.judged:
        record = replace(record, certificate=certify(model, record, corrected.compared, planned.counts.has_log_z))
    warn(record, depth)
    posterior = Posterior(
        model,
        corrected.mean,
        corrected.precision,
        record,
        found.optimum.point.parameters,
        found.objective,
        corrected.skewness,
        None if found.own or request.method == "ep" else found.precision,
        request.prior if learned is None else _resolved(request.prior, found.objective.prior, learned),
        corrected.marginals,
    )
    posterior.request = kept
    return posterior


@dataclass(frozen=True, eq=False)
class _Fit:
    """A request on its way. seed: of starts where something is hidden."""

    model: Parametrised
    objective: Objective
    request: Request
    planned: Planned
    seed: int
    progress: Progress

    # --- the mode ---------------------------------------------------------------------------------------------------

    def mode(self, rng: np.random.Generator) -> tuple[FittedMode, tuple[str, ...], Check | None]:
        """The mode with the precision there, why by this engine, and the check that was made."""
        plan, learner = self.planned.plan, self.request.learner
        if learner is not None:
            return self._learned(learner)
        if not plan.checked:
            return self._searched(self.planned), plan.reasons, None
        seed = int(rng.integers(2**31))
        found, check, verdict = self._tried(seed)
        if found is not None and check is not None and check.passed:
            return found, (*plan.reasons, verdict), check
        if self.request.response is not None:
            if found is None:
                raise IndefiniteCurvature(f"no posterior: {plan.reasons[0]}; {verdict}")
            remark = "sampling did not take over: a separate response was asked for"
            return found, (*plan.reasons, verdict, remark), check
        near = found is not None and check is not None and check.rms < 1.0
        start = found.optimum.parameters if near and found is not None else None
        sampled = self._searched(make_plan(self.objective, self.request, Sampled(seed=seed + 1)), start)
        last = self._check(sampled, seed)
        origin = "the mode that it had found" if near else "the pseudo-likelihood's optimum"
        remark = f"so sampling took over, from {origin}; its check: {last}"
        return sampled, (*plan.reasons, verdict, remark), last

    def _tried(self, seed: int) -> tuple[FittedMode | None, Check | None, str]:
        """An approximate fit, its check if it converged, and what to say of it.

        By messages alone: where they do not converge, sampling does better than minimising the free energy.
        """
        messages = replace(self.planned.objective.free.engine, max_direct=0)
        objective = self.planned.objective.with_engine(messages)
        same = self.planned.curvature_objective is self.planned.objective
        curvature = objective if same else self.planned.curvature_objective
        try:
            found = self._searched(self.planned._replace(objective=objective, curvature_objective=curvature))
        except IndefiniteCurvature as error:
            return None, None, f"its check: it gave no posterior ({error})"
        if not found.good:
            return found, None, f"its check: it did not converge ({found.optimum.status}; {found.inference})"
        check = self._check(found, seed)
        return found, check, f"its check: {check}"

    def _check(self, fitted: FittedMode, seed: int) -> Check:
        engine = Sampled(seed=seed).enough_for(fitted.objective.weight)
        mode, names = fitted.optimum.parameters, self.model.parameter_names
        return check_fit(fitted.objective, names, mode, fitted.precision.sd, engine)

    def _searched(self, planned: Planned, start: FloatArray | None = None) -> FittedMode:
        """The optimum by the plan's engine, and the precision there. start: instead of the user's."""
        plan, objective, curvature = planned.plan, planned.objective, planned.curvature_objective
        objective.phases[0].prepare()
        asked = self.request
        given = asked.start if start is None else start
        given = None if given is None else checked_start(objective.size, given)
        if plan.method == SAMPLED_NEWTON:
            here = sampled_start(objective, self.seed) if given is None else given
            optimum, matrix, _ = sampled_newton(objective, here, self.request.max_iterations, self.progress)
            if curvature is objective:
                status = optimum.point.status
                precision = dense_precision(self.model, matrix, optimum.status, status)
                return FittedMode(objective, curvature, optimum, precision, status, plan.method)
            return with_precision(self.model, objective, curvature, optimum, plan.form, plan.method)
        if objective.free.traits.streams:
            if objective.emits:
                objective = curvature = surfaced_labels(objective, given, self.progress)
            else:
                here = tied_start(objective) if given is None else given
                objective = curvature = surfaced(objective, here, self.progress)
            given = objective.free.surface.centre
        count = asked.starts or (plan.starts if plan.starts > 1 else None)
        points = layer_starts(objective, count, self.seed) if given is None and objective.hidden else None
        points = points or starting_points(objective, given, count, self.seed)
        try:
            optimum = search(
                objective, points, plan.method, plan.form, asked.tolerance, asked.max_iterations, self.progress
            )
            fitted = with_precision(self.model, objective, curvature, optimum, plan.form, plan.method)
            ended = getattr(objective.free, "status", None)  # of the chains that made the surface
            return fitted if ended is None else replace(fitted, inference=ended)
        except NotSparse:
            if self.request.form != "auto":
                raise
            other = replace(plan, form="matrix-free", method="lbfgs" if plan.method == "lbfgs" else "newton")
            return self._searched(planned._replace(plan=other), start)

    # --- other learners ---------------------------------------------------------------------------------------------

    def _learned(self, learner: Learner) -> tuple[FittedMode, tuple[str, ...], None]:
        """A learner's parameters, with its own precision or an engine's."""
        request, plan = self.request, self.planned.plan
        given = checked_start(self.objective.size, request.start)
        if given is None and learner.at_mode:
            given = starting_points(self.planned.objective, None, None, self.seed)[0]
        form = request.form if request.by_itself and learner.own_precision else ""
        asked = SearchRequest(given, request.tolerance, request.max_iterations, form, self.progress)
        learned = learner.learn(self.planned.objective, asked)
        if learned.objective is not None:
            o = learned.objective
            fitted = self._with_form(o, o, learned.optimum, learner.name, "")
            return fitted, (*plan.reasons, *learned.remarks), None
        if learned.precision is not None:
            o, status = self.planned.objective, learned.optimum.point.status
            fitted = FittedMode(
                o, o, learned.optimum, learned.precision, status, learner.name, repr(learner), True, learned.drawn
            )
            return fitted, learned.remarks, None
        if learner.at_mode:
            o, curvature = self.planned.objective, self.planned.curvature_objective
            fitted = self._with_form(o, curvature, learned.optimum, learner.name, "")
            return fitted, plan.reasons, None
        return self._by_engine(learner, learned.optimum)

    def _by_engine(self, learner: Learner, optimum: Optimum) -> tuple[FittedMode, tuple[str, ...], None]:
        """The learner's end with an engine's curvature, gradient and log Z there.

        Where the engine that was chosen by cost has no curvature to give, the sampled one does.
        """
        plan, chosen = self.planned.plan, self.planned.chosen and self.request.response is None
        objective = self.planned.curvature_objective
        reasons = plan.reasons if chosen else ()
        try:
            fitted = self._at_end(objective, optimum, learner)
            if fitted.inference.converged or not chosen:
                return fitted, reasons, None
            failure = str(fitted.inference)
        except IndefiniteCurvature as error:
            if not chosen:
                raise
            failure = str(error)
        if objective.size > SAMPLED:
            raise IndefiniteCurvature(f"{reasons[0]}; it gave no curvature: {failure}")
        sampled = objective.with_engine(Sampled().enough_for(objective.weight))
        remark = f"it gave no curvature ({failure}); sampling did"
        return self._at_end(sampled, optimum, learner), (*reasons, remark), None

    def _at_end(self, objective: Objective, optimum: Optimum, learner: Learner) -> FittedMode:
        there = replace(optimum, point=objective.at(optimum.parameters))
        return self._with_form(objective, objective, there, learner.name, repr(learner))

    def _with_form(
        self, objective: Objective, curvature: Objective, optimum: Optimum, method: str, learner: str
    ) -> FittedMode:
        form = self.planned.plan.form if objective.has_log_z else "dense"
        try:
            return with_precision(self.model, objective, curvature, optimum, form, method, learner)
        except NotSparse:
            if self.request.form != "auto":
                raise
            return with_precision(self.model, objective, curvature, optimum, "matrix-free", method, learner)

    # --- the prior --------------------------------------------------------------------------------------------------

    def adapted(self, fitted: FittedMode, rng: np.random.Generator) -> tuple[FittedMode, PriorRecord]:
        """The same under the prior that the data choose, by the engine that was found good."""
        prior = self.request.prior
        learner = self.request.learner
        engine = self.request.engine if learner is not None else fitted.objective.free.engine
        method = self.request.method if learner is None else learner.for_evidence()

        def solve(new: GaussianPrior, start: FloatArray, by: str | Learner = method) -> FittedMode:
            return self._again(engine, by, new, start, rng)

        if learner is None or method == learner:
            return adapted(prior, self.model, fitted, solve, rng, self.progress)
        first = solve(fitted.objective.prior, fitted.optimum.parameters)
        last, record = adapted(prior, self.model, first, solve, rng, self.progress)
        return solve(last.objective.prior, last.optimum.parameters, learner), record

    def _again(
        self, engine: Engine, method: str | Learner, prior: GaussianPrior, start: FloatArray, rng: np.random.Generator
    ) -> FittedMode:
        """The mode under another prior, near the last one."""
        request = replace(self.request, engine=engine, method=method, start=start, starts=None)
        objective = replace(self.objective, prior=prior)
        planned = make_plan(objective, request)
        plan = replace(planned.plan, form=self.planned.plan.form if engine.traits.has_log_z else "dense", starts=1)
        again = replace(self, objective=objective, request=request, planned=planned._replace(plan=plan))
        return again.mode(rng)[0]


def with_precision(
    model: Parametrised,
    objective: Objective,
    curvature_objective: Objective,
    optimum: Optimum,
    form: str,
    method: str,
    learner: str = "",
) -> FittedMode:
    """P at the optimum; where it is not positive definite, an error that names the parameters."""
    same = curvature_objective is objective
    point = optimum.point if same and optimum.point.answers else curvature_objective.at(optimum.parameters)
    try:
        if form == "dense":
            matrix = curvature_objective.curvature(point)
            precision: Precision = dense_precision(model, matrix, optimum.status, point.status)
        else:
            precision = precision_at(curvature_objective, point, form)
    except IndefiniteCurvature as error:
        if str(error).startswith("no posterior"):
            raise
        raise _refusal(model, None, str(error), optimum.status, point.status) from None
    return FittedMode(objective, curvature_objective, optimum, precision, point.status, method, learner)


def dense_precision(model: Parametrised, matrix: FloatArray, ended: Status, inference: Status) -> Precision:
    """P, or the refusal that names the parameters along which it is not positive."""
    try:
        return DensePrecision(matrix)
    except IndefiniteCurvature as error:
        raise _refusal(model, matrix, str(error), ended, inference) from None


def _refusal(
    model: Parametrised, matrix: FloatArray | None, reason: str, ended: Status, inference: Status
) -> IndefiniteCurvature:
    return IndefiniteCurvature(
        f"no posterior: {reason_for_refusal(model, matrix, reason)}. The optimisation ended as: {ended}. The engine's "
        f"inference: {inference}"
    )


def _record(fitted: FittedMode, corrected: Corrected, n_cases: int, seconds: float) -> FitRecord:
    point, precision = fitted.optimum.point, fitted.precision
    gradient = point.gradient
    ep = corrected.record.kind == "expectation propagation"
    return FitRecord(
        engine=fitted.engine_name,
        response="ExpectationPropagation()" if ep else fitted.response_name,
        method="ep" if ep else fitted.method,
        form=corrected.precision.form,
        status=fitted.optimum.status,
        inference=fitted.inference,
        iterations=fitted.optimum.iterations,
        gradient_norm=float(np.linalg.norm(gradient)),
        distance=float(np.sqrt(max(float(gradient @ precision.solve(gradient)), 0.0))),
        log_likelihood=np.nan
        if fitted.own or fitted.objective.free.traits.relative
        else fitted.objective.likelihood(point.parameters, point.answers),
        n_cases=n_cases,
        correction=corrected.record,
        seconds=seconds,
        starts=fitted.optimum.starts,
    )


def _with_noise(fitted: FittedMode, corrected: Corrected) -> Corrected:
    """With the Monte-Carlo error of the chains behind the phases; where the mode stands, with that of the search, which
    widths that it would show in take in."""
    noise, precision = fitted.objective.free.monte_carlo, corrected.precision
    if fitted.method == SAMPLED_NEWTON and corrected.record.kind in ("mean", "none"):
        noise = fitted.optimum.status.residual
        if noise > _SHOWN and isinstance(precision, DensePrecision):
            corrected = corrected._replace(precision=precision.wider(np.sqrt(1.0 + noise**2)))
    if not noise:
        return corrected
    error = float(np.hypot(corrected.record.error, noise))
    return corrected._replace(record=replace(corrected.record, error=error))


def _resolved(prior: Prior, chosen: GaussianPrior, record: PriorRecord) -> Prior:
    """The prior with what the data chose."""
    if isinstance(prior, Smooth):
        return prior.chosen(numbers_in(record.table))
    return prior if chosen.tails is not None or not chosen.independent else chosen.scaled(1.0)
