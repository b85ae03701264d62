"""The posterior precision P = N C + Λ⁻¹ in three forms with the same answers: dense, sparse, matrix-free.

*dense*: Cholesky. *sparse*: for linear response C = B + R Ω⁻¹ Rᵀ and a diagonal prior; with M = N B + Λ⁻¹ and
S = Ω/N + Rᵀ M⁻¹ R (as sparse as the graph), P⁻¹ = M⁻¹ − M⁻¹ R S⁻¹ Rᵀ M⁻¹. *matrix-free*: products with any responses,
conjugate gradients for solves, Lanczos for draws, probes for the diagonal; with the errors that these leave.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, cg

from bayesfield import parallel
from bayesfield.response.base import Response
from bayesfield.response.linear import LinearResponse
from bayesfield.types import FloatArray, IndefiniteCurvature, Outcome

KRYLOV = 80  # most Lanczos steps of a draw
KRYLOV_ROOM = 1e9  # bytes for the Lanczos vectors of the draws that are made together
_DRAWN = 1e-6  # change of a draw, relative to its length, at which Lanczos ends
_SOLVED = 1e-10  # relative residual of conjugate gradients
_PROBES = 64  # random signs that probe the diagonal of P⁻¹


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


class DensePrecision(Precision):
    """By a Cholesky factor; lower: the factor, where it is known better than from the matrix."""

    form = "dense"

    def __init__(self, matrix: FloatArray, lower: FloatArray | None = None) -> None:
        self._matrix = matrix
        try:
            with parallel.one_blas_thread(len(matrix)):
                self._lower: FloatArray = linalg.cholesky(matrix, lower=True) if lower is None else lower
        except (linalg.LinAlgError, ValueError):
            raise IndefiniteCurvature(Outcome.INDEFINITE.value) from None

    @property
    def size(self) -> int:
        return len(self._matrix)

    def product(self, vectors: FloatArray) -> FloatArray:
        result: FloatArray = self._matrix @ vectors
        return result

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
        return self.weight * self.response.product(vectors) + _rows(self.ridge, vectors)

    def solve(self, vectors: FloatArray) -> FloatArray:
        s = self._system
        result: FloatArray = s.own @ vectors - s.shares @ s.joint.solve(s.shares.T @ vectors)
        return result

    def draws(self, noise: FloatArray) -> FloatArray:
        return _inverse_root(self.product, self._scale(), noise)

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


class MatrixFree(Precision):
    """P = N · mean of the responses + Λ⁻¹, by products alone.

    ridge: Λ⁻¹, (F,) or (F, F). scale: about √diag(P), (F,). near: a precision close to P that solves cheaply, the
    preconditioner; by default the scale. seed: of the probes, so that equal posteriors have equal probed sds.
    """

    form = "matrix-free"

    def __init__(
        self,
        responses: Sequence[Response],
        weight: float,
        ridge: FloatArray,
        scale: FloatArray,
        near: Precision | None = None,
        seed: int = 0,
    ) -> None:
        self.responses, self.weight, self.ridge, self.scale = list(responses), weight, ridge, scale
        self.near, self._seed = near, seed

    @property
    def size(self) -> int:
        return len(self.scale)

    def product(self, vectors: FloatArray) -> FloatArray:
        own = sum(r.product(vectors) for r in self.responses)
        prior = self.ridge @ vectors if self.ridge.ndim == 2 else _rows(self.ridge, vectors)
        result: FloatArray = self.weight / len(self.responses) * own + prior
        return result

    def solve(self, vectors: FloatArray) -> FloatArray:
        columns = vectors if vectors.ndim == 2 else vectors[:, None]
        out = np.column_stack([self.solve_roughly(column, _SOLVED) for column in columns.T])
        return out if vectors.ndim == 2 else out[:, 0]

    def solve_roughly(self, vector: FloatArray, residual: float) -> FloatArray:
        """P⁻¹ times one vector, by conjugate gradients up to that part of the vector's length."""
        shape = (self.size, self.size)
        matrix = LinearOperator(shape, matvec=self.product, dtype=np.float64)
        nearly = self.near.solve if self.near is not None else lambda v: v.ravel() / self.scale**2
        found, left = cg(matrix, vector, rtol=residual, maxiter=500, M=LinearOperator(shape, nearly, dtype=np.float64))
        if left or not np.isfinite(found).all():
            raise IndefiniteCurvature(f"{Outcome.INDEFINITE.value} (conjugate gradients did not come to an end)")
        result: FloatArray = found
        return result

    def draws(self, noise: FloatArray) -> FloatArray:
        return _inverse_root(self.product, self.scale, noise)

    @cached_property
    def _volume(self) -> tuple[float, float]:
        """log det P and its standard error: log det D² + E[sᵀ log(A) s] over random signs s, A = D⁻¹PD⁻¹.

        sᵀ log(A) s = |s|² e₁ᵀ log(T) e₁ with the tridiagonal T of s's Krylov space (Ubaru, Chen & Saad 2017).
        """
        signs = np.random.default_rng(self._seed).choice([-1.0, 1.0], size=(self.size, _PROBES))
        _, diagonal, off = _krylov(self.product, self.scale, signs, lambda *_: False)
        each = self.size * np.array([_log_of_tridiagonal(d, o) for d, o in zip(diagonal.T, off.T, strict=True)])
        total = 2.0 * float(np.log(self.scale).sum()) + float(each.mean())
        return total, float(each.std(ddof=1)) / np.sqrt(_PROBES)

    @property
    def log_det(self) -> float:
        return self._volume[0] if self.size else 0.0

    @property
    def log_det_error(self) -> float:
        return self._volume[1] if self.size else 0.0

    @cached_property
    def _probed(self) -> tuple[FloatArray, FloatArray]:
        """diag(P⁻¹) and its standard error, from random signs s: E[s ∘ P⁻¹s], near's own diagonal taken off first."""
        signs = np.random.default_rng(self._seed).choice([-1.0, 1.0], size=(self.size, _PROBES))
        solved = self.solve(signs)
        base = np.zeros(self.size)
        if self.near is not None:
            solved, base = solved - self.near.solve(signs), self.near.sd**2
        each = signs * solved
        return base + each.mean(axis=1), each.std(axis=1, ddof=1) / np.sqrt(_PROBES)

    @cached_property
    def sd(self) -> FloatArray:
        # P⁻¹ is no smaller than the inverse of P's diagonal, which is what a probe gone astray falls back to
        return np.sqrt(np.maximum(self._probed[0], 0.1 / self.scale**2))

    @property
    def sd_error(self) -> float:
        return float(np.sqrt(np.mean((0.5 * self._probed[1] / self.sd**2) ** 2))) if self.size else 0.0


def _inverse_root(product: Callable[[FloatArray], FloatArray], scale: FloatArray, noise: FloatArray) -> FloatArray:
    """D⁻¹ A⁻ᐟ² z with A = D⁻¹PD⁻¹ and D = diag(scale), so that the covariance is P⁻¹; Lanczos, all columns at once.

    z's Krylov space V T Vᵀ ≈ A gives A⁻ᐟ²z ≈ |z| V T⁻ᐟ² e₁ (Chow & Saad 2014), with full reorthogonalisation.
    """
    size, count = noise.shape
    at_once = max(1, int(KRYLOV_ROOM // (8 * (min(KRYLOV, size) + 1) * max(size, 1))))
    if count > at_once:
        parts = [noise[:, k : k + at_once] for k in range(0, count, at_once)]
        return np.concatenate([_inverse_root(product, scale, part) for part in parts], axis=1)
    length = np.linalg.norm(noise, axis=0)
    before = np.zeros_like(noise)

    def ended(basis: FloatArray, diagonal: FloatArray, off: FloatArray) -> bool:
        nonlocal before
        now = np.einsum("kfd,kd->fd", basis, _root_of_tridiagonal(diagonal, off)) * length
        change, before = np.abs(now - before).max(initial=0.0), now
        return bool(change < _DRAWN * max(np.abs(now).max(initial=0.0), 1e-300))

    _krylov(product, scale, noise, ended)
    return before / scale[:, None] if size else noise


def _krylov(
    product: Callable[[FloatArray], FloatArray],
    scale: FloatArray,
    noise: FloatArray,
    ended: Callable[[FloatArray, FloatArray, FloatArray], bool],
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Lanczos for D⁻¹PD⁻¹ from every column of noise: the basis, and T's diagonal and off-diagonal, (steps, columns).

    ended: called with these every fifth step; True ends.
    """
    size, count = noise.shape
    steps = min(KRYLOV, size)
    basis = np.zeros((steps + 1, size, count))
    diagonal, off = np.zeros((steps, count)), np.zeros((steps, count))
    basis[0] = noise / np.maximum(np.linalg.norm(noise, axis=0), 1e-300)
    for k in range(steps):
        moved = product(basis[k] / scale[:, None]) / scale[:, None]
        diagonal[k] = np.einsum("fd,fd->d", basis[k], moved)
        for _ in range(2):
            shares = np.einsum("kfd,fd->kd", basis[: k + 1], moved)
            moved -= np.einsum("kfd,kd->fd", basis[: k + 1], shares)
        off[k] = np.linalg.norm(moved, axis=0)
        basis[k + 1] = moved / np.maximum(off[k], 1e-300)
        exhausted = (off[k] < 1e-12).all()
        if k % 5 == 4 or k == steps - 1 or exhausted:
            found = basis[: k + 1], diagonal[: k + 1], off[:k]
            if ended(*found) or exhausted or k == steps - 1:
                return found
    return basis[:0], diagonal, off


def _log_of_tridiagonal(diagonal: FloatArray, off: FloatArray) -> float:
    """e₁ᵀ log(T) e₁."""
    values, vectors = linalg.eigh_tridiagonal(diagonal, off)
    if values[0] <= 0.0:
        raise IndefiniteCurvature(Outcome.INDEFINITE.value)
    return float(vectors[0] ** 2 @ np.log(values))


def _root_of_tridiagonal(diagonal: FloatArray, off: FloatArray) -> FloatArray:
    """T⁻ᐟ² e₁ for every column's tridiagonal T."""
    out = np.empty_like(diagonal)
    for d in range(diagonal.shape[1]):
        values, vectors = linalg.eigh_tridiagonal(diagonal[:, d], off[:, d])
        if values[0] <= 0.0:
            raise IndefiniteCurvature(Outcome.INDEFINITE.value)
        out[:, d] = vectors @ (vectors[0] / np.sqrt(values))
    return out


def _rows(values: FloatArray, vectors: FloatArray) -> FloatArray:
    result: FloatArray = values * vectors if vectors.ndim == 1 else values[:, None] * vectors
    return result
