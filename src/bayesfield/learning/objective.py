"""The negative log posterior of the parameters: one objective for every setting, equations (7), (12), (18) and (21).

    L(λ) = −log p(λ) + Σ_k w_k log Z_k(λ) − sᵀλ − s₀
    ∇L   = Λ⁻¹(λ − μ) + Σ_k w_k E_k[f] − s
    ∇²L  = Λ⁻¹ + Σ_k w_k C_k = P

A phase k is a batch of factor graphs with weight w_k: above zero the free one, below zero those clamped to what is
observed. The statistic s is what the data show without guessing. Value, gradient and curvature of every setting are
these three lines. The prior is one object, too: nobody else asks whether Λ⁻¹ is a diagonal or a matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from bayesfield.graph.symmetry import Symmetries, symmetries
from bayesfield.inference.contract import Engine, Price
from bayesfield.learning.phases.base import Answer, Phase
from bayesfield.model.prior import Normal, Parametrised, Prior, Shared
from bayesfield.model.smooth.coupling import Coupling
from bayesfield.response.base import Response, WeightedResponse
from bayesfield.types import BoolArray, FloatArray, IndefiniteCurvature, IntArray, InvalidInput, Outcome, Status

_FEW = 500  # parameters up to which symmetries are looked for


@dataclass(frozen=True, eq=False)
class GaussianPrior:
    """N(location, Λ). precision: Λ⁻¹, its diagonal (F,) where the parameters are independent, else the matrix (F, F);
    or coupling: what ties parameters with a structure, beside a diagonal that is 0 for these.

    tails: (F,) scales of the parameters whose prior is a Cauchy, infinite for the others; None where all are Gaussian.
    Location and precision are then its expansion about the mode (fitting.priors.learned). learned: the variances that
    the data are to choose. fixed: (F,) which parameters the prior alone holds where they are, by a precision
    beside which the slope of the likelihood is nothing.
    """

    location: FloatArray
    precision: FloatArray
    tails: FloatArray | None = None
    learned: tuple[Shared, ...] = ()
    coupling: Coupling | None = None
    fixed: BoolArray | None = None

    @property
    def size(self) -> int:
        """F."""
        return len(self.location)

    @property
    def independent(self) -> bool:
        """Whether Λ⁻¹ is diagonal."""
        return self.precision.ndim == 1 and self.coupling is None

    @property
    def diagonal(self) -> FloatArray:
        """diag(Λ⁻¹), (F,)."""
        if self.coupling is not None:
            return self.precision + self.coupling.scattered(np.diag(self.coupling.precision))
        return self.precision if self.independent else np.diag(self.precision)

    @cached_property
    def stiffness(self) -> FloatArray:
        """(F,) how much narrower than usual (the geometric mean) the prior of each parameter is, 1 or more; 1 for all
        where all are alike."""
        diagonal = self.diagonal
        if not len(diagonal) or not (diagonal > 0.0).all():
            return np.ones(len(diagonal))
        result: FloatArray = np.maximum(diagonal / np.exp(np.log(diagonal).mean()), 1.0)
        return result

    def matrix(self) -> FloatArray:
        """Λ⁻¹, (F, F)."""
        return self.plus(np.zeros((self.size, self.size)))

    @property
    def bound(self) -> FloatArray:
        """d, (F,), with δᵀΛ⁻¹δ ≤ Σ_k d_k δ_k²: the sums of the rows' absolute values."""
        if self.coupling is not None:
            return self.precision + self.coupling.scattered(np.abs(self.coupling.precision).sum(axis=1))
        return self.precision if self.independent else np.abs(self.precision).sum(axis=1)

    def times(self, vectors: FloatArray) -> FloatArray:
        """Λ⁻¹ · vectors, for (F,) or (F, D)."""
        if self.precision.ndim == 2:
            return self.precision @ vectors
        alone = self.precision * vectors if vectors.ndim == 1 else self.precision[:, None] * vectors
        return alone if self.coupling is None else self.coupling.added(alone, vectors)

    def rooted(self, noise: FloatArray) -> FloatArray:
        """(F, D) vectors with covariance Λ⁻¹ from standard normal ones."""
        if self.precision.ndim == 2:
            return np.asarray(linalg.cholesky(self.precision, lower=True) @ noise)
        alone = np.sqrt(self.precision)[:, None] * noise
        return alone if self.coupling is None else self.coupling.rooted(alone, noise)

    def plus(self, matrix: FloatArray) -> FloatArray:
        """matrix + Λ⁻¹; the matrix is changed in place."""
        if self.precision.ndim == 2:
            matrix += self.precision
            return matrix
        matrix[np.diag_indices_from(matrix)] += self.precision
        return matrix if self.coupling is None else self.coupling.add_to(matrix)

    def pull(self, parameters: FloatArray) -> FloatArray:
        """−∇ log p(λ) = Λ⁻¹ (λ − μ)."""
        return self.times(parameters - self.location)

    def log_kernel(self, parameters: FloatArray) -> float:
        """log p(λ) up to a constant."""
        away = parameters - self.location
        return -0.5 * float(away @ self.times(away))

    def log_density(self, parameters: FloatArray) -> float:
        """log p(λ), with its constant; where tails are heavy, of the Cauchy itself and not of its expansion."""
        gaussian = np.ones(self.size, dtype=np.bool_) if self.tails is None else ~np.isfinite(self.tails)
        cauchy = 0.0
        if self.tails is not None:
            s = self.tails[~gaussian]
            cauchy = float(np.sum(np.log(s / np.pi) - np.log(s**2 + parameters[~gaussian] ** 2)))
        if self.independent:
            own, away = self.precision[gaussian], (parameters - self.location)[gaussian]
            return cauchy + 0.5 * float(np.log(own / (2.0 * np.pi)).sum() - own @ away**2)
        volume = self.log_det - self.size * float(np.log(2.0 * np.pi))
        return cauchy + 0.5 * volume + self.log_kernel(parameters)

    @property
    def log_det(self) -> float:
        """log det Λ⁻¹."""
        if self.precision.ndim == 2:
            return float(np.linalg.slogdet(self.precision)[1])
        alone = self.precision if self.coupling is None else self.precision[self.coupling.is_apart]
        return float(np.log(alone).sum()) + (0.0 if self.coupling is None else self.coupling.log_det)

    @cached_property
    def covariance(self) -> FloatArray:
        """Λ, (F, F)."""
        if self.coupling is not None:
            return self.coupling.covariance_of_all()
        return np.diag(1.0 / self.precision) if self.independent else linalg.inv(self.precision)

    def scaled(self, factor: float) -> Normal:
        """What a user would state for this Gaussian with its variances multiplied by a factor."""
        if self.independent:
            return Normal(variance=factor / self.precision, mean=self.location)
        return Normal(covariance=factor * self.covariance, mean=self.location)


def gaussian(prior: Prior, model: Parametrised) -> GaussianPrior:
    """A model's prior as a user stated it; where the data are to choose it, where the search begins."""
    coupling = prior.coupling(model)
    precision = prior.precision(model) if coupling is None else coupling.apart
    return GaussianPrior(prior.location(model), precision, prior.tails(model), prior.learned(model), coupling)


def flat(size: int) -> GaussianPrior:
    """No prior: for parts of an objective whose prior counts elsewhere."""
    return GaussianPrior(np.zeros(size), np.zeros(size))


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
    """The objective at S parameters: values (S,), infinite where inference did not converge; gradients (S, F).

    states: for every phase those of all points, or None where its inference keeps none.
    """

    values: FloatArray
    gradients: FloatArray
    states: list[list[Any] | None]

    def state(self, point: int) -> tuple[Any, ...]:
        """Of one point, as ``Objective.at`` takes it."""
        return tuple([None if phase is None else phase[point] for phase in self.states])


class Pointwise(NamedTuple):
    """log p(x_n|λ_s), cases that are alike once. values: (S, M), NaN where there is no log Z. which: (N,) the column of
    every case."""

    values: FloatArray
    which: IntArray


class Counts(NamedTuple):
    """What a plan is made from: parameters, cases and their weight, prices of an evaluation and a curvature; what the
    phases can do. streams: the search makes a surface of log Z. linear: P has a sparse form.
    samples: Gibbs chains can stand in. averages: a mean-field posterior has what it needs. gaussian: log Z is known to
    second order."""

    size: int
    n_cases: int
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
    averages: bool
    streams: bool = False
    gaussian: bool = False


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

    @property
    def emits(self) -> bool:
        """Whether chains of labels can stream the sums of what hidden labels emit (learning.hidden)."""
        return bool(getattr(self.data, "emits", False))

    @cached_property
    def symmetries(self) -> Symmetries | None:
        """Renamings of hidden variables and of their states that leave this as it is; None where there are none."""
        field, codes = getattr(self.data, "field", None), getattr(self.data, "codes", None)
        if not self.hidden or field is None or codes is None or not self.prior.independent or self.prior.size > _FEW:
            return None
        hidden = np.flatnonzero((codes < 0).all(axis=0)).tolist()
        return symmetries(field, hidden, self.prior.location, self.prior.diagonal)

    def with_engine(self, engine: Engine) -> Objective:
        """The same by another engine; phases that have inference of their own keep it."""
        return replace(self, phases=tuple([phase.with_engine(engine) for phase in self.phases]))

    def counts(self) -> Counts:
        """All that a plan is made from."""
        inference = covariance = each = value = summed = tangled = held = 0.0
        for phase in self.phases:
            price = phase.price(self.prior.size)
            inference += price.inference
            covariance += price.covariance
            each += price.each or price.inference
            value += price.value or price.each or price.inference
            summed += price.summed or price.covariance
            tangled += price.tangled
            held += phase.bytes()
        first, traits = self.phases[0], [phase.traits for phase in self.phases]
        contrasts = [phase.contrasts for phase in self.phases]
        return Counts(
            size=self.prior.size,
            n_cases=self.data.n_cases,
            weight=first.cases,
            price=Price(inference, covariance, each, value, summed, tangled),
            bytes=held,
            exact=all(t.exact for t in traits),
            has_log_z=all(t.has_log_z for t in traits),
            linear=len(traits) == 1 and traits[0].linear_response and self.prior.independent,
            as_published=traits[0].as_published,
            hidden=any(contrasts),
            samples=first.samples,
            free_phases=contrasts.count(False),
            averages=(self.prior.independent or self.prior.coupling is not None)
            and not any(contrasts)
            and not first.samples
            and traits[0].exact,
            streams=traits[0].streams,
            gaussian=traits[0].streams and self.emits,
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
        pull = self.prior.pull(parameters)
        gradient = pull - self.statistic
        for phase, answer in zip(self.phases, answers, strict=True):
            gradient += phase.weight * answer.mean
        if self.prior.fixed is not None:
            gradient[self.prior.fixed] = pull[self.prior.fixed]
        status = answers[0].status
        for answer in answers:
            status = status if not status.converged else answer.status if not answer.status.converged else status
        value = -self.prior.log_kernel(parameters) - self.likelihood(parameters, answers)
        return Point(parameters, value if status.converged else np.inf, gradient, status, answers)

    def at_many(self, points: FloatArray, states: Sequence[Any] | None = None) -> Points:
        """At each of the parameters (S, F), all at once where an engine can. states: those of points nearby."""
        away = points - self.prior.location
        pulls = self.prior.times(away.T).T
        values = 0.5 * np.einsum("sf,sf->s", away, pulls) - points @ self.statistic - self.constant
        gradients = pulls - self.statistic
        kept: list[Any] = []
        for k, phase in enumerate(self.phases):
            found = phase.at_many(points, None if states is None else states[k])
            values = np.where(found.good, values + phase.weight * found.log_z, np.inf)
            gradients += phase.weight * found.means
            kept.append(found.states)
        if self.prior.fixed is not None:
            gradients[:, self.prior.fixed] = pulls[:, self.prior.fixed]
        return Points(values, gradients, kept)

    def values(self, points: FloatArray) -> FloatArray:
        """The values of ``at_many`` alone, (S,)."""
        away = points - self.prior.location
        values = 0.5 * np.einsum("sf,sf->s", away, self.prior.times(away.T).T) - points @ self.statistic - self.constant
        for phase in self.phases:
            values = values + phase.weight * phase.log_z_many(points)
        return np.where(np.isfinite(values), values, np.inf)

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
        return self.prior.plus(self.likelihood_curvature(point))

    def likelihood_curvature(self, point: Point) -> FloatArray:
        """Σ_k w_k C_k, dense."""
        if point.status.outcome is Outcome.IMPOSSIBLE:
            raise IndefiniteCurvature(str(point.status))
        total = np.zeros(())
        for phase, answer in zip(self.phases, point.answers, strict=True):
            total = total + phase.weight * phase.response(answer).covariance()
        return total

    def variances(self, point: Point) -> FloatArray:
        """About diag(P), (F,), as if tables knew nothing of one another."""
        every = list(zip(self.phases, point.answers, strict=True))
        total = self.prior.diagonal.copy()
        for phase, answer in [(p, a) for p, a in every if not p.contrasts] or every:
            total += abs(phase.weight) * phase.variances(answer)
        return total

    def blocks(self, point: Point) -> tuple[FloatArray, FloatArray] | None:
        """Σ_k w_k C_k without what ties different inputs to one another, as ``Phase.blocks``; None where one has none.

        Clamped phases, which take something off, are left out: it is then larger than P's own blocks.
        """
        parts = []
        for phase, answer in zip(self.phases, point.answers, strict=True):
            blocks = phase.blocks(answer) if phase.weight > 0 else ()
            if blocks is None:
                return None
            if blocks:
                parts.append((phase.weight * blocks[0], phase.weight * blocks[1]))
        return (np.sum([b for b, _ in parts], axis=0), np.sum([rest for _, rest in parts], axis=0)) if parts else None

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

    def observed_codes(self) -> IntArray | None:
        """Cases (N, n) of the free phase's variables, −1 in the holes, for chains to begin at; None without any."""
        try:
            codes: IntArray = self.data.cases.codes
        except InvalidInput:  # graphs with weights: no one field has them all
            return None
        same = len(codes) > 0 and codes.shape[1] == len(self.free.graph.arrays.cardinality)
        return codes if same else None

    def sampled_precision(self, free: FloatArray, observed: FloatArray | float) -> FloatArray:
        """P = w C − C_data + Λ⁻¹ from the free phase's covariance and that of what the data take."""
        return self.prior.plus(self.phases[0].weight * free - observed)

    def sampled_factor(
        self, free: FloatArray, observed: FloatArray | float, dtype: type = np.float64
    ) -> tuple[FloatArray, tuple[FloatArray, bool]]:
        """That P and its Cholesky factor, of this type where that is enough. Far from an optimum, or by noise, it need
        not be positive definite; w C + Λ⁻¹, which is above it and stands in, is."""
        for taken, precise in ((observed, dtype), (observed, np.float64), (0.0, np.float64)):
            precision = self.sampled_precision(free, taken)
            try:
                return precision, linalg.cho_factor(precision.astype(precise, copy=False))
            except linalg.LinAlgError:
                continue
        raise IndefiniteCurvature("the sampled curvature is not positive definite: more chains are needed")

    def observed_covariance(self, parameters: FloatArray) -> FloatArray | float:
        """−Σ_{k>0} w_k C_k, (F, F): the covariance of what the data take; nothing where all is observed."""
        total: FloatArray | float = 0.0
        for phase in self.phases[1:]:
            total = total - phase.weight * phase.response(phase.at(parameters)).covariance()
        return total
