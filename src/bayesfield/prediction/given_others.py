"""A column of the data given the other columns."""

from typing import Any

import numpy as np

from bayesfield.posterior import Posterior
from bayesfield.types import FloatArray, IntArray


def given_others(
    posterior: Posterior, codes: IntArray, column: int, draws: int, rng: np.random.Generator | int | None
) -> FloatArray:
    """(N, K) probabilities of the states of a variable, given the other cells of its case, averaged over the posterior.

    codes: (N, n) positions in the states, −1 where missing. The column's own cells are not looked at.
    """
    field: Any = posterior.field
    holed = field.decode(np.maximum(codes, 0)).astype(object)
    holed[codes < 0] = None
    holed[:, column] = None
    found = posterior.impute(holed, draws, 0, rng)
    own = found.cells[:, 1] == column
    result: FloatArray = found.probabilities[own][:, : len(field.states[column])]
    return result
