"""Covariance of the features in the free phase, less that in the clamped ones: equations (18) and (21)."""

from collections.abc import Sequence

from bayesfield.response.base import Response
from bayesfield.types import FloatArray


class ContrastResponse(Response):
    """free − Σ_k share_k · clamped_k. Positive semi-definite at an optimum of the free energies' difference only."""

    def __init__(self, free: Response, clamped: Sequence[tuple[float, Response]]) -> None:
        self.free, self.clamped = free, tuple(clamped)

    @property
    def size(self) -> int:
        return self.free.size

    def product(self, vectors: FloatArray) -> FloatArray:
        result = self.free.product(vectors)
        for share, response in self.clamped:
            result = result - share * response.product(vectors)
        return result

    def covariance(self) -> FloatArray:
        result = self.free.covariance()
        for share, response in self.clamped:
            result = result - share * response.covariance()
        return result
