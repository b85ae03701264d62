"""What a search for the parameters ends with, where it starts, and the precision at its end."""

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from bayesfield.correction.second_order import CorrectionRecord
from bayesfield.learning.objective import FieldObjective, Objective
from bayesfield.learning.precision.forms import DensePrecision, Precision
from bayesfield.learning.search.minimise import Optimum
from bayesfield.learning.search.modes import Starts
from bayesfield.learning.search.moment_matching import pseudo_moments
from bayesfield.model.prior import Normal, Parametrised, Prior
from bayesfield.posterior.posterior import FitRecord, reason_for_refusal
from bayesfield.types import FitWarning, FloatArray, IndefiniteCurvature, InvalidInput, Status


@dataclass(frozen=True, eq=False)
class Found:
    """An optimum with the precision there.

    curved: the objective with the engine that gave it. learner: what found the parameters, where no engine did; it also
    gave the precision where ``own``. starts: how the search went where it began at several points.
    """

    objective: FieldObjective
    curved: FieldObjective
    optimum: Optimum
    precision: Precision
    inference: Status
    method: str
    learner: str = ""
    own: bool = False
    starts: Starts | None = None

    @property
    def engine_name(self) -> str:
        return self.learner or repr(self.objective.engine)

    @property
    def response_name(self) -> str:
        return self.learner if self.own else repr(self.curved.engine)

    @property
    def good(self) -> bool:
        return self.optimum.status.converged and self.inference.converged


class Ended(Protocol):
    """An optimum with the precision there, as far as its record needs it."""

    @property
    def objective(self) -> Objective: ...
    @property
    def optimum(self) -> Optimum: ...
    @property
    def precision(self) -> Precision: ...
    @property
    def inference(self) -> Status: ...


class Corrected(NamedTuple):
    """What a correction left."""

    mean: FloatArray
    precision: Precision
    record: CorrectionRecord
    skewness: FloatArray | None


def fit_record(
    found: Ended, corrected: Corrected, names: tuple[str, str, str], n_cases: int, seconds: float
) -> FitRecord:
    """How a posterior was found. names: of the engine, of what gave the curvature, of the method."""
    gradient, skewness = found.optimum.point.gradient, corrected.skewness
    leaning = float(np.abs(skewness).max(initial=0.0)) if skewness is not None else 0.0
    return FitRecord(
        engine=names[0],
        response=names[1],
        method=names[2],
        form=corrected.precision.form,
        status=found.optimum.status,
        inference=found.inference,
        iterations=found.optimum.iterations,
        gradient_norm=float(np.linalg.norm(gradient)),
        distance=float(np.sqrt(max(float(gradient @ found.precision.solve(gradient)), 0.0))),
        log_likelihood=found.objective.log_likelihood(found.optimum.point),
        n_cases=n_cases,
        correction=replace(corrected.record, skewness=leaning),
        seconds=seconds,
    )


def resolved(prior: Prior, objective: Objective) -> Prior:
    """The prior with the variances that the data chose."""
    if objective.tails is not None or objective.precision.ndim == 2:
        return prior
    return Normal(variance=1.0 / objective.precision, mean=objective.location)


def warn_of(record: FitRecord, depth: int = 3) -> None:
    """A fit that did not end well looks like any other, so it says so aloud. depth: of the user's call."""
    learned = record.prior is None or record.prior.settled
    if not record.status.converged or not record.inference.converged or not learned:
        warnings.warn(f"this posterior is not to be trusted. {record}", FitWarning, stacklevel=depth)


def starting_point(objective: FieldObjective, field: Parametrised, start: Any) -> FloatArray:
    """The user's, or the better of pseudo-moment matching and the prior mean."""
    given = checked_start(field, start)
    if given is not None:
        return given
    if not objective.weight:
        return objective.location
    candidates = [pseudo_moments(objective), objective.location]
    values = [objective.at(c).value for c in candidates]
    return candidates[int(np.argmin(values))]


def checked_start(field: Parametrised, start: Any) -> FloatArray | None:
    if start is None:
        return None
    given = np.array(start, dtype=np.float64)
    if given.shape != (field.n_parameters,) or not np.isfinite(given).all():
        raise InvalidInput(f"start needs {field.n_parameters} finite numbers; got shape {given.shape}")
    return given


def precision_at(
    objective: FieldObjective, curved: FieldObjective, optimum: Optimum, field: Parametrised
) -> tuple[Precision, Status]:
    """P at the optimum by the responding engine, and the status of its inference there."""
    point = optimum.point if curved is objective else curved.at(optimum.parameters)
    try:
        if curved.form != "dense":
            return curved.posterior_precision(point), point.marginals.status
        matrix = curved.curvature(point)
    except IndefiniteCurvature as error:
        raise _refusal(field, None, str(error), optimum.status, point.marginals.status) from None
    return dense_precision(matrix, field, optimum.status, point.marginals.status), point.marginals.status


def dense_precision(matrix: FloatArray, field: Parametrised, ended: Status, inference: Status) -> Precision:
    """P, or the refusal that names the parameters along which it is not positive."""
    try:
        return DensePrecision(matrix)
    except IndefiniteCurvature as error:
        raise _refusal(field, matrix, str(error), ended, inference) from None


def _refusal(
    field: Parametrised, matrix: FloatArray | None, reason: str, ended: Status, inference: Status
) -> IndefiniteCurvature:
    return IndefiniteCurvature(
        f"no posterior: {reason_for_refusal(field, matrix, reason)}. The optimisation ended as: {ended}. The engine's "
        f"inference: {inference}"
    )
