"""The posterior that data would leave at given parameters: no data, and nothing is fitted."""

import time
from dataclasses import replace
from typing import Any

import numpy as np

from bayesfield.correction.second_order import CorrectionRecord
from bayesfield.fitting.optimum import Corrected, Found, fit_record, precision_at
from bayesfield.fitting.plan import precision_form
from bayesfield.graph.compiled import as_parameters, compiled
from bayesfield.inference.auto import Auto
from bayesfield.inference.by_name import as_engine
from bayesfield.inference.contract import Engine
from bayesfield.learning.objective import observed_objective
from bayesfield.learning.search.minimise import Optimum
from bayesfield.model.field import RandomField
from bayesfield.model.prior import Prior, as_prior
from bayesfield.posterior.posterior import Posterior
from bayesfield.response.linear import NotSparse
from bayesfield.types import InvalidInput, Outcome, Status


def laplace(
    field: RandomField,
    parameters: Any,
    n: int = 1000,
    prior: Prior | None = None,
    engine: Engine | str | None = None,
    *,
    form: str = "auto",
) -> Posterior:
    """N(parameters, P⁻¹) with P = n C + Λ⁻¹: what n cases with these expectations would tell.

    Equation (7) at a λ of one's own: for planning (how many cases?), and for parameters that another program found.
    prior: by default Normal(variance=1). engine: of the covariance C, by default Auto(). form: as in ``bf.fit``.
    """
    begun = time.perf_counter()
    if field.hidden:
        raise InvalidInput("with hidden variables the curvature depends on the data; take bf.fit")
    if n < 0:
        raise InvalidInput(f"the number of cases must not be negative; got {n}")
    known, given = as_prior(prior), as_parameters(field, parameters)
    if known.learned(field) or known.tails(field) is not None:
        raise InvalidInput("without data a prior has nothing to learn from: take a bf.Normal with numbers as variances")
    picked = as_engine(engine)
    if isinstance(picked, Auto):
        picked = picked.choose(compiled(field).graph)[0]
    codes = np.empty((0, field.n_variables), dtype=np.int64)
    empty = observed_objective(compiled(field), codes, known.precision(field), known.location(field), picked)
    objective = replace(empty, weight=float(n), form=precision_form(form, empty, picked))
    point = objective.at(given)._replace(gradient=np.zeros(len(given)))
    optimum = Optimum(point, Status(Outcome.GIVEN, 0, 0.0), ())
    try:
        precision, inference = precision_at(objective, objective, optimum, field)
    except NotSparse:
        if form != "auto":
            raise
        objective = replace(objective, form="matrix-free")
        precision, inference = precision_at(objective, objective, optimum, field)
    found = Found(objective, objective, optimum, precision, inference, "given")
    kept = Corrected(given, precision, CorrectionRecord("none", reason="nothing was fitted"), None)
    record = fit_record(found, kept, (found.engine_name, found.response_name, "given"), n, time.perf_counter() - begun)
    return Posterior(field, given, precision, replace(record, log_likelihood=float("nan")), given, prior=known)
