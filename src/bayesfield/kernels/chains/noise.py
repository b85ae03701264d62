"""Noise of log-potentials whose weights are independent normals, drawn anew for each sequence.

E log Z_n of a sequence needs the distribution of its own potentials only. So each sequence may have weights of its own:
over a corpus that is thousands of draws of every frequent weight, where one draw of all weights is one. Within a
sequence a weight is the same wherever it occurs. No draw is stored: it is a hash of the sequence, the weight and a
seed, looked up among the quantiles of the normal distribution.
"""

import numpy as np

from bayesfield.kernels.chains.inputs import Entries
from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, IntArray

BITS = 14  # of the hash that choose the quantile


@jit
def _hash(key: int, salt: int) -> int:
    """The top bits of a mixed word (the finaliser of splitmix64)."""
    z = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((z ^ (z >> np.uint64(31))) >> np.uint64(64 - BITS))  # type: ignore[return-value]


@jit
def potentials_noise(
    entries: Entries,
    ptr: IntArray,
    sd: FloatArray,
    table: FloatArray,
    seed: int,
    quantiles: FloatArray,
    first: int,
    last: int,
    out: FloatArray,
) -> None:
    """out[t, k] = Σ x sd ε over what position t has of label k, for the sequences first … last; out (P, K).

    sd: (F,) of the weights one by one; table: (R, K) of those in rows. ε: standard normal, by sequence and weight.
    """
    K, stored = out.shape[1], len(entries.wide_value) + len(entries.few_value) > 0
    rows = len(table) * K
    for s in range(first, last):
        salt = _hash(s + 1, seed * 7919 + 13) + (s + 1) * 1000003 + seed * 10000019
        for t in range(ptr[s], ptr[s + 1]):
            row = out[t]
            for k in range(K):
                row[k] = 0.0
            for e in range(entries.wide_ptr[t], entries.wide_ptr[t + 1]):
                r = entries.wide[e]
                x = entries.wide_value[e] if stored else 1.0
                for k in range(K):
                    row[k] += x * table[r, k] * quantiles[_hash(r * K + k, salt)]
            for e in range(entries.few_ptr[t], entries.few_ptr[t + 1]):
                x, j = entries.few_value[e] if stored else 1.0, entries.few[e]
                row[entries.few_label[e]] += x * sd[j] * quantiles[_hash(rows + j, salt)]
