"""How far a posterior may be trusted, found cheaply and with every fit.

Draws of the posterior itself, weighted by p(D|λ) p(λ) / q(λ) with the engine's log Z, say how far its means, widths and
probabilities are from the engine's posterior, with the Monte-Carlo error of that comparison; the tail of the weights
(Pareto k) says whether the comparison can be believed at all (correction.importance). With hundreds of parameters
weights are uneven whatever the marginals are; there the comparison is to first order in their logarithms, or the draws
vary along the few parameters that lean most, the others following at their conditional means. Beside it stand the marks
of the search, the correction, the chains and the check.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bayesfield.correction.cumulants import FAR, TIME_UP
from bayesfield.correction.importance import (
    ENOUGH,
    FILLED,
    LEAST,
    MOST_EVEN,
    MOST_WEIGHED,
    TOLERATED,
    TRUSTED,
    Comparison,
    compare,
)
from bayesfield.learning.search.learner import LEARNERS
from bayesfield.posterior.record import SECOND_ORDER, Certificate, FitRecord
from bayesfield.types import FitWarning

if TYPE_CHECKING:
    from bayesfield.correction.cumulants import CorrectionRecord, SkewedMarginals
    from bayesfield.learning.objective import Objective
    from bayesfield.learning.precision.base import Precision
    from bayesfield.model.prior import Parametrised

GOOD, FAIR, POOR = "good", "fair", "poor"
_FAIR = np.array([0.3, 0.25, 0.05])  # shift (sd), width (log) and probability of a fair one
_SPREAD = 0.25  # of the log weights for each parameter: half of it is a divergence that shows in widths
_FEW = 50.0  # effective draws below which nothing can be said
_ALLOWED = 5.0  # seconds of counted work of a comparison that somebody asks for
_NOISY = 0.1  # sd: Monte-Carlo error of the means of a good one
_MIXED = 1.0  # figure above which chains have not mixed


def certify(model: Parametrised, record: FitRecord, compared: Comparison | None, log_z: bool = True) -> Certificate:
    """The certificate of a fit. compared: with weighted draws, where it was. log_z: whether there is one at draws."""
    if record.correction.kind == "draws":
        certificate = Certificate(*_of_draws(record.correction), effective=record.correction.effective)
    elif compared is None:
        certificate = Certificate(*_uncompared(model, record, log_z))
    else:
        certificate = _compared(model, compared)
    check, mixing = record.check, [s.mixing for s in (record.status, record.inference) if s.mixing is not None]
    if check is not None and check.mixing is not None:
        mixing.append(check.mixing)
    certificate = replace(
        certificate,
        skewness=record.correction.skewness,
        monte_carlo=record.correction.error,
        mixing=max(mixing, default=float("nan")),
        checked="" if check is None else check.verdict,
    )
    return _marked(certificate, record)


def certificate_later(
    model: Parametrised, record: FitRecord, objective: Objective, marginals: SkewedMarginals, precision: Precision
) -> Certificate:
    """That of a posterior which the fit has not judged; with as many draws as five seconds allow."""
    compared = None
    if objective.has_log_z and len(marginals.mean):
        most = MOST_EVEN if len(marginals.mean) <= FILLED else MOST_WEIGHED
        count = min(int(_ALLOWED / objective.price().each), most)
        if count >= LEAST:
            compared = compare(objective, marginals, precision, count, np.random.default_rng(0))
    return certify(model, record, compared, objective.has_log_z)


def warn(record: FitRecord, depth: int) -> None:
    """A fit that did not converge looks like any other, so it says so aloud. depth: of the user's call."""
    learned, judged, correction = record.prior is None or record.prior.settled, record.certificate, record.correction
    if not record.status.converged or not record.inference.converged or not learned:
        text = "this posterior is not to be trusted"
    elif correction.reason == TIME_UP:
        text = f"the correction was {TIME_UP}; give it more"
    elif judged is not None and judged.verdict == POOR:
        text = f"this posterior is poor: {judged.advice}"
    elif judged is None and (not correction.settled or correction.reason.startswith(FAR)):
        text = (
            f"the Gaussian does not fit this posterior: {correction}. Draws by bf.sample_posterior, or a narrower "
            "prior, are right here"
        )
    else:
        return
    warnings.warn(f"{text}. {record}", FitWarning, stacklevel=depth + 1)


# --- verdicts -------------------------------------------------------------------------------------------------------


def _compared(model: Parametrised, compared: Comparison) -> Certificate:
    shift, width, probability = compared.distances.tolist()
    spread = compared.spread
    far, near = bool((compared.excess > _FAIR).any()), bool((compared.excess <= TOLERATED).all())
    verdict, advice = FAIR, 'rough in the tails: correction="draws" is exact where one can wait'
    if not compared.trusted or compared.effective < _FEW or far:
        verdict = POOR
        advice = 'no Gaussian fits this posterior: take correction="draws", bf.sample_posterior, or a narrower prior'
    elif near and compared.certain and compared.effective >= ENOUGH and spread <= _SPREAD:
        verdict, advice = GOOD, "means, widths and probabilities agree with weighted draws"
        advice += " to first order" if compared.expanded else ""
    space = f"all {len(compared.which)} parameters"
    if len(compared.which) < model.n_parameters:
        # the others follow at their conditional means, as wide as before: what that misses is no reason to call it poor
        if verdict == POOR and compared.k <= TRUSTED:
            verdict, advice = FAIR, 'some marginals lean: correction="profile" has them right'
        names = model.parameter_names
        space = "those that lean most: " + ", ".join(names[int(k)] for k in compared.which)
    k = np.nan if compared.expanded else compared.k
    return Certificate(
        verdict, advice, k, shift, width, probability, tuple(compared.errors.tolist()), compared.n_draws,
        compared.effective, float(np.max(compared.excess / TOLERATED)), spread, space,
    )  # fmt: skip


def _of_draws(correction: CorrectionRecord) -> tuple[str, str]:
    if not correction.settled:
        return POOR, "its chains had not arrived: take a narrower prior, or a larger budget"
    if correction.effective < ENOUGH:
        return FAIR, f"it is worth {correction.effective:,.0f} independent draws: give it a larger budget"
    return GOOD, f"made of draws worth {correction.effective:,.0f} independent ones"


def _uncompared(model: Parametrised, record: FitRecord, log_z: bool) -> tuple[str, str]:
    """Without weighted draws the correction's own marks decide."""
    kind = record.correction.kind
    if record.method == "elastic_net" and "beside" in record.correction.reason:
        return FAIR, "the parameters that stay are where the penalty has them: relaxed=True fits them again without it"
    if record.method in LEARNERS:
        return FAIR, f"by {record.method}, whose end is not the posterior's mode: posterior.check() tells how far"
    if kind == "profile" and record.correction.partial:
        return FAIR, "more marginals lean than the budget, and 32 at most, let profile"
    if kind == "profile" and model.n_parameters == 1:
        return GOOD, "its one marginal is integrated on a grid"
    if kind == "profile":
        return FAIR, "the marginals that lean most are profiled, one at a time; the others are as they were"
    if kind == "variational" and record.correction.settled and not log_z:
        return GOOD, "the variational correction by chains converged"
    if record.correction.reason == SECOND_ORDER:
        return FAIR, f"not compared with weighted draws: {SECOND_ORDER}"
    why = "one evaluation takes too long" if log_z else "sampling has no log Z at draws"
    if record.form == "mean-field":
        why = "weights of draws that vary in thousands of directions say nothing"
    return FAIR, f"not compared with weighted draws: {why}"


def _marked(certificate: Certificate, record: FitRecord) -> Certificate:
    """With the marks of the search, the correction, the chains and the check, which can only lower the verdict."""
    for wrong, verdict, advice in _marks(certificate, record):
        if wrong and (certificate.verdict != POOR or verdict == POOR):
            return replace(certificate, verdict=verdict, advice=advice)
    return certificate


def _marks(certificate: Certificate, record: FitRecord) -> list[tuple[bool, str, str]]:
    """What is wrong, the verdict at best, and the advice; the worst first."""
    correction, check = record.correction, record.check
    far = correction.reason.startswith(FAR) and certificate.verdict != GOOD
    return [
        (not record.status.converged, POOR, "the search did not end at a mode: posterior.record.status says why"),
        (not record.inference.converged, POOR, "inference did not converge: posterior.record.inference says why"),
        (record.prior is not None and not record.prior.settled, POOR, "the prior that the data choose has not settled"),
        (
            certificate.mixing > _MIXED,
            POOR,
            "chains that began apart have not met: take longer or exact ones",
        ),
        (check is not None and not check.passed, POOR, f"the check by sampling failed: {certificate.checked}"),
        (not correction.settled, POOR, "the correction did not converge: draws by bf.sample_posterior are right here"),
        (far, POOR, 'far from a Gaussian: take correction="draws" or bf.sample_posterior'),
        (correction.error > _NOISY, FAIR, f"the means have a Monte-Carlo error of {correction.error:.2f} sd"),
    ]
