"""P as a matrix, by a Cholesky factor."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import linalg

from bayesfield import parallel
from bayesfield.learning.precision.base import Precision
from bayesfield.types import FloatArray, IndefiniteCurvature, Outcome


class DensePrecision(Precision):
    """By a Cholesky factor; lower: the factor, where it is known better than from the matrix."""

    form = "dense"

    def __init__(self, matrix: FloatArray, lower: FloatArray | None = None) -> None:
        self._matrix = matrix
        try:
            if lower is not None or len(matrix) <= parallel.TINY:
                self._lower: FloatArray = linalg.cholesky(matrix, lower=True) if lower is None else lower
            else:
                with parallel.one_blas_thread(len(matrix)):
                    self._lower = linalg.cholesky(matrix, lower=True)
        except (linalg.LinAlgError, ValueError):
            raise IndefiniteCurvature(Outcome.INDEFINITE.value) from None

    @property
    def size(self) -> int:
        return len(self._matrix)

    def product(self, vectors: FloatArray) -> FloatArray:
        return self._matrix @ vectors

    def solve(self, vectors: FloatArray) -> FloatArray:
        if not self.size:
            return vectors
        result: FloatArray = linalg.cho_solve((self._lower, True), vectors)
        return result

    def draws(self, noise: FloatArray) -> FloatArray:
        if not self.size:
            return noise
        result: FloatArray = linalg.solve_triangular(self._lower, noise, lower=True, trans="T")
        return result

    def sample(self, rng: np.random.Generator, count: int) -> FloatArray:
        return self.draws(rng.standard_normal((len(self._matrix), count)))

    def matrix(self) -> FloatArray:
        return self._matrix

    @property
    def log_det(self) -> float:
        return 2.0 * float(np.log(np.diag(self._lower)).sum())

    @cached_property
    def covariance(self) -> FloatArray:
        """P⁻¹."""
        if not self.size:
            return np.empty((0, 0))
        inverse, _ = linalg.lapack.dpotri(self._lower, lower=True)  # its lower triangle
        result: FloatArray = np.tril(inverse) + np.tril(inverse, -1).T
        return result

    @cached_property
    def sd(self) -> FloatArray:
        if "covariance" in self.__dict__ or not self.size:
            return np.sqrt(np.diag(self.covariance))
        inverse, _ = linalg.lapack.dtrtri(self._lower, lower=True)  # P⁻¹ = L⁻ᵀL⁻¹: half the work
        result: FloatArray = np.sqrt(np.einsum("ij,ij->j", inverse, inverse))
        return result

    def mixed(self, mean: FloatArray, rate: float) -> DensePrecision:
        """(1 − ρ) P + ρ P̄; where that is not positive definite, as P̄ need not be with hidden variables, a step that is.

        P + ρG + ½ρ² G P⁻¹ G with G = P̄ − P is (1 − ρ) P + ρ P̄ to first order, and always positive definite (Lin,
        Schmidt & Khan 2020).
        """
        before = self.matrix()
        try:
            return DensePrecision((1.0 - rate) * before + rate * mean)
        except IndefiniteCurvature:
            if not np.isfinite(mean).all():
                raise
            change = rate * (mean - before)
            return DensePrecision(before + change + 0.5 * change @ self.solve(change))
