"""Newton steps with sampled means and covariances, and an average over iterates that takes the noise out.

Chains persist from step to step. After a few steps the iterates scatter around the optimum with a spread of about
√(N / effective samples) posterior standard deviations; their mean is the estimate, and their scatter its error. The
free phase is sampled; clamped ones keep an engine that has log Z.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import linalg

from bayesfield.graph.clamp import clamp
from bayesfield.inference.completion import completed
from bayesfield.inference.sampling.gibbs_chains import Chains
from bayesfield.inference.sampling.sampled import dense
from bayesfield.learning.search.minimise import random_width, unseen_parameters
from bayesfield.learning.search.optimum import QUIET, Iteration, Optimum, Progress
from bayesfield.learning.search.pseudo_likelihood import pseudo_likelihood_map
from bayesfield.response.sampled import pooled_covariance, shrinkage
from bayesfield.types import FloatArray, IntArray, Outcome, Status

if TYPE_CHECKING:
    from bayesfield.inference.sampling.sampled import Sampled
    from bayesfield.learning.objective import Objective, Point
    from bayesfield.learning.phases.base import Answer
    from bayesfield.learning.phases.graph import GraphPhase
    from bayesfield.response.sampled import SampleResponse

_APPROACH = 3  # steps before iterates are averaged
_FEWEST = 4  # iterates in an average whose scatter is trusted
_FORGOTTEN = 0.1  # posterior sd: difference that chains from other beginnings may have, …
_NOISE = 3.0  # … and times its own noise; 1 ± 0.1 of it where chains mix, with some hundred parameters
_RESIDUAL = "the residual is the Monte-Carlo error in posterior sd"
_ROUGH, _MANY_CASES = 0.2, 50_000  # posterior sd (rms) of a start; with fewer cases it is found anyway
_ROUNDS, _FILLED = 10, 4  # of stochastic EM, and how many of the last are averaged
_NEAR = 0.3  # posterior sd: after a step as short (rms), the covariance of the step before is as good
_STATES = 40_960  # of chains, for a covariance by bits: 3 % of an entry, averaged over iterates; …
_PER_PARAMETER = 20  # … more where the inverse, too large by 1 / (1 − F / states), would need them
_FEW = 1000  # parameters whose P is factored at every step
_LONGEST, _FAST = 2.0, 3.0  # posterior sd: longest step of any parameter; times as long, after a long one
_LONG, _LOST = (
    1.0,
    30,
)  # posterior sd (rms) of a long step, where chains' noise is below; so many in a row are a failure
_PAST, _BEYOND = 0.5, 0.05  # shares of a slope, with the other sign, that say that a step, and a start, passed it by


def sampled_newton(
    objective: Objective, start: FloatArray, max_steps: int, progress: Progress = QUIET
) -> tuple[Optimum, FloatArray, FloatArray]:
    """The optimum, the average precision, and the Monte-Carlo error of each parameter in posterior sd.

    Stops when the root mean square of that error is below the engine's ``error``.
    """
    phase = objective.free
    engine: Sampled = phase.engine
    here, chains = start.copy(), None
    iterates: list[FloatArray] = []
    gathered = _Gathered()
    log: list[Iteration] = []
    error = np.full(len(start), np.inf)
    converged, far, lost = False, np.inf, 0
    approach, way = phase.with_engine(engine.brief), _Way(here, here - here, 0.0)
    while len(log) < max_steps and not converged and lost < _LOST and not (log and progress.expired):
        answer = (phase if len(log) >= _APPROACH and not lost else approach).at(here, chains)
        chains = answer.state
        gradient = sampled_gradient(objective, here, answer.mean)
        if lost and way.overshot(gradient, _PAST if log else _BEYOND):
            lost, way = lost + 1, way.half()
            here = way.end
            continue
        averaged = len(log) >= _APPROACH and not lost
        if averaged or far > _NEAR:
            found = _covariance(phase, answer)
            guessed = objective.observed_covariance(here)
        if far > _NEAR or len(start) <= _FEW:  # averages of iterates hang little on the curvature of their steps
            precision, factor = objective.sampled_factor(found.shrunk, guessed)
            sd = _sd(factor)
        step, share = _step(factor, gradient, sd, _LONGEST * (_FAST if lost else 1.0))
        far = float(np.sqrt(np.mean((step / sd) ** 2))) if len(step) else 0.0
        lost = lost + 1 if _long(far / share, phase, answer, factor) else 0
        if lost and not log:
            way = _from_prior(objective, approach, here)
            if way.overshot(gradient, _BEYOND):
                way = way.half()
                here = way.end
                continue
        way = _Way(here, -step, -float(gradient @ step))
        here = way.end
        log.append(_iteration(len(log), gradient, step, sd))
        progress.tell(log[-1])
        if averaged:
            iterates.append(here)
            gathered.add(found, guessed)
        if len(iterates) >= _FEWEST:
            error = np.std(iterates, axis=0, ddof=1) / np.sqrt(len(iterates)) / sd
            converged = bool(np.sqrt(np.mean(error**2)) < engine.error)
    mean = np.mean(iterates, axis=0) if iterates else here
    average = precision
    if gathered.count:
        average = objective.sampled_precision(gathered.free(phase, mean), gathered.hidden / gathered.count)
    point = _point(objective, mean, chains)
    outcome = Outcome.OPTIMUM if converged else Outcome.TIME_UP if progress.expired else Outcome.NO_OPTIMUM
    status = _status(outcome, error, log, chains, _met(objective, engine, point, average))
    return Optimum(point, status, tuple(log)), average, error


def _status(
    outcome: Outcome, error: FloatArray, log: list[Iteration], chains: Chains | None, met: tuple[float, float | None]
) -> Status:
    """met: as of ``_met``."""
    detail, (gap, mixing) = _RESIDUAL, met
    if gap > _FORGOTTEN:
        outcome, detail = Outcome.SLOW, f"they differ by {gap:.2g} posterior sd"
        mixing = max(mixing or 0.0, gap / _FORGOTTEN)
    elif mixing is not None and mixing > 1.0:
        outcome, detail = Outcome.SLOW, f"{mixing:.2g} times the memory or the difference that is allowed"
    if chains is not None and chains.moves is not None:
        detail += f"; chains moved {chains.moves}"
    residual = float(np.sqrt(np.mean(error**2))) if len(error) else 0.0
    return Status(outcome, len(log), residual, detail, np.array([i.distance for i in log]), mixing)


class _Way(NamedTuple):
    """A step, of which the objective's slope at its begin is known. L is convex but for what is hidden, so that slopes
    grow along it: where couplings become strong enough for another phase, by orders of magnitude within one step."""

    begin: FloatArray
    step: FloatArray
    slope: float

    @property
    def end(self) -> FloatArray:
        return self.begin + self.step

    def overshot(self, gradient: FloatArray, share: float) -> bool:
        """Whether the slope at the end, of this gradient, is beyond a share of the first, with the other sign."""
        return bool(float(gradient @ self.step) > share * abs(self.slope) > 0.0)

    def half(self) -> _Way:
        return _Way(self.begin, self.step / 2, self.slope / 2)


def _from_prior(objective: Objective, approach: GraphPhase, start: FloatArray) -> _Way:
    """From the prior's location to the start of a search. Where that lies on the far side of the optimum, in a phase of
    the field in which no case is, Newton's steps know nothing of the way back."""
    origin = objective.prior.location
    gradient = sampled_gradient(objective, origin, approach.at(origin).mean)
    return _Way(origin, start - origin, float(gradient @ (start - origin)))


def _long(length: float, phase: GraphPhase, answer: Answer, factor: tuple[FloatArray, bool]) -> bool:
    """Whether a step of this length, root mean square in posterior sd, is long, and by more than the chains' noise."""
    if length <= _LONG:
        return False
    each = phase.weight * np.array([phase.design.expectations(t) for t in answer.state.batch_means])
    away = (each - each.mean(axis=0)) / np.sqrt(len(each) * (len(each) - 1))
    noise = np.sqrt(np.einsum("bf,fb->", away, linalg.cho_solve(factor, away.T)) / away.shape[1])
    return bool(length > _NOISE * noise)


def sampled_gradient(objective: Objective, parameters: FloatArray, mean: FloatArray) -> FloatArray:
    """∇L with E[f] of the free phase sampled."""
    weight: float = objective.free.weight
    return weight * mean - objective.observed_mean(parameters) + objective.prior.pull(parameters)


def _point(objective: Objective, parameters: FloatArray, chains: Chains | None) -> Point:
    phase, *rest = objective.phases
    return objective.point(parameters, (phase.at(parameters, chains), *(other.at(parameters) for other in rest)))


def sampled_start(objective: Objective, seed: int) -> FloatArray:
    """Where a sampled search begins: the pseudo-likelihood's optimum, holes filled where there are any."""
    cases = objective.data.cases
    if cases.complete:
        rough = _ROUGH * np.sqrt(objective.size) if objective.weight > _MANY_CASES else 1e-6
        return pseudo_likelihood_map(cases, objective.prior, rough)
    return stochastic_em(objective, seed)


def stochastic_em(objective: Objective, seed: int) -> FloatArray:
    """Pseudo-likelihood of data whose holes are drawn by it, over and over: a start for dense fields.

    Where all parameters are shown the first holes are filled by the variables' own frequencies.
    """
    cases, unseen = objective.data.cases, unseen_parameters(objective)
    rng, codes = np.random.default_rng(seed), cases.codes
    clamped = cases.clamped if cases.weights is None else clamp(cases.field, codes)
    here = objective.prior.location.copy()
    if len(unseen):
        here[unseen] += random_width(objective, unseen)[unseen] * rng.standard_normal(len(unseen))
        filled = completed(codes, clamped, here, rng)
    else:
        filled = np.column_stack([_filled(column, rng) for column in codes.T])
    last: list[FloatArray] = []
    for _ in range(_ROUNDS):
        here = pseudo_likelihood_map(replace(cases, codes=filled), objective.prior)
        filled = completed(codes, clamped, here, rng)
        last = [*last, here][-_FILLED:]
    result: FloatArray = np.mean(last, axis=0)
    return result


def _filled(column: IntArray, rng: np.random.Generator) -> IntArray:
    seen = column[column >= 0]
    return np.where(column < 0, rng.choice(seen, len(column)) if len(seen) else 0, column)


def _met(objective: Objective, engine: Sampled, final: Point, precision: FloatArray) -> tuple[float, float | None]:
    """How far other chains, begun anew, are from those of the search, in posterior sd; and whether all have mixed.

    √(dᵀP⁻¹d / F), over all directions and not parameter by parameter: what chains do not cross is stiff, and moves each
    a little only. Zero where it is no more than noise. The new ones begin at the data, too, at random, and at low
    temperature: where chains cannot cross between states of the field nothing else would tell. Whether they mixed: the
    larger figure (Status.mixing) of new and old.
    """
    phase: GraphPhase = objective.free
    graph, answer = phase.graph, final.answers[0]
    if not len(precision):
        return 0.0, answer.status.mixing
    theta, other = answer.found[0], replace(engine, seed=engine.seed + 1)
    anew = other.infer(graph, theta, other.begin(graph, theta, objective.observed_codes()))
    mixing = max((s.mixing for s in (anew.status, answer.status) if s.mixing is not None), default=None)
    expectations = phase.design.expectations
    each = [phase.weight * np.array([expectations(t) for t in c.batch_means]) for c in (anew.state, answer.state)]
    gap = each[0].mean(axis=0) - each[1].mean(axis=0)
    away = np.concatenate([(b - b.mean(axis=0)) / np.sqrt(len(b) * (len(b) - 1)) for b in each])
    try:
        factor = linalg.cho_factor(precision)
    except linalg.LinAlgError:  # refused elsewhere, with the parameters named
        return 0.0, mixing
    size = float(np.sqrt(gap @ linalg.cho_solve(factor, gap) / len(gap)))
    noise = float(np.sqrt(np.einsum("bf,fb->", away, linalg.cho_solve(factor, away.T)) / len(gap)))
    return (size if size > _NOISE * noise else 0.0), mixing


class _Covariance(NamedTuple):
    """Of the features over sampled states: as it is, shrunk, and the variance of its entries where that is known."""

    bare: FloatArray
    shrunk: FloatArray
    noise: FloatArray | None


def _covariance(phase: GraphPhase, answer: Answer) -> _Covariance:
    """By bits where features have two values and no other estimate could help: on dense fields."""
    if dense(phase.graph):
        states = answer.state.states
        enough = max(_STATES, _PER_PARAMETER * phase.design.matrix.shape[1]) // len(states) + 1
        found = pooled_covariance(phase.graph, phase.design, states[:, :enough])
        if found is not None:
            return _Covariance(found, found, None)
    response: SampleResponse = phase.response(answer)  # type: ignore[assignment]
    shrink: bool = phase.engine.shrink  # type: ignore[attr-defined]
    return _Covariance(response.bare(), response.covariance(), response.noise() if shrink else None)


class _Gathered:
    """Sums over iterates: of sample covariances, of the variances of their entries, and of what is hidden."""

    def __init__(self) -> None:
        self.count = 0
        self.hidden: FloatArray | float = 0.0
        self._bare: FloatArray | None = None
        self._noise: FloatArray | None = None

    def add(self, found: _Covariance, hidden: FloatArray | float) -> None:
        self.count += 1
        self.hidden = self.hidden + hidden
        self._bare = _plus(self._bare, found.bare)
        self._noise = self._noise if found.noise is None else _plus(self._noise, found.noise)

    def free(self, phase: GraphPhase, parameters: FloatArray) -> FloatArray:
        """The mean covariance, shrunk once, by what noise is left in the mean."""
        assert self._bare is not None
        mean = self._bare / self.count
        if self._noise is None:
            return mean
        engine: Sampled = phase.engine  # type: ignore[assignment]
        target = engine.target(phase.graph, phase.design, phase.design.potentials(parameters))
        if target is not None:
            weight = shrinkage(mean, self._noise / self.count**2, target)
            mean = (1.0 - weight) * mean + weight * target
        return mean


def _plus(total: FloatArray | None, one: FloatArray) -> FloatArray:
    if total is None:
        return one.copy()
    total += one
    return total


def _sd(factor: tuple[FloatArray, bool]) -> FloatArray:
    """√diag(P⁻¹) from P = UᵀU: P⁻¹ = U⁻¹U⁻ᵀ, a third of the work of P⁻¹."""
    if not len(factor[0]):
        return np.empty(0)
    inverse, _ = linalg.lapack.dtrtri(np.triu(factor[0]), lower=0)
    result: FloatArray = np.sqrt(np.einsum("ij,ij->i", inverse, inverse))
    return result


def _step(
    factor: tuple[FloatArray, bool], gradient: FloatArray, sd: FloatArray, most: float
) -> tuple[FloatArray, float]:
    """P⁻¹g, shortened to a share of it where it would carry a parameter further than that, in posterior sd."""
    step: FloatArray = linalg.cho_solve(factor, gradient)
    longest = float(np.abs(step / sd).max(initial=0.0))
    share = min(1.0, most / max(longest, 1e-300))
    return step * share, share


def _iteration(number: int, gradient: FloatArray, step: FloatArray, sd: FloatArray) -> Iteration:
    distance = float(np.linalg.norm(step / sd))
    return Iteration(number, float("nan"), float(np.abs(gradient).max(initial=0.0)), distance, 1.0)
