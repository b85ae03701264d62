"""The pseudo-likelihood of cases with holes: the scores of complete cases, averaged over what the holes may hold.

With s(x; λ) the score of a complete case, o_n what case n shows, and q_n(h; λ) = p(h | o_n, λ) the model's own
conditional of its holes, λ̂ solves

    U(λ) = Σ_n E_q[s(x; λ) | o_n] − Λ⁻¹(λ − μ) = 0.

At the truth E[s] = 0, and where cells are missing at random (by what is observed) p(h | o, pattern) = p(h | o), so that
E[U] = E[s] = 0: the equation is unbiased. Conditionals of the observed cells alone, p(x_i | observed rest), would be so
only where missing says nothing of x_i. U is no gradient; its derivative is, with f the features of a case,

    −∂U/∂λ = A = Σ_n E_q[H_n] + Λ⁻¹ − Σ_n Cov_q(s, f | o_n),     V = A⁻¹ (J + Λ⁻¹) A⁻ᵀ,  J = Σ_n ū_n ū_nᵀ

ū_n = E_q[s | o_n] centred. Few holes are summed over exactly; of more, draws stand for them. Draws made at λ₀ count
by exp(θ_λ(x) − θ_λ₀(x)), so that U stays a smooth function; their noise is part of ū_n, and so of J.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from bayesfield import parallel
from bayesfield.graph.structure import distinct_rows, offsets
from bayesfield.kernels import tables
from bayesfield.kernels.likelihood import completions as kernel
from bayesfield.learning.objective import Objective
from bayesfield.learning.phases.blocks import block_arrays
from bayesfield.learning.phases.composite import composite_objective
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.learning.search.minimise import Log, ended, newton
from bayesfield.learning.search.optimum import Optimum, Progress
from bayesfield.types import BoolArray, FloatArray, IntArray, Outcome

if TYPE_CHECKING:
    from bayesfield.learning.objective import GaussianPrior, Point
    from bayesfield.learning.phases.cases import Cases
    from bayesfield.learning.phases.conditionals import CompositePhase

SUMMED = 64  # joint states of a case's holes up to which they are summed over
DRAWN = 32  # draws of the holes of every other case
_SWEEPS = 20  # of each chain before a draw
_ROUNDS = 6  # in which holes are drawn and parameters found in turn, before draws are weighted
_HALVINGS = 12


@dataclass(frozen=True, eq=False)
class Completions:
    """Cases as complete ones. objective: of all of them, (K, n). owner: (K,) the case of each. log_base: (K,), what
    log q has beside the energy. weights: (M,) of the cases. drawn: (K,) which are draws. holes: (K, n) of these."""

    objective: Objective
    owner: IntArray
    log_base: FloatArray
    weights: FloatArray
    drawn: BoolArray
    holes: BoolArray

    def shares(self, parameters: FloatArray) -> FloatArray:
        """(K,) q of each completion of its case."""
        energy = self.energies(parameters) + self.log_base
        top = np.full(len(self.weights), -np.inf)
        np.maximum.at(top, self.owner, energy)
        raised = np.exp(energy - top[self.owner])
        result: FloatArray = raised / np.bincount(self.owner, raised, minlength=len(top))[self.owner]
        return result

    def energies(self, parameters: FloatArray) -> FloatArray:
        phase: CompositePhase = self.objective.free
        out = np.zeros(len(self.owner))
        theta = phase.field.design.potentials(parameters)

        def part(rows: slice) -> None:
            tables.energies(phase.field.graph.arrays, theta, phase.distinct[rows], out[rows])

        parallel.thread_map(part, phase.parts())
        return out

    def weighted(self, shares: FloatArray) -> Objective:
        """The composite likelihood of the completions, each counting for its share."""
        phase = replace(self.objective.free, counts=shares * self.weights[self.owner])
        return replace(self.objective, phases=(phase,))

    def redrawn(self, parameters: FloatArray, seed: int) -> Completions:
        """Chains of the draws continue at these parameters, by which they then count alike."""
        phase: CompositePhase = self.objective.free
        some, codes = np.flatnonzero(self.drawn), phase.distinct.copy()
        theta = phase.field.design.potentials(parameters)
        sites = block_arrays(phase.field, [[i] for i in range(codes.shape[1])])
        seeds = np.random.default_rng(seed).integers(1, 2**63, size=(len(some), 2), dtype=np.uint64)
        moved = codes[some]

        def part(span: tuple[int, int]) -> None:
            rows = slice(*span)
            g = phase.field.graph.arrays
            kernel.sweep_holes(g, sites, theta, self.holes[rows], _SWEEPS, seeds[rows], moved[rows])

        parallel.thread_map(part, parallel.shares(0, len(some), least=256))
        codes[some] = moved
        free = replace(phase, distinct=codes)
        new = replace(self, objective=replace(self.objective, phases=(free,)), log_base=np.zeros(len(self.owner)))
        return replace(new, log_base=np.where(self.drawn, -new.energies(parameters), 0.0))


def completions(cases: Cases, prior: GaussianPrior, block: int) -> Completions:
    """Of every distinct case; draws not yet drawn."""
    g = cases.field.graph.arrays
    where, which = distinct_rows(cases.codes)
    weights = np.bincount(which, cases.weights, minlength=len(where)).astype(np.float64)
    codes = np.ascontiguousarray(cases.codes[where])
    count = np.zeros(len(codes), dtype=np.int64)
    kernel.count_states(codes, g.cardinality, SUMMED, count)
    many = count > SUMMED
    count[many] = DRAWN
    ptr = offsets(count)
    owner = np.repeat(np.arange(len(codes)), count)
    drawn = many[owner]
    filled = np.empty((len(owner), codes.shape[1]), dtype=codes.dtype)
    kernel.fill_states(codes, g.cardinality, ptr, filled)
    filled[drawn] = codes[owner[drawn]]
    holes = filled[drawn] < 0
    whole = replace(cases, codes=np.maximum(filled, 0), clamped=None, weights=None, weight=float(weights.sum()))
    near = composite_objective(whole, prior, block)
    phase = replace(near.free, distinct=filled, counts=weights[owner] / count[owner])
    return Completions(
        replace(near, phases=(phase,)), owner, np.zeros(len(owner)), weights, drawn, np.ascontiguousarray(holes)
    )


def solve_with_holes(
    cases: Cases, prior: GaussianPrior, block: int, start: FloatArray, tolerance: float, limit: int, progress: Progress
) -> tuple[Completions, Optimum]:
    """λ̂ with U(λ̂) = 0, and the completions there."""
    known, here = completions(cases, prior, block), start
    if known.drawn.any():
        for k in range(_ROUNDS):
            known = known.redrawn(here, k)
            here = np.asarray(newton(known.weighted(known.shares(here)), here, 1e-2, limit).parameters)
        here = _root(known, here, 1e-2, limit, Log(progress))[0].parameters
        known = known.redrawn(here, _ROUNDS)
    log = Log(progress)
    point, outcome = _root(known, here, tolerance, limit, log)
    return known, ended(outcome, point, log)


def _root(known: Completions, start: FloatArray, tolerance: float, limit: int, log: Log) -> tuple[Point, Outcome]:
    """Newton's method for U = 0; a step that does not bring U closer to zero, by P⁻¹, is halved."""
    shares = known.shares(start)
    objective = known.weighted(shares)
    point = objective.at(start)
    for _ in range(limit):
        scale = DensePrecision(objective.curvature(point))
        distance = _length(scale, point.gradient)
        if distance <= tolerance:
            log.add(point, distance, 0.0)
            return point, Outcome.OPTIMUM
        direction = -linalg.solve(bread(known, point, shares), point.gradient)
        step = 1.0
        for _ in range(_HALVINGS):
            there = point.parameters + step * direction
            shares = known.shares(there)
            objective = known.weighted(shares)
            new = objective.at(there)
            if _length(scale, new.gradient) < distance:
                break
            step /= 2.0
        log.add(point, distance, step)
        if not _length(scale, new.gradient) < distance:
            return point, Outcome.OPTIMUM if distance <= 1e-6 else Outcome.NO_OPTIMUM
        point = new
    return point, Outcome.NO_OPTIMUM


def _length(scale: DensePrecision, gradient: FloatArray) -> float:
    return float(np.sqrt(max(float(gradient @ scale.solve(gradient)), 0.0)))


def bread(known: Completions, point: Point, shares: FloatArray) -> FloatArray:
    """A = −∂U/∂λ, (F, F), not symmetric. point: of the weighted objective."""
    objective = known.weighted(shares)
    phase: CompositePhase = objective.free
    A = objective.curvature(point)
    several = np.flatnonzero(np.bincount(known.owner, minlength=len(known.weights))[known.owner] > 1)
    theta = point.answers[0].found
    for rows in _whole_cases(known.owner[several]):
        some = several[rows]
        own = known.owner[some] - known.owner[some[0]]
        s = replace(phase, distinct=phase.distinct[some]).scores(theta)
        f = _features(phase, phase.distinct[some])
        mean = _case_sums(own, shares[some][:, None] * f)
        A -= s.T @ (phase.counts[some][:, None] * (f - mean[own]))
    return A


def score_middle(known: Completions, point: Point, shares: FloatArray) -> FloatArray:
    """J = Σ_n (ū_n − ū)(ū_n − ū)ᵀ."""
    phase: CompositePhase = known.weighted(shares).free
    prior, theta = known.objective.prior, point.answers[0].found
    mean = (prior.pull(point.parameters) - point.gradient) / max(float(known.weights.sum()), 1.0)
    total = np.zeros((len(mean), len(mean)))
    for rows in _whole_cases(known.owner):
        own = known.owner[rows] - known.owner[rows.start]
        s = shares[rows][:, None] * replace(phase, distinct=phase.distinct[rows]).scores(theta)
        first = int(known.owner[rows.start])
        centred = _case_sums(own, s) - mean
        centred *= np.sqrt(known.weights[first : first + len(centred)])[:, None]
        total += centred.T @ centred
    return total


def _case_sums(own: IntArray, values: FloatArray) -> FloatArray:
    """(cases, F) sums over the completions of each; own ascending from 0, some numbers may be missing."""
    out = np.zeros((int(own[-1]) + 1, values.shape[1]))
    begins = np.flatnonzero(np.diff(own, prepend=-1))
    out[own[begins]] = np.add.reduceat(values, begins, axis=0)
    return out


def _whole_cases(owner: IntArray, size: int = 1024) -> list[slice]:
    """Rows in shares of about that many, none of which parts a case."""
    cuts = [0]
    while cuts[-1] < len(owner):
        last = min(cuts[-1] + size, len(owner))
        if last < len(owner):
            last = int(np.searchsorted(owner, owner[last], side="left"))
            last = last if last > cuts[-1] else int(np.searchsorted(owner, owner[cuts[-1]], side="right"))
        cuts.append(last)
    return [slice(a, b) for a, b in itertools.pairwise(cuts)]


def _features(phase: CompositePhase, codes: IntArray) -> FloatArray:
    """f(x) of complete cases, (N, F)."""
    g, A = phase.field.graph.arrays, phase.field.design.matrix
    entries = np.empty((len(codes), len(g.cardinality) + len(g.table_ptr) - 1), dtype=np.int64)
    tables.entries(g, codes, entries)
    out = np.zeros((len(codes), A.shape[1]))
    kernel.add_features(entries, A.indptr, A.indices, A.data, out)
    return out
