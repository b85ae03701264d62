"""Draws of an approximate posterior with their density, and what they weigh against the objective's own.

λ = m + sd · to_skewed(d / sd), d from N(0, P⁻¹) or from Student's t of that shape, with log q(λ) known. The weights
p(D|λ) p(λ) / q(λ) then say what the approximation misses (posterior.certificate), put it right where they are even
enough (correction.draws), and average to the evidence p(D) (posterior.evidence).

Student's t has tails that are heavier than the posterior's, so that no few draws get most of the weight. Degrees of
freedom grow with the parameters: the length of a t vector spreads by 1/√freedom, that of a Gaussian by 1/√F, and draws
should still meet the posterior. Measured on leave-one-out with 5 parameters and 1,000 draws: error of elpd 0.08, and
0.17 with Gaussian draws. On grids with 12 to 65 parameters Gaussian draws are worth up to twice as many as those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special

from bayesfield.correction.skewness import from_skewed, to_skewed
from bayesfield.diagnostics import pareto_smoothed
from bayesfield.types import FloatArray

if TYPE_CHECKING:
    from bayesfield.learning.objective import Objective
    from bayesfield.learning.precision.base import Precision

EVEN = 16  # parameters up to which points fill the space evenly instead of at random
_FREEDOM = 8.0  # at least


class Proposal(NamedTuple):
    """points: (S, F) draws. log_density: (S,), with its constant."""

    points: FloatArray
    log_density: FloatArray


class Weighted(NamedTuple):
    """Draws that stand for a posterior. points: (S, F). log_weights: (S,), of p(D|λ) p(λ) / q(λ), tails smoothed.

    k: shape of the tail of the weights; above 0.7 they are not to be trusted. effective: how many even draws they are
    worth. raw: as they were before smoothing; −∞ where the engine has no answer.
    """

    points: FloatArray
    log_weights: FloatArray
    k: float
    effective: float
    raw: FloatArray

    @property
    def weights(self) -> FloatArray:
        """Normalised, (S,)."""
        result: FloatArray = np.exp(self.log_weights - special.logsumexp(self.log_weights))
        return result


def even_noise(size: int, count: int, rng: np.random.Generator) -> FloatArray:
    """(size, count) standard normal numbers; with few parameters evenly spread, by an additive recurrence with a random
    shift: powers of the root of x^(F+1) = x + 1, which for F = 1 is the golden ratio (Roberts 2018)."""
    if size > EVEN:
        return rng.standard_normal((size, count))
    root = 2.0
    for _ in range(60):  # a contraction: 60 steps are exact
        root = (1.0 + root) ** (1.0 / (size + 1))
    steps = root ** -np.arange(1.0, size + 1)
    uniform = (rng.random(size)[:, None] + steps[:, None] * np.arange(1, count + 1)) % 1.0
    result: FloatArray = special.ndtri(np.clip(uniform, 1e-12, 1.0 - 1e-12))
    return result


def heavy(size: int) -> float:
    """Degrees of freedom of draws with tails heavier than the posterior's."""
    return max(_FREEDOM, size / 4)


def propose(
    mean: FloatArray,
    precision: Precision,
    skewness: FloatArray,
    count: int,
    rng: np.random.Generator,
    freedom: float = np.inf,
) -> Proposal:
    """Draws with their density. freedom: of Student's t; infinite for the Gaussian."""
    size = len(mean)
    noise = even_noise(size, count, rng)
    if np.isfinite(freedom):
        noise = noise * np.sqrt(freedom / rng.chisquare(freedom, count))
    away = precision.draws(noise)
    square = np.einsum("fs,fs->s", away, precision.product(away))
    if np.isfinite(freedom):
        constant = special.gammaln((freedom + size) / 2) - special.gammaln(freedom / 2)
        constant -= 0.5 * size * np.log(freedom * np.pi)
        log_q = constant - 0.5 * (freedom + size) * np.log1p(square / freedom)
    else:
        log_q = -0.5 * (square + size * np.log(2.0 * np.pi))
    log_q = log_q + 0.5 * precision.log_det
    if not skewness.any():
        return Proposal(mean + away.T, log_q)
    sd = precision.sd
    skewed = to_skewed(away.T / sd, skewness)
    return Proposal(mean + sd * skewed, log_q + from_skewed(skewed, skewness)[1].sum(axis=1))


def log_joints(objective: Objective, points: FloatArray) -> FloatArray:
    """log p(D|λ) + log p(λ) at each of the parameters, (S,); −∞ where there is no log Z."""
    prior = objective.prior
    if prior.tails is None:
        change: FloatArray | float = prior.log_density(prior.location)  # the kernel is zero there
    else:
        change = np.array([prior.log_density(here) - prior.log_kernel(here) for here in points])
    values = objective.at_many(points).values
    with np.errstate(invalid="ignore"):
        result: FloatArray = np.where(np.isfinite(values), change - values, -np.inf)
    return result


def weigh(objective: Objective, proposal: Proposal) -> Weighted:
    """The draws with their importance weights."""
    raw = log_joints(objective, proposal.points) - proposal.log_density
    top = float(raw.max())
    if not np.isfinite(top):
        return Weighted(proposal.points, np.zeros(len(raw)), np.inf, 0.0, raw)
    smoothed, k = pareto_smoothed(raw[None])
    log_mean = special.logsumexp(np.minimum(raw, top))  # smoothed ones keep the sum of the raw, about
    effective = float(np.exp(-special.logsumexp(2.0 * smoothed[0])))
    return Weighted(proposal.points, smoothed[0] + log_mean, float(k[0]), effective, raw)
