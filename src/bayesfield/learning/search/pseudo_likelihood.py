"""Composite likelihood as a learner, and its optimum as a start for others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bayesfield.learning.phases.composite import composite_objective, sandwich
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.learning.precision.pair_blocks import pair_block_precision
from bayesfield.learning.search.learner import Learned, Learner, Request
from bayesfield.learning.search.minimise import lbfgs, newton
from bayesfield.learning.search.optimum import QUIET, Optimum, Progress
from bayesfield.response.base import require_dense
from bayesfield.types import FloatArray, InvalidInput, Options

if TYPE_CHECKING:
    from bayesfield.learning.objective import GaussianPrior, Objective
    from bayesfield.learning.phases.cases import Cases
    from bayesfield.learning.precision.base import Precision

NEWTON = 4000  # parameters up to which steps are Newton's, with a dense curvature
TIGHT = 1e-9  # posterior standard deviations: Newton's steps are quadratic, so this is one step more than 1e-5


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

    def minimised(self, objective: Objective) -> Objective:
        return composite_objective(objective.data.cases, objective.prior, self.block)

    def for_evidence(self) -> PseudoLikelihood:
        """A sandwich is no sum of the data's curvature and the prior's."""
        return replace(self, covariance="naive")

    def learn(self, objective: Objective, request: Request) -> Learned:
        """request.form: "dense" or "block" for the learner's own precision; "" where an engine gives one."""
        cases = objective.data.cases
        near = self.minimised(objective)
        start = objective.prior.location if request.start is None else request.start
        if request.form not in ("", "auto", "dense", "block"):
            raise InvalidInput(
                f"a composite likelihood's own precision is dense or by blocks; for {request.form!r} give a response"
            )
        if request.form in ("auto", "dense"):
            require_dense(
                len(start), "a composite likelihood's posterior", 'Take form="block", or response=bf.Bethe().'
            )
        tight = TIGHT if len(start) <= NEWTON else request.tolerance
        tolerance = min(request.tolerance, tight)
        optimum = composite_map(near, start, tolerance, request.max_iterations, request.progress)
        if not request.form:
            return Learned(optimum)
        return Learned(optimum, *self._precision(near, optimum, request.form, cases))

    def _precision(
        self, near: Objective, optimum: Optimum, form: str, cases: Cases
    ) -> tuple[Precision, tuple[str, ...]]:
        if form == "block":
            remark = "by blocks, as if sites were independent experiments: no sandwich of blocks"
            return pair_block_precision(near, optimum.point), (remark,)
        if self.covariance == "naive":
            return DensePrecision(near.curvature(optimum.point)), ()
        remarks: tuple[str, ...] = ()
        if cases.weight <= near.size:
            remarks = (
                f"widths are too narrow: {cases.weight:.0f} cases do not tell how {near.size} scores vary together; "
                'covariance="naive" needs no more than the curvature',
            )
        return sandwich(near, optimum.point), remarks


def composite_map(
    objective: Objective,
    start: FloatArray,
    tolerance: float = TIGHT,
    max_iterations: int = 200,
    progress: Progress = QUIET,
) -> Optimum:
    """λ that maximises composite likelihood times prior: Newton, or L-BFGS for very many parameters."""
    if len(start) <= NEWTON:
        return newton(objective, start, tolerance, max_iterations, progress)
    return lbfgs(objective, start, tolerance, 10 * max_iterations, progress)


def pseudo_likelihood_map(cases: Cases, prior: GaussianPrior) -> FloatArray:
    """The pseudo-likelihood's optimum: cheap, consistent, and a good start for dense fields."""
    whole = cases if cases.complete else replace(cases, clamped=None)
    near = composite_objective(whole, prior)
    return np.asarray(composite_map(near, prior.location, 1e-6).parameters)
