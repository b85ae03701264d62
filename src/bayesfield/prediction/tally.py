"""What a prediction is, and the sums over draws of the parameters that it comes from (section 5 of the paper).

With draws λ_s of the posterior: *marginal* averages the marginals p(y_t | x, λ_s) and takes the likeliest label of each
position, which makes the fewest errors if the posterior is right; *sequence* takes the best labelling of each sequence
as a whole, under the same averages (prediction.whole); *vote* counts the labels of the draws' best
labellings; *weighted_vote* counts each labelling by its probability p(y_s | x, λ_s); *supergraph* ties copies of
the field at all draws together (prediction.supergraph); *quadratic* integrates the parameters out to second order
(prediction.quadratic). *map* plugs the mode in.

How sure: the entropy of the averaged marginal is what is not known of a label. The mean entropy of the draws'
marginals is the part that the data leave open even if the parameters were known; the rest, their mutual information, is
the part that more training data would settle.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesfield.learning.baselines.max_margin import MaxMargin
from bayesfield.model.conditional import CRF
from bayesfield.posterior.posterior import Posterior
from bayesfield.prediction.spans.schemes import marks_spans
from bayesfield.types import FloatArray, IntArray, InvalidInput, Outcome, Status

PREDICTORS = ("map", "marginal", "sequence", "vote", "weighted_vote", "supergraph", "quadratic")
_EXACT = Status(Outcome.EXACT)


@dataclass(frozen=True, eq=False)
class Prediction:
    """Labels of P positions, end to end.

    labels: (P,) numbers of the labels. probabilities: (P, K): averaged marginals, or shares of votes. entropy: (P,) of
    the averaged marginals, in nats; open: (P,) the part that known parameters would leave; unsettled: (P,) the rest,
    which is due to the parameters. disagreement: (P,) share of the draws whose best labelling has another label there.
    status: of inference, where it is not exact, and of loopy max-product, where that chose the labels.
    """

    labels: IntArray
    probabilities: FloatArray
    entropy: FloatArray
    open: FloatArray
    disagreement: FloatArray
    status: Status = _EXACT

    @property
    def unsettled(self) -> FloatArray:
        result: FloatArray = np.maximum(self.entropy - self.open, 0.0)
        return result


class Tally:
    """Sums over draws of the parameters. pairs: (P, K, K) of the probabilities of neighbouring states, or None."""

    def __init__(self, positions: int, labels: int, states: int = 0) -> None:
        """states: where pairs of them are summed, too."""
        self.pairs = np.zeros((positions, states, states)) if states else None
        self._count = 0
        self._marginal = np.zeros((positions, labels))
        self._votes = np.zeros((positions, labels))
        self._weighted = np.zeros((positions, labels))
        self._entropy = np.zeros(positions)

    @property
    def marginal(self) -> FloatArray:
        return self._marginal

    def add(self, marginal: FloatArray, labels: IntArray, weight: FloatArray) -> None:
        """Of one draw: marginals (P, K), the best labelling (P,), and its probability, for every position (P,)."""
        rows = np.arange(len(labels))
        self._votes[rows, labels] += 1.0
        self._weighted[rows, labels] += weight
        self._marginal += marginal
        self._entropy += entropy_of(marginal)
        self._count += 1

    def prediction(self, predictor: str, labels: IntArray | None = None, status: Status = _EXACT) -> Prediction:
        """labels: instead of those with the largest share."""
        mean = self._marginal / self._count
        votes = self._votes / self._count
        total = self._weighted.sum(axis=1, keepdims=True)
        weighted = np.where(total > 0, self._weighted / np.where(total > 0, total, 1.0), votes)
        shares = {"vote": votes, "weighted_vote": weighted}.get(predictor, mean)
        chosen = shares.argmax(axis=1) if labels is None else labels
        disagreement = 1.0 - votes[np.arange(len(chosen)), chosen]
        return Prediction(chosen, shares, entropy_of(mean), self._entropy / self._count, disagreement, status)


def plugged_in(labels: IntArray, marginal: FloatArray, status: Status = _EXACT) -> Prediction:
    """What one set of parameters says: nothing is due to them."""
    entropy = entropy_of(marginal)
    return Prediction(labels, marginal, entropy, entropy, np.zeros(len(entropy)), status)


def joined(parts: Iterable[Prediction], labels: int) -> Prediction:
    """Predictions end to end; the status is the worst."""
    every = [plugged_in(np.empty(0, dtype=np.int64), np.empty((0, labels))), *parts]
    arrays = ("labels", "probabilities", "entropy", "open", "disagreement")
    both: dict[str, Any] = {name: np.concatenate([getattr(p, name) for p in every]) for name in arrays}
    status = next((p.status for p in every if not p.status.converged), every[-1].status)
    return Prediction(**both, status=status)


def checked(posterior: Any, predictor: str, n_draws: int) -> Posterior:
    """The request, if it makes sense. A point estimate plugs in, and has nothing to average over."""
    if predictor not in PREDICTORS:
        raise InvalidInput(f"predictor is one of auto, {', '.join(PREDICTORS)}; got {predictor!r}")
    if n_draws < 1:
        raise InvalidInput(f"n_draws must be above zero; got {n_draws}")
    if isinstance(posterior, MaxMargin):
        if predictor != "map":
            raise InvalidInput(
                "max-margin weights are a point, with no posterior to average over: take "
                f'predictor="map", not {predictor!r}'
            )
        return posterior  # type: ignore[return-value]
    if not isinstance(posterior, Posterior) or not isinstance(posterior.field, CRF):
        kind = posterior.field if isinstance(posterior, Posterior) else type(posterior).__name__
        raise InvalidInput(
            "predictions take a posterior of a CRF, as bf.fit_sequences or bf.fit_graphs returns it, and the data; "
            f"the model is the posterior's own; got {kind!r}"
        )
    if predictor == "quadratic" and posterior.temperature != 1.0:
        raise InvalidInput(
            "the quadratic correction integrates over the posterior itself: take posterior.at_temperature(1), or "
            "another predictor"
        )
    return posterior


def resolved(posterior: Any, predictor: str, chains: bool) -> str:
    """The predictor that "auto" stands for: whole labellings of chains whose labels mark spans, since a span is right
    where all of its labels are; else labels one by one; of a point estimate its own. chains: and not graphs."""
    if predictor != "auto":
        return predictor
    if isinstance(posterior, MaxMargin):
        return "map"
    field = getattr(posterior, "field", None)
    return "sequence" if chains and isinstance(field, CRF) and marks_spans(field.visible) else "marginal"


def entropy_of(p: FloatArray) -> FloatArray:
    """Of every row, in nats."""
    result: FloatArray = -np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0), axis=1)
    return result
