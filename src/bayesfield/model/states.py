"""Data in the states' own values, to positions and back. The border where data is checked, once."""

from collections.abc import Hashable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd

from bayesfield.types import FloatArray, IntArray, InvalidInput

_WHOLE = "bi"  # kinds of arrays that hold whole numbers and no holes
_SPAN = 10_000  # states below it are looked up in a table
_SLAB = 1_000_000  # cells looked up at a time


def state_values(states: Sequence[Hashable]) -> FloatArray:
    """The number each state stands for in a feature: itself when all are numbers, else its position."""
    if all(isinstance(s, Real) for s in states):
        return np.array(states, dtype=np.float64)
    return np.arange(len(states), dtype=np.float64)


def encode(values: Any, labels: Sequence[Any], states: Sequence[tuple[Hashable, ...]], holes: bool = False) -> IntArray:
    """(N, n) values to positions in the states; −1 for a hole, where holes are allowed. labels: for errors."""
    missing = pd.isna(values) if values.dtype.kind not in _WHOLE else np.zeros((0, 0), dtype=bool)
    if missing.any() and not holes:
        row, column = np.argwhere(missing)[0]
        raise InvalidInput(
            f"X has {int(missing.sum())} missing cells (the first: row {row}, column {labels[column]!r}); this needs "
            "complete cases: drop those rows or fill the cells"
        )
    codes = np.empty(values.shape, dtype=np.int64)
    groups = _columns_by_states(states)
    for own in groups:
        if len(groups) == 1:
            codes[:] = _positions(values, states[0])
        else:
            codes[:, own] = _positions(values[:, own], states[own[0]])
    if missing.any():
        codes[missing] = -1
    strange = codes.size > 0 and int(codes.min()) < 0 and (codes < 0) & (~missing if missing.size else True)
    if np.any(strange):
        row, column = np.argwhere(strange)[0]
        raise InvalidInput(
            f"column {labels[column]!r}, row {row} holds {_plain(values[row, column])!r}, which is not one of its "
            f"states {states[column]}; recode the data or state the variable's states"
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


def _columns_by_states(states: Sequence[tuple[Hashable, ...]]) -> list[list[int]]:
    groups: dict[tuple[Hashable, ...], list[int]] = {}
    for i, s in enumerate(states):
        groups.setdefault(s, []).append(i)
    return list(groups.values())


def _plain(value: Any) -> Any:
    """A Python value, for messages that people read."""
    return value.item() if isinstance(value, np.generic) else value


def _positions(values: Any, states: tuple[Hashable, ...]) -> IntArray:
    """Where each cell stands among the states, −1 for nowhere. 1, 1.0 and True are one state; "1" is another."""
    whole = np.array(states) if all(isinstance(s, Integral) for s in states) else np.empty(0)
    if values.dtype.kind in _WHOLE and whole.dtype.kind in _WHOLE and np.abs(whole).max() < _SPAN:
        return _whole_positions(values, whole.astype(np.int64))
    flat = values.ravel()
    real = flat.dtype.kind in "biuf" and all(isinstance(s, Real) for s in states)
    index = pd.Index(np.array(states, dtype=np.float64)) if real else pd.Index([])
    if real and index.is_unique:  # whole numbers from 2⁵³ on share doubles
        flat = flat.astype(np.float64)
    else:
        index = pd.Index(list(states), dtype=object)
        flat = flat.astype(object)
    return index.get_indexer(flat).reshape(values.shape).astype(np.int64)


def _whole_positions(values: Any, states: IntArray) -> IntArray:
    """By a table over the range of the states, some rows at a time."""
    low, high = int(states.min()), int(states.max())
    table = np.full(high - low + 2, -1, dtype=np.int64)  # the last entry is for what lies outside
    table[states - low] = np.arange(len(states))
    out = np.empty(values.shape, dtype=np.int64)
    step = max(1, _SLAB // max(values.shape[1], 1))
    for k in range(0, len(values), step):
        some = values[k : k + step].astype(np.int64)
        out[k : k + step] = table[np.where((some >= low) & (some <= high), some - low, -1)]
    return out
