"""Contrastive divergence (Hinton 2002) and its persistent form (Younes 1988, Tieleman 2008).

Each step moves λ along an estimate of the slope of the log posterior,

    N (f̄ − E_chains[f]) − Λ⁻¹ (λ − μ),

with E over Gibbs chains that are a few sweeps long. CD starts them at the data every time: little noise, but its fixed
point is not the MAP; the bias falls with the number of sweeps. PCD goes on from where the chains were: no bias as the
steps grow small. Steps fall as γ_t = rate/(1 + t/t₀)^decay, slower than 1/t, so that the mean of the later iterates has
the smallest error that any schedule reaches (Polyak & Juditsky 1992).

Steps start at the pseudo-likelihood's optimum and are scaled by a matrix from there and from the data (_scale), so that
directions that a diagonal would leave slow (dense 0/1 fields, where x_i x_j nearly repeats x_i) are not. For very many
parameters a rough diagonal from the data's frequencies stands in for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesfield import parallel
from bayesfield.graph.compiled import CompiledField, features, local_variances
from bayesfield.graph.structure import counts
from bayesfield.inference.sampling import gibbs_chains as gibbs
from bayesfield.learning.objective import Objective, Point
from bayesfield.learning.phases.composite import composite_objective
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.learning.search.kept_newton import composite_map
from bayesfield.learning.search.learner import Learned, Learner, Request
from bayesfield.learning.search.optimum import QUIET, Iteration, Optimum, Progress
from bayesfield.types import FloatArray, IntArray, InvalidInput, Options, Outcome, Status

if TYPE_CHECKING:
    from bayesfield.learning.phases.cases import Cases

_FEWEST, _MOST = 512, 10_000  # chains, where their number is not given: one for each case within these
_DENSE = 4000  # parameters up to which steps are scaled by a full matrix
_SITES = 4_000_000  # of all chains, where a case has very many: a union of labelled graphs
_GROUP = 256  # chains that one thread takes at a time, on any number of cores
_BATCHES = 10  # of iterates: the spread of their means is the Monte-Carlo error
_WARM = 20  # sweeps of persistent chains from the data before the first step
_NUMBERS = 20_000_000  # in the matrix of the data's features
_ROUNDS = 30  # of power iteration
_LONGEST = 2.0  # standard deviations: longest step of any parameter
_SETTLED = 0.1  # standard deviations: Monte-Carlo error of the average at which it counts as converged


@dataclass(frozen=True, repr=False)
class ContrastiveDivergence(Options, Learner):
    """Fit by stochastic gradients with short Gibbs chains: ``bf.fit(..., method=bf.ContrastiveDivergence(sweeps=10))``.

    sweeps: of the chains in each step. persistent: chains go on from step to step (PCD) instead of starting at the data
    (CD, which is biased). steps: how many; the second half is averaged. rate: the first step's length, as a share of
    the longest that is stable; decay: power of its fall. chains: by default one for each case, from 512 to 10,000.
    """

    sweeps: int = 1
    persistent: bool = False
    steps: int = 1000
    rate: float = 1.0
    decay: float = 0.6
    chains: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.sweeps < 1 or self.steps < 2 * _BATCHES or (self.chains is not None and self.chains < 2):
            raise InvalidInput(
                f"contrastive divergence takes at least 1 sweep, 2 chains and {2 * _BATCHES} steps; got {self!r}"
            )
        if not 0.0 < self.rate < 2.0 or not 0.0 <= self.decay < 1.0:
            raise InvalidInput(f"rate lies between 0 and 2 and decay in [0, 1); got {self.rate} and {self.decay}")

    @property
    def name(self) -> str:
        return "pcd" if self.persistent else "cd"

    def learn(self, objective: Objective, request: Request) -> Learned:
        return Learned(contrastive_divergence(objective, self, request.start, request.progress))


class _Walk(NamedTuple):
    """Chains in motion: where they stand, their generators, and the cases that they can start from."""

    states: NDArray[np.int32]
    seeds: NDArray[np.uint64]
    rng: np.random.Generator


def contrastive_divergence(
    objective: Objective,
    options: ContrastiveDivergence,
    start: FloatArray | None = None,
    progress: Progress = QUIET,
) -> Optimum:
    """The average of the later iterates. The residual of its status is its Monte-Carlo error in standard deviations."""
    cases = objective.data.cases
    if not objective.size or not cases.weight:
        return Optimum(_point(objective.prior.location), Status(Outcome.OPTIMUM), ())
    begun, scale = _scale(objective)
    here = begun if start is None else start
    walk = _chains(cases, options, here)
    kept: list[FloatArray] = []
    log: list[Iteration] = []
    for t in range(options.steps):
        slope = _slope(objective, options, here, walk)
        rate = options.rate * scale.rate / (1.0 + 10.0 * t / options.steps) ** options.decay
        step = scale.solve(slope)
        rate = min(rate, _LONGEST / max(float(np.abs(step / scale.sd).max()), 1e-300))
        here = here + rate * step
        distance = float(np.sqrt(max(float(slope @ step), 0.0)))
        log.append(Iteration(t, float("nan"), float(np.abs(slope).max()), distance, rate))
        progress.tell(log[-1])
        if 2 * t >= options.steps or progress.expired:
            kept.append(here)
        if progress.expired:
            break
    mean: FloatArray = np.mean(kept, axis=0)
    if len(log) < options.steps:
        return Optimum(_point(mean), Status(Outcome.TIME_UP, len(log)), tuple(log))
    return Optimum(_point(mean), _status(cases, kept, scale, options), tuple(log))


def _slope(objective: Objective, options: ContrastiveDivergence, here: FloatArray, walk: _Walk) -> FloatArray:
    """−∇L, with E[f] from the chains.

    CD-k: the features of the states after k sweeps, against those of the states before. PCD: Rao-Blackwellised means
    over all sweeps, which are as unbiased and less noisy.
    """
    cases = objective.data.cases
    compiled_field: CompiledField = cases.field
    weight: float = cases.weight
    rest = objective.statistic - objective.prior.pull(here)
    thetas = np.broadcast_to(compiled_field.design.potentials(here), (_groups(walk), compiled_field.graph.n_entries))
    if options.persistent:
        sums = gibbs.run(compiled_field.graph, thetas, walk.states, walk.seeds, options.sweeps)
        tables = gibbs.normalised(compiled_field.graph.arrays, sums.sum(axis=0, keepdims=True))[0]
        return rest - weight * compiled_field.design.expectations(tables)
    walk.states[:] = _cases(cases.codes, len(walk.states), walk.rng)
    before = counts(compiled_field.graph, walk.states)
    gibbs.run(compiled_field.graph, thetas, walk.states, walk.seeds, options.sweeps, count=False)
    moved = compiled_field.design.expectations(counts(compiled_field.graph, walk.states) - before) / len(walk.states)
    return -weight * moved - objective.prior.pull(here)


def _cases(codes: IntArray, size: int, rng: np.random.Generator) -> IntArray:
    """So many cases: all of them equally often, as far as that goes, and the rest at random."""
    whole, rest = divmod(size, len(codes))
    some = rng.choice(len(codes), rest, replace=False) if rest else np.empty(0, dtype=np.int64)
    result: IntArray = codes[np.concatenate([np.tile(np.arange(len(codes)), whole), some])]
    return result


def _chains(cases: Cases, options: ContrastiveDivergence, here: FloatArray) -> _Walk:
    fewest = max(2, min(_FEWEST, _SITES // max(cases.codes.shape[1], 1)))
    size = options.chains or int(np.clip(len(cases.codes), fewest, _MOST))
    rng = np.random.default_rng(options.seed)
    states = _cases(cases.codes, size, rng).astype(np.int32)
    walk = _Walk(states, parallel.chain_seeds(options.seed, size), rng)
    if options.persistent:
        graph, theta = cases.field.graph, cases.field.design.potentials(here)
        gibbs.run(graph, np.broadcast_to(theta, (_groups(walk), len(theta))), states, walk.seeds, _WARM, False)
    return walk


def _groups(walk: _Walk) -> int:
    return -(-len(walk.states) // _GROUP)


# --- the scale of the steps -----------------------------------------------------------------------------------------


class _Scale(NamedTuple):
    """S⁻¹ · vector, the standard deviations of the parameters, roughly, and the rate that λ_max(S⁻¹P) allows.

    rough: S is diagonal.
    """

    solve: Callable[[FloatArray], FloatArray]
    sd: FloatArray
    rate: float
    rough: bool


def _scale(objective: Objective) -> tuple[FloatArray, _Scale]:
    """Where to start, and how to scale the steps.

    S is the sum of H, the pseudo-likelihood's curvature, and of N Cov(f) in the data, and of Λ⁻¹. Alone, neither would
    do: data that never vary in some direction say nothing of its curvature, and H misses collective moves (on a 3×3
    grid with couplings of 0.5, measured: eigenvalues of H⁻¹P from 0.5 to 1.6, and one of 10). With the sum the
    eigenvalues of S⁻¹P stay below 1 and few are below a third.
    """
    cases = objective.data.cases
    near = composite_objective(cases, objective.prior)
    found = composite_map(near, objective.prior.location, 1e-3)
    f = _centred_features(cases)
    if objective.size > _DENSE:
        return found.parameters, _diagonal_scale(objective, f)
    alone = DensePrecision(near.curvature(found.point))
    both = DensePrecision(alone.matrix() + cases.weight / len(f) * (f.T @ f))
    return found.parameters, _Scale(both.solve, alone.sd, 1.0, rough=False)


def _diagonal_scale(objective: Objective, f: FloatArray) -> _Scale:
    """S = diag(N Var(f) + Λ⁻¹) with variances as if tables knew nothing of one another.

    λ_max(S⁻¹P), with the data's covariance in P, by power iteration, which comes from below.
    """
    cases, prior = objective.data.cases, objective.prior
    own = local_variances(cases.field.graph, cases.field.design, cases.frequencies())
    diagonal = cases.weight * own + prior.diagonal
    vector = np.random.default_rng(0).standard_normal(len(diagonal))
    largest = 1.0
    for _ in range(_ROUNDS):
        vector = (cases.weight / len(f) * (f.T @ (f @ vector)) + prior.times(vector)) / diagonal
        largest = float(np.linalg.norm(vector))
        vector /= largest
    return _Scale(lambda v: v / diagonal, 1.0 / np.sqrt(diagonal), 1.0 / max(1.2 * largest, 1.0), rough=True)


def _centred_features(cases: Cases) -> FloatArray:
    """Of as many of the cases, evenly spread, as fit a matrix of moderate size, (·, F)."""
    known, codes = cases.field, cases.codes
    most = max(100, min(_MOST, _NUMBERS // known.design.matrix.shape[1]))
    f = features(known.graph, known.design, codes[:: -(-len(codes) // most)])
    centred: FloatArray = f - f.mean(axis=0)
    return centred


# --- how it ended ---------------------------------------------------------------------------------------------------


def _status(cases: Cases, kept: list[FloatArray], scale: _Scale, options: ContrastiveDivergence) -> Status:
    """The error of the average from the spread of batch means, which a drift that is left widens too.

    On a diagonal scale some directions may be slower than a batch is long, and the error then comes out too small (by a
    factor of four on a complete graph of eight 0/1 variables, measured).
    """
    means = np.array([np.mean(part, axis=0) for part in np.array_split(np.array(kept), _BATCHES)])
    error = float(np.sqrt(np.mean((means.std(axis=0, ddof=1) / scale.sd) ** 2) / _BATCHES))
    detail = "the residual is the Monte-Carlo error in posterior sd"
    if error > _SETTLED:
        detail += ": too large, take more steps or chains"
    if scale.rough:
        detail += "; slow directions may not show in it"
    if np.isneginf(cases.field.design.offset).any():
        detail += "; forbidden states may keep apart what chains of single moves should join"
    if not options.persistent:
        detail += f"; CD-{options.sweeps} has a bias of its own, which posterior.check() measures"
    return Status(Outcome.OPTIMUM if error <= _SETTLED else Outcome.NO_OPTIMUM, options.steps, error, detail)


def _point(parameters: FloatArray) -> Point:
    """The average as a point: chains know neither the objective's value nor, at the average, its slope."""
    status = Status(Outcome.SAMPLED, detail="by the learner's own chains")
    return Point(parameters, float("nan"), np.full(len(parameters), np.nan), status)
