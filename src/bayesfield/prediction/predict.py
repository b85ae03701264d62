"""Labels of new data by a CRF's posterior: sequences or graphs, by what they look like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bayesfield.model.graphs import Graphs
from bayesfield.prediction.chain import predict_sequences
from bayesfield.prediction.graph import predict_graphs

if TYPE_CHECKING:
    from bayesfield.learning.baselines.max_margin import MaxMargin
    from bayesfield.posterior.posterior import Posterior
    from bayesfield.prediction.tally import Prediction


def predict(posterior: Posterior | MaxMargin, X: Sequence[Any] | Any, **options: Any) -> Prediction:
    """Labels of sequences or of graphs, over the posterior's own model.

    X: as in ``bf.fit_sequences``, or as in ``bf.fit_graphs``: tuples (node_features, edges, …). options: those of
    ``bf.predict_sequences`` and ``bf.predict_graphs``: predictor, n_draws, rng, y, ….
    """
    graphs = isinstance(X, Graphs) or (isinstance(X, Sequence) and len(X) > 0 and isinstance(X[0], tuple))
    return predict_graphs(posterior, X, **options) if graphs else predict_sequences(posterior, X, **options)
