"""From a field and data to its posterior."""

import time
import warnings
from typing import Any, Literal

import numpy as np
from scipy import linalg

from bayesfield.inference import Auto, Bethe, Engine, Sampled, as_engine
from bayesfield.learning import (
    Iteration,
    Objective,
    Optimum,
    enough_chains,
    lbfgs,
    mrf_objective,
    newton,
    pseudo_likelihood_map,
    pseudo_moments,
    sampled_newton,
)
from bayesfield.learning.optimise import Watch
from bayesfield.model import Normal, RandomField
from bayesfield.posterior.correction import CorrectionRecord, mean_shift, sampled_shift, variational
from bayesfield.posterior.laplace import FitRecord, Posterior
from bayesfield.response.base import require_dense
from bayesfield.types import FitWarning, FloatArray, IndefiniteCurvature, InvalidInput

__all__ = ["Iteration", "fit"]

_PER_ENTRY = 1e-8  # seconds of inference per table entry
_AFFORDABLE = 60.0  # seconds
_DEAR = 2e9  # table entries times parameters: about 10 s for the exact covariance


def fit(
    field: RandomField,
    X: Any,
    prior: Normal | None = None,
    engine: Engine | None = None,
    response: Engine | None = None,
    *,
    method: Literal["auto", "newton", "lbfgs"] = "auto",
    correction: Literal["none", "mean", "variational", "auto"] = "none",
    start: Any = None,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    rng: np.random.Generator | int | None = 0,
    watch: Watch | None = None,
) -> Posterior:
    """The Gaussian posterior of a field's parameters, given fully observed cases.

    X: (N, n) array or DataFrame in the states' own values. prior: by default Normal(variance=1). engine: finds the
    most probable parameters; by default bf.Auto(). response: gives the curvature there; by default the same engine.
    ``engine=bf.Exact(), response=bf.Bethe()`` is the paper's BL-MP, ``engine=bf.Bethe()`` its BL-BP.

    method: "newton", or "lbfgs" where curvature is dear; "auto" goes by the cost of one covariance. start: parameters
    to begin from; by default the better of pseudo-moment matching and the prior mean. tolerance: distance to the
    optimum in posterior standard deviations. watch: called with every Iteration, for progress displays.

    correction: of the mode towards the mean, and of the width (posterior.correction): "none" is the plain Laplace
    posterior, "mean" shifts the mean to second order, "variational" refines mean and precision; "auto" takes the best
    that costs no more than some minutes, and leaves BL-MP and BL-BP as the paper has them. rng: of its draws.
    """
    begun = time.perf_counter()
    if prior is not None and not isinstance(prior, Normal):
        raise InvalidInput(f"the prior is a bf.Normal, such as bf.Normal(variance=0.25); got {prior!r}")
    require_dense(field.n_parameters, "a posterior", "Tie parameters, or fit a smaller field.")
    chosen = Auto() if engine is None else as_engine(engine)
    curved = chosen if response is None else as_engine(response)
    objective = mrf_objective(field, X, prior or Normal(variance=1.0), chosen)
    if isinstance(chosen, Sampled):
        objective = _with_engine(objective, enough_chains(chosen, int(objective.weight)))
    chosen_method = _method(objective, method)
    if isinstance(chosen, Sampled):
        optimum, precision = _sampled_optimum(objective, field, start, max_iterations, watch)
    else:
        first = _start(objective, field, start)
        optimum, precision = _optimise(objective, first, chosen_method, tolerance, max_iterations, watch), None
    if precision is None or curved is not chosen:
        precision, inference = _precision(objective, optimum, chosen, curved)
    else:
        inference = optimum.point.marginals.status
    kind = _correction_kind(objective, chosen, curved, correction)
    mean, corrected, correction_record = _correct(objective, optimum, precision, curved, kind, rng)
    gradient = optimum.point.gradient
    record = FitRecord(
        engine=repr(chosen),
        response=repr(curved),
        method=chosen_method,
        status=optimum.status,
        inference=inference,
        iterations=optimum.iterations,
        gradient_norm=float(np.linalg.norm(gradient)),
        distance=_distance(precision, gradient),
        log_likelihood=objective.log_likelihood(optimum.point),
        n_cases=int(objective.weight),
        correction=correction_record,
        seconds=time.perf_counter() - begun,
    )
    posterior = Posterior(field, mean, corrected, record, optimum.parameters, objective)
    if not record.status.converged or not record.inference.converged:
        warnings.warn(f"this posterior is not to be trusted. {record}", FitWarning, stacklevel=2)
    return posterior


def _method(objective: Objective, method: str) -> str:
    """Newton, unless one covariance (F directions through all tables) takes some ten seconds or more."""
    if method not in ("auto", "newton", "lbfgs"):
        raise InvalidInput(f'method is "auto", "newton" or "lbfgs"; got {method!r}')
    if isinstance(objective.engine, Sampled):
        return "sampled newton"
    if method != "auto":
        return method
    work = objective.engine.preview(objective.field.graph).entries * len(objective.statistic)
    return "lbfgs" if work > _DEAR else "newton"


def _optimise(
    objective: Objective,
    start: FloatArray,
    method: str,
    tolerance: float,
    max_iterations: int,
    watch: Watch | None,
) -> Optimum:
    if tolerance <= 0 or max_iterations < 1:
        raise InvalidInput("tolerance and max_iterations must be above zero")
    minimise = newton if method == "newton" else lbfgs
    return minimise(objective, start, tolerance, max_iterations, watch)


def _sampled_optimum(
    objective: Objective, field: RandomField, start: Any, max_iterations: int, watch: Watch | None
) -> tuple[Optimum, FloatArray]:
    """Stochastic Newton from a given point, or from the pseudo-likelihood's optimum."""
    if start is None:
        first = pseudo_likelihood_map(objective.field, objective.codes, objective.precision, objective.location)
    else:
        first = _start(objective, field, start)
    optimum, precision, _ = sampled_newton(objective, first, max_iterations, watch)
    return optimum, precision


def _start(objective: Objective, field: RandomField, start: Any) -> FloatArray:
    if start is not None:
        given = np.array(start, dtype=np.float64)
        if given.shape != (field.n_parameters,) or not np.isfinite(given).all():
            raise InvalidInput(f"start needs {field.n_parameters} finite numbers; got shape {given.shape}")
        return given
    if not objective.weight:
        return objective.location
    candidates = [pseudo_moments(objective), objective.location]
    values = [objective.at(c).value for c in candidates]
    return candidates[int(np.argmin(values))]


def _precision(objective: Objective, optimum: Optimum, chosen: Engine, curved: Engine) -> tuple[FloatArray, Any]:
    """P at the optimum by the responding engine, and the status of its inference there."""
    point = optimum.point
    if curved is not chosen:
        objective = _with_engine(objective, curved)
        point = objective.at(point.parameters)
    try:
        return objective.curvature(point), point.marginals.status
    except IndefiniteCurvature as error:
        raise IndefiniteCurvature(
            f"no posterior: {error}. The optimisation ended as: {optimum.status}. The engine's inference: "
            f"{point.marginals.status}"
        ) from None


def _correction_kind(objective: Objective, chosen: Engine, curved: Engine, wanted: str) -> str:
    """ "auto": variational where 8 F² · entries is affordable, mean where 2 F · entries is, else none.

    Bethe's bias exceeds what a correction mends; and BL-MP and BL-BP are the paper's own plain methods.
    """
    if wanted not in ("auto", "none", "mean", "variational"):
        raise InvalidInput(f'correction is "auto", "none", "mean" or "variational"; got {wanted!r}')
    if wanted != "auto":
        return wanted
    cost = objective.engine.preview(objective.field.graph)
    if not objective.weight or curved is not chosen or _is_bethe(chosen, objective):
        return "none"
    if isinstance(chosen, Sampled):
        return "mean"
    size = len(objective.statistic)
    work = float(cost.entries) * size * _PER_ENTRY
    if 2 * size * work < _AFFORDABLE:
        return "variational"
    return "mean" if work < _AFFORDABLE else "none"


def _is_bethe(engine: Engine, objective: Objective) -> bool:
    picked = engine.choose(objective.field.graph)[0] if isinstance(engine, Auto) else engine
    return isinstance(picked, Bethe)


def _correct(
    objective: Objective, optimum: Optimum, precision: FloatArray, curved: Engine, kind: str, rng: Any
) -> tuple[FloatArray, FloatArray, CorrectionRecord]:
    """Mean, precision and record after the correction."""
    mode = optimum.parameters
    if kind == "none" or not len(mode) or not optimum.status.converged:
        return mode, precision, CorrectionRecord("none")
    if isinstance(objective.engine, Sampled):
        if kind == "variational":
            raise InvalidInput(
                'with bf.Sampled() the correction is "mean" or "none": its slopes are too noisy for more'
            )
        features = objective.response(optimum.point).features  # type: ignore[attr-defined]
        mean, record = sampled_shift(features, objective.weight, mode, precision)
        return mean, precision, record
    if kind == "mean":
        mean, record = mean_shift(objective.slope, mode, precision)
        return mean, precision, record
    bend = _with_engine(objective, curved).bend
    return variational(objective.slope, bend, mode, precision, np.random.default_rng(rng))


def _with_engine(objective: Objective, engine: Engine) -> Objective:
    return Objective(**{**objective.__dict__, "engine": engine})


def _distance(precision: FloatArray, gradient: FloatArray) -> float:
    try:
        step = linalg.cho_solve(linalg.cho_factor(precision), gradient) if len(gradient) else gradient
    except linalg.LinAlgError:
        return float("nan")
    return float(np.sqrt(max(float(gradient @ step), 0.0)))
