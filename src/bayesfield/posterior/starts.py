"""Where a search with hidden variables begins: at several points, for the objective has several optima.

Parameters that the data show directly begin where pseudo-moment matching puts them; those that no case shows without
guessing begin at random, for in the middle all hidden states are alike, and that is a saddle.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bayesfield.learning import FieldObjective, HiddenObjective, Optimum, pseudo_moments
from bayesfield.model import Parametrised
from bayesfield.posterior.found import checked_start, starting_point
from bayesfield.posterior.modes import Start, Starts
from bayesfield.types import FloatArray, InvalidInput

SEVERAL = 8  # starts, by default, where some parameters are never shown
_WIDE = 1.0  # sd of random starts, at most
_JITTER = 0.5  # sd of further starts about the first, where all parameters are shown

Minimise = Callable[[FloatArray], Optimum]


def begin(objective: FieldObjective, field: Parametrised, start: Any, count: int | None, seed: int) -> list[FloatArray]:
    """The points to begin from. start, count: the user's."""
    if count is not None and (not isinstance(count, int | np.integer) or count < 1):
        raise InvalidInput(f"starts is a whole number ≥ 1; got {count!r}")
    given, rng = checked_start(field, start), np.random.default_rng(seed)
    if not isinstance(objective, HiddenObjective):
        first = starting_point(objective, field, start)
        return [first, *_around(first, np.full(len(first), _JITTER), (count or 1) - 1, rng)]
    unseen = objective.unseen()
    if given is not None:
        count = count or 1
    width = np.full(len(objective.location), _JITTER)
    if not len(unseen):
        first = starting_point(objective, field, start)
        return [first, *_around(first, width, (count or 1) - 1, rng)]
    first = pseudo_moments(objective)
    ridge = np.diag(objective.precision) if objective.precision.ndim == 2 else objective.precision
    first[unseen], width[:] = objective.location[unseen], 0.0
    width[unseen] = np.minimum(1.0 / np.sqrt(ridge[unseen]), _WIDE)
    points = _around(first, width, count or SEVERAL, rng)
    return points if given is None else [given, *points[1:]]


def _around(centre: FloatArray, width: FloatArray, count: int, rng: np.random.Generator) -> list[FloatArray]:
    return [centre + width * rng.standard_normal(len(centre)) for _ in range(count)]


def best_of(points: Sequence[FloatArray], search: Minimise, finish: Minimise) -> tuple[Optimum, Starts | None]:
    """Search from every point, and finish the best. One point: only finish."""
    if len(points) == 1:
        return finish(points[0]), None
    found = sorted((search(point) for point in points), key=lambda o: o.point.value)
    best = finish(found[0].parameters)
    others = [Start(o.point.value, o.status.converged, o.parameters) for o in found[1:]]
    return best, Starts((Start(best.point.value, best.status.converged, best.parameters), *others))
