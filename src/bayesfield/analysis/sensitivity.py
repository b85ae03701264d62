"""How much of a posterior is the prior's doing: the same data under priors that are narrower and wider."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import linalg

from bayesfield.fitting.fields import Settings, fit_objective
from bayesfield.fitting.learners import BIASED
from bayesfield.learning.objective import FieldObjective
from bayesfield.model.adaptive_prior import Cauchy
from bayesfield.model.prior import Normal, Prior
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
    if not isinstance(objective, FieldObjective):
        raise InvalidInput("prior_sensitivity refits: it takes a posterior with its data, as bf.fit returns it")
    if posterior.plain is None or record.method in BIASED:
        raise InvalidInput(f'{record.method} has no posterior under another prior; fit with method="auto"')
    if record.response != record.engine:
        raise InvalidInput(
            f"the mode is by {record.engine} and the curvature by {record.response}, which refits would not keep "
            "apart; fit with one engine"
        )
    field, prior = posterior.field, _widened(posterior, objective, factor)
    scaled = replace(
        objective, precision=prior.precision(field), location=prior.location(field), tails=prior.tails(field)
    )
    settings = Settings("auto", objective.form, posterior.mode)
    kind = record.correction.kind
    return fit_objective(field, scaled, record.n_cases, prior, objective.engine, None, settings, kind, rng)


def _widened(posterior: Posterior, objective: FieldObjective, factor: float) -> Prior:
    """The prior that was in force with its variances multiplied; of a Cauchy, the squares of its scales."""
    if objective.precision.ndim == 2:
        return Normal(covariance=factor * linalg.inv(objective.precision), mean=objective.location)
    wider = Normal(variance=factor / objective.precision, mean=objective.location)
    if not isinstance(posterior.prior, Cauchy):
        return wider
    return replace(posterior.prior, scale=posterior.prior.scale * float(np.sqrt(factor)), others=wider)
