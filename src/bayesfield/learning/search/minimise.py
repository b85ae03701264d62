"""Minimising the objective: Newton with the engine's own curvature, or L-BFGS; from one start or from several.

A sum of millions of terms is known to some 1e-14, and a value that is known to δ tells the optimum to √(2δ)
standard deviations only. Gradients tell it to δ. So where L-BFGS no longer sees a decrease, ``_polished`` goes
on with Newton steps by conjugate gradients, which look at the gradient.

Where variables are hidden there are several optima. Parameters that the data show directly begin where pseudo-moment
matching puts them; those that nothing shows without guessing begin at random, for in the middle all hidden states are
alike, and that is a saddle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesfield import parallel
from bayesfield.learning.objective import Objective, Point
from bayesfield.learning.precision.at import by_products, precision_at
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.learning.search.moment_matching import pseudo_moments
from bayesfield.learning.search.optimum import QUIET, Iteration, Optimum, Progress, Start, Starts, distinct
from bayesfield.learning.search.quasi_newton import below, quasi_newton
from bayesfield.types import FloatArray, IndefiniteCurvature, IntArray, InvalidInput, Outcome, Status

TANGLED = 1.0  # seconds of counted work within tables that a curvature takes, beyond which a search does without
SEVERAL = 8  # starts, by default, where some parameters are never shown
_CHEAP = 0.01  # seconds of counted work for a curvature
_WIDE = 1.0  # sd of random starts, at most
_JITTER = 0.5  # sd of further starts about the first, where all parameters are shown

ROUGH = 1e-3  # tolerance of a search from several starts
_SUFFICIENT = 1e-4  # Armijo: share of the predicted decrease that a step must bring
_ROUNDING = 1e-11  # of the value: a decrease below it cannot be seen
_HALVINGS = 25
_MANY = 20_000  # parameters beyond which products with the curvature cost more than the last digits are worth
_NEAR, _NEAR_MANY = 1e-4, 1e-3  # of the gradient that may be left; of very many weights: some 0.001 sd
_NOISE = 1e-15  # of the value: a step that brings less is the last
_POLISH, _RESIDUAL = 6, 1e-3  # Newton steps at most after L-BFGS, each solved to that part of the gradient
_RAISED, _QUICKER, _MOST_RAISED = 0.001, 3.0, 3.0  # shares of the free phase's variances that are added to P
_CRAWL, _PATIENCE = 0.02, 3  # steps that short, that many in a row: the approximation has no optimum to go to


def search(
    objective: Objective,
    points: Sequence[FloatArray],
    method: str,
    form: str,
    tolerance: float,
    max_iterations: int,
    progress: Progress = QUIET,
) -> Optimum:
    """Newton or L-BFGS from one point, or roughly from several and then from the best."""
    best, ended = points[0], []
    if len(points) > 1:
        ended = [lbfgs(objective, point, ROUGH, max_iterations, progress) for point in points]
        ended.sort(key=lambda o: o.point.value)
        best = ended[0].parameters
    if method == "newton":
        optimum = newton(objective, best, tolerance, max_iterations, progress, form)
    else:
        optimum = lbfgs(objective, best, tolerance, max_iterations, progress)
    if not ended:
        return optimum
    others = [Start(o.point.value, o.status.converged, o.parameters) for o in ended[1:]]
    first = Start(optimum.point.value, optimum.status.converged, optimum.parameters)
    group = objective.symmetries
    images = None if group is None else distinct(group.images(optimum.parameters))
    return replace(optimum, starts=Starts((first, *others), images))


# --- where to begin --------------------------------------------------------------------------------------------------


def starting_points(objective: Objective, given: FloatArray | None, count: int | None, seed: int) -> list[FloatArray]:
    """The points to begin from. given, count: the user's start, and how many starts."""
    unseen = unseen_parameters(objective)
    if not len(unseen):
        first = _first(objective) if given is None else given
        if count is None or count == 1:
            return [first]
        return [first, *_around(first, np.full(len(first), _JITTER), count - 1, np.random.default_rng(seed))]
    rng = np.random.default_rng(seed)
    first = objective.prior.location.copy()
    if objective.data.matches_moments:
        shown = np.setdiff1d(np.arange(objective.size), unseen)
        first[shown] = pseudo_moments(objective)[shown]
    points = _around(first, random_width(objective, unseen), count or (SEVERAL if given is None else 1), rng)
    return points if given is None else [given, *points[1:]]


def unseen_parameters(objective: Objective) -> IntArray:
    """Those that nothing shows without guessing, where something is hidden; else none."""
    if not objective.hidden:
        return np.empty(0, dtype=np.int64)
    result: IntArray = objective.data.unseen()
    return result


def _first(objective: Objective) -> FloatArray:
    """As the data have it; else the better of pseudo-moment matching, where the free phase has tables to match, and the
    prior mean; which is good enough for exact inference on small fields, where the objective is convex and steps cost
    nothing."""
    location, own = objective.prior.location, getattr(objective.data, "first", None)
    if own is not None:
        start: FloatArray = own(objective)
        return start
    if not objective.weight or not objective.data.matches_moments or _small(objective):
        return location
    candidates = np.array([pseudo_moments(objective), location])
    return np.array(candidates[int(np.argmin([objective.at(c).value for c in candidates]))])


def _small(objective: Objective) -> bool:
    phase = objective.free
    return len(objective.phases) == 1 and phase.traits.exact and phase.price(objective.size).covariance < _CHEAP


def checked_start(size: int, start: Any) -> FloatArray | None:
    """A user's start as numbers."""
    if start is None:
        return None
    given = np.array(start, dtype=np.float64)
    if given.shape != (size,) or not np.isfinite(given).all():
        raise InvalidInput(f"start needs {size} finite numbers; got shape {given.shape}")
    return given


def random_width(objective: Objective, unseen: IntArray) -> FloatArray:
    """sd of random starts, (F,): that of the prior, within limits, for parameters never shown; zero for the others."""
    width = np.zeros(objective.size)
    width[unseen] = np.minimum(1.0 / np.sqrt(objective.prior.diagonal[unseen]), _WIDE)
    return width


def _around(centre: FloatArray, width: FloatArray, count: int, rng: np.random.Generator) -> list[FloatArray]:
    return [centre + width * rng.standard_normal(len(centre)) for _ in range(count)]


# --- the minimisers --------------------------------------------------------------------------------------------------


class _TimeUp(Exception):  # noqa: N818
    """Ends the search."""


def newton(
    objective: Objective,
    start: FloatArray,
    tolerance: float,
    max_iterations: int,
    progress: Progress = QUIET,
    form: str = "dense",
) -> Optimum:
    """Damped Newton. Stops within ``tolerance`` posterior standard deviations of the optimum.

    Where the curvature is not positive definite (an approximation breaking down), continues by L-BFGS.
    """
    point = objective.at(start)
    log, raised = Log(progress), _Raised(objective)
    crawled = 0
    for _ in range(max_iterations):
        try:
            if form == "dense":
                direction = -raised.precision(point).solve(point.gradient)
            else:
                direction = -precision_at(objective, point, form).solve(point.gradient)
        except IndefiniteCurvature:
            rest = lbfgs(objective, point.parameters, tolerance, max_iterations, progress)
            return Optimum(rest.point, rest.status, (*log.items, *rest.iterations))
        distance = float(np.sqrt(max(-float(direction @ point.gradient), 0.0)))
        if distance <= tolerance and not raised.share:
            log.add(point, distance, 0.0)
            return ended(Outcome.OPTIMUM, point, log)
        new, step = line_search(objective, point, direction)
        log.add(point, distance, step)
        raised.follow(step)
        crawled = crawled + 1 if step < _CRAWL else 0
        if crawled == _PATIENCE or step == 0.0:
            return ended(Outcome.NO_OPTIMUM, point, log)
        point = new
        if progress.expired:
            return ended(Outcome.TIME_UP, point, log)
    return ended(Outcome.NO_OPTIMUM, point, log)


class _Raised:
    """P with a share of the free phase's variances on its diagonal, where log p(D) need not be concave: with hidden
    variables and exact inference (Levenberg and Marquardt). The share follows the steps, and is none at the end."""

    def __init__(self, objective: Objective) -> None:
        self._objective, self.share = objective, 0.0
        self._allowed = objective.hidden and objective.exact

    def precision(self, point: Point) -> DensePrecision:
        matrix = self._objective.curvature(point)
        scale = self._objective.variances(point) if self._allowed else 0.0
        while True:
            try:
                return DensePrecision(matrix + np.diag(self.share * scale) if self.share else matrix)
            except IndefiniteCurvature:
                if not self._allowed or self.share > _MOST_RAISED:
                    raise
                self.share = max(_QUICKER * self.share, _RAISED)

    def follow(self, step: float) -> None:
        """A whole step lets the share fall, a short one raises it."""
        if self.share and step < 0.5:
            self.share *= _QUICKER
        elif step == 1.0:
            self.share = self.share / _QUICKER if self.share > _RAISED else 0.0


def lbfgs(
    objective: Objective, start: FloatArray, tolerance: float, max_iterations: int, progress: Progress = QUIET
) -> Optimum:
    """L-BFGS. The tolerance is on the gradient, in units of the prior precision and √N."""
    log = Log(progress)
    best = objective.at(start)
    costly = len(start) > _MANY or (len(start) > 0 and objective.price().tangled > TANGLED)
    near = max(_NEAR_MANY if len(start) > _MANY else _NEAR, 100 * tolerance)
    scale = np.sqrt(objective.weight) + np.sqrt(np.min(objective.prior.diagonal, initial=np.inf))

    def evaluate(parameters: FloatArray) -> Point:
        nonlocal best
        if progress.expired:
            raise _TimeUp
        point = objective.at(parameters)
        if point.value < best.value:
            best = point
            log.add(point, np.nan, np.nan)
        return point

    def curvatures(point: Point) -> FloatArray:
        """Of one optimum. Of several, which is reached must not depend on how a phase counts its tables."""
        return np.ones(len(start)) if objective.hidden else below(objective, objective.variances(point))

    if len(start):
        try:
            with parallel.single_blas():  # whose threads wait for one another: 10 of 15 s at 57,000 parameters
                # products with the curvature cost hundreds of gradients where there are very many weights (443,000: 400
                # s of polish in place of 15 s of further steps): there as many steps once more, if they are needed
                for _ in range(2 if costly else 1):
                    quasi_newton(evaluate, curvatures, best, tolerance * scale, max_iterations, _NOISE)
                    left = float(np.abs(best.gradient).max()) / scale
                    if not np.isfinite(best.value) or left <= near:
                        break
        except _TimeUp:
            return ended(Outcome.TIME_UP, best, log)
        far = objective.hidden and left > near  # from an optimum of several: products are not worth it
        if np.isfinite(best.value) and left > tolerance and not far and not (costly and left <= near):
            best = _polished(objective, best, tolerance, log, progress)
            if progress.expired:
                return ended(Outcome.TIME_UP, best, log)
    close = np.abs(best.gradient).max(initial=0.0) <= near * scale
    return ended(Outcome.OPTIMUM if close and np.isfinite(best.value) else Outcome.NO_OPTIMUM, best, log)


def _polished(objective: Objective, point: Point, tolerance: float, log: Log, progress: Progress) -> Point:
    """Newton steps of full length, as long as each makes the gradient ten times smaller and there is time."""

    def in_time(_: FloatArray) -> None:
        if progress.expired:
            raise _TimeUp

    for _ in range(_POLISH):
        try:
            direction = -by_products(objective, point).solve_roughly(point.gradient, _RESIDUAL, in_time)
        except (IndefiniteCurvature, _TimeUp):
            break
        distance = float(np.sqrt(max(-float(direction @ point.gradient), 0.0)))
        new = objective.at(point.parameters + direction)
        falls = new.value <= point.value + _ROUNDING * max(1.0, abs(point.value))
        shrunk = float(np.linalg.norm(new.gradient) / np.linalg.norm(point.gradient))
        if not falls or shrunk > 0.1:
            break
        point = new
        log.add(point, shrunk * distance, 1.0)
        if shrunk * distance <= tolerance:
            break
    return point


def line_search(objective: Objective, point: Point, direction: FloatArray) -> tuple[Point, float]:
    """Halve the step until the objective falls enough; 0 when it never does."""
    slope = float(point.gradient @ direction)
    slack = _ROUNDING * max(1.0, abs(point.value)) if np.isfinite(point.value) else 0.0
    step = 1.0
    for _ in range(_HALVINGS):
        new = objective.at(point.parameters + step * direction)
        if np.isfinite(new.value) and new.value <= point.value + _SUFFICIENT * step * slope + slack:
            return new, step
        step /= 2.0
    return point, 0.0


def ended(outcome: Outcome, point: Point, log: Log, kept: Any = None) -> Optimum:
    """kept: the curvature near the end, where the search has one."""
    gradient = float(np.abs(point.gradient).max(initial=0.0))
    if not point.status.converged:
        outcome = Outcome.NO_OPTIMUM
    return Optimum(
        point, Status(outcome, len(log.items), gradient, history=log.gradients()), tuple(log.items), kept=kept
    )


class Log:
    """The steps of a search, each told to those that watch."""

    def __init__(self, progress: Progress) -> None:
        self.items: list[Iteration] = []
        self._progress = progress

    def add(self, point: Point, distance: float, step: float) -> None:
        gradient = float(np.abs(point.gradient).max(initial=0.0))
        self.items.append(Iteration(len(self.items), point.value, gradient, distance, step))
        if self._progress is not QUIET:
            self._progress.tell(self.items[-1])

    def gradients(self) -> FloatArray:
        """The largest entry of each step's gradient."""
        return np.array([i.gradient for i in self.items])
