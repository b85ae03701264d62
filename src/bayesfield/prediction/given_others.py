"""A column of the data given the other columns.

Where all others are known, p(x_i | rest, λ) is a matter of the tables that hold x_i: a few products, whatever the size
of the field. Where some are not, they are summed over as in ``posterior.impute``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfield.graph.compiled import CompiledField, compiled
from bayesfield.kernels.likelihood import conditionals as kernel
from bayesfield.learning.phases.blocks import block_arrays
from bayesfield.types import BoolArray, FloatArray, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.posterior.posterior import Posterior

_ENTRIES = 4_000_000  # probabilities that are held at a time


def given_others(
    posterior: Posterior, codes: IntArray, column: int, n_draws: int, rng: np.random.Generator | int | None
) -> FloatArray:
    """(N, K) probabilities of the states of a variable, given the other cells of its case, averaged over the posterior.

    codes: (N, n) positions in the states, −1 where missing. The column's own cells are not looked at.
    """
    return each_given_others(posterior, codes, [column], n_draws, rng)[0]


def each_given_others(
    posterior: Posterior, codes: IntArray, columns: Sequence[int], n_draws: int, rng: np.random.Generator | int | None
) -> list[FloatArray]:
    """The same for several columns, each given all others, by the same draws."""
    generator = np.random.default_rng(rng)
    before = generator.bit_generator.state
    field: Any = posterior.field
    points, known = posterior.sample(n_draws, generator), compiled(field)
    holes = codes < 0
    whole = ~holes.any(axis=1)
    common = dict(zip(columns, _by_tables(known, codes[whole], columns, points), strict=True))
    found = []
    for j in columns:
        result = np.empty((len(codes), len(field.states[j])))
        result[whole] = common[j]
        alone = holes[:, j] & (holes.sum(axis=1) == 1)
        (result[alone],) = _by_tables(known, np.where(holes, 0, codes)[alone], [j], points)
        rest = ~whole & ~alone
        if rest.any():
            generator.bit_generator.state = before
            result[rest] = _summed(posterior, codes[rest], j, n_draws, generator)
        found.append(result)
    return found


def _by_tables(
    compiled_field: CompiledField, codes: IntArray, columns: Sequence[int], points: FloatArray
) -> list[FloatArray]:
    """(N, K) for each column, for cases that are known whole."""
    g = compiled_field.graph.arrays
    own = [slice(g.node_ptr[j], g.node_ptr[j + 1]) for j in columns]
    total = [np.zeros((len(codes), part.stop - part.start)) for part in own]
    if not len(codes):
        return total
    sites = block_arrays(compiled_field, [[j] for j in columns])
    thetas = [compiled_field.design.potentials(here) for here in points]
    step = max(1, _ENTRIES // max(int(g.node_ptr[-1]), 1))
    for first in range(0, len(codes), step):
        rows = slice(first, first + step)
        some = np.ascontiguousarray(codes[rows])
        p = np.empty((len(some), int(g.node_ptr[-1])))
        for theta in thetas:
            kernel.conditionals(g, sites, theta, some, p)
            for sums, part in zip(total, own, strict=True):
                sums[rows] += p[:, part]
    if not all(np.isfinite(sums).all() for sums in total):
        raise InvalidInput("some case cannot be: a factor's log_table forbids what it holds, whatever stands there")
    return [sums / len(points) for sums in total]


def _summed(posterior: Posterior, codes: IntArray, column: int, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """The same where other cells are missing, too."""
    field: Any = posterior.field
    holed = field.decode(np.maximum(codes, 0)).astype(object)
    missing: BoolArray = codes < 0
    holed[missing] = None
    holed[:, column] = None
    found = posterior.impute(holed, n_draws, 0, rng)
    own = found.cells[:, 1] == column
    result: FloatArray = found.probabilities[own][:, : len(field.states[column])]
    return result
