"""What skewness adds to the widths of a variational Gaussian, whose P = E_q[∇²L] does not know of it."""

from collections.abc import Callable, Iterator

import numpy as np
from scipy import linalg

from bayesfield.learning.precision.base import Precision
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.types import FloatArray

_FAR_OUT = 3.0  # times the median length of an even slope


def inflated(P: Precision, bubble: FloatArray) -> Precision:
    """P⁻¹ + P⁻¹BP⁻¹, as a precision.

    To first order B_ij = ½ Σ_ab ∇³L_iab ∇³L_jab in coordinates where P is 1. The slope's even part along a draw z is
    ½ Σ_ab ∇³L_iab (z_a z_b − δ_ab), so that B is its covariance over the draws. An estimate of B with noise may be
    negative in places; it takes at most half of any direction's variance. With thousands of parameters a few hundred
    draws say little of B, all of it along themselves: there it is left out.
    """
    matrix = P.matrix()
    lower = linalg.cholesky(matrix, lower=True)
    inside = linalg.solve_triangular(lower, linalg.solve_triangular(lower, bubble, lower=True).T, lower=True)
    values, vectors = np.linalg.eigh((inside + inside.T) / 2)
    root = lower @ vectors / np.sqrt(1.0 + np.maximum(values, -0.5))
    return DensePrecision(root @ root.T)


def shrunk(P: Precision, estimates: Callable[[], Iterator[FloatArray]], count: int) -> FloatArray:
    """The mean of so many estimates of B, taken back (James & Stein) by the share that their scatter says is noise.

    estimates: makes them anew each time, for all together may be more than memory holds.
    """
    mean: FloatArray = sum(estimates(), np.zeros((P.size, P.size))) / max(count, 1)
    mean = (mean + mean.T) / 2

    def size(matrix: FloatArray) -> float:
        inside = P.solve(matrix)
        return float(np.sum(inside * inside.T))

    noise = sum(size((b + b.T) / 2 - mean) for b in estimates()) / max(count * (count - 1), 1)
    return mean * max(0.0, 1.0 - noise / max(size(mean), 1e-300))


def winsorised(P: Precision, even: FloatArray) -> FloatArray:
    """Even slopes about their mean; those far out, where the first order does not hold, cut to a few median lengths."""
    away = even - even.mean(axis=0)
    length = np.sqrt(np.maximum(np.einsum("kf,fk->k", away, P.solve(away.T)), 1e-300))
    result: FloatArray = away * np.minimum(1.0, _FAR_OUT * np.median(length) / length)[:, None]
    return result
