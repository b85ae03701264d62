"""Labels of new sequences by a chain CRF's posterior (section 5 of the paper).

With draws λ_s of the posterior: *marginal* averages the marginals p(y_t | x, λ_s) and takes the likeliest label of each
position, which makes the fewest errors if the posterior is right; *vote* counts the labels of the draws' best
labellings; *weighted_vote* counts each labelling by its probability p(y_s | x, λ_s); *supergraph* ties copies of
the field at all draws together (prediction.supergraph); *quadratic* integrates the parameters out to second order
(prediction.quadratic). *map* plugs the mode in.

How sure: the entropy of the averaged marginal is what is not known of a label. The mean entropy of the draws'
marginals is the part that the data leave open even if the parameters were known; the rest, their mutual information, is
the part that more training data would settle.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bayesfield.inference.chain import best_labellings, chain_marginals
from bayesfield.kernels.chain import ChainArrays
from bayesfield.learning.conditional import potentials
from bayesfield.model.conditional import CRF, Sequences
from bayesfield.posterior import Posterior
from bayesfield.prediction.quadratic import quadratic_labels
from bayesfield.prediction.supergraph import supergraph_labels
from bayesfield.types import FloatArray, IntArray, InvalidInput, Outcome, Status

_EXACT = Status(Outcome.EXACT)
METHODS = ("map", "marginal", "vote", "weighted_vote", "supergraph", "quadratic")


@dataclass(frozen=True, eq=False)
class Prediction:
    """Labels of P positions, end to end.

    labels: (P,) numbers of the labels. probabilities: (P, K): averaged marginals, or shares of votes. entropy: (P,) of
    the averaged marginals, in nats; open: (P,) the part that known parameters would leave; unsettled: (P,) the rest,
    which is due to the parameters. disagreement: (P,) share of the draws whose best labelling has another label there.
    status: of loopy max-product, where that chose the labels.
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


def predict_sequences(
    crf: CRF,
    posterior: Posterior,
    data: Sequences,
    method: str = "marginal",
    draws: int = 100,
    rng: np.random.Generator | int | None = 0,
    tie: float = float("inf"),
    distance: int | None = 1,
) -> Prediction:
    """Labels of all positions.

    draws: of the parameters, for all but "map". tie: strength of the super-graph's ties. distance: of the labels whose
    couplings the quadratic correction keeps; None for all.
    """
    if method not in METHODS:
        raise InvalidInput(f"method is one of {', '.join(METHODS)}; got {method!r}")
    if draws < 1:
        raise InvalidInput(f"draws must be above zero; got {draws}")
    if method == "map":
        return _plugged_in(crf, data, posterior.mode)
    tally = _Tally(data.positions, len(crf.labels))
    chains, copies = ChainArrays(data.ptr, data.which), []
    for node, edge in _drawn_potentials(crf, posterior, data, draws, rng):
        tally.add(chains, node, edge)
        if method == "supergraph":
            copies.append((node, edge))
    if method == "quadratic":
        return tally.prediction("marginal", quadratic_labels(crf, posterior, data, distance))
    if method != "supergraph":
        return tally.prediction(method)
    labels, status = supergraph_labels(chains, [n for n, _ in copies], [e for _, e in copies], tie)
    return tally.prediction("marginal", labels, status)


def _drawn_potentials(
    crf: CRF, posterior: Posterior, data: Sequences, draws: int, rng: np.random.Generator | int | None
) -> Iterator[tuple[FloatArray, FloatArray]]:
    for parameters in posterior.sample(draws, rng):
        yield potentials(crf, data, parameters)


def _plugged_in(crf: CRF, data: Sequences, parameters: FloatArray) -> Prediction:
    chains = ChainArrays(data.ptr, data.which)
    node, edge = potentials(crf, data, parameters)
    labels, _ = best_labellings(chains, node, edge)
    marginal = chain_marginals(chains, node, edge).marginal
    entropy = _entropy(marginal)
    return Prediction(labels[0], marginal, entropy, entropy, np.zeros(len(entropy)))


class _Tally:
    """Sums over draws of the parameters."""

    def __init__(self, positions: int, labels: int) -> None:
        self._count = 0
        self._marginal = np.zeros((positions, labels))
        self._votes = np.zeros((positions, labels))
        self._weighted = np.zeros((positions, labels))
        self._entropy = np.zeros(positions)

    def add(self, chains: ChainArrays, node: FloatArray, edge: FloatArray) -> None:
        found = chain_marginals(chains, node, edge)
        labels, scores = best_labellings(chains, node, edge)
        rows = np.arange(len(node))
        weight = np.exp(scores[:, 0] - found.log_z)  # p(y_s | x, λ_s) of every sequence
        self._votes[rows, labels[0]] += 1.0
        self._weighted[rows, labels[0]] += np.repeat(weight, np.diff(chains.ptr))
        self._marginal += found.marginal
        self._entropy += _entropy(found.marginal)
        self._count += 1

    def prediction(self, method: str, labels: IntArray | None = None, status: Status = _EXACT) -> Prediction:
        """labels: instead of those with the largest share."""
        mean = self._marginal / self._count
        votes = self._votes / self._count
        total = self._weighted.sum(axis=1, keepdims=True)
        weighted = np.where(total > 0, self._weighted / np.where(total > 0, total, 1.0), votes)
        shares = {"marginal": mean, "vote": votes, "weighted_vote": weighted}[method]
        chosen = shares.argmax(axis=1) if labels is None else labels
        disagreement = 1.0 - votes[np.arange(len(chosen)), chosen]
        return Prediction(chosen, shares, _entropy(mean), self._entropy / self._count, disagreement, status)


def _entropy(p: FloatArray) -> FloatArray:
    result: FloatArray = -np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0), axis=1)
    return result
