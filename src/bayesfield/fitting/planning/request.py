"""What a fit is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayesfield.correction.correct import KINDS
from bayesfield.inference.by_name import as_engine
from bayesfield.learning.search.by_name import MINIMISERS, as_method
from bayesfield.model.prior import Prior, as_prior
from bayesfield.types import InvalidInput

if TYPE_CHECKING:
    from bayesfield.inference.contract import Engine
    from bayesfield.learning.search.learner import Learner
    from bayesfield.learning.search.optimum import Watch

Correction = Literal["none", "mean", "variational", "draws", "profile", "auto"]
Form = Literal["auto", "dense", "sparse", "matrix-free", "block", "mean-field"]
FORMS = ("auto", "dense", "sparse", "matrix-free", "block", "mean-field")
_PRIOR, _AUTO = as_prior(None), as_engine("auto")
BUDGET = 30.0  # seconds of counted work that a correction may take


@dataclass(frozen=True, eq=False)
class Request:
    """The arguments of ``bf.fit`` of these names; engine and method as objects."""

    prior: Prior
    engine: Engine
    response: Engine | None
    method: str | Learner
    correction: str = "auto"
    form: str = "auto"
    start: Any = None
    starts: int | None = None
    tolerance: float = 1e-6
    max_iterations: int = 200
    rng: np.random.Generator | int | None = 0
    budget: float = BUDGET
    time_limit: float | None = None
    verbose: bool | None = None
    watch: Watch | None = None

    def __post_init__(self) -> None:
        """Refuses what makes no sense by itself; what does not go with the data is refused by ``make_plan``."""
        if not self.tolerance > 0 or self.max_iterations < 1:
            raise InvalidInput("tolerance and max_iterations must be above zero")
        if self.correction not in KINDS:
            raise InvalidInput(
                f'correction is "auto", "none", "mean", "variational", "draws" or "profile"; got {self.correction!r}'
            )
        if self.form not in FORMS:
            raise InvalidInput(
                f'form is "auto", "dense", "sparse", "matrix-free", "block" or "mean-field"; got {self.form!r}'
            )
        if self.starts is not None and (not isinstance(self.starts, int | np.integer) or self.starts < 1):
            raise InvalidInput(f"starts is a whole number ≥ 1; got {self.starts!r}")
        if not self.budget > 0:
            raise InvalidInput(f"budget, in seconds of counted work, is above zero; got {self.budget!r}")
        if self.time_limit is not None and not self.time_limit > 0:
            raise InvalidInput(f"time_limit, in seconds, is above zero; got {self.time_limit!r}")

    @property
    def learner(self) -> Learner | None:
        return None if isinstance(self.method, str) else self.method

    @property
    def by_itself(self) -> bool:
        """Whether no engine is named, so that a learner with a precision of its own gives that."""
        return self.response is None and self.engine.traits.chooses


def request(
    prior: Any = None, engine: Any = "auto", response: Any = None, method: Any = "auto", **options: Any
) -> Request:
    """The request, names turned into objects. options: the further fields of a Request."""
    return Request(
        _PRIOR if prior is None else prior if isinstance(prior, Prior) else as_prior(prior),
        _AUTO if engine == "auto" else as_engine(engine),
        None if response is None else as_engine(response),
        method if isinstance(method, str) and method in MINIMISERS else as_method(method),
        **options,
    )


def repeatable(request: Request) -> Request:
    """The same without what is of one run: where it began, who watched, how long it could take."""
    seed = int(request.rng) if isinstance(request.rng, int | np.integer) else 0
    return replace(request, start=None, rng=seed, time_limit=None, verbose=None, watch=None)
