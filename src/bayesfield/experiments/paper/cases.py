"""The paper's simulated problems: 5×5 grids with states ±1.

Figures 2 and 3: fields and couplings ~ N(0, 0.5²), N cases. Figures 4 and 5: couplings from
U([−(d+ε), −d] ∪ [d, d+ε]) with ε = 0.1/4, all fields 0 (figure 4) or 1 (figure 5), one instantiation of them, and
here 1,000 cases. ``Case.x`` is 4d: the paper's d are 0.1/4 to 2/4. The paper does not state its prior: here it is
N(0, 0.25 I), the generating distribution, for the first two figures, and N(0, I) for the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfield.inference.queries import sample
from bayesfield.model.builders import grid
from bayesfield.model.prior import Normal
from bayesfield.types import FloatArray

if TYPE_CHECKING:
    from bayesfield.model.field import RandomField

SIDE = 5
SIZES = (10, 100, 1000, 5000)
STRENGTHS = (0.1, 0.5, 1.0, 1.5, 2.0)
BAND = 0.1  # 4ε
CASES = 1000  # of figures 4 and 5
SHOWN = 5000  # cases behind figure 3


@dataclass(frozen=True)
class Case:
    """One data set. x: N, or 4d. model: which of the repetitions."""

    figure: str
    x: float
    model: int

    @property
    def name(self) -> str:
        return f"{axis(self.figure)}{self.x:g}-model{self.model}"

    @property
    def size(self) -> int:
        """N."""
        return int(self.x) if axis(self.figure) == "N" else CASES

    def seed(self, purpose: int, seed: int) -> np.random.SeedSequence:
        """For a purpose (data 0, reference 1, methods from 2) of a run that begins from ``seed``."""
        experiment = 2 if axis(self.figure) == "N" else int(self.figure[-1])
        return np.random.SeedSequence([seed, experiment, round(10 * self.x), self.model, purpose])

    def make(self, seed: int) -> tuple[RandomField, Any, Normal]:
        """Field, data and prior."""
        field, rng = grid(SIDE, SIDE), np.random.default_rng(self.seed(0, seed))
        if axis(self.figure) == "N":
            truth, prior = 0.5 * rng.normal(size=field.n_parameters), Normal(variance=0.25)
        else:
            truth, prior = (
                mixed_signs(field, self.x / 4, 1.0 if self.figure == "fig5" else 0.0, rng),
                Normal(variance=1.0),
            )
        return field, sample(field, truth, self.size, rng), prior


def mixed_signs(field: RandomField, d: float, bias: float, rng: np.random.Generator) -> FloatArray:
    """Fields that are all ``bias``, and couplings of either sign with magnitudes in [d, d + ε]."""
    truth = np.full(field.n_parameters, bias)
    edges = field.n_parameters - field.n_variables
    truth[field.n_variables :] = rng.choice([-1.0, 1.0], edges) * rng.uniform(d, d + BAND / 4, edges)
    return truth


def axis(figure: str) -> str:
    """What the figure's horizontal axis shows."""
    return "N" if figure in ("fig2", "fig3") else "d"


def cases(figure: str, models: int) -> list[Case]:
    """All data sets behind a figure, the dearest first, so that no core is left with a long one at the end."""
    if figure == "fig3":
        return [Case(figure, SHOWN, 0)]
    if axis(figure) == "d":
        return [Case(figure, x, 0) for x in reversed(STRENGTHS)]
    return [Case(figure, float(n), model) for n in reversed(SIZES) for model in range(models)]
