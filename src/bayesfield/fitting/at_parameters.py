"""The posterior that data would leave at given parameters: no data, and nothing is fitted."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from bayesfield.correction.cumulants import CorrectionRecord
from bayesfield.fitting.pipeline import with_precision
from bayesfield.fitting.plan import make_plan
from bayesfield.fitting.planning.request import Form, request
from bayesfield.graph.compiled import as_parameters, compiled
from bayesfield.inference.contract import Engine
from bayesfield.learning.objective import gaussian
from bayesfield.learning.phases.cases import case_objective
from bayesfield.learning.search.optimum import Optimum
from bayesfield.model.field import RandomField
from bayesfield.model.prior import Prior
from bayesfield.posterior.posterior import Posterior
from bayesfield.posterior.record import FitRecord
from bayesfield.response.linear import NotSparse
from bayesfield.types import InvalidInput, Outcome, Status


def laplace(
    field: RandomField,
    parameters: Any,
    n: int = 1000,
    prior: Prior | None = None,
    engine: Engine | str = "auto",
    *,
    form: Form = "auto",
) -> Posterior:
    """N(parameters, P⁻¹) with P = n C + Λ⁻¹: what n cases with these expectations would tell.

    Equation (7) at a λ of one's own: for planning (how many cases?), and for parameters that another program found.
    prior: by default Normal(variance=1). engine: of the covariance C. form: as in ``bf.fit``.
    """
    begun = time.perf_counter()
    if field.hidden:
        raise InvalidInput("with hidden variables the curvature depends on the data; take bf.fit")
    if n < 0:
        raise InvalidInput(f"the number of cases must not be negative; got {n}")
    asked, given = request(prior, engine, form=form, correction="none"), as_parameters(field, parameters)
    stated = asked.prior
    if stated.learned(field) or stated.tails(field) is not None:
        raise InvalidInput("without data a prior has nothing to learn from: take a bf.Normal with numbers as variances")
    codes = np.empty((0, field.n_variables), dtype=np.int64)
    empty = case_objective(compiled(field), codes, gaussian(stated, field), asked.engine)
    free = replace(empty.free, weight=float(n))
    planned = make_plan(replace(empty, phases=(free,)), asked)
    objective, point = planned.objective, planned.objective.at(given)
    optimum = Optimum(point._replace(gradient=np.zeros(len(given))), Status(Outcome.GIVEN, 0, 0.0), ())
    try:
        fitted = with_precision(field, objective, objective, optimum, planned.plan.form, "given")
    except NotSparse:
        if form != "auto":
            raise
        fitted = with_precision(field, objective, objective, optimum, "matrix-free", "given")
    record = FitRecord(
        engine=fitted.engine_name,
        response=fitted.response_name,
        method="given",
        form=fitted.precision.form,
        status=optimum.status,
        inference=fitted.inference,
        iterations=(),
        gradient_norm=0.0,
        distance=0.0,
        log_likelihood=float("nan"),
        n_cases=n,
        correction=CorrectionRecord("none", reason="nothing was fitted"),
        seconds=time.perf_counter() - begun,
        plan=planned.plan,
    )
    return Posterior(field, given, fitted.precision, record, given, prior=stated)
