"""Marginals of many long chains without their messages: what a gradient needs, and no more.

The letters are those of kernels.chains.passes. Messages of one sequence at a time stay in the processor's cache; of all
sequences together only the marginals are kept, (P, K), in place of the five such tables that further questions need.
At 211,727 positions and 22 labels that is a third of the time.
"""

import numpy as np

from bayesfield.kernels.chains.passes import TINY, ChainArrays
from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray

_LOG2E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 0.693147180369123816490, 1.90821492927058770002e-10
_LOWEST = -708.0  # below it e^x is not a normal number
POWERS = np.ldexp(1.0, np.arange(-1023, 1))  # 2^n, n = −1023 … 0


@jit
def exponential(x: FloatArray, top: float, powers: FloatArray, out: FloatArray) -> None:
    """out = exp(x − top), where x ≤ top; a loop without branches, which LLVM makes vectors of.

    x = n log 2 + r with |r| ≤ ½ log 2, and e^r by its series up to r¹³: right to 2e-16 of itself (np.exp takes
    each number by itself, and was a quarter of a gradient).
    """
    for k in range(len(x)):
        y = max(x[k] - top, _LOWEST)
        n = np.floor(y * _LOG2E + 0.5)
        r = (y - n * _LN2_HIGH) - n * _LN2_LOW
        p = 1.6059043836821613e-10
        p = p * r + 2.0876756987868098e-09
        p = p * r + 2.5052108385441720e-08
        p = p * r + 2.7557319223985893e-07
        p = p * r + 2.7557319223985888e-06
        p = p * r + 2.4801587301587302e-05
        p = p * r + 1.9841269841269841e-04
        p = p * r + 1.3888888888888889e-03
        p = p * r + 8.3333333333333332e-03
        p = p * r + 4.1666666666666664e-02
        p = p * r + 1.6666666666666666e-01
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        value = p * powers[int(n) + 1023]
        out[k] = value if x[k] - top >= _LOWEST else 0.0


@jit
def times_matrix(a: FloatArray, M: FloatArray, out: FloatArray) -> None:
    """out = aᵀM, four rows of M at a time, so that out is read and written a quarter as often."""
    K = len(a)
    for j in range(K):
        out[j] = 0.0
    whole = K - K % 4
    for i in range(0, whole, 4):
        p, q, r, s = a[i], a[i + 1], a[i + 2], a[i + 3]
        for j in range(K):
            out[j] += (p * M[i, j] + q * M[i + 1, j]) + (r * M[i + 2, j] + s * M[i + 3, j])
    for i in range(whole, K):
        p = a[i]
        for j in range(K):
            out[j] += p * M[i, j]


@jit
def add_outer(a: FloatArray, v: FloatArray, count: int, sums: FloatArray) -> None:
    """sums += Σ_t a_t ⊗ v_{t+1} over t = 0 … count − 2, four positions at a time."""
    K = a.shape[1]
    whole = max(count - 1, 0) - max(count - 1, 0) % 4
    for t in range(0, whole, 4):
        for i in range(K):
            p, q, r, s = a[t, i], a[t + 1, i], a[t + 2, i], a[t + 3, i]
            row = sums[i]
            for j in range(K):
                row[j] += (p * v[t + 1, j] + q * v[t + 2, j]) + (r * v[t + 3, j] + s * v[t + 4, j])
    for t in range(whole, count - 1):
        for i in range(K):
            p, row = a[t, i], sums[i]
            for j in range(K):
                row[j] += p * v[t + 1, j]


@jit
def add_marginals(
    chains: ChainArrays,
    node: FloatArray,
    noise: FloatArray,
    sign: float,
    M: FloatArray,
    top: FloatArray,
    powers: FloatArray,
    first: int,
    last: int,
    log_z: FloatArray,
    marginal: FloatArray,
    spread: FloatArray,
    pair: FloatArray,
    squares: FloatArray,
) -> None:
    """Of the sequences first … last with one edge table, M (1, K, K): log Z into log_z, marginals added to marginal
    (P, K), p (1 − p) to spread (P, K), Σ_t a_t ⊗ v_{t+1} to pair (K, K), and Σ_t a_t² ⊗ v_{t+1}² to squares (K, K).

    noise: (P, K), of which ``sign`` times is added to the log-potentials, or (0, K) for none; spread: or (0, K), and
    then squares are left. Where plain numbers underflow log Z is NaN and nothing is added.
    """
    K = node.shape[1]
    turned = np.ascontiguousarray(M[0].T)
    longest = 0
    for s in range(first, last):
        longest = max(longest, chains.ptr[s + 1] - chains.ptr[s])
    psi, a, v, b, c = (
        np.empty((longest, K)),
        np.empty((longest, K)),
        np.empty((longest, K)),
        np.empty(K),
        np.empty(longest),
    )
    for s in range(first, last):
        begin, count = chains.ptr[s], chains.ptr[s + 1] - chains.ptr[s]
        total_log = 0.0
        for t in range(count):
            row = v[t]  # potentials, until the backward pass writes over them
            for k in range(K):
                row[k] = node[begin + t, k]
            if len(noise):
                for k in range(K):
                    row[k] += sign * noise[begin + t, k]
            highest = -np.inf
            for k in range(K):
                highest = max(highest, row[k])
            exponential(row, highest, powers, psi[t])
            total_log += highest
            here = a[t]
            if t == 0:
                here[:] = psi[0]
            else:
                times_matrix(a[t - 1], M[0], here)
                total_log += top[0]
                for k in range(K):
                    here[k] *= psi[t, k]
            total = 0.0
            for k in range(K):
                total += here[k]
            c[t] = total
            if not total > TINY:
                total_log = np.nan
                break
            total_log += np.log(total)
            scale = 1.0 / total
            for k in range(K):
                here[k] *= scale
        log_z[s] = total_log
        if not np.isfinite(total_log):
            continue
        for t in range(count - 1, -1, -1):
            if t == count - 1:
                b[:] = 1.0
            else:
                times_matrix(v[t + 1], turned, b)
            scale = 1.0 / c[t]
            out = marginal[begin + t]
            for k in range(K):
                p = a[t, k] * b[k]
                out[k] += p
                v[t, k] = psi[t, k] * b[k] * scale
            if len(spread):
                for k in range(K):
                    p = a[t, k] * b[k]
                    spread[begin + t, k] += p * (1.0 - p)
        add_outer(a, v, count, pair)
        if len(spread):
            for t in range(count):
                for k in range(K):
                    a[t, k] *= a[t, k]
                    v[t, k] *= v[t, k]
            add_outer(a, v, count, squares)
