"""What a fit would do and take, before it runs: its plan, priced by counts. ``benchmarks/preview.py`` holds it against
fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayesfield import memory
from bayesfield.fitting.fields import read_field
from bayesfield.fitting.graphs import read_graphs
from bayesfield.fitting.plan import Planned, make_plan
from bayesfield.fitting.planning.layers import by_layers
from bayesfield.fitting.planning.request import BUDGET, Correction, Form, Request, request
from bayesfield.fitting.sequences import read_sequences
from bayesfield.inference.contract import Engine
from bayesfield.inference.queries import inference_cost
from bayesfield.learning.objective import Objective
from bayesfield.learning.search.learner import Learner
from bayesfield.model.conditional import CRF
from bayesfield.model.field import RandomField
from bayesfield.model.graphs import Graphs
from bayesfield.model.prior import Prior
from bayesfield.types import Cost, InvalidInput


def preview(
    model: RandomField | CRF,
    X: Any = None,
    prior: Prior | None = None,
    engine: Engine | str = "auto",
    response: Engine | str | None = None,
    *,
    y: Sequence[Any] | None = None,
    method: str | Learner = "auto",
    correction: Correction = "auto",
    form: Form = "auto",
    budget: float = BUDGET,
) -> Cost:
    """What ``bf.fit``, ``bf.fit_sequences`` or ``bf.fit_graphs`` with the same arguments would do, and what it takes.

    The answer's ``detail`` is the plan that the fit would follow; bytes and seconds are its price, by counts: seconds
    of counted work on our machine, which others do in more or less time. Nothing is inferred. Without data (or with an
    engine in their place), what one inference would take: bytes. Where it does not fit into memory, ``detail`` says
    what to do instead.
    """
    if X is None or isinstance(X, str | Engine):
        if not isinstance(model, RandomField):
            raise InvalidInput("a conditional field has a cost with its data only: give X")
        return inference_cost(model, engine if X is None else X)
    asked = request(prior, engine, response, method, correction=correction, form=form, budget=budget)
    planned = make_plan(*by_layers(_read(model, X, y, asked), asked))
    plan = planned.plan
    if plan.bytes > memory.usable_bytes():
        return _refused(planned)
    detail = f"{planned.objective.size:,} parameters\n{plan}"
    return Cost(planned.objective.size, plan.bytes, detail, plan.total)


def _read(model: RandomField | CRF, X: Any, y: Sequence[Any] | None, asked: Request) -> Objective:
    if isinstance(model, RandomField):
        return read_field(model, X, asked)
    if isinstance(X, Graphs):
        return read_graphs(model, X, y, asked)
    return read_sequences(model, X, y, None, asked)


def _refused(planned: Planned) -> Cost:
    plan, usable = planned.plan, memory.usable_bytes()
    advice = {
        "dense": 'Take form="sparse" with bf.Bethe(), or form="matrix-free".',
        "sparse": "Tie parameters, or fit parts of the field.",
    }.get(plan.form, "Take bf.Bethe(), which needs least.")
    if planned.objective.exact and planned.objective.free.samples:
        advice = 'Take bf.Kikuchi() or bf.Bethe(), or engine="auto", which chooses.'
    detail = (
        f"does not fit: {plan.bytes / 2**30:.3g} GiB are needed, and {usable / 2**30:.3g} GiB may be used here. "
        f"{advice}"
    )
    return Cost(planned.objective.size, plan.bytes, detail)
