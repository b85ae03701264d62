"""Chains of labels that share one table of transitions: forward and backward passes in plain numbers.

The same quantities as ``passes`` (a, b, c, v there), with exponentials taken beforehand, all at once, and logs of
scales only when their product leaves the range of numbers. Sums over positions (marginals, pairs) are left to matrix
products.
"""

import numpy as np

from bayesfield.kernels.chains.passes import TINY
from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, IntArray


@jit
def forward(ptr: IntArray, psi: FloatArray, M: FloatArray, a: FloatArray, c: FloatArray, log_z: FloatArray) -> None:
    """a (P, K), c (P,), and log Z (S,) up to the exponents' own scales; NaN where plain numbers underflow."""
    K = psi.shape[1]
    T = np.ascontiguousarray(M.T)
    for s in range(len(ptr) - 1):
        log_z[s], scale = 0.0, 1.0
        for t in range(ptr[s], ptr[s + 1]):
            total = 0.0
            for j in range(K):
                x = 1.0
                if t > ptr[s]:
                    x = 0.0
                    for i in range(K):
                        x += a[t - 1, i] * T[j, i]
                x *= psi[t, j]
                a[t, j] = x
                total += x
            if not total > TINY:
                log_z[s] = np.nan
                break
            c[t] = total
            inverse = 1.0 / total
            for j in range(K):
                a[t, j] *= inverse
            scale *= total
            if not 1e-200 < scale < 1e200:
                log_z[s] += np.log(scale)
                scale = 1.0
        log_z[s] += np.log(scale)


@jit
def backward(ptr: IntArray, psi: FloatArray, M: FloatArray, c: FloatArray, b: FloatArray, v: FloatArray) -> None:
    """b and v (P, K) of sequences with a log Z."""
    K = psi.shape[1]
    for s in range(len(ptr) - 1):
        for t in range(ptr[s + 1] - 1, ptr[s] - 1, -1):
            inverse = 1.0 / c[t]
            for i in range(K):
                x = 1.0
                if t < ptr[s + 1] - 1:
                    x = 0.0
                    for j in range(K):
                        x += M[i, j] * v[t + 1, j]
                b[t, i] = x
                v[t, i] = psi[t, i] * x * inverse


@jit
def expected(ptr: IntArray, psi: FloatArray, M: FloatArray, a: FloatArray, c: FloatArray, moves: FloatArray) -> None:
    """After ``forward``: marginals in the place of psi, and the sums of pairs (K, K), less their factor M, in moves."""
    K = psi.shape[1]
    b, v = np.empty(K), np.empty(K)
    for s in range(len(ptr) - 1):
        for t in range(ptr[s + 1] - 1, ptr[s] - 1, -1):
            inverse = 1.0 / c[t]
            last = t == ptr[s + 1] - 1
            for i in range(K):
                x = 1.0
                if not last:
                    x = 0.0
                    for j in range(K):
                        x += M[i, j] * v[j]
                        moves[i, j] += a[t, i] * v[j]
                b[i] = x
            for i in range(K):
                v[i] = psi[t, i] * b[i] * inverse
                psi[t, i] = a[t, i] * b[i]
