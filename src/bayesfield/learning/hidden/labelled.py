"""log Z of a large field of labels about one λ, to second order, from long runs of chains there.

    log Z(λ + δ) − log Z(λ) ≈ mᵀδ + ½ δᵀ C δ

Given y, m = E[s | y] and C = Cov(s | y) + E[∂s | y] (Louis 1982), s what a labelling adds to ∇ log p(y, z|λ). No term
goes beyond the second order, although that of the emission alone is known to all: what the labels would tell and what
is missing of it nearly cancel where labels overlap, and cutting only one of the two off leaves no curvature a little
aside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayesfield.inference.contract import Engine, Price, Traits
from bayesfield.learning.phases.base import Answer, Phase
from bayesfield.response.base import MatrixResponse, Response
from bayesfield.types import FloatArray, Outcome, Status

_EACH = 2e-5  # seconds of one evaluation


@dataclass(frozen=True, eq=False)
class LabelledPhase(Phase):
    """The labels given y. centre: λ, (F,). slope: m, (F,). curvature: C, (F, F)."""

    engine: Engine
    centre: FloatArray
    slope: FloatArray
    curvature: FloatArray
    weight: float = -1.0

    @property
    def traits(self) -> Traits:
        return Traits(relative=True)

    @property
    def contrasts(self) -> bool:
        return True

    def choose(self, engine: Any) -> tuple[Engine, str]:
        return self.engine, "chains of labels were chosen"

    def price(self, size: int) -> Price:
        return Price(_EACH, _EACH, _EACH)

    def bytes(self) -> float:
        return 8.0 * len(self.centre) ** 2

    def at(self, parameters: FloatArray, start: Any = None) -> Answer:
        away = parameters - self.centre
        turn = self.curvature @ away
        value = float(away @ (self.slope + 0.5 * turn))
        return Answer(value, self.slope + turn, Status(Outcome.SAMPLED), None, parameters)

    def response(self, answer: Answer) -> Response:
        return MatrixResponse(self.curvature)

    def variances(self, answer: Answer) -> FloatArray:
        return abs(self.curvature.diagonal())
