"""Data in the states' own values, to positions and back. The border where data is checked, once."""

from collections.abc import Hashable, Sequence
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from bayesfield.types import FloatArray, IntArray, InvalidInput


def state_values(states: Sequence[Hashable]) -> FloatArray:
    """The number each state stands for in a feature: itself when all are numbers, else its position."""
    if all(isinstance(s, Real) for s in states):
        return np.array(states, dtype=np.float64)
    return np.arange(len(states), dtype=np.float64)


def encode(X: Any, states: Sequence[tuple[Hashable, ...]], names: Sequence[str]) -> IntArray:
    """(N, n) values to positions in the states."""
    values, labels = _columns(X, names)
    missing = pd.isna(values)
    if missing.any():
        row, column = np.argwhere(missing)[0]
        raise InvalidInput(
            f"X has {int(missing.sum())} missing cells (the first: row {row}, column {labels[column]!r}); missing "
            "values are not supported yet: drop those rows or fill the cells"
        )
    codes = np.empty(values.shape, dtype=np.int64)
    for columns in _columns_by_states(states):
        index = pd.Index(list(states[columns[0]]))
        codes[:, columns] = index.get_indexer(_flat(values[:, columns], index)).reshape(len(values), len(columns))
    if (codes < 0).any():
        row, column = np.argwhere(codes < 0)[0]
        raise InvalidInput(
            f"column {labels[column]!r}, row {row} holds {values[row, column]!r}, which is not one of its states "
            f"{states[column]}; recode the data or state the variable's states"
        )
    return codes


def decode(codes: IntArray, states: Sequence[tuple[Hashable, ...]]) -> Any:
    """(N, n) positions to the states' own values; one array whose type fits them all."""
    kinds = [np.array(list(s)) for s in dict.fromkeys(states)]
    numeric = all(kind.dtype.kind in "biuf" for kind in kinds)
    result = np.empty(codes.shape, dtype=np.result_type(*kinds) if numeric and kinds else object)
    for columns in _columns_by_states(states):
        labels = np.empty(len(states[columns[0]]), dtype=result.dtype)
        labels[:] = list(states[columns[0]])
        result[:, columns] = labels[codes[:, columns]]
    return result


def _columns(X: Any, names: Sequence[str]) -> tuple[Any, Sequence[Any]]:
    """The cells of X in the order of the variables, and what to call each column in an error."""
    if isinstance(X, pd.DataFrame):
        if set(names) <= set(X.columns):
            return X[list(names)].to_numpy(), list(names)
        labels: Sequence[Any] = list(X.columns)
        values = X.to_numpy()
    else:
        labels = names
        values = np.asarray(X)
    if values.ndim != 2 or values.shape[1] != len(names):
        raise InvalidInput(
            f"X needs shape (cases, {len(names)}), one column for each variable; got {values.shape}"
            + ("" if values.ndim == 2 else ": reshape a single case to (1, n)")
        )
    return values, labels


def _columns_by_states(states: Sequence[tuple[Hashable, ...]]) -> list[list[int]]:
    groups: dict[tuple[Hashable, ...], list[int]] = {}
    for i, s in enumerate(states):
        groups.setdefault(s, []).append(i)
    return list(groups.values())


def _flat(values: Any, index: "pd.Index[Any]") -> Any:
    """Cells as a vector that the index can look up: numbers as numbers even if the array holds objects."""
    flat = values.ravel()
    if flat.dtype == object and index.dtype.kind in "biuf":
        numbers = pd.to_numeric(pd.Series(flat), errors="coerce")
        return numbers.to_numpy()
    return flat
