"""What a fit is asked for, and what of it cannot be done with the data at hand, refused before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from bayesfield.inference.by_name import as_engine
from bayesfield.learning.search.by_name import MINIMISERS, as_method
from bayesfield.learning.search.minimise import unseen_parameters
from bayesfield.model.prior import Prior, as_prior
from bayesfield.types import InvalidInput

if TYPE_CHECKING:
    from bayesfield.inference.contract import Engine
    from bayesfield.learning.objective import Objective
    from bayesfield.learning.search.learner import Learner
    from bayesfield.learning.search.optimum import Watch

Correction = Literal["none", "mean", "variational", "draws", "profile", "auto"]
Form = Literal["auto", "dense", "sparse", "matrix-free", "block", "mean-field"]
_PRIOR, _AUTO = as_prior(None), as_engine("auto")
_FEW_TIED, _TIED = 12, 200  # parameters at most, and table entries for each at least, of fields that chains stream
_FEW_EMITTED = 60  # the same of what hidden labels emit
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
        if self.correction not in get_args(Correction):
            raise InvalidInput(
                f'correction is "auto", "none", "mean", "variational", "draws" or "profile"; got {self.correction!r}'
            )
        if self.form not in get_args(Form):
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

    def refuse(self, objective: Objective) -> None:
        """What cannot be done with these data, and why."""
        _refuse(objective, self)

    def streams(self, objective: Objective) -> bool:
        """Whether few parameters stand for many table entries, so that chains need keep no states."""
        return _streams(objective, self)


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


def _refuse(objective: Objective, request: Request) -> None:
    learner, data, engine = request.method, objective.data, request.engine
    if not isinstance(learner, str):
        _refuse_learner(learner, objective, request)
    if request.method == "ep":
        if not getattr(data, "propagates", False) or data.weights is not None:
            raise InvalidInput(
                "expectation propagation is for sequences in this process with all labels known, each counting "
                'once; take method="auto"'
            )
        if request.correction in ("mean", "variational"):
            raise InvalidInput('expectation propagation has a mean and widths of its own: take correction="auto"')
    if not engine.traits.has_log_z and (not objective.free.samples or objective.counts().free_phases > 1):
        raise InvalidInput(
            "sampling takes one graph in this process: sequences have exact inference, and weights of graphs, or data "
            "on a client's workers, need an engine with log Z"
        )
    if engine.traits.streams and not request.streams(objective):
        raise InvalidInput(
            f"streaming chains are for up to {_FEW_TIED} parameters tied over many variables of one graph, with "
            'cells that show each of them; take engine="auto"'
        )
    if request.correction == "draws" and not objective.has_log_z:
        raise InvalidInput(
            'correction="draws" takes log Z at every draw, which sampling does not give; bf.sample_posterior(..., '
            "sampler=bf.Exchange(bf.Sampled())) does without"
        )
    if request.correction == "profile":
        _refuse_profiles(objective, request)
    if request.form == "mean-field" and request.correction == "mean":
        raise InvalidInput('form="mean-field" is corrected as a whole: take correction="variational" or "auto"')
    if request.form == "block" and request.correction in ("mean", "variational") and isinstance(learner, str):
        raise InvalidInput(
            f'correction={request.correction!r} needs all of the precision; take form="matrix-free" or "dense"'
        )


def _refuse_profiles(objective: Objective, request: Request) -> None:
    learner, instead = request.learner, 'take correction="auto"'
    if request.method == "ep":
        raise InvalidInput(f"expectation propagation has marginals of its own, which are not profiled: {instead}")
    if learner is not None and (not learner.at_mode or (learner.own_precision and request.by_itself)):
        raise InvalidInput(
            f'correction="profile" starts from the mode of the posterior, and method="{learner.name}" ends beside it: '
            'take method="auto"'
        )
    if request.response is not None:
        raise InvalidInput(f'correction="profile" takes mode and curvature by one engine, without response; {instead}')
    if objective.prior.tails is not None:
        raise InvalidInput(f"profiles take Gaussian priors, and this one has heavy tails: {instead}")
    if not objective.has_log_z:
        raise InvalidInput(
            'correction="profile" takes log Z at every point, which sampling does not give: take bf.Exact(), '
            f"bf.Bethe() or bf.Kikuchi(), or {instead}"
        )


def _refuse_learner(learner: Any, objective: Objective, request: Request) -> None:
    data, name = objective.data, learner.name
    imputable = learner.takes_holes and getattr(data, "imputable", False)
    if objective.hidden and not (learner.takes_hidden or imputable):
        raise InvalidInput(
            f'method="{name}" needs complete cases; with hidden variables or missing cells take "newton", "lbfgs" or '
            '"auto"'
        )
    if not data.here:
        raise InvalidInput(f'with a client method is "auto", "newton" or "lbfgs"; got {request.method!r}')
    if data.weights is not None and not learner.weighted:
        raise InvalidInput(
            f'with weights method is "auto", "newton", "lbfgs", "pseudo_likelihood" or bf.ElasticNet(...); got "{name}"'
        )
    if learner.needs_log_z and not request.engine.traits.has_log_z:
        raise InvalidInput(f'method="{name}" watches log Z, which sampling does not give; take another engine')
    if not learner.at_mode and request.correction in ("mean", "variational"):
        raise InvalidInput(
            f'correction={request.correction!r} starts from the mode of the posterior, and method="{name}" ends beside '
            'it; take correction="none", or fit(..., method="newton", start=posterior.mode) and correct that'
        )


def _streams(objective: Objective, request: Request) -> bool:
    phase, size = objective.phases[0], objective.size
    hidden = len(objective.phases) > 1
    if (
        (hidden and not all(p.contrasts for p in objective.phases[1:]))
        or not phase.samples
        or not 0 < size <= (_FEW_EMITTED if objective.emits else _FEW_TIED)
        or request.response is not None
    ):
        return False
    if request.method not in ("auto", "newton", "lbfgs") or request.form not in ("auto", "dense"):
        return False
    if objective.emits:
        return True
    if (
        not objective.weight
        or not objective.data.matches_moments
        or not np.isfinite(objective.free.design.offset).all()
    ):
        return False
    if objective.free.graph.n_entries < _TIED * size or objective.observed_codes() is None:
        return False
    return not hidden or not len(unseen_parameters(objective))
