"""Newton steps with sampled means and covariances, and an average over iterates that takes the noise out.

Chains persist from step to step. After a few steps the iterates scatter around the optimum with a spread of about
√(N / effective samples) posterior standard deviations; their mean is the estimate, and their scatter its error.
"""

from dataclasses import replace

import numpy as np
from scipy import linalg

from bayesfield.inference.sampling.gibbs_chains import Chains, fresh
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.learning.objective import FieldObjective, Point
from bayesfield.learning.search.minimise import Iteration, Optimum, Watch
from bayesfield.response.sampled import shrinkage
from bayesfield.types import FloatArray, IndefiniteCurvature, Marginals, Outcome, Status

_APPROACH = 3  # steps before iterates are averaged
_FEWEST = 4  # iterates in an average whose scatter is trusted
_MOST_CHAINS = 40_000
_FORGOTTEN = 0.1  # posterior sd: difference that chains from other beginnings may have, …
_NOISE = 3.0  # … and times its own noise; 1 ± 0.1 of it where chains mix, with some hundred parameters
_RESIDUAL = "the residual is the Monte-Carlo error in posterior sd"
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
    outcome, detail = Outcome.OPTIMUM if converged else Outcome.NO_OPTIMUM, _RESIDUAL
    gap = _memory(objective, engine, theta, final, average)
    if gap > _FORGOTTEN:
        outcome, detail = Outcome.SLOW, f"they differ by {gap:.2g} posterior sd"
    residual = float(np.sqrt(np.mean(error**2))) if len(error) else 0.0
    status = Status(outcome, len(log), residual, detail)
    return Optimum(point, replace(status, history=np.array([i.distance for i in log])), tuple(log)), average, error


def _memory(
    objective: FieldObjective, engine: Sampled, theta: FloatArray, final: Marginals, precision: FloatArray
) -> float:
    """√(dᵀP⁻¹d / F): how far chains from the data are from those that began at random, in posterior sd.

    Over all directions and not parameter by parameter: what chains do not cross is stiff, and moves each a little only.
    Zero where it is no more than noise. Where chains cannot cross between states of the field, as in a strongly coupled
    lattice, nothing else would tell.
    """
    codes, graph = objective.codes, objective.field.graph
    if not len(codes) or not len(precision):
        return 0.0
    random, seeds = fresh(graph.arrays, engine.chains, engine.seed + 1)
    known = codes[np.arange(engine.chains) % len(codes)]
    states = np.where(known >= 0, known, random).astype(np.int32)
    begun = Chains(states[None], seeds, np.empty((0, 0)))
    settled = replace(engine, sweeps=max(engine.burn_in, 1), snapshots=1).spread(graph, theta[None], begun)
    design = objective.field.design
    ended = engine.infer(graph, theta, settled).state, _chains_of(final)
    each = [objective.weight * np.array([design.expectations(t) for t in chains.batch_means]) for chains in ended]
    gap = each[0].mean(axis=0) - each[1].mean(axis=0)
    away = np.concatenate([(b - b.mean(axis=0)) / np.sqrt(len(b) * (len(b) - 1)) for b in each])
    try:
        factor = linalg.cho_factor(precision)
    except linalg.LinAlgError:  # refused elsewhere, with the parameters named
        return 0.0
    size = float(np.sqrt(gap @ linalg.cho_solve(factor, gap) / len(gap)))
    noise = float(np.sqrt(np.einsum("bf,fb->", away, linalg.cho_solve(factor, away.T)) / len(gap)))
    return size if size > _NOISE * noise else 0.0


def _chains_of(marginals: Marginals) -> Chains:
    """The chains of the free phase."""
    state = marginals.state
    result: Chains = state if isinstance(state, Chains) else state.free
    return result


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
