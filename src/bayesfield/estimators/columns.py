"""Tables as people have them: names, states of every column, and the way back."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayesfield.types import InvalidInput

_MOST = 50  # states of a column, beyond which it is taken for a measurement


@dataclass(frozen=True, eq=False)
class Columns:
    """names: of the columns. states: of each, in order. kinds: its dtype in a DataFrame; None for arrays."""

    names: list[str]
    states: list[tuple[Hashable, ...]]
    kinds: list[Any] | None
    cases: int

    def back(self, values: Any, index: Any = None) -> Any:
        """(N, n) states as a table like the one that was given."""
        if self.kinds is None:
            return values
        own = {name: self._column(values[:, j], j) for j, name in enumerate(self.names)}
        return pd.DataFrame(own, index=index)

    def _column(self, values: Any, j: int) -> Any:
        kind: Any = self.kinds[j] if self.kinds is not None else None
        if isinstance(kind, pd.CategoricalDtype):
            return pd.Categorical(list(values), dtype=kind)
        try:
            return pd.Series(list(values)).astype(kind).to_numpy()
        except (TypeError, ValueError):
            return np.array(list(values), dtype=object)


def columns_of(X: Any) -> Columns:
    """The columns of a DataFrame or of an array of two dimensions."""
    if isinstance(X, pd.DataFrame):
        names = [str(c) for c in X.columns]
        return Columns(names, [_states(X.iloc[:, j], n) for j, n in enumerate(names)], list(X.dtypes), len(X))
    names = [f"x{j}" for j in range(X.shape[1])]
    return Columns(names, [_states(pd.Series(X[:, j]), n) for j, n in enumerate(names)], None, len(X))


def _states(column: pd.Series, name: str) -> tuple[Hashable, ...]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return tuple(column.cat.categories.tolist())
    if column.dtype.kind == "b":
        return (False, True)
    present = [_whole(v) for v in pd.unique(column) if not pd.isna(v)]
    if len(present) > _MOST:
        raise InvalidInput(
            f"column {name!r} has {len(present)} different values; a field's variables have few states: put the values "
            "into bins (pandas.cut), or leave the column out"
        )
    if any(isinstance(v, float) and not np.isfinite(v) for v in present):
        raise InvalidInput(f"column {name!r} holds infinity, which is not a state; a cell that is not known is NaN")
    try:
        return tuple(sorted(present))
    except TypeError:
        raise InvalidInput(f"column {name!r} mixes kinds of values: {present[:6]}; recode them") from None


def _whole(value: Any) -> Any:
    """A number that Python knows; whole ones as int."""
    if isinstance(value, np.generic):
        value = value.item()
    return int(value) if isinstance(value, float) and value.is_integer() else value


def two_states(columns: Columns) -> list[tuple[Hashable, ...]]:
    """The states of columns that have two; one where only one occurs is completed by what the others have."""
    seen: set[Any] = {s for states in shown(columns).states for s in states}
    common = tuple(sorted(seen)) if _alike(seen) and len(seen) == 2 else None
    result: list[tuple[Hashable, ...]] = []
    for name, states in zip(columns.names, columns.states, strict=True):
        if len(states) == 2:
            result.append(states)
        elif len(states) < 2 and common is not None:
            result.append(common)
        else:
            raise InvalidInput(
                f"column {name!r} has {len(states)} states, {states[:6]}, and this model is for two; take PottsNetwork "
                "or OrdinalNetwork, give binarize=, or leave the column out"
            )
    return result


def shown(columns: Columns) -> Columns:
    """The columns, where more than one case was seen or their states are known otherwise."""
    if columns.cases == 1 and any(len(states) < 2 for states in columns.states):
        raise InvalidInput(
            "n_samples=1: one case shows one state of a column only; give a DataFrame with columns of category dtype, "
            "which names the others"
        )
    return columns


def _alike(values: set[Any]) -> bool:
    return len({isinstance(v, str) for v in values}) == 1


def named_edges(edges: Any, names: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of column names or numbers, a networkx graph of them, or None for all pairs; as numbers."""
    n = len(names)
    if edges is None:
        return [(i, j) for j in range(n) for i in range(j)]
    given = list(edges.edges()) if hasattr(edges, "edges") else list(edges)
    number: dict[Any, int] = {name: i for i, name in enumerate(names)}
    found = []
    for pair in given:
        try:
            i, j = (number[v] if v in number else int(v) for v in pair)
        except (TypeError, ValueError):
            raise InvalidInput(f"an edge is two columns, by name or number; got {pair!r}") from None
        found.append((min(i, j), max(i, j)))
    return sorted(set(found))


def binarized(table: Any, threshold: float) -> Any:
    """1 above the threshold, 0 up to it, missing where missing."""
    try:
        values = np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("binarize= needs columns of numbers") from None
    cut = np.where(np.isnan(values), np.nan, values > threshold)
    if isinstance(table, pd.DataFrame):
        return pd.DataFrame(cut, index=table.index, columns=table.columns)
    return cut
