"""Composite likelihood: Π_n Π_B p(x_B | rest) over blocks of variables. Single sites are the pseudo-likelihood.

L(λ) = −Σ_n Σ_B log p(x_B | rest, λ) + ½ (λ − μ)ᵀ Λ⁻¹ (λ − μ)
∇L   = −Σ_n s_n + Λ⁻¹ (λ − μ),  s_n = Σ_B (f(x_n) − E[f | rest of B]) the score of case n
∇²L  = H + Λ⁻¹ = P,             H = Σ_n Σ_B Cov(f | rest of B)

No engine is needed: every conditional is a small table (Besag 1975, Lindsay 1988). L is convex and its optimum is
consistent. A block that covers the whole field makes L the exact one.

**Widths.** P⁻¹ would be the covariance if the blocks were independent experiments. They are not, and on a strongly
coupled field P⁻¹ is too narrow. To first order the estimate moves with the data as λ̂ ≈ λ* + P⁻¹ Σ_n s_n(λ*), so its
variance over data sets is P⁻¹ J P⁻¹ with J = Var(Σ_n s_n) (Godambe 1960), estimated by Σ_n (s_n − s̄)(s_n − s̄)ᵀ at the
optimum. The prior counts as one more, independent, score Λ⁻¹(μ − λ) with variance Λ⁻¹, so that in all

    V = P⁻¹ (J + Λ⁻¹) P⁻¹.

V = P⁻¹ where J = H (blocks as independent as they seem; the true likelihood), and V = Λ with no data.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from bayesfield import parallel
from bayesfield.graph.compiled import CompiledField
from bayesfield.kernels.likelihood import composite as kernel
from bayesfield.learning.objective import Point
from bayesfield.learning.phases.blocks import block_arrays, grown_blocks
from bayesfield.learning.precision.forms import DensePrecision
from bayesfield.learning.search.minimise import Optimum, Watch, lbfgs, newton
from bayesfield.response.base import require_dense
from bayesfield.types import FloatArray, IntArray, InvalidInput, Marginals, Options, Outcome, Status

_CASES = 512  # that one thread takes at a time
NEWTON = 4000  # parameters up to which steps are Newton's, with a dense curvature
TIGHT = 1e-9  # posterior standard deviations: Newton's steps are quadratic, so this is one step more than 1e-5


@dataclass(frozen=True, repr=False)
class PseudoLikelihood(Options):
    """Fit by composite likelihood: ``bf.fit(..., method=bf.PseudoLikelihood(block=16))``.

    block: most joint states of a block of neighbouring variables; 1 stands for single sites, the pseudo-likelihood.
    covariance: "sandwich", the spread that the estimate has over data sets, or "naive", as if blocks were independent.
    """

    block: int = 1
    covariance: str = "sandwich"

    def __post_init__(self) -> None:
        if self.block < 1:
            raise InvalidInput(f"block, the most joint states of a block, is at least 1; got {self.block}")
        if self.covariance not in ("sandwich", "naive"):
            raise InvalidInput(f'covariance is "sandwich" or "naive"; got {self.covariance!r}')


@dataclass(frozen=True, eq=False)
class Composite:
    """The negative log composite posterior. cases: distinct, (M, n); counts: how often each occurs, (M,)."""

    field: CompiledField
    blocks: kernel.Blocks
    cases: IntArray
    counts: FloatArray
    precision: FloatArray
    location: FloatArray

    @property
    def weight(self) -> float:
        return float(self.counts.sum())

    def at(self, parameters: FloatArray) -> Point:
        theta = self.field.design.potentials(parameters)
        g = self.field.graph.arrays

        def part(rows: slice) -> tuple[float, FloatArray]:
            slope = np.zeros(len(theta))
            return kernel.value_and_slope(g, self.blocks, theta, self.cases[rows], self.counts[rows], slope), slope

        parts = parallel.thread_map(part, self.parts()) or [(0.0, np.zeros(len(theta)))]
        away = parameters - self.location
        pull: FloatArray = self.precision @ away if self.precision.ndim == 2 else self.precision * away
        value = sum(v for v, _ in parts) + 0.5 * float(away @ pull)
        gradient = self.field.design.expectations(np.sum([s for _, s in parts], axis=0)) + pull
        return Point(parameters, theta, value, gradient, _CONDITIONALS)

    def curvature(self, point: Point) -> FloatArray:
        """H, (F, F)."""
        size, b = len(self.location), self.blocks
        require_dense(size, "a composite likelihood's curvature", "Give an engine for it: response=bf.Bethe().")
        total = np.zeros((size, size))
        step = 4 * parallel.cores()
        for first in range(0, len(b.states), step):
            some = range(first, min(first + step, len(b.states)))
            for k, gram in zip(some, parallel.thread_map(lambda k: self._gram(point, k), some), strict=True):
                kernel.scatter(gram, b.local[b.local_ptr[k] : b.local_ptr[k + 1]], total)
        return total

    def posterior_precision(self, point: Point) -> DensePrecision:
        """P = H + Λ⁻¹."""
        return DensePrecision(self._with_prior(self.curvature(point)))

    def scores(self, point: Point, rows: slice = slice(None)) -> FloatArray:
        """s_n of the distinct cases, (M, F)."""
        out = np.zeros((len(self.cases[rows]), len(self.location)))
        kernel.scores(self.field.graph.arrays, self.blocks, self._rows(), point.theta, self.cases[rows], out)
        return out

    def sandwich(self, point: Point) -> DensePrecision:
        """V⁻¹ = P (J + Λ⁻¹)⁻¹ P, at the optimum.

        With J + Λ⁻¹ = L Lᵀ and L⁻¹P = QR it is RᵀR: Cholesky's factor of V⁻¹ is Rᵀ, with no product that squares P.
        """
        inner = linalg.cholesky(self._with_prior(self.score_variance(point)), lower=True)
        half = linalg.solve_triangular(inner, self._with_prior(self.curvature(point)), lower=True)
        upper = linalg.qr(half, mode="r", overwrite_a=False)[0] if len(half) else half
        lower = (upper * np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None]).T
        return DensePrecision(half.T @ half, np.ascontiguousarray(lower))

    def score_variance(self, point: Point) -> FloatArray:
        """J = Σ_n (s_n − s̄)(s_n − s̄)ᵀ."""
        away = point.parameters - self.location
        pull: FloatArray = self.precision @ away if self.precision.ndim == 2 else self.precision * away
        mean = (pull - point.gradient) / max(self.weight, 1.0)
        total = np.zeros((len(mean), len(mean)))
        for rows in self.parts():
            centred = (self.scores(point, rows) - mean) * np.sqrt(self.counts[rows])[:, None]
            total += centred.T @ centred
        return total

    def _gram(self, point: Point, b: int) -> FloatArray:
        size = int(self.blocks.local_ptr[b + 1] - self.blocks.local_ptr[b])
        gram, where = np.zeros((size, size)), np.zeros(len(self.location), dtype=np.int64)
        g = self.field.graph.arrays
        kernel.curvature(g, self.blocks, self._rows(), point.theta, self.cases, self.counts, b, where, gram)
        return gram

    def _with_prior(self, matrix: FloatArray) -> FloatArray:
        return matrix + (self.precision if self.precision.ndim == 2 else np.diag(self.precision))

    def _rows(self) -> kernel.Rows:
        A = self.field.design.matrix
        return kernel.Rows(A.indptr.astype(np.int64), A.indices.astype(np.int64), A.data)

    def parts(self) -> list[slice]:
        """The cases in shares that threads take."""
        return [slice(k, k + _CASES) for k in range(0, len(self.cases), _CASES)]


_CONDITIONALS = Marginals(float("nan"), np.empty(0), Status(Outcome.EXACT, detail="of every block given the rest"))


def composite(
    field: CompiledField,
    codes: IntArray,
    precision: FloatArray,
    location: FloatArray,
    block: int = 1,
    blocks: Sequence[Iterable[int]] | None = None,
    weights: FloatArray | None = None,
) -> Composite:
    """The objective of cases (N, n), that count for their weights (N,), or once each.

    blocks: instead of growing them up to ``block`` joint states.
    """
    if blocks is None:
        blocks = field.graph.plan(("blocks", block), lambda g: grown_blocks(g, block))
    cases, which = np.unique(codes, axis=0, return_inverse=True)
    counts = np.bincount(which.reshape(-1), weights, minlength=len(cases)).astype(np.float64)
    arrays = block_arrays(field, blocks)
    return Composite(field, arrays, np.ascontiguousarray(cases), counts, precision, location)


def composite_map(
    objective: Composite,
    start: FloatArray,
    tolerance: float = TIGHT,
    max_iterations: int = 200,
    watch: Watch | None = None,
) -> Optimum:
    """λ that maximises composite likelihood times prior: Newton, or L-BFGS for very many parameters."""
    if len(start) <= NEWTON:
        return newton(objective, start, tolerance, max_iterations, watch)
    return lbfgs(objective, start, tolerance, 10 * max_iterations, watch)


def pseudo_likelihood_map(
    field: CompiledField,
    codes: IntArray,
    precision: FloatArray,
    location: FloatArray,
    weights: FloatArray | None = None,
) -> FloatArray:
    """The pseudo-likelihood's optimum: cheap, consistent, and a good start for dense fields."""
    return composite_map(composite(field, codes, precision, location, weights=weights), location, 1e-6).parameters
