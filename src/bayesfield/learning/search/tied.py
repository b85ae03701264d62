"""The search for few parameters that are tied over many variables: chains, their means, and a surface through them.

1. The pseudo-likelihood's optimum, from the few conditionals that differ.
2. All chains at one λ, Newton steps by their means and their covariance, chains persisting and rounds becoming longer
   until chains forget within a round. Where they do not within LONG sweeps, cluster updates are added.
3. Chains spread over the posterior, each at parameters of its own; log Z fitted to their means
   (``learning.phases.surface``); once more about the new mode where it lies aside.

What is hidden in cases has chains of its own, at the same parameters, and a surface of its own, unless exact inference
is affordable there.

How long chains run follows from the variance of their means over one another: a chain whose mean over T sweeps has
covariance B, where single states have C, forgets in 2τ = T B / C sweeps (the largest over all directions). The same of
squares counts twice, for they forget in half the time, and it is they that tell where whole fields are turned between
two looks: signs are then new each time, and sizes are not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import linalg, special

from bayesfield.inference.sampling.streams import WAYS, Series, Streams, streams, way
from bayesfield.learning.phases.graph import GraphPhase
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

RADIUS = 3.5  # posterior sd over which chains are spread: 0.2 % of a Gaussian of two parameters lies beyond
_FIRST, _LONGER = 32, 4  # sweeps of the first round; by how much the next is longer where chains do not forget
LONG = 128  # sweeps that single sites may need to forget; cluster updates are cheaper where they need more
_STEPS = 16  # rounds at most before chains are spread
_AGAIN = 6  # rounds in which chains forget, at most: the surface comes nearer
_FORGOTTEN = 0.4, 0.7  # B / C of half a round when chains are spread: by single sites, and with cluster updates
_NEAR = 1.0  # posterior sd: a step that short ends the approach
_LONGEST, _PER_ROOT = 4.0, 1 / 16  # posterior sd of a step, or for each root of the variables, as sd is one over it
_BURN = 1.25  # times 2τ: e⁻²·⁵ of what chains were is left, which tells in 2 % of the slopes
_LEAST = 2.0  # times 2τ that chains run at least
_ASIDE = 0.7  # posterior sd, or log of widths: chains that were spread by moments so far away are spread again
_WIDER = 1.4  # posterior sd by which chains are spread: tails are where weights are uneven
_INFLATION = 1.5  # of the error's square: chains aside count for less
_FITS = 1.25  # residuals over noise, both squared, up to which a polynomial is taken
_KEPT = 6000  # states that weights are made of
_DRAWS = 1024  # points by which moments are integrated
_SURFACES = 6
_LEAST_SWEEPS = 200  # that any budget allows
_TWO = 1.5  # kurtosis below which states and their negatives are two groups
_GAPPED, _RARE = 2.0, 0.03  # kurtosis of chains on two sides, and share of states that the other side has
_GAP, _NOISE = 0.1, 4.0  # posterior sd, and times its noise, by which chains that began apart may differ
_OFTEN = 4  # states for each 2τ that are looked at
_APPROACH = 0.6  # of the budget that is left for the surfaces
_SHORTAGE = 2.0  # times the error asked for: chains that end so far from it have not run long enough
_LEFT = 0.05  # of the free phase's curvature that is left at least when that of the hidden cells is taken off
_TINY = 0.1  # sd of the noise of chains: to so much a polynomial must follow exact means
CRITICAL = (
    "the data lie near a critical point or beyond it, where variables far apart go together: small changes of the "
    "parameters change whole images, and images of one fit differ as wholes"
)


class Part(NamedTuple):
    """A phase and its chains; none where its engine is exact."""

    phase: GraphPhase
    chains: Streams | None

    def run(self, points: FloatArray, sweeps: int, every: int) -> Series:
        if self.chains is not None:
            return self.chains.run(points, sweeps, every)
        distinct, which = np.unique(points, axis=0, return_inverse=True)
        means = self.phase.at_many(distinct).means[which.reshape(-1)]
        return Series(*(np.broadcast_to(means, (sweeps // every, *means.shape)) for _ in range(3)))

    def covariance(self, series: Series, at: FloatArray) -> FloatArray:
        """C where all chains are at one λ."""
        if self.chains is None:
            return self.phase.response(self.phase.at(at)).covariance()
        size = len(at)
        return np.cov(series.states.reshape(-1, size).T).reshape(size, size)


class Round(NamedTuple):
    """All chains at one λ. curvature: Σ_k w_k C_k. variance: Σ_k w_k² C_k, of one state of all chains. share: the
    largest B / C of chains' means over half the round, B its covariance weighted like the variance."""

    gradient: FloatArray
    curvature: FloatArray
    variance: FloatArray
    between: FloatArray
    share: float


class Approach(NamedTuple):
    """Where the steps ended. look: the round there, of so many sweeps."""

    parameters: FloatArray
    look: Round
    sweeps: int
    log: tuple[Iteration, ...]

    @property
    def memory(self) -> float:
        """2τ in sweeps."""
        return self.look.share * max(self.sweeps / 2, 1.0)


class About(NamedTuple):
    """Where chains are spread: about a centre, by a precision P. variance: of one state. memory: 2τ in sweeps."""

    centre: FloatArray
    precision: FloatArray
    variance: FloatArray
    memory: float


@dataclass(eq=False)
class _Budget:
    """Seconds of counted work that are left, and what a sweep of all chains costs of them."""

    left: float
    parts: list[Part]

    @property
    def sweeps(self) -> int:
        return max(int(self.left / self._price()), 1)

    def take(self, sweeps: float) -> int:
        taken = int(max(min(sweeps, self.sweeps), 1))
        self.left -= taken * self._price()
        return taken

    def _price(self) -> float:
        return sum(part.chains.price() for part in self.parts if part.chains is not None)


def tied_start(objective: Objective) -> FloatArray:
    """The pseudo-likelihood's optimum."""
    return conditionals_map(objective.data.cases, objective.prior)


def surfaced(objective: Objective, start: FloatArray, progress: Progress = QUIET) -> Objective:
    """The objective with every phase's log Z as a surface about the mode."""
    phase: GraphPhase = objective.free
    engine: Streamed = phase.engine  # type: ignore[assignment]
    parts = _parts(objective, engine.seed)
    budget = _Budget(0.0, parts)
    budget.left = max(engine.allowed(phase.graph), _LEAST_SWEEPS * budget._price())
    near = _approach(objective, parts, start, budget, progress)
    about = About(near.parameters, objective.prior.plus(near.look.curvature.copy()), near.look.variance, near.memory)
    for attempt in range(_SURFACES):
        phases, status, memory = _surface(objective, parts, about, budget)
        made = replace(objective, phases=phases)
        moments, distance = _moments(made, phases[0].surface)  # type: ignore[attr-defined]
        progress.tell(Iteration(len(near.log) + attempt, float("nan"), float("nan"), distance, 1.0))
        slow = status.mixing is not None and status.mixing > 1.0
        hastened = slow and not parts[0].chains.hastened and parts[0].chains.hasten()  # type: ignore[union-attr]
        if (distance < _ASIDE and not hastened) or budget.sweeps < (_BURN + _LEAST) * memory or progress.expired:
            break
        about = About(*moments, near.look.variance, max(memory, near.memory))
    if distance >= _ASIDE:
        said = status.detail.removesuffix(f"; {CRITICAL}")
        said += f"; chains were spread {distance:.1f} posterior sd, or log widths, beside where the posterior then lay"
        status = replace(status, outcome=Outcome.SLOW, detail=f"{said}; {CRITICAL}")
        made = replace(made, phases=(replace(phases[0], status=status), *phases[1:]))  # type: ignore[call-arg]
    return made


def _parts(objective: Objective, seed: int) -> list[Part]:
    """The free phase's chains begin at the data; those of hidden cells, as many, at random."""
    free = objective.free
    parts = [Part(free, streams(free.graph, free.design, objective.observed_codes(), seed))]
    for k, hidden in enumerate(objective.phases[1:], start=1):
        phase: GraphPhase = hidden  # type: ignore[assignment]
        exact = phase.engine.traits.exact
        chains = None if exact else streams(phase.graph, phase.design, None, seed + k, parts[0].chains.chains)  # type: ignore[union-attr]
        parts.append(Part(phase, chains))
    return parts


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


def _approach(
    objective: Objective, parts: list[Part], start: FloatArray, budget: _Budget, progress: Progress
) -> Approach:
    """Newton steps by all chains at one λ.

    −log p is convex where nothing is hidden, so that its slope along a step must not turn: where it has, the step was
    too long, and the secant's root between both ends comes next. Slopes by chains that remember the data say nothing of
    that: a 256 × 256 image near the critical point stayed seven sd aside, between two of them.
    """
    free, whole = parts[0].chains, budget.left
    assert free is not None
    here, sweeps, log = _on_side(start, free.turned), _FIRST, []
    longest = max(_LONGEST, _PER_ROOT * np.sqrt(len(objective.free.graph.arrays.cardinality)))
    before: tuple[FloatArray, FloatArray] | None = None  # the last point, and the gradient there
    often, near = 0, None
    best: tuple[bool, float, FloatArray, Round, int] | None = None
    for number in range(_STEPS):
        taken = budget.take(sweeps)
        look = _round(objective, parts, here, taken)
        precision = objective.prior.plus(look.curvature.copy())
        step = linalg.solve(precision, look.gradient, assume_a="pos")
        distance = float(np.sqrt(max(look.gradient @ step, 0.0)))
        log.append(Iteration(number, float("nan"), float(np.abs(look.gradient).max()), distance, 1.0))
        progress.tell(log[-1])
        # the mean of all chains is known to so many posterior sd: a step that short is noise
        noise = np.sqrt(np.trace(linalg.solve(precision, look.between, assume_a="pos")) / free.chains)
        forgets = look.share <= _FORGOTTEN[free.hastened]
        if best is None or (not forgets, distance) < best[:2]:
            best = not forgets, distance, here, look, taken
        if forgets and distance < max(_NEAR, 3.0 * noise):
            near = Approach(_on_side(here - step, free.turned), look, taken, tuple(log))
            break
        turned = 0.0
        if before is not None and forgets:
            along = here - before[0]
            first, last = float(before[1] @ along), float(look.gradient @ along)
            turned = last / (last - first) if last > -0.5 * first > 0.0 else 0.0  # share of the step that was too long
        if turned:
            here = here - turned * (here - before[0])  # type: ignore[index]
        else:
            before = (here, look.gradient) if forgets else None
            here = _on_side(here - step * min(1.0, longest / max(distance, 1e-300)), free.turned)
        if not forgets and sweeps >= LONG and not free.hastened and free.hasten():
            sweeps = LONG // 2
        elif not forgets:
            sweeps *= _LONGER if sweeps < LONG else 2
        often += forgets
        if often >= _AGAIN or budget.left < _APPROACH * whole or progress.expired:
            break
    if near is None:  # where steps came nearest
        assert best is not None
        near = Approach(*best[2:], tuple(log))
    return near


def _on_side(parameters: FloatArray, turned: FloatArray | None) -> FloatArray:
    """The nearest λ at which data are likelier than their negatives x̄.

    E_λ[log p(x) − log p(x̄)] is a divergence, which is not below zero, and at the mode the data have E_λ[f]: so the mode
    is on that side, up to the prior. Newton's steps would leave it beyond a critical point, where E[f] jumps.
    """
    if turned is None:
        return parameters
    slope, length = turned[:-1], float(turned[:-1] @ turned[:-1])
    lacks = -float(parameters @ slope + turned[-1])
    return parameters if lacks <= 0.0 or length <= 0.0 else parameters + lacks / length * slope


def _round(objective: Objective, parts: list[Part], here: FloatArray, sweeps: int) -> Round:
    every = max(1, sweeps // 16)
    size = len(here)
    gradient = objective.prior.pull(here) - objective.statistic
    curvature, variance = np.zeros((size, size)), np.zeros((size, size))
    total, squares = np.zeros(1), 0.0
    for part in parts:
        weight = part.phase.weight
        points = np.tile(here, (parts[0].chains.chains, 1))  # type: ignore[union-attr]
        late = Series(*(a[len(a) // 2 :] for a in part.run(points, max(sweeps, every), every)))
        own = part.covariance(late, here)
        if part is parts[0]:
            late, own = _one_phase(late, own, parts[0].chains.turned)  # type: ignore[union-attr]
        curvature += weight * own
        variance += weight**2 * own
        total = total + weight * late.means.mean(axis=0)
        if part.chains is not None:
            squares = max(squares, _share_of_squares(late.states, own))
    gradient = gradient + total.mean(axis=0)
    between = np.cov(total.T).reshape(size, size)
    variance = _positive(variance)
    share = max(float(linalg.eigh(between, variance, eigvals_only=True)[-1]), 2.0 * squares)
    if len(parts) > 1:
        curvature = _at_least(curvature, _positive(variance / objective.free.weight))
    return Round(gradient, _positive(curvature), variance, between, share)


def _one_phase(late: Series, covariance: FloatArray, turned: FloatArray | None) -> tuple[Series, FloatArray]:
    """Chains and covariance on the data's side, where states and their negatives fall in two groups: where the
    kurtosis along what turning changes is below _TWO (1 for two points, 3 for a Gaussian; Binder 1981).

    Beyond a critical point a weak field turns whole images: states of both signs have a covariance that tells how soon
    they turn, and not how wide the posterior is, which lies on one side.
    """
    if turned is None:
        return late, covariance
    along = (late.states - late.negatives) @ turned[:-1]
    square, data = float(np.mean(along**2)), float(turned[:-1] @ turned[:-1])
    if not square > 0.0 or float(np.mean(along**4)) >= _TWO * square**2 or data < 0.5 * np.sqrt(square):
        return late, covariance  # one group, or data that lie between the two
    states = np.where(along[..., None] > 0.0, late.states, late.negatives)
    size = states.shape[-1]
    return Series(states, states, states), np.cov(states.reshape(-1, size).T).reshape(size, size)


def _share_of_squares(states: FloatArray, covariance: FloatArray) -> float:
    """B / C of the squares of features that are made independent, the largest. states: (T, chains, F)."""
    root = linalg.inv(linalg.cholesky(_positive(covariance), lower=True)).T
    squares = ((states - states.mean(axis=(0, 1))) @ root) ** 2
    between, each = squares.mean(axis=0).var(axis=0, ddof=1), squares.var(axis=(0, 1))
    return float(np.max(between / np.maximum(each, 1e-12)))


def _at_least(matrix: FloatArray, reference: FloatArray) -> FloatArray:
    """With eigenvalues, relative to the reference, of at least _LEFT."""
    values, vectors = linalg.eigh(matrix, reference)
    back = reference @ vectors
    result: FloatArray = (back * np.maximum(values, _LEFT)) @ back.T
    return result


def _surface(
    objective: Objective, parts: list[Part], about: About, budget: _Budget
) -> tuple[tuple[GraphPhase, ...], Status, float]:
    """The phases with surfaces about a point; how their chains ended; and their 2τ."""
    free = parts[0].chains
    assert free is not None
    engine, weight, size = objective.free.engine, objective.free.weight, len(about.centre)
    scale = linalg.inv(linalg.cholesky(about.precision, lower=True)).T  # S Sᵀ = P⁻¹
    wider = max(1.0, min(weight**0.25, 2.0))
    z = wider * spread(free.chains, size, _WIDER)
    points, memory = about.centre + z @ scale.T, about.memory
    burn = budget.take(_BURN * memory)
    for part in parts:
        part.run(points, burn, burn)
    every = int(max(1, memory // _OFTEN))
    target = _INFLATION * weight / engine.error**2 / free.chains  # independent states that each chain is to see
    wanted, taken = max(_LEAST, 0.6 * target) * memory, 0  # 2τ of the approach is a rough guess
    runs: list[list[Series]] = [[] for _ in parts]
    variance = scale.T @ about.variance @ scale
    while True:
        sweeps = max(budget.take(wanted), 2 * every)
        for part, run in zip(parts, runs, strict=True):
            run.append(part.run(points, sweeps, every))
        taken += sweeps
        total = sum(
            part.phase.weight * np.concatenate([s.means for s in run]) for part, run in zip(parts, runs, strict=True)
        )
        noise = _noise(np.asarray(total) @ scale)
        error = float(np.sqrt(_INFLATION * np.trace(noise) / size / free.chains))
        memory = taken * float(linalg.eigh(noise, _positive(variance), eigvals_only=True)[-1])
        wanted = max(taken * ((error / engine.error) ** 2 - 1.0), min(_LEAST * memory - taken, 3.0 * taken))
        wanted = min(wanted, 3.0 * taken)
        if wanted < 0.25 * taken or budget.sweeps <= 1:
            break
    # a run shorter than 2τ does not tell its length: both of its halves are one state
    known = max(memory, about.memory) if taken < _LEAST * about.memory else memory
    how = about.centre, scale, RADIUS * wider
    phases, fits = [], []
    for part, run in zip(parts, runs, strict=True):
        phase, fit = _fitted(part, run, z, how, noise)
        phases.append(phase)
        fits.append(fit)
    critical = known > LONG or _two_sided(runs[0], free.turned, points)
    status = _status(fits[0], noise, (error, engine.error), known, taken, (free.hastened, critical))
    made = [replace(p, status=status) if isinstance(p, SurfacePhase) else p for p in phases]
    return tuple(made), status, memory


def _two_sided(run: list[Series], turned: FloatArray | None, points: FloatArray) -> bool:
    """Whether chains nearest to where turning costs nothing lie on both sides of it with a gap between: a kurtosis
    below _GAPPED, where a Gaussian has 3."""
    if turned is None:
        return False
    nearest = np.argsort(np.abs(points @ turned[:-1] + turned[-1]))[: len(points) // 4]
    along = np.concatenate([s.states - s.negatives for s in run])[:, nearest] @ turned[:-1]
    least = min(float((along > 0.0).mean()), float((along < 0.0).mean()))
    few = along[:, : len(nearest) // 4]
    return least > _RARE and float(np.mean(few**4)) < _GAPPED * float(np.mean(few**2)) ** 2


def _fitted(
    part: Part, run: list[Series], z: FloatArray, how: tuple[FloatArray, FloatArray, float], noise: FloatArray
) -> tuple[GraphPhase, Fitted]:
    """A phase by a surface through its chains, or as it is where it is exact and no polynomial follows it."""
    (centre, scale, radius), phase, size = how, part.phase, z.shape[1]
    means = np.concatenate([s.means for s in run])
    slope = means.mean(axis=(0, 1))
    weight = abs(phase.weight)
    own = _noise(weight * means @ scale) if part.chains is not None else _positive(noise * _TINY**2)
    fit = fitted(z, weight * (means.mean(axis=0) - slope) @ scale, own)
    surface: Surface
    if fit.misfit < _FITS:
        surface = Polynomial(centre, scale, slope, radius, fit.powers, fit.coefficients / weight)
    elif part.chains is None:
        return phase, fit
    else:
        states = (np.concatenate([s.states for s in run]) - slope) @ scale
        thinned = states[:: max(1, states.shape[0] * states.shape[1] // _KEPT)].transpose(1, 0, 2)
        surface = Weighted(centre, scale, slope, radius, thinned.reshape(-1, size), log_weights(thinned, z))
    return SurfacePhase(phase.graph, phase.design, phase.engine, phase.weight, phase.contrasts, surface, None), fit


def _noise(series: FloatArray) -> FloatArray:
    """The covariance of a chain's mean, (F, F), from the two halves of all chains: halves are independent where a run
    is long, whatever the chains' parameters."""
    half = len(series) // 2
    apart = (series[:half].mean(axis=0) - series[-half:].mean(axis=0)) / 2
    return _positive(apart.T @ apart / len(apart))


def _status(
    fit: Fitted, noise: FloatArray, errors: tuple[float, float], memory: float, sweeps: int, how: tuple[bool, bool]
) -> Status:
    """Chains that began apart must have met, and must have forgotten within their run. errors: of the mode, and as
    asked for. how: whether cluster updates were needed, and whether the data are critical."""
    began, sd = way(np.arange(len(fit.residuals))), np.sqrt(fit.misfit * np.diag(noise))
    figures = []
    for w in range(WAYS):
        some = fit.residuals[began == w]
        apart = np.abs(some.mean(axis=0))
        figures.append(float(np.max(apart / np.maximum(_NOISE * sd / np.sqrt(len(some)), _GAP))))
    error, asked = errors
    mixing = max(max(figures), memory / sweeps, error / (_SHORTAGE * asked))
    hastened, critical = how
    by = ", with cluster updates between," if hastened else ""
    detail = (
        f"log Z fitted to the means of {len(fit.residuals)} chains of {sweeps:,} sweeps{by} which forget in about "
        f"{max(memory, 1.0):,.0f}; the mode is known to {error:.2g} posterior sd"
    )
    if mixing > 1.0 or critical:
        detail += f"; {CRITICAL}"
    return Status(Outcome.SLOW if mixing > 1.0 else Outcome.SAMPLED, sweeps, error, detail, mixing=mixing)


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
