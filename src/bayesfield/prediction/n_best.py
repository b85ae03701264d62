"""The best labellings of a sequence, with the probability that the posterior gives to each as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesfield import parallel
from bayesfield.inference.trees.chain import best_labellings, chain_log_z
from bayesfield.learning.phases.chain import ChainPhase, labels_energy
from bayesfield.model.conditional import Sequences, as_sequences
from bayesfield.prediction.chain import drawn_potentials
from bayesfield.prediction.tally import checked
from bayesfield.types import IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.posterior.posterior import Posterior

_MOST = 32  # draws of potentials: probabilities of whole labellings differ more from draw to draw than marginals


class Labelling(NamedTuple):
    """labels: (T,) numbers. probability: of all of them together, averaged over the posterior."""

    labels: IntArray
    probability: float


def n_best_sequences(
    posterior: Posterior,
    X: Sequence[Any] | Sequences,
    count: int = 5,
    n_draws: int = 100,
    rng: np.random.Generator | int | None = 0,
    Z: Sequence[Any] | None = None,
) -> list[list[Labelling]]:
    """For each sequence the ``count`` best labellings at the posterior's mean, or all there are; likeliest first.

    Their probabilities are averages of p(y | x, λ) over draws of λ, and may order them anew; of a mean-field posterior
    the potentials are drawn, 32 times at most, and not all weights. X, Z: as in ``bf.fit_sequences``.
    """
    crf: Any = checked(posterior, "marginal", n_draws).field
    data = X if isinstance(X, Sequences) else as_sequences(crf, X, None, Z)
    if len(crf.visible) < len(crf.labels):
        raise InvalidInput("the best labellings are listed where no states are latent")
    if count < 1:
        raise InvalidInput(f"count is above zero; got {count}")
    phase = ChainPhase(crf, data)
    labels, scores = best_labellings(phase.chains, *phase.potentials(posterior.predictive_moments[0]), count)
    mean, draws = np.zeros((count, len(data))), 0
    for node, edge in drawn_potentials(phase, posterior, n_draws, rng, _MOST):
        log_z, draws = chain_log_z(phase.chains, node, edge), draws + 1
        mean += np.exp(np.minimum([labels_energy(data, own, node, edge) - log_z for own in labels], 0.0))
    mean /= draws
    found = []
    for s, (begin, end) in enumerate(parallel.spans(data.ptr.tolist())):
        there = [r for r in range(count) if scores[s, r] > -np.inf and (end > begin or r == 0)]
        ranked = sorted(there, key=lambda r: -mean[r, s])
        found.append([Labelling(labels[r, begin:end], float(mean[r, s])) for r in ranked])
    return found
