"""Where a search begins: at one point, or, where variables are hidden, at several, as there are several optima.

Parameters that the data show directly begin where pseudo-moment matching puts them; those that nothing shows without
guessing begin at random, for in the middle all hidden states are alike, and that is a saddle.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesfield.graph.clamp import clamp
from bayesfield.inference.completion import completed
from bayesfield.learning.objective import Objective
from bayesfield.learning.search.moment_matching import pseudo_moments
from bayesfield.learning.search.optimum import Optimum, Start, Starts
from bayesfield.learning.search.pseudo_likelihood import pseudo_likelihood_map
from bayesfield.types import FloatArray, IntArray, InvalidInput

SEVERAL = 8  # starts, by default, where some parameters are never shown
_WIDE = 1.0  # sd of random starts, at most
_ROUNDS, _AVERAGED = 10, 4  # of stochastic EM, and how many of the last are averaged
_JITTER = 0.5  # sd of further starts about the first, where all parameters are shown

Minimise = Callable[[FloatArray], Optimum]


def starting_points(objective: Objective, given: FloatArray | None, count: int | None, seed: int) -> list[FloatArray]:
    """The points to begin from. given, count: the user's start, and how many starts."""
    rng, unseen = np.random.default_rng(seed), unseen_parameters(objective)
    if not len(unseen):
        first = _first(objective) if given is None else given
        return [first, *_around(first, np.full(len(first), _JITTER), (count or 1) - 1, rng)]
    first = objective.prior.location.copy()
    if objective.data.matches_moments:
        shown = np.setdiff1d(np.arange(objective.size), unseen)
        first[shown] = pseudo_moments(objective)[shown]
    points = _around(first, _random_width(objective, unseen), count or (SEVERAL if given is None else 1), rng)
    return points if given is None else [given, *points[1:]]


def unseen_parameters(objective: Objective) -> IntArray:
    """Those that nothing shows without guessing, where something is hidden; else none."""
    if not objective.hidden:
        return np.empty(0, dtype=np.int64)
    result: IntArray = objective.data.unseen()
    return result


def _first(objective: Objective) -> FloatArray:
    """The better of pseudo-moment matching, where the free phase has tables to match, and the prior mean."""
    location = objective.prior.location
    if not objective.weight or not objective.data.matches_moments:
        return location
    candidates = np.array([pseudo_moments(objective), location])
    return np.array(candidates[int(np.argmin([objective.at(c).value for c in candidates]))])


def checked_start(size: int, start: Any) -> FloatArray | None:
    """A user's start as numbers."""
    if start is None:
        return None
    given = np.array(start, dtype=np.float64)
    if given.shape != (size,) or not np.isfinite(given).all():
        raise InvalidInput(f"start needs {size} finite numbers; got shape {given.shape}")
    return given


def checked_count(count: int | None) -> int | None:
    if count is not None and (not isinstance(count, int | np.integer) or count < 1):
        raise InvalidInput(f"starts is a whole number ≥ 1; got {count!r}")
    return count


def _random_width(objective: Objective, unseen: IntArray) -> FloatArray:
    """sd of random starts, (F,): that of the prior, within limits, for parameters never shown; zero for the others."""
    width = np.zeros(objective.size)
    width[unseen] = np.minimum(1.0 / np.sqrt(objective.prior.diagonal[unseen]), _WIDE)
    return width


def _around(centre: FloatArray, width: FloatArray, count: int, rng: np.random.Generator) -> list[FloatArray]:
    return [centre + width * rng.standard_normal(len(centre)) for _ in range(count)]


def sampled_start(objective: Objective, seed: int) -> FloatArray:
    """Where a sampled search begins: the pseudo-likelihood's optimum, holes filled where there are any."""
    cases = objective.data.cases
    if cases.complete:
        return pseudo_likelihood_map(cases, objective.prior)
    return stochastic_em(objective, seed)


def stochastic_em(objective: Objective, seed: int) -> FloatArray:
    """Pseudo-likelihood of data whose holes are drawn by it, over and over: a start for dense fields.

    Where all parameters are shown the first holes are filled by the variables' own frequencies.
    """
    cases, unseen = objective.data.cases, unseen_parameters(objective)
    rng, codes = np.random.default_rng(seed), cases.codes
    clamped = cases.clamped if cases.weights is None else clamp(cases.field, codes)
    here = objective.prior.location.copy()
    if len(unseen):
        here[unseen] += _random_width(objective, unseen)[unseen] * rng.standard_normal(len(unseen))
        filled = completed(codes, clamped, here, rng)
    else:
        filled = np.column_stack([_filled(column, rng) for column in codes.T])
    last: list[FloatArray] = []
    for _ in range(_ROUNDS):
        here = pseudo_likelihood_map(replace(cases, codes=filled), objective.prior)
        filled = completed(codes, clamped, here, rng)
        last = [*last, here][-_AVERAGED:]
    result: FloatArray = np.mean(last, axis=0)
    return result


def _filled(column: IntArray, rng: np.random.Generator) -> IntArray:
    seen = column[column >= 0]
    return np.where(column < 0, rng.choice(seen, len(column)) if len(seen) else 0, column)


def best_of(points: Sequence[FloatArray], search: Minimise, finish: Minimise) -> Optimum:
    """Search from every point, and finish the best. One point: only finish."""
    if len(points) == 1:
        return finish(points[0])
    ended = sorted((search(point) for point in points), key=lambda o: o.point.value)
    best = finish(ended[0].parameters)
    others = [Start(o.point.value, o.status.converged, o.parameters) for o in ended[1:]]
    first = Start(best.point.value, best.status.converged, best.parameters)
    return replace(best, starts=Starts((first, *others)))
