"""Skewed marginals: the skewness of every parameter, and shifted log-normal marginals that have it.

To leading order the third cumulant of λ_i is −∇³L[u, u, u] with u = P⁻¹e_i, so that along t = u / sd_i, where λ_i moves
by one sd and all others as the posterior would have them, γ_i = −∇³L[t, t, t]. With samples of x it is −N times the
third central moment of tᵀf. Joint draws keep the Gaussian's correlations of ranks (a Gaussian copula).

The marginal with mean 0, variance 1 and skewness γ > 0 is (e^{sz} − √w) / √(w(w − 1)) for standard normal z, with
w = e^{s²} and γ = (w + 2)√(w − 1); its mirror image for γ < 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from bayesfield.correction.second_order import Slopes, slopes_of
from bayesfield.response.sampled import SampleResponse
from bayesfield.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from bayesfield.learning.objective import Objective, Point
    from bayesfield.learning.precision.base import Precision

_STEP = 0.5  # of the differences, in posterior sd: wide enough to average over what is not cubic
_TIMES = 4  # the chains of the fit: errors of 0.12 become 0.09 in figure 5, and no better by 16
_SOLVED = 4e12  # operations of the solves for a shift: a minute of one core
_SHIFT_ERROR = 0.014  # posterior sd; half of it where the prior weighs little
CHAINS, _PER_PARAMETER = 4096, 10  # chains whose states are taken, at least; and states for each parameter
_PRODUCTS = 2e10  # of samples, parameters and parameters: some 2 s
_SYMMETRIC = 1e-4  # skewness below which a marginal is Gaussian
MOST = 1000  # parameters for which it is found


def marginal_skewness(
    objective: Objective, mean: FloatArray, precision: Precision, of: FloatArray | None = None
) -> FloatArray | None:
    """γ of every parameter, (F,); not for very many parameters. of: instead, of the combinations Wλ, (D, F)."""
    if len(mean) > MOST or not len(mean):
        return None
    if not objective.phases[0].traits.has_log_z:
        return _sampled_skewness(objective, mean, precision, of)
    along = _directions(precision, of)
    linear = objective.phases[0].traits.linear_response
    derivatives = objective.second_derivatives(mean, along) if linear else None
    if derivatives is not None:
        result: FloatArray = -np.einsum("fd,fd->d", along, derivatives)
        return result
    return -_third(slopes_of(objective), mean, along)


def longer(engine: Any, size: int) -> Any:
    """A sampled engine with more chains than the mode of a few cases takes, where they are affordable: third moments
    hang on rare states. Many cases ask for no more: their posterior is narrower, and its skewness smaller."""
    chains = min(engine.chains, CHAINS)
    affordable = int(_PRODUCTS / (chains * engine.snapshots * size**2))
    return replace(engine, chains=chains * min(max(affordable, 1), _TIMES), shrink=False)


def sampled_features(objective: Objective, point: Point) -> FloatArray:
    """f − E[f] of sampled states of the free phase, as many as a shift of the mean takes.

    With f whitened, N Cov(f, f) = 1 and q = (f − κ)ᵀP⁻¹(f − κ) of variance 2F/N²: M states leave √(F / (2 N M))
    posterior sd of ½ N Cov(f, q).
    """
    phase, states = objective.free, point.answers[0].state.states
    enough = objective.size / (2.0 * objective.weight * _SHIFT_ERROR**2)
    least = CHAINS if objective.size <= MOST else CHAINS // len(states)
    enough = min(enough, _PER_PARAMETER * objective.size, _SOLVED / max(objective.size, 1) ** 2)
    count = max(least, int(enough) // len(states))
    return SampleResponse(phase.graph, phase.design, states[:, :count], 1, True).features


def _sampled_skewness(
    objective: Objective, mean: FloatArray, precision: Precision, of: FloatArray | None
) -> FloatArray:
    """From samples of x; what the data add is known without sampling."""
    phase = replace(objective.free, engine=longer(objective.free.engine, len(mean)))
    features, along = phase.response(phase.at(mean)).features, _directions(precision, of)
    total = np.zeros(along.shape[1])
    single = along.astype(np.float32)  # third moments are rough by their samples, not by rounding
    for part in np.array_split(features, max(1, len(features) // 4096)):
        score = part.astype(np.float32) @ single
        total += np.einsum("sd,sd,sd->d", score, score, score, dtype=np.float64)
    free: FloatArray = phase.weight * total / max(len(features), 1)
    if len(objective.phases) > 1:
        free -= _third(observed_slopes(objective), mean, along)
    return -free


def observed_slopes(objective: Objective) -> Slopes:
    """What the data take at many points, holes filled in."""

    def slopes(points: FloatArray) -> tuple[FloatArray, BoolArray]:
        means = np.array([objective.observed_mean(here) for here in points])
        return means, np.ones(len(points), dtype=np.bool_)

    return slopes


def _directions(precision: Precision, of: FloatArray | None) -> FloatArray:
    """(F, D): t = P⁻¹w / √(wᵀP⁻¹w) for every row w of W, by default the identity."""
    if of is None:
        return precision.solve(np.eye(precision.size)) / precision.sd
    along = precision.solve(of.T)
    result: FloatArray = along / np.sqrt(np.einsum("df,fd->d", of, along))
    return result


def _third(slopes: Slopes, mean: FloatArray, along: FloatArray) -> FloatArray:
    """tᵀ ∂²g/∂t² for every direction t, (D,), from differences of the slope g; 0 where there is none."""
    steps = _STEP * along.T
    count = len(steps)
    gradients, good = slopes(np.concatenate([mean[None], mean + steps, mean - steps]))
    second = gradients[1 : count + 1] - 2.0 * gradients[0] + gradients[count + 1 :]
    third = np.einsum("fd,df->d", along, second) / _STEP**2
    return np.where(good[0] & good[1 : count + 1] & good[count + 1 :], third, 0.0)


@dataclass(frozen=True, eq=False)
class SkewedMarginals:
    """Of every parameter: normal, or shifted log-normal where there is skewness. Each (F,)."""

    mean: FloatArray
    sd: FloatArray
    skewness: FloatArray

    def from_normal(self, z: FloatArray) -> FloatArray:
        return self.mean + self.sd * (to_skewed(z, self.skewness) if self.skewness.any() else z)

    def below(self, x: FloatArray) -> FloatArray:
        return probability_below((x - self.mean) / self.sd, self.skewness)

    def log_density(self, x: FloatArray) -> FloatArray:
        return log_density((x - self.mean) / self.sd, self.skewness) - np.log(self.sd)

    def only(self, which: IntArray) -> SkewedMarginals:
        return SkewedMarginals(self.mean[which], self.sd[which], self.skewness[which])


def to_skewed(z: FloatArray, skewness: FloatArray) -> FloatArray:
    """Standard normal z, (…, F), to marginals with mean 0, variance 1 and the given skewness, (F,). Increasing in z."""
    sign, s, w = _shape(skewness)
    with np.errstate(over="ignore"):
        skewed = sign * (np.exp(sign * s * z) - np.sqrt(w)) / np.sqrt(w * np.maximum(w - 1.0, 1e-300))
    return np.where(s > 0.0, skewed, z)


def probability_below(x: FloatArray, skewness: FloatArray) -> FloatArray:
    """P(marginal < x), for x in units of sd from the mean, (F,)."""
    result: FloatArray = special.ndtr(from_skewed(x, skewness)[0])
    return result


def from_skewed(x: FloatArray, skewness: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The inverse of ``to_skewed``, (…, F), and log dz/dx."""
    sign, s, w = _shape(skewness)
    width = np.sqrt(w * np.maximum(w - 1.0, 0.0))
    inside = np.maximum(sign * x * width + np.sqrt(w), 0.0)
    scale = np.where(s > 0.0, s, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(s > 0.0, sign * np.log(inside) / scale, x)
        slope = np.where(s > 0.0, np.log(width / (scale * inside)), 0.0)
    return z, slope


def log_density(x: FloatArray, skewness: FloatArray) -> FloatArray:
    """log density of the marginals at x, in units of sd from the mean, (F,); beyond the end of one, the Gaussian's."""
    z, slope = from_skewed(x, skewness)
    inside = np.isfinite(z) & np.isfinite(slope)
    z, slope = np.where(inside, z, x), np.where(inside, slope, 0.0)
    result: FloatArray = slope - 0.5 * (z**2 + np.log(2.0 * np.pi))
    return result


def _shape(skewness: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sign, s and w: w solves γ² = (w + 2)²(w − 1)."""
    size = np.abs(skewness)
    root = size * np.sqrt(1.0 + size**2 / 4.0)
    w = np.cbrt(1.0 + size**2 / 2.0 + root) + np.cbrt(1.0 + size**2 / 2.0 - root) - 1.0
    s = np.where(size > _SYMMETRIC, np.sqrt(np.log(np.maximum(w, 1.0))), 0.0)
    return np.where(skewness < 0.0, -1.0, 1.0), s, w
