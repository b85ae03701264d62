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

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from bayesfield import parallel
from bayesfield.graph.scored import ScoredPairs, scored_pairs
from bayesfield.graph.structure import distinct_rows
from bayesfield.learning.objective import GaussianPrior, Objective, Point
from bayesfield.learning.phases.blocks import block_arrays, grown_blocks
from bayesfield.learning.phases.conditionals import CompositePhase
from bayesfield.learning.phases.scored import ScoredPhase
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.types import FloatArray

if TYPE_CHECKING:
    from bayesfield.learning.phases.cases import Cases
_MADE = 5e10  # multiplications that J may take, beyond which it is made of sums of scores …
_LEAST, _GROUPS = 5, 16_384  # … so many for each parameter at least, and so many at most: widths to 0.6 %


def composite_objective(
    cases: Cases, prior: GaussianPrior, block: int = 1, blocks: Sequence[Iterable[int]] | None = None
) -> Objective:
    """The composite likelihood of complete cases. blocks: instead of growing them up to ``block`` joint states."""
    if blocks is not None:
        phase = _phase(cases, blocks, None)
    else:
        if block not in cases.composites:  # the plan and the fit ask for the same
            cases.composites[block] = _grown(cases, block)
        phase = cases.composites[block]
    return Objective(prior, (phase,), np.zeros(prior.size), 0.0, cases)


def _grown(cases: Cases, block: int) -> CompositePhase:
    field = cases.field
    blocks = field.graph.plan(("blocks", block), lambda g: grown_blocks(g, block))
    pairs = None
    if block == 1:
        pairs = field.graph.plan_with("scored pairs", field.design, lambda: scored_pairs(field.graph, field.design))
    return _phase(cases, blocks, pairs)


def _phase(cases: Cases, blocks: Sequence[Iterable[int]], pairs: ScoredPairs | None) -> CompositePhase:
    where, which = distinct_rows(cases.codes)
    counts = np.bincount(which, cases.weights, minlength=len(where)).astype(np.float64)
    distinct, arrays = np.ascontiguousarray(cases.codes[where]), block_arrays(cases.field, blocks)
    if pairs is not None:
        return ScoredPhase(cases.field, arrays, distinct, counts, pairs=pairs)
    return CompositePhase(cases.field, arrays, distinct, counts)


def sandwich(objective: Objective, point: Point, curvature: FloatArray | None = None) -> DensePrecision:
    """V⁻¹ = P (J + Λ⁻¹)⁻¹ P, at the optimum. curvature: P, where a search has it already."""
    P = objective.curvature(point) if curvature is None else curvature
    return godambe(objective.prior.plus(score_variance(objective, point)), P)


def godambe(middle: FloatArray, bread: FloatArray) -> DensePrecision:
    """V⁻¹ of V = A⁻¹ M A⁻ᵀ, bread A and middle M.

    With M = L Lᵀ and L⁻¹A = QR it is RᵀR: Cholesky's factor of V⁻¹ is Rᵀ, with no product that squares A.
    """
    inner = linalg.cholesky(middle, lower=True)
    half = linalg.solve_triangular(inner, bread, lower=True)
    upper = linalg.qr(half, mode="r", overwrite_a=False)[0] if len(half) else half
    lower = (upper * np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None]).T
    return DensePrecision(half.T @ half, np.ascontiguousarray(lower))


def score_groups(objective: Objective) -> int:
    """How many sums of scores J is made of: one for each distinct case, or fewer where these are too many for F²."""
    distinct = len(objective.free.distinct)
    affordable = _MADE / max(float(objective.size) ** 2, 1.0)
    return distinct if distinct <= affordable else int(min(distinct, max(affordable, _LEAST * objective.size), _GROUPS))


def score_variance(objective: Objective, point: Point) -> FloatArray:
    """J = Σ_n (s_n − s̄)(s_n − s̄)ᵀ; of very many cases by sums of their scores with random signs."""
    phase: CompositePhase = objective.free
    theta = point.answers[0].found
    mean = (objective.prior.pull(point.parameters) - point.gradient) / max(phase.cases, 1.0)
    groups = score_groups(objective)
    if groups < len(phase.distinct):
        return _by_groups(phase, theta, mean, groups)

    def part(span: tuple[int, int]) -> FloatArray:
        total = np.zeros((len(mean), len(mean)))
        for rows in phase.parts()[slice(*span)]:
            centred = (phase.scores(theta, rows) - mean) * np.sqrt(phase.counts[rows])[:, None]
            total += centred.T @ centred
        return total

    found = parallel.blas_map(part, parallel.shares(0, len(phase.parts()), least=4))
    result: FloatArray = np.sum(found, axis=0)
    return result


def _by_groups(phase: CompositePhase, theta: FloatArray, mean: FloatArray, groups: int) -> FloatArray:
    """E Σ_g S_g S_gᵀ = J for S_g = Σ_{n in g} ε_n (s_n − s̄): each entry to √(2/M) of its size."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=len(phase.distinct)) * np.sqrt(phase.counts)
    sums = np.bincount(np.arange(len(signs)) % groups, signs, minlength=groups)
    total, first = np.zeros((len(mean), len(mean))), 0
    for columns in phase.grouped_scores(theta, signs, groups):
        columns -= mean[:, None] * sums[first : first + columns.shape[1]]
        total += columns @ columns.T
        first += columns.shape[1]
    return total
