"""Composite likelihood: Π_n Π_B p(x_B | rest) over blocks of variables. Single sites are the pseudo-likelihood.

L(λ) = −Σ_n Σ_B log p(x_B | rest, λ) + ½ (λ − μ)ᵀ Λ⁻¹ (λ − μ)
∇L   = −Σ_n s_n + Λ⁻¹ (λ − μ),  s_n = Σ_B (f(x_n) − E[f | rest of B]) the score of case n
∇²L  = H + Λ⁻¹ = P,             H = Σ_n Σ_B Cov(f | rest of B)

No engine is needed: every conditional is a small table (Besag 1975, Lindsay 1988). L is convex and its optimum is
consistent. A block that covers the whole field makes L the exact one. As a phase: one small graph for each block and
case; what the data take is counted in its own value.

**Widths.** P⁻¹ would be the covariance if the blocks were independent experiments. They are not, and on a strongly
coupled field P⁻¹ is too narrow. To first order the estimate moves with the data as λ̂ ≈ λ* + P⁻¹ Σ_n s_n(λ*), so its
variance over data sets is P⁻¹ J P⁻¹ with J = Var(Σ_n s_n) (Godambe 1960), estimated by Σ_n (s_n − s̄)(s_n − s̄)ᵀ at the
optimum. The prior counts as one more, independent, score Λ⁻¹(μ − λ) with variance Λ⁻¹, so that in all

    V = P⁻¹ (J + Λ⁻¹) P⁻¹.

V = P⁻¹ where J = H (blocks as independent as they seem; the true likelihood), and V = Λ with no data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg

from bayesfield import parallel
from bayesfield.inference.contract import Engine, Price, Traits
from bayesfield.kernels.likelihood import composite as kernel
from bayesfield.learning.objective import GaussianPrior, Objective, Point
from bayesfield.learning.phases.base import Answer, Phase
from bayesfield.learning.phases.blocks import block_arrays, grown_blocks
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.response.base import Response, require_dense
from bayesfield.types import FloatArray, IntArray, Outcome, Status

if TYPE_CHECKING:
    from bayesfield.graph.compiled import CompiledField
    from bayesfield.learning.phases.cases import Cases

_CASES = 512  # that one thread takes at a time
_KEPT = 1e8  # entries of blocks' curvatures that are kept between products
_CONDITIONALS = Status(Outcome.EXACT, detail="of every block given the rest")


@dataclass(frozen=True, eq=False)
class CompositePhase(Phase):
    """−Σ_n Σ_B log p(x_B | rest). distinct: the cases, (M, n); counts: how often each occurs, (M,)."""

    field: CompiledField
    blocks_of: kernel.Blocks
    distinct: IntArray
    counts: FloatArray
    weight: float = 1.0

    @property
    def cases(self) -> float:
        return float(self.counts.sum())

    @property
    def traits(self) -> Traits:
        return Traits()

    def choose(self, engine: Any) -> tuple[Engine, str]:
        raise TypeError("conditionals are small tables: there is no engine to choose")

    def price(self, size: int) -> Price:
        M, own = float(len(self.distinct)), np.diff(self.blocks_of.local_ptr).astype(np.float64)
        return Price(1e-4 + 1e-8 * M * own.sum(), 1e-3 + 1e-9 * M * (own * own).sum())

    def bytes(self) -> float:
        return float(self.distinct.nbytes + 16 * self.field.graph.n_entries)

    def at(self, parameters: FloatArray, start: Any = None) -> Answer:
        theta = self.field.design.potentials(parameters)
        g = self.field.graph.arrays

        def part(rows: slice) -> tuple[float, FloatArray]:
            slope = np.zeros(len(theta))
            value = kernel.value_and_slope(g, self.blocks_of, theta, self.distinct[rows], self.counts[rows], slope)
            return value, slope

        parts = parallel.thread_map(part, self.parts()) or [(0.0, np.zeros(len(theta)))]
        mean = self.field.design.expectations(np.sum([s for _, s in parts], axis=0))
        return Answer(float(sum(v for v, _ in parts)), mean, _CONDITIONALS, None, theta)

    def response(self, answer: Answer) -> Response:
        return CompositeResponse(self, answer.found)

    def variances(self, answer: Answer) -> FloatArray:
        total = np.zeros(self.field.design.matrix.shape[1])
        for local, gram in CompositeResponse(self, answer.found).grams():
            np.add.at(total, local, np.diag(gram))
        return total

    def scores(self, theta: FloatArray, rows: slice = slice(None)) -> FloatArray:
        """s_n of the distinct cases, (M, F)."""
        out = np.zeros((len(self.distinct[rows]), self.field.design.matrix.shape[1]))
        kernel.scores(self.field.graph.arrays, self.blocks_of, self.design_rows(), theta, self.distinct[rows], out)
        return out

    def gram(self, theta: FloatArray, b: int) -> FloatArray:
        """Σ_n Cov(f | rest) of one block, over its own parameters."""
        size = int(self.blocks_of.local_ptr[b + 1] - self.blocks_of.local_ptr[b])
        gram, where = np.zeros((size, size)), np.zeros(self.field.design.matrix.shape[1], dtype=np.int64)
        g = self.field.graph.arrays
        rows = self.design_rows()
        kernel.curvature(g, self.blocks_of, rows, theta, self.distinct, self.counts, b, where, gram)
        return gram

    def design_rows(self) -> kernel.Rows:
        A = self.field.design.matrix
        return kernel.Rows(A.indptr.astype(np.int64), A.indices.astype(np.int64), A.data)

    def parts(self) -> list[slice]:
        """The cases in shares that threads take."""
        return [slice(k, k + _CASES) for k in range(0, len(self.distinct), _CASES)]


class CompositeResponse(Response):
    """H at one θ."""

    def __init__(self, phase: CompositePhase, theta: FloatArray) -> None:
        super().__init__(phase.field.design)
        self._phase, self._theta = phase, theta
        self._kept: dict[int, list[FloatArray]] = {}

    def product(self, vectors: FloatArray) -> FloatArray:
        out = np.zeros(vectors.shape)
        for local, gram in self.grams():
            out[local] += gram @ vectors[local]
        return out

    def covariance(self) -> FloatArray:
        """H, (F, F)."""
        require_dense(self.size, "a composite likelihood's curvature", "Give an engine for it: response=bf.Bethe().")
        total = np.zeros((self.size, self.size))
        for local, gram in self.grams():
            kernel.scatter(gram, local, total)
        return total

    def grams(self) -> Iterator[tuple[IntArray, FloatArray]]:
        """The parameters of each block and H over them; kept for the next product where there is room."""
        b, step = self._phase.blocks_of, 4 * parallel.cores()
        room = (np.diff(b.local_ptr).astype(np.float64) ** 2).sum() <= _KEPT
        for first in range(0, len(b.states), step):
            some = range(first, min(first + step, len(b.states)))
            grams = self._kept.get(first) or parallel.thread_map(lambda k: self._phase.gram(self._theta, k), some)
            if room:
                self._kept[first] = grams
            for k, gram in zip(some, grams, strict=True):
                yield b.local[b.local_ptr[k] : b.local_ptr[k + 1]], gram


def composite_objective(
    cases: Cases, prior: GaussianPrior, block: int = 1, blocks: Sequence[Iterable[int]] | None = None
) -> Objective:
    """The composite likelihood of complete cases. blocks: instead of growing them up to ``block`` joint states."""
    field = cases.field
    if blocks is None:
        blocks = field.graph.plan(("blocks", block), lambda g: grown_blocks(g, block))
    distinct, which = np.unique(cases.codes, axis=0, return_inverse=True)
    counts = np.bincount(which.reshape(-1), cases.weights, minlength=len(distinct)).astype(np.float64)
    phase = CompositePhase(field, block_arrays(field, blocks), np.ascontiguousarray(distinct), counts)
    return Objective(prior, (phase,), np.zeros(prior.size), 0.0, cases)


def sandwich(objective: Objective, point: Point) -> DensePrecision:
    """V⁻¹ = P (J + Λ⁻¹)⁻¹ P, at the optimum.

    With J + Λ⁻¹ = L Lᵀ and L⁻¹P = QR it is RᵀR: Cholesky's factor of V⁻¹ is Rᵀ, with no product that squares P.
    """
    inner = linalg.cholesky(objective.prior.plus(score_variance(objective, point)), lower=True)
    half = linalg.solve_triangular(inner, objective.curvature(point), lower=True)
    upper = linalg.qr(half, mode="r", overwrite_a=False)[0] if len(half) else half
    lower = (upper * np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None]).T
    return DensePrecision(half.T @ half, np.ascontiguousarray(lower))


def score_variance(objective: Objective, point: Point) -> FloatArray:
    """J = Σ_n (s_n − s̄)(s_n − s̄)ᵀ."""
    phase: CompositePhase = objective.free
    theta = point.answers[0].found
    mean = (objective.prior.pull(point.parameters) - point.gradient) / max(phase.cases, 1.0)
    total = np.zeros((len(mean), len(mean)))
    for rows in phase.parts():
        centred = (phase.scores(theta, rows) - mean) * np.sqrt(phase.counts[rows])[:, None]
        total += centred.T @ centred
    return total
