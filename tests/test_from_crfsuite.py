"""crfsuite: with the same penalty the same weights, labels and marginals, to the precision of its optimiser.

crfsuite's objective is −Σ log p(y|x) + c2 |w|² (with ``c1`` = 0); ours at its mode −Σ log p(y|x) + |w|² / (2 variance).
"""

import pickle

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.experiments.paper.lines import FEATURES, standard_library

pycrfsuite = pytest.importorskip("pycrfsuite")

WEIGHTS = 1e-4  # of the prior's standard deviation: crfsuite stops when its objective hardly changes any more
PROBABILITIES = 1e-4
TIGHT = {"max_iterations": 10_000, "epsilon": 1e-12, "delta": 1e-14, "period": 50}
ALL = {"feature.possible_states": True, "feature.possible_transitions": True}

CONLL = """
the D O\ndog N B-ANIMAL\nbarks V O

a D O\nbig A B-ANIMAL\ncat N I-ANIMAL\nsleeps V O

Anna N B-PERSON\nsees V O\nthe D O\nold A B-ANIMAL\ndog N I-ANIMAL

Ben N B-PERSON\nBerg N I-PERSON\nsleeps V O

the D O\ncat N B-ANIMAL\nsees V O\nAnna N B-PERSON\nBerg N I-PERSON

a D O\nman N O\nbarks V O
"""


def trained(X, y, c2, folder, **options):
    """A tagger of crfsuite, and its weights: ({(attribute, label): w}, {(label, label): w})."""
    trainer = pycrfsuite.Trainer("lbfgs", {"c1": 0.0, "c2": c2, **TIGHT, **options}, verbose=False)
    for items, labels in zip(X, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(items), labels)
    trainer.train(str(folder / "model.crfsuite"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(folder / "model.crfsuite"))
    return tagger, tagger.info()


def lines(count, length):
    files = standard_library(count=count, lines=length)
    X = [[{n: 1.0 for n, there in zip(FEATURES, row, strict=True) if there} for row in f.features] for f in files]
    return X, [[str(label) for label in f.labels] for f in files]


def sentences(folder):
    path = folder / "animals.conll"
    path.write_text(CONLL.strip().replace(" ", "\t") + "\n", encoding="utf-8")
    return bf.read_conll(path, columns=["word", "pos", "name"], features=1)


@pytest.fixture(params=["lines of the standard library", "words in CoNLL columns", "attributes with numbers"])
def corpus(request, tmp_path):
    if request.param.startswith("lines"):
        return lines(12, 150)
    X, y = sentences(tmp_path)
    if request.param.endswith("numbers"):
        return [[{**item, "length": len(item["word"]) / 4, "first": t == 0} for t, item in enumerate(s)] for s in X], y
    return X, y


@pytest.mark.parametrize("c2", [0.05, 1.0])
def test_the_mode_is_crfsuites_answer(corpus, c2, tmp_path):
    X, y = corpus
    tagger, info = trained(X, y, c2, tmp_path, **ALL)
    variance = 1 / (2 * c2)
    ours = bf.BayesianCRF(variance, correction="none", predictor="map").fit(X, y)
    assert sorted(ours.classes_) == sorted(tagger.labels())

    for here, there in ((ours.state_features_, info.state_features), (ours.transition_features_, info.transitions)):
        # crfsuite leaves weights of 0 out of its file
        assert set(there) <= set(here)
        differences = [abs(w - there.get(name, 0.0)) for name, w in here.items()]
        assert max(differences) < WEIGHTS * np.sqrt(variance)

    assert ours.predict(X) == [tagger.tag(pycrfsuite.ItemSequence(items)) for items in X]
    for items, own in zip(X, ours.predict_marginals(X), strict=True):
        tagger.set(pycrfsuite.ItemSequence(items))
        for t, chances in enumerate(own):
            for label, p in chances.items():
                assert p == pytest.approx(tagger.marginal(label, t), abs=PROBABILITIES)


def test_attributes_have_the_same_names(tmp_path):
    """Strings, numbers, booleans and lists of attributes mean the same on both sides."""
    X = [[{"word": "dog", "length": 0.75, "first": True}, ["plain", "list"]], [{"word": "cat"}, ["list"]]]
    y = [["a", "b"], ["a", "b"]]
    _, info = trained(X, y, 0.5, tmp_path, **ALL)
    crf = bf.BayesianCRF(1.0, correction="none").fit(X, y)
    assert sorted(info.attributes) == sorted(crf.attributes_)


def test_without_all_possible_states_there_are_fewer_weights(tmp_path):
    """crfsuite's default has weights only for what occurred: another model, with other weights."""
    X, y = sentences(tmp_path)
    _, some = trained(X, y, 1.0, tmp_path)
    crf = bf.BayesianCRF(0.5, correction="none").fit(X, y)
    assert len(some.state_features) < len(crf.state_features_)
    common = [abs(crf.state_features_[name] - w) for name, w in some.state_features.items()]
    assert max(common) > 0.02


def test_the_corrected_mean_is_not_the_mode_which_stays_crfsuites(tmp_path):
    X, y = sentences(tmp_path)
    _, info = trained(X, y, 0.5, tmp_path, **ALL)
    posterior = bf.BayesianCRF(1.0, correction="mean").fit(X, y).posterior_
    there = {f"{a}:{b}": w for (a, b), w in info.state_features.items()}
    names = posterior.summary().index
    at = [i for i, name in enumerate(names) if name in there]
    assert len(at) > 50
    wanted = [there[names[i]] for i in at]
    np.testing.assert_allclose(posterior.mode[at], wanted, atol=WEIGHTS)
    assert np.abs(posterior.mean[at] - wanted).max() > 0.05


def test_sklearn_crfsuite_side_by_side(tmp_path):
    """The estimator of sklearn-crfsuite itself, and its metrics on our answers."""
    sklearn_crfsuite = pytest.importorskip("sklearn_crfsuite")
    from sklearn_crfsuite import metrics

    X, y = lines(10, 120)
    there = sklearn_crfsuite.CRF(
        algorithm="lbfgs", c1=0.0, c2=0.1, all_possible_states=True, all_possible_transitions=True, **TIGHT
    ).fit(X[:8], y[:8])
    here = bf.BayesianCRF(prior=5.0, correction="none", predictor="map").fit(X[:8], y[:8])
    assert set(there.classes_) == set(here.classes_)
    assert set(there.state_features_) == set(here.state_features_)
    for name, w in there.state_features_.items():
        assert here.state_features_[name] == pytest.approx(w, abs=WEIGHTS * np.sqrt(5.0))
    for name, w in there.transition_features_.items():
        assert here.transition_features_[name] == pytest.approx(w, abs=WEIGHTS * np.sqrt(5.0))
    assert here.predict(X[8:]) == [list(labels) for labels in there.predict(X[8:])]  # arrays from 0.4 on
    for own, other in zip(here.predict_marginals(X[8:]), there.predict_marginals(X[8:]), strict=True):
        assert own == [pytest.approx(p, abs=PROBABILITIES) for p in other]
    assert metrics.flat_accuracy_score(y[8:], here.predict(X[8:])) == pytest.approx(here.score(X[8:], y[8:]))
    assert pickle.loads(pickle.dumps(here)).predict(X[8:]) == here.predict(X[8:])


# --- c1 ---------------------------------------------------------------------------------------------------------------

LOSS = 1e-6  # relative, of the penalised log-likelihood
NEARLY = 1e-3  # weights below it count as zero: where crfsuite stops, some have not arrived there yet


@pytest.mark.parametrize(("c1", "c2", "possible"), [(0.5, 0.05, "all"), (2.0, 1e-3, "all"), (0.1, 1.0, "seen")])
def test_c1_is_l1(corpus, c1, c2, possible, tmp_path):
    X, y = corpus
    if possible == "seen":  # crfsuite has a weight of an attribute that was seen as 0, too
        X = [[{name: value for name, value in item.items() if value is not False} for item in s] for s in X]
    _, info = trained(X, y, c2, tmp_path, c1=c1, **(ALL if possible == "all" else {}))
    variance = 1 / (2 * c2)
    net = bf.ElasticNet(c1, relaxed=False)
    ours = bf.BayesianCRF(variance, method=net, possible=possible, correction="none", predictor="map").fit(X, y)
    theirs = np.array(
        [info.state_features.get(name, 0.0) for name in ours.state_features_]
        + [info.transitions.get(name, 0.0) for name in ours.transition_features_]
    )
    mode, objective = ours.posterior_.mode, ours.posterior_.objective

    def loss(w):
        return -objective.log_likelihood(objective.at(w)) + c2 * (w @ w) + c1 * np.abs(w).sum()

    assert loss(mode) <= loss(theirs) * (1 + 1e-10)
    assert loss(theirs) == pytest.approx(loss(mode), rel=LOSS)
    differ = (mode != 0.0) != (theirs != 0.0)
    assert np.maximum(np.abs(mode), np.abs(theirs))[differ].max(initial=0.0) < NEARLY
    assert c1 < 0.5 or (mode == 0.0).any()
