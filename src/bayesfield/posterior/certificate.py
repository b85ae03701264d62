"""How far a posterior may be trusted, found cheaply and with every fit.

Draws of the posterior itself, weighted by p(D|λ) p(λ) / q(λ) with the engine's log Z, say how far its means, widths and
probabilities are from the engine's posterior, with the Monte-Carlo error of that comparison; the tail of the weights
(Pareto k) says whether the comparison can be believed at all. With very many parameters weights are uneven whatever the
marginals are; there the draws vary along the few parameters that lean most, the others following at their conditional
means. Beside it stand the marks of the search, the correction, the chains and the check by sampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import linalg

from bayesfield.correction.draws import TRUSTED
from bayesfield.correction.importance import EVEN, Proposal, Weighted, propose, weigh
from bayesfield.correction.marginals import SkewedMarginals
from bayesfield.correction.second_order import FAR
from bayesfield.correction.skewness import from_skewed, to_skewed
from bayesfield.learning.search.learner import LEARNERS
from bayesfield.posterior.record import Certificate, FitRecord
from bayesfield.types import FloatArray, IntArray

if TYPE_CHECKING:
    from bayesfield.correction.second_order import CorrectionRecord
    from bayesfield.learning.objective import Objective
    from bayesfield.learning.precision.base import Precision

GOOD, FAIR, POOR = "good", "fair", "poor"
LEAST = 256  # draws below which the tail of the weights has no shape
MOST = 2048  # draws with many parameters
MOST_EVEN = 8192  # draws that fill a space of few parameters evenly, to see probabilities to 0.005
_JOINT = 500  # parameters up to which all of them vary
_DIRECTIONS = 8  # parameters that vary where there are more
_GOOD = np.array([0.1, 0.1, 0.01])  # shift (sd), width (log) and probability of a good one
_FAIR = np.array([0.3, 0.25, 0.05])  # … of a fair one
_ENOUGH = 400.0  # effective draws of a good one: four errors of a shift are 0.2 sd
_SPREAD = 0.25  # of the log weights for each parameter: half of it is a divergence that shows in widths
_FEW = 50.0  # effective draws below which nothing can be said
_BLOCKS = 4  # of draws with points of their own, whose scatter is the Monte-Carlo error
_ERRORS = {"few": 2.0, "many": 4.0}  # standard errors that are taken off: with many parameters hundreds of figures
_SHARE, _ALWAYS = 0.2, 0.05  # of the work of a fit, and seconds, that a certificate may take
_Z95 = 1.959963984540054
_EFFECTIVE = 400.0  # independent draws of a good posterior that is made of draws
_NOISY = 0.1  # sd: Monte-Carlo error of the means of a good one


class _Figures(NamedTuple):
    """distances, errors: (3,), of the figure that lies farthest beyond its error; excess: by how much, (3,)."""

    distances: FloatArray
    errors: FloatArray
    excess: FloatArray


def certify(
    objective: Objective | None,
    names: Sequence[str],
    marginals: SkewedMarginals,
    precision: Precision,
    record: FitRecord,
    count: int,
    seed: int = 0,
) -> Certificate:
    """The certificate of a posterior that is a Gaussian with skewed marginals. count: draws; 0 for none."""
    weighted, space, which = None, "", np.arange(len(marginals.mean))
    if objective is not None and objective.has_log_z and count >= LEAST and len(marginals.mean):
        rng = np.random.default_rng(seed)
        if len(marginals.mean) <= _JOINT:
            weighted, space = _all(objective, marginals, precision, count, rng), f"all {len(which)} parameters"
        if weighted is None or (len(which) > EVEN and (weighted.k > TRUSTED or weighted.effective < _FEW)):
            which = leaning(marginals)
            weighted = _along(objective, marginals, precision, which, count, rng)
            space = "those that lean most: " + ", ".join(names[int(k)] for k in which)
    if weighted is None:
        return _marked(Certificate(*_unweighted(record, objective, count)), record)
    figures = _figures(weighted, marginals, which)
    spread = float(np.log(len(weighted.points) / max(weighted.effective, 1e-9)) / len(which))
    verdict, advice = _judged(weighted, figures, spread)
    shift, width, probability = figures.distances.tolist()
    certificate = Certificate(
        verdict, advice, weighted.k, shift, width, probability, tuple(figures.errors.tolist()), len(weighted.points),
        weighted.effective, float(np.max(figures.excess / _GOOD)), spread, space,
    )  # fmt: skip
    return _marked(certificate, record)


def affordable_draws(size: int, inference: float, total: float) -> int:
    """How many to weigh: within a fifth of the counted work of the fit, or 0.05 s. inference: work of one."""
    count = int(max(_SHARE * total, _ALWAYS) / inference) if inference > 0 else MOST_EVEN
    count = min(count, MOST_EVEN if size <= EVEN else MOST)
    return count if count >= LEAST else 0


def certify_draws(record: FitRecord) -> Certificate:
    """That of a posterior made of draws: what its chains, or its weights, said."""
    correction = record.correction
    if not correction.settled:
        verdict, advice = POOR, "its chains had not arrived: take a narrower prior, or a larger budget"
    elif correction.effective < _EFFECTIVE:
        verdict, advice = FAIR, f"it is worth {correction.effective:,.0f} independent draws: give it a larger budget"
    else:
        verdict, advice = GOOD, f"made of draws worth {correction.effective:,.0f} independent ones"
    return _marked(Certificate(verdict, advice, effective=correction.effective), record)


def leaning(marginals: SkewedMarginals) -> IntArray:
    """The parameters with the largest skewness; where it was not estimated, the widest."""
    lean = np.abs(marginals.skewness) if marginals.skewness.any() else marginals.sd
    return np.argsort(-lean, kind="stable")[:_DIRECTIONS]


# --- draws ----------------------------------------------------------------------------------------------------------


def _all(
    objective: Objective, marginals: SkewedMarginals, precision: Precision, count: int, rng: np.random.Generator
) -> Weighted:
    """Blocks of draws over all parameters; each block has even points of its own."""
    each = [propose(marginals.mean, precision, marginals.skewness, part, rng) for part in [count // _BLOCKS] * _BLOCKS]
    points = np.concatenate([p.points for p in each])
    return weigh(objective, Proposal(points, np.concatenate([p.log_density for p in each])))


def _along(
    objective: Objective,
    marginals: SkewedMarginals,
    precision: Precision,
    which: IntArray,
    count: int,
    rng: np.random.Generator,
) -> Weighted:
    """Draws of some parameters, the others at their means given those: g = Σ_{·I} Σ_II⁻¹ g_I with Σ = P⁻¹."""
    unit = np.zeros((len(marginals.mean), len(which)))
    unit[which, np.arange(len(which))] = 1.0
    columns = precision.solve(unit)
    lower = linalg.cholesky((columns[which] + columns[which].T) / 2, lower=True)
    follow = linalg.cho_solve((lower, True), columns.T).T  # (F, d)
    noise = rng.standard_normal((len(which), count))
    scores = (follow @ (lower @ noise)).T / marginals.sd
    skewed = to_skewed(scores, marginals.skewness)
    log_q = -0.5 * np.sum(noise**2, axis=0) + from_skewed(skewed, marginals.skewness)[1].sum(axis=1)
    return weigh(objective, Proposal(marginals.mean + marginals.sd * skewed, log_q))


def _figures(weighted: Weighted, marginals: SkewedMarginals, which: IntArray) -> _Figures:
    """Shift, width and probability of every parameter against the weighted draws: the three that lie farthest beyond
    their errors.

    The error of a weighted mean is √Σ w²(y − ȳ)². Even points have a smaller one; by how much is estimated from all
    figures together, by the scatter of the blocks.
    """
    w, x = weighted.weights, (weighted.points[:, which] - marginals.mean[which]) / marginals.sd[which]
    mean = w @ x
    ends = [marginals.from_normal(np.full(len(marginals.mean), z)) for z in (-_Z95, _Z95)]
    at = [(-marginals.mean / marginals.sd)[which], *((e - marginals.mean)[which] / marginals.sd[which] for e in ends)]
    variance = w @ (x - mean) ** 2
    below = [marginals.below(v)[which] for v in (np.zeros_like(marginals.mean), *ends)]
    each = [x, 0.5 * ((x - mean) ** 2 / np.maximum(variance, 1e-300) - 1.0), *((x < a).astype(np.float64) for a in at)]
    apart = [w @ y - b for y, b in zip(each[2:], below, strict=True)]
    errors = [np.sqrt(np.maximum(w**2 @ (y - w @ y) ** 2, 1e-12)) for y in each]
    share = _evenness(w, each, errors)
    width = 0.5 * np.log(np.maximum(variance, 1e-300))
    size = np.array([np.abs(mean), np.abs(width), np.abs(apart).max(axis=0)])
    noise = share * np.array([errors[0], errors[1], np.max(errors[2:], axis=0)])
    excess = size - _ERRORS["few" if len(which) <= EVEN else "many"] * noise
    rows, worst = np.arange(3), np.argmax(excess, axis=1)
    return _Figures(size[rows, worst], noise[rows, worst], np.maximum(excess[rows, worst], 0.0))


def _evenness(w: FloatArray, each: Sequence[FloatArray], errors: Sequence[FloatArray]) -> float:
    """The Monte-Carlo error of the blocks' average over what independent draws would have, at most 1."""
    parts = np.array_split(np.arange(len(w)), _BLOCKS)
    ratios = []
    for y, error in zip(each, errors, strict=True):
        means = np.array([w[part] @ y[part] / w[part].sum() for part in parts])
        ratios.append(means.var(axis=0, ddof=1) / _BLOCKS / error**2)
    return float(np.clip(np.sqrt(np.mean(ratios)), 0.1, 1.0))


# --- verdicts -------------------------------------------------------------------------------------------------------


def _judged(weighted: Weighted, figures: _Figures, spread: float) -> tuple[str, str]:
    far = bool((figures.excess > _FAIR).any())
    if weighted.k > TRUSTED or weighted.effective < _FEW or far:
        return POOR, (
            'no Gaussian fits this posterior: take correction="draws", bf.sample_posterior, or a narrower prior'
        )
    near = bool((figures.excess <= _GOOD).all())
    if near and weighted.effective >= _ENOUGH and spread <= _SPREAD:
        return GOOD, "means, widths and probabilities agree with weighted draws"
    return FAIR, 'rough in the tails: correction="draws" is exact where one can wait'


def _unweighted(record: FitRecord, objective: Objective | None, count: int) -> tuple[str, str]:
    """Without weighted draws the correction's own marks decide."""
    if objective is None:
        return FAIR, "it came without its data, so that nothing could be compared"
    if record.method in LEARNERS:
        return FAIR, f"by {record.method}, whose end is not the posterior's mode: posterior.check() tells how far"
    if record.correction.kind in ("variational", "expectation propagation") and record.correction.settled:
        kind = record.correction.kind
        return GOOD if not objective.has_log_z else FAIR, f"the {kind} correction converged; draws were not weighed"
    if record.correction.kind == "none" or objective.has_log_z:
        why = "one evaluation takes too long" if objective.has_log_z else "sampling has no log Z at draws"
        return FAIR, f"not compared with weighted draws: {why}"
    return FAIR, "corrected to second order only"


def _marked(certificate: Certificate, record: FitRecord) -> Certificate:
    """With the marks of the search, the correction, the chains and the check, which can only lower the verdict."""
    correction, check = record.correction, record.check
    mixing = getattr(check, "mixing", None) if check is not None else None
    certificate = replace(
        certificate,
        skewness=correction.skewness,
        monte_carlo=correction.error,
        mixing=float("nan") if mixing is None else float(mixing),
        checked="" if check is None else check.verdict,
    )
    for wrong, verdict, advice in _marks(record, correction, certificate.n_draws > 0):
        if wrong and (certificate.verdict != POOR or verdict == POOR):
            return replace(certificate, verdict=verdict, advice=advice)
    return certificate


def _marks(record: FitRecord, correction: CorrectionRecord, weighed: bool) -> list[tuple[bool, str, str]]:
    """What is wrong, the verdict at best, and the advice; the worst first."""
    learned = record.prior is None or record.prior.settled
    check = record.check
    failed = check is not None and not check.passed
    far = correction.reason.startswith(FAR) and not weighed
    noisy = correction.error > _NOISY
    return [
        (not record.status.converged, POOR, f"the search did not end at a mode ({record.status})"),
        (not record.inference.converged, POOR, f"inference did not converge ({record.inference})"),
        (not learned, POOR, "the prior that the data choose did not converge"),
        (failed, POOR, "the check by sampling failed: " + (check.verdict if check else "")),
        (not correction.settled, POOR, "the correction did not converge: draws by bf.sample_posterior are right here"),
        (far, POOR, 'far from a Gaussian: take correction="draws" or bf.sample_posterior'),
        (noisy, FAIR, f"the means have a Monte-Carlo error of {correction.error:.2f} sd: take more chains"),
    ]
