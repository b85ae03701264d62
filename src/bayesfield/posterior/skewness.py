"""Marginals that lean: the skewness of every parameter, and shifted log-normal marginals that have it.

To leading order the third cumulant of λ_i is −∇³L[u, u, u] with u = P⁻¹e_i, so that along t = u / sd_i, where λ_i moves
by one sd and all others as the posterior would have them, γ_i = −∇³L[t, t, t]. With samples of x it is −N times the
third central moment of tᵀf. Joint draws keep the Gaussian's correlations of ranks (a Gaussian copula).

The marginal with mean 0, variance 1 and skewness γ > 0 is (e^{sz} − √w) / √(w(w − 1)) for standard normal z, with
w = e^{s²} and γ = (w + 2)√(w − 1); its mirror image for γ < 0.
"""

import numpy as np
from scipy import special

from bayesfield.learning import FieldObjective, HiddenObjective, Objective
from bayesfield.learning.precision import Precision
from bayesfield.posterior.correction import Slope
from bayesfield.types import FloatArray

_STEP = 0.5  # of the differences, in posterior sd: wide enough to average over what is not cubic
_SYMMETRIC = 1e-4  # skewness below which a marginal is Gaussian
MOST = 1000  # parameters for which it is found


def marginal_skewness(objective: Objective, mean: FloatArray, precision: Precision) -> FloatArray:
    """γ of every parameter, (F,), from differences of the gradient; 0 where the engine gives no answer."""
    return -_third(objective.slope, mean, precision)


def sampled_skewness(
    features: FloatArray, objective: FieldObjective, mean: FloatArray, precision: Precision
) -> FloatArray:
    """The same from samples of x. features: f − E[f], (samples, F)."""
    along = precision.solve(np.eye(precision.size)) / precision.sd
    total = np.zeros(precision.size)
    for part in np.array_split(features, max(1, len(features) // 4096)):
        total += ((part @ along) ** 3).sum(axis=0)
    free = objective.weight * total / max(len(features), 1)
    if isinstance(objective, HiddenObjective):  # the data's part is known without sampling
        free -= _third(lambda here: objective.weight * objective.statistic_at(here), mean, precision)
    return -free


def _third(slope: Slope, mean: FloatArray, precision: Precision) -> FloatArray:
    """tᵀ ∂²g/∂t² for every parameter's own direction t, from differences of the slope g; 0 where there is none."""
    along = precision.solve(np.eye(len(mean))) / precision.sd
    centre = slope(mean)
    result = np.zeros(len(mean))
    if centre is None:
        return result
    for i, t in enumerate(along.T):
        up, down = slope(mean + _STEP * t), slope(mean - _STEP * t)
        if up is not None and down is not None:
            result[i] = float(t @ (up - 2.0 * centre + down)) / _STEP**2
    return result


def lean(z: FloatArray, skewness: FloatArray) -> FloatArray:
    """Standard normal z, (…, F), to marginals with mean 0, variance 1 and the given skewness, (F,). Increasing in z."""
    sign, s, w = _shape(skewness)
    with np.errstate(over="ignore"):
        leaning = sign * (np.exp(sign * s * z) - np.sqrt(w)) / np.sqrt(w * np.maximum(w - 1.0, 1e-300))
    result: FloatArray = np.where(s > 0.0, leaning, z)
    return result


def probability_below(x: FloatArray, skewness: FloatArray) -> FloatArray:
    """P(marginal < x), for x in units of sd from the mean, (F,)."""
    result: FloatArray = special.ndtr(upright(x, skewness)[0])
    return result


def upright(x: FloatArray, skewness: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The inverse of ``lean``, (…, F), and log dz/dx."""
    sign, s, w = _shape(skewness)
    width = np.sqrt(w * np.maximum(w - 1.0, 0.0))
    inside = np.maximum(sign * x * width + np.sqrt(w), 0.0)
    scale = np.where(s > 0.0, s, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(s > 0.0, sign * np.log(inside) / scale, x)
        slope = np.where(s > 0.0, np.log(width / (scale * inside)), 0.0)
    return z, slope


def _shape(skewness: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sign, s and w: w solves γ² = (w + 2)²(w − 1)."""
    size = np.abs(skewness)
    root = size * np.sqrt(1.0 + size**2 / 4.0)
    w = np.cbrt(1.0 + size**2 / 2.0 + root) + np.cbrt(1.0 + size**2 / 2.0 - root) - 1.0
    s = np.where(size > _SYMMETRIC, np.sqrt(np.log(np.maximum(w, 1.0))), 0.0)
    return np.where(skewness < 0.0, -1.0, 1.0), s, w
