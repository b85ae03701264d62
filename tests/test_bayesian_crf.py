"""The estimator: sklearn-crfsuite's inputs and outputs, scikit-learn's contract, and how sure it is."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import bayesfield as bf
from bayesfield.estimators.crf import BayesianCRF
from bayesfield.types import InvalidInput

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


def test_attributes_never_seen_unsettle_where_they_count(fitted, corpus):
    """A word of no known attribute: the mean of the normal noise is zero, so that its labels stay about as likely; what
    it could mean is unknown. Words that training had are as they were."""
    strange, known = items(["the", "xyzzy"]), items(["the", "dog"])
    plain, counted = fitted.uncertainty([strange])[0], fitted.uncertainty([strange], unseen=True)[0]
    assert counted["unsettled"].iloc[1] > plain["unsettled"].iloc[1] + 0.05
    np.testing.assert_allclose(counted["open"] + counted["unsettled"], counted["entropy"], atol=1e-12)
    pd.testing.assert_frame_equal(fitted.uncertainty([known])[0], fitted.uncertainty([known], unseen=True)[0])
    with pytest.raises(InvalidInput, match="sequences of items"):
        clone(fitted).set_params(predictor="map").fit(*corpus).uncertainty([strange], unseen=True)
    with pytest.raises(InvalidInput, match="one for all or by template"):
        clone(fitted).set_params(prior=bf.Normal({"state": 1.0, "transition": 2.0})).fit(*corpus).uncertainty(
            [strange], unseen=True
        )


def test_attributes_never_seen_have_their_template_s_variance(corpus):
    """A wide template's new word unsettles a position more than a narrow one's; of a new template both are alike."""
    unsettled = {}
    for wide in (0.01, 9.0):
        crf = bf.BayesianCRF(1.0, correction="none").fit(*corpus)
        templates = dict.fromkeys(set(crf.crf_.template_of), 1.0) | {"word": wide}
        crf = bf.BayesianCRF(bf.Templates(templates), correction="none").fit(*corpus)
        for name in ("word:xyzzy", "other:xyzzy"):
            plain, counted = (crf.uncertainty([[[name]]], unseen=u)[0]["unsettled"].iloc[0] for u in (False, True))
            unsettled[wide, name] = counted - plain
    assert abs(unsettled[0.01, "word:xyzzy"]) < 0.02
    assert unsettled[9.0, "word:xyzzy"] > unsettled[9.0, "other:xyzzy"] > 0.05
    assert unsettled[0.01, "other:xyzzy"] > 0.05


def test_awkward_sequences(fitted):
    """Empty ones, items without attributes, attributes never seen: an answer for every position."""
    found = fitted.predict([[], items(["the"]), [{}, {"new": 1.0}, ["word:dog"]]])
    assert [len(s) for s in found] == [0, 1, 3]
    assert found[2][2] == "N"
    assert fitted.predict([]) == []


def test_scikit_learns_contract(corpus):
    X, y = corpus
    crf = BayesianCRF(prior=0.5, correction="none", predictor="map")
    again = clone(crf)
    assert again.get_params() == crf.get_params()
    assert again.set_params(n_draws=7).n_draws == 7
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
        BayesianCRF(correction="mean", n_draws=20).fit(X[:10], y[:10]).predict_marginals(X[:2]) for _ in range(2)
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
        ([[[0.1, 0.2], [0.3]]], [["A", "B"]], "0.1 is a number"),
        ([np.ones((2, 2)), np.ones((1, 3))], [["A", "B"], ["A"]], "sequence 1: inputs need 2 columns"),
        ([np.array([[1.0, np.nan]])], [["A"]], "finite"),
        ([(np.ones((2, 1)), [[0, 2]])], [["A", "B"]], "edges join two different nodes from 0 to 1"),
        ([(np.ones((2, 1)), [[0, 1]])], [["A"]], "2 positions and 1 labels"),
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


def test_weights_with_their_widths(fitted):
    state, pairs = fitted.state_weights_, fitted.transition_weights_
    assert state.loc[("word:dog", "N"), "sd"] > 0
    assert state["mean"].to_dict() == fitted.state_features_
    assert list(pairs.index.names) == ["first", "second"]
    assert len(state) + len(pairs) == len(fitted.posterior_.mean)


def test_best_labellings_by_their_probability(fitted, corpus):
    X, _ = corpus
    for own, sequence in zip(fitted.predict_best([*X[:2], []], count=3), [*X[:2], []], strict=True):
        chances = [p for _, p in own]
        assert chances == sorted(chances, reverse=True)
        assert 0 < sum(chances) <= 1 + 1e-9
        assert all(len(labels) == len(sequence) for labels, _ in own)
        assert len({tuple(labels) for labels, _ in own}) == len(own)
    every = fitted.predict_best([items(["the"])], count=10)[0]
    assert sum(p for _, p in every) == pytest.approx(1.0)  # four labels, four labellings
    marginal = fitted.predict_marginals([items(["the"])])[0][0]
    for labels, p in every:
        assert p == pytest.approx(marginal[labels[0]])


def test_variance_by_cross_validation(corpus):
    X, y = corpus
    noisy = [["N" if k % 7 == 0 else label for k, label in enumerate(s)] for s in y]
    crf = BayesianCRF("cv", correction="none").fit(X, noisy)
    assert 0.01 <= crf.variance_ <= 10.0
    with pytest.raises(bf.InvalidInput, match='prior is a variance, "evidence", "cv", "ard"'):
        BayesianCRF("wide").fit(X, y)


def test_arrays_as_sequences():
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(T, 2)) for T in (4, 5, 3, 6)]
    y = [(x[:, 0] > 0).astype(int) for x in X]
    crf = BayesianCRF(correction="none").fit(X, y)
    assert crf.attributes_ == ["x0", "x1"]
    assert crf.score(X, y) > 0.9
    assert crf.predict([sparse.csr_array(X[0])]) == crf.predict(X[:1])
    with pytest.raises(bf.InvalidInput, match="need 2 columns"):
        crf.predict([np.ones((2, 3))])


def squares(seed, count, edge_features=False):
    """Labels that agree along edges more often than not, and one noisy feature a node."""
    rng, graphs, labels = np.random.default_rng(seed), [], []
    edges = np.array([(0, 1), (1, 2), (3, 2), (0, 3), (0, 4)])
    for _ in range(count):
        common = rng.integers(2)
        y = np.where(rng.random(5) < 0.15, 1 - common, common)
        x = np.stack([2.0 * y - 1 + rng.normal(size=5), np.ones(5)], axis=1)
        graphs.append((x, edges, np.ones((5, 1))) if edge_features else (x, edges))
        labels.append(["up" if v else "down" for v in y])
    return graphs, labels


@pytest.mark.parametrize("engine", ["auto", bf.Exact(), "bethe"])
def test_graphs_in_pystructs_shape(engine):
    X, y = squares(0, 40)
    crf = BayesianCRF(engine=engine, correction="none").fit(X, y)
    assert crf.classes_ == ["down", "up"]
    assert crf.crf_.n_parameters == 2 * 2 + 3  # symmetric pairs
    new, truth = squares(1, 20)
    assert crf.score(new, truth) > 0.8
    weights = crf.transition_features_
    assert weights["up", "up"] > weights["down", "up"]
    assert [len(p) for p in crf.predict_marginals(new[:2])] == [5, 5]
    assert crf.uncertainty(new[:1])[0]["unsettled"].min() >= 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bf.FitWarning)  # max-product on the super-graph need not settle
        for predictor in ("map", "vote", "weighted_vote", "supergraph", "quadratic"):
            assert crf.set_params(predictor=predictor, n_draws=10).score(new, truth) > 0.75
    with pytest.raises(bf.InvalidInput, match="sequences, not for graphs"):
        crf.predict_best(new)
    assert cross_val_score(BayesianCRF(correction="none", predictor="map"), X, y, cv=2).mean() > 0.7


def test_graphs_with_edge_features_and_directions():
    X, y = squares(2, 30, edge_features=True)
    crf = BayesianCRF(correction="none", directed=True).fit(X, y)
    assert crf.crf_.n_parameters == 2 * 2 + 4
    assert ("z0", "up", "down") in crf.transition_features_
    plain = BayesianCRF(correction="none", directed=True).fit([g[:2] for g in X], y)
    np.testing.assert_allclose(crf.posterior_.mean, plain.posterior_.mean, atol=1e-6)  # all features are 1
    with pytest.raises(bf.InvalidInput, match="give all or none"):
        BayesianCRF().fit([X[0], X[1][:2]], y[:2])
    chosen = BayesianCRF("cv", correction="none", directed=True).fit(X, y)
    assert 0.01 <= chosen.variance_ <= 10.0


def test_a_predictor_that_is_not_to_be_trusted_warns(corpus):
    X, y = corpus
    crf = BayesianCRF(prior=100.0, correction="none", predictor="quadratic").fit(X[:2], y[:2])
    with pytest.warns(bf.FitWarning, match="average marginals instead"):
        crf.predict(X[:1])


def test_an_engine_is_for_graphs(corpus):
    with pytest.raises(bf.InvalidInput, match='inference on sequences is exact: leave engine at "auto"; got Bethe'):
        BayesianCRF(engine=bf.Bethe()).fit(*corpus)


def test_labels_never_met(corpus):
    """They count as wrong in a score; to learn from them is to fit anew."""
    X, y = corpus
    crf = BayesianCRF(correction="none").fit(X[:5], y[:5])
    assert crf.score(X[:1], [["?"] * len(X[0])]) == 0.0


@pytest.mark.parametrize("variance", ["evidence", "ard"])
def test_the_data_choose_variances(variance):
    """An attribute that says nothing is dropped by "ard"; both predict as well as a given variance."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(40):
        labels = rng.integers(0, 2, 8)
        X.append([{"tells": 1.5 * (v - 0.5) + rng.normal(), "noise": rng.normal()} for v in labels])
        y.append([str(v) for v in labels])
    crf = bf.BayesianCRF(prior=variance, correction="none").fit(X, y)
    if variance == "ard":
        assert crf.variance_["noise"] == 0.0
        assert crf.variance_["tells"] > 0.0
    else:
        assert 0.0 < crf.variance_ < 100.0
    assert crf.score(X, y) > bf.BayesianCRF(correction="none").fit(X, y).score(X, y) - 0.03


def test_a_pickle_leaves_the_data_out():
    X, y = [[{"w": 1.0}, {"v": 1.0}]] * 200, [["a", "b"]] * 200
    crf = bf.BayesianCRF(correction="none").fit(X, y)
    again = pickle.loads(pickle.dumps(crf))
    assert again.predict(X[:1]) == crf.predict(X[:1])
    assert again.posterior_.objective is None
    assert crf.posterior_.objective is not None
    with pytest.raises(bf.InvalidInput, match="without its data"):
        _ = again.posterior_.log_evidence
