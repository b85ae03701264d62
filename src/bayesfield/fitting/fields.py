"""From a field and cases to the posterior of its parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from bayesfield.fitting.pipeline import fit_objective
from bayesfield.fitting.planning.request import BUDGET, Correction, Form, Request, request
from bayesfield.graph.compiled import compiled
from bayesfield.inference.contract import Engine
from bayesfield.learning.objective import Objective, gaussian
from bayesfield.learning.phases.cases import field_objective
from bayesfield.learning.phases.remote import remote_cases
from bayesfield.learning.search.learner import Learner
from bayesfield.learning.search.optimum import Watch
from bayesfield.model.field import RandomField
from bayesfield.model.partitions import CaseFiles
from bayesfield.model.prior import Prior
from bayesfield.posterior.posterior import Posterior
from bayesfield.tabular import as_table
from bayesfield.types import InvalidInput


def fit(
    field: RandomField,
    X: Any,
    prior: Prior | None = None,
    engine: Engine | str = "auto",
    response: Engine | str | None = None,
    *,
    method: str | Learner = "auto",
    correction: Correction = "auto",
    form: Form = "auto",
    start: Any = None,
    starts: int | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    rng: np.random.Generator | int | None = 0,
    budget: float = BUDGET,
    time_limit: float | None = None,
    verbose: bool | None = None,
    watch: Watch | None = None,
    client: Any = None,
    weights: Any = None,
) -> Posterior:
    """The Gaussian posterior of a field's parameters, given cases that may have holes.

    X: (N, n) array or table (pandas, polars, pyarrow, xarray, …) in the states' own values, or bf.CaseFiles. A table's
    columns are matched by name; a field that has none but x0, x1, … takes the first table's. Missing cells (NaN, None,
    pd.NA) and hidden variables are summed over, and a case with nothing observed is left out. client: a
    dask.distributed.Client, whose workers keep the cases (files are read there). weights: (N,) what each case counts
    for, instead of one, such as relatives in an alignment or answers in a survey; the posterior is as wide as the sum
    of them makes it.

    prior: by default Normal(variance=1); the data choose its variance with Normal(variance="evidence"), and which
    parameters stay with ARD(). engine: finds the most probable parameters; "auto", the default, takes the exact one if
    it is affordable, else Kikuchi or Bethe, checks the fit, and samples if the check fails (record.choice says why).
    response: gives the curvature there; by default the same engine. ``engine=bf.Exact(), response=bf.Bethe()`` is the
    paper's BL-MP, ``engine=bf.Bethe()`` its BL-BP.

    method: "newton", or "lbfgs" where curvature is expensive; "auto" goes by the counted work of one covariance. Or
    another learner: "pseudo_likelihood", "cd", "pcd", "iterative_scaling", "pseudo_moments", or an object that has its
    options, such as bf.PseudoLikelihood(block=16). start: parameters to begin from; by default the better of
    pseudo-moment matching and the prior mean. starts: how many points to search from where variables are hidden, by
    default 8 if some parameters are never shown; record.starts tells how they ended. tolerance: distance to the optimum
    in posterior standard deviations.

    correction: of the mode towards the mean, and of the width: "none" is the plain Laplace posterior, "mean" shifts the
    mean to second order, "variational" refines mean and precision; "auto" takes the best within the budget, falls back
    where it does not converge, and leaves BL-MP and BL-BP as the paper has them. form: of the precision: "auto" is
    dense up to some thousands of parameters; "block" is for the pseudo-likelihood of very many. rng: of all draws.

    budget: counted work that a correction may take, in seconds of our machine: what is done never depends on the
    machine's own speed (``bf.preview`` prints the plan). time_limit: seconds after which the fit ends with the best so
    far, and a status that says so. verbose: whether to show progress; by default where a long fit has a terminal or a
    notebook. watch: called with every Iteration of the search, and then of the correction.
    """
    asked = request(
        prior, engine, response, method, correction=correction, form=form, start=start, starts=starts,
        tolerance=tolerance, max_iterations=max_iterations, rng=rng, budget=budget, time_limit=time_limit,
        verbose=verbose, watch=watch,
    )  # fmt: skip
    if type(X) is not np.ndarray or X.dtype.names is not None:
        field, X = _tabled(field, X)
    return fit_objective(field, read_field(field, X, asked, client, weights), asked)


def _tabled(field: RandomField, X: Any) -> tuple[RandomField, Any]:
    """The field, which knows the columns' names, and X as pandas has it."""
    table = as_table(X)
    if isinstance(table, pd.DataFrame):
        compiled(field)  # for its copy as well, and for the next fit of it
        field = field.naming(table)
    return field, table


def read_field(field: RandomField, X: Any, asked: Request, client: Any = None, weights: Any = None) -> Objective:
    """The objective of cases, here or on a client's workers."""
    if client is not None:
        if weights is not None:
            raise InvalidInput("weights are for cases that are here, not on a client's workers")
        return remote_cases(field, X, gaussian(asked.prior, field), asked.engine, client)
    if isinstance(X, CaseFiles):
        X = X.all([name for i, name in enumerate(field.names) if i not in set(field.hidden)])
    return field_objective(field, X, asked.prior, asked.engine, weights)
