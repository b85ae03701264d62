"""The negative log posterior of the parameters, its gradient and its curvature, for any engine.

L(λ) = N (log Z(λ) − λᵀf̄ − f̄₀) + ½ (λ − μ)ᵀ Λ⁻¹ (λ − μ)
∇L   = N (E[f] − f̄) + Λ⁻¹ (λ − μ)
∇²L  = N C + Λ⁻¹ = P, equation (7)
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from bayesfield.graph.cases import case_energies
from bayesfield.graph.compiled import CompiledField, Design, local_variances
from bayesfield.graph.structure import Graph, counts, weighted_counts
from bayesfield.inference.contract import Engine
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.learning.precision.forms import DensePrecision, MatrixFree, Origin, Precision, SparsePrecision
from bayesfield.response.base import Response
from bayesfield.response.linear import LinearResponse, NotSparse
from bayesfield.types import FloatArray, IndefiniteCurvature, IntArray, InvalidInput, Marginals, Outcome


class Point(NamedTuple):
    """The objective at one λ. value is infinite where the engine did not converge."""

    parameters: FloatArray
    theta: FloatArray
    value: float
    gradient: FloatArray
    marginals: Marginals


class Pointwise(NamedTuple):
    """log p(x_n|λ_s), cases that are alike once. values: (S, M), NaN where the engine found no log Z. which: (N,) the
    column of every case."""

    values: FloatArray
    which: IntArray


@dataclass(frozen=True, eq=False)
class Objective(ABC):
    """The negative log posterior: what fields and conditional fields share.

    statistic: f̄, (F,). offset: the data's mean fixed energy. weight: N. precision: Λ⁻¹, its diagonal (F,) or the matrix
    (F, F). location: μ. form: of the posterior precision, "dense", "sparse" or "matrix-free" (see learning.precision).
    tails: (F,) scales of Cauchy priors, infinite where the prior is Gaussian; precision and location then expand them.
    """

    statistic: FloatArray
    offset: float
    weight: float
    precision: FloatArray
    location: FloatArray
    form: str
    tails: FloatArray | None = field(default=None, kw_only=True)

    @abstractmethod
    def at(self, parameters: FloatArray, start: Any = None) -> Point:
        """Value and gradient. start: the state of an answer nearby, to go on from."""

    @abstractmethod
    def response(self, point: Point) -> Response:
        """The covariance of the features at a point."""

    @abstractmethod
    def rough_diagonal(self, tables: FloatArray) -> FloatArray:
        """About diag(P), (F,), from beliefs or from the data's frequencies."""

    @abstractmethod
    def pointwise(self, points: FloatArray) -> Pointwise:
        """log p of every case at each of the parameters, points (S, F)."""

    def from_mean(self, parameters: FloatArray, theta: FloatArray, marginals: Marginals, mean: FloatArray) -> Point:
        """The objective where log Z (in marginals) and E[f] are known."""
        value = self.weight * (marginals.log_z - float(parameters @ self.statistic) - self.offset)
        value -= self.log_prior(parameters)
        if not marginals.status.converged:
            value = np.inf
        return Point(parameters, theta, float(value), self.gradient(parameters, mean), marginals)

    def gradient(self, parameters: FloatArray, mean: FloatArray, statistic: FloatArray | None = None) -> FloatArray:
        """∇L from E[f], and from the data's f̄ where that is known."""
        taken = self.statistic_at(parameters) if statistic is None else statistic
        return self.weight * (mean - taken) + self._times_precision(parameters - self.location)

    def statistic_at(self, parameters: FloatArray) -> FloatArray:
        """f̄, which depends on the parameters where variables are hidden."""
        return self.statistic

    def data_covariance(self, parameters: FloatArray) -> FloatArray | float:
        """Covariance of the features given the data, (F, F), for each case; nothing where all is observed."""
        return 0.0

    def log_prior(self, parameters: FloatArray) -> float:
        """log N(λ; μ, Λ), up to a constant."""
        away = parameters - self.location
        return -0.5 * float(away @ self._times_precision(away))

    def log_prior_density(self, parameters: FloatArray) -> float:
        """log p(λ), with its constant; where tails are heavy, of the Cauchy itself and not of its expansion."""
        heavy = np.isfinite(self.tails) if self.tails is not None else np.zeros(len(parameters), dtype=bool)
        cauchy = 0.0
        if self.tails is not None:
            s = self.tails[heavy]
            cauchy = float(np.sum(np.log(s / np.pi) - np.log(s**2 + parameters[heavy] ** 2)))
        if self.precision.ndim == 2:
            volume, energy = float(np.linalg.slogdet(self.precision)[1]), -2.0 * self.log_prior(parameters)
        else:
            light = self.precision[~heavy]
            volume, energy = float(np.log(light).sum()), float(light @ (parameters - self.location)[~heavy] ** 2)
        return cauchy + 0.5 * float(volume - energy - (~heavy).sum() * np.log(2.0 * np.pi))

    def log_likelihood(self, point: Point) -> float:
        """Σ_n log p(x_n|λ)."""
        return float(self.weight * (point.parameters @ self.statistic + self.offset - point.marginals.log_z))

    def curvature(self, point: Point) -> FloatArray:
        """P = N C + Λ⁻¹, dense."""
        return self.with_prior(self.response(point).covariance())

    def with_prior(self, covariance: FloatArray) -> FloatArray:
        """N C + Λ⁻¹ from C."""
        matrix = self.weight * covariance
        if self.precision.ndim == 2:
            matrix += self.precision
        else:
            matrix[np.diag_indices_from(matrix)] += self.precision
        return matrix

    def posterior_precision(self, point: Point) -> Precision:
        """P at a point, in the objective's form."""
        mean = self.mean_precision()
        mean.add([point])
        return mean.precision()

    def by_products(self, point: Point) -> MatrixFree:
        """P at a point, known by its products with vectors."""
        scale = np.sqrt(self.rough_diagonal(point.marginals.tables))
        return MatrixFree([self.response(point)], self.weight, self.precision, scale, self.near(point))

    def near(self, point: Point) -> Precision | None:
        """A precision close to P that is cheap to solve with, where there is one beyond its diagonal."""
        return None

    def mean_precision(self) -> "MeanPrecision":
        """Collects the mean of P over points."""
        return MeanPrecision(self)

    def bends(self, parameters: FloatArray, directions: FloatArray) -> FloatArray | None:
        """d²∇L/dt² along each column t of directions, (F, D), where the response knows them; they are N d²E[f]/dt²."""
        return None

    def slope(self, parameters: FloatArray) -> FloatArray | None:
        """∇L, or None where the engine does not converge."""
        point = self.at(parameters)
        return point.gradient if np.isfinite(point.value) else None

    def _times_precision(self, vector: FloatArray) -> FloatArray:
        result: FloatArray = self.precision @ vector if self.precision.ndim == 2 else self.precision * vector
        return result


@dataclass(frozen=True, eq=False)
class FieldObjective(Objective):
    """The negative log posterior of a fully observed field.

    field, engine: what gives log Z, E[f] and their covariance. codes: the cases as positions in the states. counts:
    (T,) how often the data take each table entry. case_weights: (N,), where a case does not count once; N is then
    their sum.
    """

    field: CompiledField
    engine: Engine
    codes: IntArray
    counts: FloatArray
    case_weights: FloatArray | None = dataclasses.field(default=None, kw_only=True)  # `field` is the compiled one

    @property
    def graphs(self) -> list[Graph]:
        """All that one evaluation infers."""
        return [self.field.graph]

    def at(self, parameters: FloatArray, start: Any = None) -> Point:
        theta = self.field.design.potentials(parameters)
        return self.point(parameters, theta, self.engine.infer(self.field.graph, theta, start))

    def point(self, parameters: FloatArray, theta: FloatArray, marginals: Marginals) -> Point:
        """The objective from marginals that an engine found at these parameters."""
        return self.from_mean(parameters, theta, marginals, self.field.design.expectations(marginals.tables))

    def response(self, point: Point) -> Response:
        if point.marginals.status.outcome is Outcome.IMPOSSIBLE:
            raise IndefiniteCurvature(Outcome.IMPOSSIBLE.value)
        return self.engine.response(self.field.graph, self.field.design, point.theta, point.marginals)

    def bends(self, parameters: FloatArray, directions: FloatArray) -> FloatArray | None:
        point = self.at(parameters)
        if not np.isfinite(point.value):
            return None
        try:
            found = self.response(point).bends(directions)
        except IndefiniteCurvature:
            return None
        return None if found is None else self.weight * found

    def pointwise(self, points: FloatArray) -> Pointwise:
        if self.case_weights is not None:
            raise InvalidInput("cases that count for more or less than one are not left out one by one")
        distinct, which = np.unique(self.codes, axis=0, return_inverse=True)
        return Pointwise(self.case_log_z(distinct, points) - self.free_log_z(points)[:, None], which.reshape(-1))

    def case_log_z(self, codes: IntArray, points: FloatArray) -> FloatArray:
        """(S, N) log Σ exp θ(x) over the states that agree with each case: here one, the case itself."""
        return case_energies(self.field, codes, points)

    def free_log_z(self, points: FloatArray) -> FloatArray:
        """(S,) log Z at each of the parameters."""
        if isinstance(self.engine, Sampled):
            raise InvalidInput(
                "the probability of a case needs log Z, which sampling does not give: fit with bf.Exact(), "
                "bf.Kikuchi() or bf.Bethe()"
            )
        return log_z_along(self.engine, self.field.graph, self.field.design, points)

    def rough_diagonal(self, tables: FloatArray) -> FloatArray:
        prior = np.diag(self.precision) if self.precision.ndim == 2 else self.precision
        return self.weight * local_variances(self.field.graph, self.field.design, tables) + prior

    def frequencies(self) -> FloatArray:
        """How often the data take each table entry, (T,), with one case's worth of the uniform distribution added."""
        g = self.field.graph.arrays
        sizes = np.concatenate([g.cardinality, np.diff(g.table_ptr)])
        result: FloatArray = (self.counts + 1.0 / np.repeat(sizes, sizes)) / (self.weight + 1.0)
        return result


class MeanPrecision:
    """The mean of P over points, in the objective's form. The sparse form is for one: more are matrix-free."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self.count = 0
        self._dense = np.zeros(())
        self._responses: list[Response] = []
        self._tables: list[FloatArray] = []
        self._origin: Origin | None = None

    def add(self, points: Sequence[Point]) -> None:
        """All of the points, or none where the curvature of one is not positive definite."""
        o = self._objective
        responses = [o.response(p) for p in points]
        if o.form == "dense":
            covariances = [r.covariance() for r in responses]
            self._dense = self._dense + np.sum(covariances, axis=0)
        else:
            self._responses += responses
            self._tables += [p.marginals.tables for p in points]
            self._origin = Origin(getattr(o, "engine", None), points[0].parameters)
        self.count += len(points)

    def precision(self, old: Precision | None = None, rate: float = 1.0) -> Precision:
        """old: where that is dense, (1 − rate) old + rate mean; the other forms take the mean."""
        o = self._objective
        if o.form == "dense":
            mean = o.with_prior(self._dense / self.count)
            return DensePrecision(mean) if old is None else mixed(old, mean, rate)
        if o.form == "matrix-free":
            return MatrixFree(self._responses, o.weight, o.precision, self._scale())
        first = self._responses[0]
        if not isinstance(first, LinearResponse) or o.precision.ndim == 2:
            raise NotSparse("a sparse precision needs linear response (bf.Bethe(), bf.Kikuchi()) and a diagonal prior")
        near = SparsePrecision(first, o.weight, o.precision, self._scale, self._origin)
        return near if self.count == 1 else MatrixFree(self._responses, o.weight, o.precision, self._scale(), near)

    def _scale(self) -> FloatArray:
        """About √diag(P)."""
        result: FloatArray = np.sqrt(np.mean([self._objective.rough_diagonal(t) for t in self._tables], axis=0))
        return result


def mixed(old: Precision, mean: FloatArray, rate: float) -> Precision:
    """(1 − ρ) P + ρ P̄; where that is not positive definite, as P̄ need not be with hidden variables, a step that is.

    P + ρG + ½ρ² G P⁻¹ G with G = P̄ − P is (1 − ρ) P + ρ P̄ to first order, and always positive definite (Lin, Schmidt &
    Khan 2020).
    """
    before = old.matrix()
    try:
        return DensePrecision((1.0 - rate) * before + rate * mean)
    except IndefiniteCurvature:
        change = rate * (mean - before)
        return DensePrecision(before + change + 0.5 * change @ old.solve(change))


def log_z_along(engine: Engine, graph: Graph, design: Design, points: FloatArray) -> FloatArray:
    """(S,) log Z at one point after the other, each from where the last one ended; NaN where it did not converge."""
    result, before = np.full(len(points), np.nan), None
    for s, here in enumerate(points):
        found = engine.infer(graph, design.potentials(here), before)
        if found.status.converged:
            result[s], before = found.log_z, found.state
    return result


def observed_objective(
    known: CompiledField,
    codes: IntArray,
    precision: FloatArray,
    location: FloatArray,
    engine: Engine,
    weights: FloatArray | None = None,
) -> FieldObjective:
    """The objective of complete cases, codes (N, n). weights: what each of them counts for, (N,)."""
    taken = counts(known.graph, codes) if weights is None else weighted_counts(known.graph, codes, weights)
    weight = float(len(codes)) if weights is None else float(weights.sum())
    n = weight or 1.0
    return FieldObjective(
        field=known,
        engine=engine,
        codes=codes,
        counts=taken,
        statistic=known.design.expectations(taken) / n,
        offset=fixed_energy(known, taken) / n,
        weight=weight,
        precision=precision,
        location=location,
        form="dense",
        case_weights=weights,
    )


def fixed_energy(known: CompiledField, taken: FloatArray) -> float:
    """θ₀ summed over the entries that cases take; refuses cases that it forbids."""
    with np.errstate(invalid="ignore"):
        fixed = np.where(taken > 0, taken * known.design.offset, 0.0).sum()
    if fixed == -np.inf:
        raise InvalidInput(
            "the data hold a combination of states that a factor's log_table forbids (−inf); drop those cases or lift "
            "the constraint"
        )
    return float(fixed)
