"""The best labelling of each sequence as a whole, averaged over the posterior.

An average of chains, p̄(y) = E_λ[p(y | x, λ)], is no chain, and its best labelling is out of reach. The chain that is
nearest to it, in Kullback-Leibler divergence from p̄, has the same marginals of neighbours:

    q(y) = Π_t p̄(y_t, y_{t+1}) / Π_{0 < t < T−1} p̄(y_t)

Its best labelling is what *sequence* takes; of one set of weights that is the best labelling itself. Labels that are
chosen one by one, each the likeliest, may contradict one another: an inside without a beginning ends a span too early.
"""

from __future__ import annotations

import numpy as np

from bayesfield.kernels.chains.pairs import best_of_pairs
from bayesfield.model.conditional import Sequences
from bayesfield.types import FloatArray, IntArray


def whole_labels(data: Sequences, marginal: FloatArray, pairs: FloatArray) -> IntArray:
    """argmax q, (P,), from sums over draws of marginals (P, K) and of pairs of neighbours (P, K, K), each under its
    first position."""
    labels = np.zeros(data.positions, dtype=np.int64)
    best_of_pairs(data.ptr, marginal, pairs, labels)
    return labels


def visible_pairs(pairs: FloatArray, labels: int) -> FloatArray:
    """Of pairs of visible labels, (P, K, K), from those of the states behind them."""
    states = pairs.shape[1]
    if states == labels:
        return pairs
    result: FloatArray = pairs.reshape(len(pairs), labels, states // labels, labels, -1).sum(axis=(2, 4))
    return result
