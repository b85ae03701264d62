"""Learners behind ``fit(..., method=...)`` beside Newton and L-BFGS: which there are, and the precision at their end.

A learner finds the parameters. The curvature there is that of ``response`` if it is given, else of ``engine``, else the
pseudo-likelihood's own, or that of the engine which bf.Auto() picks by cost. Pseudo-likelihood, contrastive divergence
and pseudo-moments end beside the mode of the posterior, by the bias of each.
"""

from dataclasses import replace
from typing import Any, Protocol

from bayesfield.fitting.optimum import Found, checked_start, precision_at, starting_point
from bayesfield.fitting.plan import SAMPLED
from bayesfield.inference.auto import Auto
from bayesfield.inference.contract import Engine
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.learning.objective import FieldObjective
from bayesfield.learning.phases.composite import NEWTON, TIGHT, PseudoLikelihood, composite, composite_map
from bayesfield.learning.phases.hidden import HiddenObjective
from bayesfield.learning.precision.forms import Precision
from bayesfield.learning.precision.pair_blocks import block_precision
from bayesfield.learning.search.contrastive import ContrastiveDivergence, contrastive_divergence
from bayesfield.learning.search.iterative_scaling import IterativeScaling, iterative_scaling
from bayesfield.learning.search.minimise import Optimum, Watch
from bayesfield.learning.search.moment_matching import PseudoMoments, matched_moments
from bayesfield.learning.search.sampled_newton import enough_chains
from bayesfield.model.prior import Parametrised
from bayesfield.response.base import require_dense
from bayesfield.response.linear import NotSparse
from bayesfield.types import IndefiniteCurvature, InvalidInput

Learner = PseudoLikelihood | ContrastiveDivergence | IterativeScaling | PseudoMoments

_MINIMISERS = ("auto", "newton", "lbfgs")
_LEARNERS: dict[str, Learner] = {
    "pseudo_likelihood": PseudoLikelihood(),
    "cd": ContrastiveDivergence(),
    "pcd": ContrastiveDivergence(persistent=True),
    "iterative_scaling": IterativeScaling(),
    "pseudo_moments": PseudoMoments(),
}
METHODS = (*_MINIMISERS, *_LEARNERS)
BIASED = frozenset(_LEARNERS) - {"iterative_scaling"}  # names of those that end beside the posterior's mode


class Task(Protocol):
    """What ``fit`` was asked for, as far as learners need it."""

    @property
    def objective(self) -> FieldObjective: ...
    @property
    def field(self) -> Parametrised: ...
    @property
    def curved(self) -> Engine | None: ...
    @property
    def form(self) -> str: ...
    @property
    def start(self) -> Any: ...
    @property
    def tolerance(self) -> float: ...
    @property
    def max_iterations(self) -> int: ...
    @property
    def watch(self) -> Watch | None: ...

    def form_for(self, engine: Engine) -> str: ...


def as_method(method: Any) -> str | Learner:
    """A learner from itself or from its name; "auto", "newton" and "lbfgs" as they are. Refuses everything else."""
    if isinstance(method, Learner):
        return method
    if isinstance(method, str) and method in _MINIMISERS:
        return method
    if isinstance(method, str) and method in _LEARNERS:
        return _LEARNERS[method]
    names = ", ".join(f'"{name}"' for name in METHODS)
    raise InvalidInput(
        f"method is one of {names}, or an object such as bf.PseudoLikelihood(), bf.ContrastiveDivergence() or "
        f"bf.IterativeScaling(); got {method!r}"
    )


def uncorrected(method: str | Learner, correction: str) -> tuple[str, str] | None:
    """No correction, and why, for learners that do not end at the mode of the posterior; None for the others."""
    if isinstance(method, str | IterativeScaling) or correction not in ("auto", "none", "mean", "variational"):
        return None
    name = _name(method)
    if correction in ("mean", "variational"):
        raise InvalidInput(
            f'correction={correction!r} starts from the mode of the posterior, and method="{name}" ends beside it; '
            'take correction="none", or fit(..., method="newton", start=posterior.mode) and correct that'
        )
    return "none", f"{name} ends beside the posterior's mode, where corrections start" if correction == "auto" else ""


def for_evidence(method: str | Learner) -> str | Learner:
    """The same learner with a precision that is the data's curvature and the prior's: variances are chosen by what the
    two say of each other, and a sandwich is their sum no more. Refuses one that knows no prior."""
    if isinstance(method, PseudoMoments):
        raise InvalidInput(
            'method="pseudo_moments" knows no prior, so the data cannot choose one by it; take another method, or '
            "bf.Normal(variance=…) with a number"
        )
    return replace(method, covariance="naive") if isinstance(method, PseudoLikelihood) else method


def learn(task: Task, learner: Learner, engine: Engine | None) -> tuple[Found, tuple[str, ...]]:
    """The learner's parameters, the precision there, and why by this engine. engine: the user's, or None."""
    if isinstance(task.objective, HiddenObjective):
        raise InvalidInput(
            f'method="{_name(learner)}" needs complete cases; with hidden variables or missing cells take "newton", '
            '"lbfgs" or "auto"'
        )
    if isinstance(learner, IterativeScaling):
        return _scaled(task, learner, engine)
    if isinstance(learner, PseudoLikelihood):
        return _composite(task, learner, engine)
    optimum = None
    if isinstance(learner, ContrastiveDivergence):
        optimum = contrastive_divergence(task.objective, learner, checked_start(task.field, task.start), task.watch)
    return _bent(task, learner, optimum, engine)


def _composite(task: Task, learner: PseudoLikelihood, engine: Engine | None) -> tuple[Found, tuple[str, ...]]:
    o = task.objective
    near = composite(o.field, o.codes, o.precision, o.location, learner.block, weights=o.case_weights)
    given = checked_start(task.field, task.start)
    start = o.location if given is None else given
    if task.curved is None and engine is None:
        if task.form not in ("auto", "dense", "block"):
            raise InvalidInput(
                f"a composite likelihood's own precision is dense or by blocks; for {task.form!r} give a response"
            )
        if task.form != "block":
            require_dense(
                len(start), "a composite likelihood's posterior", 'Take form="block", or response=bf.Bethe().'
            )
    tight = TIGHT if len(start) <= NEWTON else task.tolerance
    optimum = composite_map(near, start, min(task.tolerance, tight), task.max_iterations, task.watch)
    if task.curved is not None or engine is not None:
        return _bent(task, learner, optimum, engine)
    status = optimum.point.marginals.status
    choice: tuple[str, ...] = ()
    precision: Precision
    if task.form == "block":
        precision = block_precision(near, optimum.point)
        choice = ("by blocks, as if sites were independent experiments: no sandwich of blocks",)
    else:
        sandwich = learner.covariance == "sandwich"
        precision = near.sandwich(optimum.point) if sandwich else near.posterior_precision(optimum.point)
        if sandwich and o.weight <= len(start):
            choice = (
                f"widths are too narrow: {o.weight:.0f} cases do not tell how {len(start)} scores vary together; "
                'covariance="naive" needs no more than the curvature',
            )
    return Found(o, o, optimum, precision, status, _name(learner), repr(learner), own=True), choice


def _scaled(task: Task, learner: IterativeScaling, engine: Engine | None) -> tuple[Found, tuple[str, ...]]:
    """Iterative scaling has the posterior's own mode, so its engine gives the curvature too."""
    if isinstance(engine, Sampled):
        raise InvalidInput("iterative scaling watches log Z, which sampling does not give; take another engine")
    picked, choice = _picked(task, engine)
    objective = replace(task.objective, engine=picked, form=task.form_for(picked))
    curved = objective if task.curved is None else replace(objective, engine=task.curved)
    start = starting_point(objective, task.field, task.start)
    optimum = iterative_scaling(objective, start, learner, task.tolerance, task.watch)
    return _ended(task, objective, curved, optimum, _name(learner)), choice


def _bent(
    task: Task, learner: Learner, optimum: Optimum | None, engine: Engine | None
) -> tuple[Found, tuple[str, ...]]:
    """The learner's end with an engine's curvature, gradient and log Z there.

    Where the engine that was picked by cost has no curvature to give, the sampled one does.
    """
    picked, choice = _picked(task, task.curved or engine)
    try:
        found = _with_engine(task, learner, optimum, picked)
        if found.inference.converged or not choice:
            return found, choice
        failure = str(found.inference)
    except IndefiniteCurvature as error:
        if not choice:
            raise
        failure = str(error)
    if task.field.n_parameters > SAMPLED:
        raise IndefiniteCurvature(f"{choice[0]}; it gave no curvature: {failure}")
    return _with_engine(task, learner, optimum, Sampled()), (*choice, f"it gave no curvature ({failure}); sampling did")


def _with_engine(task: Task, learner: Learner, optimum: Optimum | None, engine: Engine) -> Found:
    if isinstance(engine, Sampled):
        engine = enough_chains(engine, int(task.objective.weight))
    objective = replace(task.objective, engine=engine, form=task.form_for(engine))
    ended = matched_moments(objective) if optimum is None else replace(optimum, point=objective.at(optimum.parameters))
    return _ended(task, objective, objective, ended, _name(learner), repr(learner))


def _ended(
    task: Task, objective: FieldObjective, curved: FieldObjective, optimum: Optimum, method: str, learner: str = ""
) -> Found:
    """With the precision at the optimum; matrix-free where the parameters leave no sparse system."""
    try:
        precision, status = precision_at(objective, curved, optimum, task.field)
    except NotSparse:
        if task.form != "auto":
            raise
        objective, curved = (replace(o, form="matrix-free") for o in (objective, curved))
        precision, status = precision_at(objective, curved, optimum, task.field)
    return Found(objective, curved, optimum, precision, status, method, learner)


def _picked(task: Task, engine: Engine | None) -> tuple[Engine, tuple[str, ...]]:
    """The engine that is given, or the one that goes by cost, and why."""
    if engine is not None and not isinstance(engine, Auto):
        return engine, ()
    picked, reason = (engine or Auto()).choose(task.objective.field.graph)
    return picked, (reason,)


def _name(learner: Learner) -> str:
    if isinstance(learner, ContrastiveDivergence):
        return "pcd" if learner.persistent else "cd"
    return next(name for name, known in _LEARNERS.items() if type(known) is type(learner))
