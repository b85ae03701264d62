"""Labels of graphs: a chain given as a graph gets the chain's labels; a loopy graph, enumeration's."""

import itertools

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.fitting.graphs import fit_graphs
from bayesfield.fitting.sequences import fit_sequences
from bayesfield.learning.phases.crf_design import compiled_graphs
from bayesfield.model.conditional import CRF, as_sequences
from bayesfield.model.graphs import as_graphs
from bayesfield.prediction.chain import predict_sequences
from bayesfield.prediction.chain_quadratic import local_quadratics
from bayesfield.prediction.graph import graph_quadratic, predict_graphs

from naive import written_out
from tolerances import ALGEBRA

METHODS = ("map", "marginal", "vote", "weighted_vote", "quadratic")


def path(x):
    return x, np.array([(t, t + 1) for t in range(len(x) - 1)], dtype=int).reshape(-1, 2)


@pytest.fixture(scope="module")
def sequences():
    rng = np.random.default_rng(0)
    crf = CRF("abc", 3)
    X = [rng.normal(size=(T, 3)) for T in (4, 3, 5, 2, 4, 3)]
    y = [["abc"[k] for k in (x + 0.3 * rng.normal(size=x.shape)).argmax(axis=1)] for x in X]
    new = [rng.normal(size=(T, 3)) for T in (3, 1, 4)]
    return crf, fit_sequences(crf, X, y, correction="none"), new


@pytest.mark.parametrize("engine", [bf.Exact(), bf.Bethe(), bf.Enumeration(), "auto"])
@pytest.mark.parametrize("method", METHODS)
def test_a_chain_as_a_graph_is_the_chain(sequences, method, engine):
    crf, posterior, new = sequences
    one = predict_sequences(posterior, as_sequences(crf, new), method, n_draws=20)
    other = predict_graphs(posterior, as_graphs(crf, [path(x) for x in new]), method, n_draws=20, engine=engine)
    np.testing.assert_array_equal(one.labels, other.labels)
    for name in ("probabilities", "entropy", "open", "disagreement"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-9)


def test_quadratic_is_that_of_the_chain(sequences):
    crf, posterior, new = sequences
    for q, x in zip(local_quadratics(crf, posterior, as_sequences(crf, new)), new, strict=True):
        other = graph_quadratic(crf, posterior, as_graphs(crf, [path(x)]), bf.Exact())
        for labels in itertools.product(range(3), repeat=len(x)):
            y = np.array(labels)
            assert q.value(y) == pytest.approx(other.value(y), abs=1e-8)


@pytest.fixture(scope="module")
def loopy():
    """Squares with a diagonal, edge inputs, one edge turned and one given twice."""
    rng = np.random.default_rng(1)
    crf = CRF("ab", 2, 2)
    edges = np.array([(0, 1), (2, 1), (2, 3), (0, 3), (0, 2), (0, 2)])
    graphs = [(rng.normal(size=(4, 2)), edges, rng.normal(size=(6, 2))) for _ in range(12)]
    y = [["ab"[int(v)] for v in g[0][:, 0] > 0] for g in graphs]
    new = [(rng.normal(size=(4, 2)), edges, rng.normal(size=(6, 2))) for _ in range(3)]
    new.append((rng.normal(size=(2, 2)), np.empty((0, 2), dtype=int), np.empty((0, 2))))
    return crf, fit_graphs(crf, graphs, y, engine=bf.Exact(), correction="none"), new


def everything(crf, instance, parameters):
    """All labellings and their unnormalised log-probabilities, from the definition."""
    x, edges, z = instance
    W, V = crf.split(parameters)
    every = np.array(list(itertools.product(range(2), repeat=len(x))))
    scores = np.array([sum((x[t] @ W)[k] for t, k in enumerate(y)) for y in every])
    for (i, j), inputs in zip(edges, z, strict=True):
        table = (inputs @ V).reshape(2, 2)
        scores = scores + table[every[:, i], every[:, j]]
    return every, scores


def test_loops_by_enumeration(loopy):
    crf, posterior, new = loopy
    data, draws = as_graphs(crf, new), posterior.sample(15, 0)
    found = {m: predict_graphs(posterior, data, m, n_draws=15, rng=0, engine=bf.Exact()) for m in METHODS}
    for instance, a, b in zip(new, data.ptr[:-1], data.ptr[1:], strict=True):
        mean, votes, weighted = (np.zeros((b - a, 2)) for _ in range(3))
        for parameters in draws:
            every, scores = everything(crf, instance, parameters)
            p = np.exp(scores - np.logaddexp.reduce(scores))
            best, rows = every[p.argmax()], np.arange(b - a)
            mean += np.stack([(every == k).T @ p for k in range(2)], axis=1) / 15
            votes[rows, best] += 1 / 15
            weighted[rows, best] += p.max()
        weighted /= weighted.sum(axis=1, keepdims=True)
        for method, wanted in (("marginal", mean), ("vote", votes), ("weighted_vote", weighted)):
            np.testing.assert_allclose(found[method].probabilities[a:b], wanted, atol=ALGEBRA)
        every, scores = everything(crf, instance, posterior.mode)
        np.testing.assert_array_equal(found["map"].labels[a:b], every[scores.argmax()])


def test_quadratic_on_loops_is_its_definition(loopy):
    """G against mᵀf + ½ (f − κ)ᵀ (P + C_x)⁻¹ (f − κ) with all features by enumeration, up to a constant."""
    crf, posterior, new = loopy
    for instance in new:
        data = as_graphs(crf, [instance])
        q = graph_quadratic(crf, posterior, data, bf.Exact())
        every, scores = everything(crf, instance, posterior.mean)
        p = np.exp(scores - np.logaddexp.reduce(scores))
        design = compiled_graphs(crf, data).design
        f = np.array([everything_features(crf, instance, y) for y in every])
        np.testing.assert_allclose(f @ posterior.mean, scores, atol=1e-9)
        assert design.matrix.shape[1] == f.shape[1]
        away = f - p @ f
        Q = np.linalg.inv(posterior.precision + (away * p[:, None]).T @ away)
        wanted = scores + 0.5 * np.einsum("nf,fg,ng->n", away, Q, away)
        got = np.array([q.value(y) for y in every])
        np.testing.assert_allclose(got - got[0], wanted - wanted[0], atol=1e-8)
        full = predict_graphs(posterior, data, "quadratic", n_draws=3, distance=None, engine=bf.Exact())
        assert q.value(full.labels) == pytest.approx(got.max(), abs=1e-9)


def everything_features(crf, instance, y):
    x, edges, z = instance
    f = np.zeros(crf.n_parameters)
    node, edge = f[: crf.n_state].reshape(2, 2), f[crf.n_state :].reshape(2, 2, 2)
    for t, k in enumerate(y):
        node[:, k] += x[t]
    for (i, j), inputs in zip(edges, z, strict=True):
        edge[:, y[i], y[j]] += inputs
    return f


@pytest.mark.parametrize("distance", [1, 2, 5])
def test_quadratic_at_a_distance(loopy, distance):
    """On a square without its diagonal, opposite corners are two apart; nothing is three."""
    crf, posterior, _ = loopy
    rng = np.random.default_rng(7)
    square = (rng.normal(size=(4, 2)), np.array([(0, 1), (1, 2), (2, 3), (0, 3)]), rng.normal(size=(4, 2)))
    data = as_graphs(crf, [square])
    q = graph_quadratic(crf, posterior, data, bf.Exact())

    def kept(y):
        total = sum(q.own(t)[y[t]] for t in range(4)) + sum(q.pair(k)[y[i], y[j]] for k, (i, j) in enumerate(q.pairs))
        far = [(0, 2), (1, 3)] if distance > 1 else []
        return total + sum(q.coupling(t, u)[y[t], y[u]] for t, u in far)

    found = predict_graphs(posterior, data, "quadratic", n_draws=2, distance=distance, engine=bf.Exact())
    best = max(kept(y) for y in itertools.product(range(2), repeat=4))
    assert kept(found.labels) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("distance", [1, 2, float("inf")])
def test_quadratic_with_whole_terms(loopy, distance):
    """Of loops with pairs that are joined twice: every term of one and two labels, from the definition."""
    crf, posterior, new = loopy
    for instance in new:
        data = as_graphs(crf, [instance])
        q = graph_quadratic(crf, posterior, data, bf.Exact())
        every = list(itertools.product(range(2), repeat=len(instance[0])))
        found = predict_graphs(
            posterior, data, "quadratic", n_draws=2, distance=distance, engine=bf.Exact(), terms="whole"
        )
        best = max(written_out(q, y, distance) for y in every)
        assert written_out(q, found.labels, distance) == pytest.approx(best, abs=1e-9)


def test_supergraph_and_status(loopy):
    crf, posterior, new = loopy
    data = as_graphs(crf, new)
    tied = predict_graphs(posterior, data, "supergraph", n_draws=5)
    assert tied.labels.shape == (data.nodes,)
    hurried = predict_graphs(posterior, data, n_draws=3, engine=bf.Bethe(max_sweeps=1, max_direct=0))
    assert not hurried.status.converged
    nothing = predict_graphs(posterior, as_graphs(crf, []), n_draws=3)
    assert nothing.probabilities.shape == (0, 2)
