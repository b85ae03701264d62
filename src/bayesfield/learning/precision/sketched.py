"""P by blocks that overlap, and the sandwich P⁻¹ (J + Λ⁻¹) P⁻¹ of very many parameters by sums of scores.

A pseudo-likelihood's curvature is a sum over sites, H = Σ_i E_i G_i E_iᵀ, G_i over the parameters of site i's own
conditional; a coupling belongs to two of them. n blocks of n² numbers stand for F = n(n + 1)/2 parameters, and products
with H cost n³ where H itself has n⁴/4 entries. Solves are by conjugate gradients with the preconditioner
Σ_i D E_i (G_i + prior)⁻¹ E_iᵀ D, D one over the number of sites that share a parameter, as in Neumann–Neumann domain
decomposition: each site's own regression is solved exactly, and a coupling is the mean of its two.

The middle J = Σ_n s_n s_nᵀ is not made, either. The cases are dealt into M groups, and with random signs ε

    S_g = Σ_{n in g} ε_n s_n + Λ^{−1/2} ξ_g / √M,   E Σ_g S_g S_gᵀ = J + Λ⁻¹,   V ≈ Σ_g z_g z_gᵀ,  z_g = P⁻¹ S_g

Every case is added up once, whatever M. A variance is then a mean of M squares that are close to Gaussian, so that
widths have a relative error of √(1/2M): 1.6 % for 2,048 groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg

from bayesfield import parallel
from bayesfield.learning.precision.base import Precision
from bayesfield.types import FloatArray, IndefiniteCurvature, IntArray, Outcome

if TYPE_CHECKING:
    from bayesfield.learning.objective import GaussianPrior, Point
    from bayesfield.learning.phases.conditionals import CompositePhase

_COLUMNS = 128  # that are solved together
_STEPS = 500  # of conjugate gradients, at most
_SOLVED = {"f": 2e-6, "d": 1e-11}  # relative residual, by what the blocks are kept in
_PRODUCT = 1e-6  # the same for products with V⁻¹
_SKETCHED = 1e-3  # the same for the sums of scores, whose own error is ten times as large


class SketchedSandwich(Precision):
    """V = P⁻¹ (J + Λ⁻¹) P⁻¹ ≈ Z Zᵀ. bread: P. half: Z, (F, M).

    Widths, solves and draws are by Z, and so agree with one another; V⁻¹ is known by P and J alone, and costs a pass
    over the cases for every step of conjugate gradients.
    """

    form = "matrix-free"

    def __init__(self, bread: OverlappingBlocks, half: FloatArray, middle: Callable[[FloatArray], FloatArray]) -> None:
        self.bread, self._half, self._middle = bread, half, middle

    @property
    def size(self) -> int:
        return len(self._half)

    def solve(self, vectors: FloatArray) -> FloatArray:
        """V · vectors, each of whose quadratic forms has a relative error of √(2/M)."""
        scale = max(float(np.abs(vectors).max(initial=0.0)), 1e-300)  # single precision has a smallest number
        inner = self._half.T @ (vectors / scale).astype(self._half.dtype)
        result: FloatArray = scale * (self._half @ inner).astype(np.float64)
        return result

    def product(self, vectors: FloatArray) -> FloatArray:
        """P (J + Λ⁻¹)⁻¹ P · vectors: conjugate gradients, with P for a preconditioner."""
        columns = vectors if vectors.ndim == 2 else vectors[:, None]
        inner = conjugate_gradients(self._middle, self.bread.solve, self.bread.product(columns), _PRODUCT)
        out = self.bread.product(inner)
        return out if vectors.ndim == 2 else out[:, 0]

    def draws(self, noise: FloatArray) -> FloatArray:
        """Z ξ: as many of the normal numbers as Z has columns, and no more columns than parameters."""
        result: FloatArray = (self._half @ noise[: self._half.shape[1]].astype(self._half.dtype)).astype(np.float64)
        return result

    @cached_property
    def sd(self) -> FloatArray:
        result: FloatArray = np.sqrt(np.einsum("fm,fm->f", self._half, self._half, dtype=np.float64))
        return result

    @property
    def sd_error(self) -> float:
        return float(np.sqrt(0.5 / max(self._half.shape[1], 1)))

    @property
    def log_det(self) -> float:
        """NaN, not estimated: a pseudo-likelihood has no evidence that would ask for it."""
        return float("nan")

    @property
    def log_det_error(self) -> float:
        return float("inf")


def sketched_sandwich(
    phase: CompositePhase, prior: GaussianPrior, point: Point, bread: OverlappingBlocks, groups: int, seed: int = 0
) -> SketchedSandwich:
    """groups: M, at most the number of parameters."""
    theta, rng = point.answers[0].found, np.random.default_rng(seed)
    M = min(groups, prior.size)
    signs = rng.choice([-1.0, 1.0], size=len(phase.distinct)) * np.sqrt(phase.counts)
    mean = (prior.pull(point.parameters) - point.gradient) / max(phase.cases, 1.0)
    sums = np.bincount(np.arange(len(signs)) % M, signs, minlength=M)
    half, first = np.empty((prior.size, M), dtype=np.float32 if prior.size > M else np.float64), 0
    for columns in phase.grouped_scores(theta, signs, M):
        last = first + columns.shape[1]
        columns -= mean[:, None] * sums[first:last]
        columns += prior.rooted(rng.standard_normal(columns.shape)) / np.sqrt(M)
        half[:, first:last] = bread.solve(columns, _SKETCHED)
        first = last

    def middle(vectors: FloatArray) -> FloatArray:
        return phase.score_product(theta, mean, vectors) + prior.times(vectors)

    return SketchedSandwich(bread, half, middle)


class OverlappingBlocks:
    """P = Σ_i E_i G_i E_iᵀ + Λ⁻¹. sites: for each the parameters (L,) and G_i (L, L)."""

    def __init__(self, sites: Sequence[tuple[IntArray, FloatArray]], prior: GaussianPrior) -> None:
        self._sites, self._prior = sites, prior
        shared = np.zeros(prior.size)
        for local, _ in sites:
            shared[local] += 1.0
        self._alone = np.flatnonzero(shared == 0.0)  # in no conditional: the prior's own
        shared[self._alone] = 1.0
        self._kind = sites[0][1].dtype if sites else np.dtype(np.float64)
        self._share = (1.0 / shared).astype(self._kind)
        ridge = prior.diagonal / shared
        self._near = parallel.blas_map(lambda site: _inverse(site[1], ridge[site[0]]), sites)

    @property
    def size(self) -> int:
        return self._prior.size

    def product(self, vectors: FloatArray) -> FloatArray:
        columns = vectors if vectors.ndim == 2 else vectors[:, None]
        out: FloatArray = self._product(columns.astype(self._kind)).astype(np.float64)
        return out if vectors.ndim == 2 else out[:, 0]

    def _product(self, columns: Any) -> Any:
        out = self._prior.times(columns).astype(self._kind)
        for local, gram in self._sites:
            out[local] += gram @ columns[local]
        return out

    def _nearly(self, columns: Any) -> Any:
        out = np.zeros_like(columns)
        scaled = self._share[:, None] * columns
        for (local, _), inverse in zip(self._sites, self._near, strict=True):
            out[local] += inverse @ scaled[local]
        out *= self._share[:, None]
        out[self._alone] = columns[self._alone] / self._prior.diagonal[self._alone][:, None]
        return out

    def solve(self, vectors: FloatArray, residual: float | None = None) -> FloatArray:
        """residual: relative, at which conjugate gradients end."""
        columns = vectors if vectors.ndim == 2 else vectors[:, None]
        until = _SOLVED[self._kind.char] if residual is None else residual
        parts = [columns[:, k : k + _COLUMNS] for k in range(0, columns.shape[1], _COLUMNS)]
        found = parallel.blas_map(lambda part: self._gradients(part, until), parts)
        out = np.concatenate(found, axis=1) if found else np.empty(columns.shape)
        return out if vectors.ndim == 2 else out[:, 0]

    def _gradients(self, columns: FloatArray, until: float) -> FloatArray:
        found = conjugate_gradients(self._product, self._nearly, columns.astype(self._kind), until)
        return found.astype(np.float64)


def conjugate_gradients(
    product: Callable[[Any], Any], nearly: Callable[[Any], Any], columns: Any, until: float
) -> FloatArray:
    """All columns side by side, up to a relative residual. nearly: the preconditioner."""
    size = np.maximum(np.linalg.norm(columns, axis=0), 1e-30)
    left = columns / size
    out, near = np.zeros_like(left), nearly(left)
    way, slope = near.copy(), np.einsum("fc,fc->c", left, near)
    for _ in range(_STEPS):
        if np.linalg.norm(left, axis=0).max(initial=0.0) <= until:
            result: FloatArray = out * size
            return result
        moved = product(way)
        step = slope / np.maximum(np.einsum("fc,fc->c", way, moved), 1e-30)
        out += step * way
        left -= step * moved
        near = nearly(left)
        new = np.einsum("fc,fc->c", left, near)
        way *= new / np.maximum(slope, 1e-30)
        way += near
        slope = new
    raise IndefiniteCurvature(f"{Outcome.INDEFINITE.value} (conjugate gradients did not come to an end)")


def _inverse(gram: FloatArray, ridge: FloatArray) -> FloatArray:
    try:
        lower = linalg.cholesky(gram.astype(np.float64) + np.diag(ridge), lower=True)
    except linalg.LinAlgError:
        raise IndefiniteCurvature(Outcome.INDEFINITE.value) from None
    inverse, _ = linalg.lapack.dpotri(lower, lower=True)
    whole: FloatArray = (np.tril(inverse) + np.tril(inverse, -1).T).astype(gram.dtype)
    return whole
