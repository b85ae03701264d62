"""The log evidence log p(D) = log ∫ p(D|λ) p(λ) dλ of a model, from its posterior, with an error for every road.

*importance*: the mean of p(D|λ) p(λ) / q(λ) over draws λ ~ q of the corrected posterior, with heavy tails where
parameters are few. No bias but its Monte-Carlo error, which the weights tell as long as their tail is light (k < 0.7).

*bridge*: for posteriors made of draws, or where the weights are too uneven and chains are affordable. Between draws of
the posterior and draws of a Student's t with their mean and covariance (Meng & Wong 1996), with the error of
Frühwirth-Schnatter (2004).

*Laplace*: log p(D|λ_MP) + log p(λ_MP) + (F/2) log 2π − ½ log det P, with the engine's log Z; where the optimum is not
quite one, with the ½ gᵀP⁻¹g that is left to gain. With the sampled engine log Z is by thermodynamic integration. Its
error is what the next order would change: with R = L − L_MP − ½ δᵀPδ, log E[e^−R] ≈ −E[R] + ½ Var R over draws of the
Gaussian; from samples of x the same by third and fourth cumulants.

Where hidden variables may change places, or names of their states, every mode has G images that are as likely. All are
counted: log p(D) = log G + log ∫ p(D|λ) p(λ) dλ over those λ that are nearest to the mode of all their images, so that
draws elsewhere have weight zero. Laplace adds log G, which overlapping modes make too much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import linalg, special

from bayesfield.correction.cumulants import Corrected, CorrectionRecord, SkewedMarginals, sampled_features
from bayesfield.correction.draws import CHAINED, drawn
from bayesfield.correction.importance import (
    EVEN,
    LEAST,
    by_weights,
    heavy,
    log_constant,
    log_posteriors,
    propose,
    trusted,
    weigh,
)
from bayesfield.correction.marginals import DrawnMarginals
from bayesfield.inference.sampling.thermodynamic import log_partition
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.types import FloatArray, InvalidInput, Outcome

if TYPE_CHECKING:
    from bayesfield.correction.marginals import Marginals
    from bayesfield.learning.objective import Objective
    from bayesfield.learning.precision.base import Precision

_GOAL = 0.03  # nats: error at which no more draws are made
_FIRST, _MOST = 1024, 16384  # draws with importance weights
_AFFORDABLE = 10.0  # seconds of counted work, more or less
_EVENLY = 80.0  # draws that an uneven sample must be worth
_ENDURED = 0.01  # share of draws without an answer
_BRIDGED = 8192  # draws on either side of a bridge
_APART = 6.0  # sd between a mode and its nearest image, beyond which the two hardly overlap
_PROBES = 256  # draws for the next order of Laplace
_STATES = 4000  # samples of x for the same
_SAMPLED_GOAL = 0.2  # nats: of the log-likelihood, by thermodynamic integration


@dataclass(frozen=True)
class LogEvidence:
    """log p(D). error: its standard error; of Laplace's, what the next order would change. laplace: that
    approximation, for comparison.

    method: "importance", "bridge" or "laplace". effective: how many even draws the weights are worth. reason: why the
    draws were not taken, where they were not.
    """

    value: float
    error: float
    laplace: float
    method: str
    effective: float = float("nan")
    reason: str = ""

    def times(self, modes: int) -> LogEvidence:
        """Where so many modes are alike, and this is of one of them."""
        more = float(np.log(modes))
        return replace(self, value=self.value + more, laplace=self.laplace + more)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        text = f"log evidence {self.value:.2f} ± {self.error:.2f} nats, by {self.method}"
        if self.method != "laplace":
            return f"{text} (worth {self.effective:,.0f} draws; Laplace {self.laplace:.2f})"
        return text + (f" ({self.reason})" if self.reason else "")


@dataclass(frozen=True, eq=False)
class Peak:
    """What the evidence is computed from: the mode with the precision there, and the corrected posterior. effective:
    how many independent draws it is worth, where it is made of draws."""

    objective: Objective
    mode: FloatArray
    at_mode: Precision
    marginals: Marginals
    corrected: Precision
    effective: float = 0.0

    def at_mode_products(self, directions: FloatArray) -> FloatArray:
        """dᵀPd of each row, (S,)."""
        result: FloatArray = np.einsum("sf,fs->s", directions, self.at_mode.product(directions.T))
        return result


def log_evidence(peak: Peak, n_draws: int | None = None, rng: np.random.Generator | int | None = 0) -> LogEvidence:
    """n_draws: for importance sampling; by default as many as make the error small. 0 is plain Laplace."""
    if n_draws is not None and not (isinstance(n_draws, int | np.integer) and (n_draws == 0 or n_draws >= LEAST)):
        raise InvalidInput(f"n_draws is 0, for plain Laplace, or {LEAST} or more; got {n_draws!r}")
    laplace, error = _laplace(peak.objective, peak.mode, peak.at_mode)
    counted, doubt = _counted_images(peak)
    laplace, error = laplace + counted, float(np.hypot(error, doubt))
    generator = np.random.default_rng(rng)
    if not len(peak.mode):
        return LogEvidence(laplace, error, laplace, "laplace")
    if n_draws == 0 or not peak.objective.has_log_z or peak.corrected.form != "dense":
        reason = "" if n_draws == 0 else f"the precision is {peak.corrected.form}"
        reason = "sampling has no log Z at draws" if not peak.objective.has_log_z else reason
        return _by_laplace(peak, laplace, error, reason, generator)
    if isinstance(peak.marginals, DrawnMarginals):
        return _bridged(peak, peak.marginals, peak.effective, laplace, generator)
    estimate = _importance(peak, n_draws, generator)
    if estimate.good:
        return LogEvidence(estimate.value, estimate.error, laplace, "importance", estimate.effective)
    chains = _chains(peak, generator) if n_draws is None and estimate.failed <= _ENDURED else None
    if chains is not None and isinstance(chains.marginals, DrawnMarginals):
        return _bridged(peak, chains.marginals, chains.record.effective, laplace, generator)
    return _by_laplace(peak, laplace, error, estimate.reason, generator)


# --- images by symmetry -------------------------------------------------------------------------------------------


def _counted_images(peak: Peak) -> tuple[float, float]:
    """log G, and as much for an error where images of the mode are not well apart."""
    group = peak.objective.symmetries
    if group is None or not len(peak.mode):
        return 0.0, 0.0
    away = group.images(peak.mode)[1:] - peak.mode
    nearest = float(peak.at_mode_products(away).min())
    count = float(np.log(len(group)))
    return count, 0.0 if nearest > _APART**2 else count


def _restricted(peak: Peak, points: FloatArray, raw: FloatArray) -> FloatArray:
    """Log weights, −∞ for draws that have an image nearer to the mode."""
    group = peak.objective.symmetries
    if group is None:
        return raw
    near = group.nearest(points, peak.mode, peak.objective.prior.diagonal**-0.5)
    return np.where((near == points).all(axis=1), raw, -np.inf)


# --- importance sampling --------------------------------------------------------------------------------------------


class _Estimate(NamedTuple):
    value: float
    error: float
    effective: float
    k: float
    n_draws: int
    failed: float

    @property
    def good(self) -> bool:
        even = trusted(self.k, self.effective, self.n_draws) and self.effective >= _EVENLY
        return even and self.failed <= _ENDURED

    @property
    def reason(self) -> str:
        if self.failed > _ENDURED:
            return f"{self.failed:.0%} of the draws have no answer"
        return (
            f"{self.n_draws:,} draws are worth {self.effective:.0f}, k = {self.k:.2f}, too few: the posterior is far "
            "from a Gaussian"
        )


def _importance(peak: Peak, n_draws: int | None, rng: np.random.Generator) -> _Estimate:
    """Draws are doubled until the error is small."""
    size = len(peak.mode)
    few = size <= EVEN or peak.objective.prior.tails is not None
    freedom = (5.0 if peak.objective.prior.tails is not None else heavy(size)) if few else np.inf
    marginals = SkewedMarginals(peak.marginals.mean, peak.corrected.sd, peak.marginals.skewness)
    constant = _prior_constant(peak.objective) - log_constant(peak.corrected, freedom)
    most = max(_FIRST, min(_MOST, int(_AFFORDABLE / peak.objective.price().each)))
    count = n_draws or _FIRST
    while True:
        weighted = weigh(peak.objective, propose(marginals, peak.corrected, count, rng, freedom))
        failed = float(np.mean(weighted.raw == -np.inf))
        if peak.objective.symmetries is not None:
            weighted = by_weights(weighted.points, _restricted(peak, weighted.points, weighted.raw))
        total = float(special.logsumexp(weighted.raw))
        even = float(np.exp(2.0 * total - special.logsumexp(2.0 * weighted.raw))) if np.isfinite(total) else 0.0
        error = float(np.sqrt(max(1.0 / even - 1.0 / count, 0.0))) if even > 0.0 else np.inf
        if n_draws is not None or error < _GOAL or 2 * count > most:
            break
        count *= 2
    return _Estimate(
        total - np.log(count) + constant + _counted_images(peak)[0], error, even, weighted.k, count, failed
    )


def _prior_constant(objective: Objective) -> float:
    """log p(λ) less its kernel, which the objective has; with heavy tails ``log_posteriors`` has all of it."""
    prior = objective.prior
    return prior.log_density(prior.location) if prior.tails is None else 0.0


def _chains(peak: Peak, rng: np.random.Generator) -> Corrected | None:
    """Draws of the posterior by Markov chains, where they are affordable."""
    evaluations = int(_AFFORDABLE / peak.objective.price().each)
    if evaluations < CHAINED or peak.objective.hidden:
        return None
    marginals = peak.marginals
    start = Corrected(marginals.mean, peak.corrected, CorrectionRecord("none"), marginals.skewness)
    made = drawn(peak.objective, peak.mode, peak.at_mode, start, min(evaluations, 4 * CHAINED), rng)
    return made if made is not None and made.record.settled else None


# --- bridge sampling ------------------------------------------------------------------------------------------------


def _bridged(
    peak: Peak, marginals: DrawnMarginals, effective: float, laplace: float, rng: np.random.Generator
) -> LogEvidence:
    """Between draws of the posterior and of Student's t, as many on either side.

    With l = log p̃ − log q and s = ½ either way, r solves Σ_q e^l / (e^l + r) = Σ_p r / (e^l + r), a fixed point that
    converges from anywhere; log r = log p(D).
    """
    objective, size = peak.objective, marginals.points.shape[1]
    count, freedom = min(_BRIDGED, len(marginals.points)), heavy(size)
    precision = DensePrecision(linalg.inv(marginals.covariance))
    base = SkewedMarginals(marginals.mean, precision.sd, np.zeros(size))
    theirs = propose(base, precision, count, rng, freedom)
    ours = marginals.sample(count, rng)
    away = (ours - marginals.mean).T
    square = np.einsum("fs,fs->s", away, precision.product(away))
    log_t = -0.5 * (freedom + size) * np.log1p(square / freedom)
    constant = _prior_constant(objective) - log_constant(precision, freedom)
    of_q = _restricted(peak, theirs.points, log_posteriors(objective, theirs.points) - theirs.log_density)
    of_p = log_posteriors(objective, ours) - log_t
    log_r = float(np.median(of_p))
    for _ in range(1000):
        top = special.logsumexp(of_q - np.logaddexp(of_q, log_r))
        change = float(top - special.logsumexp(-np.logaddexp(of_p, log_r))) - log_r
        log_r += change
        if abs(change) < 1e-10:
            break
    first, second = special.expit(of_q - log_r), special.expit(log_r - of_p)
    worth = min(effective, count) if effective else float(count)
    error = np.sqrt(_relative(first) / count + _relative(second) / worth)
    return LogEvidence(log_r + constant + _counted_images(peak)[0], float(error), laplace, "bridge", worth)


def _relative(values: FloatArray) -> float:
    """Var / mean²."""
    mean = float(values.mean())
    return float(values.var()) / mean**2 if mean > 0.0 else np.inf


# --- Laplace --------------------------------------------------------------------------------------------------------


def _by_laplace(peak: Peak, value: float, error: float, reason: str, rng: np.random.Generator) -> LogEvidence:
    """With the next order as its error."""
    o = peak.objective
    beyond = _next_order(peak, rng) if o.has_log_z else _sampled_next_order(peak)
    return LogEvidence(value, float(np.hypot(error, beyond)), value, "laplace", reason=reason)


def _next_order(peak: Peak, rng: np.random.Generator) -> float:
    """|−E[R] + ½ Var R| over draws of the Gaussian at the mode, and twice its Monte-Carlo error."""
    o = peak.objective
    count = int(np.clip(_AFFORDABLE / o.price().each, 8, _PROBES))
    away = peak.at_mode.sample(rng, count)
    point = o.at(peak.mode)
    square = 0.5 * np.einsum("fs,fs->s", away, peak.at_mode.product(away)) + point.gradient @ away
    rest = o.at_many(peak.mode + away.T).values - point.value - square
    rest = rest[np.isfinite(rest)]
    if len(rest) < 4:
        return float("inf")
    variance = float(rest.var(ddof=1))
    noise = np.sqrt(variance / len(rest)) + variance / np.sqrt(2.0 * len(rest))
    return float(abs(0.5 * variance - rest.mean()) + 2.0 * noise)


def _sampled_next_order(peak: Peak) -> float:
    """The same from samples of x, by cumulants of f in coordinates where P is 1, y = P⁻ᐟ²(f − κ), with N cases:

    E[R] = N κ⁴_iijj / 8 and ½ Var R ≈ N² (κ³_iij κ³_jkk / 8 + κ³_ijk κ³_ijk / 12); with q = |y|² the contractions
    are averages over samples, the last one over pairs of them.
    """
    o = peak.objective
    features = sampled_features(o, o.at(peak.mode))
    step = max(1, len(features) // _STATES)
    some, N = features[::step], float(o.free.weight)
    solved = peak.at_mode.solve(some.T)
    q = np.einsum("sf,fs->s", some, solved)
    inner = some @ solved
    fourth = float(np.mean(q**2) - np.mean(q) ** 2 - 2.0 * np.mean(inner**2))
    moved = (some.T @ (q - q.mean())) / len(some)
    third = float(moved @ peak.at_mode.solve(moved))
    np.fill_diagonal(inner, 0.0)
    cubes = float(np.sum(inner**3) / (len(some) * (len(some) - 1)))
    return abs(-N * fourth / 8.0 + N**2 * (third / 8.0 + max(cubes, 0.0) / 12.0))


def laplace_evidence(objective: Objective, mode: FloatArray, precision: Precision) -> float:
    """log p(D) by Laplace alone."""
    return _laplace(objective, mode, precision)[0]


def _laplace(objective: Objective, mode: FloatArray, precision: Precision) -> tuple[float, float]:
    """log p(D) by Laplace, and its Monte-Carlo error."""
    log_joint, gradient, error = _at_mode(objective, mode)
    gain = 0.5 * float(gradient @ precision.solve(gradient)) if len(gradient) else 0.0
    if gain > 0.5 * len(gradient):
        raise InvalidInput(
            f"no log evidence: this is no mode, a step from here would gain about {gain:.3g} nats; fit again, by "
            "another engine or with a narrower prior"
        )
    volume = 0.5 * (len(mode) * np.log(2.0 * np.pi) - precision.log_det)
    return log_joint + gain + volume, float(np.hypot(error, 0.5 * precision.log_det_error))


def _at_mode(o: Objective, mode: FloatArray) -> tuple[float, FloatArray, float]:
    """log p(D|λ) + log p(λ), −∇ of it, and its Monte-Carlo error."""
    point = o.at(mode)
    log_prior = o.prior.log_density(mode)
    if o.free.traits.relative:
        raise InvalidInput(
            "no log evidence: chains that stream the features tell log Z about the mode up to a constant only; fit "
            "with bf.Kikuchi(), or with bf.Sampled(), which integrates"
        )
    if o.has_log_z:
        if not np.isfinite(point.value):
            raise InvalidInput(f"no log evidence: the engine has no log Z at the mode ({point.status})")
        return o.log_likelihood(point) + log_prior, point.gradient, 0.0
    phase, free = o.free, point.answers[0]
    theta, marginals = free.found
    found = log_partition(phase.graph, theta, phase.engine, marginals.tables, _SAMPLED_GOAL / max(phase.weight, 1.0))
    if found.mixing is not None and found.mixing > 1.0:
        raise InvalidInput(f"no log evidence: {Outcome.SLOW.value}")
    known = point._replace(answers=(free._replace(log_z=found.value), *point.answers[1:]))
    return o.log_likelihood(known) + log_prior, np.zeros_like(mode), phase.weight * found.error
