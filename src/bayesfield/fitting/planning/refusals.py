"""What cannot be done with these data, refused before anything is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayesfield.fitting.planning.streaming import FEW_TIED, tied
from bayesfield.types import InvalidInput

if TYPE_CHECKING:
    from bayesfield.fitting.planning.request import Request
    from bayesfield.learning.objective import Objective


def refuse(objective: Objective, request: Request) -> None:
    """What cannot be done with these data, and why."""
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
    if engine.traits.streams and not tied(objective, request):
        raise InvalidInput(
            f"streaming chains are for up to {FEW_TIED} parameters tied over many variables of one graph, with "
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
