"""Labels of new graphs by a CRF's posterior, by any engine. Each graph by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from bayesfield import parallel
from bayesfield.graph.compiled import CompiledField, Design
from bayesfield.inference.by_name import as_engine
from bayesfield.learning.phases.crf_design import compiled_graphs, pair_inputs
from bayesfield.model.conditional import CRF, label_codes
from bayesfield.model.graphs import Graphs, as_graphs
from bayesfield.prediction.chain import visible
from bayesfield.prediction.quadratic import LocalQuadratic, check_cut, climbed, coupled, trusted, within
from bayesfield.prediction.supergraph import supergraph_labels
from bayesfield.prediction.tally import Prediction, Tally, checked, joined, plugged_in, resolved
from bayesfield.types import BoolArray, FloatArray, IntArray, InvalidInput, Status

if TYPE_CHECKING:
    from bayesfield.inference.contract import Engine
    from bayesfield.learning.baselines.max_margin import MaxMargin
    from bayesfield.posterior.posterior import Posterior


def predict_graphs(
    posterior: Posterior | MaxMargin,
    X: Sequence[Any] | Graphs,
    predictor: str = "auto",
    n_draws: int = 100,
    rng: np.random.Generator | int | None = 0,
    tie: float = float("inf"),
    distance: float | None = 1,
    engine: Engine | str = "auto",
    y: Sequence[Any] | None = None,
    terms: str = "centred",
    about: str = "mean",
) -> Prediction:
    """Labels of all nodes. X: as in ``bf.fit_graphs``. engine: for marginals and best labellings.

    y: what is known of the labels already, None elsewhere; the others are predicted given these. The rest as in
    ``bf.predict_sequences``; distances are along edges.
    """
    predictor = resolved(posterior, predictor, chains=False)
    posterior = checked(posterior, predictor, n_draws)
    if predictor == "sequence":
        raise InvalidInput('"sequence" labels chains as wholes; take marginal, vote or map for graphs')
    crf: Any = posterior.field
    data = X if isinstance(X, Graphs) else as_graphs(crf, X)
    if predictor in ("supergraph", "quadratic") and (y is not None or len(crf.visible) < len(crf.labels)):
        raise InvalidInput(
            f"{predictor!r} is for graphs of visible labels, none of which are known; take marginal, vote or map"
        )
    barred = np.zeros((data.nodes, len(crf.labels)), dtype=np.bool_)
    if y is not None:
        codes, allowed = label_codes(crf, y, np.diff(data.ptr))
        barred = codes[:, None] != crf.owner if allowed is None else ~allowed
    points = posterior.mode[None] if predictor == "map" else posterior.sample_predictive(n_draws, rng)
    check_cut(distance, terms, about)
    request = _Request(crf, posterior, predictor, tie, _Cut(distance, terms, about), as_engine(engine))
    spans = enumerate(parallel.spans(data.ptr.tolist()))
    parts = (_predicted(request, data.run(k, k + 1), points, barred[a:b]) for k, (a, b) in spans)
    return joined(parts, len(crf.visible))


class _Cut(NamedTuple):
    """What is kept of the quadratic correction."""

    distance: float | None
    terms: str
    about: str


class _Request(NamedTuple):
    crf: CRF
    posterior: Posterior
    predictor: str
    tie: float
    cut: _Cut
    engine: Engine


class _Answer(NamedTuple):
    """At one draw: potentials, marginals (n, K), the best labelling, its probability, and how inference ended."""

    node: FloatArray
    tables: FloatArray
    marginal: FloatArray
    labels: IntArray
    weight: float
    status: Status


def _predicted(request: _Request, data: Graphs, points: FloatArray, barred: BoolArray) -> Prediction:
    crf, predictor = request.crf, request.predictor
    field, tally = compiled_graphs(crf, data), Tally(data.nodes, len(crf.visible))
    answers = [_at(request, field, barred, parameters) for parameters in points]
    status = next((a.status for a in answers if not a.status.converged), answers[-1].status)
    if predictor == "map":
        return plugged_in(crf.owner[answers[0].labels], visible(crf, answers[0].marginal), status)
    for answer in answers:
        weight = np.full(data.nodes, answer.weight)
        tally.add(visible(crf, answer.marginal), crf.owner[answer.labels], weight)
    if predictor == "quadratic":
        labels, trust = _quadratic_labels(request, data, answers)
        return tally.prediction(predictor, labels, trust if status.converged and not trust.converged else status)
    if predictor != "supergraph":
        return tally.prediction(predictor, status=status)
    pairs = field.graph.arrays.scope.reshape(-1, 2)
    labels, ended = supergraph_labels(pairs, [a.node for a in answers], [a.tables for a in answers], request.tie)
    return tally.prediction(predictor, labels, ended if status.converged else status)


def _at(request: _Request, field: CompiledField, barred: BoolArray, parameters: FloatArray) -> _Answer:
    """barred: (n, K) the states that what is known of the labels forbids."""
    theta, (nodes, K) = field.design.potentials(parameters), barred.shape
    theta[: nodes * K][barred.ravel()] = -np.inf
    found = request.engine.infer(field.graph, theta)
    labels, _ = request.engine.maximise(field.graph, theta)
    (node, tables), (marginal, _) = _split(theta, nodes, K), _split(found.tables, nodes, K)
    first, second = labels[field.graph.arrays.scope.reshape(-1, 2).T]
    score = node[np.arange(nodes), labels].sum() + tables[np.arange(len(tables)), first, second].sum()
    weight = float(np.exp(min(score - found.log_z, 0.0)))  # an approximate log Z may be below the best score
    return _Answer(node, tables, marginal, labels, weight, found.status)


def graph_quadratic(
    crf: CRF, posterior: Posterior, data: Graphs, engine: Engine, about: str = "mean"
) -> LocalQuadratic:
    """G of one graph, about the posterior's mean or mode: E[s] and Cov[s] by the engine."""
    field, inputs, K = compiled_graphs(crf, data), pair_inputs(data), len(crf.labels)
    theta = field.design.potentials(posterior.mode if about == "mode" else posterior.mean)
    marginals = engine.infer(field.graph, theta)
    distinct, which = np.unique(np.concatenate([inputs.along, inputs.against], axis=1), axis=0, return_inverse=True)
    which = which.reshape(-1).astype(np.int64)
    entries = data.nodes * K + (which[:, None] * K * K + np.arange(K * K)).ravel()
    columns = np.concatenate([np.arange(data.nodes * K), entries])
    shape = (len(columns), data.nodes * K + len(distinct) * K * K)
    merged = sparse.csr_array((np.ones(len(columns)), (np.arange(len(columns)), columns)), shape=shape)
    design = Design(merged, sparse.csr_array(merged.T), np.zeros(len(columns)))
    S = engine.response(field.graph, design, theta, marginals).covariance()
    features = _features(crf, data, distinct)
    M, spread = coupled(features, S, posterior.form.solve(features.T), data.nodes * K)
    (node, edge), (b, b_pair) = _split(theta, data.nodes, K), _split(marginals.tables, data.nodes, K)
    return LocalQuadratic(inputs.pairs, node, edge, which, M, b, b_pair, spread)


def _quadratic_labels(request: _Request, data: Graphs, answers: list[_Answer]) -> tuple[IntArray, Status]:
    distance, terms, about = request.cut
    q = graph_quadratic(request.crf, request.posterior, data, request.engine, about)
    if distance is not None:
        return within(q, distance, request.engine if distance == 1 else None, terms), trusted([q])
    starts = np.unique([within(q, 1, request.engine), *(a.labels for a in answers)], axis=0)
    return climbed(q, starts), trusted([q])


def _features(crf: CRF, data: Graphs, distinct: FloatArray) -> FloatArray:
    """Φ: of every label of every node, then of every pair of labels for each of the distinct edge inputs."""
    K, E = len(crf.labels), len(crf.edge_inputs)
    out = np.zeros((data.nodes * K + len(distinct) * K * K, crf.n_parameters))
    node, edge = out[: data.nodes * K, : crf.n_state], out[data.nodes * K :, crf.n_state :]
    node[:] = np.einsum("td,gk->tkdg", data.inputs.toarray(), crf.node_tables).reshape(node.shape)
    along = np.einsum("qe,hij->qijeh", distinct[:, :E], crf.edge_tables)
    against = np.einsum("qe,hij->qjieh", distinct[:, E:], crf.edge_tables)
    edge[:] = (along + against).reshape(edge.shape)
    return out


def _split(tables: FloatArray, nodes: int, K: int) -> tuple[FloatArray, FloatArray]:
    """Unary (n, K) and pairwise (m, K, K) parts of what is laid out like θ."""
    return tables[: nodes * K].reshape(nodes, K), tables[nodes * K :].reshape(-1, K, K)
