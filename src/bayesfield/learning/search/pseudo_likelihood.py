"""Composite likelihood as a learner, and its optimum as a start for others.

Widths are those of a matrix where that is affordable, else of sums of scores (learning.precision.sketched). Which, and
how many sums, follows from counts: cases, parameters, and the parameters of each block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bayesfield.learning.phases.composite import composite_objective, godambe, sandwich, score_groups
from bayesfield.learning.phases.conditionals import curvature_work
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.learning.precision.pair_blocks import pair_block_precision
from bayesfield.learning.precision.sketched import OverlappingBlocks, sketched_sandwich
from bayesfield.learning.search.completions import DRAWN, SUMMED, bread, score_middle, solve_with_holes
from bayesfield.learning.search.kept_newton import BLOCKS, DENSE, TIGHT, block_curvature, composite_map
from bayesfield.learning.search.learner import Learned, Learner, Request
from bayesfield.learning.search.optimum import Optimum
from bayesfield.response.base import require_dense
from bayesfield.types import FloatArray, InvalidInput, Options

if TYPE_CHECKING:
    from bayesfield.learning.objective import GaussianPrior, Objective
    from bayesfield.learning.phases.cases import Cases
    from bayesfield.learning.precision.base import Precision

_SUMS = 2e11  # operations that the solves of sums of scores may take, by which they are counted …
_SOLVES = 12  # … each being worth so many products with all blocks
_LEAST, _MOST = 512, 4096  # sums of scores: widths to 3.1 % and to 1.1 %; 2,083 for 200 binary items
_ROOT = 1e-8  # the same for the equation of cases with holes


@dataclass(frozen=True, repr=False)
class PseudoLikelihood(Options, Learner):
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

    name = "pseudo_likelihood"
    weighted = True
    own_precision = True
    takes_holes = True

    def minimised(self, objective: Objective) -> Objective:
        return composite_objective(objective.data.cases, objective.prior, self.block)

    def form_of(self, near: Objective, asked: str) -> str:
        if asked not in ("auto", "dense", "block", "matrix-free"):
            raise InvalidInput(
                f"a composite likelihood's own precision is dense, matrix-free or by blocks; for {asked!r} give a "
                "response"
            )
        if asked != "auto":
            return asked
        if not near.data.complete:
            return "dense"
        many = self.covariance == "sandwich" and near.size > DENSE and len(near.free.blocks_of.states) <= BLOCKS
        return "matrix-free" if many else "dense"

    def for_evidence(self) -> PseudoLikelihood:
        """A sandwich is no sum of the data's curvature and the prior's."""
        return replace(self, covariance="naive")

    def learn(self, objective: Objective, request: Request) -> Learned:
        """request.form: of the learner's own precision; "" where an engine gives one."""
        cases = objective.data.cases
        near = self.minimised(objective)
        start = objective.prior.location if request.start is None else request.start
        form = self.form_of(near, request.form) if request.form else ""
        if form == "dense":
            require_dense(
                len(start), "a composite likelihood's posterior", 'Take form="block", or response=bf.Bethe().'
            )
        if not cases.complete:
            return self._with_holes(objective, start, form, request)
        tight = TIGHT if len(start) <= DENSE else request.tolerance
        tolerance = min(request.tolerance, tight)
        optimum = composite_map(near, start, tolerance, request.max_iterations, request.progress)
        if not form:
            return Learned(optimum)
        return Learned(optimum, *self._precision(near, optimum, form, cases))

    def _with_holes(self, objective: Objective, start: FloatArray, form: str, request: Request) -> Learned:
        cases, prior = objective.data.cases, objective.prior
        if form not in ("", "dense"):
            raise InvalidInput(f'with holes a composite likelihood\'s precision is dense; got form="{form}"')
        tolerance, limit = min(request.tolerance, _ROOT), request.max_iterations
        known, optimum = solve_with_holes(cases, prior, self.block, start, tolerance, limit, request.progress)
        if not form:
            return Learned(optimum)
        point, shares = optimum.point, known.shares(optimum.parameters)
        matrix = bread(known, point, shares)
        remarks: tuple[str, ...] = ()
        if known.drawn.any():
            count = len(np.unique(known.owner[known.drawn]))
            remarks = (f"{DRAWN} draws stand for the holes of {count:,} cases with more than {SUMMED} joint states",)
        if self.covariance == "naive":
            return Learned(optimum, DensePrecision((matrix + matrix.T) / 2), remarks)
        if cases.weight <= prior.size:
            remarks += (_narrow(cases.weight, prior.size),)
        return Learned(optimum, godambe(prior.plus(score_middle(known, point, shares)), matrix), remarks)

    def _precision(
        self, near: Objective, optimum: Optimum, form: str, cases: Cases
    ) -> tuple[Precision, tuple[str, ...]]:
        if form == "block":
            remark = "by blocks, as if sites were independent experiments: no sandwich of blocks"
            return pair_block_precision(near, optimum.point), (remark,)
        if self.covariance == "naive":
            if form == "matrix-free":
                raise InvalidInput('covariance="naive" is dense or by blocks; take form="dense" or "block"')
            return DensePrecision(near.curvature(optimum.point)), ()
        remarks: tuple[str, ...] = ()
        if cases.weight <= near.size:
            remarks = (_narrow(cases.weight, near.size),)
        distinct, groups = len(near.free.distinct), score_groups(near)
        if form == "dense":
            kept = optimum.kept.matrix() if isinstance(optimum.kept, DensePrecision) else None
            precision: Precision = sandwich(near, optimum.point, kept)
        else:
            blocks = optimum.kept
            if not isinstance(blocks, OverlappingBlocks):
                blocks = OverlappingBlocks(block_curvature(near, optimum.point), near.prior)
            each = _SOLVES * curvature_work(near.free) / max(distinct, 1)
            groups = int(np.clip(_SUMS / max(each, 1.0), _LEAST, _MOST))
            precision = sketched_sandwich(near.free, near.prior, optimum.point, blocks, groups)
            groups = min(groups, near.size)
        if groups < distinct or form == "matrix-free":
            error = np.sqrt(0.5 / groups)
            remarks += (f"widths by {groups:,} sums of scores with random signs: to {error:.1%} each",)
        return precision, remarks


def _narrow(cases: float, size: int) -> str:
    return (
        f"widths are too narrow: {cases:.0f} cases do not tell how {size} scores vary together; "
        'covariance="naive" needs no more than the curvature'
    )


def pseudo_likelihood_map(
    cases: Cases, prior: GaussianPrior, tolerance: float = 1e-6, start: FloatArray | None = None
) -> FloatArray:
    """The pseudo-likelihood's optimum: cheap, consistent, and a good start for dense fields. tolerance: its distance at
    most, in posterior sd over all parameters. start: instead of the prior's location."""
    whole = cases if cases.complete else replace(cases, clamped=None)
    near = composite_objective(whole, prior)
    return np.asarray(composite_map(near, prior.location if start is None else start, tolerance).parameters)
