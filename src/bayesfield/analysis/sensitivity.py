"""How much of a posterior is the prior's doing: the same data under priors that are narrower and wider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from bayesfield.fitting.pipeline import fit_objective
from bayesfield.fitting.planning.request import request
from bayesfield.learning.objective import gaussian
from bayesfield.learning.search.by_name import BIASED
from bayesfield.model.adaptive_prior import Cauchy
from bayesfield.model.prior import Prior
from bayesfield.posterior.posterior import Posterior, require_posterior
from bayesfield.types import InvalidInput

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


def prior_sensitivity(
    posterior: Posterior,
    factors: Sequence[float] = FACTORS,
    *,
    level: float = 0.95,
    rng: np.random.Generator | int | None = 0,
) -> pd.DataFrame:
    """A row for each factor and parameter: mean, sd and interval when the prior's variances are multiplied by it.

    Each is a fit of its own, by the posterior's engine and correction, from its mode. A parameter that moves by more
    than a fraction of its sd between ½ and 2 owes its value to the prior.
    """
    require_posterior(posterior)
    wrong = [f for f in factors if not isinstance(f, int | float | np.number) or not 0.0 < f < np.inf]
    if wrong or not len(factors):
        raise InvalidInput(f"factors are numbers above zero, of the prior's variances; got {list(factors)}")
    tables = []
    for factor in factors:
        table = (posterior if factor == 1.0 else _refitted(posterior, float(factor), rng)).summary(level).reset_index()
        table.insert(0, "factor", float(factor))
        tables.append(table.drop(columns="p_positive"))
    return pd.concat(tables, ignore_index=True)


def _refitted(posterior: Posterior, factor: float, rng: np.random.Generator | int | None) -> Posterior:
    objective, record = posterior.objective, posterior.record
    if objective is None:
        raise InvalidInput("prior_sensitivity refits: it takes a posterior with its data, as bf.fit returns it")
    if posterior.laplace_precision is None or record.method in BIASED:
        raise InvalidInput(f'{record.method} has no posterior under another prior; fit with method="auto"')
    if record.response != record.engine:
        raise InvalidInput(
            f"the mode is by {record.engine} and the curvature by {record.response}, which refits would not keep "
            "apart; fit with one engine"
        )
    prior = _widened(posterior, factor)
    asked = request(
        prior,
        objective.free.engine,
        correction=record.correction.kind,
        form=posterior.laplace_precision.form,
        start=posterior.mode,
        rng=rng,
    )
    scaled = replace(objective, prior=gaussian(prior, posterior.field))
    return fit_objective(posterior.field, scaled, asked, depth=4)


def _widened(posterior: Posterior, factor: float) -> Prior:
    """The prior that was in force with its variances multiplied; of a Cauchy, the squares of its scales."""
    assert posterior.objective is not None
    wider = posterior.objective.prior.scaled(factor)
    if not isinstance(posterior.prior, Cauchy):
        return wider
    return replace(posterior.prior, scale=posterior.prior.scale * float(np.sqrt(factor)), others=wider)
