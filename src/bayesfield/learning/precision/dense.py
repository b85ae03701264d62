"""P as a matrix, by a Cholesky factor."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from bayesfield import parallel
from bayesfield.learning.precision.base import Precision
from bayesfield.types import BoolArray, FloatArray, IndefiniteCurvature, Outcome

if TYPE_CHECKING:
    from bayesfield.learning.objective import Objective, Point, Points
    from bayesfield.response.base import Response

    Averaged = Callable[[Objective, str, list[Response], list[Point]], Precision]


_MANY = 2_000_000  # numbers beyond which rounding to seven digits is worth its time
_ROWS = 4096  # vectors that are solved for at a time


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

    def squares(self, vectors: FloatArray) -> FloatArray:
        """vᵀP⁻¹v = |L⁻¹v|² for each row; of many in single precision, which is enough for averages over them."""
        lower = self._lower.astype(np.float32) if vectors.size > _MANY else self._lower
        result = np.empty(len(vectors))
        for rows in range(0, len(vectors), _ROWS):
            some = vectors[rows : rows + _ROWS].T.astype(lower.dtype)
            away = linalg.solve_triangular(lower, some, lower=True, check_finite=False)
            result[rows : rows + _ROWS] = np.einsum("fs,fs->s", away, away, dtype=np.float64)
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

    def wider(self, factor: float) -> DensePrecision:
        """With all sd so many times as large."""
        return DensePrecision(self._matrix / factor**2, self._lower / factor)

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


class Average:
    """The mean of P over draws. otherwise: makes it from the responses where the form is not dense."""

    def __init__(self, objective: Objective, form: str, otherwise: Averaged) -> None:
        self._objective, self._form, self._otherwise = objective, form, otherwise
        self._dense, self._count = np.zeros(()), 0
        self._responses: list[Response] = []
        self._points: list[Point] = []

    def add_pairs(self, points: FloatArray, answers: Points | None, good: BoolArray, most: int) -> None:
        """The curvatures of pairs of draws, points (2·pairs, F), of as many good pairs as give ``most`` of them; a pair
        one of which has none is no longer good. answers: whose inference to continue."""
        count, phases = len(good), self._objective.phases
        if self._form == "dense" and all(phase.traits.batched for phase in phases):
            some = np.flatnonzero(good)[: (most + 1) // 2]
            draws = points[np.concatenate([some, count + some])]
            for phase in phases:
                self._dense = self._dense + phase.weight * phase.covariances(draws)
            self._count += len(draws)
            return
        for k in np.flatnonzero(good).tolist():
            if self._count >= most:
                return
            pair = [
                self._objective.at(points[at], None if answers is None else answers.state(at)) for at in (k, count + k)
            ]
            try:
                good[k] = np.isfinite(pair[0].value) and np.isfinite(pair[1].value)
                if good[k]:
                    self._add(pair)
            except IndefiniteCurvature:
                good[k] = False

    def _add(self, points: list[Point]) -> None:
        """All of the points, or none where the curvature of one is not positive definite."""
        if self._form == "dense":
            self._dense = self._dense + sum(self._objective.likelihood_curvature(point) for point in points)
        else:
            self._responses += [self._objective.response(point) for point in points]
            self._points += points
        self._count += len(points)

    def mixed(self, old: Precision, rate: float) -> Precision | None:
        """Dense: (1 − rate) old + rate mean; the other forms take the mean. None where nothing was added, or where it
        is not positive definite."""
        if not self._count:
            return None
        try:
            if self._form == "dense" and isinstance(old, DensePrecision):
                return old.mixed(self._objective.prior.plus(self._dense / self._count), rate)
            return self._otherwise(self._objective, self._form, self._responses, self._points)
        except IndefiniteCurvature:
            return None
