"""Iterative scaling with a Gaussian prior: each round minimises an upper bound of L in which parameters come apart.

Shift the features of every table so that none is negative, f' = f + const ≥ 0; that changes log Z by a term linear in λ
which f̄' takes back. With C ≥ Σ_k f'_k(x) for all x, convexity of the exponential gives for a move δ

    L(λ + δ) − L(λ) ≤ Σ_k [ N E[f'_k] (e^{Cδ_k} − 1)/C − N f̄'_k δ_k + p_k δ_k + ½ d_k δ_k² ],

with p = Λ⁻¹(λ − μ) and d the diagonal of Λ⁻¹, or, for a full matrix, the sums of its rows' absolute values, since
δᵀΛ⁻¹δ ≤ Σ_k d_k δ_k². Both sides touch at δ = 0, so L falls in every round. Without prior the minimum is
δ_k = log(f̄'_k / E[f'_k])/C, generalised iterative scaling (Darroch & Ratcliff 1972). Taking one factor's parameters
at a time makes C small; for a table of indicators C = 1, and this is iterative proportional fitting (Deming & Stephan
1940).

The rounds converge linearly, and slowly where C is large. SQUAREM (Varadhan & Roland 2008) extrapolates two of them;
what it proposes is taken only where L is below what the first of the two had reached, so L still never rises.
Measured on a 4×4 grid: 91 rounds in place of 10,194 to the same nine digits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from bayesfield.graph.compiled import CompiledField
from bayesfield.learning.objective import Objective, Point
from bayesfield.learning.search.learner import Learned, Learner, Request
from bayesfield.learning.search.minimise import Log
from bayesfield.learning.search.optimum import QUIET, Optimum, Progress
from bayesfield.types import FloatArray, GraphArrays, IntArray, InvalidInput, Options, Outcome, Status

_ROOT = 60  # Newton steps of a one-dimensional solve, at most: it has some ten
_LEAST = 1e-100  # of C, where no feature varies
_ROUNDING = 1e-14  # of L: a rise below it cannot be told from none
_STRETCH = 4.0  # by how much the longest extrapolation grows when it is reached, and shrinks when it fails


@dataclass(frozen=True, repr=False)
class IterativeScaling(Options, Learner):
    """Fit by iterative scaling: ``bf.fit(..., method=bf.IterativeScaling(by="factor"))``.

    by: "all" parameters in parallel (generalised iterative scaling), or one "factor" after the other (iterative
    proportional fitting). accelerate: extrapolate pairs of rounds by SQUAREM. rounds: budget.
    """

    by: str = "all"
    accelerate: bool = True
    rounds: int = 20_000

    def __post_init__(self) -> None:
        if self.by not in ("all", "factor"):
            raise InvalidInput(f'by is "all" or "factor"; got {self.by!r}')
        if self.rounds < 1:
            raise InvalidInput(f"rounds must be above zero; got {self.rounds}")

    name = "iterative_scaling"
    at_mode = True
    needs_log_z = True

    def learn(self, objective: Objective, request: Request) -> Learned:
        start = request.start if request.start is not None else objective.prior.location
        return Learned(iterative_scaling(objective, start, self, request.tolerance, request.progress))


class _Group(NamedTuple):
    """Parameters that move together: their numbers, their features' shifts, and C."""

    parameters: IntArray
    shift: FloatArray
    total: float


def iterative_scaling(
    objective: Objective,
    start: FloatArray,
    options: IterativeScaling,
    tolerance: float,
    progress: Progress = QUIET,
) -> Optimum:
    """The optimum, within about ``tolerance`` posterior standard deviations in every parameter."""
    groups = scaling_groups(objective.data.cases.field, options.by)
    point = objective.at(start)
    log, variances = Log(progress), objective.variances(point)
    longest = 1.0
    while len(log.items) < options.rounds and not (log.items and progress.expired):
        log.add(point, _distance(point, variances), 1.0)
        if log.items[-1].distance <= tolerance or not np.isfinite(point.value):
            break
        first = objective.at(_round(objective, groups, point))
        if not np.isfinite(first.value):
            break
        if not options.accelerate:
            point = first
            continue
        log.add(first, _distance(first, variances), 1.0)
        second = _round(objective, groups, first)
        point, longest = _extrapolated(objective, point, first, second, longest)
    status = _status(log, point, tolerance, options)
    if not status.converged and progress.expired:
        status = replace(status, outcome=Outcome.TIME_UP, detail="")
    return Optimum(point, status, tuple(log.items))


def _distance(point: Point, variances: FloatArray) -> float:
    """To the optimum, in units of a rough width."""
    return float(np.sqrt(np.sum(point.gradient**2 / variances)))


def _status(log: Log, point: Point, tolerance: float, options: IterativeScaling) -> Status:
    gradient, items, history = float(np.abs(point.gradient).max(initial=0.0)), log.items, log.gradients()
    if np.isfinite(point.value) and items[-1].distance <= tolerance:
        return Status(Outcome.OPTIMUM, len(items), gradient, history=history)
    detail = "the engine's inference did not converge on the way"
    if len(items) >= options.rounds:
        detail = f"{options.rounds:,} rounds were not enough: take bf.IterativeScaling(rounds=…)"
    return Status(Outcome.NO_OPTIMUM, len(items), gradient, detail, history)


class _Lows(NamedTuple):
    """For every table and parameter in it: their numbers, and the least value that the feature takes in the table."""

    table: IntArray
    parameter: IntArray
    low: FloatArray


def scaling_groups(compiled_field: CompiledField, by: str) -> list[_Group]:
    """All parameters, or those of each table that no earlier one has, with the bound C of each group.

    C is a sum over tables of the largest Σ_k f'_k in the table. Where the graph falls into components log Z is a sum
    over them, each with a bound of its own, and the largest C of any serves all.
    """
    g, A = compiled_field.graph.arrays, compiled_field.design.matrix
    sizes = np.concatenate([g.cardinality, np.diff(g.table_ptr)])
    owner = np.repeat(np.arange(len(sizes)), sizes)
    lows, component = _lows(A.tocoo(), owner, sizes), _components(g)
    of_parameter = np.zeros(A.shape[1], dtype=np.int64)
    if by == "factor":
        first = np.full(A.shape[1], len(sizes), dtype=np.int64)
        np.minimum.at(first, lows.parameter, lows.table)
        of_parameter = np.unique(first, return_inverse=True)[1].reshape(-1)
    shift = -np.bincount(lows.parameter, weights=lows.low, minlength=A.shape[1])
    groups = []
    for k in range(int(of_parameter.max(initial=-1)) + 1):
        member = of_parameter == k
        own = member[lows.parameter]
        lift = -np.bincount(lows.table[own], weights=lows.low[own], minlength=len(sizes))
        sums = A @ member.astype(np.float64) + lift[owner]
        tops = np.maximum.reduceat(sums, np.cumsum(sizes) - sizes)
        bound = float(np.bincount(component, tops).max(initial=0.0))
        groups.append(_Group(np.flatnonzero(member), shift[member], max(bound, _LEAST)))
    return groups


def _components(g: GraphArrays) -> IntArray:
    """The connected component of every table: variables, then factors."""
    n, first = len(g.cardinality), g.scope[g.scope_ptr[:-1]]
    links = sparse.coo_array((np.ones(len(g.scope)), (np.repeat(first, np.diff(g.scope_ptr)), g.scope)), shape=(n, n))
    component = connected_components(links, directed=False)[1].astype(np.int64)
    return np.concatenate([component, component[first]])


def _lows(entries: Any, owner: IntArray, sizes: IntArray) -> _Lows:
    """Entries that the design leaves out are zeros, and count."""
    width = max(entries.shape[1], 1)
    pairs, pair = np.unique(owner[entries.row] * width + entries.col, return_inverse=True)
    table, parameter = np.divmod(pairs, width)
    low = np.full(len(pairs), np.inf)
    np.minimum.at(low, pair, entries.data)
    left_out = np.bincount(pair, minlength=len(pairs)) < sizes[table]
    return _Lows(table, parameter, np.where(left_out, np.minimum(low, 0.0), low))


def _round(objective: Objective, groups: list[_Group], point: Point) -> FloatArray:
    """Every group moved to the minimum of its bound; beliefs are found anew after each but the last."""
    curvature = objective.prior.bound
    for k, group in enumerate(groups):
        mean = point.answers[0].mean[group.parameters]
        expected = np.maximum(objective.free.weight * (mean + group.shift), 0.0)
        moved = point.parameters.copy()
        slope = point.gradient[group.parameters]
        moved[group.parameters] += _lowest(expected, slope, curvature[group.parameters], group.total)
        if k + 1 < len(groups):
            point = objective.at(moved, point.state)
    return moved if groups else point.parameters


def _lowest(expected: FloatArray, slope: FloatArray, curvature: FloatArray, total: float) -> FloatArray:
    """The root δ of a (e^{Cδ} − 1) + g + d δ, for a = N E[f'] ≥ 0 and d > 0.

    The function rises and is convex, so Newton's steps from the right of the root fall towards it without
    overshooting, and stopping early still lowers the bound. To the right are 0 where g > 0; else Newton's step from 0
    and the root without d, of which the lesser.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        without = np.where(expected > 0.0, np.log1p(np.maximum(-slope, 0.0) / expected) / total, np.inf)
    delta = np.where(slope < 0.0, np.minimum(without, -slope / (expected * total + curvature)), 0.0)
    for _ in range(_ROOT):
        grown = expected * np.exp(total * delta)
        step = (expected * np.expm1(total * delta) + slope + curvature * delta) / (grown * total + curvature)
        delta = delta - step
        if (np.abs(step) <= 1e-15 + 1e-14 * np.abs(delta)).all():
            break
    return delta


def _extrapolated(
    objective: Objective, point: Point, first: Point, second: FloatArray, longest: float
) -> tuple[Point, float]:
    """λ₀ + 2αr + α²v for the moves r and r + v of two rounds; their end (α = 1) where L would not fall.

    longest: of α; also returned, larger or smaller.
    """
    r = first.parameters - point.parameters
    v = second - first.parameters - r
    bend = float(np.linalg.norm(v))
    stretch = min(max(float(np.linalg.norm(r)) / bend, 1.0), longest) if bend > 0.0 else 1.0
    grown = longest * _STRETCH if stretch == longest else longest
    if stretch == 1.0:
        return objective.at(second, first.state), grown
    new = objective.at(point.parameters + 2.0 * stretch * r + stretch**2 * v, first.state)
    if new.value <= first.value + _ROUNDING * max(1.0, abs(first.value)):
        return new, grown
    return objective.at(second, first.state), max(longest / _STRETCH, 1.0)
