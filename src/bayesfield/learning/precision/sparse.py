"""P by one sparse system: for linear response C = B + R Ω⁻¹ Rᵀ and a diagonal prior.

With M = N B + Λ⁻¹ and S = Ω/N + Rᵀ M⁻¹ R (as sparse as the graph), P⁻¹ = M⁻¹ − M⁻¹ R S⁻¹ Rᵀ M⁻¹.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesfield.learning.precision.base import Precision
from bayesfield.learning.precision.matrix_free import inverse_root
from bayesfield.types import FloatArray

if TYPE_CHECKING:
    from bayesfield.response.linear import LinearResponse


class Origin(NamedTuple):
    """What a response comes from: the engine and the parameters that make it again."""

    engine: Any
    parameters: FloatArray


class SparsePrecision(Precision):
    """By the sparse system S. response: linear response. ridge: diag(Λ⁻¹), (F,). scale: gives about √diag(P), (F,)."""

    form = "sparse"

    def __init__(
        self,
        response: LinearResponse,
        weight: float,
        ridge: FloatArray,
        scale: Callable[[], FloatArray],
        origin: Origin | None = None,
    ) -> None:
        self.response, self.weight, self.ridge, self._scale, self.origin = response, weight, ridge, scale, origin
        self._system = response.system(weight, ridge)

    @property
    def size(self) -> int:
        return len(self.ridge)

    def product(self, vectors: FloatArray) -> FloatArray:
        return self.weight * self.response.product(vectors) + (
            self.ridge * vectors if vectors.ndim == 1 else self.ridge[:, None] * vectors
        )

    def solve(self, vectors: FloatArray) -> FloatArray:
        s = self._system
        result: FloatArray = s.own @ vectors - s.shares @ s.joint.solve(s.shares.T @ vectors)
        return result

    def draws(self, noise: FloatArray) -> FloatArray:
        return inverse_root(self.product, self._scale(), noise)

    def sample(self, rng: np.random.Generator, count: int) -> FloatArray:
        """By conditioning: x ~ N(0, M⁻¹) and e ~ N(0, Ω/N); given Rᵀx + e = 0, x − W S⁻¹ (Rᵀx + e) has precision P."""
        s, slopes = self._system, self.response.slopes
        out = np.empty((self.size, count))
        for k in range(count):
            x = s.own_factor.root(rng.standard_normal(self.size))
            e = self.response.factor.root(rng.standard_normal(slopes.shape[1])) / np.sqrt(self.weight)
            out[:, k] = x - s.shares @ s.joint.solve(slopes.T @ x + e)
        return out

    @property
    def log_det(self) -> float:
        """log det M + log det S − log det(Ω/N), by Sylvester's identity."""
        omega = self.response.factor.log_det - self.response.slopes.shape[1] * np.log(self.weight)
        return float(self._system.joint.log_det - omega - self._system.own_factor.log_det)

    @cached_property
    def sd(self) -> FloatArray:
        """From diag(P⁻¹) = diag(M⁻¹) − diag(W S⁻¹ Wᵀ), which needs S⁻¹ only where S has entries."""
        variance: FloatArray = self._system.own.diagonal() - self._system.forms()
        return np.sqrt(variance)
