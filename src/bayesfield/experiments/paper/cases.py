"""The paper's simulated problems: 5×5 grids with states ±1.

Figures 2 and 3: fields and couplings ~ N(0, 0.5²), N cases. Figures 4 and 5: all couplings d/4, all fields 0 (figure 4)
or 1 (figure 5), 1,000 cases. The paper does not state its prior: here it is N(0, 0.25 I), the generating distribution,
for the first two, and N(0, I) for the others, whose parameters were not drawn. Nor does it say how many cases the last
two have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfield.inference.queries import sample
from bayesfield.model.builders import grid
from bayesfield.model.prior import Normal

if TYPE_CHECKING:
    from bayesfield.model.field import RandomField

SIDE = 5
SIZES = (10, 100, 1000, 5000)
STRENGTHS = (0.1, 0.5, 1.0, 1.5, 2.0)
CASES = 1000  # of figures 4 and 5
SHOWN = 1000  # cases behind figure 3


@dataclass(frozen=True)
class Case:
    """One data set. x: N, or d. model: which of the repetitions."""

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
            n = field.n_variables
            truth = np.full(field.n_parameters, self.x / 4)
            truth[:n] = 1.0 if self.figure == "fig5" else 0.0
            prior = Normal(variance=1.0)
        return field, sample(field, truth, self.size, rng), prior


def axis(figure: str) -> str:
    """What the figure's horizontal axis shows."""
    return "N" if figure in ("fig2", "fig3") else "d"


def cases(figure: str, models: int) -> list[Case]:
    """All data sets behind a figure, the dearest first, so that no core is left with a long one at the end."""
    if figure == "fig3":
        return [Case(figure, SHOWN, 0)]
    values = SIZES if axis(figure) == "N" else STRENGTHS
    return [Case(figure, float(x), model) for x in reversed(values) for model in range(models)]
