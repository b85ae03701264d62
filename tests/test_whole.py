"""Whole labellings under an averaged posterior: against enumeration of all labellings, and what they are for."""

import itertools

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.inference.trees.chain import best_labellings
from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.learning.phases.crf_design import potentials
from bayesfield.model.conditional import CRF, as_sequences
from bayesfield.prediction import chain
from bayesfield.prediction.spans.schemes import Scheme, marks_spans
from bayesfield.types import InvalidInput

from tolerances import ALGEBRA

BIO = ("B-x", "I-x", "O")


def _problem(labels=BIO, seed=0, **options):
    rng = np.random.default_rng(seed)
    crf = CRF(labels, 3, **options)
    X = [rng.normal(size=(T, 3)) for T in (4, 2, 5, 1, 0, 3)]
    draws = 1.5 * rng.normal(size=(6, crf.n_parameters))
    return crf, X, draws


def _joint(crf, x, draws):
    """All labellings of one sequence by states, and their average probabilities."""
    data = as_sequences(crf, [x])
    every = list(itertools.product(range(len(crf.labels)), repeat=len(x)))
    total = np.zeros(len(every))
    for parameters in draws:
        node, edge = potentials(crf, data, parameters)
        scores = [
            sum(node[t, k] for t, k in enumerate(y)) + sum(edge[0, a, b] for a, b in itertools.pairwise(y))
            for y in every
        ]
        p = np.exp(np.array(scores, dtype=float) - np.max(scores, initial=-np.inf)) if len(x) else np.ones(1)
        total += p / p.sum() / len(draws)
    return every, total


def _projected(crf, x, draws):
    """The best labelling of the nearest chain, by enumeration: p(y_0, y_1) … / p(y_1) …"""
    every, p = _joint(crf, x, draws)
    K, T = len(crf.visible), len(x)
    every = [tuple(int(crf.owner[k]) for k in y) for y in every]
    single, double = np.zeros((T, K)), np.zeros((max(T - 1, 0), K, K))
    for y, q in zip(every, p, strict=True):
        for t, k in enumerate(y):
            single[t, k] += q
        for t, (a, b) in enumerate(itertools.pairwise(y)):
            double[t, a, b] += q
    best, score = (), -np.inf
    for y in itertools.product(range(K), repeat=T):
        value = np.prod([double[t, a, b] for t, (a, b) in enumerate(itertools.pairwise(y))]) if T > 1 else 1.0
        value = single[0, y[0]] if T == 1 else value / np.prod([max(single[t, y[t]], 1e-300) for t in range(1, T - 1)])
        if value > score * (1 + 1e-12):
            best, score = y, value
    return list(best)


@pytest.mark.parametrize(("labels", "options"), [(BIO, {}), (("a", "b"), {}), (("a", "b"), {"latent": 2})])
def test_it_is_the_best_labelling_of_the_nearest_chain(labels, options):
    for seed in range(4):
        crf, X, draws = _problem(labels, seed, **options)
        found = bf.average_over(crf, draws, X, "sequence")
        wanted = [_projected(crf, x, draws) for x in X]
        np.testing.assert_array_equal(found.labels, np.concatenate(wanted).astype(int))
        one_by_one = bf.average_over(crf, draws, X, "marginal")
        np.testing.assert_allclose(found.probabilities, one_by_one.probabilities, atol=ALGEBRA)
        np.testing.assert_allclose(found.unsettled, one_by_one.unsettled, atol=ALGEBRA)


def test_of_one_set_of_weights_it_is_the_best_labelling():
    """Which is the plug-in's, also where labels one by one differ from it."""
    differ = 0
    for seed in range(20):
        crf, X, draws = _problem(seed=seed)
        posterior = bf.fit_sequences(crf, X, [[BIO[k % 3] for k in range(len(x))] for x in X], correction="none")
        posterior.mode[:] = draws[0]
        frozen = posterior.at_temperature(0.0)
        plug_in = bf.predict_sequences(posterior, X, "map").labels
        np.testing.assert_array_equal(bf.predict_sequences(frozen, X, "sequence").labels, plug_in)
        np.testing.assert_array_equal(bf.average_over(crf, draws[:1], X, "sequence").labels, plug_in)
        differ += (bf.predict_sequences(frozen, X, "marginal").labels != plug_in).any()
    assert differ > 0


def test_what_is_known_of_the_labels_stays():
    for seed in range(4):
        crf, X, _ = _problem(seed=seed)
        posterior = bf.fit_sequences(crf, X, [[BIO[k % 3] for k in range(len(x))] for x in X], correction="none")
        known = [[None if t != 1 else {"B-x", "O"} for t in range(len(x))] for x in X]
        drawn = posterior.sample_predictive(5, 0)
        found = bf.predict_sequences(posterior, X, "sequence", 5, 0, y=known).labels
        allowed = [[{0, 2} if t == 1 else {0, 1, 2} for t in range(len(x))] for x in X]
        wanted = [_projected_given(crf, x, drawn, own) for x, own in zip(X, allowed, strict=True)]
        np.testing.assert_array_equal(found, np.concatenate(wanted).astype(int))


def _projected_given(crf, x, draws, allowed):
    """The average of the conditionals, p(y | known), not the conditional of the average."""
    every = list(itertools.product(range(len(crf.labels)), repeat=len(x)))
    possible = np.array([all(k in ok for k, ok in zip(y, allowed, strict=True)) for y in every])
    total = np.zeros(len(every))
    for parameters in draws:
        p = np.where(possible, _joint(crf, x, [parameters])[1], 0.0)
        total += p / p.sum()
    best, score = [], -np.inf
    for y in every:
        value = _chain_score(every, total / len(draws), y)
        if value > score * (1 + 1e-12):
            best, score = y, value
    return list(best)


def _chain_score(every, p, y):
    def share(first, last):
        return sum(q for other, q in zip(every, p, strict=True) if other[first:last] == y[first:last])

    T = len(y)
    if T <= 1:
        return share(0, T)
    return np.prod([share(t, t + 2) for t in range(T - 1)]) / max(
        np.prod([share(t, t + 1) for t in range(1, T - 1)]), 1e-300
    )


def test_where_plain_numbers_underflow():
    """Potentials 900 apart: the junction tree has the pairs."""
    crf = CRF(BIO, 2)
    X = [np.array([[900.0, 0.0], [0.0, -900.0], [1.0, 1.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])]
    draws = np.zeros((2, crf.n_parameters))
    draws[:, :6] = [[1, 0, 0, 0, 0, 1], [0, 1, 0, 0, 1, 0]]
    draws[0, 6:] = -800.0 * np.array([0, 0, 1, 0, 1, 1, 1, 0, 0])
    found = bf.average_over(crf, draws, X, "sequence")
    singly = [bf.average_over(crf, draws, [x], "sequence").labels for x in X]
    np.testing.assert_array_equal(found.labels, np.concatenate(singly))
    assert np.isfinite(found.probabilities).all()
    one = bf.average_over(crf, draws[:1], X, "sequence").labels
    two = bf.average_over(crf, draws[1:], X, "sequence").labels
    assert one[:3].tolist() != two[:3].tolist()
    mixed = found.probabilities[np.arange(5), one]
    assert (mixed > 0.0).all()


def test_runs_are_as_all_at_once(monkeypatch):
    crf, X, _ = _problem()
    y = [[BIO[k % 3] for k in range(len(x))] for x in X]
    posterior = bf.fit_sequences(crf, X * 3, y * 3, correction="none")
    whole = bf.predict_sequences(posterior, X * 3, "sequence", 7)
    monkeypatch.setattr(chain, "_PAIRS", 30)
    parts = bf.predict_sequences(posterior, X * 3, "sequence", 7)
    np.testing.assert_array_equal(parts.labels, whole.labels)
    np.testing.assert_allclose(parts.probabilities, whole.probabilities, atol=ALGEBRA)
    given = bf.average_over(crf, posterior.sample_predictive(7, 0), X * 3, "sequence")
    np.testing.assert_array_equal(given.labels, whole.labels)


@pytest.mark.parametrize(
    ("labels", "whole"),
    [
        (BIO, True),
        (("B", "I", "O"), True),
        (("B-x", "I-x"), True),
        (("B-a", "E-a", "I-a", "O", "S-a"), True),
        (("noun", "verb"), False),
        (("O", "noun", "B-x"), False),
        (("O",), False),
        (("B-a", "E-a", "L-a"), False),
        ((0, 1), False),
    ],
)
def test_auto_goes_by_the_labels(labels, whole):
    assert marks_spans(labels) is whole
    crf = CRF(labels, 2)
    X = [np.eye(2)[[0, 1, 0, 1]]] * 3
    y = [[labels[k % len(labels)] for k in range(4)]] * 3
    posterior = bf.fit_sequences(crf, X, y, correction="none")
    found = bf.predict_sequences(posterior, X, n_draws=5)
    same = bf.predict_sequences(posterior, X, "sequence" if whole else "marginal", n_draws=5)
    np.testing.assert_array_equal(found.labels, same.labels)


def test_no_label_contradicts_the_one_before():
    """In training an inside follows a beginning or an inside; with a narrow width on that, whole labellings keep to it,
    and labels one by one do not."""
    rng = np.random.default_rng(3)
    X, y = [], []
    for _ in range(60):
        labels = []
        while len(labels) < 12:
            labels += ["O"] * int(rng.integers(1, 3)) + ["B-x", *["I-x"] * int(rng.integers(0, 3))]
        X.append([{"z": float(BIO.index(label)) + rng.normal(0, 1.2), "one": 1.0} for label in labels])
        y.append(labels)
    kinds = {predictor: bf.BayesianCRF(predictor=predictor).fit(X[:30], y[:30]) for predictor in ("marginal", "auto")}
    broken = {}
    for name, crf in kinds.items():
        every = crf.predict(X[30:])
        broken[name] = sum(a == "O" and b == "I-x" for own in every for a, b in itertools.pairwise(["O", *own]))
    assert broken["auto"] == 0
    assert broken["marginal"] > 0
    labels = [Scheme(BIO).spans(own) for own in kinds["auto"].predict(X[30:])]
    assert [[tuple(s[:3]) for s in own] for own in kinds["auto"].predict_spans(X[30:])] == [
        list(map(tuple, own)) for own in labels
    ]


def test_graphs_have_none():
    graphs = [(np.ones((2, 1)), np.array([[0, 1]]))] * 2
    crf = bf.GraphCRF(correction="none").fit(graphs, [["B", "I"], ["B", "O"]])
    assert crf.predict(graphs)
    with pytest.raises(InvalidInput, match="chains as wholes"):
        crf.set_params(predictor="sequence").predict(graphs)


def test_one_best_labelling_is_the_first_of_several():
    """Small whole numbers, so that there are ties; an impossible label; lengths 0, 1 and more; two tables."""
    rng = np.random.default_rng(0)
    for K in (2, 3, 5):
        ptr, which = np.array([0, 4, 4, 5, 12]), rng.integers(0, 2, 12)
        node, edge = rng.integers(-2, 3, (12, K)).astype(float), rng.integers(-2, 3, (2, K, K)).astype(float)
        node[3, 0] = edge[1, 0, 1] = -np.inf
        chains = ChainArrays(ptr, which)
        one, several = best_labellings(chains, node, edge), best_labellings(chains, node, edge, 3)
        np.testing.assert_array_equal(one[0][0], several[0][0])
        np.testing.assert_array_equal(one[1][:, 0], several[1][:, 0])
