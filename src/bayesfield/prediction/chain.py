"""Labels of new sequences by a chain CRF's posterior. Inference on chains is exact."""

import numpy as np

from bayesfield.inference.chain import best_labellings, chain_marginals
from bayesfield.kernels.chain import ChainArrays
from bayesfield.learning.conditional import pair_starts, potentials
from bayesfield.learning.max_margin import MaxMargin
from bayesfield.model.conditional import CRF, Sequences
from bayesfield.posterior import Posterior
from bayesfield.prediction.chain_quadratic import quadratic_labels
from bayesfield.prediction.supergraph import supergraph_labels
from bayesfield.prediction.tally import Prediction, Tally, checked, plugged_in


def predict_sequences(
    crf: CRF,
    posterior: Posterior | MaxMargin,
    data: Sequences,
    method: str = "marginal",
    draws: int = 100,
    rng: np.random.Generator | int | None = 0,
    tie: float = float("inf"),
    distance: int | None = 1,
) -> Prediction:
    """Labels of all positions.

    method: "map", "marginal", "vote", "weighted_vote", "supergraph" or "quadratic" (prediction.tally). draws: of the
    parameters, for all but "map". tie: strength of the super-graph's ties. distance: of the labels whose couplings the
    quadratic correction keeps; None for all.
    """
    posterior = checked(posterior, method, draws)
    chains = ChainArrays(data.ptr, data.which)
    if method == "map":
        node, edge = potentials(crf, data, posterior.mode)
        return plugged_in(best_labellings(chains, node, edge)[0][0], chain_marginals(chains, node, edge).marginal)
    tally, copies = Tally(data.positions, len(crf.labels)), []
    for parameters in posterior.sample(draws, rng):
        node, edge = potentials(crf, data, parameters)
        found = chain_marginals(chains, node, edge)
        labels, scores = best_labellings(chains, node, edge)
        weight = np.exp(scores[:, 0] - found.log_z)  # p(y_s | x, λ_s) of every sequence
        tally.add(found.marginal, labels[0], np.repeat(weight, np.diff(chains.ptr)))
        if method == "supergraph":
            copies.append((node, edge))
    if method == "quadratic":
        return tally.prediction(method, quadratic_labels(crf, posterior, data, distance))
    if method != "supergraph":
        return tally.prediction(method)
    t = pair_starts(data)
    pairs, tables = np.stack([t, t + 1], axis=1), [edge[data.which[t]] for _, edge in copies]
    chosen, status = supergraph_labels(pairs, [node for node, _ in copies], tables, tie)
    return tally.prediction(method, chosen, status)
