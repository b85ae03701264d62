"""Positive definite matrices, factorised: solves, draws, log det, and the entries of the inverse that widths need."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from bayesfield.types import FloatArray, IndefiniteCurvature, Outcome

if TYPE_CHECKING:
    from bayesfield.response.indicators import Sparse

_SLAB = 1000  # rows whose forms are taken at once


class Factor(ABC):
    """A positive definite matrix A, (n, n)."""

    @abstractmethod
    def solve(self, right: FloatArray) -> FloatArray:
        """A⁻¹ · right, for (n,) or (n, D)."""

    @abstractmethod
    def root(self, noise: FloatArray) -> FloatArray:
        """Vectors with covariance A from standard normal ones, (n,) or (n, D)."""

    @property
    @abstractmethod
    def log_det(self) -> float:
        """log det A."""


class FormsFactor(Factor):
    """One that knows A⁻¹ where A has entries."""

    @abstractmethod
    def inverse_forms(self, rows: Sparse) -> FloatArray:
        """w A⁻¹ wᵀ for every row w, whose entries meet where A has entries."""


class DenseFactor(FormsFactor):
    """By LAPACK."""

    def __init__(self, matrix: FloatArray) -> None:
        try:
            self._lower: FloatArray = linalg.cholesky(matrix, lower=True)
        except (linalg.LinAlgError, ValueError):
            raise IndefiniteCurvature(Outcome.INDEFINITE.value) from None

    def solve(self, right: FloatArray) -> FloatArray:
        result: FloatArray = linalg.cho_solve((self._lower, True), right)
        return result

    def root(self, noise: FloatArray) -> FloatArray:
        result: FloatArray = self._lower @ noise
        return result

    @property
    def log_det(self) -> float:
        return 2.0 * float(np.log(np.diag(self._lower)).sum())

    def inverse_forms(self, rows: Sparse) -> FloatArray:
        out = np.empty(rows.shape[0])
        for k in range(0, len(out), _SLAB):
            half = linalg.solve_triangular(self._lower, rows[k : k + _SLAB].toarray().T, lower=True)
            out[k : k + _SLAB] = np.einsum("nk,nk->k", half, half)
        return out


class DiagonalFactor(FormsFactor):
    """Of a diagonal matrix, which may be empty."""

    def __init__(self, diagonal: FloatArray) -> None:
        if not (diagonal > 0.0).all():
            raise IndefiniteCurvature(Outcome.INDEFINITE.value)
        self._diagonal = diagonal

    def solve(self, right: FloatArray) -> FloatArray:
        result: FloatArray = (right.T / self._diagonal).T
        return result

    def root(self, noise: FloatArray) -> FloatArray:
        result: FloatArray = (noise.T * np.sqrt(self._diagonal)).T
        return result

    @property
    def log_det(self) -> float:
        return float(np.log(self._diagonal).sum())

    def inverse_forms(self, rows: Sparse) -> FloatArray:
        result: FloatArray = rows.power(2) @ (1.0 / self._diagonal)
        return result
