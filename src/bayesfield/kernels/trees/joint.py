"""Dense pairwise fields by all of their joint states, which are never stored for log Z and beliefs.

The variables fall into *inner* ones, with at most a few thousand joint states, and *outer* ones. For every joint state
of the outer variables the inner table is W(inner) · Π_i u_i(x_i), where u_i collects the pair tables between x_i and
the outer variables: a row times a column times W, made and summed in the cache. So a joint state costs some five
operations on numbers that lie next to one another: log Z and all beliefs of 2^20 states in less than a millisecond.

Covariances take P(x_a, x_b, x_c, x_d) for all pairs of pairs. All joint probabilities are stored for that, and summed
in place along each axis onto its state 0: entry (d_1, ..., d_n) is then P(x_i = d_i for all i with d_i > 0), so that
every product of indicators of states above 0 is one look-up.
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, IntArray

_LEAST = 1e-250  # sum of all weights, each at most 1, below which too many of them may have become zero


class JointArrays(NamedTuple):
    """A field of pairs laid out for all of its joint states; the first variable's state goes fastest in their order."""

    cardinality: IntArray  # (n,)
    node_ptr: IntArray  # (n+1,) table of variable i: entries node_ptr[i]:node_ptr[i+1]
    starts: IntArray  # (n+m+1,) first entries of all tables, and the end of the last
    pair_start: IntArray  # (n, n) first entry of the table of variables i < j, row-major; −1 where there is none
    step: IntArray  # (n,) by how much the number of a joint state goes up with each variable's state
    n_inner: int  # how many of the first variables are summed over in the cache
    fast: int  # how many of these make its rows, which have …
    n_fast: int  # … so many joint states


@jit
def infer(j: JointArrays, theta: FloatArray, beliefs: FloatArray) -> float:
    """log Z, and beliefs (T,) of all tables. −∞ where every state has probability zero, NaN where the largest weight
    is too far below the product of the tables' largest entries to be a number."""
    weights, log_scale = _exponentials(j, theta)
    if log_scale == -np.inf:
        return -np.inf
    base, outer = _within(j, weights, 0, j.n_inner), _within(j, weights, j.n_inner, len(j.cardinality))
    singles, inside = np.zeros((len(outer), j.node_ptr[j.n_inner])), np.zeros(len(base))
    factors, digits = _first(j)
    fast, slow = np.empty(j.n_fast), np.empty(len(base) // j.n_fast)
    columns, rows = np.empty(j.n_fast), np.empty(len(slow))
    for h in range(len(outer)):
        _advance(j, weights, digits, factors, h)
        if outer[h] > 0.0:
            _product_table(j, factors[len(digits)], 0, 1.0, fast)
            _product_table(j, factors[len(digits)], j.fast, outer[h], slow)
            outer[h] = _add_slice(fast, slow, base, inside, columns, rows)
            _single_sums(j, columns, 0, j.fast, columns, singles[h])
            _single_sums(j, rows, j.fast, j.n_inner, rows, singles[h, j.node_ptr[j.fast] :])
    total = outer.sum()
    if not total > _LEAST:
        return _no_log_z(theta, total)
    beliefs[:] = 0.0
    _pair_sums(j, inside, 0, j.n_inner, beliefs)
    _pair_sums(j, outer, j.n_inner, len(j.cardinality), beliefs)
    _cross_sums(j, singles, beliefs)
    for e in range(len(beliefs)):
        beliefs[e] /= total
    return log_scale + np.log(total)


@jit
def log_z(j: JointArrays, theta: FloatArray) -> float:
    """What ``infer`` returns."""
    weights, log_scale = _exponentials(j, theta)
    if log_scale == -np.inf:
        return -np.inf
    base, outer = _within(j, weights, 0, j.n_inner), _within(j, weights, j.n_inner, len(j.cardinality))
    factors, digits = _first(j)
    fast, slow = np.empty(j.n_fast), np.empty(len(base) // j.n_fast)
    total = 0.0
    for h in range(len(outer)):
        _advance(j, weights, digits, factors, h)
        if outer[h] > 0.0:
            _product_table(j, factors[len(digits)], 0, 1.0, fast)
            _product_table(j, factors[len(digits)], j.fast, outer[h], slow)
            for r in range(len(slow)):
                row = base[r * j.n_fast : (r + 1) * j.n_fast]
                part = 0.0
                for k in range(len(fast)):
                    part += fast[k] * row[k]
                total += slow[r] * part
    return log_scale + np.log(total) if total > _LEAST else _no_log_z(theta, total)


@jit
def log_z_many(j: JointArrays, thetas: FloatArray, start: int, stop: int, out: FloatArray) -> None:
    for s in range(start, stop):
        out[s] = log_z(j, thetas[s])


@jit
def _no_log_z(theta: FloatArray, total: float) -> float:
    return -np.inf if total == 0.0 and not np.isfinite(theta).all() else np.nan


@jit
def _first(j: JointArrays) -> tuple[FloatArray, IntArray]:
    """Before the first joint state of the outer variables."""
    n_outer = len(j.cardinality) - j.n_inner
    factors = np.empty((n_outer + 1, j.node_ptr[j.n_inner]))
    factors[0] = 1.0
    return factors, np.zeros(n_outer, dtype=np.int64)


@jit
def _add_slice(
    fast: FloatArray, slow: FloatArray, base: FloatArray, inside: FloatArray, columns: FloatArray, rows: FloatArray
) -> float:
    """All inner weights slow[r] · fast[k] · base[r, k] at one outer state: added to ``inside``; their sums over r, over
    k, and in all."""
    width, total = len(fast), 0.0
    columns[:] = 0.0
    for r in range(len(slow)):
        row, into, scale, part = base[r * width : (r + 1) * width], inside[r * width : (r + 1) * width], slow[r], 0.0
        for k in range(width):
            weight = scale * fast[k] * row[k]
            into[k] += weight
            columns[k] += weight
            part += weight
        rows[r] = part
        total += part
    return total


@jit
def infer_many(
    j: JointArrays, thetas: FloatArray, start: int, stop: int, log_z: FloatArray, beliefs: FloatArray
) -> None:
    for s in range(start, stop):
        log_z[s] = infer(j, thetas[s], beliefs[s])


@jit
def probabilities(j: JointArrays, thetas: FloatArray, log_z: FloatArray, total: FloatArray) -> None:
    """total (S,): Σ p(x) over all potentials (D, T), of every joint state, the first variable's state fastest.

    For one outer state after the other, so that what is added to stays in the cache.
    """
    D, n_outer = len(thetas), len(j.cardinality) - j.n_inner
    n_base = j.step[j.n_inner] if n_outer else len(total)
    n_states = len(total) // n_base
    weights, base, outer = np.empty(thetas.shape), np.empty((D, n_base)), np.empty((D, n_states))
    factors, norm = np.empty((D, n_outer + 1, j.node_ptr[j.n_inner])), np.empty(D)
    for d in range(D):
        weights[d], log_scale = _exponentials(j, thetas[d])
        base[d], outer[d] = _within(j, weights[d], 0, j.n_inner), _within(j, weights[d], j.n_inner, len(j.cardinality))
        factors[d, 0], norm[d] = 1.0, np.exp(log_scale - log_z[d])
    digits = np.zeros((D, n_outer), dtype=np.int64)
    fast, slow = np.empty(j.n_fast), np.empty(n_base // j.n_fast)
    for h in range(n_states):
        into = total[h * n_base : (h + 1) * n_base]
        into[:] = 0.0
        for d in range(D):
            _advance(j, weights[d], digits[d], factors[d], h)
            if outer[d, h] > 0.0:
                _product_table(j, factors[d, n_outer], 0, norm[d], fast)
                _product_table(j, factors[d, n_outer], j.fast, outer[d, h], slow)
                _add_product(fast, slow, base[d], into)


@jit
def _add_product(fast: FloatArray, slow: FloatArray, base: FloatArray, into: FloatArray) -> None:
    width = len(fast)
    for r in range(len(slow)):
        row, out, scale = base[r * width : (r + 1) * width], into[r * width : (r + 1) * width], slow[r]
        for k in range(width):
            out[k] += scale * fast[k] * row[k]


@jit
def sum_onto_zero(j: JointArrays, table: FloatArray) -> None:
    """In place: along every axis, the sum over all states in the place of state 0.

    Axes within a stretch that the cache holds are done stretch by stretch; the others column by column of stretches.
    """
    inner, n, size = j.n_inner, len(j.cardinality), len(table)
    stretch = j.step[inner] if inner < n else size
    for start in range(0, size, stretch):
        _sum_axes(j, table[start : start + stretch], 0, inner, stretch, 1)
    width = min(64, stretch)
    for start in range(0, stretch, width):
        stop = min(start + width, stretch)  # a stretch need not be a whole number of widths
        for i in range(inner, n):
            step, cards = j.step[i], j.cardinality[i]
            for block in range(0, size, step * cards):
                for row in range(block, block + step, stretch):
                    into = table[row + start : row + stop]
                    for s in range(1, cards):
                        other = table[row + s * step + start : row + s * step + stop]
                        for k in range(len(into)):
                            into[k] += other[k]


@jit
def second_moments(table: FloatArray, numbers: IntArray, digits: IntArray, ptr: IntArray, out: FloatArray) -> None:
    """out[a, b] = E[m_a m_b] of products of indicators of states above 0, from a table by ``sum_onto_zero``.

    numbers: (M,) the entry of each. digits: of each its (variable, state, step) one after the other, ascending, from
    ptr[a] on.
    """
    for a in range(len(numbers)):
        for b in range(a + 1):
            at, possible = numbers[a] + numbers[b], True
            x, y = ptr[a], ptr[b]
            while x < ptr[a + 1] and y < ptr[b + 1]:
                if digits[x, 0] < digits[y, 0]:
                    x += 1
                elif digits[x, 0] > digits[y, 0]:
                    y += 1
                else:
                    possible = possible and digits[x, 1] == digits[y, 1]
                    at -= digits[x, 1] * digits[x, 2]
                    x += 1
                    y += 1
            out[a, b] = table[at] if possible else 0.0
            out[b, a] = out[a, b]


@jit
def _sum_axes(j: JointArrays, table: FloatArray, start: int, stop: int, size: int, unit: int) -> None:
    step = unit
    for i in range(start, stop):
        cards = j.cardinality[i]
        if step == 1 and cards == 2:
            for k in range(0, size, 2):
                table[k] += table[k + 1]
        else:
            for block in range(0, size, step * cards):
                for s in range(1, cards):
                    for k in range(block, block + step):
                        table[k] += table[k + s * step]
        step *= cards


@jit
def _exponentials(j: JointArrays, theta: FloatArray) -> tuple[FloatArray, float]:
    """exp of every table over its largest entry, and the sum of the logarithms of these."""
    weights, log_scale = np.empty(len(theta)), 0.0
    for t in range(len(j.starts) - 1):
        top = -np.inf
        for e in range(j.starts[t], j.starts[t + 1]):
            top = max(top, theta[e])
        log_scale += top
        if top == -np.inf:
            return weights, -np.inf
        for e in range(j.starts[t], j.starts[t + 1]):
            weights[e] = np.exp(theta[e] - top)
    return weights, log_scale


@jit
def _within(j: JointArrays, weights: FloatArray, start: int, stop: int) -> FloatArray:
    """Products of the tables among variables start..stop for all of their joint states, the first one fastest.

    By doubling: with one more variable, the table so far times its own entry and its pairs with those before.
    """
    size = 1
    for i in range(start, stop):
        size *= j.cardinality[i]
    table, column = np.empty(size), np.empty(size)
    table[0] = 1.0
    size = 1
    for i in range(start, stop):
        for s in range(j.cardinality[i] - 1, -1, -1):  # state 0 last: it stands where the others are made from
            column[0] = weights[j.node_ptr[i] + s]
            length = 1
            for k in range(start, i):
                length = _widen(j, weights, i, s, k, column, length)
            into = table[s * size : (s + 1) * size]
            for x in range(size):
                into[x] = table[x] * column[x]
        size *= j.cardinality[i]
    return table


@jit
def _widen(j: JointArrays, weights: FloatArray, i: int, s: int, k: int, column: FloatArray, length: int) -> int:
    """column over variables up to k − 1 becomes one up to k, by the pair table of k with i in state s."""
    start, cards = j.pair_start[k, i], j.cardinality[k]
    for t in range(cards - 1, -1, -1):
        factor = weights[start + t * j.cardinality[i] + s] if start >= 0 else 1.0
        into = column[t * length : (t + 1) * length]
        for x in range(length):
            into[x] = column[x] * factor
    return length * cards


@jit
def _advance(j: JointArrays, weights: FloatArray, digits: IntArray, factors: FloatArray, h: int) -> None:
    """The outer variables' next joint state, number h, and u_i after each of them: the slowest in the first row."""
    n_outer = len(digits)
    changed = n_outer - 1 if n_outer else 0
    if h > 0:
        i = 0
        while True:
            digits[i] += 1
            if digits[i] < j.cardinality[j.n_inner + i]:
                break
            digits[i] = 0
            i += 1
        changed = i
    for i in range(changed, -1, -1):
        if n_outer:
            _multiply(j, weights, j.n_inner + i, digits[i], factors[n_outer - 1 - i], factors[n_outer - i])


@jit
def _multiply(j: JointArrays, weights: FloatArray, outer: int, state: int, old: FloatArray, new: FloatArray) -> None:
    for i in range(j.n_inner):
        start, first = j.pair_start[i, outer], j.node_ptr[i]
        for s in range(j.cardinality[i]):
            factor = weights[start + s * j.cardinality[outer] + state] if start >= 0 else 1.0
            new[first + s] = old[first + s] * factor


@jit
def _product_table(j: JointArrays, factors: FloatArray, start: int, scale: float, table: FloatArray) -> None:
    """scale · Π_i factors_i(x_i) for all joint states of as many variables from ``start`` on as the table has."""
    table[0] = scale
    size, i = 1, start
    while size < len(table):
        first = j.node_ptr[i]
        for s in range(j.cardinality[i] - 1, -1, -1):
            factor = factors[first + s]
            into = table[s * size : (s + 1) * size]
            for x in range(size):
                into[x] = table[x] * factor
        size *= j.cardinality[i]
        i += 1


@jit
def _single_sums(
    j: JointArrays, table: FloatArray, start: int, stop: int, scratch: FloatArray, out: FloatArray
) -> None:
    """The marginal of each of the variables start..stop, from a table over them; at the entries of their own tables,
    counted from those of ``start``. The table is folded from its slowest variable on."""
    size = len(table)
    folded = table
    for i in range(stop - 1, start - 1, -1):
        cards = j.cardinality[i]
        size //= cards
        first = j.node_ptr[i] - j.node_ptr[start]
        into = scratch[:size]
        for s in range(cards):
            part, total = folded[s * size : (s + 1) * size], 0.0
            if s == 0:
                for x in range(size):
                    total += part[x]
                    into[x] = part[x]
            else:
                for x in range(size):
                    total += part[x]
                    into[x] += part[x]
            out[first + s] = total
        folded = into


@jit
def _pair_sums(j: JointArrays, table: FloatArray, start: int, stop: int, beliefs: FloatArray) -> None:
    """The beliefs of all variables start..stop and pairs of them. The table is changed."""
    size = len(table)
    marginal, scratch = np.empty(j.node_ptr[stop] - j.node_ptr[start]), np.empty(size)
    for i in range(stop - 1, start - 1, -1):
        cards = j.cardinality[i]
        size //= cards
        for s in range(cards):
            part = table[s * size : (s + 1) * size]
            beliefs[j.node_ptr[i] + s] = part.sum()
            _single_sums(j, part, start, i, scratch, marginal)
            for k in range(start, i):
                if j.pair_start[k, i] >= 0:
                    for t in range(j.cardinality[k]):
                        entry = j.pair_start[k, i] + t * cards + s
                        beliefs[entry] = marginal[j.node_ptr[k] - j.node_ptr[start] + t]
        for s in range(1, cards):
            for x in range(size):
                table[x] += table[s * size + x]


@jit
def _cross_sums(j: JointArrays, singles: FloatArray, beliefs: FloatArray) -> None:
    """The beliefs of pairs of an inner and an outer variable, from the inner marginals at every outer state."""
    n = len(j.cardinality)
    sums = np.empty(singles.shape[1])
    size = 1
    for o in range(j.n_inner, n):
        cards = j.cardinality[o]
        for state in range(cards):
            sums[:] = 0.0
            for block in range(0, len(singles), size * cards):
                for h in range(block + state * size, block + (state + 1) * size):
                    sums += singles[h]
            for i in range(j.n_inner):
                if j.pair_start[i, o] >= 0:
                    for s in range(j.cardinality[i]):
                        beliefs[j.pair_start[i, o] + s * cards + state] = sums[j.node_ptr[i] + s]
        size *= cards
