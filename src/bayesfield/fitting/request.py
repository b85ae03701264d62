"""What a fit is asked for: the arguments that all three doors share, checked once."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bayesfield.correction.correct import KINDS
from bayesfield.inference.by_name import as_engine
from bayesfield.inference.contract import Engine
from bayesfield.learning.search.by_name import as_method
from bayesfield.learning.search.learner import Learner
from bayesfield.learning.search.progress import Watch
from bayesfield.learning.search.starts import checked_count
from bayesfield.model.prior import Prior, as_prior
from bayesfield.types import InvalidInput

Correction = Literal["none", "mean", "variational", "auto"]
Form = Literal["auto", "dense", "sparse", "matrix-free", "block"]
FORMS = ("auto", "dense", "sparse", "matrix-free", "block")
BUDGET = 30.0  # seconds of counted work that a correction may take


@dataclass(frozen=True, eq=False)
class Request:
    """The arguments of ``bf.fit`` of these names; engine and method as objects."""

    prior: Prior
    engine: Engine
    response: Engine | None
    method: str | Learner
    correction: str
    form: str
    start: Any
    starts: int | None
    tolerance: float
    max_iterations: int
    rng: np.random.Generator | int | None
    budget: float
    time_limit: float | None
    verbose: bool | None
    watch: Watch | None

    @property
    def learner(self) -> Learner | None:
        return None if isinstance(self.method, str) else self.method


def request(
    prior: Any = None,
    engine: Any = "auto",
    response: Any = None,
    method: Any = "auto",
    correction: str = "auto",
    form: str = "auto",
    start: Any = None,
    starts: int | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    rng: np.random.Generator | int | None = 0,
    budget: float = BUDGET,
    time_limit: float | None = None,
    verbose: bool | None = None,
    watch: Watch | None = None,
) -> Request:
    """The request, if it makes sense by itself; what does not go with the data is refused in fitting.plan."""
    if not tolerance > 0 or max_iterations < 1:
        raise InvalidInput("tolerance and max_iterations must be above zero")
    if correction not in KINDS:
        raise InvalidInput(f'correction is "auto", "none", "mean" or "variational"; got {correction!r}')
    if form not in FORMS:
        raise InvalidInput(f'form is "auto", "dense", "sparse", "matrix-free" or "block"; got {form!r}')
    if not budget > 0:
        raise InvalidInput(f"budget, in seconds of counted work, is above zero; got {budget!r}")
    if time_limit is not None and not time_limit > 0:
        raise InvalidInput(f"time_limit, in seconds, is above zero; got {time_limit!r}")
    return Request(
        as_prior(prior),
        as_engine(engine),
        None if response is None else as_engine(response),
        as_method(method),
        correction,
        form,
        start,
        checked_count(starts),
        tolerance,
        max_iterations,
        rng,
        budget,
        time_limit,
        verbose,
        watch,
    )
