"""Scores of predicted labels, and the predictors that are compared by them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayesfield.diagnostics import calibration_error
from bayesfield.prediction.chain import predict_sequences
from bayesfield.types import FloatArray

if TYPE_CHECKING:
    from bayesfield.model.conditional import Sequences
    from bayesfield.prediction.tally import Prediction

DRAWS = 100
COPIES = 20  # of the super-graph
_LEAST = 1.0 / (2 * DRAWS)  # probability that a label has which no draw votes for


def scores(prediction: Prediction, truth: np.ndarray) -> dict[str, float]:
    """Share of wrong labels; mean −log of the probability given to the right one; calibration error."""
    chance = np.maximum(prediction.probabilities[np.arange(len(truth)), truth], _LEAST)
    return {
        "error": float(np.mean(prediction.labels != truth)),
        "log_loss": float(-np.log(chance).mean()),
        "calibration": calibration_error(prediction.probabilities, truth),
        "unsettled": float(prediction.unsettled.mean()),
    }


Predictor = tuple[str, dict[str, Any]]  # which posterior, and how to predict by it
PREDICTORS: dict[str, Predictor] = {
    "MAP": ("Laplace", {"predictor": "map"}),
    "marginal, Laplace": ("Laplace", {"predictor": "marginal"}),
    "marginal": ("corrected", {"predictor": "marginal"}),
    "vote": ("corrected", {"predictor": "vote"}),
    "weighted vote": ("corrected", {"predictor": "weighted_vote"}),
    "super-graph, hard ties": ("corrected", {"predictor": "supergraph", "n_draws": COPIES}),
    "super-graph, ties 1": ("corrected", {"predictor": "supergraph", "n_draws": COPIES, "tie": 1.0}),
    "quadratic": ("corrected", {"predictor": "quadratic"}),
    "max margin": ("max margin", {"predictor": "map"}),
}


def predicted(
    posteriors: Mapping[str, Callable[[], Any]], predictor: Predictor, test: Sequences
) -> tuple[Prediction, dict[str, Any]]:
    """A predictor's answer; seconds of the processor, for it and for its posterior, if that is new; how it ended."""
    begun = time.process_time()
    posterior = posteriors[predictor[0]]()
    fitted = time.process_time()
    prediction = predict_sequences(posterior, test, **predictor[1])
    seconds = {"seconds": round(time.process_time() - fitted, 3), "fit_seconds": round(fitted - begun, 3)}
    record = getattr(posterior, "record", posterior)  # max-margin weights have their status themselves
    return prediction, {**seconds, "converged": bool(record.status.converged and prediction.status.converged)}


def total_variation(one: FloatArray, other: FloatArray) -> float:
    """Mean over positions of half the sum of |p − q|."""
    return float(0.5 * np.abs(one - other).sum(axis=1).mean())


def score_table(table: pd.DataFrame, by: list[str], columns: Mapping[str, str]) -> pd.DataFrame:
    """Means over splits, as text. columns: name in the table, and how to write it."""
    rows = {}
    for name, own in table.groupby(by, sort=False):
        label = ", ".join(str(part) for part in (name if isinstance(name, tuple) else (name,)))
        rows[label] = {column: format(own[column].mean(), style) for column, style in columns.items()}
    return pd.DataFrame.from_dict(rows, orient="index")
