"""What a fit does: decided before it runs, and from counts alone.

All that "auto" stands for is decided here (engine, search, form, correction, draws); what truly cannot be done is
refused first (``planning.request``). The same data and version give the same plan on every machine, fast or slow, idle
or busy: work is counted in table entries, parameters and draws, and only said in seconds, of one core of the machine
that the constants were measured on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesfield.correction.cumulants import MAX_DIRECTIONS, MOST, longer, shift_states
from bayesfield.correction.draws import CHAINED
from bayesfield.correction.draws import MOST as MOST_DRAWN
from bayesfield.correction.importance import FILLED, LEAST, MORE, MOST_EVEN, MOST_WEIGHED
from bayesfield.correction.mean_field import PAIRS
from bayesfield.correction.mean_field import STEPS as AVERAGE_STEPS
from bayesfield.correction.profile import KNOTS, MOST_PROFILED, PARAMETERS, STEPS, form_along
from bayesfield.correction.variational import CURVATURES, FEW, MANY, MIN_DIRECTIONS, directions
from bayesfield.inference.sampling.sampled import Sampled, dense
from bayesfield.inference.sampling.streamed import Streamed
from bayesfield.inference.sampling.streams import CHAINS, seconds_a_sweep
from bayesfield.learning.precision.matrix_free import KRYLOV, KRYLOV_ROOM
from bayesfield.learning.search.minimise import SEVERAL, TANGLED, unseen_parameters
from bayesfield.posterior.record import SAMPLED_NEWTON, SECOND_ORDER, Plan
from bayesfield.response.base import require_dense
from bayesfield.types import InvalidInput

if TYPE_CHECKING:
    from bayesfield.fitting.planning.request import Request
    from bayesfield.inference.contract import Engine, Price
    from bayesfield.learning.objective import Counts, Objective
    from bayesfield.learning.search.learner import Learner

DENSE = 5000  # parameters up to which the precision is dense …
SMALL = 1500  # … where the sparse form would do as well: it is 8 times faster at 1,160 parameters, 60 times at 4,720
SAMPLED = 6000  # parameters up to which the sampled engine, whose covariance is dense, stands in for another, …
SAMPLED_DENSE = 25_000  # … and on dense graphs, where messages say little, for all that memory holds
EXPENSIVE = 40.0  # seconds of one curvature, beyond which L-BFGS searches without
EXACT_FIT = 60.0  # seconds of an exact search, beyond which sampling is the cheaper way to a checked one
_SPARSE = 10.0  # seconds of a curvature within tables, which share their parameters: a sparse form does not exist
_SAMPLED_VARIATIONAL = 2000  # parameters up to which the sampled variational correction is taken
_PLENTY = 20  # cases for each parameter, beyond which chains shift the mean to second order and leave the widths, …
_FEW_PARAMETERS = 200  # … unless they are so few that more costs little
_JUDGED, _JUDGED_ALWAYS = 0.2, 0.15  # of the work of a fit, and seconds, that its certificate may take
_DRAWN = 10.0  # seconds that a posterior made of draws may take, or as many as the fit itself

# What things cost
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


class Planned(NamedTuple):
    """A plan, and the objectives with its engines. chosen: whether the engine was chosen here, not by the user.
    reason: of the correction. counts: what all this was decided from."""

    plan: Plan
    objective: Objective
    curvature_objective: Objective
    chosen: bool
    reason: str
    counts: Counts


def make_plan(objective: Objective, request: Request, engine: Engine | None = None) -> Planned:
    """engine: instead of the request's, where the first one's check has failed."""
    request.refuse(objective)
    if request.learner is not None and request.learner.own_precision and request.by_itself:
        return _without_engine(objective, request, request.learner)
    asked = request.engine if engine is None else engine
    chosen = asked.traits.chooses
    reasons: tuple[str, ...] = ()
    if chosen:
        asked, reasons = _picked(objective, asked, request)
    if not asked.traits.has_log_z:
        free = objective.free
        asked = asked.for_fields(free.graph, free.design).enough_for(free.cases)  # type: ignore[attr-defined]
    by_engine = objective.with_engine(asked)
    counts = by_engine.counts()
    curvature = by_engine if request.response is None else by_engine.with_engine(request.response)
    form = _form(request.form, counts)
    method = _method(counts, request, form)
    explicit = not chosen and engine is None
    kinds, why = _corrections(by_engine, counts, request, form, explicit)
    checked, unchecked = _checked(counts, request, chosen)
    starts = _starts(by_engine, counts, request)
    price = counts.price if curvature is by_engine else curvature.counts().price
    seconds = work(by_engine, counts, price, (method, form, kinds[0]), starts, checked)
    total = sum([taken for _, taken in seconds])
    held = bytes_held(by_engine, counts, curvature, (form, kinds[0]), checked)
    named = starts > 1 and counts.exact and by_engine.symmetries is not None
    judged, certificate, draws = _judged(counts, request, form, starts, explicit, total, named)
    profiles = 0
    if request.correction == "profile" or (certificate and starts == 1 and draws < CHAINED):
        profiles, profiling = _profiles(by_engine, counts, request, form)
        seconds, total = (*seconds, *profiling), total + sum([taken for _, taken in profiling])
    plan = Plan(
        engine=repr(asked),
        response=repr(asked if request.response is None else request.response),
        method=method,
        form=form,
        corrections=kinds,
        starts=starts,
        checked=checked,
        reasons=(*reasons, *unchecked),
        seconds=seconds,
        total=total,
        bytes=held,
        certificate=certificate,
        draws=draws,
        profiles=profiles,
        judged=judged,
    )
    return Planned(plan, by_engine, curvature, chosen, why, counts)


def _without_engine(objective: Objective, request: Request, learner: Learner) -> Planned:
    """A learner that has all it needs, which then is asked neither for an engine's choice nor its price."""
    near = learner.minimised(objective)
    counts, form = near.counts(), learner.form_of(near, request.form)
    kinds, why = _corrections(near, counts, request, form, False)
    seconds = learner.work(near) or work(near, counts, counts.price, ("newton", form, "none"), 1, False)
    plan = Plan(
        engine=repr(learner),
        response=repr(learner),
        method=learner.name,
        form=form,
        corrections=kinds,
        starts=1,
        checked=False,
        reasons=(),
        seconds=seconds,
        total=sum(taken for _, taken in seconds),
        bytes=bytes_held(near, counts, near, (form, "none"), False),
        judged=learner.drawn,
    )
    return Planned(plan, objective, objective, False, why, counts)


# --- decisions ------------------------------------------------------------------------------------------------------


def _picked(objective: Objective, auto: Any, request: Request) -> tuple[Engine, tuple[str, ...]]:
    """By its cost: exact where a search by it is affordable. All free phases must agree."""
    if request.streams(objective) and auto.exact.preview(objective.free.graph).entries > auto.max_entries:
        entries = objective.free.graph.n_entries
        return Streamed(), (
            f"streaming chains were chosen: {objective.size} parameters are tied over {entries:,} table entries, and "
            f"exact inference would need {auto.exact.preview(objective.free.graph).detail}",
        )
    engine, reason = objective.phases[0].choose(auto)
    free = objective.free
    for phase in objective.phases[1:]:
        if engine.traits.exact and not phase.contrasts:
            engine, reason = phase.choose(auto)
    if engine.traits.exact and objective.phases[0].samples and objective.prior.size <= SAMPLED:
        long = search_seconds(objective.with_engine(engine).counts().price)
        if long > EXACT_FIT:
            engine, reason = free.choose(replace(auto, max_entries=0))
            reason = f"{reason.partition(':')[0]}: an exact fit would take about {_rounded(long)} s of counted work"
    if not engine.traits.exact and free.samples and objective.prior.size <= SAMPLED_DENSE and dense(free.graph):
        engine = Sampled()
        reason = f"sampling was chosen: {reason.partition(': ')[2]}; messages say little of fields as dense"
    return engine, (reason,)


def _form(asked: str, counts: Counts) -> str:
    """The form of the precision, with what the phases can do."""
    if not counts.has_log_z:
        asked = "dense"
    elif asked == "auto" and counts.linear and counts.price.tangled > (EXPENSIVE if counts.size <= SMALL else _SPARSE):
        asked = "mean-field"
    elif asked == "auto":
        if counts.size <= (SMALL if counts.linear else DENSE):
            asked = "dense"
        else:
            asked = "sparse" if counts.linear else "mean-field" if counts.averages else "matrix-free"
    if asked == "dense" and counts.size > SMALL:
        require_dense(counts.size, "a posterior", 'Tie parameters, fit a smaller field, or take form="matrix-free".')
    return asked


def _method(counts: Counts, request: Request, form: str) -> str:
    """Newton, unless one covariance is too expensive."""
    if not isinstance(request.method, str):
        return request.method.name
    if not counts.has_log_z:
        return SAMPLED_NEWTON
    if request.method in ("newton", "lbfgs"):
        return request.method
    if form == "sparse":
        return "newton"
    cheap = counts.price.covariance <= EXPENSIVE and counts.price.tangled <= TANGLED
    return "newton" if form == "dense" and cheap else "lbfgs"


def _corrections(
    objective: Objective, counts: Counts, request: Request, form: str, explicit: bool
) -> tuple[tuple[str, ...], str]:
    """The kinds to try in order, and why the first. explicit: the engine was the user's choice."""
    if request.method == "ep":
        return ("expectation propagation",), ""
    learner = request.method
    if not isinstance(learner, str) and not learner.at_mode:
        reason = f"{learner.name} ends beside the posterior's mode, where corrections start"
        return ("none",), reason if request.correction == "auto" else ""
    if request.correction not in ("auto", "draws", "profile"):
        return (request.correction,), ""
    if not counts.weight:
        return ("none",), "there are no data"
    if counts.gaussian:
        return ("none",), SECOND_ORDER
    if request.response is not None or (explicit and counts.as_published):
        return ("none",), "as in the paper"
    if form == "block":
        return ("none",), "widths by blocks are too rough to correct by"
    if form == "mean-field":
        averaged = mean_field_seconds(counts)
        if averaged <= max(request.budget, after_search_seconds(counts.price)):
            return ("variational", "none"), ""
        return ("none",), f"mean-field averages would take about {_rounded(averaged)} s of counted work"
    kind, reason = _affordable(objective, counts, form, request.budget)
    return {"variational": ("variational", "mean", "none"), "mean": ("mean", "none")}.get(kind, ("none",)), reason


def _affordable(objective: Objective, counts: Counts, form: str, budget: float) -> tuple[str, str]:
    """The best correction within the budget of counted work."""
    size, price = counts.size, counts.price
    if not counts.has_log_z:
        holes = sum(phase.price(size).inference for phase in objective.phases[1:])
        refined = holes_seconds(holes)
        if refined > budget:
            return "mean", f"the variational one would take about {_rounded(refined)} s for the holes alone"
        if size > _FEW_PARAMETERS and counts.weight > _PLENTY * size:
            return "mean", f"more than {_PLENTY} cases a parameter: the posterior is nearly Gaussian"
        return ("variational", "") if size <= _SAMPLED_VARIATIONAL else ("mean", "too many parameters for more")
    refined = variational_seconds(size, price, form)
    if refined < budget:
        return "variational", ""
    shifted = shift_seconds(size, price)
    if shifted < budget:
        return "mean", f"the variational one would take about {_rounded(refined)} s of counted work"
    return "none", f"a shift of the mean would take about {_rounded(shifted)} s of counted work"


def _rounded(seconds: float) -> str:
    return f"{seconds:,.0f}" if seconds >= 10 else f"{seconds:.2g}"


def _checked(counts: Counts, request: Request, chosen: bool) -> tuple[bool, tuple[str, ...]]:
    """Whether sampling checks the mode; and why not, where that is worth a word."""
    if not chosen or not isinstance(request.method, str) or not counts.weight:
        return False, ()
    if counts.exact or counts.streams or not counts.has_log_z:
        return False, ()
    if counts.price.tangled > EXPENSIVE:
        return False, ("not checked: chains of many graphs whose tables have many parameters take too long",)
    if not counts.samples or counts.free_phases > 1:
        return False, ("not checked: sampling takes one graph in this process, each case counting alike",)
    if counts.size > SAMPLED:
        return False, (f"not checked: more than {SAMPLED:,} parameters, the most for sampling",)
    return True, ()


def _judged(
    counts: Counts, request: Request, form: str, starts: int, explicit: bool, total: float, named: bool
) -> tuple[bool, int, int]:
    """Whether the fit makes a certificate; draws whose weights judge the posterior; and evaluations that a posterior
    made of draws may take.

    What the paper publishes, and plain Laplace where it was asked for, is judged when somebody asks. Chains stay within
    a mode, so that fits with several are made of draws only where modes are images of one another that chains may name.
    """
    learner, size, each = request.learner, counts.size, counts.price.each
    drawable = counts.has_log_z and size <= MOST_DRAWN and (starts == 1 or named) and request.method != "ep"
    drawable = drawable and request.response is None and form == "dense" and (learner is None or learner.at_mode)
    if request.correction == "profile":
        return True, 0, 0
    if request.correction == "draws":
        if not drawable:
            raise InvalidInput(
                f'correction="draws" is for up to {MOST_DRAWN} parameters with a dense precision, one mode, log Z and '
                f"no separate response; here {size} parameters, form {form!r}, {starts} starts. Take "
                'bf.sample_posterior, or correction="profile" for a few marginals of a large field'
            )
        return True, 0, max(int(request.budget / each), 2 * CHAINED)
    published = request.response is not None or (explicit and counts.as_published)
    if request.correction == "none" or published or not counts.weight or request.method == "ep" or not size:
        return False, 0, 0
    if not counts.has_log_z or (learner is not None and not learner.at_mode) or not np.isfinite(total + each):
        return True, 0, 0
    if form == "mean-field" or counts.gaussian:
        return True, 0, 0  # weights of draws that vary in thousands of directions say nothing
    count = MOST_EVEN if size <= FILLED else MOST_WEIGHED // MORE
    while count >= LEAST and count * counts.price.value > max(_JUDGED * total, _JUDGED_ALWAYS):
        count //= 2  # coarsely: the same data through another door have another price, and should have the same plan
    count = (count if size <= FILLED else MORE * count) if count >= LEAST else 0
    draws = drawable and request.correction == "auto" and count
    allowed = min(request.budget, max(total, 2.0 * _DRAWN if named else _DRAWN))
    return True, count, int(min(allowed / each, 4 * CHAINED)) if draws else 0


def _profiles(
    objective: Objective, counts: Counts, request: Request, form: str
) -> tuple[int, tuple[tuple[str, float], ...]]:
    """How many parameters may be profiled, and, where that was asked for, the seconds that as many as usual take."""
    if not counts.has_log_z:
        return 0, ()
    each = profile_seconds(counts, form)
    usual, affordable = min(PARAMETERS, counts.size), min(int(request.budget / each), counts.size, MOST_PROFILED)
    if request.correction == "profile":
        return max(usual, affordable), (("the profiles", usual * each),)
    possible = request.correction == "auto" and objective.prior.tails is None and form not in ("block", "mean-field")
    return affordable if possible else 0, ()


def _starts(objective: Objective, counts: Counts, request: Request) -> int:
    if request.starts is not None:
        return request.starts
    if not counts.hidden or counts.streams or not counts.has_log_z or request.start is not None:
        return 1
    return SEVERAL if len(unseen_parameters(objective)) else 1


# --- what things cost, in seconds of counted work and bytes ---------------------------------------------------------


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
