"""Marginals by profiles: one parameter at fixed values, all others re-solved, their volume by Laplace's method.

    log p(λ_k|D) ≈ −L(λ̂) − ½ log det P_{−k,−k},   λ̂ = argmin L with λ_k fixed,
    log det P_{−k,−k} = log det P + log (P⁻¹)_kk,

with P = ∇²L at λ̂ (Tierney & Kadane 1986). For one parameter this is exact, and for one that leans while the others,
given it, are nearly Gaussian it is nearly so, however many there are. The path λ̂(λ_k) has the slope u / u_k with
u = P⁻¹e_k, and L along it has the slope g_k, so that a cubic through values and slopes needs few points. The copula
stays that of the corrected Gaussian.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesfield.correction.cumulants import Corrected, SkewedMarginals, corrected
from bayesfield.correction.importance import TOLERATED
from bayesfield.correction.marginals import ProfiledMarginals
from bayesfield.learning.precision.at import by_products, precision_at
from bayesfield.learning.search.optimum import QUIET, Progress
from bayesfield.response.linear import NotSparse
from bayesfield.types import FloatArray, IndefiniteCurvature, IntArray

if TYPE_CHECKING:
    from bayesfield.learning.objective import Objective, Point
    from bayesfield.learning.precision.base import Precision

PARAMETERS = 8  # that are profiled …
MOST_PROFILED = 32  # … and as many where the last of them still moved
KNOTS = 20  # points of one profile, about: 11 of a Gaussian, some 25 of a half-Gaussian with a sharp end
STEPS = 6  # evaluations for each of them, about
_FIRST = 0.6  # posterior sd: the first step
_GROWTH = 1.3  # of steps that are not too long
_ROUGH = 0.05  # nats by which a trapezium may miss the change of L: the cubic then misses some thousandths
_VOLUME = 0.5  # nats by which ½ log det may change in a step
_DEPTH = 14.0  # nats below the peak at which a profile ends: a density of 1e-6
_DEEP = 7.0  # below which a failure ends the profile and is none: a density of 1e-3
_MOST_KNOTS = 60  # on one side
_HALVINGS = 10  # of a step, until it counts as failed
_SOLVED, _STALLED = 1e-12, 1e-7  # gᵀP⁻¹g of the others at their optimum, and where rounding is the limit
_NEWTON = 30  # steps of one re-solve, at most
_SLOW = 0.1  # factor by which a step with an old curvature must shrink gᵀP⁻¹g
_SPARSE, _DENSE = 200, 1500  # parameters from which a sparse P is faster, and up to which a dense one is affordable
_TABLE = 401  # points of a table
_STILL = 2  # parameters that did not move, after which no others are profiled


def form_along(form: str, size: int, linear: bool) -> str:
    """The form of P along profiles: sparse where it can be and is faster; log det by probes is noisy, and blocks leave
    out what ties them. form: of P at the mode. linear: whether there is a sparse one."""
    if form == "sparse" or (linear and size > _SPARSE):
        return "sparse"
    return "dense" if form == "dense" or size <= _DENSE else "matrix-free"


def leaning(start: Corrected, most: int = PARAMETERS) -> IntArray:
    """The parameters to profile, the worst first: by skewness; by sd, where it was not estimated. These are also those
    that a comparison with weighted draws varies (correction.importance)."""
    lean = start.precision.sd if start.skewness is None or not start.skewness.any() else np.abs(start.skewness)
    return np.argsort(-lean, kind="stable")[:most]


def profiled(
    objective: Objective,
    mode: FloatArray,
    laplace: Precision,
    start: Corrected,
    which: IntArray,
    names: Sequence[str] = (),
    progress: Progress = QUIET,
) -> Corrected:
    """The corrected posterior with the marginals of some parameters profiled.

    mode: where L is least. laplace: P there. start: the corrected posterior, whose copula stays. which: the worst
    first; beyond eight they are profiled while the last ones were not right before. names: of all parameters.
    """
    size = len(mode)
    skewness = np.zeros(size) if start.skewness is None else start.skewness
    base = SkewedMarginals(start.mean, start.precision.sd, skewness)
    run = _Profiles(objective, form_along(laplace.form, size, objective.counts().linear), progress)
    tables: dict[int, _Profile | None] = {}
    still = 0
    for k in which.tolist():
        tables[k] = table = run.of(k, mode, laplace, min(float(laplace.sd[k]), float(base.sd[k])))
        still = 0 if table is None or _moved(base, k, table) else still + 1
        if len(tables) >= PARAMETERS and still >= _STILL:
            break
    marginals = _marginals(base, tables)
    error = float(start.record.error * np.sqrt(1.0 - len(marginals.which) / max(size, 1)))  # tables have none
    made = corrected("profile", mode, laplace, marginals.mean, start.precision, run.evaluations, error)
    record = replace(
        made.record,
        settled=all(table is not None for table in tables.values()),
        failed=start.record.failed,
        reason=_reason(start, tables, names),
        partial=len(tables) < size and still < _STILL,
        skewness=float(np.abs(marginals.skewness).max(initial=0.0)),
    )
    return Corrected(marginals.mean, start.precision, record, marginals.skewness, marginals)


class _Profile(NamedTuple):
    """A marginal's grid and the log density there, (G,)."""

    grid: FloatArray
    log_density: FloatArray


def _marginals(base: SkewedMarginals, tables: dict[int, _Profile | None]) -> ProfiledMarginals:
    made = {k: table for k, table in sorted(tables.items()) if table is not None}
    grid, log_p = (np.array([table[j] for table in made.values()]).reshape(len(made), _TABLE) for j in range(2))
    return ProfiledMarginals(base, np.array(list(made), dtype=np.int64), grid, log_p)


def _moved(base: SkewedMarginals, k: int, table: _Profile) -> bool:
    """Whether the marginal was not good before."""
    before = base.only(np.array([k]))
    after = _marginals(before, {0: table})
    shift, width = (after.mean - before.mean) / before.sd, np.log(after.sd / before.sd)
    at = np.array([[0.0], before.from_normal(np.array([-2.0])), before.from_normal(np.array([2.0]))])
    apart = [abs(float((after.below(x) - before.below(x))[0])) for x in at]
    return bool((np.array([abs(shift[0]), abs(width[0]), max(apart)]) > TOLERATED).any())


def _reason(start: Corrected, tables: dict[int, _Profile | None], names: Sequence[str]) -> str:
    def named(some: list[int]) -> str:
        return ", ".join(names[k] if len(names) else f"parameter {k}" for k in some)

    good, failed = ([k for k, table in tables.items() if (table is None) == missing] for missing in (False, True))
    text = f"of {named(good)}" if good else "of no parameter"
    text += f"; the rest could not be re-solved along {named(failed)}" if failed else ""
    return text + ("" if len(good) == len(start.mean) else f"; other marginals: {start.record.kind}")


class _Knot(NamedTuple):
    """Where all others are at their optimum. column: P⁻¹e_k. volume: ½ log det P_{−k,−k}."""

    point: Point
    precision: Precision
    column: FloatArray
    volume: float

    @property
    def log_density(self) -> float:
        return -self.point.value - self.volume


@dataclass
class _Profiles:
    """form: of the precision. evaluations: of the objective, so far."""

    objective: Objective
    form: str
    progress: Progress
    evaluations: int = 0

    def of(self, k: int, mode: FloatArray, laplace: Precision, sd: float) -> _Profile | None:
        """The profile of one parameter, whose sd is about that; None where a re-solve failed."""
        point = self._at(mode, None)
        if not np.isfinite(point.value):
            return None
        try:
            precision = laplace if laplace.form == self.form else self._precision(point)
            centre = _knot(point, precision, k)
        except IndefiniteCurvature:
            return None
        knots = [centre]
        for sign in (-1.0, 1.0):
            side = self._side(centre, k, sign * _FIRST * sd)
            if side is None:
                return None
            knots = [*knots, *side] if sign > 0 else [*side[::-1], *knots]
        return _tabulated(knots, k)

    def _side(self, centre: _Knot, k: int, step: float) -> list[_Knot] | None:
        """From the mode outwards, until the density is small; None where it does not come so far."""
        knots, peak, halvings = [centre], centre.log_density, 0
        while len(knots) <= _MOST_KNOTS and halvings <= _HALVINGS and not self.progress.expired:
            last = knots[-1]
            knot = self._resolved(last, k, float(last.point.parameters[k]) + step)
            if knot is None or _coarse(last, knot, k):
                step, halvings = step / 2.0, halvings + 1
                continue
            knots.append(knot)
            peak = max(peak, knot.log_density)
            if knot.log_density < peak - _DEPTH:
                return knots[1:]
            step, halvings = step * _GROWTH, 0
        return knots[1:] if knots[-1].log_density < peak - _DEEP else None

    def _resolved(self, near: _Knot, k: int, value: float) -> _Knot | None:
        """All others at their optimum with λ_k = value, beginning where the path leads in a straight line.

        Newton steps within λ_k = value: δ = −s + u s_k / u_k with s = P⁻¹g, u = P⁻¹e_k. P is that of the last point
        until a step with it is slow; gᵀP⁻¹g of the others is −gᵀδ.
        """
        guess = near.point.parameters + (value - near.point.parameters[k]) * near.column / near.column[k]
        guess[k] = value
        point = self._at(guess, near.point)
        precision, column, old, before = near.precision, near.column, True, np.inf
        for _ in range(_NEWTON):
            if not np.isfinite(point.value):
                return None
            try:
                step, left = _step(point, precision, column, k)
                if left > _SOLVED and old and left > _SLOW * before:
                    precision, old = self._precision(point), False
                    column = precision.solve(_unit(k, len(guess)))
                    step, left = _step(point, precision, column, k)
                if left <= _SOLVED or (left <= _STALLED and left > 0.5 * before):
                    return _knot(point, self._precision(point), k)
            except IndefiniteCurvature:
                return None
            point, before, old = self._towards(point, step), left, True
        return None

    def _towards(self, point: Point, step: FloatArray) -> Point:
        """The step, halved while L rises."""
        for _ in range(_HALVINGS):
            new = self._at(point.parameters + step, point)
            if new.value <= point.value + 1e-9 * abs(point.value) + 1e-9:
                return new
            step = step / 2.0
        return new

    def _at(self, parameters: FloatArray, near: Point | None) -> Point:
        self.evaluations += 1
        return self.objective.at(parameters, None if near is None else near.state)

    def _precision(self, point: Point) -> Precision:
        form = self.form
        if form == "sparse":
            try:
                return precision_at(self.objective, point, form)
            except NotSparse:  # beliefs at this point are no fixed point of messages
                form = form_along("", self.objective.size, False)
        return (
            by_products(self.objective, point) if form == "matrix-free" else precision_at(self.objective, point, form)
        )


def _unit(k: int, size: int) -> FloatArray:
    unit = np.zeros(size)
    unit[k] = 1.0
    return unit


def _knot(point: Point, precision: Precision, k: int) -> _Knot:
    column = precision.solve(_unit(k, precision.size))
    if not column[k] > 0.0:
        raise IndefiniteCurvature("the curvature along a profile is not positive")
    return _Knot(point, precision, column, 0.5 * (precision.log_det + float(np.log(column[k]))))


def _step(point: Point, precision: Precision, column: FloatArray, k: int) -> tuple[FloatArray, float]:
    solved = precision.solve(point.gradient)
    step = column * (solved[k] / column[k]) - solved
    step[k] = 0.0
    return step, -float(point.gradient @ step)


def _coarse(last: _Knot, new: _Knot, k: int) -> bool:
    """Whether a cubic through both ends would miss what lies between: a trapezium misses h³ L‴/12, which is zero for a
    Gaussian whatever the step."""
    step = float(new.point.parameters[k] - last.point.parameters[k])
    change = new.point.value - last.point.value
    missed = change - 0.5 * step * float(new.point.gradient[k] + last.point.gradient[k])
    return abs(missed) > _ROUGH or abs(new.volume - last.volume) > _VOLUME


def _tabulated(knots: list[_Knot], k: int) -> _Profile:
    """By cubics between the knots, each stretch between two with as many points as the others."""
    x = np.array([knot.point.parameters[k] for knot in knots])
    log_p = np.array([knot.log_density for knot in knots])
    slope = -np.array([knot.point.gradient[k] for knot in knots]) - np.gradient([knot.volume for knot in knots], x)
    at = np.linspace(0.0, len(x) - 1.0, _TABLE)
    left = np.minimum(at.astype(np.int64), len(x) - 2)
    t, h = at - left, np.diff(x)[left]
    rise = log_p[left + 1] - log_p[left]
    a, b = h * slope[left] - rise, rise - h * slope[left + 1]
    log_density = log_p[left] + t * rise + t * (1.0 - t) * (a * (1.0 - t) + b * t)
    grid = x[left] + t * h
    log_density -= log_density.max()
    total = np.trapezoid(np.exp(log_density), grid)
    return _Profile(grid, log_density - float(np.log(total)))
