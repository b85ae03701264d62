"""What a fit would take, before it runs: each of its dear steps is tried, its time and memory looked at.

A search is a number of inferences and curvatures, a correction a number more. One of each is made, where the fit would
begin; the rest is arithmetic with the usual numbers of steps. ``benchmarks/preview.py`` holds both against fits.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayesfield import memory
from bayesfield.correction import second_order as shifting
from bayesfield.correction import variational as refining
from bayesfield.correction.skewness import MOST, longer
from bayesfield.fitting.fields import Correction, Form, field_objective
from bayesfield.fitting.plan import (
    SAMPLED,
    SAMPLED_NEWTON,
    correction_kind,
    picked,
    precision_form,
    search_method,
    seconds,
    timed,
)
from bayesfield.fitting.sequences import sequence_plan
from bayesfield.inference.auto import Auto
from bayesfield.inference.by_name import as_engine
from bayesfield.inference.contract import Engine
from bayesfield.inference.messages.kikuchi import Kikuchi
from bayesfield.inference.queries import inference_cost
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.learning.objective import FieldObjective, Objective, Point
from bayesfield.learning.phases.chain import ChainObjective, graph_objective
from bayesfield.learning.precision.forms import KRYLOV, KRYLOV_ROOM, Precision
from bayesfield.learning.search.sampled_newton import enough_chains
from bayesfield.learning.search.starts import begin
from bayesfield.model.conditional import CRF
from bayesfield.model.field import RandomField
from bayesfield.model.graphs import Graphs
from bayesfield.model.prior import Parametrised, Prior, as_prior
from bayesfield.response.linear import NotSparse
from bayesfield.types import Cost, FloatArray, IndefiniteCurvature, InvalidInput

_NEWTON = 5  # steps of a search with curvature, the last of which only sees that it has arrived
_LBFGS = 130  # inferences of one without, the products with the curvature that end it among them
_ROUGH = 40  # inferences of a rough one
_SAMPLED = 14  # sampled inferences, each with its covariance
_REFINED = 3.5  # steps of a variational correction
_SPREAD = 16  # sampled inferences that one by chains is worth, with their covariances
_DEAR = 3.0  # seconds, about, of a curvature of which only a few columns are tried
_COLUMNS = 8
_OWN = 1.5e-4  # seconds of our own in every step that is repeated
_DENSE_COPIES = 5  # matrices of the size of the precision that are held at once
_PER_ENTRY = 260  # bytes for each table entry: graph, design, potentials, beliefs, and linear response's own tables
_LOADED = 45e6  # bytes of compiled code and libraries' own


@dataclass(frozen=True, eq=False)
class _Plan:
    """What a fit would do. points: to search from. checked: whether sampling checks it. setup: seconds for the data."""

    objective: Objective
    curved: Objective
    points: list[FloatArray]
    method: str
    kind: str
    checked: bool
    setup: float

    @property
    def size(self) -> int:
        return len(self.objective.location)


@dataclass(frozen=True)
class _Trial:
    """Seconds of an inference, a curvature, and a direction's second derivative."""

    once: float
    bent: float
    along: float


def preview(
    model: RandomField | CRF,
    X: Any = None,
    prior: Prior | None = None,
    engine: Engine | str | None = None,
    response: Engine | str | None = None,
    *,
    y: Sequence[Any] | None = None,
    method: str = "auto",
    correction: Correction = "auto",
    form: Form = "auto",
) -> Cost:
    """What ``bf.fit``, ``bf.fit_sequences`` or ``bf.fit_graphs`` with the same arguments would take: bytes and seconds.

    Without data (or with an engine in their place), what one inference would take: bytes. A fit of the size that was
    asked for is tried for one step of each kind; where a fit is short or mostly reads its data, that takes as long as
    the fit (benchmarks/results/preview.md). A field that does not fit into memory is not tried, has no seconds, and
    ``detail`` says what to do instead.
    """
    if X is None or isinstance(X, str | Engine):
        if not isinstance(model, RandomField):
            raise InvalidInput("a conditional field has a cost with its data only: give X")
        return inference_cost(model, engine if X is None else X)
    if method not in ("auto", "newton", "lbfgs"):
        raise InvalidInput(f'a preview knows method="auto", "newton" and "lbfgs"; got {method!r}')
    begun = time.perf_counter()
    if isinstance(model, CRF) and not isinstance(X, Graphs):
        with memory.Peak() as peak:
            chains, chosen, kind = sequence_plan(model, X, y, as_prior(prior), method, correction, form)
            plan = _Plan(chains, chains, [chains.location], chosen, kind, False, time.perf_counter() - begun)
            return _cost(plan, _sequence_bytes(chains), peak)

    def read() -> FieldObjective:
        if isinstance(model, CRF):
            return graph_objective(model, X, as_prior(prior), as_engine(engine))
        return field_objective(model, X, as_prior(prior), as_engine(engine), None)

    with memory.Peak() as peak:
        return _field_cost(model, read, engine, response, (method, correction, form), peak)


def _field_cost(
    field: Parametrised,
    read: Callable[[], FieldObjective],
    engine: Engine | str | None,
    response: Engine | str | None,
    how: tuple[str, str, str],
    peak: memory.Peak,
) -> Cost:
    method, correction, form = how
    reading, objective = timed(read)
    given = objective.engine
    free = engine is None or isinstance(given, Auto)
    if isinstance(given, Auto):
        given = picked(objective, given)[0]
    if isinstance(given, Sampled):
        given = enough_chains(given, int(objective.weight))
    objective = replace(objective, engine=given)
    objective = replace(objective, form=precision_form(form, objective, given))
    curved = objective if response is None else replace(objective, engine=as_engine(response))
    needed = _field_bytes(objective, curved)
    if needed > memory.usable_bytes():
        return _refused(needed, objective)
    kind, _ = correction_kind(objective, curved, correction, explicit=not free)
    checked = free and not isinstance(given, Exact) and bool(objective.weight) and len(objective.statistic) <= SAMPLED
    beginning, points = timed(lambda: begin(objective, field, None, None, 0))
    plan = _Plan(objective, curved, points, search_method(objective, method), kind, checked, reading + beginning)
    return _cost(plan, needed, peak)


def _cost(plan: _Plan, counted: float, peak: memory.Peak) -> Cost:
    try:
        trial = _tried(plan)
    except NotSparse:
        return _cost(replace(plan, objective=replace(plan.objective, form="matrix-free")), counted, peak)
    needed = max(counted, peak.bytes) + _correction_bytes(plan)
    parts = {
        "the data": plan.setup,
        "the search": _search(plan, trial),
        "the correction": _corrected(plan, trial),
        "the check": _checked(plan) if plan.checked else 0.0,
    }
    total = sum(parts.values())
    named = ", ".join(f"{name} {taken:.2g} s" for name, taken in parts.items() if taken > 0.05 * total)
    detail = (
        f"{plan.size:,} parameters, {plan.objective.form} precision, {plan.method}, correction {plan.kind}: {named}"
    )
    if plan.checked:
        detail += "; more if the check fails and sampling takes over"
    return Cost(plan.size, needed, detail, total)


def _tried(plan: _Plan) -> _Trial:
    o, here = plan.objective, plan.points[0]
    once, point = timed(lambda: o.at(here))
    if plan.method == SAMPLED_NEWTON:
        bent, _ = timed(lambda: o.response(point).covariance())
        return _Trial(once, bent, 0.0)
    seen = point if plan.curved is o else plan.curved.at(here)
    if _dear(plan.curved):
        some = np.eye(plan.size, min(_COLUMNS, plan.size))
        few, _ = timed(lambda: plan.curved.response(seen).product(some))
        return _Trial(once, few * plan.size / some.shape[1], 2.0 * once)
    bent, precision = timed(lambda: _with_widths(plan.curved, seen))
    return _Trial(once, bent, _second_derivative(plan, precision, once))


def _with_widths(objective: Objective, point: Point) -> Precision | None:
    """None where it is not positive definite, as it need not be away from the mode."""
    try:
        found = objective.posterior_precision(point)
        _ = found.sd
    except IndefiniteCurvature:
        return None
    return found


def _second_derivative(plan: _Plan, precision: Precision | None, once: float) -> float:
    """Seconds for each direction: analytic where the response knows it, else two inferences; and to draw it."""
    if plan.kind != "mean" or precision is None:
        return 2.0 * once
    count = min(_COLUMNS, plan.size)
    drawing, along = timed(lambda: precision.sample(np.random.default_rng(0), count))
    knowing, known = timed(lambda: plan.objective.bends(plan.points[0], along))
    return (drawing + (2.0 * count * once if known is None else max(knowing - once, 0.0))) / count


def _search(plan: _Plan, trial: _Trial) -> float:
    """Seconds until the mode is found, and the precision there."""
    if plan.method == SAMPLED_NEWTON:
        return _SAMPLED * (trial.once + trial.bent)
    rough = (_ROUGH * trial.once) * len(plan.points) if len(plan.points) > 1 else 0.0
    if plan.method == "newton":
        own = trial.bent if plan.curved is plan.objective else _timed_bent(plan.objective, plan.points[0])
        return rough + _NEWTON * (trial.once + own + _OWN) + trial.bent
    return rough + _LBFGS * (trial.once + _OWN) + trial.bent


def _timed_bent(objective: Objective, here: FloatArray) -> float:
    point = objective.at(here)
    return timed(lambda: _with_widths(objective, point))[0]


def _corrected(plan: _Plan, trial: _Trial) -> float:
    """Seconds of the correction, and of the marginals' skewness after it."""
    if plan.kind == "none" or not plan.size:
        return 0.0
    size, dense = plan.size, plan.objective.form == "dense"
    each = trial.along + _OWN
    skewness = size * each if size <= MOST else 0.0
    if plan.method == SAMPLED_NEWTON:
        return _SPREAD * (trial.once + trial.bent) if plan.kind == "variational" else trial.bent
    if plan.kind == "mean":
        return min(size, shifting.MAX_DIRECTIONS) * each + skewness
    draws, bends = refining.draws_and_bends(size, dense)
    return _REFINED * (draws * (trial.once + _OWN) + bends * (trial.bent + _OWN)) + skewness


def _checked(plan: _Plan) -> float:
    """Seconds of the sampling that checks a fit, from an eighth of its chains."""
    o = plan.objective
    assert isinstance(o, FieldObjective)
    whole = enough_chains(Sampled(), int(o.weight))
    some = replace(whole, chains=max(whole.chains // 8, whole.batches))
    theta = o.field.design.potentials(plan.points[0])
    once, found = timed(lambda: some.infer(o.field.graph, theta))
    bent, _ = timed(lambda: some.response(o.field.graph, o.field.design, theta, found).covariance())
    return (once + bent) * whole.chains / some.chains


def _dear(objective: Objective) -> bool:
    """Whether a curvature takes so long that a few of its columns must do."""
    if not isinstance(objective, FieldObjective):
        return objective.form == "dense" and len(objective.location) > 20 * _COLUMNS
    return isinstance(objective.engine, Exact) and seconds(objective.engine, objective)[1] > _DEAR


# --- memory ---------------------------------------------------------------------------------------------------------


def _correction_bytes(plan: _Plan) -> float:
    """Of what a trial does not do: all directions at once, and the sampling that checks."""
    size, o = plan.size, plan.objective
    needed = 0.0
    if plan.kind == "mean" and o.form != "dense":
        held = 8.0 * shifting.MAX_DIRECTIONS * size
        needed += 3.0 * held + (min(KRYLOV_ROOM, KRYLOV * held) if o.form == "matrix-free" else 0.0)
        if isinstance(o, FieldObjective) and isinstance(o.engine, Kikuchi):  # tables of all clusters, for each
            needed += 4.0 * 8.0 * shifting.MAX_DIRECTIONS * o.engine.preview(o.field.graph).entries
    if plan.kind != "none" and isinstance(o, FieldObjective) and isinstance(o.engine, Sampled):
        for_skewness = longer(o.engine, size)  # whose features are held, once as they are and once about their mean
        needed = max(needed, 16.0 * for_skewness.chains * for_skewness.snapshots * size)
    if plan.checked and isinstance(o, FieldObjective):
        chains = enough_chains(Sampled(), int(o.weight))
        needed = max(needed, 16.0 * chains.chains * chains.snapshots * size)
    return needed


def _field_bytes(objective: FieldObjective, curved: FieldObjective) -> float:
    """Of all that a fit holds at once, beside what the process has already."""
    size, graph = len(objective.statistic), objective.field.graph
    engines = {id(e): e.preview(graph).bytes for e in (objective.engine, curved.engine)}
    needed = _LOADED + max(engines.values()) + _PER_ENTRY * graph.n_entries + objective.codes.nbytes
    if objective.form == "dense":
        return float(needed + 8.0 * _DENSE_COPIES * size * size)
    return float(needed + 8.0 * 12 * size)


def _sequence_bytes(objective: ChainObjective) -> float:
    """Messages and marginals of all positions, the inputs, and the precision."""
    data, labels, size = objective.data, len(objective.crf.labels), objective.crf.n_parameters
    held = data.inputs.data.nbytes + data.inputs.indices.nbytes + 8.0 * data.positions * (8 * labels + 4)
    held += 8.0 * 6 * len(data.edge_rows) * labels**2
    own = _DENSE_COPIES * size**2 if objective.form == "dense" else 12 * size
    return float(_LOADED + held + 8.0 * own)


def _refused(needed: float, objective: FieldObjective) -> Cost:
    usable = memory.usable_bytes()
    advice = {
        "dense": 'Take form="sparse" with bf.Bethe(), or form="matrix-free".',
        "sparse": "Tie parameters, or fit parts of the field.",
    }.get(objective.form, "Take bf.Bethe(), which needs least.")
    if isinstance(objective.engine, Exact):
        advice = "Take bf.Kikuchi() or bf.Bethe(), or engine=None, which chooses."
    detail = (
        f"does not fit: {needed / 2**30:.3g} GiB are needed, and {usable / 2**30:.3g} GiB may be used here. {advice}"
    )
    return Cost(len(objective.statistic), needed, detail)
