"""What third derivatives of log Z tell: the mean to second order, the skewness of every parameter, skewed marginals.

g = ∇L of the negative log posterior L, P = ∇²L. To second order E[λ] ≈ λ_MP − ½ P⁻¹ Σ_k ∂²g/∂t_k², with t_k along the
columns of P⁻ᐟ²; from samples of x the sum is a covariance. The variational refinement, which goes beyond, is in
correction.variational.

To leading order the third cumulant of λ_i is −∇³L[u, u, u] with u = P⁻¹e_i, so that along t = u / sd_i, where λ_i moves
by one sd and all others as the posterior would have them, γ_i = −∇³L[t, t, t]. With samples of x it is −N times the
third central moment of tᵀf. Joint draws keep the Gaussian's correlations of ranks (a Gaussian copula). The marginal
with mean 0, variance 1 and skewness γ > 0 is (e^{sz} − √w) / √(w(w − 1)) for standard normal z, with w = e^{s²} and
γ = (w + 2)√(w − 1); its mirror image for γ < 0.

Here, too: the record that every correction leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import special

from bayesfield.model.prior import GONE
from bayesfield.response.sampled import SampleResponse
from bayesfield.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from bayesfield.correction.importance import Comparison
    from bayesfield.correction.marginals import Marginals
    from bayesfield.learning.objective import Objective, Point
    from bayesfield.learning.precision.base import Precision

TIME_UP = "stopped by time_limit or an interrupt"  # the reason of a correction that had no time to converge
FAR = "far from a Gaussian"  # what a record's reason begins with where no correction is believed
_SHORT_STEP = 0.1  # of the second differences, in posterior standard deviations
_BATCHES = 8  # of samples, whose spread is the Monte-Carlo error
MAX_DIRECTIONS = 400  # of second differences; beyond it, random directions stand for all
_STEP = 0.5  # of the differences, in posterior sd: wide enough to average over what is not cubic
_TIMES = 4  # the chains of the fit: errors of 0.12 become 0.09 in figure 5, and no better by 16
_SOLVED = 4e12  # operations of the solves for a shift: a minute of one core
_SHIFT_ERROR = 0.014  # posterior sd; half of it where the prior weighs little
CHAINS, _PER_PARAMETER = 4096, 10  # chains whose states are taken, at least; and states for each parameter
_PRODUCTS = 2e10  # of samples, parameters and parameters: some 2 s
_SYMMETRIC = 1e-4  # skewness below which a marginal is Gaussian
MOST = 1000  # parameters for which it is found

Slopes = Callable[[FloatArray], tuple[FloatArray, BoolArray]]  # ∇L at (S, F): (S, F), and where there is one (S,)


def slopes_of(objective: Objective) -> Slopes:
    """∇L of an objective at each of some parameters, and at which of them inference converged."""

    def slopes(points: FloatArray) -> tuple[FloatArray, BoolArray]:
        answers = objective.at_many(points)
        return answers.gradients, np.isfinite(answers.values)

    return slopes


@dataclass(frozen=True)
class CorrectionRecord:
    """What a correction did.

    kind: "none", "mean", "variational", "draws", "profile", or "expectation propagation" for what that found. steps:
    natural-gradient steps; of profiles, evaluations. shift: root mean square and largest move of the mean, in Laplace
    standard deviations: how non-Gaussian the posterior looked. sd_ratio: median of corrected over Laplace sd. error:
    Monte-Carlo error of the means, root mean square in posterior sd. settled: whether the steps converged. failed:
    share of draws at which the engine gave no answer. reason: why this kind, where it was chosen. skewness: the largest
    of any marginal. effective: how many independent draws a posterior made of draws is worth; 0 for the others.
    partial: whether marginals that were not profiled may lean as those that were.
    """

    kind: str
    steps: int = 0
    shift: tuple[float, float] = (0.0, 0.0)
    sd_ratio: float = 1.0
    error: float = 0.0
    settled: bool = True
    failed: float = 0.0
    reason: str = ""
    skewness: float = 0.0
    effective: float = 0.0
    partial: bool = False

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        if self.kind == "none":
            return f"none{why}: plain Laplace, the mean is the mode"
        text = (
            f"{self.kind}{why}: means moved by {self.shift[0]:.2f} sd (rms; largest {self.shift[1]:.2f}), widths by a "
            f"factor {self.sd_ratio:.3f}, skewness up to {self.skewness:.2f}, Monte-Carlo error {self.error:.3f} sd"
        )
        text += f", worth {self.effective:,.0f} independent draws" if self.effective else ""
        text += f", {self.failed:.0%} of the draws failed" if self.failed else ""
        return text if self.settled else text + "; did not converge, take it with care"


class Corrected(NamedTuple):
    """What a correction leaves. skewness: (F,) of every marginal; None where it was not estimated. marginals: where
    they are those of draws or profiles (correction.marginals). compared: with draws that are weighted."""

    mean: FloatArray
    precision: Precision
    record: CorrectionRecord
    skewness: FloatArray | None = None
    marginals: Marginals | None = None
    compared: Comparison | None = None


def corrected(
    kind: str,
    mode: FloatArray,
    laplace: Precision,
    mean: FloatArray,
    precision: Precision,
    steps: int = 1,
    error: float = 0.0,
    settled: bool = True,
    failed: float = 0.0,
) -> Corrected:
    """With the record of how far the mean and the widths moved from Laplace's. Parameters that were left out, which
    cannot move, do not count."""
    if not len(mode):
        return Corrected(mean, precision, CorrectionRecord(kind))
    there = laplace.sd > 2.0 * GONE**-0.5
    there = there if there.any() else np.ones(len(mode), dtype=np.bool_)
    shift = (np.abs(mean - mode) / laplace.sd)[there]
    ratio = float(np.median((precision.sd / laplace.sd)[there]))
    moved = float(np.sqrt(np.mean(shift**2))), float(shift.max())
    return Corrected(mean, precision, CorrectionRecord(kind, steps, moved, ratio, error, settled, failed))


# --- the mean --------------------------------------------------------------------------------------------------------


def mean_shift(objective: Objective, mode: FloatArray, precision: Precision, rng: np.random.Generator) -> Corrected:
    """The second-order mean.

    With more than some hundreds of parameters, along random draws: Σ_k ∂²g/∂t_k² = E[∂²g/∂t²] for t ~ N(0, P⁻¹).
    """
    found = second_differences(slopes_of(objective), mode, precision, rng, objective.second_derivatives)
    if not len(found.each):
        return corrected("mean", mode, precision, mode, precision, failed=found.failed, settled=False)
    shift, error = -0.5 * precision.solve(found.total), 0.0
    if not found.whole:
        parts = [np.mean(part, axis=0) for part in np.array_split(found.each, _BATCHES)]
        moves = -0.5 * precision.solve(np.array(parts).T).T / precision.sd
        error = _rms(moves.std(axis=0, ddof=1) / np.sqrt(_BATCHES))
    return corrected("mean", mode, precision, mode + shift, precision, error=error, failed=found.failed)


class SecondDifferences(NamedTuple):
    """Of a slope along P⁻ᐟ². each: (directions, F). whole: whether along all, or random ones."""

    each: FloatArray
    whole: bool
    failed: float

    @property
    def total(self) -> FloatArray:
        """Σ_k ∂²g/∂t_k², (F,)."""
        result: FloatArray = self.each.sum(axis=0) if self.whole else self.each.mean(axis=0)
        return result


def second_differences(
    slopes: Slopes,
    mode: FloatArray,
    precision: Precision,
    rng: np.random.Generator,
    exactly: Callable[[FloatArray, FloatArray], FloatArray | None] | None = None,
) -> SecondDifferences:
    """Along the columns of P⁻ᐟ², or along random draws where they are many. exactly: derivatives, where known."""
    size = len(mode)
    whole = precision.form == "dense" and size <= MAX_DIRECTIONS
    along = precision.draws(np.eye(size)) if whole else precision.sample(rng, MAX_DIRECTIONS)
    derivatives = None if exactly is None else exactly(mode, along)
    if derivatives is not None:
        return SecondDifferences(derivatives.T, whole, 0.0)
    length = _SHORT_STEP if whole else _SHORT_STEP / np.sqrt(size)
    steps = length * along.T
    gradients, good = slopes(np.concatenate([mode[None], mode + steps, mode - steps]))
    count = len(steps)
    fine = good[0] & good[1 : count + 1] & good[count + 1 :]
    each = (gradients[1 : count + 1] - 2.0 * gradients[0] + gradients[count + 1 :])[fine] / length**2
    return SecondDifferences(each, whole, 1.0 - float(fine.sum()) / max(count, 1))


def sampled_shift(
    features: FloatArray, weight: float, mode: FloatArray, precision: Precision, of_data: FloatArray | float = 0.0
) -> Corrected:
    """The second-order mean from samples of x, λ_MP − ½ P⁻¹ N Cov(f, (f − κ)ᵀP⁻¹(f − κ)). features: f − κ.

    of_data: Σ_k ∂²/∂t_k² of N f̄(λ), where variables are hidden; it is taken off. The share of the shift that its
    scatter over batches says is noise is taken back (James & Stein): with thousands of parameters all are a little off.
    """
    square = precision.squares(features)
    shifts = []
    for part in np.array_split(np.arange(len(features)), _BATCHES):
        cross = features[part].T @ (square[part] - square.mean()) / len(part)
        shifts.append(-0.5 * precision.solve(weight * cross - of_data))
    shift = np.mean(shifts, axis=0)
    error = _rms(np.std(shifts, axis=0, ddof=1) / np.sqrt(_BATCHES) / precision.sd)
    kept = max(0.0, 1.0 - (error / max(_rms(shift / precision.sd), 1e-300)) ** 2)
    return corrected("mean", mode, precision, mode + kept * shift, precision, error=kept * error)


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(values**2))) if len(values) else 0.0


# --- skewness --------------------------------------------------------------------------------------------------------


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


def shift_states(size: int, weight: float, snapshots: int) -> int:
    """How many states a shift of the mean takes.

    With f whitened, N Cov(f, f) = 1 and q = (f − κ)ᵀP⁻¹(f − κ) of variance 2F/N²: M states leave √(F / (2 N M))
    posterior sd of ½ N Cov(f, q).
    """
    enough = size / (2.0 * max(weight, 1e-12) * _SHIFT_ERROR**2)
    enough = min(enough, _PER_PARAMETER * size, _SOLVED / max(size, 1) ** 2)
    return max(CHAINS * snapshots if size <= MOST else CHAINS, int(enough))


def sampled_features(objective: Objective, point: Point) -> FloatArray:
    """f − E[f] of sampled states of the free phase, as many as a shift of the mean takes."""
    phase, states = objective.free, point.answers[0].state.states
    count = shift_states(objective.size, objective.weight, len(states)) // len(states)
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


# --- skewed marginals -----------------------------------------------------------------------------------------------


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
