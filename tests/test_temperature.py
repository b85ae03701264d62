"""Predictions between the mode and the posterior, and how the temperature is chosen, saved and told."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import bayesfield as bf
from bayesfield.analysis.validation.folds import fold_of
from bayesfield.analysis.validation.temperature import ALIKE, TEMPERATURES, warmest
from bayesfield.model.conditional import CRF, as_sequences, seen_weights
from bayesfield.types import InvalidInput

PRIOR = bf.Normal(variance=1.0)


def _problem(n=40, D=30, K=3, seed=0, seen=False):
    rng = np.random.default_rng(seed)
    W = 1.5 * rng.normal(size=(D, K))
    X = [(rng.random((6, D)) < 0.15).astype(float) for _ in range(n)]
    y = [(x @ W + rng.gumbel(size=(6, K))).argmax(axis=1).tolist() for x in X]
    crf = CRF(K, D)
    data = as_sequences(crf, X, y)
    return (crf.with_seen(seen_weights(crf, data)) if seen else crf), data, X, y


def _fitted(form="mean-field", **options):
    crf, data, X, _ = _problem(**options)
    return bf.fit_sequences(crf, data, prior=PRIOR, form=form), X


@pytest.mark.parametrize("form", ["dense", "mean-field"])
def test_temperature_one_is_the_posterior(form):
    posterior, X = _fitted(form, n=25, D=8)
    assert posterior.temperature == 1.0
    assert posterior.at_temperature(1.0) is posterior
    again = posterior.at_temperature(0.25).at_temperature(1)
    one, other = (bf.predict_sequences(p, X[:5]).probabilities for p in (posterior, again))
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(posterior.sample_predictive(3, 0), posterior.sample(3, 0))


def test_just_below_one_is_near_the_posterior():
    """Mean and widths are found anew: within what the rounds of the fit leave, 5 % of a width."""
    posterior, _ = _fitted()
    mean, sd = posterior.at_temperature(0.999).predictive_moments
    assert np.sqrt(np.mean(((mean - posterior.mean) / posterior.form.sd) ** 2)) < 0.05
    np.testing.assert_allclose(sd, posterior.form.sd, rtol=0.05)


@pytest.mark.parametrize("form", ["dense", "mean-field"])
def test_towards_zero_it_is_the_mode(form):
    """Means and widths of the predictive weights go to the mode and to zero; so do its predictions."""
    posterior, X = _fitted(form, n=25, D=8)
    at_mode = bf.predict_sequences(posterior, X[:5], "map").probabilities
    apart = []
    for T in (1e-2, 1e-4, 1e-6):
        cold = posterior.at_temperature(T)
        mean, sd = cold.predictive_moments
        assert (sd <= 1.5 * np.sqrt(T) * posterior.form.sd.max()).all()
        apart.append(np.abs(mean - posterior.mode).max())
        np.testing.assert_allclose(bf.predict_sequences(cold, X[:5]).probabilities, at_mode, atol=3 * np.sqrt(T))
    assert apart[2] < 1e-3
    frozen = posterior.at_temperature(0)
    np.testing.assert_allclose(bf.predict_sequences(frozen, X[:5]).probabilities, at_mode, atol=1e-12)
    assert (bf.predict_sequences(frozen, X[:5]).unsettled < 1e-9).all()
    np.testing.assert_array_equal(frozen.sample_predictive(10), posterior.mode[None])


def test_the_weights_stay_the_posterior_s():
    posterior, _ = _fitted()
    cold = posterior.at_temperature(0.1)
    np.testing.assert_array_equal(cold.mean, posterior.mean)
    np.testing.assert_array_equal(cold.sample(2, 0), posterior.sample(2, 0))
    assert cold.summary().equals(posterior.summary())


def test_draws_of_a_dense_posterior_are_cooled_about_the_mode():
    """4,000 draws: mean and sd within five standard errors."""
    posterior, _ = _fitted("dense", n=25, D=5)
    draws = posterior.at_temperature(0.25).sample_predictive(4000, 0)
    sd = posterior.sd / 2
    centre = posterior.mode + 0.25 * (posterior.marginals.mean - posterior.mode)
    assert (np.abs(draws.mean(axis=0) - centre) < 5 * sd / np.sqrt(4000)).all()
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.12)


def test_told_saved_and_loaded(tmp_path):
    posterior, X = _fitted(seen=True)
    for T in (0.0, 0.25):
        cold = posterior.at_temperature(T)
        assert f"temperature {T:g}" in repr(cold)
        assert f"temperature {T:g}" in str(cold.record)
        cold.save(tmp_path / "tagger.bf")
        for again in (bf.load(tmp_path / "tagger.bf"), pickle.loads(pickle.dumps(cold.without_data()))):
            assert again.temperature == T
            one, other = (bf.predict_sequences(p, X[:3]).probabilities for p in (cold, again))
            np.testing.assert_array_equal(one, other)
    assert "temperature" not in repr(posterior)
    assert again.at_temperature(0).temperature == 0.0  # needs no data
    with pytest.raises(InvalidInput, match="takes the data"):
        again.at_temperature(0.5)


@pytest.mark.parametrize("bad", [-0.1, 1.5, float("nan"), "warm", True, None])
def test_no_temperature(bad):
    posterior, _ = _fitted("dense", n=5, D=3)
    with pytest.raises(InvalidInput, match="from 0"):
        posterior.at_temperature(bad)


def test_n_best_and_spans_are_cooled():
    posterior, X = _fitted()
    cold = posterior.at_temperature(0)
    best = bf.n_best_sequences(cold, X[:2], 2)
    p = bf.predict_sequences(cold, X[:2], "map")
    assert best[0][0].labels.tolist() == p.labels[:6].tolist()
    assert 0.0 < best[0][0].probability <= 1.0
    with pytest.raises(InvalidInput, match="temperature"):
        bf.predict_sequences(cold, X[:2], "quadratic")


def test_a_fold_has_no_weights_of_what_it_does_not_show():
    """Labels that an input was seen with among the others alone would tell their labels."""
    crf, data, *_ = _problem(12, seen=True)
    some = np.arange(len(data)) < 4
    fold = fold_of(crf, data.chosen(some))
    assert [crf.parameter_names[k] for k in fold.parameters] == fold.crf.parameter_names
    counts = np.zeros((30, 3))
    part = data.chosen(some)
    np.add.at(counts, (part.inputs.nonzero()[1], part.labels[part.inputs.nonzero()[0]]), 1)
    assert fold.crf.n_state == (counts > 0).sum()
    full = fold_of(*_problem(12)[:2])
    assert full.crf.n_parameters == len(full.parameters) == len(full.shown)


def test_left_out_losses_are_those_of_new_sequences():
    """With weights that were seen, in cross-validation as in a fit without the fold: 0.02 nats of noise of draws."""
    crf, data, X, y = _problem(40, D=60, seen=True)
    out = np.arange(40) >= 20
    whole = CRF(3, 60)
    train = as_sequences(whole, X[:20], y[:20])
    fresh = whole.with_seen(seen_weights(whole, train))
    posterior = bf.fit_sequences(fresh, train, prior=PRIOR, form="mean-field")
    fold = fold_of(crf, data.chosen(~out))
    np.testing.assert_array_equal(fold.crf.places, fresh.places)
    assert posterior.field.n_parameters == fold.crf.n_parameters


@pytest.fixture
def _few_are_many(monkeypatch):
    from bayesfield.fitting import plan

    monkeypatch.setattr(plan, "DENSE", 10)


@pytest.mark.usefixtures("_few_are_many")
@pytest.mark.parametrize("seen", [False, True])
def test_the_choice_never_loses_on_its_own_folds(seen):
    crf, data, *_ = _problem(20, seen=seen)
    for variance in (0.3, 10.0):
        found = bf.cross_validated_temperature(crf, data, prior=bf.Normal(variance=variance), splits=1)
        assert found.candidates == TEMPERATURES
        chosen = found.log_loss[found.candidates.index(found.temperature)]
        assert chosen <= found.log_loss.min() + ALIKE
        assert chosen <= found.log_loss[0] + ALIKE  # the plug-in
    both = bf.cross_validated_temperature(crf, data, variances=(0.3, 10.0), candidates=(0, 0.25), splits=1)
    assert both.log_loss.shape == (2, 2)
    assert both.variance in both.variances
    row = both.log_loss[both.variances.index(both.variance)]
    assert row[both.candidates.index(both.temperature)] <= both.log_loss.min() + ALIKE


@pytest.mark.parametrize(
    ("losses", "temperature"),
    [([0.2, 0.21, 0.3], 0.0), ([0.2, 0.2001, 0.3], 0.1), ([0.3, 0.25, 0.2], 1.0), ([0.2, np.inf, np.inf], 0.0)],
)
def test_the_warmest_of_the_best_is_taken(losses, temperature):
    assert warmest((0.0, 0.1, 1.0), np.array(losses)) == temperature


def test_a_dense_posterior_s_temperature():
    crf, data, *_ = _problem(12, D=4)
    found = bf.cross_validated_temperature(crf, data, prior=PRIOR, candidates=(0, 1), folds=2)
    assert found.log_loss.shape == (2,)
    assert found.temperature in (0.0, 1.0)


@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("prior", [PRIOR, bf.Normal(variance={"state": 2.0, "transition": 0.5})])
def test_dense_posteriors_of_folds_know_nothing_of_what_was_left_out(seen, prior):
    """Weights of inputs and labels that the other sequences alone show would tell their labels by being there; inputs
    that a fold does not show are as those that training never showed. Against fits of the fold's sequences alone."""
    crf, _, X, y = _problem(10, D=40, seen=seen)
    for k, x in enumerate(X):
        x[:, 5] = k == 0
    data = as_sequences(crf, X, y)
    if seen:
        crf = CRF(3, 40).with_seen(seen_weights(CRF(3, 40), data))
    found = bf.cross_validated_temperature(crf, data, prior=prior, candidates=(0, 1), folds=2, rng=3)
    generator = np.random.default_rng(3)
    fold, seed = generator.permutation(np.arange(10) % 2), int(generator.integers(2**31))
    losses = np.zeros(2)
    for k in range(2):
        inside, outside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        shown = np.concatenate([X[i] for i in inside]).any(axis=0)
        train, test = as_sequences(CRF(3, 40), [X[i] for i in inside], [y[i] for i in inside]), outside
        own = CRF(3, 40).with_seen(seen_weights(CRF(3, 40), train)) if seen else CRF(3, 40)
        posterior = bf.fit_sequences(own, train, prior=prior, rng=seed)
        assert posterior.form.form == "dense"
        for t in range(2):
            cold = posterior.at_temperature(t)
            p = bf.predict(cold, [X[i] * shown for i in test], predictor="marginal", n_draws=50, rng=seed)
            wanted = np.concatenate([y[i] for i in test])
            losses[t] -= np.log(p.probabilities[np.arange(len(wanted)), wanted]).sum()
    np.testing.assert_allclose(found.log_loss, losses / 60, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"candidates": ()}, "temperatures from 0 to 1"),
        ({"candidates": (2.0,)}, "from 0"),
        ({"prior": bf.Normal(variance="evidence")}, "posterior.prior"),
        ({"variances": (1.0,), "prior": PRIOR}, "give a prior, or"),
        ({"variances": ()}, "above zero"),
        ({"folds": 1}, "two folds"),
        ({"splits": 9}, "splits"),
    ],
)
def test_choices_that_cannot_be(options, text):
    crf, data, *_ = _problem(4, D=3)
    with pytest.raises(InvalidInput, match=text):
        bf.cross_validated_temperature(crf, data, **options)


def _pairs(n=16, seed=0):
    """Graphs of two nodes whose labels follow one noisy input."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, size=(n, 2))
    X = [(np.column_stack([own + rng.normal(0, 1.0, 2), np.ones(2)]), np.array([[0, 1]])) for own in y]
    return X, y.tolist()


def test_graphs_have_a_temperature():
    """The losses of the choice are those of fits and predictions without the fold."""
    crf, (X, y) = CRF(2, 2, symmetric=True), _pairs()
    found = bf.cross_validated_temperature(crf, X, y, prior=PRIOR, candidates=(0, 1), folds=2, rng=3)
    assert found.temperature in (0.0, 1.0)
    generator = np.random.default_rng(3)
    fold, seed = generator.permutation(np.arange(16) % 2), int(generator.integers(2**31))
    losses = np.zeros(2)
    for k in range(2):
        inside, outside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        posterior = bf.fit_graphs(crf, [X[i] for i in inside], [y[i] for i in inside], prior=PRIOR, rng=seed)
        for t in range(2):
            cold = posterior.at_temperature(t)
            p = bf.predict(cold, [X[i] for i in outside], n_draws=50, rng=seed).probabilities
            losses[t] -= np.log(p[np.arange(len(p)), np.concatenate([y[i] for i in outside])]).sum()
    np.testing.assert_allclose(found.log_loss, losses / 32, rtol=1e-6)


def test_graphs_with_very_many_weights_have_a_temperature(monkeypatch):
    """Independent weights, found anew at each temperature: losses as of fits and predictions without the fold; those of
    averages, of eight draws here and 400 there, within 0.03 nats. The estimator chooses by itself."""
    from bayesfield.fitting import plan

    monkeypatch.setattr(plan, "_form", lambda *_: "mean-field")
    crf, (X, y) = CRF(2, 2, symmetric=True), _pairs(40)
    found = bf.cross_validated_temperature(crf, X, y, prior=PRIOR, candidates=(0, 0.5, 1), folds=2, rng=3)
    generator = np.random.default_rng(3)
    fold, losses = generator.permutation(np.arange(40) % 2), np.zeros(3)
    for k in range(2):
        inside, outside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        posterior = bf.fit_graphs(crf, [X[i] for i in inside], [y[i] for i in inside], prior=PRIOR)
        assert posterior.form.form == "mean-field"
        for t, T in enumerate(found.candidates):
            p = bf.predict(posterior.at_temperature(T), [X[i] for i in outside], n_draws=400).probabilities
            losses[t] -= np.log(p[np.arange(len(p)), np.concatenate([y[i] for i in outside])]).sum()
    assert found.log_loss[0] == pytest.approx(losses[0] / 80, rel=1e-3)
    np.testing.assert_allclose(found.log_loss, losses / 80, atol=0.03)
    chosen = bf.GraphCRF().fit(X, y)
    assert chosen.posterior_.form.form == "mean-field"
    again = bf.cross_validated_temperature(crf, X, y, prior=PRIOR, splits=1)
    assert chosen.temperature_ == again.temperature


def _items(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = [[[f"w={rng.integers(12)}", f"t={rng.integers(4)}"] for _ in range(5)] for _ in range(n)]
    y = [["ab"[int(item[1][-1]) % 2 if rng.random() < 0.9 else 0] for item in x] for x in X]
    return X, y


@pytest.mark.usefixtures("_few_are_many")
def test_the_estimator_chooses():
    X, y = _items()
    crf = bf.BayesianCRF().fit(X, y)
    assert crf.posterior_.form.form == "mean-field"
    assert crf.temperature_ == crf.posterior_.temperature
    assert crf.temperature_ in TEMPERATURES
    assert clone(crf).temperature == "auto"
    again = pickle.loads(pickle.dumps(crf))
    assert again.predict_marginals(X[:2]) == crf.predict_marginals(X[:2])
    templates = bf.BayesianCRF("templates", temperature=0.5).fit(X, y)
    assert templates.temperature_ == 0.5
    assert set(templates.variance_) == {"w", "t", "transition"}
    assert templates.variance_["t"] > templates.variance_["w"]


@pytest.mark.slow
@pytest.mark.usefixtures("_few_are_many")
def test_the_estimator_chooses_both():
    crf = bf.BayesianCRF("cv", temperature="cv", correction="none").fit(*_items(20))
    assert crf.temperature_ in TEMPERATURES
    assert crf.variance_ in (0.1, 0.3, 1.0, 3.0, 10.0)


def test_the_estimator_leaves_small_ones_alone():
    X, y = _items(12)
    assert bf.BayesianCRF(correction="none").fit(X, y).temperature_ == 1.0
    chosen = bf.BayesianCRF("templates-cv", temperature=0.5, correction="none").fit(X, y)
    assert chosen.temperature_ == 0.5
    assert set(chosen.variance_) == {"w", "t", "transition"}


def test_the_estimator_of_graphs_chooses():
    X, y = _pairs()
    chosen = bf.GraphCRF(temperature="cv", correction="none").fit(X, y)
    assert chosen.temperature_ in TEMPERATURES
    fitted = bf.GraphCRF(temperature=0.0, correction="none").fit(X, y)
    p = np.array([list(one.values()) for own in fitted.predict_marginals(X) for one in own])
    mode = bf.predict(fitted.posterior_, X, predictor="map").probabilities
    np.testing.assert_allclose(p, mode, atol=1e-10)
    assert bf.GraphCRF(correction="none").fit(X, y).temperature_ == 1.0


@pytest.mark.parametrize("bad", [2.0, "warm", -1, None])
def test_the_estimator_refuses(bad):
    with pytest.raises(InvalidInput, match="temperature"):
        bf.BayesianCRF(temperature=bad).fit(*_items(3))


def test_doubt_is_the_posterior_s():
    """Where predictions are the mode's, labels follow it, and what is unsettled does not vanish."""
    X, y = _items(20)
    warm, cold = (bf.BayesianCRF(temperature=T, correction="none").fit(X, y) for T in (1.0, 0.0))
    doubts = [pd.concat(crf.uncertainty(X)) for crf in (warm, cold)]
    columns = ["entropy", "open", "unsettled", "disagreement"]
    pd.testing.assert_frame_equal(doubts[0][columns], doubts[1][columns])
    assert doubts[1]["unsettled"].mean() > 0.01
    best = [max(p.values()) for own in cold.predict_marginals(X) for p in own]
    np.testing.assert_allclose(doubts[1]["probability"], best)
    for strategy in ("reduction", "unsettled", "entropy"):
        np.testing.assert_array_equal(warm.query(X, 5, strategy), cold.query(X, 5, strategy))
