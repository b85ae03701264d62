"""Where a search with hidden variables begins: at several points, for the objective has several optima.

Parameters that the data show directly begin where pseudo-moment matching puts them; those that no case shows without
guessing begin at random, for in the middle all hidden states are alike, and that is a saddle.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bayesfield.fitting.optimum import checked_start, starting_point
from bayesfield.learning.objective import FieldObjective
from bayesfield.learning.phases.chain import ChainObjective
from bayesfield.learning.phases.composite import pseudo_likelihood_map
from bayesfield.learning.phases.hidden import HiddenObjective
from bayesfield.learning.phases.sharded import ShardedObjective
from bayesfield.learning.search.minimise import Optimum
from bayesfield.learning.search.modes import Start, Starts
from bayesfield.learning.search.moment_matching import pseudo_moments
from bayesfield.model.prior import Parametrised
from bayesfield.posterior.imputation import completed
from bayesfield.types import FloatArray, IntArray, InvalidInput

SEVERAL = 8  # starts, by default, where some parameters are never shown
_WIDE = 1.0  # sd of random starts, at most
_ROUNDS, _AVERAGED = 10, 4  # of stochastic EM, and how many of the last are averaged
_JITTER = 0.5  # sd of further starts about the first, where all parameters are shown

Minimise = Callable[[FloatArray], Optimum]


def begin(objective: FieldObjective, field: Parametrised, start: Any, count: int | None, seed: int) -> list[FloatArray]:
    """The points to begin from. start, count: the user's."""
    _checked(count)
    given, rng = checked_start(field, start), np.random.default_rng(seed)
    if not isinstance(objective, HiddenObjective) or not len(objective.unseen()):
        first = starting_point(objective, field, start)
        return [first, *_around(first, np.full(len(first), _JITTER), (count or 1) - 1, rng)]
    width, unseen = _random_width(objective), objective.unseen()
    first = pseudo_moments(objective)
    first[unseen] = objective.location[unseen]
    points = _around(first, width, count or (SEVERAL if given is None else 1), rng)
    return points if given is None else [given, *points[1:]]


def _random_width(objective: HiddenObjective) -> FloatArray:
    """sd of random starts, (F,): that of the prior, within limits, for parameters never shown; zero for the others."""
    ridge = np.diag(objective.precision) if objective.precision.ndim == 2 else objective.precision
    width, unseen = np.zeros(len(ridge)), objective.unseen()
    width[unseen] = np.minimum(1.0 / np.sqrt(ridge[unseen]), _WIDE)
    return width


def sequence_points(
    objective: ChainObjective | ShardedObjective,
    given: FloatArray | None,
    count: int | None,
    rng: np.random.Generator | int | None,
) -> list[FloatArray]:
    """The points to begin from for sequences: the prior mean; at random about it where states are latent."""
    _checked(count)
    generator = np.random.default_rng(rng)
    first = objective.location if given is None else given
    width, latent = np.full(len(first), _JITTER), len(objective.crf.labels) > len(objective.crf.visible)
    if latent and given is None:
        return _around(first, width, count or SEVERAL, generator)
    return [first, *_around(first, width, (count or 1) - 1, generator)]


def _checked(count: int | None) -> None:
    if count is not None and (not isinstance(count, int | np.integer) or count < 1):
        raise InvalidInput(f"starts is a whole number ≥ 1; got {count!r}")


def stochastic_em(objective: HiddenObjective, seed: int) -> FloatArray:
    """Pseudo-likelihood of data whose holes are drawn by it, over and over: a start for dense fields.

    Where all parameters are shown the first holes are filled by the variables' own frequencies.
    """
    rng, codes, unseen = np.random.default_rng(seed), objective.codes, objective.unseen()
    here = objective.location.copy()
    if len(unseen):
        here[unseen] += _random_width(objective)[unseen] * rng.standard_normal(len(unseen))
        filled = completed(codes, objective.clamped, here, rng)
    else:
        filled = np.column_stack([_filled(column, rng) for column in codes.T])
    last: list[FloatArray] = []
    for _ in range(_ROUNDS):
        here = pseudo_likelihood_map(objective.field, filled, objective.precision, objective.location)
        filled = completed(codes, objective.clamped, here, rng)
        last = [*last, here][-_AVERAGED:]
    result: FloatArray = np.mean(last, axis=0)
    return result


def _filled(column: IntArray, rng: np.random.Generator) -> IntArray:
    seen = column[column >= 0]
    return np.where(column < 0, rng.choice(seen, len(column)) if len(seen) else 0, column)


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
