"""The estimator: sklearn-crfsuite's inputs and outputs, scikit-learn's contract, and how sure it is."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import bayesfield as bf
from bayesfield.estimators import BayesianCRF

WORDS = {"the": "D", "a": "D", "dog": "N", "cat": "N", "barks": "V", "sleeps": "V", "old": "A", "big": "A"}


def sentence(rng):
    words = [rng.choice(["the", "a"]), *rng.choice(["old", "big"], rng.integers(0, 3)), rng.choice(["dog", "cat"])]
    words.append(rng.choice(["barks", "sleeps"]))
    return [str(w) for w in words]


def items(words):
    return [{"word": w, "length": len(w) / 5, "first": t == 0} for t, w in enumerate(words)]


@pytest.fixture(scope="module")
def corpus():
    rng = np.random.default_rng(0)
    sentences = [sentence(rng) for _ in range(40)]
    return [items(s) for s in sentences], [[WORDS[w] for w in s] for s in sentences]


@pytest.fixture(scope="module")
def fitted(corpus):
    return BayesianCRF(correction="none").fit(*corpus)


def test_learns_and_says_so(fitted, corpus):
    X, y = corpus
    assert fitted.classes_ == ["A", "D", "N", "V"]
    assert fitted.score(X, y) == 1.0
    assert fitted.predict_single(items(["the", "big", "dog", "sleeps"])) == ["D", "A", "N", "V"]
    weights = fitted.state_features_
    assert weights["word:dog", "N"] > weights["word:dog", "V"]
    assert fitted.transition_features_["D", "N"] > fitted.transition_features_["V", "N"]
    table = fitted.summary()
    assert (table["sd"] > 0).all()
    assert table.loc["word:dog:N", "mean"] == pytest.approx(weights["word:dog", "N"])
    assert fitted.n_iter_ > 0


def test_marginals_and_uncertainty(fitted, corpus):
    X, _ = corpus
    found = fitted.predict_marginals(X[:3])
    assert [len(s) for s in found] == [len(s) for s in X[:3]]
    for position in found[0]:
        assert sum(position.values()) == pytest.approx(1.0)
        assert set(position) == set(fitted.classes_)
    known, strange = fitted.uncertainty([items(["the", "dog"]), items(["xyzzy", "plugh"])])
    assert list(known.columns) == ["label", "probability", "entropy", "open", "unsettled", "disagreement"]
    assert strange["entropy"].mean() > known["entropy"].mean()
    np.testing.assert_allclose(known["open"] + known["unsettled"], known["entropy"], atol=1e-12)
    assert fitted.predict_marginals_single(X[0])[0].keys() == found[0][0].keys()


def test_awkward_sequences(fitted):
    """Empty ones, items without attributes, attributes never seen: an answer for every position."""
    found = fitted.predict([[], items(["the"]), [{}, {"new": 1.0}, ["word:dog"]]])
    assert [len(s) for s in found] == [0, 1, 3]
    assert found[2][2] == "N"
    assert fitted.predict([]) == []


def test_scikit_learns_contract(corpus):
    X, y = corpus
    crf = BayesianCRF(variance=0.5, correction="none", predictor="map")
    again = clone(crf)
    assert again.get_params() == crf.get_params()
    assert again.set_params(draws=7).draws == 7
    scores = cross_val_score(crf, X, y, cv=3)
    assert scores.mean() > 0.95

    class Shout(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            return self

        def transform(self, X):
            return [[{**item, "loud": True} for item in s] for s in X]

    piped = make_pipeline(Shout(), BayesianCRF(correction="none")).fit(X, y)
    assert piped.predict(X[:1]) == [y[0]]
    with pytest.raises(NotFittedError):
        BayesianCRF().predict(X)


def test_same_seed_same_numbers(corpus):
    X, y = corpus
    one, other = (
        BayesianCRF(correction="mean", draws=20).fit(X[:10], y[:10]).predict_marginals(X[:2]) for _ in range(2)
    )
    assert one == other


def test_correction_moves_the_mean(corpus):
    X, y = corpus
    plain = BayesianCRF(correction="none").fit(X[:8], y[:8]).posterior_
    moved = BayesianCRF(correction="variational").fit(X[:8], y[:8]).posterior_
    assert np.linalg.norm(moved.mean) > np.linalg.norm(plain.mean)
    assert moved.record.correction.kind == "variational"


def test_labels_of_any_kind():
    X = [[["u"], ["v"]], [["v"], ["u"]]]
    crf = BayesianCRF(correction="none").fit(X, [[1, 0], [0, 1]])
    assert crf.classes_ == [0, 1]
    assert crf.predict([[["u"]]]) == [[1]]


@pytest.mark.parametrize(
    ("X", "y", "text"),
    [
        ([{"a": 1}], [["A"]], "no sequence"),
        ("abc", [["A"]], "list of sequences"),
        ([[{"a": 1}]], ["A"], "no sequence"),
        ([[{"a": 1}]], [["A", "B"]], "1 positions and 2 labels"),
        ([[{"a": 1}]], [["A"], ["B"]], "1 sequences of inputs and 2"),
        ([[{"a": 1}]], [[]], "nothing to learn"),
        ([["abc"]], [["A"]], "an item is a dict"),
    ],
)
def test_bad_input_is_refused(X, y, text):
    with pytest.raises(bf.InvalidInput, match=text):
        BayesianCRF().fit(X, y)


def test_stopping_early_warns(corpus):
    X, y = corpus
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        BayesianCRF(method="lbfgs", max_iterations=1, correction="none").fit(X, y)
    assert any(issubclass(w.category, bf.FitWarning) for w in caught)
