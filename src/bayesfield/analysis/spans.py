"""Predicted spans against the labels that are there: do their probabilities come true, and how many are right?"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from bayesfield.analysis.reliability import binned
from bayesfield.prediction.spans.predict import Span
from bayesfield.prediction.spans.schemes import Marked, Scheme
from bayesfield.types import BoolArray, InvalidInput


class SpanScores(NamedTuple):
    """Shares of all spans together, as conlleval counts them. precision: of the predicted ones that are there; recall:
    of those that are there that were predicted; f1: their harmonic mean. A share of nothing is NaN."""

    precision: float
    recall: float
    f1: float


def span_reliability(
    spans: Sequence[Sequence[Span]], y: Sequence[Sequence[Hashable]], *, bins: int = 10
) -> pd.DataFrame:
    """A row for each bin of predicted probability: cells (spans), predicted (mean), observed (share that is there),
    lower and upper (95 %).

    spans: as ``bf.predict_spans`` returns them. y: labels of the same sequences, which training has not seen.
    """
    if bins < 2:
        raise InvalidInput(f"bins are 2 or more; got {bins}")
    there = found_spans(spans, y)
    if not len(there):
        raise InvalidInput("there is nothing to compare: no span is predicted")
    predicted = np.array([span.probability for own in spans for span in own])
    return binned(predicted, there.astype(np.float64), bins)


def span_scores(spans: Sequence[Sequence[Span]], y: Sequence[Sequence[Hashable]]) -> SpanScores:
    """Precision, recall and F1. spans, y: as for ``bf.span_reliability``."""
    right, predicted, wanted = int(found_spans(spans, y).sum()), sum(map(len, spans)), sum(map(len, _marked(y)))
    return SpanScores(
        right / predicted if predicted else np.nan,
        right / wanted if wanted else np.nan,
        2 * right / (predicted + wanted) if predicted + wanted else np.nan,
    )


def found_spans(spans: Sequence[Sequence[Span]], y: Sequence[Sequence[Hashable]]) -> BoolArray:
    """Which of the spans, end to end, the labels y mark, too."""
    if len(spans) != len(y):
        raise InvalidInput(f"y has labels of the same sequences as spans; got {len(y)} and {len(spans)} of them")
    wanted = [set(own) for own in _marked(y)]
    hits = [Marked(*span[:3]) in own for given, own in zip(spans, wanted, strict=True) for span in given]
    return np.array(hits, dtype=np.bool_)


def _marked(y: Sequence[Sequence[Hashable]]) -> list[list[Marked]]:
    every = dict.fromkeys(label for labels in y for label in labels)
    if None in every:
        raise InvalidInput("y needs every label: None marks no span")
    scheme = Scheme(every)
    return [scheme.spans(labels) for labels in y]
