"""What predictions average over at a temperature T: a power posterior, from the mode (T = 0) to the posterior (T = 1).

The minimum of E_q[L] − T H(q): with independent weights found anew, for mean and widths belong together
(correction.mean_field); of other forms to the same order as the posterior, N(λ_MP + T (m − λ_MP), T Σ).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesfield.correction.mean_field import settle
from bayesfield.types import FloatArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.learning.objective import Objective
    from bayesfield.learning.precision.base import Precision

_SEED = 0  # of the draws that are fixed
_ROUNDS, _DRAWN = 4, 50_000  # of means and widths; positions in all draws together, about


class Tempered(NamedTuple):
    """Independent weights at a temperature between 0 and 1: mean (F,) and diagonal of the precision (F,)."""

    mean: FloatArray
    diagonal: FloatArray

    @property
    def sd(self) -> FloatArray:
        result: FloatArray = 1.0 / np.sqrt(self.diagonal)
        return result


def tempered(
    objective: Objective, mode: FloatArray, laplace: Precision, hot: tuple[FloatArray, FloatArray], temperature: float
) -> Tempered:
    """From the mode and the widths there, or from mean and precision at T = 1, whichever is nearer. hot: these."""
    mean, diagonal = hot if temperature > 0.5 else (mode, laplace.sd**-2.0)
    q = settle(objective, mean, diagonal, _SEED, temperature, _ROUNDS, numbers=_DRAWN)
    if q is None:
        raise InvalidInput(f"inference fails at draws of temperature {temperature:g}; take temperature 0, the mode")
    return Tempered(q.mean, q.curvature / temperature)


def checked_temperature(given: Any) -> float:
    """A number from 0 to 1."""
    number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
    if not number or not 0.0 <= float(given) <= 1.0:
        raise InvalidInput(
            "a temperature goes from 0, predictions by the mode alone, to 1, averages over the posterior; got "
            f"{given!r}"
        )
    return float(given)
