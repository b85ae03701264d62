"""Spans of new sequences, each with the probability that it is there as a whole, averaged over the posterior.

The probability of a span is a sum of probabilities of labels along runs of positions, which two passes give exactly:
the product of the tokens' marginals, which knows nothing of how labels go together, is not needed.

Which spans? Those that the predicted labels mark, or those of the largest expected F1. With TP the chosen spans that
are there, F1 = 2 TP / (chosen + all that are there), whose expectation is taken as 2 Σ p / (chosen + E[all]): the ratio
of the expectations, which differ by terms of the order of one over the number of spans. The maximum over sets of spans
that do not overlap is found by Dinkelbach's iteration: for a value F the best set has the largest Σ (p − F / 2), by
dynamic programming, and its own value is the next F; it rises until it stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesfield.inference.trees.chain import ChainMarginals
from bayesfield.kernels.chains import spans as kernel
from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.kernels.chains.spans import Marks
from bayesfield.learning.phases.chain import ChainPhase
from bayesfield.model.conditional import CRF, Sequences, as_sequences
from bayesfield.prediction.chain import marginals_of_draws, predict_sequences
from bayesfield.prediction.spans.schemes import Scheme
from bayesfield.prediction.tally import checked, resolved
from bayesfield.types import FloatArray, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.posterior.posterior import Posterior

LEAST = 1e-3  # the probability, in some draw, from which a span may be chosen
_LOOKED_AT = 8  # draws in which candidates are sought
_ITERATIONS = 50  # of Dinkelbach's, which takes about five


class Span(NamedTuple):
    """Positions first … end − 1 of a sequence, its type, and the probability that it is there as a whole."""

    first: int
    end: int
    label: str
    probability: float


def predict_spans(
    posterior: Posterior,
    X: Sequence[Any] | Sequences,
    predictor: str = "auto",
    decode: str = "labels",
    threshold: float | None = None,
    n_draws: int = 100,
    rng: np.random.Generator | int | None = 0,
) -> list[list[Span]]:
    """The spans of each sequence, in order. X, predictor, n_draws: as in ``bf.predict_sequences``; probabilities are
    averaged over as many draws, or those of the mode with "map".

    decode: "labels" takes the spans that the predicted labels mark; "f1" those of the largest expected F1 over all of
    these sequences together. threshold: with "f1", of the probability that a span needs instead, for sequences that
    come one at a time.
    """
    predictor = resolved(posterior, predictor, chains=True)
    posterior = checked(posterior, predictor, n_draws)
    crf: Any = posterior.field
    data = X if isinstance(X, Sequences) else as_sequences(crf, X)
    draws = 0 if predictor == "map" else n_draws
    check_decoding(decode, threshold)
    if decode == "f1":
        return best_spans(posterior, data, draws, rng, threshold)
    labels = predict_sequences(posterior, data, predictor, n_draws, rng).labels
    return spans_of_labels(posterior, data, labels, draws, rng)


def check_decoding(decode: str, threshold: float | None) -> None:
    if decode not in ("labels", "f1"):
        raise InvalidInput(f'decode is "labels" or "f1"; got {decode!r}')
    if threshold is not None and (decode != "f1" or not LEAST <= threshold <= 1.0):
        raise InvalidInput(f'threshold goes with decode="f1" and lies between {LEAST:g} and 1; got {threshold}')


def spans_of_labels(
    posterior: Posterior,
    data: Sequences,
    labels: IntArray,
    n_draws: int,
    rng: np.random.Generator | int | None = 0,
) -> list[list[Span]]:
    """The spans that these labels (P,) mark, with their probabilities; n_draws: 0 for those of the mode."""
    crf, scheme = _required(posterior)
    bounds, number = list(zip(data.ptr[:-1].tolist(), data.ptr[1:].tolist(), strict=True)), _numbers(scheme)
    rows = [
        (s, a + first, a + end, number[kind])
        for s, (a, b) in enumerate(bounds)
        for first, end, kind in scheme.spans([crf.visible[k] for k in labels[a:b]])
    ]
    places = np.array(rows, dtype=np.int64).reshape(-1, 4)
    averaged = _averaged(ChainPhase(crf, data), posterior, scheme.marks(), places, n_draws, rng)
    return _listed(data, scheme, places, averaged.probability)


def best_spans(
    posterior: Posterior,
    data: Sequences,
    n_draws: int,
    rng: np.random.Generator | int | None = 0,
    threshold: float | None = None,
) -> list[list[Span]]:
    """The spans of the largest expected F1, or those of the largest Σ (p − threshold)."""
    crf, scheme = _required(posterior)
    phase, marks = ChainPhase(crf, data), scheme.marks()
    looked_at = [
        _candidates(phase.chains, _finite(marginals), marks)
        for marginals in marginals_of_draws(phase, posterior, min(n_draws, _LOOKED_AT), rng)
    ]
    places = np.unique(np.concatenate(looked_at), axis=0)
    places = places[np.lexsort((places[:, 3], places[:, 1], places[:, 2]))]  # by their ends
    averaged = _averaged(phase, posterior, marks, places, n_draws, rng)
    if threshold is None:
        chosen = _most_expected(places, averaged, data.positions)
    else:
        chosen = _disjoint(places, averaged.probability - threshold, data.positions)
    return _listed(data, scheme, places[chosen], averaged.probability[chosen])


class _Averaged(NamedTuple):
    """probability: of each span, (N,). number: the expected number of all spans."""

    probability: FloatArray
    number: float


def _averaged(
    phase: ChainPhase,
    posterior: Posterior,
    marks: Marks,
    places: IntArray,
    n_draws: int,
    rng: np.random.Generator | int | None,
) -> _Averaged:
    """places: (N, 4) sequence, first, end, and number of the type."""
    sequence, first, end, kind = np.ascontiguousarray(places.T)
    each, total, number, count = np.empty(len(places)), np.zeros(len(places)), 0.0, 0
    for marginals in marginals_of_draws(phase, posterior, n_draws, rng):
        messages = _finite(marginals).messages
        kernel.span_probabilities(phase.chains, messages, marks, sequence, first, end, kind, each)
        total += np.minimum(each, 1.0)
        number += kernel.expected_spans(phase.chains, messages, marks)
        count += 1
    return _Averaged(total / max(count, 1), number / max(count, 1))


def _candidates(chains: ChainArrays, marginals: ChainMarginals, marks: Marks) -> IntArray:
    room = np.empty((4 * len(marginals.marginal) + 16, 4), dtype=np.int64)
    count = kernel.likely_spans(chains, marginals.messages, marks, LEAST, room)
    if count > len(room):
        room = np.empty((count, 4), dtype=np.int64)
        kernel.likely_spans(chains, marginals.messages, marks, LEAST, room)
    return room[:count]


def _most_expected(places: IntArray, averaged: _Averaged, positions: int) -> IntArray:
    """Which spans: the maximum of 2 Σ p / (chosen + expected number) over sets that do not overlap."""
    value, chosen = 0.0, np.empty(0, dtype=np.int64)
    for _ in range(_ITERATIONS):
        best = _disjoint(places, averaged.probability - value / 2, positions)
        reached = 2 * float(averaged.probability[best].sum()) / max(len(best) + averaged.number, 1e-300)
        if not reached > value:
            break
        value, chosen = reached, best
    return chosen


def _disjoint(places: IntArray, gain: FloatArray, positions: int) -> IntArray:
    chosen = np.zeros(len(places), dtype=np.bool_)
    first, end = np.ascontiguousarray(places[:, 1]), np.ascontiguousarray(places[:, 2])
    kernel.best_disjoint(first, end, gain, positions, chosen)
    return np.flatnonzero(chosen)


def _required(posterior: Posterior) -> tuple[CRF, Scheme]:
    crf: Any = posterior.field
    if len(crf.visible) < len(crf.labels):
        raise InvalidInput("spans are for chains of visible labels; fit with latent=1")
    return crf, Scheme(crf.visible)


def _finite(marginals: ChainMarginals) -> ChainMarginals:
    if not marginals.finite:
        raise InvalidInput(
            "spans need log-potentials that differ by less than 700 along a sequence, and these do not: bring inputs "
            "that are large numbers to a scale of about one"
        )
    return marginals


def _numbers(scheme: Scheme) -> dict[str, int]:
    return {kind: k for k, kind in enumerate(scheme.kinds)}


def _listed(data: Sequences, scheme: Scheme, places: IntArray, probability: FloatArray) -> list[list[Span]]:
    found: list[list[Span]] = [[] for _ in range(len(data))]
    for (s, first, end, kind), p in zip(places.tolist(), probability.tolist(), strict=True):
        begin = int(data.ptr[s])
        found[s].append(Span(first - begin, end - begin, scheme.kinds[kind], p))
    return [sorted(spans) for spans in found]
