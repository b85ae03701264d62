"""Labels by the posterior: each method against its definition, and the items of crfsuite."""

import itertools

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.fitting.sequences import fit_sequences
from bayesfield.formats.crfsuite import attributes, inputs_of, vocabulary
from bayesfield.inference.trees.chain import best_labellings
from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.learning.baselines.max_margin import max_margin
from bayesfield.learning.phases.crf_design import potentials
from bayesfield.model.conditional import CRF, as_sequences
from bayesfield.posterior.posterior import Posterior
from bayesfield.prediction.chain import predict_sequences
from bayesfield.prediction.chain_quadratic import local_quadratics, quadratic_labels
from bayesfield.prediction.supergraph import hard_tie_labels, supergraph_labels

from naive import written_out
from tolerances import ALGEBRA


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    crf = CRF(("a", "b", "c"), 4)
    truth = rng.normal(size=crf.n_parameters)
    X = [rng.normal(size=(T, 4)) for T in (4, 3, 5, 1, 4, 3, 4, 5)]
    data = as_sequences(crf, X)
    labels = [["a", "b", "c"][k] for k in (data.inputs @ truth[:12].reshape(4, 3)).argmax(axis=1)]
    y = [labels[a:b] for a, b in itertools.pairwise(data.ptr)]
    posterior = fit_sequences(crf, X, y, correction="none")
    return crf, posterior, as_sequences(crf, [rng.normal(size=(T, 4)) for T in (3, 1, 0, 4)])


def distribution(crf, data, parameters, s):
    """Labellings of one sequence and their probabilities, by enumeration."""
    node, edge = potentials(crf, data, parameters)
    begin, end = data.ptr[s], data.ptr[s + 1]
    every = list(itertools.product(range(3), repeat=end - begin))
    scores = np.array([sum(node[begin + t, k] for t, k in enumerate(y)) for y in every], dtype=float)
    scores += [sum(edge[0, a, b] for a, b in itertools.pairwise(y)) for y in every]
    p = np.exp(scores - np.logaddexp.reduce(scores))
    return np.array(every, dtype=int).reshape(len(every), end - begin), p


def test_every_method_by_its_definition(fitted):
    crf, posterior, data = fitted
    draws = posterior.sample(25, 3)
    found = {m: predict_sequences(posterior, data, m, 25, 3) for m in ("marginal", "vote", "weighted_vote")}
    for s in range(len(data)):
        own = slice(data.ptr[s], data.ptr[s + 1])
        mean, votes, weighted, entropy = (np.zeros((own.stop - own.start, 3)) for _ in range(4))
        for parameters in draws:
            every, p = distribution(crf, data, parameters, s)
            marginal = np.stack([(every == k).T @ p for k in range(3)], axis=1)
            mean += marginal / 25
            entropy[:, 0] -= (marginal * np.log(marginal)).sum(axis=1) / 25
            best = every[p.argmax()]
            votes[np.arange(len(best)), best] += 1 / 25
            weighted[np.arange(len(best)), best] += p.max()
        weighted /= np.maximum(weighted.sum(axis=1, keepdims=True), 1e-300)
        for method, wanted in (("marginal", mean), ("vote", votes), ("weighted_vote", weighted)):
            np.testing.assert_allclose(found[method].probabilities[own], wanted, atol=ALGEBRA)
            np.testing.assert_array_equal(found[method].labels[own], wanted.argmax(axis=1))
        one = found["marginal"]
        np.testing.assert_allclose(one.entropy[own], -(mean * np.log(mean)).sum(axis=1), atol=ALGEBRA)
        np.testing.assert_allclose(one.open[own], entropy[:, 0], atol=ALGEBRA)
        assert (one.unsettled[own] >= 0).all()
        share = votes[np.arange(len(mean)), mean.argmax(axis=1)]
        np.testing.assert_allclose(one.disagreement[own], 1 - share, atol=ALGEBRA)


def test_map_is_the_best_labelling_at_the_mode(fitted):
    crf, posterior, data = fitted
    found = predict_sequences(posterior, data, "map")
    for s in range(len(data)):
        every, p = distribution(crf, data, posterior.mode, s)
        np.testing.assert_array_equal(found.labels[data.ptr[s] : data.ptr[s + 1]], every[p.argmax()])
    assert (found.unsettled == 0).all()


def tied_score(chains, nodes, edges, tie, hub):
    """The largest Σ_s log-weight of copy s − tie · (differences from the hub): each copy's own best, given the hub."""
    total = 0.0
    for node, edge in zip(nodes, edges, strict=True):
        pulled = node - tie * (np.arange(node.shape[1])[None, :] != hub[:, None])
        total += best_labellings(chains, pulled, edge)[1].sum()
    return total


def copies(fitted, count=4):
    crf, posterior, _ = fitted
    rng = np.random.default_rng(5)
    data = as_sequences(crf, [rng.normal(size=(T, 4)) for T in (3, 2)])
    drawn = [potentials(crf, data, 2.0 * p) for p in posterior.sample(count, 0)]
    return ChainArrays(data.ptr, data.which), [n for n, _ in drawn], [e for _, e in drawn], data, posterior, crf


def tied(chains, nodes, edges):
    """As the super-graph takes them: pairs of neighbours, and a table for each."""
    t = np.array([t for a, b in itertools.pairwise(chains.ptr) for t in range(a, b - 1)])
    return np.stack([t, t + 1], axis=1), nodes, [edge[chains.which[t]] for edge in edges]


def test_supergraph_with_hard_ties_is_the_labelling_at_the_mean(fitted):
    """By enumerating the hubs: the maximum over tied copies is that of the mean potentials and mean parameters."""
    chains, nodes, edges, data, posterior, crf = copies(fitted)
    hubs = [np.array(h) for h in itertools.product(range(3), repeat=5)]
    score = [sum(labelling_score(chains, n, e, h) for n, e in zip(nodes, edges, strict=True)) for h in hubs]
    best = hubs[int(np.argmax(score))]
    np.testing.assert_array_equal(hard_tie_labels(*tied(chains, nodes, edges), bf.Exact()), best)
    at_mean = potentials(crf, data, 2.0 * posterior.sample(4, 0).mean(axis=0))
    np.testing.assert_array_equal(best_labellings(chains, *at_mean)[0][0], best)
    found, status = supergraph_labels(*tied(chains, nodes, edges), np.inf)
    assert status.converged  # on this field loopy max-product finds it, too
    np.testing.assert_array_equal(found, best)


@pytest.mark.parametrize("tie", [0.3, 1.0, 4.0])
def test_supergraph_with_soft_ties(fitted, tie):
    """Against all hubs by enumeration: the copies are chains, so each is maximised exactly given the hub."""
    chains, nodes, edges, *_ = copies(fitted)
    hubs = [np.array(h) for h in itertools.product(range(3), repeat=5)]
    scores = np.array([tied_score(chains, nodes, edges, tie, h) for h in hubs])
    found, status = supergraph_labels(*tied(chains, nodes, edges), tie)
    assert tied_score(chains, nodes, edges, tie, found) >= np.sort(scores)[-3] - 1e-9
    assert status.iterations > 0


def labelling_score(chains, node, edge, labels):
    total = node[np.arange(len(labels)), labels].sum()
    for a, b in itertools.pairwise(chains.ptr):
        total += sum(edge[chains.which[t], labels[t], labels[t + 1]] for t in range(a, b - 1))
    return total


def test_supergraph_as_a_predictor(fitted):
    _, posterior, data = fitted
    found = predict_sequences(posterior, data, "supergraph", n_draws=5)
    assert found.labels.shape == (data.positions,)
    with pytest.raises(bf.InvalidInput, match="above zero"):
        predict_sequences(posterior, data, "supergraph", n_draws=2, tie=0.0)


def test_quadratic_is_its_definition_in_parameters(fitted):
    """G in own indicators against mᵀf + ½ (f − κ)ᵀ (P + C_x)⁻¹ (f − κ), by enumeration, up to a constant."""
    crf, posterior, data = fitted
    for s, q in enumerate(local_quadratics(crf, posterior, data)):
        every, p = distribution(crf, data, posterior.mean, s)
        one = slice(data.ptr[s], data.ptr[s + 1])
        x = data.inputs[one].toarray()
        f = np.zeros((len(every), crf.n_parameters))
        for row, y in zip(f, every, strict=True):
            for t, k in enumerate(y):
                row[np.arange(4) * 3 + k] += x[t]
            for a, b in itertools.pairwise(y):
                row[crf.n_state + 3 * a + b] += 1.0
        away = f - p @ f
        Q = np.linalg.inv(posterior.precision + (away * p[:, None]).T @ away)
        wanted = f @ posterior.mean + 0.5 * np.einsum("nf,fg,ng->n", away, Q, away)
        got = np.array([q.value(y) for y in every])
        np.testing.assert_allclose(got - got[0], wanted - wanted[0], atol=1e-8)


@pytest.mark.parametrize("distance", [1, 2, 3, None])
def test_quadratic_finds_the_maximum_of_what_it_keeps(fitted, distance):
    crf, posterior, data = fitted
    found, _ = quadratic_labels(crf, posterior, data, distance)
    for s, q in enumerate(local_quadratics(crf, posterior, data)):
        own = found[data.ptr[s] : data.ptr[s + 1]]
        every = list(itertools.product(range(3), repeat=len(own)))
        scores = [kept(q, np.array(y, dtype=int), distance) for y in every]
        assert kept(q, own, distance) == pytest.approx(max(scores), abs=1e-9)


def kept(q, labels, distance):
    if distance is None:
        return q.value(labels)
    T = len(labels)
    total = sum(q.own(t)[labels[t]] for t in range(T)) + sum(q.pair(t)[labels[t], labels[t + 1]] for t in range(T - 1))
    for t in range(T):
        for u in range(t + 2, min(t + distance, T - 1) + 1):
            total += q.coupling(t, u)[labels[t], labels[u]]
    return total


@pytest.mark.parametrize("about", ["mean", "mode"])
@pytest.mark.parametrize("distance", [1, 2, float("inf")])
def test_whole_terms_of_one_and_two_labels(fitted, distance, about):
    """The best labelling by enumeration of what is kept, written out term by term."""
    crf, posterior, data = fitted
    found, _ = quadratic_labels(crf, posterior, data, distance, "whole", about)
    for s, q in enumerate(local_quadratics(crf, posterior, data, about)):
        own = found[data.ptr[s] : data.ptr[s + 1]]
        scores = [written_out(q, y, distance) for y in itertools.product(range(3), repeat=len(own))]
        assert written_out(q, own, distance) == pytest.approx(max(scores), abs=1e-9)


def test_quadratic_about_the_mode_is_the_papers(fitted):
    """λ_MP in place of m: with a plain Laplace posterior both are one; with a corrected one they are not."""
    crf, posterior, data = fitted
    for q, other in zip(*(local_quadratics(crf, posterior, data, about) for about in ("mean", "mode")), strict=True):
        np.testing.assert_allclose(q.node, other.node, atol=1e-12)
    moved = Posterior(crf, posterior.mean + 0.3, posterior.precision, posterior.record, mode=posterior.mode)
    q, other = (local_quadratics(crf, moved, data, about)[0] for about in ("mean", "mode"))
    assert np.abs(q.node - other.node).max() > 0.1
    np.testing.assert_allclose(other.node, local_quadratics(crf, posterior, data)[0].node, atol=1e-12)
    for wrong in ({"terms": "some"}, {"about": "median"}, {"distance": 0}):
        with pytest.raises(bf.InvalidInput, match="is"):
            predict_sequences(posterior, data, "quadratic", n_draws=2, **wrong)


def test_quadratic_on_two_positions_is_all_on_the_chain(fitted):
    """Nothing is left out: what is kept differs from G by a constant."""
    crf, posterior, _ = fitted
    data = as_sequences(crf, [np.random.default_rng(8).normal(size=(2, 4))])
    (q,) = local_quadratics(crf, posterior, data)
    every = [np.array(y) for y in itertools.product(range(3), repeat=2)]
    for keeps in (lambda y: kept(q, y, 1), lambda y: written_out(q, y, 1)):
        gap = [q.value(y) - keeps(y) for y in every]
        np.testing.assert_allclose(gap, gap[0], atol=1e-9)


def test_quadratic_says_where_it_is_not_to_be_trusted(fitted):
    """Weights known to a tenth, and hardly at all."""
    crf, posterior, data = fitted
    for precision, good in ((100.0, True), (0.1, False)):
        known = Posterior(crf, posterior.mean, precision * np.eye(crf.n_parameters), posterior.record)
        found = predict_sequences(known, data, "quadratic", n_draws=2)
        assert found.status.converged == good
        assert good or "average marginals" in str(found.status)


def test_quadratic_is_near_the_posterior_average(fitted):
    """log of the mean probability over 4,000 draws against G, over all labellings: correlation above 0.99."""
    crf, posterior, _ = fitted
    narrow = Posterior(crf, posterior.mean, 20.0 * posterior.precision, posterior.record)
    data = as_sequences(crf, [np.random.default_rng(9).normal(size=(3, 4))])
    (q,) = local_quadratics(crf, narrow, data)
    every, _ = distribution(crf, data, narrow.mean, 0)
    mean = np.mean([distribution(crf, data, p, 0)[1] for p in narrow.sample(4000, 0)], axis=0)
    G = np.array([q.value(y) for y in every])
    plain = np.array([q.score(y) for y in every])
    error = [np.std(np.log(mean) - g) for g in (G, plain)]
    assert error[0] < error[1] / 3


def test_bad_requests_are_refused(fitted):
    _, posterior, data = fitted
    with pytest.raises(bf.InvalidInput, match="predictor is one of"):
        predict_sequences(posterior, data, "best")
    with pytest.raises(bf.InvalidInput, match="above zero"):
        predict_sequences(posterior, data, n_draws=0)


def test_max_margin_weights_plug_in(fitted):
    crf, _, data = fitted
    point = max_margin(crf, as_sequences(crf, [np.eye(4)], [list("abca")]))
    found = predict_sequences(point, data, "map")
    for s in range(len(data)):
        every, p = distribution(crf, data, point.mode, s)
        np.testing.assert_array_equal(found.labels[data.ptr[s] : data.ptr[s + 1]], every[p.argmax()])
    with pytest.raises(bf.InvalidInput, match="a point, with no posterior"):
        predict_sequences(point, data, "vote")


def test_items_of_crfsuite():
    item = {
        "word": "dog",
        "upper": True,
        "digit": False,
        "length": 3,
        "near": {"left": "a", "x": 2.5},
        "tags": ["u", "v"],
    }
    found = dict(attributes(item))
    assert found == {
        "word:dog": 1.0,
        "upper": 1.0,
        "digit": 0.0,
        "length": 3.0,
        "near:left:a": 1.0,
        "near:x": 2.5,
        "tags:u": 1.0,
        "tags:v": 1.0,
    }
    known = vocabulary([[item, ["p", "q"]]])
    assert "digit" not in known
    x = inputs_of([{"word": "cat", "upper": True}, ["q", "unseen"]], known).toarray()
    assert x.sum() == 2.0
    assert x[0, known["upper"]] == x[1, known["q"]] == 1.0


@pytest.mark.parametrize(
    ("item", "text"), [("word", "list of"), (3, "list of"), ({"a": None}, "NoneType"), ({"a": np.nan}, "finite")]
)
def test_bad_items_are_refused(item, text):
    with pytest.raises(bf.InvalidInput, match=text):
        list(attributes(item))
