"""Where a search begins: at one point, or, where variables are hidden, at several, as there are several optima.

Parameters that the data show directly begin where pseudo-moment matching puts them; those that nothing shows without
guessing begin at random, for in the middle all hidden states are alike, and that is a saddle.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesfield.learning.objective import Objective
from bayesfield.learning.search.minimise import lbfgs, newton
from bayesfield.learning.search.moment_matching import pseudo_moments
from bayesfield.learning.search.optimum import QUIET, Optimum, Progress, Start, Starts
from bayesfield.types import FloatArray, IntArray, InvalidInput

SEVERAL = 8  # starts, by default, where some parameters are never shown
_CHEAP = 0.01  # seconds of counted work for a curvature
_WIDE = 1.0  # sd of random starts, at most
_JITTER = 0.5  # sd of further starts about the first, where all parameters are shown

ROUGH = 1e-3  # tolerance of a search from several starts


def starting_points(objective: Objective, given: FloatArray | None, count: int | None, seed: int) -> list[FloatArray]:
    """The points to begin from. given, count: the user's start, and how many starts."""
    unseen = unseen_parameters(objective)
    if not len(unseen):
        first = _first(objective) if given is None else given
        if count is None or count == 1:
            return [first]
        return [first, *_around(first, np.full(len(first), _JITTER), count - 1, np.random.default_rng(seed))]
    rng = np.random.default_rng(seed)
    first = objective.prior.location.copy()
    if objective.data.matches_moments:
        shown = np.setdiff1d(np.arange(objective.size), unseen)
        first[shown] = pseudo_moments(objective)[shown]
    points = _around(first, random_width(objective, unseen), count or (SEVERAL if given is None else 1), rng)
    return points if given is None else [given, *points[1:]]


def unseen_parameters(objective: Objective) -> IntArray:
    """Those that nothing shows without guessing, where something is hidden; else none."""
    if not objective.hidden:
        return np.empty(0, dtype=np.int64)
    result: IntArray = objective.data.unseen()
    return result


def _first(objective: Objective) -> FloatArray:
    """The better of pseudo-moment matching, where the free phase has tables to match, and the prior mean; which is
    good enough for exact inference on small fields, where the objective is convex and steps cost nothing."""
    location = objective.prior.location
    if not objective.weight or not objective.data.matches_moments or _small(objective):
        return location
    candidates = np.array([pseudo_moments(objective), location])
    return np.array(candidates[int(np.argmin([objective.at(c).value for c in candidates]))])


def _small(objective: Objective) -> bool:
    phase = objective.free
    return len(objective.phases) == 1 and phase.traits.exact and phase.price(objective.size).covariance < _CHEAP


def checked_start(size: int, start: Any) -> FloatArray | None:
    """A user's start as numbers."""
    if start is None:
        return None
    given = np.array(start, dtype=np.float64)
    if given.shape != (size,) or not np.isfinite(given).all():
        raise InvalidInput(f"start needs {size} finite numbers; got shape {given.shape}")
    return given


def random_width(objective: Objective, unseen: IntArray) -> FloatArray:
    """sd of random starts, (F,): that of the prior, within limits, for parameters never shown; zero for the others."""
    width = np.zeros(objective.size)
    width[unseen] = np.minimum(1.0 / np.sqrt(objective.prior.diagonal[unseen]), _WIDE)
    return width


def _around(centre: FloatArray, width: FloatArray, count: int, rng: np.random.Generator) -> list[FloatArray]:
    return [centre + width * rng.standard_normal(len(centre)) for _ in range(count)]


def search(
    objective: Objective,
    points: Sequence[FloatArray],
    method: str,
    form: str,
    tolerance: float,
    max_iterations: int,
    progress: Progress = QUIET,
) -> Optimum:
    """Newton or L-BFGS from one point, or roughly from several and then from the best."""
    best, ended = points[0], []
    if len(points) > 1:
        ended = [lbfgs(objective, point, ROUGH, max_iterations, progress) for point in points]
        ended.sort(key=lambda o: o.point.value)
        best = ended[0].parameters
    if method == "newton":
        optimum = newton(objective, best, tolerance, max_iterations, progress, form)
    else:
        optimum = lbfgs(objective, best, tolerance, max_iterations, progress)
    if not ended:
        return optimum
    others = [Start(o.point.value, o.status.converged, o.parameters) for o in ended[1:]]
    first = Start(optimum.point.value, optimum.status.converged, optimum.parameters)
    return replace(optimum, starts=Starts((first, *others)))
