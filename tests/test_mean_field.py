"""Mean-field posteriors of chain CRFs: near the dense ones, saved, and predicted from."""

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.correction.mean_field import _ByDraw, averaged_over
from bayesfield.fitting.plan import make_plan
from bayesfield.fitting.planning.request import request
from bayesfield.inference.trees.chain import chain_log_z
from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.learning.objective import gaussian
from bayesfield.learning.phases.crf_design import edge_noise, node_noise, potentials
from bayesfield.learning.phases.sequences import sequence_objective
from bayesfield.model.conditional import CRF, as_sequences, seen_weights
from bayesfield.prediction import chain, n_best
from bayesfield.types import InvalidInput

ALGEBRA = 1e-10
PRIOR = bf.Normal(variance=1.0)


def _problem(n=40, D=12, K=4, seen=False, seed=0):
    """Sequences whose labels follow their inputs."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(D, K))
    X = [(rng.random((6, D)) < 0.3).astype(float) for _ in range(n)]
    y = [(x @ W + 0.8 * rng.gumbel(size=(6, K))).argmax(axis=1).tolist() for x in X]
    crf = CRF(K, D)
    data = as_sequences(crf, X, y)
    return (crf.with_seen(seen_weights(crf, data, 2)) if seen else crf), data, X, y


@pytest.mark.parametrize("seen", [False, True])
def test_noise_of_potentials_has_the_variance_of_independent_weights(seen):
    """Var θ_t(k) = Σ_d x_td² sd_dk², and within a sequence a weight is one: 2,000 draws, five standard errors."""
    crf, data, *_ = _problem(3, seen=seen)
    sd = np.random.default_rng(1).uniform(0.5, 2.0, crf.n_parameters)
    draws = np.array([node_noise(crf, data, sd, seed) for seed in range(2000)])
    full, _ = crf.split(sd)
    wanted = data.inputs.power(2) @ full**2
    np.testing.assert_allclose(draws.var(axis=0), wanted, atol=5 * wanted.max() * np.sqrt(2 / 2000))
    x, both = data.inputs.toarray(), np.cov(draws[:, 0, 1], draws[:, 1, 1])[0, 1]
    assert both == pytest.approx(float((x[0] * x[1]) @ full[:, 1] ** 2), abs=5 * wanted.max() / np.sqrt(2000))
    other = np.cov(draws[:, 0, 1], draws[:, 6, 1])[0, 1]  # of the next sequence: independent
    assert abs(other) < 5 * wanted.max() / np.sqrt(2000)


@pytest.mark.parametrize("seen", [False, True])
def test_gradient_and_curvature_of_the_average(seen):
    """The gradient against differences of the value; the average over sequences' own draws against one of 256 pairs of
    all weights. 32 pairs that share nothing but transitions have at most √8 times its error: five of both, 15."""
    crf, data, *_ = _problem(seen=seen)
    objective = sequence_objective(crf, data, gaussian(PRIOR, crf))
    sd = np.full(crf.n_parameters, 0.3)
    averaged = averaged_over(objective, sd, 5)
    here = 0.2 * np.random.default_rng(0).normal(size=crf.n_parameters)
    point = averaged.point(here)
    for k in (0, crf.n_state - 1, crf.n_parameters - 1):
        step = 1e-5 * np.eye(crf.n_parameters)[k]
        slope = (averaged.point(here + step).value - averaged.point(here - step).value) / 2e-5
        assert point.gradient[k] == pytest.approx(slope, abs=1e-5)
    noise = sd * np.random.default_rng(3).standard_normal((256, len(sd)))
    other = _ByDraw(objective, noise).point(here)
    widths = 0.5 * float(objective.prior.diagonal @ sd**2)  # of the prior, which the draws have and m does not move
    assert point.value == pytest.approx(other.value - widths, rel=0.005)
    each = np.array([_ByDraw(objective, one[None]).point(here).gradient for one in noise])
    assert (np.abs(point.gradient - other.gradient) < 15 * each.std(axis=0) / np.sqrt(len(noise))).all()
    states = slice(0, crf.n_state)
    np.testing.assert_allclose(
        averaged.curvatures(point)[states], _ByDraw(objective, noise).curvatures(point)[states], rtol=0.05
    )


def test_without_widths_the_average_is_the_objective():
    crf, data, *_ = _problem()
    objective = sequence_objective(crf, data, gaussian(PRIOR, crf))
    here = np.random.default_rng(0).normal(size=crf.n_parameters)
    one, other = averaged_over(objective, np.zeros(crf.n_parameters), 0).point(here), objective.at(here)
    assert one.value == pytest.approx(other.value, rel=ALGEBRA)
    np.testing.assert_allclose(one.gradient, other.gradient, atol=1e-9)


def test_means_are_near_those_of_the_dense_correction():
    """Within a third of a standard deviation (rms), where the mode is further away."""
    crf, data, *_ = _problem(25)
    dense = bf.fit_sequences(crf, data, prior=PRIOR, correction="variational")
    ours = bf.fit_sequences(crf, data, prior=PRIOR, form="mean-field")
    assert ours.record.correction.kind == "variational"
    assert ours.record.correction.settled
    assert ours.record.form == "mean-field"
    off = np.sqrt(np.mean(((ours.mean - dense.mean) / dense.form.sd) ** 2))
    mode = np.sqrt(np.mean(((ours.mode - dense.mean) / dense.form.sd) ** 2))
    assert off < 0.33
    assert off < mode
    assert 0.5 < np.median(ours.form.sd / dense.form.sd) < 1.0  # given all others: narrower


def test_many_weights_take_it_by_themselves(monkeypatch):
    from bayesfield.fitting import plan

    monkeypatch.setattr(plan, "DENSE", 10)
    crf, data, *_ = _problem(seen=True)
    posterior = bf.fit_sequences(crf, data, prior=PRIOR)
    assert posterior.record.plan.form == "mean-field"
    assert posterior.record.correction.kind == "variational"


def test_many_labels_take_it_too():
    """90,000 transitions, whose block does not fit: the plan asks for no more than a diagonal, and costs seconds."""
    rng, crf = np.random.default_rng(0), CRF(300, 10)
    data = as_sequences(crf, [rng.normal(size=(5, 10))] * 5, [rng.integers(300, size=5)] * 5)
    plan = make_plan(sequence_objective(crf, data, gaussian(bf.Normal(variance=1.0), crf)), request()).plan
    assert plan.form == "mean-field"
    assert plan.total < 60.0


def test_predictions_by_potentials_are_those_by_weights(monkeypatch):
    """Averaged marginals by 2,000 draws of either: a hundredth."""
    crf, data, X, _ = _problem()
    posterior = bf.fit_sequences(crf, data, prior=PRIOR, form="mean-field")
    monkeypatch.setattr(chain, "POTENTIAL_DRAWS", 2000)
    ours = bf.predict_sequences(posterior, X[:5], n_draws=2000)
    by_weights = bf.average_over(crf, posterior.sample(2000, 1), X[:5])
    np.testing.assert_allclose(ours.probabilities, by_weights.probabilities, atol=0.02)
    np.testing.assert_allclose(ours.open, by_weights.open, atol=0.03)


def test_best_labellings_by_potentials_are_those_by_weights(monkeypatch):
    """Probabilities of whole labellings by 3,000 draws of either: two hundredths."""
    crf, data, X, _ = _problem()
    posterior = bf.fit_sequences(crf, data, prior=PRIOR, form="mean-field")
    monkeypatch.setattr(n_best, "_MOST", 3000)
    ours = bf.n_best_sequences(posterior, X[:3], 3, n_draws=3000)
    data = as_sequences(crf, X[:3])
    by_weights = np.zeros((3, 3))
    for parameters in posterior.sample(3000, 1):
        node, edge = potentials(crf, data, parameters)
        log_z = chain_log_z(ChainArrays(data.ptr, data.which), node, edge)
        for s, found in enumerate(ours):
            for r, one in enumerate(found):
                score = node[6 * s + np.arange(6), one.labels].sum() + edge[0][one.labels[:-1], one.labels[1:]].sum()
                by_weights[s, r] += np.exp(score - log_z[s]) / 3000
    np.testing.assert_allclose([[one.probability for one in found] for found in ours], by_weights, atol=0.02)


def test_transitions_have_noise_where_they_have_weights():
    crf, data, *_ = _problem(2, seen=True)
    table = edge_noise(crf, np.ones(crf.n_parameters), np.random.default_rng(0)).ravel()
    assert set(np.flatnonzero(table)) == set(crf.seen.pair.tolist())
    assert potentials(crf, data, np.zeros(crf.n_parameters))[1].shape == (1, 4, 4)


def test_saved_and_loaded(tmp_path):
    crf, data, X, _ = _problem(seen=True)
    posterior = bf.fit_sequences(crf, data, prior=PRIOR, form="mean-field")
    posterior.save(tmp_path / "tagger.bf")
    again = bf.load(tmp_path / "tagger.bf")
    np.testing.assert_array_equal(again.form.diagonal, posterior.form.diagonal)
    one, other = (bf.predict_sequences(p, X[:3]).probabilities for p in (posterior, again))
    np.testing.assert_array_equal(one, other)


def test_refused():
    crf, data, *_ = _problem(4)
    with pytest.raises(InvalidInput, match="corrected as a whole"):
        bf.fit_sequences(crf, data, prior=PRIOR, form="mean-field", correction="mean")
