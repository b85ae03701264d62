"""A mode with the precision there: what the search hands on, and the refusal where there is no posterior."""

from dataclasses import dataclass

from bayesfield.learning.objective import Objective
from bayesfield.learning.precision.at import precision_at
from bayesfield.learning.precision.base import Precision
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.learning.search.optimum import Optimum
from bayesfield.model.prior import Parametrised
from bayesfield.posterior.posterior import reason_for_refusal
from bayesfield.types import FloatArray, IndefiniteCurvature, Status


@dataclass(frozen=True, eq=False)
class Found:
    """An optimum with the precision there.

    curvature_objective: the objective whose engine gave the precision. inference: how that engine's inference ended.
    method: what found the parameters. learner: how it is written, where that is no engine; ``own``: whether the
    precision is the learner's, too.
    """

    objective: Objective
    curvature_objective: Objective
    optimum: Optimum
    precision: Precision
    inference: Status
    method: str
    learner: str = ""
    own: bool = False

    @property
    def engine_name(self) -> str:
        return self.learner or repr(self.objective.free.engine)

    @property
    def response_name(self) -> str:
        return self.learner if self.own else repr(self.curvature_objective.free.engine)

    @property
    def good(self) -> bool:
        return self.optimum.status.converged and self.inference.converged


def with_precision(
    model: Parametrised,
    objective: Objective,
    curvature_objective: Objective,
    optimum: Optimum,
    form: str,
    method: str,
    learner: str = "",
) -> Found:
    """P at the optimum; where it is not positive definite, an error that names the parameters."""
    same = curvature_objective is objective
    point = optimum.point if same and optimum.point.answers else curvature_objective.at(optimum.parameters)
    try:
        if form == "dense":
            matrix = curvature_objective.curvature(point)
            precision: Precision = dense_precision(model, matrix, optimum.status, point.status)
        else:
            precision = precision_at(curvature_objective, point, form)
    except IndefiniteCurvature as error:
        if str(error).startswith("no posterior"):
            raise
        raise _refusal(model, None, str(error), optimum.status, point.status) from None
    return Found(objective, curvature_objective, optimum, precision, point.status, method, learner)


def dense_precision(model: Parametrised, matrix: FloatArray, ended: Status, inference: Status) -> Precision:
    """P, or the refusal that names the parameters along which it is not positive."""
    try:
        return DensePrecision(matrix)
    except IndefiniteCurvature as error:
        raise _refusal(model, matrix, str(error), ended, inference) from None


def _refusal(
    model: Parametrised, matrix: FloatArray | None, reason: str, ended: Status, inference: Status
) -> IndefiniteCurvature:
    return IndefiniteCurvature(
        f"no posterior: {reason_for_refusal(model, matrix, reason)}. The optimisation ended as: {ended}. The engine's "
        f"inference: {inference}"
    )
