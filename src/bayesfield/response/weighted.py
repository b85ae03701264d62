"""A weighted sum of covariances: one phase times the cases that it stands for; free less clamped, (18) and (21)."""

from collections.abc import Sequence

from bayesfield.response.base import Response
from bayesfield.types import FloatArray


class WeightedResponse(Response):
    """Σ_k w_k C_k. With negative weights, positive semi-definite at an optimum of the objective only."""

    def __init__(self, parts: Sequence[tuple[float, Response]]) -> None:
        self.parts = tuple(parts)

    @property
    def size(self) -> int:
        return self.parts[0][1].size

    def product(self, vectors: FloatArray) -> FloatArray:
        (weight, first), *rest = self.parts
        result = weight * first.product(vectors)
        for weight, response in rest:
            result += weight * response.product(vectors)
        return result

    def covariance(self) -> FloatArray:
        (weight, first), *rest = self.parts
        result = weight * first.covariance()
        for weight, response in rest:
            result += weight * response.covariance()
        return result

    def second_derivatives(self, directions: FloatArray) -> FloatArray | None:
        total: FloatArray | None = None
        for weight, response in self.parts:
            found = response.second_derivatives(directions)
            if found is None:
                return None
            total = weight * found if total is None else total + weight * found
        return total
