"""How the loss of what was left out moves with numbers of the prior, without fitting anew (Foo, Do & Ng 2007).

At the mode λ of −log p(D|λ) + ½ λᵀQλ, with H its second derivatives, a change dQ of the prior's precision moves the
mode by −H⁻¹ dQ λ, and the loss V of what was left out by −hᵀ dQ λ with H h = ∇V(λ): one solve by conjugate gradients
for all numbers that Q depends on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayesfield.analysis.validation.folds import fold_of
from bayesfield.learning.objective import GaussianPrior, Objective, flat
from bayesfield.learning.phases.sequences import sequence_objective
from bayesfield.learning.precision.at import by_products
from bayesfield.learning.search.minimise import lbfgs
from bayesfield.model.conditional import CRF, Sequences
from bayesfield.types import BoolArray, FloatArray, IntArray

_TOLERANCE, _ITERATIONS, _RESIDUAL = 1e-3, 300, 0.05  # of a mode; of the solve


class Moved(NamedTuple):
    """value: V. mode: λ, (F,). pull: h, (F,)."""

    value: float
    mode: FloatArray
    pull: FloatArray


class Held(NamedTuple):
    """Sequences to fit and sequences left out. parameters: (F,) which of the whole model's there are. start: the last
    mode."""

    fitted: Objective
    left_out: Objective
    parameters: IntArray
    start: FloatArray

    def at(self, prior: GaussianPrior) -> Moved:
        """The mode under a prior, begun where the last one was."""
        objective = replace(self.fitted, prior=prior)
        point = lbfgs(objective, self.start, _TOLERANCE, _ITERATIONS).point
        self.start[:] = point.parameters
        outside = self.left_out.at(point.parameters)
        pull = by_products(objective, point).solve_roughly(outside.gradient, _RESIDUAL)
        return Moved(outside.value, point.parameters, pull)


def held_out(crf: CRF, data: Sequences, out: BoolArray) -> Held:
    """out: (S,) the sequences that are left out."""
    fold = fold_of(crf, data.chosen(~out))
    none = flat(fold.crf.n_parameters)
    fitted, left_out = (sequence_objective(fold.crf, data.chosen(some), none, learned=False) for some in (~out, out))
    return Held(fitted, left_out, fold.parameters, np.zeros(fold.crf.n_parameters))
