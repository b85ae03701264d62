"""Labels of new sequences by a chain CRF's posterior. Inference on chains is exact."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesfield.inference.trees.chain import best_labellings, chain_marginals
from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.learning.baselines.max_margin import MaxMargin
from bayesfield.learning.phases.chain import pair_starts, potentials
from bayesfield.learning.phases.hidden_chain import masked
from bayesfield.model.conditional import CRF, Sequences, as_sequences, label_codes
from bayesfield.posterior.posterior import Posterior
from bayesfield.prediction.chain_quadratic import quadratic_labels
from bayesfield.prediction.supergraph import supergraph_labels
from bayesfield.prediction.tally import Prediction, Tally, checked, plugged_in
from bayesfield.types import BoolArray, FloatArray, InvalidInput


def predict_sequences(
    crf: CRF,
    posterior: Posterior | MaxMargin,
    X: Sequence[Any] | Sequences,
    method: str = "marginal",
    draws: int = 100,
    rng: np.random.Generator | int | None = 0,
    tie: float = float("inf"),
    distance: int | None = 1,
    Z: Sequence[Any] | None = None,
    y: Sequence[Any] | None = None,
) -> Prediction:
    """Labels of all positions. X, Z: as in ``bf.fit_sequences``. posterior: or max-margin weights, for "map".

    y: what is known of the labels already, None elsewhere; the others are predicted given these.

    method: "map", "marginal", "vote", "weighted_vote", "supergraph" or "quadratic" (prediction.tally). draws: of the
    parameters, for all but "map". tie: strength of the super-graph's ties. distance: of the labels whose couplings the
    quadratic correction keeps; None for all.
    """
    posterior = checked(posterior, method, draws)
    data = X if isinstance(X, Sequences) else as_sequences(crf, X, None, Z)
    allowed = None if y is None else _allowed(crf, data, y)
    if method in ("supergraph", "quadratic") and (allowed is not None or _latent(crf)):
        raise InvalidInput(f"{method!r} is for chains of visible labels; take marginal, vote, weighted_vote or map")
    chains = ChainArrays(data.ptr, data.which)
    if method == "map":
        node, edge = _potentials(crf, data, posterior.mode, allowed)
        states = best_labellings(chains, node, edge)[0][0]
        return plugged_in(crf.owner[states], _visible(crf, chain_marginals(chains, node, edge).marginal))
    points = posterior.sample(draws, rng)
    tally = _tallied(crf, points, data, allowed)
    if method == "quadratic":
        return tally.prediction(method, *quadratic_labels(crf, posterior, data, distance))
    if method != "supergraph":
        return tally.prediction(method)
    copies, t = [potentials(crf, data, parameters) for parameters in points], pair_starts(data)
    pairs, tables = np.stack([t, t + 1], axis=1), [edge[data.which[t]] for _, edge in copies]
    chosen, status = supergraph_labels(pairs, [node for node, _ in copies], tables, tie)
    return tally.prediction(method, chosen, status)


def average_over(
    crf: CRF,
    draws: FloatArray,
    X: Sequence[Any] | Sequences,
    method: str = "marginal",
    Z: Sequence[Any] | None = None,
) -> Prediction:
    """The same by draws of the parameters that are given, (S, F): a sampler's, say.

    method: "marginal", "vote" or "weighted_vote". X, Z: as in ``bf.fit_sequences``.
    """
    if method not in ("marginal", "vote", "weighted_vote"):
        raise InvalidInput(f"given draws are averaged by marginal, vote or weighted_vote; got {method!r}")
    data = X if isinstance(X, Sequences) else as_sequences(crf, X, None, Z)
    return _tallied(crf, draws, data).prediction(method)


def _tallied(crf: CRF, draws: FloatArray, data: Sequences, allowed: BoolArray | None = None) -> Tally:
    chains, tally = ChainArrays(data.ptr, data.which), Tally(data.positions, len(crf.visible))
    for parameters in draws:
        node, edge = _potentials(crf, data, parameters, allowed)
        found = chain_marginals(chains, node, edge)
        states, scores = best_labellings(chains, node, edge)
        weight = np.exp(scores[:, 0] - found.log_z)  # p(y_s | x, λ_s) of every sequence
        tally.add(_visible(crf, found.marginal), crf.owner[states[0]], np.repeat(weight, np.diff(chains.ptr)))
    return tally


def _potentials(
    crf: CRF, data: Sequences, parameters: FloatArray, allowed: BoolArray | None
) -> tuple[FloatArray, FloatArray]:
    node, edge = potentials(crf, data, parameters)
    return (node if allowed is None else masked(node, allowed)), edge


def _allowed(crf: CRF, data: Sequences, y: Sequence[Any]) -> BoolArray:
    """The states that what is known of the labels allows, (P, K)."""
    codes, allowed = label_codes(crf, y, np.diff(data.ptr))
    return codes[:, None] == crf.owner if allowed is None else allowed


def _latent(crf: CRF) -> bool:
    return len(crf.visible) < len(crf.labels)


def _visible(crf: CRF, marginal: FloatArray) -> FloatArray:
    """Probabilities of the visible labels, (P, K), from those of the states behind them."""
    if not _latent(crf):
        return marginal
    result: FloatArray = marginal.reshape(len(marginal), len(crf.visible), -1).sum(axis=2)
    return result
