"""From labelled graphs of any shape to the posterior of a CRF, by any engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesfield.fitting.pipeline import fit_objective
from bayesfield.fitting.planning.request import BUDGET, Correction, Form, Request, request
from bayesfield.inference.contract import Engine
from bayesfield.learning.objective import Objective, gaussian
from bayesfield.learning.phases.cases import checked_weights
from bayesfield.learning.phases.graphs import graph_objective
from bayesfield.learning.phases.remote import remote_graphs
from bayesfield.learning.search.learner import Learner
from bayesfield.learning.search.optimum import Watch
from bayesfield.model.conditional import CRF
from bayesfield.model.graphs import Graphs, as_graphs
from bayesfield.model.prior import Prior
from bayesfield.posterior.posterior import Posterior


def fit_graphs(
    crf: CRF,
    X: Sequence[Any] | Graphs,
    y: Sequence[Any] | None = None,
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
    """The Gaussian posterior of a CRF's parameters from labelled graphs of any shape, by any engine.

    X: (node_features, edges) or (node_features, edges, edge_features) for each graph; y: the labels of its nodes, None
    where one is not known, a set where it is one of these. client: a dask.distributed.Client, whose workers keep the
    graphs. weights: (S,) what each graph counts for, instead of one. engine and the rest: as in ``bf.fit``. Trees are
    fitted exactly.
    """
    asked = request(
        prior, engine, response, method, correction=correction, form=form, start=start, starts=starts,
        tolerance=tolerance, max_iterations=max_iterations, rng=rng, budget=budget, time_limit=time_limit,
        verbose=verbose, watch=watch,
    )  # fmt: skip
    return fit_objective(crf, read_graphs(crf, X, y, asked, client, weights), asked)


def read_graphs(
    crf: CRF, X: Any, y: Sequence[Any] | None, asked: Request, client: Any = None, weights: Any = None
) -> Objective:
    """The objective of graphs, here or on a client's workers."""
    data = X if isinstance(X, Graphs) else as_graphs(crf, X, y)
    prior = gaussian(asked.prior, crf)
    if client is not None:
        return remote_graphs(crf, data, prior, asked.engine, client, weights)
    return graph_objective(crf, data, prior, asked.engine, checked_weights(weights, len(data)))
