"""What every form of the posterior precision can do."""

from abc import ABC, abstractmethod

import numpy as np

from bayesfield.types import FloatArray


class Precision(ABC):
    """A positive definite P, (F, F)."""

    form = ""

    @property
    @abstractmethod
    def size(self) -> int:
        """F."""

    @abstractmethod
    def product(self, vectors: FloatArray) -> FloatArray:
        """P · vectors, for (F,) or (F, D)."""

    @abstractmethod
    def solve(self, vectors: FloatArray) -> FloatArray:
        """P⁻¹ · vectors, for (F,) or (F, D)."""

    @abstractmethod
    def draws(self, noise: FloatArray) -> FloatArray:
        """(F, D) vectors with covariance P⁻¹ from standard normal ones."""

    def squares(self, vectors: FloatArray) -> FloatArray:
        """vᵀP⁻¹v of each row of (S, F) vectors, (S,)."""
        result: FloatArray = np.einsum("sf,fs->s", vectors, self.solve(vectors.T))
        return result

    def sample(self, rng: np.random.Generator, count: int) -> FloatArray:
        """(F, count) vectors with covariance P⁻¹."""
        return self.draws(rng.standard_normal((self.size, count)))

    @property
    @abstractmethod
    def sd(self) -> FloatArray:
        """√diag(P⁻¹)."""

    @property
    @abstractmethod
    def log_det(self) -> float:
        """log det P."""

    @property
    def sd_error(self) -> float:
        """Relative error of sd (root mean square) that probing leaves; zero for the other forms."""
        return 0.0

    @property
    def log_det_error(self) -> float:
        """Standard error of log_det that probing leaves; zero for the other forms."""
        return 0.0

    def matrix(self) -> FloatArray:
        """P, dense."""
        result = self.product(np.eye(self.size))
        return (result + result.T) / 2
