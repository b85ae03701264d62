"""Ordinal items: ordered states with scores, parameters of their own for every item, and one slope for every pair.

p(x) ∝ exp(Σ_i μ_i(x_i) + Σ_{i<j} σ_ij · x_i · x_j), where x_i is the score of item i's state. μ_i is free, or quadratic
in the score (Blume and Capel): μ_i(x) = α_i x + β_i (x − reference)².
"""

from collections.abc import Hashable, Sequence
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np

from bayesfield.model.builders import Edges, edge_array, grouped, states_of_each, variable_names
from bayesfield.model.field import FactorBlock, RandomField, States
from bayesfield.model.states import state_values
from bayesfield.types import FloatArray, IntArray, InvalidInput

_TIMES = {"product": 1.0, "association": 2.0}


def ordinal(
    n: int,
    edges: Edges,
    states: int | Sequence[Hashable] | Sequence[Sequence[Hashable]],
    *,
    names: Sequence[str] | None = None,
    blume_capel: float | Sequence[float | None] | None = None,
    interaction: Literal["product", "association"] = "product",
    tied: bool = False,
) -> RandomField:
    """A field of ordinal items: for every item an indicator of each state but the first, for every edge x_i·x_j.

    states: labels in order, the same for all items, or a list of labels for each item; the scores x are the labels
    when these are numbers, else their positions 0, 1, …. blume_capel: a reference score; an item then has two features
    instead, x and (x − reference)². One for all items, or one for each, None where an item keeps its indicators.
    interaction: "product" is x_i·x_j; "association" is 2·x_i·x_j, whose slopes are half as large. tied: the same
    parameters for all items, and one slope for all edges.
    """
    pairs, own = edge_array(n, edges), variable_names(names, n)
    items = _items(own, states, blume_capel)
    if interaction not in _TIMES:
        raise InvalidInput(f'interaction is "product" or "association"; got {interaction!r}')
    if tied and len(set(items)) > 1:
        raise InvalidInput("tied=True needs the same states and reference for all items; these differ: untie them")
    owners = list(zip(own, items, strict=True)) if not tied else [("x", item) for item in items[:1]]
    ends = [(own[i], own[j]) for i, j in pairs] if not tied else [("x", "x'") for _ in pairs[:1]]
    nodes = [who + mark for who, item in owners for mark in item.marks()]
    slopes = [("2*" if interaction == "association" else "") + f"{i}*{j}" for i, j in ends]
    step = 0 if tied else 1
    first = step * np.cumsum([0, *(len(item.tables()) for item in items)])[:-1]
    slope = len(nodes) + step * np.arange(len(pairs), dtype=np.int64)
    blocks = _node_blocks(items, first) + _edge_blocks(items, pairs, slope, _TIMES[interaction])
    groups = ["nodes"] * len(nodes) + ["edges"] * len(slopes)
    return RandomField.from_blocks([item.states for item in items], blocks, own, nodes + slopes, groups)


class _Item(NamedTuple):
    """The states of an item, and the reference score of a Blume–Capel item."""

    states: States
    reference: float | None

    def scores(self) -> FloatArray:
        """(K,)"""
        return state_values(self.states)

    def tables(self) -> FloatArray:
        """Its own features: (K − 1, K), or (2, K) of a Blume–Capel item."""
        if self.reference is None:
            return np.eye(len(self.states))[1:]
        return np.stack([self.scores(), (self.scores() - self.reference) ** 2])

    def marks(self) -> list[str]:
        """What the names of these features add to the item's name."""
        return [f"={s}" for s in self.states[1:]] if self.reference is None else ["", "²"]


def _node_blocks(items: Sequence[_Item], first: IntArray) -> list[FactorBlock]:
    """Unary factors, one block for each kind of item. first: number of each item's first parameter, (n,)."""
    blocks = []
    for item, members in grouped(items).items():
        tables = item.tables()
        parameters = first[members][:, None] + np.arange(len(tables), dtype=np.int64)
        blocks.append(FactorBlock(members[:, None], tables, parameters, None, (0,)))
    return blocks


def _edge_blocks(items: Sequence[_Item], pairs: IntArray, slope: IntArray, times: float) -> list[FactorBlock]:
    """Pair factors, one block for each pair of lists of states. slope: number of each pair's parameter, (E,)."""
    blocks = []
    for (a, b), members in grouped([(items[i].states, items[j].states) for i, j in pairs]).items():
        table = times * np.multiply.outer(state_values(a), state_values(b))
        blocks.append(FactorBlock(pairs[members], table[None], slope[members][:, None], None, (0, 1)))
    return blocks


# --- what the user gave ---------------------------------------------------------------------------------------------


def _items(names: Sequence[str], states: Any, blume_capel: Any) -> list[_Item]:
    n = len(names)
    several = isinstance(blume_capel, Sequence | np.ndarray) and not isinstance(blume_capel, str)
    references = list(blume_capel) if several else [blume_capel] * n
    if len(references) != n:
        raise InvalidInput(f"blume_capel needs one reference, or one for each of the {n} items; got {len(references)}")
    return [_item(*given) for given in zip(names, states_of_each(n, states), references, strict=True)]


def _item(name: str, states: States, reference: Any) -> _Item:
    least = 2 if reference is None else 3
    if len(states) < least:
        kind = "an item" if reference is None else "a Blume–Capel item"
        raise InvalidInput(
            f"{kind} needs at least {least} states; {name!r} has {len(states)}: {states}. Leave it out"
            + (" or give it no reference (None)" if reference is not None and len(states) == 2 else "")
        )
    if not np.isfinite(state_values(states)).all():
        raise InvalidInput(f"the scores of {name!r} must be finite; got {states}")
    if reference is None:
        return _Item(states, None)
    if not isinstance(reference, Real) or not np.isfinite(float(reference)):
        raise InvalidInput(f"the reference of a Blume–Capel item is a finite score; {name!r} got {reference!r}")
    return _Item(states, float(reference))
