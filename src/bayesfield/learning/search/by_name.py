"""Learners by name: ``method="cd"`` is ``method=bf.ContrastiveDivergence()``."""

from typing import Any

from bayesfield.learning.search.contrastive import ContrastiveDivergence
from bayesfield.learning.search.iterative_scaling import IterativeScaling
from bayesfield.learning.search.learner import LEARNERS, Learner
from bayesfield.learning.search.moment_matching import PseudoMoments
from bayesfield.learning.search.pseudo_likelihood import PseudoLikelihood
from bayesfield.types import InvalidInput

MINIMISERS = ("auto", "newton", "lbfgs", "ep")  # "ep": expectation propagation from the mode
_KNOWN = (
    PseudoLikelihood(),
    ContrastiveDivergence(),
    ContrastiveDivergence(persistent=True),
    IterativeScaling(),
    PseudoMoments(),
)
_BY_NAME: dict[str, Learner] = dict(zip(LEARNERS, _KNOWN, strict=True))
METHODS = (*MINIMISERS, *LEARNERS)
BIASED = frozenset(name for name, learner in _BY_NAME.items() if not learner.at_mode)


def as_method(method: Any) -> str | Learner:
    """A learner from itself or from its name; names of minimisers as they are. Refuses everything else."""
    if isinstance(method, str) and method in MINIMISERS:
        return method
    if isinstance(method, str) and method in _BY_NAME:
        return _BY_NAME[method]
    if isinstance(method, Learner) and not isinstance(method, type):
        return method
    names = ", ".join(f'"{name}"' for name in METHODS)
    raise InvalidInput(
        f"method is one of {names}, or an object such as bf.PseudoLikelihood(), bf.ContrastiveDivergence(), "
        f"bf.IterativeScaling() or bf.ElasticNet(l1=...); got {method!r}"
    )
