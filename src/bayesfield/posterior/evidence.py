"""The log evidence log p(D) = log ∫ p(D|λ) p(λ) dλ of a model, from its posterior.

*Laplace*: log p(D|λ_MP) + log p(λ_MP) + (F/2) log 2π − ½ log det P, with the engine's log Z; where the optimum is not
quite one, with the ½ gᵀP⁻¹g that is left to gain. With the sampled engine log Z is by thermodynamic integration.

*importance*: the mean of p(D|λ) p(λ) / q(λ) over draws λ ~ q of the corrected posterior, in pairs m ± δ. It has no bias
but its Monte-Carlo error, and corrects what skewness and kurtosis do to the volume; the more parameters, the more draws
it needs, so it is kept only where the weights are even enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from bayesfield.inference.sampling.thermodynamic import log_partition
from bayesfield.types import FloatArray, InvalidInput, Outcome

if TYPE_CHECKING:
    from bayesfield.learning.objective import Objective
    from bayesfield.learning.precision.base import Precision

_GOAL = 0.03  # nats: error at which no more draws are made
_FIRST, _MOST = 256, 4096  # pairs of draws
_AFFORDABLE = 10.0  # seconds, more or less
_EVEN = 40.0  # pairs that an uneven sample must be worth
_FREEDOM = 5.0  # of the draws where the prior has heavy tails
_ENDURED = 0.01  # share of draws without an answer
_SAMPLED_GOAL = 0.2  # nats: of the log-likelihood, by thermodynamic integration


@dataclass(frozen=True)
class LogEvidence:
    """log p(D). error: its Monte-Carlo standard error. laplace: the plain approximation, for comparison.

    method: "importance" or "laplace". effective: how many even pairs of draws the weights are worth. reason: why the
    draws were not taken, where they were not.
    """

    value: float
    error: float
    laplace: float
    method: str
    effective: float = float("nan")
    reason: str = ""

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        error = f" ± {self.error:.2f}" if self.error else ""  # not estimated for Laplace
        known = f"log evidence {self.value:.2f}{error} nats, by {self.method}"
        if self.method == "importance":
            return f"{known} (worth {self.effective:.0f} pairs of draws; Laplace {self.laplace:.2f})"
        return known + (f" ({self.reason})" if self.reason else "")


@dataclass(frozen=True, eq=False)
class Peak:
    """What the evidence is computed from: the mode with the precision there, and the corrected mean and precision."""

    objective: Objective
    mode: FloatArray
    at_mode: Precision
    mean: FloatArray
    corrected: Precision


def log_evidence(peak: Peak, n_draws: int | None = None, rng: np.random.Generator | int | None = 0) -> LogEvidence:
    """n_draws: pairs for importance sampling; by default as many as make the error small. 0 is plain Laplace."""
    if n_draws is not None and not (isinstance(n_draws, int | np.integer) and (n_draws == 0 or n_draws >= _EVEN)):
        raise InvalidInput(f"n_draws is 0, for plain Laplace, or {_EVEN:.0f} or more pairs; got {n_draws!r}")
    laplace, error = _laplace(peak)
    if not peak.objective.has_log_z:
        return LogEvidence(laplace, error, laplace, "laplace", reason="sampling has no log Z at draws")
    if peak.corrected.form != "dense":
        return LogEvidence(laplace, error, laplace, "laplace", reason=f"the precision is {peak.corrected.form}")
    if n_draws == 0 or not len(peak.mode):
        return LogEvidence(laplace, error, laplace, "laplace")
    generator = np.random.default_rng(rng)
    weights, wanted = np.empty(0), n_draws or _FIRST
    while True:
        more = _log_weights(peak, wanted - len(weights), generator)
        weights = np.concatenate([weights, more])
        value, error, effective = _averaged(weights)
        if n_draws is not None or error < _GOAL or 2 * len(weights) > _most_pairs(peak.objective):
            break
        wanted = 2 * len(weights)
    failed = float(np.mean(weights == -np.inf))
    if failed > _ENDURED:
        return LogEvidence(laplace, 0.0, laplace, "laplace", effective, f"{failed:.0%} of the draws have no answer")
    if effective < _EVEN:
        reason = (
            f"{len(weights)} pairs of draws are worth {effective:.0f}, too few: the posterior is far from a Gaussian"
        )
        return LogEvidence(laplace, 0.0, laplace, "laplace", effective, reason)
    return LogEvidence(value, error, laplace, "importance", effective)


def _most_pairs(objective: Objective) -> int:
    """As many as take some ten seconds, but no fewer than the first."""
    return max(_FIRST, min(_MOST, int(0.5 * _AFFORDABLE / objective.price().inference)))


def _laplace(peak: Peak) -> tuple[float, float]:
    """log p(D) by Laplace, and its Monte-Carlo error."""
    log_joint, gradient, error = _at_mode(peak)
    gain = 0.5 * float(gradient @ peak.at_mode.solve(gradient)) if len(gradient) else 0.0
    if gain > 0.5 * len(gradient):
        raise InvalidInput(
            f"no log evidence: this is no mode, a step from here would gain about {gain:.3g} nats; fit again, by "
            "another engine or with a narrower prior"
        )
    volume = 0.5 * (len(peak.mode) * np.log(2.0 * np.pi) - peak.at_mode.log_det)
    return log_joint + gain + volume, float(np.hypot(error, 0.5 * peak.at_mode.log_det_error))


def _at_mode(peak: Peak) -> tuple[float, FloatArray, float]:
    """log p(D|λ) + log p(λ), −∇ of it, and its Monte-Carlo error."""
    o, mode = peak.objective, peak.mode
    point = o.at(mode)
    log_prior = o.prior.log_density(mode)
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


def _log_joints(objective: Objective, points: FloatArray) -> FloatArray:
    """log p(D|λ) + log p(λ) at each of the parameters, (S,); −∞ where there is no log Z."""
    prior = objective.prior
    change = np.array([prior.log_density(here) - prior.log_kernel(here) for here in points])
    return change - objective.at_many(points).values


def _log_weights(peak: Peak, pairs: int, rng: np.random.Generator) -> FloatArray:
    """log of the mean weight of each pair of draws; −inf where one has no answer."""
    o, F = peak.objective, len(peak.mean)
    noise = rng.standard_normal((F, pairs))
    if o.prior.tails is None:
        constant = 0.5 * (F * np.log(2.0 * np.pi) + np.sum(noise**2, axis=0))
    else:  # Student's t, whose tails are heavy too
        noise *= np.sqrt(_FREEDOM / rng.chisquare(_FREEDOM, pairs))
        constant = 0.5 * (_FREEDOM + F) * np.log1p(np.sum(noise**2, axis=0) / _FREEDOM)
        constant += special.gammaln(_FREEDOM / 2) - special.gammaln((_FREEDOM + F) / 2)
        constant += 0.5 * F * np.log(_FREEDOM * np.pi)
    constant = constant - 0.5 * peak.corrected.log_det
    offsets = peak.corrected.draws(noise).T
    both = _log_joints(o, np.concatenate([peak.mean + offsets, peak.mean - offsets]))
    found = both.reshape(2, pairs).T
    found[~np.isfinite(found).all(axis=1)] = -np.inf
    result: FloatArray = constant + np.logaddexp(found[:, 0], found[:, 1]) - np.log(2.0)
    return result


def _averaged(weights: FloatArray) -> tuple[float, float, float]:
    """log of the mean weight, its standard error, and how many even weights they are worth."""
    top = float(weights.max())
    if not np.isfinite(top):
        return -np.inf, np.inf, 0.0
    each = np.exp(weights - top)
    error = float(each.std(ddof=1) / each.mean() / np.sqrt(len(each))) if len(each) > 1 else np.inf
    return top + float(np.log(each.mean())), error, float(each.sum() ** 2 / np.sum(each**2))
