"""Probabilities of given labels along runs of neighbouring positions."""

from bayesfield.kernels.chains.passes import ChainArrays, Messages
from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, IntArray


@jit
def path_probabilities(
    chains: ChainArrays, m: Messages, first: IntArray, ptr: IntArray, labels: IntArray, out: FloatArray
) -> None:
    """out[n] = p(y_t = labels[ptr[n]], y_{t+1} = labels[ptr[n] + 1], …) from t = first[n], exactly.

    Between its ends a path takes what the passes take: a_t(i) Π M(i, j) ψ_{t+1}(j) / c_{t+1} · b(last).
    """
    for n in range(len(first)):
        t, here = first[n], labels[ptr[n]]
        value = m.a[t, here]
        for e in range(ptr[n] + 1, ptr[n + 1]):
            there = labels[e]
            value *= m.M[chains.which[t], here, there] * m.psi[t + 1, there] / m.c[t + 1]
            t, here = t + 1, there
        out[n] = value * m.b[t, here]
