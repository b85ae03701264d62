"""The negative log posterior of the parameters: one objective for every setting, equations (7), (12), (18) and (21).

    L(λ) = −log p(λ) + Σ_k w_k log Z_k(λ) − sᵀλ − s₀
    ∇L   = Λ⁻¹(λ − μ) + Σ_k w_k E_k[f] − s
    ∇²L  = Λ⁻¹ + Σ_k w_k C_k = P

A phase k is a batch of factor graphs with weight w_k: above zero the free one, below zero those clamped to what is
observed. The statistic s is what the data show without guessing. Value, gradient and curvature of every setting are
these three lines.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bayesfield.inference.contract import Engine, Price
from bayesfield.learning.phases.base import Answer, Phase
from bayesfield.learning.prior import GaussianPrior
from bayesfield.response.base import Response, WeightedResponse
from bayesfield.types import BoolArray, FloatArray, IndefiniteCurvature, IntArray, Outcome, Status


class Point(NamedTuple):
    """The objective at one λ. value: infinite where inference did not converge. answers: of the phases."""

    parameters: FloatArray
    value: float
    gradient: FloatArray
    status: Status
    answers: tuple[Answer, ...] = ()

    @property
    def state(self) -> tuple[Any, ...]:
        """Where inference stands, to continue from at a point nearby."""
        return tuple(answer.state for answer in self.answers)


class Points(NamedTuple):
    """The objective at S parameters: values (S,), infinite where inference did not converge; gradients (S, F)."""

    values: FloatArray
    gradients: FloatArray
    states: list[Any]


class Pointwise(NamedTuple):
    """log p(x_n|λ_s), cases that are alike once. values: (S, M), NaN where there is no log Z. which: (N,) the column of
    every case."""

    values: FloatArray
    which: IntArray


class Counts(NamedTuple):
    """What a plan is made from: parameters, cases, the price of an evaluation and of a curvature, bytes; and what the
    phases can do. linear: P has a sparse form. samples: Gibbs chains can stand in. blocks: P is known by blocks."""

    size: int
    weight: float
    price: Price
    bytes: float
    exact: bool
    has_log_z: bool
    linear: bool
    as_published: bool
    hidden: bool
    samples: bool
    free_phases: int
    blocks: bool


@dataclass(frozen=True, eq=False)
class Objective:
    """prior: of the parameters. phases: the free one first. statistic: s, (F,). constant: s₀. data: what was observed
    (learning.phases.cases, .sequences, .graphs, .remote)."""

    prior: GaussianPrior
    phases: tuple[Phase, ...]
    statistic: FloatArray
    constant: float
    data: Any

    @property
    def size(self) -> int:
        """F."""
        return self.prior.size

    @property
    def free(self) -> Any:
        """The free phase."""
        return self.phases[0]

    @property
    def weight(self) -> float:
        """N, how many cases count."""
        return self.phases[0].cases

    @property
    def exact(self) -> bool:
        return all(phase.traits.exact for phase in self.phases)

    @property
    def has_log_z(self) -> bool:
        return all(phase.traits.has_log_z for phase in self.phases)

    @property
    def hidden(self) -> bool:
        """Whether something is summed over that the data might have shown."""
        return any(phase.contrasts for phase in self.phases)

    def with_engine(self, engine: Engine) -> "Objective":
        """The same by another engine; phases that have inference of their own keep it."""
        return replace(self, phases=tuple([phase.with_engine(engine) for phase in self.phases]))

    def counts(self) -> "Counts":
        """All that a plan is made from."""
        inference = covariance = held = 0.0
        for phase in self.phases:
            price = phase.price(self.prior.size)
            inference, covariance, held = (
                inference + price.inference,
                covariance + price.covariance,
                held + phase.bytes(),
            )
        first, traits = self.phases[0], [phase.traits for phase in self.phases]
        contrasts = [phase.contrasts for phase in self.phases]
        return Counts(
            size=self.prior.size,
            weight=first.cases,
            price=Price(inference, covariance),
            bytes=held,
            exact=all(t.exact for t in traits),
            has_log_z=all(t.has_log_z for t in traits),
            linear=len(traits) == 1 and traits[0].linear_response and self.prior.independent,
            as_published=traits[0].as_published,
            hidden=any(contrasts),
            samples=first.samples,
            free_phases=contrasts.count(False),
            blocks=self.prior.independent and not any(contrasts) and not first.samples and traits[0].exact,
        )

    def price(self) -> Price:
        """Counted work of one evaluation, and of one curvature."""
        return self.counts().price

    # --- value and gradient -----------------------------------------------------------------------------------------

    def at(self, parameters: FloatArray, start: Sequence[Any] | None = None) -> Point:
        """start: ``state`` of a point nearby."""
        states = (None,) * len(self.phases) if start is None else start
        answers: tuple[Answer, ...] = ()
        for phase, state in zip(self.phases, states, strict=True):
            answers = (*answers, phase.at(parameters, state))
        return self.point(parameters, answers)

    def point(self, parameters: FloatArray, answers: tuple[Answer, ...]) -> Point:
        """From the answers of the phases."""
        gradient = self.prior.pull(parameters) - self.statistic
        for phase, answer in zip(self.phases, answers, strict=True):
            gradient += phase.weight * answer.mean
        status = answers[0].status
        for answer in answers:
            status = status if not status.converged else answer.status if not answer.status.converged else status
        value = -self.prior.log_kernel(parameters) - self.likelihood(parameters, answers)
        return Point(parameters, value if status.converged else np.inf, gradient, status, answers)

    def at_many(self, points: FloatArray, states: Sequence[Any] | None = None) -> Points:
        """At each of the parameters (S, F), all at once where an engine can. states: of points nearby, each or None."""
        away = points - self.prior.location
        pulls = self.prior.times(away.T).T
        values = 0.5 * np.einsum("sf,sf->s", away, pulls) - points @ self.statistic - self.constant
        gradients = pulls - self.statistic
        kept: list[Any] = [()] * len(points)
        for k, phase in enumerate(self.phases):
            before = None if states is None else [None if s is None else s[k] for s in states]
            found = phase.at_many(points, before)
            values = np.where(found.good, values + phase.weight * found.log_z, np.inf)
            gradients += phase.weight * found.means
            kept = list(zip(*zip(*kept, strict=True), found.states, strict=True)) if k else list(zip(found.states))
        return Points(values, gradients, kept)

    def log_likelihood(self, point: Point) -> float:
        """Σ_n log p(x_n|λ)."""
        return self.likelihood(point.parameters, point.answers)

    def likelihood(self, parameters: FloatArray, answers: tuple[Answer, ...]) -> float:
        """The same from the answers of the phases."""
        value = float(parameters @ self.statistic) + self.constant
        for phase, answer in zip(self.phases, answers, strict=True):
            value -= phase.weight * answer.log_z
        return float(value)

    # --- curvature --------------------------------------------------------------------------------------------------

    def response(self, point: Point) -> Response:
        """Σ_k w_k C_k at a point."""
        if point.status.outcome is Outcome.IMPOSSIBLE:
            raise IndefiniteCurvature(str(point.status))
        parts = []
        for phase, answer in zip(self.phases, point.answers, strict=True):
            parts.append((phase.weight, phase.response(answer)))
        return WeightedResponse(parts)

    def curvature(self, point: Point) -> FloatArray:
        """P, dense."""
        if point.status.outcome is Outcome.IMPOSSIBLE:
            raise IndefiniteCurvature(str(point.status))
        total = np.zeros(())
        for phase, answer in zip(self.phases, point.answers, strict=True):
            total = total + phase.weight * phase.response(answer).covariance()
        return self.prior.plus(total)

    def variances(self, point: Point) -> FloatArray:
        """About diag(P), (F,), as if tables knew nothing of one another."""
        every = list(zip(self.phases, point.answers, strict=True))
        total = self.prior.diagonal.copy()
        for phase, answer in [(p, a) for p, a in every if not p.contrasts] or every:
            total += abs(phase.weight) * phase.variances(answer)
        return total

    def slopes(self, points: FloatArray) -> tuple[FloatArray, BoolArray]:
        """∇L at each of the parameters (S, F), and at which of them inference converged, (S,)."""
        found = self.at_many(points)
        return found.gradients, np.isfinite(found.values)

    def second_derivatives(self, parameters: FloatArray, directions: FloatArray) -> FloatArray | None:
        """d²∇L/dt² along each column t of directions, (F, D), where the responses know them: Σ_k w_k d²E_k[f]/dt²."""
        for phase in self.phases:
            if not phase.traits.linear_response:
                return None
        point = self.at(parameters)
        if not np.isfinite(point.value):
            return None
        try:
            return self.response(point).second_derivatives(directions)
        except IndefiniteCurvature:
            return None

    # --- beside a sampled free phase --------------------------------------------------------------------------------

    def observed_mean(self, parameters: FloatArray) -> FloatArray:
        """s − Σ_{k>0} w_k E_k[f], (F,): what the data take, what is hidden filled in by the clamped phases."""
        total = self.statistic.copy()
        for phase in self.phases[1:]:
            total -= phase.weight * phase.at(parameters).mean
        return total

    def observed_covariance(self, parameters: FloatArray) -> FloatArray | float:
        """−Σ_{k>0} w_k C_k, (F, F): the covariance of what the data take; nothing where all is observed."""
        total: FloatArray | float = 0.0
        for phase in self.phases[1:]:
            total = total - phase.weight * phase.response(phase.at(parameters)).covariance()
        return total
