"""The variational Gaussian from Gibbs chains, spread over draws λ of q, an equal share at each.

Their mean is then E_q[E_λ[f]], at the price of one sampled inference. A step's end m − P⁻¹E_q[g] is the optimum but for
the chains' noise, wherever it began nearby: ends are averaged, not iterates, which short steps would hold together.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bayesfield.correction.cumulants import Corrected, corrected
from bayesfield.correction.variational import (
    MANY,
    MAX_DIRECTIONS,
    MAX_STEPS,
    Rate,
    block,
    inflated,
    root_mean_square,
    shrunk,
    standard_error,
    tell,
    two_blocks,
    winsorised,
)
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.learning.search.optimum import QUIET, Progress
from bayesfield.response.sampled import within_covariance
from bayesfield.types import FloatArray

if TYPE_CHECKING:
    from bayesfield.inference.sampling.gibbs_chains import Chains
    from bayesfield.inference.sampling.sampled import Sampled
    from bayesfield.learning.objective import Objective
    from bayesfield.learning.phases.graph import GraphPhase
    from bayesfield.learning.precision.base import Precision

_RATE, _LEAST_RATE = 1.0, 0.3  # ρ at first, and at last where steps overshoot
_SOME_DIRECTIONS = 96  # in a frame where chains are not fast
_PER_DRAW = 64  # chains at each draw, at least; twice as many where they are fast, and parameters few
_FEW_SWEEPS = 10  # of so many chains, at least
_SNAPSHOTS = 4  # of their states, for the curvature, where chains are fast: one leaves widths of rare states rough, …
_MANY = 200  # parameters whose curvature takes longer than the chains; there …
_STATES, _PER_PARAMETER = 40_960, 10  # … so many states in a step are enough, and of the first while steps are long
_SHORT = 3  # times fewer sweeps in the first steps, which are long, where chains are not fast
_APPROACH = 3  # steps before their ends are averaged, at least, …
_HIDDEN = 8  # draws whose curvature of the hidden cells a step finds
_NEAR = 0.03  # … until one is shorter than that, root mean square in posterior sd, …
_LIKE_NOISE = 1.5  # … or than so many times its own noise
_AVERAGED = 4  # ends in the average, at least
_FINER = 0.18  # of the engine's error: 0.05 sd in every mean is six times the floor in CVM (23), 0.009 a quarter of it
_FINE = 0.5  # the same where chains are not fast, or parameters many, and a fourth of the steps must do


def sampled_variational(
    objective: Objective,
    mode: FloatArray,
    precision: Precision,
    rng: np.random.Generator,
    progress: Progress = QUIET,
    begun: Chains | None = None,
) -> Corrected:
    """For an objective whose free phase is sampled. begun: chains at the mode."""
    engine: Sampled = objective.free.engine
    most = MAX_DIRECTIONS if objective.free.graph.binary_pairs else _SOME_DIRECTIONS
    z = two_blocks(len(mode), block(len(mode), most), rng)
    z = np.stack([z, -z], axis=1).reshape(-1, len(mode))  # pairs side by side; halves are blocks
    chains = _SpreadChains(objective, engine, z, begun)
    wanted = (_FINER if chains.fast and len(mode) <= _MANY else _FINE) * engine.error
    m, P, rate, ends = mode.copy(), DensePrecision(precision.matrix()), Rate(_RATE, _LEAST_RATE), _Ends()
    step, settled = 0, False
    while step < MAX_STEPS and not settled and not (len(ends) and progress.expired):
        slopes, found = chains.look(m, P, short=step < _APPROACH)
        P = P.mixed(found, rate.value)
        both = P.solve(slopes.T).T
        move, noise = both.mean(axis=0), standard_error(both, P.sd)
        far = root_mean_square(move / P.sd)
        tell(progress, step, far, rate.value)
        near = step >= _APPROACH and far < max(_NEAR, _LIKE_NOISE * noise)
        if len(ends) or near or step >= MAX_STEPS - _AVERAGED or progress.expired:
            ends.add(m - both, found, winsorised(P, chains.even))
            settled = ends.error(P.sd) < wanted
        m = m - rate.value * move
        rate.after(move / P.sd, noise)
        step += 1
    mean, final = ends.mean, ends.precision()
    error = max(ends.error(final.sd), ends.error_of_draws(final.sd))
    settled = chains.mixed and (settled or (len(ends) > _AVERAGED and error < engine.error))
    return corrected("variational", mode, precision, mean, final, step, error, settled)


class _Ends:
    """Where steps near the optimum end, with the curvatures and the even slopes found there."""

    def __init__(self) -> None:
        self._ends: list[FloatArray] = []
        self._evens: list[FloatArray] = []
        self._curvature: FloatArray | float = 0.0  # their sum

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, halves: FloatArray, curvature: FloatArray, even: FloatArray) -> None:
        """halves: the step's end by each half of the draws, (2, F)."""
        self._ends.append(halves)
        if even.shape[1] <= MANY:
            self._evens.append(even)
        self._curvature = self._curvature + curvature

    @property
    def mean(self) -> FloatArray:
        result: FloatArray = np.mean(self._ends, axis=(0, 1))
        return result

    def precision(self) -> Precision:
        """Of one step's chains against the next one's, at the same draws, the Monte-Carlo noise has no covariance."""
        P = DensePrecision(np.asarray(self._curvature) / len(self))
        if P.size > MANY:  # a few hundred draws say little of what skewness adds to so many widths
            return P

        def bubbles() -> Iterator[FloatArray]:
            return (a.T @ b / (len(a) - 1) for a, b in itertools.pairwise(self._evens))

        return inflated(P, shrunk(P, bubbles, len(self) - 1))

    def error(self, sd: FloatArray) -> float:
        """Of the mean, by the chains."""
        return standard_error(np.mean(self._ends, axis=1), sd) if len(self) >= _AVERAGED else np.inf

    def error_of_draws(self, sd: FloatArray) -> float:
        """Of the mean, by the draws of q, which are the same at every step."""
        return standard_error(np.mean(self._ends, axis=0), sd)


class _SpreadChains:
    """Chains at all draws at once, continuing from step to step. fast: on binary pairs."""

    def __init__(self, objective: Objective, engine: Sampled, z: FloatArray, begun: Chains | None) -> None:
        self.objective, self.z, self._begun = objective, z, begun
        self.fast = fast = objective.free.graph.binary_pairs
        self._many = z.shape[1] > _MANY
        cheap = fast and not self._many
        per_draw = max(2 * _PER_DRAW if cheap else _PER_DRAW, -(-engine.chains // len(z)))
        chains = per_draw * len(z)
        sweeps = min(engine.sweeps, max(_FEW_SWEEPS, (3 if cheap else 1) * engine.sweeps * engine.chains // chains))
        snapshots = _SNAPSHOTS if cheap else 1
        enough = max(_STATES, _PER_PARAMETER * z.shape[1])
        self._every = max(1, min(chains // enough, per_draw // 8)) if self._many else 1
        self.engine = replace(engine, chains=chains, sweeps=sweeps, snapshots=snapshots, shrink=False)
        self.even = np.empty((0, z.shape[1]))  # mean slope of each pair of draws, but for a constant
        self._chains: Chains | None = None
        self._looks = 0
        self._within: FloatArray | None = None

    @property
    def mixed(self) -> bool:
        """Whether the chains forget where they were at these draws of the parameters, on the whole."""
        mixing = None if self._chains is None else self._chains.mixing
        return mixing is None or mixing.mixed

    def look(self, m: FloatArray, P: Precision, short: bool) -> tuple[FloatArray, FloatArray]:
        """Mean slope of each half of the draws, (2, F), and mean curvature."""
        o = self.objective
        phase: GraphPhase = o.free
        draws = m + P.draws(self.z.T).T
        data = np.array([o.observed_mean(draw) for draw in draws])
        engine = self.engine
        if short and not self.fast:
            engine = replace(engine, sweeps=-(-engine.sweeps // _SHORT), snapshots=1)
        elif short and self._many:
            engine = replace(engine, snapshots=1)
        thetas = phase.design.potentials_many(draws)
        if self._chains is None and self._begun is not None:
            self._chains = self.engine.beside(phase.graph, thetas, self._begun)
        self._chains = engine.spread(phase.graph, thetas, self._chains)
        if not (short and self._many) or self._within is None:  # while steps are long, any curvature nearby does
            states = self._chains.states[:, :: self._every]
            self._within = within_covariance(phase.graph, phase.design, states, len(self.z))
        means = phase.weight * phase.design.expectations_many(self._chains.batch_means)
        self.even = (means[0::2] + means[1::2] - data[0::2] - data[1::2]) / 2
        halves = zip(np.array_split(means, 2), np.array_split(data, 2), strict=True)
        slopes = np.array([f.mean(axis=0) - d.mean(axis=0) + o.prior.pull(m) for f, d in halves])
        some = draws[:1]
        if len(o.phases) > 1:  # others in each step, which are averaged
            some = np.roll(draws, -_HIDDEN * self._looks, axis=0)[:_HIDDEN]
        self._looks += 1
        guessed = np.mean(np.array([o.observed_covariance(draw) for draw in some]), axis=0)
        return slopes, o.sampled_precision(self._within, guessed)
