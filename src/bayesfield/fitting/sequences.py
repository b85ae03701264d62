"""From labelled sequences to the posterior of a chain CRF. Inference on chains is exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesfield.fitting.pipeline import fit_objective
from bayesfield.fitting.planning.request import BUDGET, Correction, Form, Request, request
from bayesfield.inference.contract import Engine
from bayesfield.learning.objective import Objective, gaussian
from bayesfield.learning.phases.remote import remote_sequences
from bayesfield.learning.phases.sequences import sequence_objective
from bayesfield.learning.search.learner import Learner
from bayesfield.learning.search.optimum import Watch
from bayesfield.model.conditional import CRF, Sequences, as_sequences
from bayesfield.model.partitions import SequenceFiles
from bayesfield.model.prior import Prior
from bayesfield.posterior.posterior import Posterior
from bayesfield.types import InvalidInput


def fit_sequences(
    crf: CRF,
    X: Sequence[Any] | Sequences | SequenceFiles,
    y: Sequence[Any] | None = None,
    prior: Prior | None = None,
    engine: Engine | str = "auto",
    *,
    Z: Sequence[Any] | None = None,
    method: str | Learner = "auto",
    correction: Correction = "auto",
    form: Form = "auto",
    start: Any = None,
    starts: int | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 500,
    rng: np.random.Generator | int | None = 0,
    budget: float = BUDGET,
    time_limit: float | None = None,
    verbose: bool | None = None,
    watch: Watch | None = None,
    client: Any = None,
    weights: Any = None,
) -> Posterior:
    """The Gaussian posterior of a chain CRF's parameters.

    X: a (T, D) array for each sequence, dense or sparse; y: its labels, each of which may be None (not known) or a set
    (one of these): what is open is summed over. Z: (T − 1, E) inputs of pairs of neighbours, where the model has any.
    Or X: bf.SequenceFiles. client: a dask.distributed.Client, whose workers keep the sequences (files are read there);
    the same posterior, for data beyond one machine. weights: (S,) what each sequence counts for, instead of one.

    engine: "auto" or bf.Exact(): inference on chains is exact. method: as in ``bf.fit``, or "ep" for expectation
    propagation, which has no correction. form: "dense" up to some thousands of parameters, "mean-field" beyond:
    independent weights, means and widths corrected together; "block": widths of an input's weights given all others,
    without a correction; "matrix-free" has all correlations, at the price of a conjugate-gradient solve a
    draw. The rest as in ``bf.fit``.
    """
    asked = request(
        prior, engine, None, method, correction=correction, form=form, start=start, starts=starts,
        tolerance=tolerance, max_iterations=max_iterations, rng=rng, budget=budget, time_limit=time_limit,
        verbose=verbose, watch=watch,
    )  # fmt: skip
    return fit_objective(crf, read_sequences(crf, X, y, Z, asked, client, weights), asked)


def read_sequences(
    crf: CRF,
    X: Any,
    y: Sequence[Any] | None,
    Z: Sequence[Any] | None,
    asked: Request,
    client: Any = None,
    weights: Any = None,
) -> Objective:
    """The objective of sequences, here or on a client's workers."""
    prior = gaussian(asked.prior, crf)
    if not asked.engine.traits.chooses and not asked.engine.traits.exact:
        raise InvalidInput(f'inference on sequences is exact: leave engine at "auto"; got {asked.engine!r}')
    if isinstance(X, SequenceFiles):
        if y is not None or Z is not None:
            raise InvalidInput("bf.SequenceFiles hold the labels; y and Z are for sequences in memory")
        if client is not None:
            return remote_sequences(crf, X, prior, client, weights)
        X = X.all(crf)
    data = X if isinstance(X, Sequences) else as_sequences(crf, X, y, Z)
    if client is not None:
        return remote_sequences(crf, data, prior, client, weights)
    return sequence_objective(crf, data, prior, weights)
