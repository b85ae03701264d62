"""What stands in the holes of the data: marginals averaged over the posterior of the parameters, and completions.

For draws λ_s of the posterior p(x_hidden | x_observed, D) ≈ mean of p(x_hidden | x_observed, λ_s); a completion draws
its λ_s first, and then all holes of a case together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayesfield.graph.clamp import Clamped, Phase, clamp
from bayesfield.graph.compiled import compiled
from bayesfield.inference.completion import completed
from bayesfield.inference.contract import Engine
from bayesfield.model.field import RandomField
from bayesfield.types import FloatArray, GraphArrays, IntArray, InvalidInput, Outcome, Status


@dataclass(frozen=True, eq=False)
class Imputation:
    """What ``posterior.impute`` found for M holes, row by row.

    cells: (M, 2) row and column (number of the variable) of each. probabilities: (M, K) of its states, in their order;
    zeros beyond the states of variables that have fewer than K. completions: (S, N, n) the data with all holes filled,
    in the states' own values. status: of the inference; the worst.
    """

    field: RandomField
    codes: IntArray
    cells: IntArray
    probabilities: FloatArray
    completions: Any
    status: Status

    @property
    def filled(self) -> Any:
        """(N, n) the data with the likeliest state in every hole."""
        codes = self.codes.copy()
        codes[self.cells[:, 0], self.cells[:, 1]] = self.probabilities.argmax(axis=1)
        return self.field.decode(codes)

    def table(self) -> pd.DataFrame:
        """A row for each hole: where it is, its likeliest state, and how likely."""
        best = self.probabilities.argmax(axis=1)
        columns = self.cells[:, 1]
        return pd.DataFrame(
            {
                "row": self.cells[:, 0],
                "variable": [self.field.names[c] for c in columns],
                "state": [self.field.states[c][b] for c, b in zip(columns, best, strict=True)],
                "probability": self.probabilities[np.arange(len(best)), best],
            }
        )

    def __repr__(self) -> str:
        return f"Imputation({len(self.cells)} holes in {len(self.codes)} cases, {len(self.completions)} completions)"


def impute(
    field: RandomField,
    parameters: FloatArray,
    X: Any,
    completions: int,
    engine: Engine,
    rng: np.random.Generator,
) -> Imputation:
    """parameters: (S, F) draws. completions: how many to make, by one draw after the other, over again if need be."""
    if completions < 0:
        raise InvalidInput(f"the number of completions must not be negative; got {completions}")
    codes = field.encode(X, holes=True)
    clamped, cells = clamp(compiled(field), codes), np.argwhere(codes < 0)
    widest = max((len(s) for s in field.states), default=1)
    found, status = [], Status(Outcome.EXACT)
    for phase in clamped.phases:
        total, worst = _averaged(phase, parameters, engine)
        found.append(_padded(phase.graph.arrays, total, widest))
        status = worst if status.converged else status
    everything = np.concatenate([np.empty((0, widest)), *found])
    made = [completed(codes, clamped, parameters[s % len(parameters)], rng) for s in range(completions)]
    values = np.array([field.decode(own) for own in made]).reshape(completions, *codes.shape)
    return Imputation(field, codes, cells, everything[_places(clamped, codes.shape, cells)], values, status)


def _averaged(phase: Phase, parameters: FloatArray, engine: Engine) -> tuple[FloatArray, Status]:
    """Mean marginals of a phase's variables, end to end, and the worst status."""
    total, status, before = np.zeros(int(phase.graph.arrays.node_ptr[-1])), Status(Outcome.EXACT), None
    for here in parameters:
        found = engine.infer(phase.graph, phase.design.potentials(here), before)
        if found.status.outcome is Outcome.IMPOSSIBLE:
            raise InvalidInput(f"some case cannot be: {found.status}")
        total += found.tables[: len(total)]
        status = found.status if status.converged else status
        before = found.state
    return total / max(len(parameters), 1), status


def _padded(g: GraphArrays, marginals: FloatArray, widest: int) -> FloatArray:
    """(n, widest) from marginals end to end."""
    result = np.zeros((len(g.cardinality), widest))
    owner = np.repeat(np.arange(len(g.cardinality)), g.cardinality)
    result[owner, np.arange(len(owner)) - g.node_ptr[owner]] = marginals
    return result


def _places(clamped: Clamped, shape: tuple[int, ...], cells: IntArray) -> IntArray:
    """Where each hole stands among the variables of all phases; cases that are alike share theirs."""
    number = np.full(shape, -1, dtype=np.int64)
    first = 0
    for phase in clamped.phases:
        number[phase.cells[:, 0], phase.cells[:, 1]] = first + np.arange(len(phase.cells))
        first += len(phase.cells)
    return number[clamped.first[cells[:, 0]], cells[:, 1]]
