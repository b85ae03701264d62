"""The variational Gaussian: E_q[g] = 0 and P = E_q[∇²L], by natural-gradient steps from the Laplace fit.

    P ← (1−ρ)P + ρ E_q[∇²L],   m ← m − ρ P⁻¹ E_q[g],   over draws λ = m + P⁻ᐟ²z with the same z at every step

The draws come in orthogonal frames with both signs: a full frame integrates everything up to third order in z nearly
exactly, so that Monte-Carlo error is left only in what goes beyond the second-order shift. Two blocks of them tell it.

With the Sampled engine the chains themselves are spread over the draws, an equal share at each: their mean is then
E_q[E_λ[f]], at the price of one sampled inference.
"""

import contextlib
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg

from bayesfield.inference import Sampled
from bayesfield.inference.chains import Chains
from bayesfield.learning import FieldObjective, HiddenObjective, Iteration, MeanPrecision, Objective, Point
from bayesfield.learning.objective import mixed
from bayesfield.learning.optimise import Watch
from bayesfield.learning.precision import DensePrecision, Precision
from bayesfield.posterior.correction import CorrectionRecord, correction_record
from bayesfield.response.sampled import within_covariance
from bayesfield.types import FloatArray, IndefiniteCurvature

_RATE, _LEAST_RATE = 0.9, 0.1  # ρ at first, and at last where steps overshoot
_RECOVERY = 1.2  # growth of ρ with every step that goes on in the direction of the one before
_STRONG = 0.25  # posterior sd, root mean square: after a step that long, the curvature is averaged over all draws
_SETTLED = 0.01  # largest move of a mean, in posterior sd, and of a log sd, at which the steps end
_MAX_STEPS = 40
_PATIENCE = 5  # steps whose shrinking tells whether they will settle in time
_MAX_DIRECTIONS = 160  # orthogonal directions in a frame
_SOME_DIRECTIONS = 96  # the same for sampling where chains are not quick
_MIN_DIRECTIONS = 64  # directions in a block: several frames where there are few parameters
_FEW_DIRECTIONS = 32  # in a block where the precision is not dense
_CURVED = 24  # directions at which the curvature, which costs most and moves least, is averaged
MANY = 1000  # parameters beyond which a curvature takes seconds, and few are averaged …
FEW = 2  # … at so many directions: with so many parameters each draw is as good as an average
_HELD = 4  # the same where its responses must all be held
_FAR_OUT = 3.0  # times the median length of an even slope
_MOST_FAILED = 0.2  # share of draws without an answer beyond which the Laplace posterior stands
_PER_DRAW = 64  # chains at each draw, at least; twice as many where they are quick
_FEW_SWEEPS = 10  # of so many chains, at least
_SNAPSHOTS = 4  # of their states, for the curvature, where chains are quick: one leaves widths of rare states rough
_BRIEF = 3  # times fewer sweeps in the first steps, which are long, where chains are not quick
_APPROACH = 3  # sampled steps before iterates are averaged, at least, …
_NEAR = 0.03  # … until one is shorter than that, root mean square in posterior sd, or than its own noise
_AVERAGED = 4  # sampled iterates in the average, at least
_FINER = 0.25  # of the engine's error: 0.05 sd in every mean is six times the floor in CVM (23), 0.0125 hardly shows


def variational(
    objective: Objective,
    curved: Objective,
    mode: FloatArray,
    precision: Precision,
    rng: np.random.Generator,
    watch: Watch | None = None,
) -> tuple[FloatArray, Precision, CorrectionRecord]:
    """Mean, precision, record. curved: the objective whose engine gives the curvature."""
    dense = isinstance(precision, DensePrecision)
    count = min(len(mode), _MAX_DIRECTIONS if dense else _FEW_DIRECTIONS)
    frames = -(-_MIN_DIRECTIONS // max(count, 1)) if dense else 1
    z = np.concatenate([orthogonal_draws(len(mode), count, frames, rng) for _ in range(2)])
    many = len(mode) > MANY
    engine = _Draws(objective, curved, (FEW if many else _CURVED) if dense else _HELD)
    m, P = mode.copy(), precision
    settled, step, failed = False, 0, 0.0
    rate = _Rate(_RATE)
    moves, lengths = np.zeros((2, len(mode))), [np.inf]
    while step < _MAX_STEPS and not settled and not _hopeless(lengths):
        slopes, found, failed = engine.look(m, P.draws(z.T).T, P, rate.value)
        if found is None or failed > _MOST_FAILED:
            record = correction_record("variational", mode, precision, mode, precision, step, 0.0, False, failed)
            return mode, precision, record
        moves = found.solve(slopes.T).T
        away = moves.mean(axis=0) / found.sd
        change = np.log(found.sd / P.sd) / rate.value
        lengths.append(max(_length(away, many), _length(change, many)))
        settled = lengths[-1] < _SETTLED
        _tell(watch, step, lengths[-1], rate.value)
        m, P = m - rate.value * moves.mean(axis=0), found
        rate.after(np.concatenate([away, change]))
        if dense and not many and np.linalg.norm(away) > _STRONG * np.sqrt(len(m)):
            engine.bends = len(z)
        step += 1
    error = _spread(moves, P.sd)
    if dense and not many and len(engine.even) > 1:
        even = _usual(P, np.array(engine.even))
        P = _widened(P, even.T @ even / (len(even) - 1))
    return m, P, correction_record("variational", mode, precision, m, P, step, error, settled, failed)


def draws_and_bends(size: int, dense: bool) -> tuple[int, int]:
    """How many inferences and how many curvatures a step takes."""
    count = min(size, _MAX_DIRECTIONS if dense else _FEW_DIRECTIONS)
    frames = -(-_MIN_DIRECTIONS // max(count, 1)) if dense else 1
    return 4 * count * frames, 2 * ((FEW if size > MANY else _CURVED) if dense else _HELD)


def _length(step: FloatArray, many: bool) -> float:
    """The largest entry; of many the root mean square, for the largest of thousands says little."""
    return float(np.sqrt(np.mean(step**2)) if many else np.abs(step).max(initial=0.0))


def _hopeless(lengths: list[float]) -> bool:
    """Whether steps that shrink as the last ones did will not settle in time."""
    if len(lengths) <= 2 * _PATIENCE:
        return False
    shrinking = np.log(lengths[-1] / lengths[-1 - _PATIENCE]) / _PATIENCE
    left = _MAX_STEPS - len(lengths)
    return bool(np.log(lengths[-1]) + left * min(shrinking, 0.0) > np.log(_SETTLED))


def _widened(P: Precision, bubble: FloatArray) -> Precision:
    """P⁻¹ + P⁻¹BP⁻¹, as a precision: what skewness adds to the widths, which P = E_q[∇²L] does not know.

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


def _quiet(P: Precision, estimates: list[FloatArray]) -> FloatArray:
    """The mean of estimates of B, taken back (James & Stein) by the share that their scatter says is noise."""
    mean: FloatArray = np.mean(estimates, axis=0)
    mean = (mean + mean.T) / 2

    def size(matrix: FloatArray) -> float:
        inside = P.solve(matrix)
        return float(np.sum(inside * inside.T))

    noise = sum(size((b + b.T) / 2 - mean) for b in estimates) / (len(estimates) * max(len(estimates) - 1, 1))
    return mean * max(0.0, 1.0 - noise / max(size(mean), 1e-300))


def _usual(P: Precision, even: FloatArray) -> FloatArray:
    """Even slopes about their mean; those far out, where the first order does not hold, cut to a few usual lengths."""
    away = even - even.mean(axis=0)
    length = np.sqrt(np.maximum(np.einsum("kf,fk->k", away, P.solve(away.T)), 1e-300))
    result: FloatArray = away * np.minimum(1.0, _FAR_OUT * np.median(length) / length)[:, None]
    return result


class _Draws:
    """E_q[g] by blocks and E_q[∇²L], with the engine going on at each draw from where it was a step before."""

    def __init__(self, objective: Objective, curved: Objective, bends: int) -> None:
        self.objective, self.curved, self.bends = objective, curved, bends
        self.even: list[FloatArray] = []  # mean slope of each pair of draws
        self._states: dict[tuple[int, int], Any] = {}

    def look(
        self, m: FloatArray, offsets: FloatArray, P: Precision, rate: float
    ) -> tuple[FloatArray, Precision | None, float]:
        """Mean slope of each half of the draws (2, F), P mixed with the mean curvature, and the share that failed."""
        totals, good = np.zeros((2, len(m))), np.zeros(2)
        self.even = []
        mean = self.curved.mean_precision()
        for k, offset in enumerate(offsets):
            block = 2 * k // len(offsets)
            pair = [self._at(k, sign, m + sign * offset) for sign in (1, -1)]
            if not all(np.isfinite(p.value) for p in pair):
                continue  # a pair counts only if both of its draws do
            if mean.count < 2 * self.bends and not self._bend(mean, pair):
                continue
            self.even.append(0.5 * (pair[0].gradient + pair[1].gradient))
            totals[block] += self.even[-1]
            good[block] += 1
        failed = 1.0 - float(good.sum()) / max(len(offsets), 1)
        found = None
        with contextlib.suppress(IndefiniteCurvature):
            found = mean.precision(P, rate) if mean.count else None
        return totals / np.maximum(good, 1)[:, None], found, failed

    def _at(self, k: int, sign: int, parameters: FloatArray) -> Point:
        point = self.objective.at(parameters, self._states.get((k, sign)))
        if np.isfinite(point.value):
            self._states[k, sign] = point.marginals.state
        return point

    def _bend(self, mean: MeanPrecision, pair: list[Point]) -> bool:
        """Add a pair's curvatures to the mean; False if there is none."""
        points = pair if self.curved is self.objective else [self.curved.at(p.parameters) for p in pair]
        try:
            mean.add(points)
        except IndefiniteCurvature:
            return False
        return True


class _SpreadChains:
    """Chains at all draws at once, going on from step to step."""

    def __init__(self, objective: FieldObjective, engine: Sampled, z: FloatArray) -> None:
        self.objective, self.z = objective, z
        self.quick = quick = objective.field.graph.binary_pairs
        per_draw = max(2 * _PER_DRAW if quick else _PER_DRAW, -(-engine.chains // len(z)))
        chains = per_draw * len(z)
        sweeps = min(engine.sweeps, max(_FEW_SWEEPS, (3 if quick else 1) * engine.sweeps * engine.chains // chains))
        self.engine = replace(engine, chains=chains, sweeps=sweeps, snapshots=_SNAPSHOTS if quick else 1, shrink=False)
        self.even = np.empty((0, z.shape[1]))  # mean slope of each pair of draws, but for a constant
        self._chains: Chains | None = None

    def look(self, m: FloatArray, P: Precision, brief: bool) -> tuple[FloatArray, FloatArray]:
        """Mean slope of each half of the draws, (2, F), and mean curvature."""
        o, known = self.objective, self.objective.field
        draws = m + P.draws(self.z.T).T
        thetas = np.array([known.design.potentials(draw) for draw in draws])
        data = np.array([o.statistic_at(draw) for draw in draws])
        engine = self.engine
        if brief and not self.quick:
            engine = replace(engine, sweeps=-(-engine.sweeps // _BRIEF), snapshots=1)
        self._chains = engine.spread(known.graph, thetas, self._chains)
        within = within_covariance(known.graph, known.design, self._chains.states, len(self.z))
        features = np.array([known.design.expectations(tables) for tables in self._chains.batch_means])
        self.even = o.weight * (features[0::2] + features[1::2] - data[0::2] - data[1::2]) / 2
        halves = zip(np.array_split(features, 2), np.array_split(data, 2), strict=True)
        slopes = np.array([o.gradient(m, f.mean(axis=0), d.mean(axis=0)) for f, d in halves])
        some = draws[: 2 * _CURVED] if isinstance(o, HiddenObjective) else draws[:1]
        guessed = np.mean(np.array([o.data_covariance(draw) for draw in some]), axis=0)
        return slopes, o.with_prior(within - guessed)


def sampled_variational(
    objective: FieldObjective,
    mode: FloatArray,
    precision: Precision,
    rng: np.random.Generator,
    watch: Watch | None = None,
) -> tuple[FloatArray, Precision, CorrectionRecord]:
    """Mean, precision, record, with chains spread over posterior draws; iterates are averaged after an approach."""
    if not isinstance(objective.engine, Sampled):
        raise TypeError("sampled_variational needs an objective with the Sampled engine")
    most = _MAX_DIRECTIONS if objective.field.graph.binary_pairs else _SOME_DIRECTIONS
    count = min(len(mode), most)
    frames = -(-_MIN_DIRECTIONS // max(count, 1))
    z = np.concatenate([orthogonal_draws(len(mode), count, frames, rng) for _ in range(2)])
    z = np.stack([z, -z], axis=1).reshape(-1, len(mode))  # pairs side by side; halves are blocks
    chains = _SpreadChains(objective, objective.engine, z)
    m, P, rate = mode.copy(), precision, _Rate(1.0)
    iterates: list[FloatArray] = []
    matrices: list[FloatArray] = []
    moves: list[FloatArray] = []
    evens: list[FloatArray] = []
    near, settled = False, False
    for step in range(_MAX_STEPS):
        slopes, found = chains.look(m, P, brief=step < _APPROACH)
        new = mixed(P, found, rate.value)
        both = new.solve(slopes.T).T
        m, P = m - rate.value * both.mean(axis=0), new
        _tell(watch, step, _length(both.mean(axis=0) / P.sd, many=True), rate.value)
        if len(iterates) < _AVERAGED:
            far = float(np.linalg.norm(both.mean(axis=0) / P.sd)) / np.sqrt(max(len(m), 1))
            near = near or (step >= _APPROACH and far < max(_NEAR, _spread(both, P.sd)))
            if not near:
                rate.after(both.mean(axis=0) / P.sd)
        if near or step >= _MAX_STEPS - _AVERAGED:
            iterates.append(m)
            matrices.append(found)
            moves.append(both)
            evens.append(_usual(P, chains.even))
            spread = _spread(np.array(iterates), P.sd) if len(iterates) >= _AVERAGED else np.inf
            settled = bool(near and spread < _FINER * objective.engine.error)
            if settled:
                break
    mean, P = np.mean(iterates, axis=0), DensePrecision(np.mean(matrices, axis=0))
    # one step's chains against the next one's, at the same draws: their Monte-Carlo noise has no covariance
    bubbles = [a.T @ b / (len(a) - 1) for a, b in itertools.pairwise(evens)]
    P = _widened(P, _quiet(P, bubbles))
    error = max(_spread(np.array(iterates), P.sd), _spread(np.mean(moves, axis=0), P.sd))
    return mean, P, correction_record("variational", mode, precision, mean, P, step + 1, error, settled)


def _tell(watch: Watch | None, step: int, distance: float, rate: float) -> None:
    if watch is not None:
        watch(Iteration(step, np.nan, np.nan, distance, rate))


class _Rate:
    """ρ, halved whenever a step turns back on the one before, for that has overshot; else it recovers."""

    def __init__(self, value: float) -> None:
        self.value, self._most, self._last = value, value, np.zeros(1)

    def after(self, step: FloatArray) -> None:
        turn = float(np.sum(step * self._last))
        if turn < 0.0:
            self.value = max(self.value / 2.0, _LEAST_RATE)
        elif turn > 0.0:
            self.value = min(_RECOVERY * self.value, self._most)
        self._last = step


def _spread(estimates: FloatArray, sd: FloatArray) -> float:
    """Standard error of the mean of (k, F) estimates, root mean square in posterior sd."""
    error = estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates)) / sd
    return float(np.sqrt(np.mean(error**2))) if len(sd) else 0.0


def orthogonal_draws(size: int, count: int, frames: int, rng: np.random.Generator) -> FloatArray:
    """(frames · count, size): orthogonal frames with the lengths of standard normal vectors, scaled to their mean."""
    bases = [linalg.qr(rng.standard_normal((size, count)), mode="economic")[0].T for _ in range(frames)]
    lengths = np.sqrt(rng.chisquare(max(size, 1), frames * count))
    lengths *= np.sqrt(size / np.mean(lengths**2)) if size else 1.0
    result: FloatArray = np.concatenate(bases) * lengths[:, None]
    return result
