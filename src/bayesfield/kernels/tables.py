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
