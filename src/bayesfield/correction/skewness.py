"""Marginals that lean: the skewness of every parameter, and shifted log-normal marginals that have it.

To leading order the third cumulant of λ_i is −∇³L[u, u, u] with u = P⁻¹e_i, so that along t = u / sd_i, where λ_i moves
by one sd and all others as the posterior would have them, γ_i = −∇³L[t, t, t]. With samples of x it is −N times the
third central moment of tᵀf. Joint draws keep the Gaussian's correlations of ranks (a Gaussian copula).

The marginal with mean 0, variance 1 and skewness γ > 0 is (e^{sz} − √w) / √(w(w − 1)) for standard normal z, with
w = e^{s²} and γ = (w + 2)√(w − 1); its mirror image for γ < 0.
"""

from dataclasses import replace

import numpy as np
from scipy import special

from bayesfield.correction.second_order import Slope
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.learning.objective import FieldObjective, Objective, Point
from bayesfield.learning.phases.hidden import HiddenObjective
from bayesfield.learning.precision.forms import Precision
from bayesfield.response.contrast import ContrastResponse
from bayesfield.types import FloatArray

_STEP = 0.5  # of the differences, in posterior sd: wide enough to average over what is not cubic
_TIMES = 4  # the chains of the fit: errors of 0.12 become 0.09 in figure 5, and no better by 16
_PRODUCTS = 2e10  # of samples, parameters and parameters: some 2 s
_SYMMETRIC = 1e-4  # skewness below which a marginal is Gaussian
MOST = 1000  # parameters for which it is found


def field_skewness(
    objective: FieldObjective, mean: FloatArray, precision: Precision, of: FloatArray | None = None
) -> FloatArray | None:
    """γ of every parameter of a field, or of the combinations ``of``; not for very many parameters."""
    if len(mean) > MOST or not len(mean):
        return None
    if isinstance(objective.engine, Sampled):
        known = replace(objective, engine=longer(objective.engine, len(mean)))
        return sampled_skewness(sampled_features(known, known.at(mean)), known, mean, precision, of)
    return marginal_skewness(objective, mean, precision, of)


def longer(engine: Sampled, size: int) -> Sampled:
    """With more chains than the mode takes, where they are affordable: third moments hang on rare states."""
    affordable = int(_PRODUCTS / (engine.chains * engine.snapshots * size**2))
    return replace(engine, chains=engine.chains * min(max(affordable, 1), _TIMES), shrink=False)


def sampled_features(objective: FieldObjective, point: Point) -> FloatArray:
    """f − E[f] of the sampled states of the free phase."""
    response = objective.response(point)
    free = response.free if isinstance(response, ContrastResponse) else response
    result: FloatArray = free.features  # type: ignore[attr-defined]
    return result


def marginal_skewness(
    objective: Objective, mean: FloatArray, precision: Precision, of: FloatArray | None = None
) -> FloatArray:
    """γ of every parameter, (F,), from differences of the gradient; 0 where the engine gives no answer.

    of: instead of the parameters, the combinations Wλ, (D, F).
    """
    along = _directions(precision, of)
    known = objective.bends(mean, along)
    if known is not None:
        result: FloatArray = -np.einsum("fd,fd->d", along, known)
        return result
    return -_third(objective.slope, mean, along)


def sampled_skewness(
    features: FloatArray,
    objective: FieldObjective,
    mean: FloatArray,
    precision: Precision,
    of: FloatArray | None = None,
) -> FloatArray:
    """The same from samples of x. features: f − E[f], (samples, F)."""
    along = _directions(precision, of)
    total = np.zeros(along.shape[1])
    for part in np.array_split(features, max(1, len(features) // 4096)):
        total += ((part @ along) ** 3).sum(axis=0)
    free = objective.weight * total / max(len(features), 1)
    if isinstance(objective, HiddenObjective):  # the data's part is known without sampling
        free -= _third(lambda here: objective.weight * objective.statistic_at(here), mean, along)
    return -free


def _directions(precision: Precision, of: FloatArray | None) -> FloatArray:
    """(F, D): t = P⁻¹w / √(wᵀP⁻¹w) for every row w of W, by default the identity."""
    if of is None:
        return precision.solve(np.eye(precision.size)) / precision.sd
    along = precision.solve(of.T)
    result: FloatArray = along / np.sqrt(np.einsum("df,fd->d", of, along))
    return result


def _third(slope: Slope, mean: FloatArray, along: FloatArray) -> FloatArray:
    """tᵀ ∂²g/∂t² for every direction t, (D,), from differences of the slope g; 0 where there is none."""
    centre = slope(mean)
    result = np.zeros(along.shape[1])
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


def log_density(x: FloatArray, skewness: FloatArray) -> FloatArray:
    """log density of the marginals at x, in units of sd from the mean, (F,); beyond the end of one, the Gaussian's."""
    z, slope = upright(x, skewness)
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
