"""Inputs times weights: a sparse row for each position, and weights for each input: of all labels, (D, K), or of some.

Weights of some labels are one vector: those of input d from ptr[d] to ptr[d+1], with the label of each. Products with
all weights go by rows, those with the transpose by columns: each writes what no other thread writes, so that no sums of
tables (D, K) follow. Products with some weights go by rows both ways, through a list of what each position has
(``Entries``). Where all inputs are 1, value is empty: nothing is stored and nothing multiplied.
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray


class Inputs(NamedTuple):
    """Sparse rows, or columns: ptr (n+1,), number (N,) of the column, or row, value (N,) or empty where all are 1."""

    ptr: np.ndarray
    number: np.ndarray
    value: FloatArray


class Support(NamedTuple):
    """The weights of some labels: ptr (D+1,), label (F,). Most inputs of a corpus have one label, and most occurrences
    are of inputs with many: these have a row of a table (R, K) each, and whole rows are added. row: (D,), −1 for the
    others."""

    ptr: np.ndarray
    label: np.ndarray
    row: np.ndarray


class Entries(NamedTuple):
    """What each position has: the rows of its inputs with many labels, and one by one the weights of the others with
    their labels. A weight is then one look into memory away and not four (0.5 s a gradient of 211,727 positions
    became 0.25). Values are empty where all inputs are 1."""

    wide_ptr: np.ndarray  # (P+1,)
    wide: np.ndarray
    wide_value: FloatArray
    few_ptr: np.ndarray  # (P+1,)
    few: np.ndarray
    few_label: np.ndarray
    few_value: FloatArray


@jit
def times(rows: Inputs, weights: FloatArray, first: int, last: int, out: FloatArray) -> None:
    """out[t] = Σ_d x_td weights[d] for the positions first … last; weights (D, K), out (P, K)."""
    K, stored = weights.shape[1], len(rows.value) > 0
    for t in range(first, last):
        row = out[t]
        for k in range(K):
            row[k] = 0.0
        for e in range(rows.ptr[t], rows.ptr[t + 1]):
            w = weights[rows.number[e]]
            x = rows.value[e] if stored else 1.0
            for k in range(K):
                row[k] += x * w[k]


@jit
def gathered(columns: Inputs, rows: FloatArray, first: int, last: int, out: FloatArray) -> None:
    """out[d] = Σ_t x_td rows[t] for the inputs first … last; rows (P, K), out (D, K)."""
    K, stored = rows.shape[1], len(columns.value) > 0
    for d in range(first, last):
        sums = out[d]
        for k in range(K):
            sums[k] = 0.0
        for e in range(columns.ptr[d], columns.ptr[d + 1]):
            row = rows[columns.number[e]]
            x = columns.value[e] if stored else 1.0
            for k in range(K):
                sums[k] += x * row[k]


@jit
def filled(support: Support, weights: FloatArray, table: FloatArray) -> None:
    """The rows of inputs with many labels, (R, K), from weights (F,)."""
    table[:] = 0.0
    for d in range(len(support.row)):
        r = support.row[d]
        if r >= 0:
            for j in range(support.ptr[d], support.ptr[d + 1]):
                table[r, support.label[j]] = weights[j]


@jit
def taken(support: Support, table: FloatArray, out: FloatArray) -> None:
    """Their weights (F,) from these rows; the others are left."""
    for d in range(len(support.row)):
        r = support.row[d]
        if r >= 0:
            for j in range(support.ptr[d], support.ptr[d + 1]):
                out[j] = table[r, support.label[j]]


@jit
def counted(rows: Inputs, support: Support, wide_ptr: np.ndarray, few_ptr: np.ndarray) -> None:
    """How many entries of either kind the positions before each have."""
    wide_ptr[0] = few_ptr[0] = 0
    for t in range(len(rows.ptr) - 1):
        wide, few = 0, 0
        for e in range(rows.ptr[t], rows.ptr[t + 1]):
            d = rows.number[e]
            if support.row[d] >= 0:
                wide += 1
            else:
                few += support.ptr[d + 1] - support.ptr[d]
        wide_ptr[t + 1], few_ptr[t + 1] = wide_ptr[t] + wide, few_ptr[t] + few


@jit
def listed(rows: Inputs, support: Support, out: Entries) -> None:
    """The entries, once they are counted."""
    stored = len(rows.value) > 0
    for t in range(len(rows.ptr) - 1):
        a, b = out.wide_ptr[t], out.few_ptr[t]
        for e in range(rows.ptr[t], rows.ptr[t + 1]):
            d = rows.number[e]
            if support.row[d] >= 0:
                out.wide[a] = support.row[d]
                if stored:
                    out.wide_value[a] = rows.value[e]
                a += 1
                continue
            for j in range(support.ptr[d], support.ptr[d + 1]):
                out.few[b], out.few_label[b] = j, support.label[j]
                if stored:
                    out.few_value[b] = rows.value[e]
                b += 1


@jit
def some_times(
    entries: Entries, weights: FloatArray, table: FloatArray, first: int, last: int, out: FloatArray
) -> None:
    """``times`` with weights (F,) of some labels, and their table; out (P, K)."""
    K, stored = out.shape[1], len(entries.wide_value) + len(entries.few_value) > 0
    for t in range(first, last):
        row = out[t]
        for k in range(K):
            row[k] = 0.0
        for e in range(entries.wide_ptr[t], entries.wide_ptr[t + 1]):
            w = table[entries.wide[e]]
            x = entries.wide_value[e] if stored else 1.0
            for k in range(K):
                row[k] += x * w[k]
        for e in range(entries.few_ptr[t], entries.few_ptr[t + 1]):
            x = entries.few_value[e] if stored else 1.0
            row[entries.few_label[e]] += x * weights[entries.few[e]]


@jit
def some_scattered(
    entries: Entries, rows: FloatArray, first: int, last: int, table: FloatArray, out: FloatArray
) -> None:
    """The transpose of ``some_times``, added to table (R, K) and to out (F,); rows (P, K)."""
    K, stored = rows.shape[1], len(entries.wide_value) + len(entries.few_value) > 0
    for t in range(first, last):
        row = rows[t]
        for e in range(entries.wide_ptr[t], entries.wide_ptr[t + 1]):
            sums = table[entries.wide[e]]
            x = entries.wide_value[e] if stored else 1.0
            for k in range(K):
                sums[k] += x * row[k]
        for e in range(entries.few_ptr[t], entries.few_ptr[t + 1]):
            x = entries.few_value[e] if stored else 1.0
            out[entries.few[e]] += x * row[entries.few_label[e]]
