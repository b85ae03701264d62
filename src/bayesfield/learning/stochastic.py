"""Newton steps with sampled means and covariances, and an average over iterates that takes the noise out.

Chains persist from step to step. After a few steps the iterates scatter around the optimum with a spread of about
√(N / effective samples) posterior standard deviations; their mean is the estimate, and their scatter its error.
"""

from dataclasses import replace

import numpy as np
from scipy import linalg

from bayesfield.inference import Sampled
from bayesfield.learning.objective import FieldObjective, Point
from bayesfield.learning.optimise import Iteration, Optimum, Watch
from bayesfield.response.sampled import shrinkage
from bayesfield.types import FloatArray, IndefiniteCurvature, Outcome, Status

_APPROACH = 3  # steps before iterates are averaged
_FEWEST = 4  # iterates in an average whose scatter is trusted
_MOST_CHAINS = 40_000
_LONGEST = 2.0  # posterior sd: longest step of any parameter


def sampled_newton(
    objective: FieldObjective, start: FloatArray, max_steps: int, watch: Watch | None = None
) -> tuple[Optimum, FloatArray, FloatArray]:
    """The optimum, the average precision, and the Monte-Carlo error of each parameter in posterior sd.

    Stops when the root mean square of that error is below the engine's ``error``.
    """
    engine = objective.engine
    if not isinstance(engine, Sampled):
        raise TypeError("sampled_newton needs an objective with the Sampled engine")
    here, chains = start.copy(), None
    iterates: list[FloatArray] = []
    covariances: list[FloatArray] = []
    noises: list[FloatArray] = []
    hidden: list[FloatArray | float] = []
    log: list[Iteration] = []
    error = np.full(len(start), np.inf)
    converged = False
    while len(log) < max_steps and not converged:
        theta = objective.field.design.potentials(here)
        marginals = engine.infer(objective.field.graph, theta, chains)
        chains = marginals.state
        point = objective.point(here, theta, marginals)
        response = engine.response(objective.field.graph, objective.field.design, theta, marginals)
        guessed = objective.data_covariance(here)
        precision, step, sd = _step(objective, response.covariance(), guessed, point.gradient)
        here = here - step
        log.append(_iteration(len(log), point, step, sd))
        if watch is not None:
            watch(log[-1])
        if len(log) > _APPROACH:
            iterates.append(here)
            covariances.append(response.bare())
            hidden.append(guessed)
            noises.append(response.noise() if engine.shrink else covariances[-1])
        if len(iterates) >= _FEWEST:
            error = np.std(iterates, axis=0, ddof=1) / np.sqrt(len(iterates)) / sd
            converged = bool(np.sqrt(np.mean(error**2)) < engine.error)
    mean = np.mean(iterates, axis=0) if iterates else here
    theta = objective.field.design.potentials(mean)
    average = precision
    if covariances:
        free = _average(objective, engine, theta, covariances, noises)
        average = objective.with_prior(free - np.mean(np.array(hidden), axis=0))
    final = engine.infer(objective.field.graph, theta, chains)
    point = objective.point(mean, theta, final)
    outcome = Outcome.OPTIMUM if converged else Outcome.NO_OPTIMUM
    residual = float(np.sqrt(np.mean(error**2))) if len(error) else 0.0
    status = Status(outcome, len(log), residual, "the residual is the Monte-Carlo error in posterior sd")
    return Optimum(point, replace(status, history=np.array([i.distance for i in log])), tuple(log)), average, error


def _average(
    objective: FieldObjective,
    engine: Sampled,
    theta: FloatArray,
    covariances: list[FloatArray],
    noises: list[FloatArray],
) -> FloatArray:
    """The mean of the iterates' sample covariances, shrunk once, by what noise is left in the mean."""
    mean: FloatArray = np.mean(covariances, axis=0)
    target = engine.target(objective.field.graph, objective.field.design, theta)
    if target is not None:
        weight = shrinkage(mean, np.mean(noises, axis=0) / len(noises), target)
        mean = (1.0 - weight) * mean + weight * target
    return mean


def enough_chains(engine: Sampled, cases: int) -> Sampled:
    """As many chains as the data ask for: one Newton step's noise is about √(N / samples) posterior sd."""
    return replace(engine, chains=max(engine.chains, min(4 * cases, _MOST_CHAINS)))


def _step(
    objective: FieldObjective, free: FloatArray, guessed: FloatArray | float, gradient: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """P, P⁻¹g, shortened where it would carry a parameter too far, and the posterior sd."""
    precision, factor = factored(objective, free, guessed)
    step = linalg.cho_solve(factor, gradient)
    sd = np.sqrt(np.diag(linalg.cho_solve(factor, np.eye(len(gradient)))))
    longest = np.abs(step / sd).max(initial=0.0)
    return precision, step * min(1.0, _LONGEST / max(longest, 1e-300)), sd


def factored(
    objective: FieldObjective, free: FloatArray, guessed: FloatArray | float
) -> tuple[FloatArray, tuple[FloatArray, bool]]:
    """P = N (C − C_data) + Λ⁻¹ and its Cholesky factor.

    Far from an optimum, or by noise, it need not be positive definite; N C + Λ⁻¹, which is above it and stands in, is.
    """
    for taken in (guessed, 0.0):
        precision = objective.with_prior(free - taken)
        try:
            return precision, linalg.cho_factor(precision)
        except linalg.LinAlgError:
            continue
    raise IndefiniteCurvature("the sampled curvature is not positive definite: more chains are needed")


def _iteration(number: int, point: Point, step: FloatArray, sd: FloatArray) -> Iteration:
    distance = float(np.linalg.norm(step / sd))
    return Iteration(number, float("nan"), float(np.abs(point.gradient).max(initial=0.0)), distance, 1.0)
