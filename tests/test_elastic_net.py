"""The elastic net: scikit-learn's, a coordinate solver's, the conditions of an optimum; then what stays."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import bayesfield as bf
from bayesfield.fitting.planning.request import request
from bayesfield.fitting.sequences import read_sequences
from bayesfield.learning.objective import Point
from bayesfield.learning.search.elastic.orthantwise import orthantwise, penalised, steepest
from bayesfield.model.prior import GONE
from bayesfield.types import Outcome, Status

SOLVED = 1e-5  # of a weight: both searches end at a gradient of about 1e-6
OBJECTIVE = 1e-6  # relative, of the penalised log-likelihood
KKT = 1e-4  # of a slope, in units of l1
NEARLY = 1e-3  # a weight below it may be zero elsewhere


def positions(seed, n=200, inputs=10, labels=3):
    """Sequences of one position: a multinomial logistic regression, half of whose weights are zero."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(inputs, labels)) * (rng.random((inputs, labels)) < 0.5)
    X = rng.normal(size=(n, inputs))
    p = np.exp(X @ W)
    y = [int(rng.choice(labels, p=row / row.sum())) for row in p]
    return bf.CRF(list(range(labels)), inputs), X, y


def chains(seed, count=25, length=6):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(length, 5)) for _ in range(count)]
    y = [[int(k) for k in (x[:, 0] + 0.5 * np.roll(x[:, 0], 1) > 0) + (x[:, 1] > 1.0)] for x in X]
    return bf.CRF([0, 1, 2], 5), X, y


def kkt(objective, parameters, l1):
    """The largest violation of an optimum's conditions, from the slope of the Gaussian objective."""
    gradient = objective.at(parameters).gradient
    at_zero = np.maximum(np.abs(gradient) - l1, 0.0)
    return np.where(parameters == 0.0, at_zero, np.abs(gradient + l1 * np.sign(parameters))).max()


@pytest.mark.parametrize(("variance", "l1"), [(1.0, 3.0), (5.0, 1.0), (1e6, 4.0)])
def test_one_position_is_scikit_learns_logistic_regression(variance, l1):
    """saga minimises Σ loss + |w|₁ r/C + |w|² (1 − r)/2C."""
    crf, X, y = positions(0)
    ours = bf.fit_sequences(
        crf, X[:, None], [[k] for k in y], bf.Normal(variance), method=bf.ElasticNet(l1, relaxed=False)
    )
    total = l1 + 1.0 / variance
    theirs = LogisticRegression(
        C=1 / total, l1_ratio=l1 / total, solver="saga", fit_intercept=False, max_iter=100_000, tol=1e-11
    ).fit(X, y)
    W = ours.mode[: crf.n_state].reshape(-1, 3)
    np.testing.assert_allclose(W, theirs.coef_.T, atol=SOLVED)
    assert ((W != 0.0) == (theirs.coef_.T != 0.0)).all()
    assert 0 < (W == 0.0).sum() < W.size


@pytest.mark.parametrize("l1", [0.3, 2.0, 8.0])
def test_chains_meet_the_conditions_of_an_optimum(l1):
    crf, X, y = chains(1)
    prior = bf.Normal(variance=2.0)
    posterior = bf.fit_sequences(crf, X, y, prior, method=bf.ElasticNet(l1, relaxed=False))
    objective = read_sequences(crf, X, y, None, request(prior))
    assert posterior.record.status.converged
    assert kkt(objective, posterior.mode, l1) < KKT * l1
    assert (posterior.mode == 0.0).any()
    assert (posterior.mode[posterior.mode == 0.0] == 0.0).all()


def test_coordinates_one_at_a_time_come_to_the_same_weights():
    """Each coordinate's minimum by golden section, round after round: slow, and nothing to go wrong."""
    from scipy.optimize import minimize_scalar

    crf, X, y = positions(3, n=40, inputs=2, labels=2)
    prior, l1 = bf.Normal(variance=1.5), 2.0
    X, y = X[:, None], [[k] for k in y]
    objective = read_sequences(crf, X, y, None, request(prior))
    here = np.zeros(crf.n_parameters)
    for _ in range(60):
        for k in range(crf.n_state):

            def along(value, k=k):
                there = here.copy()
                there[k] = value
                return objective.at(there).value + l1 * np.abs(there).sum()

            best = minimize_scalar(along, bounds=(-4, 4), method="bounded", options={"xatol": 1e-9}).x
            here[k] = best if along(best) < along(0.0) else 0.0
    ours = bf.fit_sequences(crf, X, y, prior, method=bf.ElasticNet(l1, relaxed=False)).mode
    np.testing.assert_allclose(ours, here, atol=1e-4)
    assert ((ours != 0.0) == (here != 0.0)).all()


def test_a_penalty_above_every_slope_leaves_nothing():
    crf, X, y = chains(2)
    posterior = bf.fit_sequences(crf, X, y, method=bf.ElasticNet(1e4))
    assert (posterior.mode == 0.0).all()
    assert "0 of 24 weights stay" in str(posterior.record)
    assert (posterior.sd < 1e-4).all()


def test_no_penalty_is_the_plain_mode():
    crf, X, y = chains(2)
    plain = bf.fit_sequences(crf, X, y, correction="none")
    for relaxed in (True, False):
        same = bf.fit_sequences(crf, X, y, method=bf.ElasticNet(0.0, relaxed=relaxed), correction="none")
        np.testing.assert_allclose(same.mode, plain.mode, atol=SOLVED)
        np.testing.assert_allclose(same.sd, plain.sd, rtol=1e-5)


def test_what_stays_has_the_posterior_of_the_model_without_the_rest():
    """The weights that are not zero, in a field that has these alone, by method="auto"."""
    field = bf.pairwise(6, [(i, j) for i in range(6) for j in range(i)])
    rng = np.random.default_rng(4)
    truth = np.concatenate([np.zeros(6), np.where(rng.random(15) < 0.3, 0.8, 0.0)])
    X = bf.sample(field, truth, 200, rng)
    l1 = np.where(np.array(field.groups) == "edges", 8.0, 0.0)
    sparse = bf.fit(field, X, method=bf.ElasticNet(l1), correction="none")
    edges = [name for name in field.parameter_names if "*" in name]
    stays = sparse.mode != 0.0
    kept = [e for e in edges if stays[field.parameter_names.index(e)]]
    assert 0 < len(kept) < len(edges)
    assert stays[:6].all()
    pairs = [tuple(int(v[1:]) for v in e.split("*")) for e in kept]
    smaller = bf.fit(bf.pairwise(6, pairs), X, correction="none")
    np.testing.assert_allclose(sparse.mode[stays], smaller.mode, atol=SOLVED)
    np.testing.assert_allclose(sparse.sd[stays], smaller.sd, rtol=1e-5)
    np.testing.assert_allclose(sparse.sd[~stays], GONE**-0.5, rtol=1e-3)
    assert f"{stays.sum()} of 21 weights stay" in str(sparse.record)
    assert "not accounted for" in str(sparse.record)


@pytest.mark.parametrize("form", ["dense", "mean-field", "matrix-free"])
def test_every_form_leaves_the_others_at_zero(form):
    crf, X, y = chains(5)
    kind = "none" if form == "matrix-free" else "auto"  # whose profiles take half a minute
    posterior = bf.fit_sequences(crf, X, y, method=bf.ElasticNet(3.0), form=form, correction=kind, verbose=False)
    gone = posterior.mode == 0.0
    assert gone.any()
    assert np.abs(posterior.mean[gone]).max() < 1e-8
    assert (posterior.sd[gone] < 1e-4).all()
    assert (posterior.sd[~gone] > 1e-2).all()


def test_a_posterior_made_of_draws_leaves_them_there_too():
    crf, X, y = chains(5)
    posterior = bf.fit_sequences(crf, X, y, method=bf.ElasticNet(3.0), correction="draws")
    gone = posterior.mode == 0.0
    assert posterior.record.correction.settled
    assert posterior.sd[gone].max() < 1e-4 < 1e-2 < posterior.sd[~gone].min()


def test_weights_of_cases_count():
    crf, X, y = chains(6, count=10)
    twice = bf.fit_sequences(crf, X, y, method=bf.ElasticNet(2.0), weights=[2.0] * 10)
    double = bf.fit_sequences(crf, X + X, y + y, method=bf.ElasticNet(2.0))
    np.testing.assert_allclose(twice.mode, double.mode, atol=SOLVED)


@pytest.mark.parametrize("prior", [bf.Normal("evidence"), bf.ARD(), bf.Cauchy()])
def test_priors_that_do_not_go_with_it_are_refused(prior):
    crf, X, y = chains(2)
    with pytest.raises(bf.InvalidInput, match="beside an absolute penalty"):
        bf.fit_sequences(crf, X, y, prior, method=bf.ElasticNet(1.0))


@pytest.mark.parametrize("l1", [-1.0, np.nan, "much", [[1.0]]])
def test_penalties_that_are_none_are_refused(l1):
    with pytest.raises(bf.InvalidInput, match="l1"):
        bf.ElasticNet(l1)


def test_one_penalty_for_each_parameter_or_one_for_all():
    crf, X, y = chains(2)
    with pytest.raises(bf.InvalidInput, match="l1 needs one number or 24"):
        bf.fit_sequences(crf, X, y, method=bf.ElasticNet([1.0, 2.0]))


def test_open_labels_are_refused():
    crf, X, y = chains(2)
    with pytest.raises(bf.InvalidInput, match="elastic_net"):
        bf.fit_sequences(crf, X, [[None, *own[1:]] for own in y], method=bf.ElasticNet(1.0))


def test_the_estimator_takes_l1_as_crfsuite_its_c1():
    _, X, y = chains(7)
    crf = bf.BayesianCRF(2.0, l1=3.0, correction="none", predictor="map").fit(X, y)
    same = bf.BayesianCRF(2.0, method=bf.ElasticNet(3.0), correction="none", predictor="map").fit(X, y)
    np.testing.assert_array_equal(crf.posterior_.mode, same.posterior_.mode)
    assert (crf.posterior_.mode == 0.0).any()
    with pytest.raises(bf.InvalidInput, match="l1 is found by"):
        bf.BayesianCRF(l1=1.0, method="newton").fit(X, y)


def test_graphs_of_labels_take_it_too():
    rng = np.random.default_rng(0)
    edges = np.array([[0, 1], [1, 2], [2, 0]])
    X = [(rng.normal(size=(3, 6)), edges) for _ in range(40)]
    y = [[int(v) for v in nodes[:, 0] + rng.logistic(size=3) > 0] for nodes, _ in X]
    crf = bf.GraphCRF(l1=3.0, correction="none").fit(X, y)
    W = crf.posterior_.mode[: crf.crf_.n_state].reshape(6, 2)
    assert W[0, 1] - W[0, 0] > 0.3
    assert (W[1:] == 0.0).any()


def test_where_the_penalty_has_them_is_told():
    crf, X, y = chains(2)
    posterior = bf.fit_sequences(crf, X, y, method=bf.ElasticNet(2.0, relaxed=False))
    assert posterior.record.correction.kind == "none"
    assert "where the penalty has them" in str(posterior.certificate)
    assert "where the penalty has them" in str(posterior.record)


def test_a_saved_posterior_keeps_its_zeros(tmp_path):
    crf, X, y = chains(2)
    posterior = bf.fit_sequences(crf, X, y, method=bf.ElasticNet(2.0), correction="none")
    posterior.save(tmp_path / "sparse.bayesfield")
    back = bf.load(tmp_path / "sparse.bayesfield")
    np.testing.assert_array_equal(back.mode, posterior.mode)
    assert str(back.record) == str(posterior.record)


# --- the search itself ----------------------------------------------------------------------------------------------


def quadratic(seed, size=30):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, size))
    H, a = root @ root.T / size + 0.05 * np.eye(size), 2.0 * rng.normal(size=size)

    def evaluate(x):
        return Point(x, float(0.5 * x @ H @ x - a @ x), H @ x - a, Status(Outcome.OPTIMUM))

    return evaluate, lambda point: np.diag(H)


@pytest.mark.parametrize("seed", range(5))
def test_the_search_ends_where_nothing_falls(seed):
    evaluate, curvatures = quadratic(seed)
    penalty = np.where(np.arange(30) % 3 == 0, 0.0, 1.0)
    end = orthantwise(evaluate, curvatures, evaluate(np.zeros(30)), penalty, 1e-9, 2000, 1e-16)
    assert np.abs(steepest(end, penalty)).max() < 1e-5
    assert (end.parameters[penalty > 0] == 0.0).any()
    rng = np.random.default_rng(seed)
    for _ in range(200):  # convex: no point nearby is lower
        other = evaluate(end.parameters + 1e-3 * rng.normal(size=30))
        assert penalised(other, penalty) > penalised(end, penalty)


def test_the_steepest_slope_is_that_of_finite_differences():
    """Along −⋄ the sum falls as fast as ⋄ says, and by no direction of one coordinate faster."""
    evaluate, _ = quadratic(0)
    rng = np.random.default_rng(1)
    x = np.where(rng.random(30) < 0.5, 0.0, rng.normal(size=30))
    penalty = np.full(30, 1.0)
    point = evaluate(x)
    slope, step = steepest(point, penalty), 1e-7
    fall = penalised(evaluate(x - step * slope), penalty) - penalised(point, penalty)
    assert fall / step == pytest.approx(-float(slope @ slope), rel=1e-4)
    for k in range(30):
        ahead, behind = (
            penalised(evaluate(x + sign * step * np.eye(30)[k]), penalty) - penalised(point, penalty)
            for sign in (1.0, -1.0)
        )
        assert min(ahead, behind, 0.0) / step == pytest.approx(-abs(slope[k]), abs=1e-5)


def test_what_was_left_out_does_not_count_as_not_having_moved():
    """The distance of means from the mode is of the weights that stay."""
    crf, X, y = chains(8, count=8)
    posterior = bf.fit_sequences(crf, X, y, bf.Normal(5.0), method=bf.ElasticNet(1.0), correction="variational")
    stay = posterior.mode != 0.0
    moved = ((posterior.mean - posterior.mode) / posterior.laplace_precision.sd)[stay]
    assert not stay.all()
    assert posterior.record.correction.shift[0] == pytest.approx(np.sqrt(np.mean(moved**2)), rel=1e-9)
