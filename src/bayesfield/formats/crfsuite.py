"""Sequences of items as python-crfsuite and sklearn-crfsuite take them, to sparse inputs.

An item is a mapping from attribute to value, or a collection of attributes. A string value makes the attribute
"name:value" with weight 1; True is 1 and False is 0; a nested mapping or collection has "name:" put before its own
attributes; numbers are weights. Attributes that were not met in training are left out.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from bayesfield.types import IntArray, InvalidInput


def vocabulary(X: Sequence[Sequence[Any]]) -> dict[str, int]:
    """The attributes that occur, sorted, and their numbers."""
    names: set[str] = set()
    for sequence in X:
        for item in sequence:
            names.update([name for name, weight in attributes(item) if weight])
    return {name: k for k, name in enumerate(sorted(names))}


def inputs_of(sequence: Sequence[Any], known: Mapping[str, int]) -> Any:
    """(T, attributes) sparse weights of one sequence."""
    return rows_of([sequence], known)[0]


def rows_of(sequences: Sequence[Sequence[Any]], known: Mapping[str, int]) -> tuple[Any, IntArray]:
    """(positions, attributes) sparse weights of all sequences end to end, and how many positions each has."""
    ptr, columns, weights, lengths = array("q", [0]), array("i"), array("d"), array("q")
    for sequence in sequences:
        lengths.append(len(sequence))
        for item in sequence:
            there = [(known[name], weight) for name, weight in attributes(item) if weight and name in known]
            columns.extend([column for column, _ in there])
            weights.extend([weight for _, weight in there])
            ptr.append(len(columns))
    parts = np.frombuffer(weights, dtype=np.float64), np.frombuffer(columns, dtype=np.intc)
    if not len(columns):
        parts = np.empty(0), np.empty(0, dtype=np.intc)
    matrix = sparse.csr_array((*parts, np.array(ptr, dtype=np.int64)), shape=(len(ptr) - 1, len(known)))
    matrix.sum_duplicates()
    return matrix, np.array(lengths, dtype=np.int64)


def attributes(item: Any) -> list[tuple[str, float]]:
    """Names and weights of an item's attributes."""
    if isinstance(item, Mapping):
        found: list[tuple[str, float]] = []
        for name, value in item.items():
            kind = type(value)  # strings and numbers, which nearly all are, without a call: half the time of reading
            if kind is str:
                found.append((f"{name}:{value}", 1.0))
            elif kind is bool:
                found.append((str(name), float(value)))
            else:
                found += _one(str(name), value)
        return found
    if isinstance(item, str) or not isinstance(item, Iterable):
        raise InvalidInput(
            f"an item is a dict of attributes, or a list of them; got {item!r}. X is a list of sequences, and each of "
            "these a list of items"
        )
    return [(name if type(name) is str else _named(name), 1.0) for name in item]


def _named(name: Any) -> str:
    """Of an item that is a list."""
    if isinstance(name, int | float | np.number):
        raise InvalidInput(
            f"an item that is a list holds names of attributes, and {name!r} is a number; for numbers give a "
            "dict from name to value, or each sequence as a (positions, features) array"
        )
    return str(name)


def _one(name: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, bool | np.bool_):
        yield name, float(value)
    elif isinstance(value, str | bytes):
        yield f"{name}:{value.decode() if isinstance(value, bytes) else value}", 1.0
    elif isinstance(value, Mapping):
        for inner, weight in attributes(value):
            yield f"{name}:{inner}", weight
    elif isinstance(value, int | float | np.integer | np.floating):
        weight = float(value)
        if not np.isfinite(weight):
            raise InvalidInput(f"attribute {name!r} has the value {value!r}; weights must be finite")
        yield name, weight
    elif isinstance(value, Iterable):
        for inner in value:
            name_of = inner.decode() if isinstance(inner, bytes) else inner
            if not isinstance(name_of, str):
                raise InvalidInput(
                    f"attribute {name!r} is a collection, which holds names, and {inner!r} is none; for numbers give "
                    "each its own name, or each sequence as a (positions, features) array"
                )
            yield f"{name}:{name_of}", 1.0
    else:
        raise InvalidInput(
            f"attribute {name!r} has a value of type {type(value).__name__}; it takes numbers and strings"
        )
