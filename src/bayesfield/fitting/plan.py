"""What a fit does, decided before it runs, and from counts alone: engine, search, form, correction, draws, price.

All that "auto" stands for is decided here, and what truly cannot be done is refused here. The same data and version
give the same plan on every machine, fast or slow, idle or busy: work is counted in table entries, parameters and draws,
and only said in seconds, of one core of the machine that the constants were measured on.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bayesfield.correction.second_order import MAX_DIRECTIONS
from bayesfield.correction.skewness import MOST, longer
from bayesfield.correction.variational import draws_and_curvatures
from bayesfield.fitting.request import Request
from bayesfield.inference.contract import Engine, Price
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.learning.objective import Objective
from bayesfield.learning.precision.matrix_free import KRYLOV, KRYLOV_ROOM
from bayesfield.learning.search.sampled_newton import enough_chains
from bayesfield.learning.search.starts import SEVERAL, unseen_parameters
from bayesfield.posterior.record import SAMPLED_NEWTON, Plan
from bayesfield.response.base import require_dense
from bayesfield.types import InvalidInput

DENSE = 5000  # parameters up to which the precision is dense …
SMALL = 1500  # … where the sparse form would do as well: it is 8 times faster at 1,160 parameters, 60 times at 4,720
SAMPLED = 3000  # parameters up to which the sampled engine, whose covariance is dense, stands in for another
EXPENSIVE = 40.0  # seconds of one curvature, beyond which L-BFGS searches without
EXACT_FIT = 60.0  # seconds of an exact search, beyond which sampling is the cheaper way to a checked one
_NEWTON = 8  # steps of a search with curvature, at most
_LBFGS = 130  # inferences of one without, the products with the curvature that end it among them
_ROUGH = 40  # inferences of a rough search, from one of several starts
_SAMPLED_STEPS = 14  # sampled inferences, each with its covariance
_STEPS = 6  # natural-gradient steps
_DRAWS = 640  # slopes that each of them takes, at most
_SAMPLED_VARIATIONAL = 2000  # parameters up to which the sampled variational correction is taken
_SPREAD = 16  # sampled inferences that one variational correction by chains is worth, with their covariances
_HELD = 100  # products that a curvature which is not dense is worth
_DENSE_COPIES = 5  # matrices of the size of the precision that are held at once
_LOADED = 45e6  # bytes of compiled code and libraries' own


class Planned(NamedTuple):
    """A plan, and the objectives with its engines. chosen: whether the engine was chosen here, not by the user.
    reason: of the correction."""

    plan: Plan
    objective: Objective
    curvature_objective: Objective
    chosen: bool
    reason: str


def make_plan(objective: Objective, request: Request, engine: Engine | None = None) -> Planned:
    """engine: instead of the request's, where the first one's check has failed."""
    refuse(objective, request)
    chosen = engine is None and request.engine.traits.chooses
    picked, reasons = _engine(objective, request, engine)
    by_engine = objective.with_engine(picked)
    curvature = by_engine if request.response is None else by_engine.with_engine(request.response)
    form = _form(request.form, by_engine)
    method = _method(by_engine, request, form)
    kinds, why = _corrections(by_engine, curvature, request, form, explicit=not chosen and engine is None)
    checked, unchecked = _checked(by_engine, request, chosen)
    starts = _starts(by_engine, request)
    seconds = _seconds(by_engine, curvature, method, form, kinds[0], starts, checked)
    plan = Plan(
        engine=repr(picked),
        response=repr(picked if request.response is None else request.response),
        method=method,
        form=form,
        corrections=kinds,
        starts=starts,
        checked=checked,
        reasons=(*reasons, *unchecked),
        seconds=seconds,
        bytes=_bytes(by_engine, curvature, form, kinds[0], checked),
    )
    return Planned(plan, by_engine, curvature, chosen, why)


# --- refusals -------------------------------------------------------------------------------------------------------


def refuse(objective: Objective, request: Request) -> None:
    """What cannot be done with these data, and why."""
    learner, data, engine = request.learner, objective.data, request.engine
    if learner is not None:
        _refuse_learner(learner, objective, request)
    if request.method == "ep":
        if not getattr(data, "propagates", False) or data.weights is not None:
            raise InvalidInput(
                "expectation propagation is for sequences in this process with all labels known, each counting "
                'once; take method="auto"'
            )
        if request.correction in ("mean", "variational"):
            raise InvalidInput('expectation propagation has a mean and widths of its own: take correction="auto"')
    if not engine.traits.has_log_z and (not objective.free.samples or _free_phases(objective) > 1):
        raise InvalidInput(
            "sampling takes one graph in this process: sequences have exact inference, and weights of graphs, or data "
            "on a client's workers, need an engine with log Z"
        )
    if request.form == "block" and request.correction in ("mean", "variational") and learner is None:
        raise InvalidInput(
            f'correction={request.correction!r} needs all of the precision; take form="matrix-free" or "dense"'
        )


def _refuse_learner(learner: Any, objective: Objective, request: Request) -> None:
    data, name = objective.data, learner.name
    if objective.hidden:
        raise InvalidInput(
            f'method="{name}" needs complete cases; with hidden variables or missing cells take "newton", "lbfgs" or '
            '"auto"'
        )
    if not data.here:
        raise InvalidInput(f'with a client method is "auto", "newton" or "lbfgs"; got {request.method!r}')
    if data.weights is not None and not learner.weighted:
        raise InvalidInput(f'with weights method is "auto", "newton", "lbfgs" or "pseudo_likelihood"; got "{name}"')
    if learner.needs_log_z and not request.engine.traits.has_log_z:
        raise InvalidInput("iterative scaling watches log Z, which sampling does not give; take another engine")
    if not learner.at_mode and request.correction in ("mean", "variational"):
        raise InvalidInput(
            f'correction={request.correction!r} starts from the mode of the posterior, and method="{name}" ends beside '
            'it; take correction="none", or fit(..., method="newton", start=posterior.mode) and correct that'
        )


# --- decisions ------------------------------------------------------------------------------------------------------


def _engine(objective: Objective, request: Request, engine: Engine | None) -> tuple[Engine, tuple[str, ...]]:
    """The engine of the search, and why."""
    asked = request.engine if engine is None else engine
    reasons: tuple[str, ...] = ()
    if asked.traits.chooses:
        asked, reason = _picked(objective, asked)
        reasons = (reason,)
    if not asked.traits.has_log_z:
        assert isinstance(asked, Sampled)
        asked = enough_chains(asked, objective.weight)
    return asked, reasons


def _picked(objective: Objective, auto: Any) -> tuple[Engine, str]:
    """By its cost: exact where a search by it is affordable. All free phases must agree."""
    found = [phase.choose(auto) for phase in objective.phases if not phase.contrasts] or [objective.free.choose(auto)]
    engine, reason = next((one for one in found if not one[0].traits.exact), found[0])
    if engine.traits.exact and objective.free.samples and objective.size <= SAMPLED:
        price = objective.with_engine(engine).price()
        long = _NEWTON * (price.inference + price.covariance)
        if long > EXACT_FIT:
            engine, reason = objective.free.choose(replace(auto, max_entries=0))
            reason = f"{reason.partition(':')[0]}: an exact fit would take about {long:.0f} s of counted work"
    return engine, reason


def _form(asked: str, objective: Objective) -> str:
    """The form of the precision, with what the phases can do."""
    phases, size = objective.phases, objective.size
    linear = len(phases) == 1 and phases[0].traits.linear_response and objective.prior.independent
    if not objective.has_log_z:
        require_dense(size, "a posterior", 'Tie parameters, fit a smaller field, or take form="matrix-free".')
        return "dense"
    if asked == "auto":
        if size <= (SMALL if linear else DENSE):
            asked = "dense"
        elif linear:
            asked = "sparse"
        else:
            asked = "block" if _has_blocks(objective) else "matrix-free"
    if asked == "dense":
        require_dense(size, "a posterior", 'Tie parameters, fit a smaller field, or take form="matrix-free".')
    return asked


def _has_blocks(objective: Objective) -> bool:
    """Whether the phases tell blocks: those of sequences, all of their labels known, under an independent prior."""
    sequences = not any(phase.samples or phase.contrasts for phase in objective.phases)
    return sequences and objective.prior.independent and objective.free.traits.exact


def _method(objective: Objective, request: Request, form: str) -> str:
    """Newton, unless one covariance is too expensive."""
    if request.learner is not None:
        return request.learner.name
    if not objective.has_log_z:
        return SAMPLED_NEWTON
    if request.method in ("newton", "lbfgs"):
        return str(request.method)
    if form == "sparse":
        return "newton"
    return "newton" if form == "dense" and objective.price().covariance <= EXPENSIVE else "lbfgs"


def _corrections(
    objective: Objective, curvature: Objective, request: Request, form: str, explicit: bool
) -> tuple[tuple[str, ...], str]:
    """The kinds to try in order, and why the first. explicit: the engine was the user's choice."""
    if request.method == "ep":
        return ("expectation propagation",), ""
    learner = request.learner
    if learner is not None and not learner.at_mode:
        reason = f"{learner.name} ends beside the posterior's mode, where corrections start"
        return ("none",), reason if request.correction == "auto" else ""
    if request.correction != "auto":
        return (request.correction,), ""
    if not objective.weight:
        return ("none",), "there are no data"
    if curvature is not objective or (explicit and objective.free.traits.as_published):
        return ("none",), "as in the paper"
    if form == "block":
        return ("none",), "widths by blocks are too rough to correct by"
    kind, reason = _affordable(objective, form, request.budget)
    return {"variational": ("variational", "mean", "none"), "mean": ("mean", "none")}.get(kind, ("none",)), reason


def _affordable(objective: Objective, form: str, budget: float) -> tuple[str, str]:
    """The best correction within the budget of counted work."""
    size, price = objective.size, objective.price()
    if not objective.has_log_z:
        holes = sum(phase.price(size).inference for phase in objective.phases[1:])
        refined = holes * _STEPS * _DRAWS
        if refined > budget:
            return "mean", f"the variational one would take about {refined:.0f} s for the holes alone"
        return ("variational", "") if size <= _SAMPLED_VARIATIONAL else ("mean", "too many parameters for more")
    refined = _variational_seconds(size, price, form)
    if refined < budget:
        return "variational", ""
    shifted = 2 * min(size, MAX_DIRECTIONS) * price.inference
    if shifted < budget:
        return "mean", f"the variational one would take about {refined:.0f} s of counted work"
    return "none", f"a shift of the mean would take about {shifted:.0f} s of counted work"


def _variational_seconds(size: int, price: Price, form: str) -> float:
    draws, curvatures = draws_and_curvatures(size, form == "dense")
    curvature = price.covariance if form == "dense" else _HELD * price.covariance
    return _STEPS * (draws * price.inference + curvatures * curvature)


def _checked(objective: Objective, request: Request, chosen: bool) -> tuple[bool, tuple[str, ...]]:
    """Whether sampling checks the mode; and why not, where that is worth a word."""
    if not chosen or request.learner is not None or objective.exact or not objective.weight:
        return False, ()
    if not objective.free.samples or _free_phases(objective) > 1:
        return False, ("not checked: sampling takes one graph in this process, each case counting alike",)
    if objective.size > SAMPLED:
        return False, (f"not checked: more than {SAMPLED:,} parameters, the most for sampling",)
    return True, ()


def _free_phases(objective: Objective) -> int:
    return sum(phase.weight > 0 and not phase.contrasts for phase in objective.phases)


def _starts(objective: Objective, request: Request) -> int:
    if request.starts is not None:
        return request.starts
    hidden = objective.hidden and request.start is None and len(unseen_parameters(objective)) > 0
    return SEVERAL if hidden and objective.has_log_z else 1


# --- the price ------------------------------------------------------------------------------------------------------


def _seconds(
    objective: Objective, curvature: Objective, method: str, form: str, kind: str, starts: int, checked: bool
) -> tuple[tuple[str, float], ...]:
    """Counted work of each part, in seconds on our machine."""
    size, price = objective.size, objective.price()
    own = curvature.price() if curvature is not objective else price
    skewness = 2 * size * price.inference if size <= MOST and kind != "none" else 0.0
    if method == SAMPLED_NEWTON:
        search = _SAMPLED_STEPS * (price.inference + price.covariance)
        correction = (_SPREAD if kind == "variational" else 1) * (price.inference + price.covariance)
    else:
        rough = _ROUGH * starts * price.inference if starts > 1 else 0.0
        steps = _NEWTON * (price.inference + price.covariance) if method == "newton" else _LBFGS * price.inference
        search = rough + steps + own.covariance
        refined = _variational_seconds(size, price, form)
        correction = {"variational": refined, "mean": 2 * min(size, MAX_DIRECTIONS) * price.inference}.get(kind, 0.0)
    parts = [("the search", search), ("the correction", correction + skewness if kind != "none" else 0.0)]
    if checked:
        judge = objective.free.with_engine(enough_chains(Sampled(), objective.weight)).price(size)
        parts.append(("the check", judge.inference + judge.covariance))
    return tuple((name, float(taken)) for name, taken in parts)


def _bytes(objective: Objective, curvature: Objective, form: str, kind: str, checked: bool) -> float:
    """What a fit holds at once, beside what the process has already."""
    size = objective.size
    engines = {id(o): sum(phase.bytes() for phase in o.phases) for o in (objective, curvature)}
    needed = _LOADED + max(engines.values()) + 8.0 * (_DENSE_COPIES * size * size if form == "dense" else 12 * size)
    more = 0.0
    if kind == "mean" and form != "dense":
        held = 8.0 * MAX_DIRECTIONS * size
        more = 3.0 * held + (min(KRYLOV_ROOM, KRYLOV * held) if form == "matrix-free" else 0.0)
    if kind != "none" and not objective.has_log_z:
        chains = longer(objective.free.engine, max(size, 1))
        more = max(more, 16.0 * chains.chains * chains.snapshots * size)
    if checked:
        chains = enough_chains(Sampled(), objective.weight)
        more = max(more, 16.0 * chains.chains * chains.snapshots * size)
    return float(needed + more + getattr(objective.data, "codes", np.empty(0)).nbytes)
