"""The correction of a Laplace posterior, and what is taken in its place where it does not converge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesfield.correction.cumulants import (
    FAR,
    TIME_UP,
    Corrected,
    CorrectionRecord,
    SkewedMarginals,
    corrected,
    marginal_skewness,
    mean_shift,
    observed_slopes,
    sampled_features,
    sampled_shift,
    second_differences,
)
from bayesfield.correction.draws import drawn
from bayesfield.correction.importance import compare
from bayesfield.correction.mean_field import mean_field
from bayesfield.correction.profile import leaning, profiled
from bayesfield.correction.sampled import sampled_variational
from bayesfield.correction.variational import variational
from bayesfield.learning.baselines.expectation_propagation import expectation_propagation
from bayesfield.learning.search.optimum import QUIET, Optimum, Progress
from bayesfield.types import FloatArray

if TYPE_CHECKING:
    from bayesfield.learning.objective import Objective
    from bayesfield.learning.precision.base import Precision

_SKEWED = 3.0  # skewness of a marginal beyond which modes of hidden variables are taken to overlap
_FAR = 1.0  # posterior sd: largest shift of a mean that is believed to second order
_FAR_IN_ALL = 0.5  # posterior sd: shift of all means (rms) beyond which no Gaussian fits well, wherever it stands


class Allowed(NamedTuple):
    """What a correction may take beyond the Gaussian. weighed: draws with which it is compared. evaluations: for a
    posterior made of draws, where that comparison is not good, or where there is none. profiles: how many parameters
    may then be profiled, where there are no such draws; names: of all parameters. 0 for none."""

    weighed: int = 0
    evaluations: int = 0
    profiles: int = 0
    names: Sequence[str] = ()


def correct(
    objective: Objective,
    curvature_objective: Objective,
    optimum: Optimum,
    laplace: Precision,
    kinds: Sequence[str],
    reason: str,
    rng: np.random.Generator,
    progress: Progress = QUIET,
) -> Corrected:
    """The first of these kinds that converges and can be believed; the last as it is. reason: why the first."""
    first, *others = kinds
    found = _one(objective, curvature_objective, optimum, laplace, first, reason, rng, progress)
    if not found.record.settled and progress.expired:
        found = found._replace(record=replace(found.record, reason=TIME_UP))
    if found.record.settled or not others or progress.expired:
        return _with_skewness(objective, _told(found))
    for kind in others:
        why = f"the {found.record.kind} one did not converge"
        if kind == "none":
            return _none(optimum, laplace, f"{FAR}: no correction converged; bf.sample_posterior is right here")
        other = _one(objective, curvature_objective, optimum, laplace, kind, why, rng, progress)
        found = _with_skewness(objective, other)
        if _believed(objective, found):
            return found
    return found


def judged(
    objective: Objective,
    optimum: Optimum,
    laplace: Precision,
    made: Corrected,
    allowed: Allowed,
    rng: np.random.Generator,
    progress: Progress = QUIET,
) -> Corrected:
    """The same, compared with draws that are weighted; and draws or profiles in its place where they are better."""
    if allowed.weighed and len(made.mean):
        skewness = np.zeros(len(made.mean)) if made.skewness is None else made.skewness
        marginals = SkewedMarginals(made.mean, made.precision.sd, skewness)
        made = made._replace(compared=compare(objective, marginals, made.precision, allowed.weighed, rng))
    better = made.compared is None or made.compared.worth_drawing
    if not (allowed.evaluations or allowed.profiles) or not optimum.status.converged or not better:
        return made
    if allowed.evaluations:
        draws = drawn(objective, optimum.parameters, laplace, made, allowed.evaluations, rng, progress)
        if draws is not None and (draws.record.settled or made.compared is None):
            return draws
    if allowed.profiles and len(made.mean):
        which = leaning(made, allowed.profiles)
        profiles = profiled(objective, optimum.parameters, laplace, made, which, allowed.names, progress)
        if profiles.record.settled or made.compared is None:
            return profiles
    if made.compared is not None or not allowed.evaluations:
        return made
    why = f"{FAR}, perhaps: {allowed.evaluations:,} evaluations do not suffice for draws"
    return made._replace(record=replace(made.record, reason=why))


def _one(
    objective: Objective,
    curvature_objective: Objective,
    optimum: Optimum,
    laplace: Precision,
    kind: str,
    reason: str,
    rng: np.random.Generator,
    progress: Progress,
) -> Corrected:
    mode = optimum.point.parameters
    if kind == "none" or not len(mode) or not optimum.status.converged:
        return _none(optimum, laplace, reason)
    if kind == "expectation propagation":
        return _propagated(objective, mode, laplace)
    if laplace.form == "mean-field":
        found = mean_field(objective, mode, laplace, rng, progress)
    elif not objective.phases[0].traits.has_log_z:
        found = _sampled(objective, optimum, laplace, kind, rng, progress)
    elif kind == "mean":
        found = mean_shift(objective, mode, laplace, rng)
    else:
        found = variational(objective, curvature_objective, mode, laplace, rng, progress)
    if kind == "mean" and found.record.shift[0] > _FAR:  # so far away a second-order expansion says nothing
        found = corrected(kind, mode, laplace, mode, laplace, found.record.steps, 0.0, False, found.record.failed)
    return found._replace(record=replace(found.record, reason=reason))


def _with_skewness(objective: Objective, found: Corrected) -> Corrected:
    failed = not found.record.settled and found.record.shift[1] == 0.0  # it stands where it began
    if failed or found.record.kind in ("none", "expectation propagation"):
        return found
    skewness = marginal_skewness(objective, found.mean, found.precision)
    largest = float(np.abs(skewness).max(initial=0.0)) if skewness is not None else 0.0
    return found._replace(record=replace(found.record, skewness=largest), skewness=skewness)


def _told(found: Corrected) -> Corrected:
    """A Gaussian that had to move so far is the best one, of a posterior that is none."""
    if found.record.shift[0] <= _FAR_IN_ALL or found.record.reason:
        return found
    reason = f"{FAR}: widths and tails are rough; bf.sample_posterior is right here"
    return found._replace(record=replace(found.record, reason=reason))


def _sampled(
    objective: Objective,
    optimum: Optimum,
    laplace: Precision,
    kind: str,
    rng: np.random.Generator,
    progress: Progress,
) -> Corrected:
    mode = optimum.parameters
    if kind == "variational":
        answers = optimum.point.answers
        return sampled_variational(objective, mode, laplace, rng, progress, answers[0].state if answers else None)
    of_data: FloatArray | float = 0.0
    if len(objective.phases) > 1:
        of_data = second_differences(observed_slopes(objective), mode, laplace, rng).total
    return sampled_shift(sampled_features(objective, optimum.point), objective.free.weight, mode, laplace, of_data)


def _propagated(objective: Objective, mode: FloatArray, laplace: Precision) -> Corrected:
    mean, precision, status = expectation_propagation(objective, mode)
    name, good = "expectation propagation", status.converged
    return corrected(name, mode, laplace, mean, precision, status.iterations, 0.0, good)


def _none(optimum: Optimum, laplace: Precision, reason: str) -> Corrected:
    return Corrected(optimum.parameters, laplace, CorrectionRecord("none", reason=reason))


def _believed(objective: Objective, found: Corrected) -> bool:
    """Whether a shift to second order is small enough for one, and no modes of hidden variables overlap."""
    overlapping = objective.hidden and found.record.skewness > _SKEWED
    return found.record.settled and found.record.shift[1] <= _FAR and not overlapping
