"""Tables as people have them: names, states of every column, and the way back."""

import operator
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bayesfield.tabular import as_table, backend_of, like
from bayesfield.types import FitWarning, InvalidInput

_MOST, _LEVELS = 50, 24  # states of a column, and levels of one of numbers, beyond which it is a measurement
_SHOWN = 6  # of a column's states, that a message names
_HOLES = {"?", "", ".", "-", "NA", "N/A", "n/a", "NaN", "nan", "None", "null", "missing"}  # what people write for one
_IN_ORDER = {("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("off", "on"), ("absent", "present")}


@dataclass(frozen=True, eq=False)
class Columns:
    """names: of the columns. states: of each, in order. kinds: its dtype in a DataFrame; None for arrays.

    constant: the columns in which no two cases differ. labels: the columns' own names, which need not be text. backend:
    the library that the table was of, where that was not pandas.
    """

    names: list[str]
    states: list[tuple[Hashable, ...]]
    kinds: list[Any] | None
    cases: int
    constant: tuple[str, ...] = ()
    labels: tuple[Hashable, ...] = ()
    backend: str | None = None

    def alphabetical(self, j: int) -> bool:
        """Whether a column's states are words that nobody has put in order."""
        kind: Any = self.kinds[j] if self.kinds is not None else None
        words = [state for state in self.states[j] if isinstance(state, str)]
        named = isinstance(kind, pd.CategoricalDtype) and (kind.ordered or len(words) == 2 or words != sorted(words))
        return bool(words) and not named

    def back(self, values: Any, X: Any = None) -> Any:
        """(N, n) states as a table like X, in the order of its columns; by default like the one that was fitted."""
        if self.kinds is None:
            return values
        own = {j: self._column(values[:, j], j) for j in range(len(self.names))}
        given = as_table(X)
        index = given.index if isinstance(given, pd.DataFrame) else None
        table = pd.DataFrame(own, index=index)
        table.columns = pd.Index(self.labels or self.names)
        if index is not None and set(given.columns) == set(table.columns):
            table = table[list(given.columns)]
        return like(self.backend if X is None else backend_of(X), table)

    def number(self, column: Any) -> int | None:
        """A column's place: by its own name, by that as text, or by its number; None where there is no such."""
        for j, label in enumerate(self.labels):
            if type(label) is type(column) and label == column:
                return j
        if isinstance(column, str):
            return self.names.index(column) if column in self.names else None
        if any(isinstance(label, int) for label in self.labels):  # numbers are names here
            return None
        try:
            place = operator.index(column)
        except TypeError:
            return None
        return place % len(self.names) if -len(self.names) <= place < len(self.names) else None

    def _column(self, values: Any, j: int) -> Any:
        kind: Any = self.kinds[j] if self.kinds is not None else None
        if isinstance(kind, pd.CategoricalDtype):
            return pd.Categorical(list(values), dtype=kind)
        try:
            return pd.Series(list(values)).astype(kind).array
        except (TypeError, ValueError):
            return np.array(list(values), dtype=object)


def columns_of(X: Any) -> Columns:
    """The columns of a DataFrame or of an array of two dimensions."""
    frame = isinstance(X, pd.DataFrame)
    names = [str(c) for c in X.columns] if frame else [f"x{j}" for j in range(X.shape[1])]
    if not frame and len(X) == 1 and X.dtype.kind in "iuf" and not np.isinf(X).any():
        # one image: a column for each of a million pixels, each with one value at most
        return Columns(names, [() if v != v else (_whole(v),) for v in X[0].tolist()], None, 1, (), ())
    own = [X.iloc[:, j] if frame else pd.Series(X[:, j]) for j in range(len(names))]
    states = [_states(column, name) for column, name in zip(own, names, strict=True)]
    constant = tuple(name for column, name in zip(own, names, strict=True) if column.nunique() == 1)
    labels = tuple(c.item() if isinstance(c, np.generic) else c for c in X.columns) if frame else ()
    return Columns(names, states, list(X.dtypes) if frame else None, len(X), constant if len(X) > 1 else (), labels)


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
    if len(present) > _LEVELS and all(isinstance(v, int | float) for v in present):
        raise InvalidInput(
            f"column {name!r} holds numbers of {len(present)} levels, which looks like a measurement: put them into "
            "bins (pandas.cut), or cut them in two by binarize= where the model has it; if they are states say so, by "
            "astype('category'). Labels behind measurements are for bf.HiddenChain (sequences), bf.HiddenLattice "
            "(images) and bf.hidden_field (any graph)"
        )
    if any(isinstance(v, float) and not np.isfinite(v) for v in present):
        raise InvalidInput(f"column {name!r} holds infinity, which is not a state; a cell that is not known is NaN")
    try:
        return tuple(sorted(present))
    except TypeError:
        raise InvalidInput(f"column {name!r} mixes kinds of values: {present[:6]}; recode them") from None


def require_own_names(X: pd.DataFrame) -> None:
    """Refuse two columns of one name, also where only their texts are the same (1 and "1")."""
    names = [str(c) for c in X.columns]
    if len(set(names)) < len(names):
        twin = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"every column needs a name of its own; {twin!r} stands there {names.count(twin)} times")


def warn_of_columns(columns: Columns) -> None:
    """Columns that never vary teach nothing: a user should know before the parameters are looked at."""
    if columns.constant:
        some = ", ".join(repr(name) for name in columns.constant[:_SHOWN])
        more = " …" if len(columns.constant) > _SHOWN else ""
        warnings.warn(
            f"no two cases differ in {some}{more}: the data cannot tell its couplings, so the prior does; leave it out",
            FitWarning,
            stacklevel=4,
        )


def warn_of_order(columns: Columns) -> None:
    """Words of two states are taken in alphabetical order; which of them is the higher decides every sign."""
    odd = [
        f"{name} ({states[0]!r} < {states[1]!r})"
        for j, (name, states) in enumerate(zip(columns.names, columns.states, strict=True))
        if len(states) == 2 and columns.alphabetical(j) and tuple(str(s).lower() for s in states) not in _IN_ORDER
    ]
    if odd:
        more = " …" if len(odd) > _SHOWN else ""
        warnings.warn(
            f"the order of words is alphabetical, and decides the signs: {', '.join(odd[:_SHOWN])}{more}. For another "
            "give pd.Categorical(column, [lower, higher], ordered=True)",
            FitWarning,
            stacklevel=4,
        )


def require_order(columns: Columns) -> None:
    """Refuse three or more words that nobody has put in order: the alphabet is not the scale's."""
    for j, (name, states) in enumerate(zip(columns.names, columns.states, strict=True)):
        if len(states) > 2 and columns.alphabetical(j):
            raise InvalidInput(
                f"column {name!r} holds words, {listed(states)}, and no order of them is known; give it one by "
                f"pd.Categorical(column, [lowest, …, highest], ordered=True), or take PottsNetwork"
            )


def listed(states: Sequence[Any]) -> str:
    """The first few states, and whether there are more."""
    return f"({', '.join(repr(s) for s in states[:_SHOWN])}{', …' if len(states) > _SHOWN else ''})"


def _whole(value: Any) -> Any:
    """A number that Python knows; whole ones as int."""
    if isinstance(value, np.generic):
        value = value.item()
    return int(value) if isinstance(value, float) and value.is_integer() else value


def cut_states(columns: Columns, threshold: float | Mapping[Any, float] | None) -> list[tuple[Hashable, ...]]:
    """Two states of every column; 0 and 1 of those that a threshold has cut."""
    if threshold is None:
        return two_states(columns)
    if not isinstance(threshold, Mapping):
        return [(0, 1)] * len(columns.names)
    cut = {str(name) for name in threshold}
    known = [(0, 1) if name in cut else states for name, states in zip(columns.names, columns.states, strict=True)]
    return two_states(replace(columns, states=known))


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
            raise InvalidInput(_not_two(name, states))
    return result


def _not_two(name: str, states: tuple[Hashable, ...]) -> str:
    if not states:
        return f"column {name!r} has missing cells only; leave it out"
    if len(states) == 1:
        return (
            f"column {name!r} never varies, it is always {states[0]!r}; leave it out, or name its other state by "
            "pd.Categorical(column, [lower, higher])"
        )
    holes = sorted(str(s) for s in states if s in _HOLES)
    if holes and len(states) == 3:
        return (
            f"column {name!r} has three states, {listed(states)}; if {holes[0]!r} stands for a missing cell say so, by "
            f"table.replace({holes[0]!r}, None) or pd.read_csv(…, na_values={holes[0]!r})"
        )
    return (
        f"column {name!r} has {len(states)} states, {listed(states)}, and this model is for two; take PottsNetwork or "
        "OrdinalNetwork, give binarize=, or leave the column out"
    )


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


def named_edges(edges: Any, columns: Columns) -> list[tuple[int, int]]:
    """Pairs of columns by name or number, a networkx graph of them, or None for all pairs; as numbers."""
    n = len(columns.names)
    if edges is None:
        return [(i, j) for j in range(n) for i in range(j)]
    given = list(edges.edges()) if hasattr(edges, "edges") else list(edges)
    found = []
    for pair in given:
        try:
            ends = [columns.number(v) for v in pair]
        except TypeError:
            ends = []
        if len(ends) != 2 or None in ends:
            raise InvalidInput(f"an edge is two columns, by name or number; got {pair!r}")
        found.append((min(ends), max(ends)))  # type: ignore[type-var]
    return sorted(set(found))  # type: ignore[arg-type]


def binarized(table: Any, threshold: float | Mapping[Any, float]) -> Any:
    """1 above the threshold, 0 up to it, missing where missing. A mapping has thresholds of some columns, by name."""
    if isinstance(threshold, Mapping):
        if not isinstance(table, pd.DataFrame):
            raise InvalidInput("binarize= by column needs a DataFrame, whose columns have names")
        absent = [name for name in threshold if name not in table]
        if absent:
            raise InvalidInput(f"binarize= names the column {absent[0]!r}, which is not there")
        result = table.copy()
        for name, own in threshold.items():
            result[name] = _above(table[name], own)
        return result
    if isinstance(table, pd.DataFrame):
        cut = {j: _above(table.iloc[:, j], threshold) for j in range(table.shape[1])}
        return pd.DataFrame(cut, index=table.index).set_axis(table.columns, axis=1)
    return _above(table, threshold)


def _above(values: Any, threshold: Any) -> Any:
    try:
        cut = float(threshold)
    except (TypeError, ValueError):
        raise InvalidInput(f"binarize= is a number, or a dict of them by column; got {threshold!r}") from None
    try:
        series = isinstance(values, pd.Series)
        numbers = values.to_numpy(np.float64, na_value=np.nan) if series else np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("binarize= needs columns of numbers") from None
    return np.where(np.isnan(numbers), np.nan, numbers > cut)
