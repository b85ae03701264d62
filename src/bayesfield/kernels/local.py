"""Linear response where every parameter belongs to one table: all blocks are computed table by table.

Coordinates are the variables' state indicators, one for each state but the reference; see response.indicators. A
symmetric matrix over them has a block for each variable, (its lower triangle by rows) and one for each pair of
variables that share a factor, (states of the first, states of the second).
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, GraphArrays, IntArray

_SINGULAR = 1e-11  # smallest pivot of a factor's correlation matrix that is trusted


class LocalArrays(NamedTuple):
    """Tables are numbered variables first, then factors."""

    par_ptr: IntArray  # (n+m+1,)
    par: IntArray  # (F,) the parameters of each table
    coordinate_ptr: IntArray  # (n+1,) first coordinate of each variable
    block_ptr: IntArray  # (n+1,) first entry of each variable's block
    link_ptr: IntArray  # (m+1,)
    link: IntArray  # first entry of the block of each pair of a factor's slots, (0,1), (0,2), …, (1,2), …


class Rows(NamedTuple):
    """A matrix by the parameters' rows: those of a table have the same columns, in the table's order."""

    ptr: IntArray
    data: FloatArray


@jit
def local_moments(
    g: GraphArrays,
    at: LocalArrays,
    reference: IntArray,
    feature_ptr: np.ndarray,
    feature_entry: np.ndarray,
    feature_value: FloatArray,
    beliefs: FloatArray,
    private: Rows,
    slopes: Rows,
    omega: FloatArray,
    factors: tuple[int, int],
) -> bool:
    """B, R and the factors' share of Ω; False where a factor ties its members' states to one another.

    reference: (n,) the state without an indicator. feature_*: Aᵀ by rows.
    """
    n = len(g.cardinality)
    widest, most, largest = _largest(g, at, factors)
    mean, V, inverse = np.empty(widest), np.empty((widest, widest)), np.empty((widest, widest))
    work = np.empty((widest, widest))
    f, Ef = np.empty((most, largest)), np.empty(most)
    cross = np.empty((most, widest))
    on, place = np.empty(widest + 1, dtype=np.int64), np.empty(widest + 1, dtype=np.int64)
    for a in range(factors[0], factors[1]):
        start, size = g.table_ptr[a], g.table_ptr[a + 1] - g.table_ptr[a]
        own = at.par[at.par_ptr[n + a] : at.par_ptr[n + a + 1]]
        wide = _places(g, a, place)
        mean[:wide], V[:wide, :wide] = 0.0, 0.0
        cross[: len(own), :wide], Ef[: len(own)] = 0.0, 0.0
        f[: len(own), :size] = 0.0
        for k in range(len(own)):
            for e in range(feature_ptr[own[k]], feature_ptr[own[k] + 1]):
                f[k, feature_entry[e] - start] = feature_value[e]
        for t in range(size):
            b = beliefs[start + t]
            count = _indicators_on(g, reference, a, t, place, on)
            for x in range(count):
                mean[on[x]] += b
                for y in range(count):
                    V[on[x], on[y]] += b
                for k in range(len(own)):
                    cross[k, on[x]] += b * f[k, t]
            for k in range(len(own)):
                Ef[k] += b * f[k, t]
        for x in range(wide):
            for y in range(wide):
                V[x, y] -= mean[x] * mean[y]
            for k in range(len(own)):
                cross[k, x] -= Ef[k] * mean[x]
        if not invert(V, wide, work, inverse):
            return False
        for k in range(len(own)):
            row, first = slopes.data[slopes.ptr[own[k]] :], private.ptr[own[k]]
            for x in range(wide):
                total = 0.0
                for y in range(wide):
                    total += cross[k, y] * inverse[y, x]
                row[x] = total
            for j in range(len(own)):
                total = -Ef[k] * Ef[j]
                for t in range(size):
                    total += beliefs[start + t] * f[k, t] * f[j, t]
                for x in range(wide):
                    total -= row[x] * cross[j, x]
                private.data[first + j] = total
        add_block(g, at, a, inverse, omega)
    return True


@jit
def node_moments(
    g: GraphArrays,
    at: LocalArrays,
    reference: IntArray,
    feature_ptr: np.ndarray,
    feature_entry: np.ndarray,
    feature_value: FloatArray,
    beliefs: FloatArray,
    slopes: Rows,
    omega: FloatArray,
) -> None:
    """The variables' own rows of R, and −(d − 1) V⁻¹ of Ω: 1/q on the diagonal, and 1/q of the reference everywhere."""
    for i in range(len(g.cardinality)):
        K, first = g.cardinality[i], g.node_ptr[i]
        surplus = g.slot_ptr[i + 1] - g.slot_ptr[i] - 1.0
        for x in range(K - 1):
            for y in range(x + 1):
                omega[at.block_ptr[i] + x * (x + 1) // 2 + y] -= surplus / beliefs[first + reference[i]]
            state = x if x < reference[i] else x + 1
            omega[at.block_ptr[i] + x * (x + 1) // 2 + x] -= surplus / beliefs[first + state]
        for k in range(at.par_ptr[i], at.par_ptr[i + 1]):
            p = at.par[k]
            row = slopes.data[slopes.ptr[p] : slopes.ptr[p + 1]]
            row[:] = 0.0
            for e in range(feature_ptr[p], feature_ptr[p + 1]):
                state = feature_entry[e] - first
                if state == reference[i]:
                    row -= feature_value[e]
                else:
                    row[state if state < reference[i] else state - 1] += feature_value[e]


@jit
def local_system(
    g: GraphArrays,
    at: LocalArrays,
    private: Rows,
    slopes: Rows,
    weight: float,
    ridge: FloatArray,
    own_inverse: FloatArray,
    shares: FloatArray,
    system: FloatArray,
    tables: tuple[int, int],
) -> bool:
    """M⁻¹ (as private), W = M⁻¹R (as slopes) and what RᵀW adds to S, for M = N B + Λ⁻¹; False where M has none."""
    n = len(g.cardinality)
    most, widest = 1, 1
    for t in range(tables[0], tables[1]):
        if at.par_ptr[t + 1] > at.par_ptr[t]:
            most = max(most, at.par_ptr[t + 1] - at.par_ptr[t])
            p = at.par[at.par_ptr[t]]
            widest = max(widest, slopes.ptr[p + 1] - slopes.ptr[p])
    M, work, inverse = np.empty((most, most)), np.empty((most, most)), np.empty((most, most))
    block = np.empty((widest, widest))
    for t in range(tables[0], tables[1]):
        own = at.par[at.par_ptr[t] : at.par_ptr[t + 1]]
        if not len(own):
            continue
        wide = slopes.ptr[own[0] + 1] - slopes.ptr[own[0]]
        for k in range(len(own)):
            for j in range(len(own)):
                M[k, j] = weight * private.data[private.ptr[own[k]] + j]
            M[k, k] += ridge[own[k]]
        if not invert(M, len(own), work, inverse):
            return False
        for k in range(len(own)):
            row = shares[slopes.ptr[own[k]] : slopes.ptr[own[k] + 1]]
            row[:] = 0.0
            for j in range(len(own)):
                own_inverse[private.ptr[own[k]] + j] = inverse[k, j]
                other = slopes.ptr[own[j]]
                for x in range(wide):
                    row[x] += inverse[k, j] * slopes.data[other + x]
        for x in range(wide):
            for y in range(wide):
                block[x, y] = 0.0
                for k in range(len(own)):
                    block[x, y] += slopes.data[slopes.ptr[own[k]] + x] * shares[slopes.ptr[own[k]] + y]
        if t < n:
            for x in range(wide):
                for y in range(x + 1):
                    system[at.block_ptr[t] + x * (x + 1) // 2 + y] += block[x, y]
        else:
            add_block(g, at, t - n, block, system)
    return True


@jit
def local_forms(
    g: GraphArrays, at: LocalArrays, slopes: Rows, shares: FloatArray, Z: FloatArray, out: FloatArray
) -> None:
    """out_k = w Z wᵀ for every row w of W; Z: entries of a symmetric matrix."""
    n = len(g.cardinality)
    widest = 1
    for p in range(len(out)):
        widest = max(widest, slopes.ptr[p + 1] - slopes.ptr[p])
    block = np.empty((widest, widest))
    for t in range(len(at.par_ptr) - 1):
        own = at.par[at.par_ptr[t] : at.par_ptr[t + 1]]
        if not len(own):
            continue
        wide = slopes.ptr[own[0] + 1] - slopes.ptr[own[0]]
        if t < n:
            for x in range(wide):
                for y in range(x + 1):
                    block[x, y] = Z[at.block_ptr[t] + x * (x + 1) // 2 + y]
                    block[y, x] = block[x, y]
        else:
            _take_block(g, at, t - n, Z, block)
        for p in own:
            w = shares[slopes.ptr[p] : slopes.ptr[p + 1]]
            total = 0.0
            for x in range(wide):
                for y in range(wide):
                    total += w[x] * block[x, y] * w[y]
            out[p] = total


@jit
def _largest(g: GraphArrays, at: LocalArrays, factors: tuple[int, int]) -> tuple[int, int, int]:
    """Coordinates, parameters and table entries of a factor, at most."""
    n = len(g.cardinality)
    widest, most, largest = 1, 1, 1
    for a in range(factors[0], factors[1]):
        wide = 0
        for e in range(g.scope_ptr[a], g.scope_ptr[a + 1]):
            wide += g.cardinality[g.scope[e]] - 1
        widest = max(widest, wide)
        most = max(most, at.par_ptr[n + a + 1] - at.par_ptr[n + a])
        largest = max(largest, g.table_ptr[a + 1] - g.table_ptr[a])
    return widest, most, largest


@jit
def _places(g: GraphArrays, a: int, place: IntArray) -> int:
    """Where each member's indicators begin among the factor's; returns how many there are."""
    wide = 0
    for e in range(g.scope_ptr[a], g.scope_ptr[a + 1]):
        place[e - g.scope_ptr[a]] = wide
        wide += g.cardinality[g.scope[e]] - 1
    return wide


@jit
def _indicators_on(g: GraphArrays, reference: IntArray, a: int, t: int, place: IntArray, on: IntArray) -> int:
    """The factor's indicators that are on in entry t of its table."""
    count = 0
    for e in range(g.scope_ptr[a], g.scope_ptr[a + 1]):
        i = g.scope[e]
        state = t // g.stride[e] % g.cardinality[i]
        if state != reference[i]:
            on[count] = place[e - g.scope_ptr[a]] + (state if state < reference[i] else state - 1)
            count += 1
    return count


@jit
def add_block(g: GraphArrays, at: LocalArrays, a: int, block: FloatArray, entries: FloatArray) -> None:
    """A factor's symmetric block to the entries of a matrix."""
    link, left = at.link_ptr[a], 0
    for e in range(g.scope_ptr[a], g.scope_ptr[a + 1]):
        i = g.scope[e]
        own, first = g.cardinality[i] - 1, at.block_ptr[i]
        for x in range(own):
            for y in range(x + 1):
                entries[first + x * (x + 1) // 2 + y] += block[left + x, left + y]
        right = left + own
        for other in range(e + 1, g.scope_ptr[a + 1]):
            others, first = g.cardinality[g.scope[other]] - 1, at.link[link]
            for x in range(own):
                for y in range(others):
                    entries[first + x * others + y] += block[left + x, right + y]
            right += others
            link += 1
        left += own


@jit
def _take_block(g: GraphArrays, at: LocalArrays, a: int, entries: FloatArray, block: FloatArray) -> None:
    """A factor's symmetric block from the entries of a matrix."""
    link, left = at.link_ptr[a], 0
    for e in range(g.scope_ptr[a], g.scope_ptr[a + 1]):
        i = g.scope[e]
        own, first = g.cardinality[i] - 1, at.block_ptr[i]
        for x in range(own):
            for y in range(x + 1):
                block[left + x, left + y] = entries[first + x * (x + 1) // 2 + y]
                block[left + y, left + x] = block[left + x, left + y]
        right = left + own
        for other in range(e + 1, g.scope_ptr[a + 1]):
            others, first = g.cardinality[g.scope[other]] - 1, at.link[link]
            for x in range(own):
                for y in range(others):
                    block[left + x, right + y] = entries[first + x * others + y]
                    block[right + y, left + x] = block[left + x, right + y]
            right += others
            link += 1
        left += own


@jit
def invert(a: FloatArray, n: int, work: FloatArray, out: FloatArray) -> bool:
    """The inverse of a positive definite matrix, scaled to ones on its diagonal; False where it is near singular.

    work: the Cholesky factor of the scaled matrix.
    """
    for i in range(n):
        if not a[i, i] > 0.0:
            return False
    for i in range(n):
        for j in range(i + 1):
            total = a[i, j] / np.sqrt(a[i, i] * a[j, j])
            for k in range(j):
                total -= work[i, k] * work[j, k]
            if i == j:
                if not total > _SINGULAR:
                    return False
                work[i, i] = np.sqrt(total)
            else:
                work[i, j] = total / work[j, j]
    for j in range(n):  # the inverse factor, below the diagonal of out
        out[j, j] = 1.0 / work[j, j]
        for i in range(j + 1, n):
            total = 0.0
            for k in range(j, i):
                total -= work[i, k] * out[k, j]
            out[i, j] = total / work[i, i]
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, n):
                total += out[k, i] * out[k, j]
            total /= np.sqrt(a[i, i] * a[j, j])
            out[j, i] = total
    for i in range(n):  # the lower triangle was needed to the end
        for j in range(i):
            out[i, j] = out[j, i]
    return True


# --- the layout ---------------------------------------------------------------------------------------------------


@jit
def references(g: GraphArrays, beliefs: FloatArray) -> IntArray:
    """The most probable state of every variable, the first of equals."""
    out = np.zeros(len(g.cardinality), dtype=np.int64)
    for i in range(len(out)):
        for x in range(1, g.cardinality[i]):
            if beliefs[g.node_ptr[i] + x] > beliefs[g.node_ptr[i] + out[i]]:
                out[i] = x
    return out


@jit
def row_ranges(ptr: np.ndarray, column: np.ndarray) -> tuple[IntArray, IntArray]:
    """The lowest and the highest column of every row."""
    low, high = np.empty(len(ptr) - 1, dtype=np.int64), np.empty(len(ptr) - 1, dtype=np.int64)
    for k in range(len(low)):
        low[k], high[k] = column[ptr[k]], column[ptr[k]]
        for e in range(ptr[k], ptr[k + 1]):
            low[k], high[k] = min(low[k], np.int64(column[e])), max(high[k], np.int64(column[e]))
    return low, high


@jit
def factor_widths(g: GraphArrays) -> IntArray:
    """How many indicators every factor's members have."""
    out = np.zeros(len(g.table_ptr) - 1, dtype=np.int64)
    for a in range(len(out)):
        for e in range(g.scope_ptr[a], g.scope_ptr[a + 1]):
            out[a] += g.cardinality[g.scope[e]] - 1
    return out


@jit
def slot_pairs(g: GraphArrays, link_ptr: IntArray, ends: IntArray) -> None:
    """The variables of every pair of a factor's slots."""
    for a in range(len(link_ptr) - 1):
        k = link_ptr[a]
        for e in range(g.scope_ptr[a], g.scope_ptr[a + 1]):
            for other in range(e + 1, g.scope_ptr[a + 1]):
                ends[k, 0], ends[k, 1] = g.scope[e], g.scope[other]
                k += 1


@jit
def row_columns(
    g: GraphArrays,
    at: LocalArrays,
    own_ptr: IntArray,
    slope_ptr: IntArray,
    own_column: np.ndarray,
    slope_column: np.ndarray,
) -> None:
    """Columns of B's rows (the table's parameters) and of R's (its members' coordinates)."""
    n = len(g.cardinality)
    for t in range(len(at.par_ptr) - 1):
        own = at.par[at.par_ptr[t] : at.par_ptr[t + 1]]
        for p in own:
            for j in range(len(own)):
                own_column[own_ptr[p] + j] = own[j]
            k = slope_ptr[p]
            first, last = (0, 1) if t < n else (g.scope_ptr[t - n], g.scope_ptr[t - n + 1])
            for e in range(first, last):
                i = t if t < n else g.scope[e]
                for x in range(at.coordinate_ptr[i], at.coordinate_ptr[i + 1]):
                    slope_column[k] = x
                    k += 1
