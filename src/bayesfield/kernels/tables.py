"""Which table entries joint states take: counts over cases, and the features of each."""

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, GraphArrays, IntArray


@jit
def _entry(g: GraphArrays, a: int, x: np.ndarray) -> int:
    """The entry of factor a's table that the state x takes."""
    entry = g.table_ptr[a]
    for slot in range(g.scope_ptr[a], g.scope_ptr[a + 1]):
        entry += g.stride[slot] * x[g.scope[slot]]
    return entry


@jit
def entries(g: GraphArrays, codes: np.ndarray, out: IntArray) -> None:
    """The entry of every table that each of the states (N, n) takes, (N, n + m)."""
    n = len(g.cardinality)
    for c in range(len(codes)):
        for i in range(n):
            out[c, i] = g.node_ptr[i] + codes[c, i]
        for a in range(len(g.table_ptr) - 1):
            out[c, n + a] = _entry(g, a, codes[c])


@jit
def count_entries(g: GraphArrays, codes: np.ndarray, total: FloatArray) -> None:
    """Adds to total (T,) how often the states (N, n) take each entry of each table."""
    for c in range(len(codes)):
        x = codes[c]
        for i in range(len(g.cardinality)):
            total[g.node_ptr[i] + x[i]] += 1.0
        for a in range(len(g.table_ptr) - 1):
            total[_entry(g, a, x)] += 1.0


@jit
def weigh_entries(g: GraphArrays, codes: np.ndarray, weights: FloatArray, total: FloatArray) -> None:
    """Adds to total (T,) the weights (N,) of the states (N, n) that take each entry of each table."""
    for c in range(len(codes)):
        x = codes[c]
        for i in range(len(g.cardinality)):
            total[g.node_ptr[i] + x[i]] += weights[c]
        for a in range(len(g.table_ptr) - 1):
            total[_entry(g, a, x)] += weights[c]


@jit
def energies(g: GraphArrays, theta: FloatArray, codes: np.ndarray, out: FloatArray) -> None:
    """out (N,): θ summed over the entries that each of the states (N, n) takes."""
    for c in range(len(codes)):
        x, total = codes[c], 0.0
        for i in range(len(g.cardinality)):
            total += theta[g.node_ptr[i] + x[i]]
        for a in range(len(g.table_ptr) - 1):
            total += theta[_entry(g, a, x)]
        out[c] = total


@jit
def sum_features(
    g: GraphArrays, ptr: IntArray, column: IntArray, value: FloatArray, codes: np.ndarray, out: FloatArray
) -> None:
    """Adds to out (N, F) the features of the states (N, n): rows (ptr, column, value) of the design."""
    for c in range(len(codes)):
        x, row = codes[c], out[c]
        for i in range(len(g.cardinality)):
            e = g.node_ptr[i] + x[i]
            for k in range(ptr[e], ptr[e + 1]):
                row[column[k]] += value[k]
        for a in range(len(g.table_ptr) - 1):
            e = _entry(g, a, x)
            for k in range(ptr[e], ptr[e + 1]):
                row[column[k]] += value[k]


@jit
def sparse_product(ptr: np.ndarray, column: np.ndarray, value: FloatArray, x: FloatArray, out: FloatArray) -> None:
    """out += A x for A by rows. SciPy's own product takes 7 µs before it begins, which is as long as a small tree."""
    for row in range(len(out)):
        total = out[row]
        for k in range(ptr[row], ptr[row + 1]):
            total += value[k] * x[column[k]]
        out[row] = total


@jit
def design_counts(
    start: IntArray,
    entry: IntArray,
    feature: IntArray,
    parameters: IntArray,
    by_entry: IntArray,
    by_parameter: IntArray,
) -> None:
    """Adds how many values one block's features put in each row and in each column of the design.

    start: (m,) first entry of each factor's table. entry, feature: (q,) where a feature is not zero.
    """
    for f in range(len(start)):
        for k in range(len(entry)):
            by_entry[start[f] + entry[k]] += 1
            by_parameter[parameters[f, feature[k]]] += 1


@jit
def fill_design(
    start: IntArray,
    entry: IntArray,
    feature: IntArray,
    value: FloatArray,
    parameters: IntArray,
    rows: tuple[IntArray, np.ndarray, FloatArray],
    columns: tuple[IntArray, np.ndarray, FloatArray],
) -> None:
    """One block's values, by rows and by columns: (where the next of each goes, its index, its value)."""
    for f in range(len(start)):
        for k in range(len(entry)):
            e, p = start[f] + entry[k], parameters[f, feature[k]]
            at = rows[0][e]
            rows[1][at], rows[2][at] = p, value[k]
            rows[0][e] += 1
            at = columns[0][p]
            columns[1][at], columns[2][at] = e, value[k]
            columns[0][p] += 1
