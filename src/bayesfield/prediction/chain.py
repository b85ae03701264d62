"""Labels of new sequences by a chain CRF's posterior. Inference on chains is exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesfield.inference.trees.chain import ChainMarginals, best_labellings, chain_marginals
from bayesfield.inference.trees.log_z_by_component import log_z_by_component
from bayesfield.kernels.chains.pairs import add_pairs
from bayesfield.learning.phases.chain import ChainPhase
from bayesfield.learning.phases.crf_design import edge_noise, node_noise, potentials
from bayesfield.model.conditional import CRF, Sequences, as_sequences, label_codes
from bayesfield.prediction.chain_quadratic import quadratic_labels
from bayesfield.prediction.supergraph import supergraph_labels
from bayesfield.prediction.tally import Prediction, Tally, checked, joined, plugged_in, resolved
from bayesfield.prediction.whole import visible_pairs, whole_labels
from bayesfield.types import BoolArray, FloatArray, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.learning.baselines.max_margin import MaxMargin
    from bayesfield.posterior.posterior import Posterior

AVERAGES = ("marginal", "sequence", "vote", "weighted_vote")  # sums over draws
POTENTIAL_DRAWS = 8  # of each sequence's potentials, at most: antithetic, and of what the input itself takes part in
_COOLED_DRAWS = 6  # the same below temperature 1, where they vary less
_PAIRS = 4_000_000  # probabilities of pairs of neighbours that are held at a time
_TOGETHER = 400_000  # potentials of all sequences at all draws that are labelled in one pass


def predict_sequences(
    posterior: Posterior | MaxMargin,
    X: Sequence[Any] | Sequences,
    predictor: str = "auto",
    n_draws: int = 100,
    rng: np.random.Generator | int | None = 0,
    tie: float = float("inf"),
    distance: float | None = 1,
    Z: Sequence[Any] | None = None,
    y: Sequence[Any] | None = None,
    terms: str = "centred",
    about: str = "mean",
) -> Prediction:
    """Labels of all positions. X, Z: as in ``bf.fit_sequences``. posterior: or max-margin weights, for "map".

    y: what is known of the labels already, None elsewhere; the others are predicted given these.

    predictor: "map", "marginal", "sequence", "vote", "weighted_vote", "supergraph" or "quadratic" (prediction.tally);
    "auto" is "sequence" where labels mark spans, as B-, I- and O do, and "marginal" elsewhere. n_draws: of the
    parameters, for all but "map". tie: strength of the super-graph's ties.

    Of the quadratic correction G: distance: of labels whose couplings it keeps; float("inf") for all pairs, None for
    all of G. terms: "centred" or "whole", what is kept of terms of more than one label (prediction.quadratic). about:
    "mean", or "mode" as in the paper, where log Z is expanded.
    """
    predictor = resolved(posterior, predictor, chains=True)
    posterior = checked(posterior, predictor, n_draws)
    crf: Any = posterior.field
    data = X if isinstance(X, Sequences) else as_sequences(crf, X, None, Z)
    allowed = None if y is None else _allowed(crf, data, y)
    if predictor in ("supergraph", "quadratic") and (allowed is not None or _latent(crf)):
        raise InvalidInput(f"{predictor!r} is for chains of visible labels; take marginal, vote, weighted_vote or map")
    phase = ChainPhase(crf, data, allowed=allowed)
    if predictor == "map" or (predictor == "sequence" and posterior.temperature == 0.0):
        (answer,) = _labelled(phase, posterior.mode[None])
        return plugged_in(crf.owner[answer.states], visible(crf, answer.marginal))
    if predictor in AVERAGES:
        return _averaged(phase, posterior, predictor, n_draws, rng)
    points = posterior.sample_predictive(n_draws, rng)
    tally = _tallied(phase, points)
    if predictor == "quadratic":
        return tally.prediction(predictor, *quadratic_labels(crf, posterior, data, distance, terms, about))
    if predictor != "supergraph":
        return tally.prediction(predictor)
    copies, t = [potentials(crf, data, parameters) for parameters in points], data.pair_starts()
    pairs, tables = np.stack([t, t + 1], axis=1), [edge[data.which[t]] for _, edge in copies]
    labels, status = supergraph_labels(pairs, [node for node, _ in copies], tables, tie)
    return tally.prediction(predictor, labels, status)


def _averaged(
    phase: ChainPhase, posterior: Posterior, predictor: str, n_draws: int, rng: np.random.Generator | int | None
) -> Prediction:
    """Whole labellings need the pairs of all neighbours, so that long data are taken in runs, with the same draws."""
    seed = int(rng.integers(2**31)) if isinstance(rng, np.random.Generator) else rng
    parts = [_of_run(part, posterior, predictor, n_draws, seed) for part in _runs(phase, predictor)]
    return parts[0] if len(parts) == 1 else joined(parts, len(phase.crf.visible))


def _runs(phase: ChainPhase, predictor: str) -> Iterator[ChainPhase]:
    data, width = phase.data, len(phase.crf.labels) ** 2
    if predictor != "sequence" or data.positions * width <= _PAIRS:
        yield phase
        return
    begin = 0
    while begin < len(data):
        end = int(np.searchsorted(data.ptr, data.ptr[begin] + _PAIRS // width, side="right")) - 1
        end = max(end, begin + 1)
        allowed = None if phase.allowed is None else phase.allowed[data.ptr[begin] : data.ptr[end]]
        yield ChainPhase(phase.crf, data.run(begin, end), allowed=allowed)
        begin = end


def _of_run(phase: ChainPhase, posterior: Posterior, predictor: str, n_draws: int, rng: int | None) -> Prediction:
    if _draws_potentials(phase, posterior):
        by_potentials = _counted(phase, drawn_potentials(phase, posterior, n_draws, rng), predictor)
        if by_potentials is not None:
            return _concluded(phase, by_potentials, predictor)
    return _concluded(phase, _tallied(phase, posterior.sample_predictive(n_draws, rng), predictor), predictor)


def _concluded(phase: ChainPhase, tally: Tally, predictor: str) -> Prediction:
    if tally.pairs is None:
        return tally.prediction(predictor)
    pairs = visible_pairs(tally.pairs, len(phase.crf.visible))
    return tally.prediction(predictor, whole_labels(phase.data, tally.marginal, pairs))


def average_over(
    crf: CRF,
    draws: FloatArray,
    X: Sequence[Any] | Sequences,
    predictor: str = "marginal",
    Z: Sequence[Any] | None = None,
) -> Prediction:
    """The same by draws of the parameters that are given, (S, F): a sampler's, say.

    predictor: "marginal", "sequence", "vote" or "weighted_vote". X, Z: as in ``bf.fit_sequences``.
    """
    if predictor not in AVERAGES:
        raise InvalidInput(f"given draws are averaged by {', '.join(AVERAGES)}; got {predictor!r}")
    points = np.asarray(draws, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != crf.n_parameters:
        raise InvalidInput(f"draws need shape (…, {crf.n_parameters}), a row for each; got {points.shape}")
    data = X if isinstance(X, Sequences) else as_sequences(crf, X, None, Z)
    runs = _runs(ChainPhase(crf, data), predictor)
    return joined((_concluded(run, _tallied(run, points, predictor), predictor) for run in runs), len(crf.visible))


class _Labelled(NamedTuple):
    """At one draw: marginals (P, K), the best labelling (P,), and its probability for every sequence (S,)."""

    marginal: FloatArray
    states: IntArray
    weight: FloatArray


def marginals_of_draws(
    phase: ChainPhase, posterior: Posterior, n_draws: int, rng: np.random.Generator | int | None
) -> Iterator[ChainMarginals]:
    """Marginals with their messages at each draw; n_draws: 0 for the mode alone."""
    for node, edge in drawn_potentials(phase, posterior, n_draws, rng):
        yield chain_marginals(phase.chains, node, edge)


def drawn_potentials(
    phase: ChainPhase,
    posterior: Posterior,
    n_draws: int,
    rng: np.random.Generator | int | None,
    most: int | None = None,
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Node (P, K) and edge (Q, K, K) log-potentials at each draw; n_draws: 0 for the mode alone.

    Under independent weights the potentials of a sequence are sums of independent normals, so that no draw of all
    weights is made; eight at most (or ``most``), which is what averages of marginals need.
    """
    if n_draws and _draws_potentials(phase, posterior):
        usual = POTENTIAL_DRAWS if posterior.temperature == 1.0 else _COOLED_DRAWS
        yield from _antithetic(phase, posterior, min(max(n_draws, 2), usual if most is None else most), rng)
        return
    for here in posterior.sample_predictive(n_draws, rng) if n_draws else posterior.mode[None]:
        yield phase.potentials(here)


def _draws_potentials(phase: ChainPhase, posterior: Posterior) -> bool:
    return posterior.form.form == "mean-field" and phase.draws_potentials


def _antithetic(
    phase: ChainPhase, posterior: Posterior, count: int, rng: np.random.Generator | int | None
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """In pairs about the mean. At temperature 0 one, the mode's."""
    mean, sd = posterior.predictive_moments
    crf, data, generator, (node, edge) = phase.crf, phase.data, np.random.default_rng(rng), phase.potentials(mean)
    if posterior.temperature == 0.0:
        yield node, edge
        return
    for k in range(0, count, 2):
        noise, of_edges = node_noise(crf, data, sd, int(generator.integers(2**31))), edge_noise(crf, sd, generator)
        for sign in (1.0, -1.0)[: count - k]:
            yield node + sign * noise, edge + sign * of_edges


class Unseen(NamedTuple):
    """Attributes that training never showed, at the same positions: the model they would have weights in, the data,
    and the sds (F,) of these weights, which have the prior alone."""

    crf: CRF
    data: Sequences
    sd: FloatArray


def predict_with_unseen(
    posterior: Posterior,
    data: Sequences,
    unseen: Unseen,
    n_draws: int = 100,
    rng: np.random.Generator | int | None = 0,
) -> Prediction:
    """Marginals averaged over the posterior, at any temperature of its predictions, where attributes that were never
    seen are not taken to have no weight, but an unknown one."""
    posterior = checked(posterior, "marginal", n_draws).at_temperature(1.0)
    crf: Any = posterior.field
    if not (crf.plain_nodes and crf.labels == crf.visible):
        raise InvalidInput("attributes that were not seen count in plain chains: without tables or latent states")
    phase, generator = ChainPhase(crf, data), np.random.default_rng(rng)
    draws = drawn_potentials(phase, posterior, n_draws, generator.spawn(1)[0])
    tally = _counted(phase, _with_noise(draws, unseen, generator))
    if tally is None:
        raise InvalidInput(
            "log-potentials differ by more than 700 along a sequence: bring inputs that are large numbers to a scale "
            "of about one"
        )
    return tally.prediction("marginal")


def _with_noise(
    draws: Iterator[tuple[FloatArray, FloatArray]], unseen: Unseen, rng: np.random.Generator
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """The draws, with those of the weights that have the prior alone; these in antithetic pairs."""
    noise = np.empty(0)
    for k, (node, edge) in enumerate(draws):
        noise = -noise if k % 2 else node_noise(unseen.crf, unseen.data, unseen.sd, int(rng.integers(2**31)))
        yield node + noise, edge


def _counted(
    phase: ChainPhase, draws: Iterator[tuple[FloatArray, FloatArray]], predictor: str = "marginal"
) -> Tally | None:
    """draws: node and edge log-potentials. None where plain numbers underflow."""
    tally, lengths = _tally(phase, predictor), np.diff(phase.data.ptr)
    for node, edge in draws:
        found = chain_marginals(phase.chains, node, edge)
        states, scores = best_labellings(phase.chains, node, edge)
        if not found.finite:
            return None
        weight = np.exp(np.minimum(scores[:, 0] - found.log_z, 0.0))
        if tally.pairs is not None:
            add_pairs(phase.chains, found.messages, found.log_z, tally.pairs)
        tally.add(found.marginal, states[0], np.repeat(weight, lengths))
    return tally


def _tally(phase: ChainPhase, predictor: str) -> Tally:
    states = len(phase.crf.labels) if predictor == "sequence" else 0
    return Tally(phase.data.positions, len(phase.crf.visible), states)


def _tallied(phase: ChainPhase, points: FloatArray, predictor: str = "marginal") -> Tally:
    crf, tally, lengths = phase.crf, _tally(phase, predictor), np.diff(phase.data.ptr)
    for answer in _labelled(phase, points, tally.pairs):
        tally.add(visible(crf, answer.marginal), crf.owner[answer.states], np.repeat(answer.weight, lengths))
    return tally


def _labelled(phase: ChainPhase, points: FloatArray, pairs: FloatArray | None = None) -> Iterator[_Labelled]:
    """Copies of the sequences at several draws side by side, in one pass as far as they are small. Adds to pairs
    (P, K, K)."""
    crf, data = phase.crf, phase.data
    K, P, S = len(crf.labels), data.positions, len(data)
    step = max(1, _TOGETHER // max(P * K + len(data.edge_rows) * K * K, 1))
    for first in range(0, len(points), step):
        some = points[first : first + step]
        chains, node, edge = phase.copies(some)
        marginals = chain_marginals(chains, node, edge)
        states, scores = best_labellings(chains, node, edge)
        log_z, marginal = marginals.log_z.reshape(len(some), S), marginals.marginal.reshape(len(some), P, K)
        weight = np.exp(np.minimum(scores[:, 0].reshape(len(some), S) - log_z, 0.0))  # p(y_s | x, λ_s)
        good = np.array(
            [bool(np.isfinite(z).all() and np.isfinite(p).all()) for z, p in zip(log_z, marginal, strict=True)]
        )
        if pairs is not None:
            add_pairs(chains, marginals.messages, np.where(good[:, None], log_z, np.nan).ravel(), pairs)
        for k, here in enumerate(some):
            labels = states[0].reshape(len(some), P)[k]
            if good[k]:
                yield _Labelled(marginal[k], labels, weight[k])
            else:
                yield _by_tree(phase, here, labels, scores[:, 0].reshape(len(some), S)[k], pairs)


def _by_tree(
    phase: ChainPhase, parameters: FloatArray, labels: IntArray, scores: FloatArray, pairs: FloatArray | None
) -> _Labelled:
    """Where plain numbers underflow."""
    tree, (P, K) = phase.by_tree, (phase.data.positions, len(phase.crf.labels))
    theta = tree.design.potentials(parameters)
    tables = tree.engine.infer(tree.graph, theta).tables
    if pairs is not None:
        pairs[phase.data.pair_starts()] += tables[P * K :].reshape(-1, K, K)
    owner = np.repeat(np.arange(len(phase.data)), np.diff(phase.data.ptr))
    log_z = log_z_by_component(tree.engine, tree.graph, theta, owner, len(phase.data))
    return _Labelled(tables[: P * K].reshape(P, K), labels, np.exp(np.minimum(scores - log_z, 0.0)))


def _allowed(crf: CRF, data: Sequences, y: Sequence[Any]) -> BoolArray:
    """The states that what is known of the labels allows, (P, K)."""
    codes, allowed = label_codes(crf, y, np.diff(data.ptr))
    return codes[:, None] == crf.owner if allowed is None else allowed


def _latent(crf: CRF) -> bool:
    return len(crf.visible) < len(crf.labels)


def visible(crf: CRF, marginal: FloatArray) -> FloatArray:
    """Probabilities of the visible labels, (P, K), from those of the states behind them."""
    if not _latent(crf):
        return marginal
    result: FloatArray = marginal.reshape(len(marginal), len(crf.visible), -1).sum(axis=2)
    return result
