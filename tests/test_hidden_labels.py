"""CRFs whose labels are not all known: against enumeration of labellings, as a graph, and through the estimator."""

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import bayesfield as bf
from bayesfield.learning.objective import gaussian
from bayesfield.learning.phases.graphs import graph_objective
from bayesfield.learning.phases.sequences import sequence_objective
from bayesfield.model.prior import Normal

from naive import differences
from tolerances import ALGEBRA

LABELS, D = ("a", "b", "c"), 2
LENGTHS = (4, 1, 3, 2)


def sequences(seed=0, lengths=LENGTHS):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(T, D)) for T in lengths]


PARTLY = [["a", None, {"b", "c"}, None], [None], ["b", pd.NA, float("nan")], ["a", "a"]]


def naive(crf, X, y, variance):
    """−log posterior by summing over every labelling (of the states) that what is known allows."""
    K = len(crf.labels)

    def fits(known, state):
        visible = crf.visible[crf.owner[state]]
        if isinstance(known, set):
            return visible in known
        return known is None or known is pd.NA or known != known or known == visible

    def value(parameters):
        W, V = crf.split(parameters)
        total = 0.0
        for x, known in zip(X, y, strict=True):
            all_of, agreeing = [], []
            for labels in itertools.product(range(K), repeat=len(x)):
                score = sum(x[t] @ W[:, k] for t, k in enumerate(labels))
                score += sum(V.reshape(K, K)[i, j] for i, j in itertools.pairwise(labels))
                all_of.append(score)
                if all(fits(a, k) for a, k in zip(known, labels, strict=True)):
                    agreeing.append(score)
            total += np.logaddexp.reduce(agreeing) - np.logaddexp.reduce(all_of)
        return -total + 0.5 * (parameters**2).sum() / variance

    return value


@pytest.mark.parametrize("latent", [1, 2])
def test_objective_against_enumeration(latent):
    """Value to 1e-10, gradient and curvature to 1e-6 by finite differences."""
    crf, X = bf.CRF(LABELS[: 3 if latent == 1 else 2], D, latent=latent), sequences()
    y = PARTLY if latent == 1 else [["a", None, "b", "b"], [None], ["b", "a", None], ["a", "a"]]
    objective = sequence_objective(crf, bf.as_sequences(crf, X, y), gaussian(Normal(variance=0.7), crf))
    assert objective.hidden
    here = np.random.default_rng(1).normal(size=crf.n_parameters)
    oracle, point = naive(crf, X, y, 0.7), objective.at(here)
    assert point.value == pytest.approx(oracle(here), rel=ALGEBRA)
    np.testing.assert_allclose(point.gradient, differences(oracle, here), rtol=1e-6, atol=1e-6)
    rest = point.gradient - point.answers[0].mean + objective.observed_mean(here)
    np.testing.assert_allclose(rest, here / 0.7, atol=1e-12)
    slopes = differences(lambda p: objective.at(p).gradient, here)
    np.testing.assert_allclose(objective.curvature(point), slopes, rtol=1e-6, atol=1e-6)


def test_open_labels_as_a_graph():
    """The same chains as graphs, through the general clamped phase."""
    crf, X = bf.CRF(LABELS, D), sequences(2, (5, 4, 6, 3, 5, 5))
    rng = np.random.default_rng(3)
    y = [[str(rng.choice(LABELS)) if rng.random() < 0.7 else None for _ in x] for x in X]
    chains = bf.fit_sequences(crf, X, y, correction="none")
    graphs = [(x, np.stack([np.arange(len(x) - 1), np.arange(1, len(x))], axis=1)) for x in X]
    same = bf.fit_graphs(crf, graphs, y, correction="none", engine=bf.Exact())
    np.testing.assert_allclose(same.mean, chains.mean, atol=1e-5)
    np.testing.assert_allclose(same.sd, chains.sd, rtol=1e-4)
    assert same.record.log_likelihood == pytest.approx(chains.record.log_likelihood, abs=1e-6)
    one = bf.predict_sequences(chains, X, "map", y=y)
    two = bf.predict_graphs(same, graphs, "map", y=y)
    np.testing.assert_allclose(one.probabilities, two.probabilities, atol=1e-5)
    np.testing.assert_array_equal(one.labels, two.labels)
    flat = [label for own in y for label in own]
    assert all(LABELS[k] == label for k, label in zip(one.labels, flat, strict=True) if label is not None)


@pytest.mark.parametrize("latent", [1, 2])
def test_sets_of_labels_on_graphs(latent):
    """A label that is one of a few, or has several states: the same as for the chain, and as by enumeration."""
    crf, X = bf.CRF(LABELS, D, latent=latent), sequences(lengths=(3, 1, 3, 2))
    y = [["a", {"b", "c"}, None], [None], ["b", {"a", "c"}, {"a", "b"}], ["a", "a"]]
    graphs = [(x, np.stack([np.arange(len(x) - 1), np.arange(1, len(x))], axis=1)) for x in X]
    prior = gaussian(Normal(variance=0.7), crf)
    chain = sequence_objective(crf, bf.as_sequences(crf, X, y), prior)
    graph = graph_objective(crf, bf.as_graphs(crf, graphs, y), prior, bf.Exact())
    here = np.random.default_rng(1).normal(size=crf.n_parameters)
    one, two = chain.at(here), graph.at(here)
    assert two.value == pytest.approx(naive(crf, X, y, 0.7)(here), rel=ALGEBRA)
    np.testing.assert_allclose(two.gradient, one.gradient, atol=1e-9)
    np.testing.assert_allclose(graph.curvature(two), chain.curvature(one), atol=1e-8)


def test_prediction_given_some_labels():
    """Averaged marginals of open labels given the known ones, by enumeration at each draw."""
    crf, X = bf.CRF(LABELS, D), sequences(4, (4, 3))
    posterior = bf.fit_sequences(crf, X, [list("abca"), list("bca")], correction="none")
    y = [["a", None, {"b", "c"}, None], [None, "b", None]]
    found = bf.predict_sequences(posterior, X, n_draws=7, rng=5, y=y)
    expected = np.zeros((7, 3))
    for parameters in posterior.sample(7, 5):
        W, V = crf.split(parameters)
        at = 0
        for x, known in zip(X, y, strict=True):
            table, total = np.zeros((len(x), 3)), 0.0
            for labels in itertools.product(range(3), repeat=len(x)):
                named = [LABELS[k] for k in labels]
                if all(
                    a is None or b == a or (isinstance(a, set) and b in a) for a, b in zip(known, named, strict=True)
                ):
                    weight = np.exp(sum(x[t] @ W[:, k] for t, k in enumerate(labels))
                                    + sum(V.reshape(3, 3)[i, j] for i, j in itertools.pairwise(labels)))  # fmt: skip
                    total += weight
                    table[np.arange(len(x)), labels] += weight
            expected[at : at + len(x)] += table / total / 7
            at += len(x)
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-10)


def test_latent_states_find_what_one_state_cannot():
    """Labels in runs of four: the second half of a run is told from the first by nothing that is seen.

    The objective is rugged: of eight starts none reaches the optimum that twelve find, and 24 find no better.
    """
    rng = np.random.default_rng(6)
    run = "aaaabbbb"
    y = [list((run * 4)[k : k + 24]) for k in rng.integers(0, 8, 25)]
    X = [np.ones((24, 1)) for _ in y]
    seen = [[label if rng.random() < 0.7 else None for label in own] for own in y]
    plain, latent = bf.CRF("ab", 1), bf.CRF("ab", 1, latent=4)
    fits = [bf.fit_sequences(c, X, seen, Normal(variance=9.0), correction="none", starts=s)
            for c, s in ((plain, 1), (latent, 12))]  # fmt: skip
    losses = []
    for crf, posterior in zip((plain, latent), fits, strict=True):
        found = bf.predict_sequences(posterior, X, "map", y=seen)
        truth = np.array([crf.visible.index(label) for own in y for label in own])
        hidden = np.array([label is None for own in seen for label in own])
        losses.append(-np.log(found.probabilities[np.arange(len(truth)), truth])[hidden].mean())
        assert found.probabilities.shape == (len(truth), 2)
    assert losses[1] < 0.6 * losses[0]
    assert len(fits[1].record.starts.ended) == 12
    assert "12 starts" in str(fits[1].record)


def test_estimator_with_missing_labels():
    X = [[{"word": w, "first": w[0]} for w in line.split()] for line in ("the cat sat", "a dog ran", "the dog sat")]
    y = [["D", "N", "V"], ["D", None, "V"], [None, "N", {"V", "N"}]]
    model = bf.BayesianCRF().fit(X, y)
    assert model.classes_ == ["D", "N", "V"]
    filled = model.impute(X, y)
    assert filled == [["D", "N", "V"]] * 3
    rows = model.impute_marginals(X, y)
    assert rows[0][0] == {"D": 1.0, "N": 0.0, "V": 0.0}
    assert rows[2][2]["D"] == 0.0
    assert 0.5 < rows[1][1]["N"] < 1.0
    assert model.predict(X)[0] == ["D", "N", "V"]
    deep = clone(model).set_params(latent=2).fit(X, y)
    assert len(deep.state_weights_) == len(deep.attributes_) * 6
    assert sum(deep.predict_marginals(X)[0][0].values()) == pytest.approx(1.0)


BAD = {
    "all open": (lambda c, X: bf.fit_sequences(c, X, [[None] * len(x) for x in X]), "no label is known"),
    "empty set": (lambda c, X: bf.as_sequences(c, X, [[set()] * len(x) for x in X]), "empty set"),
    "strange": (lambda c, X: bf.as_sequences(c, X, [[{"a", "q"}] * len(x) for x in X]), "label 'q'"),
    "ep": (lambda c, X: bf.fit_sequences(c, X, PARTLY, method="ep"), "propagation is for .* all labels known"),
    "margin": (lambda c, X: bf.max_margin(c, X, PARTLY), "max-margin training needs all labels"),
    "block": (lambda c, X: bf.fit_sequences(c, X, PARTLY, form="block"), "needs sequences, all of their labels"),
    "langevin": (lambda c, X: bf.sample_sequences(c, X, PARTLY, sampler=bf.Langevin()), "needs all labels"),
    "latent": (lambda c, X: bf.CRF("ab", 2, latent=0), "latent is the number of states"),
    "starts": (lambda c, X: bf.fit_sequences(c, X, PARTLY, starts=0), "starts is a whole number"),
    "no labels": (lambda c, X: bf.BayesianCRF().fit([[{"w": 1}]], [[None]]), "no label is known"),
    "strange set on graphs": (lambda c, X: bf.as_graphs(c, [(X[1], [])], [[{"a", "q"}]]), "label 'q'"),
    "graphs without labels": (lambda c, X: bf.fit_graphs(c, [(X[1], [])], [[None]]), "no label is known"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    act, words = BAD[name]
    with pytest.raises(bf.InvalidInput, match=words):
        act(bf.CRF(LABELS, D), sequences())


def test_sampled_posterior_with_open_labels():
    """NUTS on the same density: means within 5 Monte-Carlo errors and a tenth of a sd (the correction's own error)."""
    crf, rng = bf.CRF("ab", 2), np.random.default_rng(8)
    X = [rng.normal(size=(6, 2)) for _ in range(40)]
    y = [["ab"[int(v > 0)] if rng.random() < 0.6 else None for v in x[:, 0] + rng.normal(size=6)] for x in X]
    posterior = bf.fit_sequences(crf, X, y, correction="variational")
    draws = bf.sample_sequences(crf, X, y, n_draws=1000, chains=2, rng=1)
    table = draws.summary()
    np.testing.assert_array_less(np.abs(posterior.mean - table["mean"]), 5 * table["mcse"] + 0.1 * table["sd"])
    np.testing.assert_allclose(posterior.sd, table["sd"], rtol=0.15)
