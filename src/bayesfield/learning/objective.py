"""The negative log posterior of the parameters, its gradient and its curvature, for any engine.

L(λ) = N (log Z(λ) − λᵀf̄ − f̄₀) + ½ (λ − μ)ᵀ Λ⁻¹ (λ − μ)
∇L   = N (E[f] − f̄) + Λ⁻¹ (λ − μ)
∇²L  = N C + Λ⁻¹ = P, equation (7)
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bayesfield.graph import CompiledField, compiled, counts
from bayesfield.inference import Engine
from bayesfield.model import Normal, RandomField
from bayesfield.response import Response
from bayesfield.types import FloatArray, IndefiniteCurvature, IntArray, InvalidInput, Marginals, Outcome


class Point(NamedTuple):
    """The objective at one λ. value is infinite where the engine did not converge."""

    parameters: FloatArray
    theta: FloatArray
    value: float
    gradient: FloatArray
    marginals: Marginals


@dataclass(frozen=True, eq=False)
class Objective:
    """The negative log posterior of a fully observed field.

    codes: the cases as positions in the states. counts: (T,) how often the data take each table entry. statistic: f̄,
    (F,). offset: the data's mean fixed energy. weight: N. precision: Λ⁻¹, its diagonal (F,) or the matrix (F, F).
    location: μ.
    """

    field: CompiledField
    engine: Engine
    codes: IntArray
    counts: FloatArray
    statistic: FloatArray
    offset: float
    weight: float
    precision: FloatArray
    location: FloatArray

    def at(self, parameters: FloatArray) -> Point:
        theta = self.field.design.potentials(parameters)
        return self.point(parameters, theta, self.engine.infer(self.field.graph, theta))

    def point(self, parameters: FloatArray, theta: FloatArray, marginals: Marginals) -> Point:
        """The objective from marginals that an engine found at these parameters."""
        pull = self._times_precision(parameters - self.location)
        mean = self.field.design.expectations(marginals.tables)
        value = self.weight * (marginals.log_z - float(parameters @ self.statistic) - self.offset)
        value += 0.5 * float((parameters - self.location) @ pull)
        if not marginals.status.converged:
            value = np.inf
        return Point(parameters, theta, float(value), self.weight * (mean - self.statistic) + pull, marginals)

    def log_likelihood(self, point: Point) -> float:
        """Σ_n log p(x_n|λ)."""
        return float(self.weight * (point.parameters @ self.statistic + self.offset - point.marginals.log_z))

    def response(self, point: Point) -> Response:
        """The covariance of the features at a point."""
        if point.marginals.status.outcome is Outcome.IMPOSSIBLE:
            raise IndefiniteCurvature(Outcome.IMPOSSIBLE.value)
        return self.engine.response(self.field.graph, self.field.design, point.theta, point.marginals)

    def curvature(self, point: Point) -> FloatArray:
        """P = N C + Λ⁻¹, dense."""
        matrix = self.weight * self.response(point).covariance()
        if self.precision.ndim == 2:
            matrix += self.precision
        else:
            matrix[np.diag_indices_from(matrix)] += self.precision
        return matrix

    def slope(self, parameters: FloatArray) -> FloatArray | None:
        """∇L, or None where the engine does not converge."""
        point = self.at(parameters)
        return point.gradient if np.isfinite(point.value) else None

    def bend(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """∇L and ∇²L, or None where the engine does not converge or its curvature is not positive definite."""
        point = self.at(parameters)
        if not np.isfinite(point.value):
            return None
        try:
            return point.gradient, self.curvature(point)
        except IndefiniteCurvature:
            return None

    def _times_precision(self, vector: FloatArray) -> FloatArray:
        result: FloatArray = self.precision @ vector if self.precision.ndim == 2 else self.precision * vector
        return result


def mrf_objective(random_field: RandomField, X: Any, prior: Normal, engine: Engine) -> Objective:
    """The objective for cases X, an (N, n) array or DataFrame in the states' own values."""
    codes = random_field.encode(X)
    known = compiled(random_field)
    taken = counts(known.graph, codes)
    n = max(len(codes), 1)
    with np.errstate(invalid="ignore"):
        fixed = np.where(taken > 0, taken * known.design.offset, 0.0).sum() / n
    if fixed == -np.inf:
        raise InvalidInput(
            "the data hold a combination of states that a factor's log_table forbids (−inf); drop those cases or lift "
            "the constraint"
        )
    return Objective(
        field=known,
        engine=engine,
        codes=codes,
        counts=taken,
        statistic=known.design.expectations(taken) / n,
        offset=float(fixed),
        weight=float(len(codes)),
        precision=prior.precision(random_field),
        location=prior.location(random_field),
    )
