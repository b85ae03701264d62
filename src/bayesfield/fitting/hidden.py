"""From observations of hidden labels to the posterior of all parameters: of the labels' law and of the emission."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bayesfield import parallel
from bayesfield.fitting.pipeline import fit_objective
from bayesfield.fitting.planning.request import Correction, request
from bayesfield.inference.contract import Engine
from bayesfield.learning.hidden.expectation import hidden_start
from bayesfield.learning.hidden.labels import labels_start
from bayesfield.learning.hidden.observed import observed_objective, starting
from bayesfield.learning.objective import Objective, gaussian
from bayesfield.learning.search.optimum import Watch
from bayesfield.model.emissions.hidden import HiddenField, HiddenModel, as_ends, as_observations
from bayesfield.model.prior import Prior
from bayesfield.posterior.posterior import Posterior
from bayesfield.types import FloatArray

_BUDGET = 3.0  # seconds of counted work that a correction may take


def fit_hidden(
    field: HiddenField,
    y: Any,
    prior: Prior | None = None,
    engine: Engine | str = "auto",
    *,
    lengths: Any = None,
    correction: Correction = "auto",
    start: Any = None,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    rng: np.random.Generator | int | None = 0,
    budget: float = _BUDGET,
    time_limit: float | None = None,
    verbose: bool | None = None,
    watch: Watch | None = None,
) -> Posterior:
    """The Gaussian posterior of a hidden field's parameters, given what is observed of its labels.

    field: from ``bf.hidden_field``. y: (n,) or (n, D), an observation of each label, NaN where it is missing: lattices
    in row order. lengths: of sequences, where a chain has several end to end. prior: by default Gaussian in all
    parameters, weak, at the scale of the data (each emission says how); ``bf.Normal(variance=1e8)`` is flat. engine:
    "auto" is exact where that is affordable, and on larger Potts fields takes chains of labels, which know the
    posterior to second order about its mode. start: parameters to begin from; by default those of some steps of EM.
    The rest as in ``bf.fit``.

    Labels may change places without any change to what is observed. Those of the posterior are in the order of their
    means (of the first column), and it is that of one mode.
    """
    values = as_observations(y)
    model = field.bound(values)
    asked = request(
        model.default_prior(values) if prior is None else prior, engine, correction=correction, start=start,
        tolerance=tolerance, max_iterations=max_iterations, rng=rng, budget=budget, time_limit=time_limit,
        verbose=verbose, watch=watch,
    )  # fmt: skip
    objective = read_hidden(model, values, lengths, asked.prior)
    first = labels_start if objective.emits else partial(hidden_start, rng=0)
    with parallel.single_blas():  # products of 10⁵ rows and few columns: two threads take ten times as long where busy
        return fit_objective(model, starting(objective, first), asked)


def read_hidden(model: HiddenModel, y: FloatArray, lengths: Any, prior: Prior) -> Objective:
    """The objective of observations."""
    ends = as_ends(lengths, len(y))
    return observed_objective(model, y, ends, gaussian(prior, model))
