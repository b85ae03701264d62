"""What a plan costs: counted work in seconds of one core of the machine that the constants were measured on, and bytes.

Counted in table entries, parameters and draws, so that the same data have the same price on every machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesfield.correction.cumulants import MAX_DIRECTIONS, MOST, longer, shift_states
from bayesfield.correction.mean_field import PAIRS
from bayesfield.correction.mean_field import STEPS as AVERAGE_STEPS
from bayesfield.correction.profile import KNOTS, STEPS, form_along
from bayesfield.correction.variational import CURVATURES, FEW, MANY, MIN_DIRECTIONS, directions
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.inference.sampling.streams import CHAINS, seconds_a_sweep
from bayesfield.learning.precision.matrix_free import KRYLOV, KRYLOV_ROOM
from bayesfield.posterior.record import SAMPLED_NEWTON

if TYPE_CHECKING:
    from bayesfield.inference.contract import Price
    from bayesfield.learning.objective import Counts, Objective

_STREAMED = 600  # sweeps of all chains of a search, where they forget in fifty
_NEWTON = 8  # steps of a search with curvature, at most
_LBFGS = 130  # inferences of one without, the products with the curvature that end it among them
_ROUGH = 40  # inferences of a rough search, from one of several starts
_SAMPLED_STEPS = 14  # sampled inferences, each with its covariance
_STEPS = 6  # natural-gradient steps
_DRAWS = 640  # slopes that each of them takes, at most
_SPREAD = 16  # sampled inferences that one variational correction by chains is worth, with their covariances
_CURVATURES_HELD, _HELD = 4, 100  # curvatures that are not dense, and products that each is worth
_PROBED = 5000  # the same for one whose determinant is probed
_CUBE = 2e-10  # seconds for each F³ of a dense one that is factored
_DENSE_COPIES = 5  # matrices of the size of the precision that are held at once …
_SAMPLED_COPIES = 3.5  # … and where chains give them, some in single precision (200 binary items: 11.8 GB in all)
_LOADED = 45e6  # bytes of compiled code and libraries' own
_ROUNDS, _AVERAGED = 4, 4.0  # of mean-field averages, and the inferences that one of their steps is worth
_AFTER_SEARCH = 3.0  # searches that they may take whatever the budget


def search_seconds(price: Price) -> float:
    """Of a search with curvature, of as many steps as it takes at most."""
    return _NEWTON * (price.inference + price.covariance)


def after_search_seconds(price: Price) -> float:
    """What mean-field averages may always take: as much as a few searches without curvature."""
    return _AFTER_SEARCH * _LBFGS * price.inference


def holes_seconds(inference: float) -> float:
    """Of the holes in a variational correction by chains. inference: of all clamped phases, once."""
    return _STEPS * _DRAWS * inference


def shift_seconds(size: int, price: Price) -> float:
    """Of a mean to second order."""
    return 2 * min(size, MAX_DIRECTIONS) * price.inference


def profile_seconds(counts: Counts, form: str) -> float:
    """Of one marginal that is profiled."""
    price, along = counts.price, form_along(form, counts.size, counts.linear)
    curvature = price.covariance * (_PROBED if along == "matrix-free" else 1)
    curvature += _CUBE * counts.size**3 if along == "dense" else 0.0
    return max(KNOTS * (STEPS * price.inference + curvature), 1e-6)


def mean_field_seconds(counts: Counts) -> float:
    """Of rounds with as many steps as usual."""
    seconds = variational_seconds(counts.size, counts.price, "mean-field")
    return seconds if counts.averages else 2 * PAIRS / _AVERAGED * seconds


def variational_seconds(size: int, price: Price, form: str) -> float:
    if form == "mean-field":
        return _ROUNDS * (AVERAGE_STEPS + 3) * _AVERAGED * price.inference
    least = most = MIN_DIRECTIONS
    if form != "dense" or size > MIN_DIRECTIONS:
        least, most = directions(form, price)
    draws = 4 * max(min(size, most), least)  # two blocks of directions, with both signs
    curvatures, each = (FEW if size > MANY else CURVATURES), price.summed or price.covariance
    if form != "dense":
        curvatures, each = _CURVATURES_HELD, _HELD * price.covariance
    return _STEPS * (draws * (price.each or price.inference) + 2 * curvatures * each)


def work(
    objective: Objective, counts: Counts, curvature: Price, how: tuple[str, str, str], starts: int, checked: bool
) -> tuple[tuple[str, float], ...]:
    """Counted work of each part, in seconds on our machine. curvature: of the engine that gives it. how: the method,
    the form and the correction."""
    (method, form, kind), size, price = how, counts.size, counts.price
    skewness = 2 * size * price.inference if size <= MOST and kind != "none" else 0.0
    if method == SAMPLED_NEWTON:
        skewness = 2 * price.inference if skewness else 0.0
        search = _SAMPLED_STEPS * (price.inference + price.covariance)
        correction = (_SPREAD if kind == "variational" else 1) * (price.inference + price.covariance)
    else:
        if counts.streams:
            return _streamed_seconds(objective), ("the correction", variational_seconds(size, price, form))
        rough = _ROUGH * starts * price.inference if starts > 1 else 0.0
        steps = search_seconds(price) if method == "newton" else _LBFGS * price.inference
        formed = form in ("dense", "sparse") or counts.linear  # else by its diagonal, or by products
        search = rough + steps + (curvature.covariance if formed else price.inference)
        correction = variational_seconds(size, price, form)
        if kind == "mean":
            correction = shift_seconds(size, price)
    parts = [("the search", search), ("the correction", correction + skewness if kind != "none" else 0.0)]
    if checked:
        judge = objective.free.with_engine(Sampled().enough_for(counts.weight)).price(size)
        parts.append(("the check", judge.inference + judge.covariance))
    return tuple(parts)


def _streamed_seconds(objective: Objective) -> tuple[str, float]:
    phase = objective.free
    return "the chains", _STREAMED * CHAINS * seconds_a_sweep(phase.graph, phase.design)


def bytes_held(
    objective: Objective, counts: Counts, curvature: Objective, how: tuple[str, str], checked: bool
) -> float:
    """What a fit holds at once, beside what the process has already. how: the form and the correction."""
    (form, kind), size, held = how, counts.size, counts.bytes
    if curvature is not objective:
        held = max(held, curvature.counts().bytes)
    copies = _DENSE_COPIES if counts.has_log_z else _SAMPLED_COPIES
    needed = _LOADED + held + 8.0 * (copies * size * size if form == "dense" else 12 * size)
    more = 0.0
    if kind == "mean" and form != "dense":
        along = 8.0 * MAX_DIRECTIONS * size
        more = 3.0 * along + (min(KRYLOV_ROOM, KRYLOV * along) if form == "matrix-free" else 0.0)
    if kind == "mean" and not counts.has_log_z:
        more = 8.0 * shift_states(size, counts.weight, objective.free.engine.snapshots) * size
    elif kind != "none" and not counts.has_log_z:
        chains = longer(objective.free.engine, max(size, 1))
        more = max(more, 16.0 * chains.chains * chains.snapshots * size)
    if checked:
        chains = Sampled().enough_for(counts.weight)
        more = max(more, 16.0 * chains.chains * chains.snapshots * size)
    return float(needed + more)
