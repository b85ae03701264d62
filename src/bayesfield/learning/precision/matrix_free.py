"""P by its products with vectors: conjugate gradients for solves, Lanczos for draws, probes for the diagonal; with the
errors that these leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, cg

from bayesfield.learning.precision.base import Precision
from bayesfield.types import FloatArray, IndefiniteCurvature, Outcome

if TYPE_CHECKING:
    from bayesfield.learning.objective import GaussianPrior
    from bayesfield.response.base import Response

KRYLOV = 80  # most Lanczos steps of a draw
KRYLOV_ROOM = 1e9  # bytes for the Lanczos vectors of the draws that are made together
_DRAWN = 1e-6  # change of a draw, relative to its length, at which Lanczos ends
_SOLVED = 1e-10  # relative residual of conjugate gradients
_PROBES = 64  # random signs that probe the diagonal of P⁻¹


class MatrixFree(Precision):
    """P = mean of the responses + Λ⁻¹, by products alone.

    responses: Σ_k w_k C_k at each of the points that are averaged. scale: about √diag(P), (F,). near: a precision close
    to P that solves cheaply, the preconditioner; by default the scale. seed: of the probes, so that equal posteriors
    have equal probed sds.
    """

    form = "matrix-free"

    def __init__(
        self,
        responses: Sequence[Response],
        prior: GaussianPrior,
        scale: FloatArray,
        near: Precision | None = None,
        seed: int = 0,
    ) -> None:
        self.responses, self.prior, self.scale = list(responses), prior, scale
        self.near, self._seed = near, seed

    @property
    def size(self) -> int:
        return len(self.scale)

    def product(self, vectors: FloatArray) -> FloatArray:
        own = sum(r.product(vectors) for r in self.responses)
        return own / len(self.responses) + self.prior.times(vectors)

    def solve(self, vectors: FloatArray) -> FloatArray:
        columns = vectors if vectors.ndim == 2 else vectors[:, None]
        out = np.column_stack([self.solve_roughly(column, _SOLVED) for column in columns.T])
        return out if vectors.ndim == 2 else out[:, 0]

    def solve_roughly(
        self, vector: FloatArray, residual: float, each: Callable[[FloatArray], None] | None = None
    ) -> FloatArray:
        """P⁻¹ times one vector, by conjugate gradients up to that part of the vector's length. each: called with what
        every step of them has."""
        shape = (self.size, self.size)
        matrix = LinearOperator(shape, matvec=self.product, dtype=np.float64)
        nearly = self.near.solve if self.near is not None else lambda v: v.ravel() / self.scale**2
        nearby = LinearOperator(shape, nearly, dtype=np.float64)
        found, left = cg(matrix, vector, rtol=residual, maxiter=500, M=nearby, callback=each)
        if left or not np.isfinite(found).all():
            raise IndefiniteCurvature(f"{Outcome.INDEFINITE.value} (conjugate gradients did not come to an end)")
        result: FloatArray = found
        return result

    def draws(self, noise: FloatArray) -> FloatArray:
        return inverse_root(self.product, self.scale, noise)

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


def inverse_root(product: Callable[[FloatArray], FloatArray], scale: FloatArray, noise: FloatArray) -> FloatArray:
    """D⁻¹ A⁻ᐟ² z with A = D⁻¹PD⁻¹ and D = diag(scale), so that the covariance is P⁻¹; Lanczos, all columns at once.

    z's Krylov space V T Vᵀ ≈ A gives A⁻ᐟ²z ≈ |z| V T⁻ᐟ² e₁ (Chow & Saad 2014), with full reorthogonalisation.
    """
    size, count = noise.shape
    at_once = max(1, int(KRYLOV_ROOM // (8 * (min(KRYLOV, size) + 1) * max(size, 1))))
    if count > at_once:
        parts = [noise[:, k : k + at_once] for k in range(0, count, at_once)]
        return np.concatenate([inverse_root(product, scale, part) for part in parts], axis=1)
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
