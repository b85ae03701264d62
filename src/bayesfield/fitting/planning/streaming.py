"""Fields whose few parameters stand for many table entries: chains stream sums of their features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayesfield.learning.search.minimise import unseen_parameters

if TYPE_CHECKING:
    from bayesfield.fitting.planning.request import Request
    from bayesfield.learning.objective import Objective

FEW_TIED, TIED = 12, 200  # parameters at most, and table entries for each at least, of fields that chains stream
FEW_EMITTED = 60  # the same of what hidden labels emit


def tied(objective: Objective, request: Request) -> bool:
    """Whether few parameters stand for many table entries, so that chains need keep no states."""
    phase, size = objective.phases[0], objective.size
    hidden = len(objective.phases) > 1
    if (
        (hidden and not all(p.contrasts for p in objective.phases[1:]))
        or not phase.samples
        or not 0 < size <= (FEW_EMITTED if objective.emits else FEW_TIED)
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
    if objective.free.graph.n_entries < TIED * size or objective.observed_codes() is None:
        return False
    return not hidden or not len(unseen_parameters(objective))
