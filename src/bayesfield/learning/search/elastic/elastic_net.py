"""The elastic net as a learner: which weights are needed at all, and the posterior of those.

The mode of exp(log-likelihood) · N(λ; μ, v) · exp(−Σ_k c_k |λ_k|) has exact zeros. It is found orthant by orthant, and
then, within the orthant where it lies, like any other mode: given its signs σ the penalty is linear, and the prior of
the weights that stay the Gaussian N(μ − v c σ, v). The signs and the zeros are then checked: no sign has changed, and
nowhere at zero is the slope of L above c.

A penalty that sets weights to zero also draws the others towards it. So the weights that stay are fitted again without
it, under N(μ, v) alone (the relaxed lasso, Meinshausen 2007), and the posterior is theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bayesfield import parallel
from bayesfield.learning.objective import Point
from bayesfield.learning.search.elastic.orthantwise import orthantwise, penalised, steepest
from bayesfield.learning.search.learner import Learned, Learner, Request
from bayesfield.learning.search.minimise import Log, lbfgs
from bayesfield.learning.search.optimum import Optimum
from bayesfield.model.prior import GONE, as_numbers
from bayesfield.types import BoolArray, FloatArray, InvalidInput, Options, Outcome, Status

if TYPE_CHECKING:
    from bayesfield.learning.objective import Objective

_NOISE = 1e-15  # of the value: a step that brings less is the last
_ROUNDS = 8  # of orthants and modes within them
_NEAR = 1e-4  # slope, in units of the prior precision and √N, at which a search has come to an end
_FALLEN = 1e-12  # of the value: what a further round must bring


@dataclass(frozen=True, repr=False)
class ElasticNet(Options, Learner):
    """Fit with an absolute penalty beside the Gaussian prior: ``bf.fit(..., method=bf.ElasticNet(l1=0.5))``.

    l1: of Σ |λ|, crfsuite's c1 (its c2 is 1 / (2 variance) of the prior); one number, or one for each parameter, 0 for
    those that always stay. relaxed: the weights that are not zero are fitted again without the penalty, and the
    posterior is theirs; otherwise they stay where the penalty has them.
    """

    l1: float | ArrayLike = 1.0
    relaxed: bool = True

    def __post_init__(self) -> None:
        values = as_numbers(self.l1, "l1")
        if not np.isfinite(values).all() or (values < 0.0).any() or values.ndim > 1:
            raise InvalidInput(f"l1 is a number of zero or more, or one for each parameter; got {self.l1!r}")

    name = "elastic_net"
    needs_log_z = True
    weighted = True

    @property
    def at_mode(self) -> bool:  # type: ignore[override]
        """Whether it ends at the mode of a Gaussian prior's posterior."""
        return self.relaxed

    def learn(self, objective: Objective, request: Request) -> Learned:
        penalty = self._penalty(objective)
        start = objective.prior.location if request.start is None else request.start
        first = _penalised_mode(objective, penalty, np.array(start), request)
        active = (first.parameters != 0.0) | (penalty == 0.0)
        if self.relaxed:
            free = _within(objective, active)
            optimum = lbfgs(free, first.parameters, request.tolerance, request.max_iterations, request.progress)
        else:
            free = _within(objective, active, penalty * np.sign(first.parameters))
            optimum = Optimum(free.at(first.parameters), first.status, ())
        iterations = (*first.iterations, *optimum.iterations)
        status = optimum.status if first.status.converged else first.status
        status = replace(status, iterations=len(iterations))
        optimum = replace(optimum, iterations=iterations, status=status)
        return Learned(optimum, None, (_told(active, self.relaxed),), free)

    def _penalty(self, objective: Objective) -> FloatArray:
        prior = objective.prior
        if prior.learned or prior.tails is not None or not prior.independent:
            raise InvalidInput(
                "beside an absolute penalty the prior is a bf.Normal with variances that are numbers: take "
                'cross-validation instead of "evidence", and none with a covariance or heavy tails'
            )
        values = as_numbers(self.l1, "l1")
        if values.shape not in ((), (prior.size,)):
            raise InvalidInput(f"l1 needs one number or {prior.size}, one for each parameter; got {values.shape}")
        return np.array(np.broadcast_to(values, (prior.size,)))


def _told(active: BoolArray, relaxed: bool) -> str:
    widths = "widths are of these alone, as if they had been chosen beforehand: the choice is not accounted for"
    how = "fitted again without the penalty" if relaxed else "where the penalty has them"
    return f"{int(active.sum()):,} of {len(active):,} weights stay, {how}; {widths}"


def _within(objective: Objective, active: BoolArray, slope: FloatArray | None = None) -> Objective:
    """The objective of the weights that stay, the others fixed at zero. slope: c σ, of a penalty that is linear."""
    prior = objective.prior
    location = prior.location if slope is None else prior.location - slope / prior.precision
    restricted = replace(
        prior,
        location=np.where(active, location, 0.0),
        precision=np.where(active, prior.precision, GONE),
        fixed=~active,
    )
    return replace(objective, prior=restricted)


def _penalised_mode(objective: Objective, penalty: FloatArray, start: FloatArray, request: Request) -> Optimum:
    """The mode with its zeros. By turns orthant by orthant, and within the orthant that this ends in."""
    log = Log(request.progress)
    scale = np.sqrt(objective.weight) + np.sqrt(np.min(objective.prior.diagonal, initial=np.inf))
    limit, point = request.tolerance * scale, objective.at(start)
    value, slope = np.inf, np.inf
    for _ in range(_ROUNDS):
        point = _by_orthants(objective, penalty, point, limit, request, log)
        point = _within_orthant(objective, penalty, point, request)
        log.add(point, np.nan, np.nan)
        slope = float(np.abs(steepest(point, penalty)).max(initial=0.0))
        now = penalised(point, penalty)
        fallen, value = value - now, now
        if slope <= limit or fallen <= _FALLEN * max(1.0, abs(now)) or request.progress.expired:
            break
    outcome = Outcome.OPTIMUM if slope <= max(limit, _NEAR * scale) else Outcome.NO_OPTIMUM
    if request.progress.expired and outcome is not Outcome.OPTIMUM:
        outcome = Outcome.TIME_UP
    if not point.status.converged or not np.isfinite(value):
        outcome = Outcome.NO_OPTIMUM
    return Optimum(point, Status(outcome, len(log.items), slope, history=log.gradients()), tuple(log.items))


def _by_orthants(
    objective: Objective, penalty: FloatArray, start: Point, limit: float, request: Request, log: Log
) -> Point:
    """Until its slope is small, or time is up."""
    best = start

    def evaluate(parameters: FloatArray) -> Point:
        nonlocal best
        if request.progress.expired:
            raise _TimeUp
        point = objective.at(parameters)
        if penalised(point, penalty) < penalised(best, penalty):
            best = point
            log.add(point, np.nan, np.nan)
        return point

    try:
        with parallel.single_blas():
            return orthantwise(evaluate, objective.variances, start, penalty, limit, request.max_iterations, _NOISE)
    except _TimeUp:
        return best


def _within_orthant(objective: Objective, penalty: FloatArray, point: Point, request: Request) -> Point:
    """The mode where the penalty is linear; the point itself where a sign would change."""
    there = point.parameters
    active = (there != 0.0) | (penalty == 0.0)
    if request.progress.expired or not active.any():
        return point
    within = _within(objective, active, penalty * np.sign(there))
    found = lbfgs(within, there, request.tolerance, request.max_iterations, request.progress).parameters
    if (found * there < 0.0)[penalty > 0.0].any():
        return point
    new = objective.at(found)
    return new if penalised(new, penalty) <= penalised(point, penalty) else point


class _TimeUp(Exception):  # noqa: N818
    """Ends the search."""
