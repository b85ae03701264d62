"""What a search for the parameters ends with, where it starts, and the precision at its end."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesfield.learning import FieldObjective, Optimum, pseudo_moments
from bayesfield.learning.precision import DensePrecision, Precision
from bayesfield.model import RandomField
from bayesfield.posterior.laplace import reason_for_refusal
from bayesfield.types import FloatArray, IndefiniteCurvature, InvalidInput, Status


@dataclass(frozen=True, eq=False)
class Found:
    """An optimum with the precision there.

    curved: the objective with the engine that gave it. learner: what found the parameters, where no engine did; it also
    gave the precision where ``own``.
    """

    objective: FieldObjective
    curved: FieldObjective
    optimum: Optimum
    precision: Precision
    inference: Status
    method: str
    learner: str = ""
    own: bool = False

    @property
    def engine_name(self) -> str:
        return self.learner or repr(self.objective.engine)

    @property
    def response_name(self) -> str:
        return self.learner if self.own else repr(self.curved.engine)

    @property
    def good(self) -> bool:
        return self.optimum.status.converged and self.inference.converged


def starting_point(objective: FieldObjective, field: RandomField, start: Any) -> FloatArray:
    """The user's, or the better of pseudo-moment matching and the prior mean."""
    given = checked_start(field, start)
    if given is not None:
        return given
    if not objective.weight:
        return objective.location
    candidates = [pseudo_moments(objective), objective.location]
    values = [objective.at(c).value for c in candidates]
    return candidates[int(np.argmin(values))]


def checked_start(field: RandomField, start: Any) -> FloatArray | None:
    if start is None:
        return None
    given = np.array(start, dtype=np.float64)
    if given.shape != (field.n_parameters,) or not np.isfinite(given).all():
        raise InvalidInput(f"start needs {field.n_parameters} finite numbers; got shape {given.shape}")
    return given


def precision_at(
    objective: FieldObjective, curved: FieldObjective, optimum: Optimum, field: RandomField
) -> tuple[Precision, Status]:
    """P at the optimum by the responding engine, and the status of its inference there."""
    point = optimum.point if curved is objective else curved.at(optimum.parameters)
    matrix = None
    try:
        if curved.form != "dense":
            return curved.posterior_precision(point), point.marginals.status
        matrix = curved.curvature(point)
        return DensePrecision(matrix), point.marginals.status
    except IndefiniteCurvature as error:
        raise IndefiniteCurvature(
            f"no posterior: {reason_for_refusal(field, matrix, str(error))}. The optimisation ended as: "
            f"{optimum.status}. The engine's inference: {point.marginals.status}"
        ) from None
