"""Newton's method for composite likelihoods of very many cases or parameters: a curvature serves several steps.

A gradient takes N n² operations, a curvature N n³. Far from the optimum the curvature of some of the cases is as good:
by m of them a step leaves some √(n / m) of the distance. Near it the curvature of all is made once and kept: what a
step then leaves is what the curvature has changed by, a hundredth or less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayesfield.learning.phases.conditionals import assembled, curvature_work
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.learning.precision.sketched import OverlappingBlocks
from bayesfield.learning.search.minimise import Log, ended, lbfgs, line_search, newton
from bayesfield.learning.search.optimum import QUIET, Optimum, Progress
from bayesfield.types import FloatArray, IntArray, Outcome

if TYPE_CHECKING:
    from bayesfield.learning.objective import Objective, Point

DENSE = 4000  # parameters up to which curvature and sandwich are matrices
BLOCKS = 2000  # blocks up to which products with all of them are made one by one
TIGHT = 1e-9  # posterior standard deviations: Newton's steps are quadratic, so this is one step more than 1e-5
_CURVATURE = 4e9  # operations of one curvature, beyond which it is that of some cases, but …
_EACH = 25  # … of so many for each parameter of a block
_NEAR = 0.1  # posterior sd, the root mean square over all parameters, from where the curvature of all cases is kept
_SLOW = 0.1  # of the distance: a step that leaves more asks for a curvature anew


def composite_map(
    objective: Objective,
    start: FloatArray,
    tolerance: float = TIGHT,
    max_iterations: int = 200,
    progress: Progress = QUIET,
) -> Optimum:
    """λ that maximises composite likelihood times prior: Newton, with the curvature of some of very many cases at
    first; or L-BFGS for very many parameters of very many blocks."""
    if len(start) > DENSE and len(objective.free.blocks_of.states) > BLOCKS:
        return lbfgs(objective, start, tolerance, 10 * max_iterations, progress)
    if len(start) <= DENSE and thinned(objective) == 1:
        return newton(objective, start, tolerance, max_iterations, progress)
    return kept_newton(objective, start, tolerance, max_iterations, progress, len(start) <= DENSE)


def thinned(objective: Objective) -> int:
    """One of how many cases is enough for a curvature far from the optimum."""
    phase, work = objective.free, curvature_work(objective.free)
    cases = len(phase.distinct)
    widest = int(np.diff(phase.blocks_of.local_ptr).max(initial=1))
    enough = max(int(_CURVATURE * cases / max(work, 1.0)), _EACH * widest, 1)
    return max(cases // enough, 1)


def kept_newton(
    objective: Objective,
    start: FloatArray,
    tolerance: float,
    max_iterations: int,
    progress: Progress,
    dense: bool,
) -> Optimum:
    """Stops within ``tolerance`` posterior standard deviations of the optimum. dense: whether P is made."""
    point, log, every = objective.at(start), Log(progress), thinned(objective)
    kept: OverlappingBlocks | DensePrecision | None = None
    before, near = np.inf, _NEAR * np.sqrt(len(start))
    for _ in range(max_iterations):
        kept = _curvature(objective, point, every, dense) if kept is None else kept
        direction = -kept.solve(point.gradient)
        distance = float(np.sqrt(max(-float(direction @ point.gradient), 0.0)))
        if distance <= tolerance:
            log.add(point, distance, 0.0)
            return ended(Outcome.OPTIMUM, point, log, kept)
        if every > 1 and distance <= near:
            every, kept, before = 1, None, np.inf
            continue
        new, step = line_search(objective, point, direction)
        log.add(point, distance, step)
        if step == 0.0:
            break
        if distance > near or distance > _SLOW * before:
            kept = None
        point, before = new, distance
        if progress.expired:
            return ended(Outcome.TIME_UP, point, log)
    return ended(Outcome.NO_OPTIMUM, point, log)


def block_curvature(objective: Objective, point: Point, every: int = 1) -> list[tuple[IntArray, FloatArray]]:
    """Parameters and H of every block."""
    found: list[tuple[IntArray, FloatArray]] = objective.free.site_grams(point.answers[0].found, every)
    return found


def _curvature(objective: Objective, point: Point, every: int, dense: bool) -> OverlappingBlocks | DensePrecision:
    blocks = block_curvature(objective, point, every)
    if dense:
        return DensePrecision(objective.prior.plus(assembled(blocks, objective.size)))
    return OverlappingBlocks(blocks, objective.prior)
