"""Newton steps with sampled means and covariances, and an average over iterates that takes the noise out.

Chains persist from step to step. After a few steps the iterates scatter around the optimum with a spread of about
√(N / effective samples) posterior standard deviations; their mean is the estimate, and their scatter its error. The
free phase is sampled; clamped ones keep an engine that has log Z.
"""

from __future__ import annotations

import math
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
_MOST_STATES, _ROUGHEST = 4e7, 0.3  # of chains, after which a mode with such an error is taken, in posterior sd
_RESIDUAL = "the residual is the Monte-Carlo error in posterior sd"
_ROUGH, _MANY_CASES = 0.2, 50_000  # posterior sd (rms) of a start, from that of so many cases; fewer take all
_ROUNDS, _FILLED = 10, 4  # of stochastic EM, and how many of the last are averaged
_NEAR = 0.3  # posterior sd: after a step as short (rms), the covariance of the step before is as good
_STATES = 40_960  # of chains, for a covariance by bits: 3 % of an entry, averaged over iterates; …
_WIDTHS = 0.0125  # relative error of widths (rms): of some hundreds one is then 4 % off
_MANY = 2  # … more for very many parameters, …
_LEAST_TOLD = 0.3  # … as the inverse would not be known with states that are fewer
_FEW = 1000  # parameters whose P is made at every step
_SLOW = 0.5  # share of a step's length that the next may have, where P is kept for many parameters
_PROBES = 256  # random signs
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
    curvature, log = _Curvature(objective), list[Iteration]()
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
        curvature.look(answer, here, far, averaged)
        step, share = curvature.step(gradient, _LONGEST * (_FAST if lost else 1.0))
        sd = curvature.sd
        far = float(np.sqrt(np.mean((step / sd) ** 2))) if len(step) else 0.0
        lost = lost + 1 if _long(far / share, phase, answer, curvature) else 0
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
        if len(iterates) >= _FEWEST:
            error = np.std(iterates, axis=0, ddof=1) / np.sqrt(len(iterates)) / sd
            rms, spent = float(np.sqrt(np.mean(error**2))), len(iterates) * engine.chains * engine.sweeps
            converged = rms < engine.error and curvature.rough < _WIDTHS
            converged = converged or (rms < _ROUGHEST and spent > _MOST_STATES)
    mean = np.mean(iterates, axis=0) if iterates else here
    average = curvature.average(mean)
    point = _point(objective, mean, chains)
    outcome = Outcome.OPTIMUM if converged else Outcome.TIME_UP if progress.expired else Outcome.NO_OPTIMUM
    status = _status(outcome, error, log, chains, _met(objective, engine, point, curvature))
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


def _long(length: float, phase: GraphPhase, answer: Answer, curvature: _Curvature) -> bool:
    """Whether a step of this length, root mean square in posterior sd, is long, and by more than the chains' noise."""
    if length <= _LONG:
        return False
    each = phase.weight * np.array([phase.design.expectations(t) for t in answer.state.batch_means])
    return length > _NOISE * curvature.noise([each])


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
        if objective.weight <= _MANY_CASES:
            return pseudo_likelihood_map(cases, objective.prior)
        near, every = objective.prior.location, len(cases.codes) // _MANY_CASES
        if cases.weights is None and every > 1:
            some = cases.codes[::every]
            near = pseudo_likelihood_map(replace(cases, codes=some, weight=float(len(some))), objective.prior)
        return pseudo_likelihood_map(cases, objective.prior, _ROUGH * np.sqrt(objective.size), near)
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


def _met(objective: Objective, engine: Sampled, final: Point, curvature: _Curvature) -> tuple[float, float | None]:
    """How far other chains, begun anew, are from those of the search, in posterior sd; and whether all have mixed.

    √(dᵀP⁻¹d / F), over all directions and not parameter by parameter: what chains do not cross is stiff, and moves each
    a little only. Zero where it is no more than noise. The new ones begin at the data, too, at random, and at low
    temperature: where chains cannot cross between states of the field nothing else would tell. Whether they mixed: the
    larger figure (Status.mixing) of new and old.
    """
    phase: GraphPhase = objective.free
    graph, answer = phase.graph, final.answers[0]
    if not objective.size:
        return 0.0, answer.status.mixing
    theta, other = answer.found[0], replace(engine, seed=engine.seed + 1)
    anew = other.infer(graph, theta, other.begin(graph, theta, objective.observed_codes()))
    mixing = max((s.mixing for s in (anew.status, answer.status) if s.mixing is not None), default=None)
    expectations = phase.design.expectations
    each = [phase.weight * np.array([expectations(t) for t in c.batch_means]) for c in (anew.state, answer.state)]
    gap = each[0].mean(axis=0) - each[1].mean(axis=0)
    size = float(np.sqrt(gap @ curvature.solve(gap) / len(gap)))
    return (size if size > _NOISE * curvature.noise(each) else 0.0), mixing


class _Covariance(NamedTuple):
    """Of the features over so many states: as it is, shrunk, and the variance of its entries where that is known."""

    bare: FloatArray
    shrunk: FloatArray
    noise: FloatArray | None
    states: int


def _covariance(phase: GraphPhase, answer: Answer) -> _Covariance:
    """By bits where features have two values and no other estimate could help: on dense fields. Where chains climb a
    ladder their states cost more than to count them: all are."""
    if dense(phase.graph):
        states = answer.state.states
        if answer.state.moves is None:
            states = states[:, : max(_STATES, _MANY * phase.design.matrix.shape[1]) // len(states) + 1]
        found = pooled_covariance(phase.graph, phase.design, states)
        if found is not None:
            return _Covariance(found, found, None, states.shape[0] * states.shape[1])
    response: SampleResponse = phase.response(answer)  # type: ignore[assignment]
    shrink: bool = phase.engine.shrink  # type: ignore[attr-defined]
    return _Covariance(
        response.bare(),
        response.covariance(),
        response.noise() if shrink else None,
        math.prod(answer.state.states.shape[:2]),
    )


class _Curvature:
    """P that steps are taken by, and the covariances at iterates, of which the posterior's P is made.

    With few parameters both are made at every iterate. With many one of the first steps' serves while steps become
    shorter, in single precision, and sd are by probes.
    """

    def __init__(self, objective: Objective) -> None:
        self.objective, self.many = objective, objective.size > _FEW
        self.factor: tuple[FloatArray, bool] = np.empty((0, 0)), False
        self.sd, self._scale = np.empty(0), np.empty(0)
        self._latest: tuple[_Covariance, FloatArray | float] | None = None
        self._before = 0.0
        self._count, self._states, self._made_of = 0, 0, 0
        self._bare: FloatArray | None = None
        self._noise: FloatArray | None = None
        self._hidden: FloatArray | float = 0.0
        self._along: FloatArray | None = None  # P⁻¹ at the first iterate that counts
        self._widths: list[FloatArray] = []

    def look(self, answer: Answer, here: FloatArray, far: float, averaged: bool) -> None:
        """far: length of the last step. averaged: whether it is from iterates that count."""
        phase, objective = self.objective.free, self.objective
        if self.many:
            anew, kept = far > max(_NEAR, _SLOW * self._before), averaged and self._states < _MANY * objective.size
        else:
            anew, kept = averaged or far > _NEAR, averaged
        self._before = far if np.isfinite(far) else self._before
        if anew or kept:
            found, hidden = _covariance(phase, answer), objective.observed_covariance(here)
            self._latest = found, hidden
        if anew:
            _, self.factor = objective.sampled_factor(found.shrunk, hidden, np.float32 if self.many else np.float64)
            diagonal = objective.prior.diagonal + phase.weight * np.diag(found.shrunk)
            diagonal -= np.diag(hidden) if isinstance(hidden, np.ndarray) else hidden
            self._scale = np.sqrt(np.maximum(diagonal, objective.prior.diagonal))
            self.sd, self._made_of = self._probed().sd if self.many else _sd(self.factor), found.states
        if kept:
            self._count, self._states = self._count + 1, self._states + found.states
            self._hidden = self._hidden + hidden
            self._bare, self._latest = _plus(self._bare, found.bare), None
            self._noise = self._noise if found.noise is None else _plus(self._noise, found.noise)
            if not self.many:
                self._along = self.solve(np.eye(objective.size)) if self._along is None else self._along
                self._widths.append(np.einsum("fp,fp->p", self._along, found.bare @ self._along))

    @property
    def rough(self) -> float:
        """Relative error of the widths, root mean square, by the scatter over iterates: d(P⁻¹)_ii = −N uᵀ dC u with u
        the column of P⁻¹."""
        if len(self._widths) < _FEWEST or self._along is None:
            return 0.0
        error = np.std(self._widths, axis=0, ddof=1) / np.sqrt(len(self._widths))
        error = 0.5 * self.objective.free.weight * error / np.diag(self._along)
        return float(np.sqrt(np.mean(error**2)))

    def solve(self, vectors: FloatArray) -> FloatArray:
        """P⁻¹v"""
        result: FloatArray = linalg.cho_solve(self.factor, vectors.astype(self.factor[0].dtype), check_finite=False)
        return result.astype(np.float64)

    def step(self, gradient: FloatArray, most: float) -> tuple[FloatArray, float]:
        """P⁻¹g, shortened to a share of it where it would carry a parameter further than that, in posterior sd."""
        step = self.solve(gradient)
        longest = float(np.abs(step / self.sd).max(initial=0.0))
        share = min(1.0, most / max(longest, 1e-300))
        return step * share, share

    def noise(self, each: list[FloatArray]) -> float:
        """Of differences of means of batches, each (batches, F): root mean square in posterior sd."""
        away = np.concatenate([(b - b.mean(axis=0)) / np.sqrt(len(b) * (len(b) - 1)) for b in each])
        return float(np.sqrt(np.einsum("bf,fb->", away, self.solve(away.T)) / away.shape[1]))

    def average(self, parameters: FloatArray) -> FloatArray:
        """P of the mean covariance, shrunk once, by what noise is left in the mean.

        M states leave (N Ĉ + Λ⁻¹)⁻¹ too wide, as if N C counted 1 − t times: t = tr(N C P⁻¹) / M, the parameters that
        the data tell for each state (the deterministic equivalent of a sample covariance). So it is taken 1 / (1 − t)
        times. The P of steps tells t, which has that fault itself.
        """
        objective, phase = self.objective, self.objective.free
        if self._bare is None:
            if self._latest is None:
                return np.empty((0, 0))
            return objective.sampled_precision(self._latest[0].shrunk, self._latest[1])
        mean = self._bare
        mean /= self._count
        if self._noise is None:
            mean /= max(1.0 - self._told() / self._states, _LEAST_TOLD)
        else:
            target = phase.engine.target(phase.graph, phase.design, phase.design.potentials(parameters))
            if target is not None:
                weight = shrinkage(mean, self._noise / self._count**2, target)
                mean = (1.0 - weight) * mean + weight * target
        return objective.sampled_precision(mean, self._hidden / self._count)

    def _told(self) -> float:
        """tr(N C P⁻¹), as if N C were the same multiple of Λ⁻¹ in all directions."""
        size = self.objective.size
        raw = min(max(size - self._probed().held, 0.0), 0.999 * size)
        ratio = raw / (size - raw) / max(1.0 - raw / self._made_of, _LEAST_TOLD)
        return size * ratio / (1.0 + ratio)

    def _probed(self) -> _Probed:
        """By z = D s with signs s and D² = diag(P), so that a parameter's noise is of its own size: E[s (P⁻¹z)] is
        D diag(P⁻¹), and E[(D⁻¹s)ᵀ Λ⁻¹ P⁻¹z] the trace. Without D the widths of couplings of five answers drowned in the
        noise of thresholds, which are a hundred times as wide."""
        scale = self._scale[:, None]
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (self.objective.size, _PROBES))
        solved = self.solve(scale * signs)
        variance = np.maximum((signs * solved).mean(axis=1) / self._scale, self._scale**-2.0)  # P⁻¹ᵢᵢ ≥ 1 / Pᵢᵢ
        return _Probed(np.sqrt(variance), float(np.sum(solved * self.objective.prior.times(signs / scale)) / _PROBES))


class _Probed(NamedTuple):
    """√diag(P⁻¹) and tr(Λ⁻¹P⁻¹), by random signs: each sd to an eleventh of it."""

    sd: FloatArray
    held: float


def _plus(total: FloatArray | None, one: FloatArray) -> FloatArray:
    return one.copy() if total is None else np.add(total, one, out=total)


def _sd(factor: tuple[FloatArray, bool]) -> FloatArray:
    """√diag(P⁻¹) from P = UᵀU: P⁻¹ = U⁻¹U⁻ᵀ, a third of the work of P⁻¹."""
    if not len(factor[0]):
        return np.empty(0)
    inverse, _ = linalg.lapack.dtrtri(np.triu(factor[0]), lower=0)
    result: FloatArray = np.sqrt(np.einsum("ij,ij->i", inverse, inverse))
    return result


def _iteration(number: int, gradient: FloatArray, step: FloatArray, sd: FloatArray) -> Iteration:
    distance = float(np.linalg.norm(step / sd))
    return Iteration(number, float("nan"), float(np.abs(gradient).max(initial=0.0)), distance, 1.0)
