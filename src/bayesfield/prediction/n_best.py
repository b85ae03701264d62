"""The best labellings of a sequence, with the probability that the posterior gives to each as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesfield import parallel
from bayesfield.inference.trees.chain import best_labellings, chain_marginals
from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.learning.phases.chain import labels_energy
from bayesfield.learning.phases.crf_design import potentials
from bayesfield.model.conditional import Sequences, as_sequences
from bayesfield.prediction.tally import checked
from bayesfield.types import IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.posterior.posterior import Posterior


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

    Their probabilities are averages of p(y | x, λ) over draws of λ, and may order them anew. X, Z: as in
    ``bf.fit_sequences``.
    """
    crf: Any = checked(posterior, "marginal", n_draws).field
    data = X if isinstance(X, Sequences) else as_sequences(crf, X, None, Z)
    if len(crf.visible) < len(crf.labels):
        raise InvalidInput("the best labellings are listed where no states are latent")
    if count < 1:
        raise InvalidInput(f"count is above zero; got {count}")
    chains = ChainArrays(data.ptr, data.which)
    labels, scores = best_labellings(chains, *potentials(crf, data, posterior.predictive_moments[0]), count)
    mean = np.zeros((count, len(data)))
    points = posterior.sample_predictive(n_draws, rng)
    for parameters in points:
        node, edge = potentials(crf, data, parameters)
        log_z = chain_marginals(chains, node, edge).log_z
        mean += np.exp([labels_energy(data, own, node, edge) - log_z for own in labels]) / len(points)
    found = []
    for s, (begin, end) in enumerate(parallel.spans(data.ptr.tolist())):
        there = [r for r in range(count) if scores[s, r] > -np.inf and (end > begin or r == 0)]
        ranked = sorted(there, key=lambda r: -mean[r, s])
        found.append([Labelling(labels[r, begin:end], float(mean[r, s])) for r in ranked])
    return found
