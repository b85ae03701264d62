"""The search for few parameters that are tied over many variables: chains, their means, and a surface through them.

1. The pseudo-likelihood's optimum, from the few conditionals that differ.
2. All chains at one λ, Newton steps by their means and their covariance, chains persisting and rounds becoming longer
   until chains forget within a round.
3. Chains spread over the posterior, each at parameters of its own; log Z fitted to their means
   (``learning.phases.surface``); once more about the new mode where it lies aside.

How long chains run follows from the variance of their means over one another: a chain whose mean over T sweeps has
covariance B, where single states have C, forgets in 2τ = T B / C sweeps (the largest over all directions).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import linalg, special

from bayesfield.inference.sampling.streams import WAYS, Streams, seconds_a_sweep, streams, way
from bayesfield.learning.phases.surface import (
    Fitted,
    Polynomial,
    Surface,
    SurfacePhase,
    Weighted,
    fitted,
    log_weights,
)
from bayesfield.learning.search.conditionals import conditionals_map
from bayesfield.learning.search.optimum import QUIET, Iteration, Progress
from bayesfield.types import FloatArray, Outcome, Status

if TYPE_CHECKING:
    from bayesfield.inference.sampling.streamed import Streamed
    from bayesfield.learning.objective import Objective
    from bayesfield.learning.phases.graph import GraphPhase

RADIUS = 3.5  # posterior sd over which chains are spread: 0.2 % of a Gaussian of two parameters lies beyond
_FIRST = 32  # sweeps of the first round
_STEPS = 16  # rounds at most before chains are spread
_MEMORY = 0.25  # of a round: 2τ at most when chains are spread
_NEAR = 1.0  # posterior sd: a step that short ends the approach
_LONGEST, _PER_ROOT = 4.0, 1 / 16  # posterior sd of a step, or for each root of the variables, as sd is one over it
_BURN = 2.0  # times 2τ: e⁻⁴ of what chains were is left
_LEAST = 3.0  # times 2τ that chains run at least
_ASIDE = 1.0  # posterior sd, or log of widths: chains that were spread by moments so far away are spread again
_WIDER = 1.4  # posterior sd by which chains are spread: tails are where weights are uneven
_INFLATION = 1.5  # of the error's square: chains aside count for less
_FITS = 1.25  # residuals over noise, both squared, up to which a polynomial is taken
_KEPT = 6000  # states that weights are made of
_DRAWS = 1024  # points by which moments are integrated
_SURFACES = 4
_GAP, _NOISE = 0.1, 4.0  # posterior sd, and times its noise, by which chains that began apart may differ
_OFTEN = 4  # states for each 2τ that are looked at


class Approach(NamedTuple):
    """Where the steps ended. covariance: C there. memory: 2τ in sweeps."""

    parameters: FloatArray
    covariance: FloatArray
    memory: float
    log: tuple[Iteration, ...]


class About(NamedTuple):
    """Where chains are spread: about a centre, by a precision P, with 2τ in sweeps."""

    centre: FloatArray
    precision: FloatArray
    memory: float


@dataclass(eq=False)
class _Budget:
    """Sweeps of all chains that are left."""

    left: int

    def take(self, sweeps: float) -> int:
        taken = int(max(min(sweeps, self.left), 1))
        self.left -= taken
        return taken


def tied_start(objective: Objective) -> FloatArray:
    """The pseudo-likelihood's optimum."""
    return conditionals_map(objective.data.cases, objective.prior)


def surfaced(objective: Objective, start: FloatArray, progress: Progress = QUIET) -> Objective:
    """The objective with the free phase's log Z as a surface about the mode."""
    phase: GraphPhase = objective.free
    engine: Streamed = phase.engine  # type: ignore[assignment]
    chains = streams(phase.graph, phase.design, objective.observed_codes(), engine.seed)
    price = chains.chains * seconds_a_sweep(phase.graph, phase.design)
    budget = _Budget(int(max(engine.allowed(phase.graph) / price, 200)))
    near = _approach(objective, chains, start, budget, progress)
    about = About(near.parameters, objective.prior.plus(phase.weight * near.covariance), near.memory)
    for attempt in range(_SURFACES):
        surface, status, memory = _surface(objective, chains, about, budget)
        made = replace(objective, phases=(replace_phase(phase, surface, status), *objective.phases[1:]))
        moments, distance = _moments(made, surface)
        progress.tell(Iteration(len(near.log) + attempt, float("nan"), float("nan"), distance, 1.0))
        if distance < _ASIDE or budget.left < (_BURN + _LEAST) * memory or progress.expired:
            break
        about = About(*moments, memory)
    return made


def _moments(objective: Objective, surface: Surface) -> tuple[tuple[FloatArray, FloatArray], float]:
    """Mean and precision of the posterior by a surface, from draws that fill its ball; and how far, in its own scale,
    mean and widths are from what chains were spread by: a shift of one sd, or a factor e, counts one."""
    size = len(surface.centre)
    z = surface.radius / RADIUS * spread(_DRAWS, size, _WIDER)
    values = objective.at_many(surface.centre + z @ surface.scale.T).values
    log = -values + 0.5 * np.sum((z / (_WIDER * surface.radius / RADIUS)) ** 2, axis=1)
    w = np.exp(log - log.max())
    w /= w.sum()
    mean = w @ z
    covariance = _positive(((z - mean) * w[:, None]).T @ (z - mean) + np.eye(size) * 1e-4)
    widths = np.log(linalg.eigvalsh(covariance))
    distance = float(max(np.linalg.norm(mean), np.abs(widths).max()))
    inverse = linalg.inv(surface.scale)
    return (surface.centre + surface.scale @ mean, inverse.T @ linalg.inv(covariance) @ inverse), distance


def replace_phase(phase: GraphPhase, surface: Surface, status: Status) -> SurfacePhase:
    return SurfacePhase(phase.graph, phase.design, phase.engine, phase.weight, phase.contrasts, surface, status)


def _approach(
    objective: Objective, chains: Streams, start: FloatArray, budget: _Budget, progress: Progress
) -> Approach:
    """Newton steps by all chains at one λ.

    −log p is convex, so that its slope along a step must not turn: where it has, the step was too long, and the
    secant's root between both ends comes next.
    """
    here, sweeps, log = start.copy(), _FIRST, []
    weight, whole = objective.free.weight, budget.left
    longest = max(_LONGEST, _PER_ROOT * np.sqrt(len(objective.free.graph.arrays.cardinality)))
    before: tuple[FloatArray, FloatArray] | None = None  # the last point, and the gradient there
    for number in range(_STEPS):
        taken = budget.take(sweeps)
        every = max(1, taken // 16)
        series = chains.run(np.tile(here, (chains.chains, 1)), max(taken, every), every)
        late = series[len(series) // 2 :]
        flat = late.reshape(-1, len(here))
        covariance = _positive(np.cov(flat.T).reshape(len(here), len(here)))
        between = np.cov(late.mean(axis=0).T).reshape(covariance.shape)
        share = float(linalg.eigh(between, covariance, eigvals_only=True)[-1])
        memory = share * every * len(late)
        gradient = objective.prior.pull(here) + weight * flat.mean(axis=0) - objective.statistic
        step = linalg.solve(objective.prior.plus(weight * covariance), gradient, assume_a="pos")
        distance = float(np.sqrt(max(gradient @ step, 0.0)))
        log.append(Iteration(number, float("nan"), float(np.abs(gradient).max()), distance, 1.0))
        progress.tell(log[-1])
        # the mean of all chains is known to about √(N · share / chains) sd: a step that short is noise
        noise = np.sqrt(weight * share * len(here) / chains.chains)
        forgets = share <= 2.0 * _MEMORY
        if forgets and distance < max(_NEAR, 3.0 * noise):
            here = here - step
            break
        turned = 0.0
        if before is not None:
            along = here - before[0]
            first, last = float(before[1] @ along), float(gradient @ along)
            turned = last / (last - first) if last > -0.5 * first > 0.0 else 0.0  # share of the step that was too long
        if turned:
            here = here - turned * (here - before[0])  # type: ignore[index]
        else:
            before = here, gradient
            here = here - step * min(1.0, longest / max(distance, 1e-300))
        sweeps *= 1 if forgets else 2
        if budget.left < 0.6 * whole or progress.expired:
            break
    return Approach(here, covariance, memory, tuple(log))


def _surface(objective: Objective, chains: Streams, about: About, budget: _Budget) -> tuple[Surface, Status, float]:
    """The surface about a point; how its chains ended; and their 2τ."""
    centre, precision, memory = about
    phase, engine = objective.free, objective.free.engine
    weight, size = phase.weight, len(centre)
    scale = linalg.inv(linalg.cholesky(precision, lower=True)).T  # S Sᵀ = P⁻¹
    wider = max(1.0, min(weight**0.25, 2.0))
    z = wider * spread(chains.chains, size, _WIDER)
    points = centre + z @ scale.T
    chains.run(points, burn := budget.take(_BURN * memory), burn)
    every = int(max(1, memory // _OFTEN))
    target = _INFLATION * weight / engine.error**2 / chains.chains  # independent states that each chain is to see
    wanted, parts, taken = max(_LEAST, 0.6 * target) * memory, [], 0  # 2τ of the approach is a rough guess
    slope = objective.statistic / weight
    while True:
        sweeps = max(budget.take(wanted), 2 * every)
        parts.append((chains.run(points, sweeps, every) - slope) @ scale)
        taken += sweeps
        series = np.concatenate(parts)
        noise = weight**2 * _noise(series)
        error = float(np.sqrt(_INFLATION * np.trace(noise) / size / chains.chains))
        memory = taken * float(linalg.eigvalsh(noise)[-1]) / max(weight, 1.0)
        wanted = min(taken * ((error / engine.error) ** 2 - 1.0), 3.0 * taken)
        if wanted < 0.25 * taken or budget.left <= 1:
            break
    fit = fitted(z, weight * series.mean(axis=0), noise)
    # a run shorter than 2τ does not tell its length: both of its halves are one state
    status = _status(fit, noise, error, max(memory, about.memory) if taken < 2.0 * about.memory else memory, taken)
    how = centre, scale, slope, RADIUS * wider
    if fit.misfit < _FITS:
        return Polynomial(*how, fit.powers, fit.coefficients / weight), status, memory
    thinned = series[:: max(1, series.shape[0] * series.shape[1] // _KEPT)].transpose(1, 0, 2)
    return Weighted(*how, thinned.reshape(-1, size), log_weights(thinned, z)), status, memory


def _noise(series: FloatArray) -> FloatArray:
    """The covariance of a chain's mean, (F, F), from the two halves of all chains: halves are independent where a run
    is long, whatever the chains' parameters."""
    half = len(series) // 2
    apart = (series[:half].mean(axis=0) - series[-half:].mean(axis=0)) / 2
    return _positive(apart.T @ apart / len(apart))


def _status(fit: Fitted, noise: FloatArray, error: float, memory: float, sweeps: int) -> Status:
    """Chains that began apart must have met, and must have forgotten within their run."""
    began, sd = way(np.arange(len(fit.residuals))), np.sqrt(fit.misfit * np.diag(noise))
    figures = []
    for w in range(WAYS):
        some = fit.residuals[began == w]
        apart = np.abs(some.mean(axis=0))
        figures.append(float(np.max(apart / np.maximum(_NOISE * sd / np.sqrt(len(some)), _GAP))))
    mixing = max(max(figures), memory / sweeps)
    detail = (
        f"log Z fitted to the means of {len(fit.residuals)} chains of {sweeps:,} sweeps, which forget in about "
        f"{max(memory, 1.0):,.0f}; the mode is known to {error:.2g} posterior sd"
    )
    if mixing > 1.0:
        detail += (
            "; the data lie near a critical point or beyond it, where variables far apart go together and single-site "
            "chains do not cross between states of the field"
        )
        return Status(Outcome.SLOW, sweeps, error, detail, mixing=mixing)
    return Status(Outcome.SAMPLED, sweeps, error, detail, mixing=mixing)


def spread(count: int, size: int, sd: float) -> FloatArray:
    """Points that fill a Gaussian of that sd evenly, none beyond RADIUS, (count, size): the additive recurrence of the
    generalised golden ratio (Roberts 2018), its normal scores for the direction and one more coordinate for the
    radius."""
    ratio = 2.0
    for _ in range(64):
        ratio = (1.0 + ratio) ** (1.0 / (size + 2.0))
    steps = ratio ** -np.arange(1.0, size + 2.0)
    u = np.clip((0.5 + np.arange(1, count + 1)[:, None] * steps) % 1.0, 1e-6, 1.0 - 1e-6)
    direction = special.ndtri(u[:, :size])
    direction /= np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-300)
    share = (np.argsort(np.argsort(u[:, size])) + 0.5) / count
    radius = np.minimum(sd * np.sqrt(2.0 * special.gammaincinv(size / 2.0, share)), RADIUS)
    result: FloatArray = direction * radius[:, None]
    return result


def _positive(matrix: FloatArray) -> FloatArray:
    """With eigenvalues that are at least a millionth of the largest: features that chains have not seen to vary."""
    values, vectors = linalg.eigh(matrix)
    floor = max(1e-6 * float(values[-1]), 1e-9)
    result: FloatArray = (vectors * np.maximum(values, floor)) @ vectors.T
    return result
