"""A chain CRF with sklearn-crfsuite's inputs and outputs, and the posterior of its weights behind them."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from bayesfield import parallel
from bayesfield.formats.crfsuite import inputs_of, vocabulary
from bayesfield.model import Normal
from bayesfield.model.conditional import CRF, Sequences, as_sequences
from bayesfield.posterior import Posterior
from bayesfield.posterior.conditional import fit_sequences
from bayesfield.prediction import Prediction, predict_sequences
from bayesfield.types import InvalidInput


class BayesianCRF(BaseEstimator):  # type: ignore[misc]
    """A linear-chain conditional random field that says how sure it is.

    Use it as sklearn_crfsuite.CRF: X is a list of sequences of items, an item a dict of attributes or a list of them; y
    a list of sequences of labels.

    variance: of the Gaussian prior of every weight; crfsuite's c2 is 1 / (2 variance). method, correction: how the
    posterior is found, as in ``bf.fit``. predictor: "marginal" (averages over the posterior), "map", "vote",
    "weighted_vote" or "supergraph". draws: of the weights, to average over. max_iterations: of the search for the mode.
    random_state: an int, the seed of all draws.

    After ``fit``: posterior_ (bf.Posterior), classes_, attributes_, n_iter_.
    """

    def __init__(
        self,
        variance: float = 1.0,
        *,
        method: str = "auto",
        correction: str = "auto",
        predictor: str = "marginal",
        draws: int = 100,
        max_iterations: int = 500,
        random_state: int | None = 0,
    ) -> None:
        self.variance = variance
        self.method = method
        self.correction = correction
        self.predictor = predictor
        self.draws = draws
        self.max_iterations = max_iterations
        self.random_state = random_state

    def fit(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> Self:
        """The posterior of the weights, given labelled sequences."""
        X, y = _listed(X, "X"), _listed(y, "y")
        if not any(len(labels) for labels in y):
            raise InvalidInput("there is nothing to learn from: no sequence has a label")
        labels = sorted({label for sequence in y for label in sequence}, key=_order)
        self._known = vocabulary(X)
        self.attributes_ = list(self._known)
        self.crf_ = CRF(labels, self.attributes_)
        self.classes_ = list(self.crf_.labels)
        self.posterior_: Posterior = fit_sequences(
            self.crf_,
            self._data(X, y),
            prior=Normal(variance=self.variance),
            method=self.method,
            correction=self.correction,
            max_iterations=self.max_iterations,
            rng=self.random_state,
        )
        self.n_iter_ = len(self.posterior_.record.iterations)
        return self

    def predict(self, X: Sequence[Any]) -> list[list[Any]]:
        """The labels of each sequence."""
        found, data = self._predicted(X)
        return [[self.classes_[k] for k in found.labels[own]] for own in _slices(data)]

    def predict_single(self, xseq: Sequence[Any]) -> list[Any]:
        """The labels of one sequence."""
        return self.predict([xseq])[0]

    def predict_marginals(self, X: Sequence[Any]) -> list[list[dict[Any, float]]]:
        """For each position the probability of every label."""
        found, data = self._predicted(X)
        rows = [dict(zip(self.classes_, p, strict=True)) for p in found.probabilities.tolist()]
        return [rows[own] for own in _slices(data)]

    def predict_marginals_single(self, xseq: Sequence[Any]) -> list[dict[Any, float]]:
        """The same for one sequence."""
        return self.predict_marginals([xseq])[0]

    def uncertainty(self, X: Sequence[Any]) -> list[pd.DataFrame]:
        """For each sequence a row a position: the label, its probability, and where the doubt comes from.

        entropy: of the averaged probabilities, in nats; open: what known weights would leave of it; unsettled: the
        rest, which more training data would settle. disagreement: share of the drawn weights that choose another label.
        """
        found, data = self._predicted(X)
        table = pd.DataFrame(
            {
                "label": [self.classes_[k] for k in found.labels],
                "probability": found.probabilities[np.arange(len(found.labels)), found.labels],
                "entropy": found.entropy,
                "open": found.open,
                "unsettled": found.unsettled,
                "disagreement": found.disagreement,
            }
        )
        return [table.iloc[own].reset_index(drop=True) for own in _slices(data)]

    def score(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> float:
        """The share of labels that are right."""
        predicted = [label for labels in self.predict(X) for label in labels]
        wanted = [label for labels in y for label in labels]
        if len(predicted) != len(wanted):
            raise InvalidInput(f"X has {len(predicted)} positions and y {len(wanted)} labels")
        return float(np.mean([a == b for a, b in zip(predicted, wanted, strict=True)])) if wanted else float("nan")

    @property
    def state_features_(self) -> dict[tuple[str, Any], float]:
        """Posterior mean of the weight of every attribute and label."""
        W, _ = self.crf_.split(self.posterior_.mean)
        return {
            (name, label): float(W[d, k])
            for d, name in enumerate(self.attributes_)
            for k, label in enumerate(self.classes_)
        }

    @property
    def transition_features_(self) -> dict[tuple[Any, Any], float]:
        """Posterior mean of the weight of every pair of labels."""
        _, V = self.crf_.split(self.posterior_.mean)
        pairs = [(a, b) for a in self.classes_ for b in self.classes_]
        return dict(zip(pairs, V[0].tolist(), strict=True))

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """A row for each weight: mean, sd, interval, P(> 0)."""
        check_is_fitted(self, "posterior_")
        return self.posterior_.summary(level)

    def _predicted(self, X: Sequence[Any]) -> tuple[Prediction, Sequences]:
        check_is_fitted(self, "posterior_")
        data = self._data(_listed(X, "X"))
        found = predict_sequences(
            self.crf_, self.posterior_, data, self.predictor, self.draws, np.random.default_rng(self.random_state)
        )
        return found, data

    def _data(self, X: Sequence[Any], y: Sequence[Any] | None = None) -> Sequences:
        return as_sequences(self.crf_, [inputs_of(sequence, self._known) for sequence in X], y)


def _slices(data: Sequences) -> list[slice]:
    return [slice(a, b) for a, b in parallel.spans(data.ptr.tolist())]


def _listed(sequences: Any, what: str) -> Any:
    if isinstance(sequences, str | dict) or not hasattr(sequences, "__len__"):
        raise InvalidInput(f"{what} is a list of sequences, each a list with an entry for every position")
    for k, one in enumerate(sequences):
        if isinstance(one, str | dict) or not hasattr(one, "__len__"):
            raise InvalidInput(
                f"{what}[{k}] is no sequence but {type(one).__name__}; for a single sequence give [{what}], or use "
                "predict_single"
            )
    return sequences


def _order(label: Any) -> tuple[str, Any]:
    return type(label).__name__, label
