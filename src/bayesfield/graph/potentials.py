"""The tables of a field at given parameters, for whoever takes a field as a product of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesfield.graph.compiled import compiled, potentials_at
from bayesfield.types import FloatArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.model.field import RandomField

_LARGEST = 700.0  # log of the largest number there is, about


class Potential(NamedTuple):
    """A table of potentials ≥ 0 over some variables, one axis for each. scope: their numbers, ascending."""

    scope: tuple[int, ...]
    table: FloatArray


def potentials_of(field: RandomField, parameters: Any = ()) -> list[Potential]:
    """p(x|λ) Z as a product: a table for every variable, then one for every set of variables that share factors; and
    one without variables where the field has a constant."""
    compiled_field = compiled(field)
    g = compiled_field.graph.arrays
    theta = potentials_at(field, parameters)
    if theta.max(initial=-np.inf) > _LARGEST or abs(compiled_field.design.constant) > _LARGEST:
        raise InvalidInput("a log-potential above 700 is too large to write as a potential; scale the tables down")
    scopes: list[list[int]] = [[i] for i in range(field.n_variables)]
    scopes += [g.scope[g.scope_ptr[a] : g.scope_ptr[a + 1]].tolist() for a in range(len(g.table_ptr) - 1)]
    tables = np.split(np.exp(theta), np.concatenate([g.node_ptr[1:], g.table_ptr[1:]]))[: len(scopes)]
    result = [
        Potential(tuple(s), t.reshape([int(g.cardinality[i]) for i in s])) for s, t in zip(scopes, tables, strict=True)
    ]
    if compiled_field.design.constant:
        result.append(Potential((), np.array(np.exp(compiled_field.design.constant))))
    return result
