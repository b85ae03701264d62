"""Priors smooth over inputs: algebra against dense matrices, evidence against differences, users' ways."""

import numpy as np
import pytest
from scipy import linalg, sparse
from tests.tolerances import ALGEBRA

import bayesfield as bf
from bayesfield.fitting.pipeline import with_precision
from bayesfield.fitting.planning.request import request
from bayesfield.fitting.priors.smooth import Evidence
from bayesfield.fitting.sequences import read_sequences
from bayesfield.learning.objective import GaussianPrior, gaussian
from bayesfield.learning.search.minimise import lbfgs
from bayesfield.model.smooth.near import Numbers

LINE = np.arange(6.0)
STATED = {"length": 1.5, "variance": 0.7, "nugget": 0.05, "others": 2.0, "transitions": 0.5}
SLOPE = 1e-4  # relative, of central differences of the evidence with step 1e-4


def model(inputs=7):
    return bf.CRF(["a", "b", "c"], inputs)


def places(inputs=7):
    """On a line, the last input nowhere."""
    return np.append(np.arange(inputs - 1.0), np.nan)


def kernel(length, variance, nugget, d):
    return variance * ((1 - nugget) * np.exp(-0.5 * d**2 / length**2) + nugget * np.eye(len(d)))


def dense(crf, prior):
    """Λ of a smooth prior on a line, entry by entry."""
    K = kernel(prior.length, prior.variance, prior.nugget, LINE[:, None] - LINE)
    full = np.diag(np.full(crf.n_parameters, prior.transitions))
    for d in range(7):
        for e in range(7):
            for g in range(3):
                inside = max(d, e) < 6
                full[3 * d + g, 3 * e + g] = K[d, e] if inside else (prior.others if d == e else 0.0)
    return full


def chains(seed, count=60, length=6, inputs=20):
    """Labels that follow a smooth profile of weights over a line of inputs."""
    rng = np.random.default_rng(seed)
    profile = np.exp(-0.5 * (np.arange(inputs)[:, None] - np.array([4.0, 10.0, 15.0])) ** 2 / 9.0)
    X = [rng.normal(size=(length, inputs)) for _ in range(count)]
    y = [[int(k) for k in (x @ profile + rng.gumbel(size=(length, 3))).argmax(axis=1)] for x in X]
    return bf.CRF([0, 1, 2], inputs), X, y


def test_the_structured_prior_is_the_dense_one():
    crf, prior = model(), bf.Smooth(places(), **STATED)
    covariance = dense(crf, prior)
    ours, plain = gaussian(prior, crf), GaussianPrior(np.zeros(30), linalg.inv(covariance))
    rng = np.random.default_rng(0)
    vector, columns = rng.normal(size=30), rng.normal(size=(30, 4))
    np.testing.assert_allclose(ours.covariance, covariance, atol=ALGEBRA)
    np.testing.assert_allclose(ours.matrix(), plain.matrix(), atol=ALGEBRA)
    np.testing.assert_allclose(prior.precision(crf), plain.matrix(), atol=ALGEBRA)
    np.testing.assert_allclose(ours.diagonal, plain.diagonal, rtol=ALGEBRA)
    np.testing.assert_allclose(ours.bound, plain.bound, rtol=ALGEBRA)
    np.testing.assert_allclose(ours.times(vector), plain.times(vector), atol=ALGEBRA)
    np.testing.assert_allclose(ours.times(columns), plain.times(columns), atol=ALGEBRA)
    np.testing.assert_allclose(ours.plus(np.eye(30)), plain.plus(np.eye(30)), atol=ALGEBRA)
    assert ours.log_density(vector) == pytest.approx(plain.log_density(vector), rel=ALGEBRA)
    root = ours.rooted(np.eye(30))
    np.testing.assert_allclose(root @ root.T, plain.matrix(), atol=ALGEBRA)


def test_a_fit_is_that_with_the_full_covariance():
    crf, X, y = chains(0, count=10, inputs=7)
    prior = bf.Smooth(places(), **STATED)
    full = bf.Normal(covariance=dense(crf, prior))
    for options in ({"form": "dense"}, {"form": "matrix-free", "correction": "none"}, {"method": "lbfgs"}):
        ours, plain = (bf.fit_sequences(crf, X, y, p, verbose=False, **options) for p in (prior, full))
        np.testing.assert_allclose(ours.mode, plain.mode, atol=1e-5)
        np.testing.assert_allclose(ours.mean, plain.mean, atol=1e-4)
        np.testing.assert_allclose(ours.sd, plain.sd, rtol=1e-3)


def test_mean_field_has_the_best_widths_of_independent_weights():
    """p = diag(Λ⁻¹) + E_q[diag C], at a mean where E_q[∇L] = 0; by draws of our own."""
    crf, X, y = chains(1, count=12, inputs=7)
    prior = bf.Smooth(places(), **STATED)
    posterior = bf.fit_sequences(crf, X, y, prior, form="mean-field", verbose=False)
    assert posterior.form.form == "mean-field"
    objective = read_sequences(crf, X, y, None, request(prior))
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((500, 30)) * posterior.sd
    points = [objective.at(posterior.mean + sign * e) for e in noise for sign in (1, -1)]
    slope = np.mean([p.gradient for p in points], axis=0)
    widths = np.mean([np.diag(objective.curvature(p)) for p in points[:100]], axis=0) ** -0.5
    assert np.sqrt(np.mean((slope * posterior.sd) ** 2)) < 0.05  # the sampling error of both sets of draws
    assert np.median(posterior.sd / widths) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("kind", ["gaussian", "diffusion", "laplacian"])
def test_the_slopes_of_the_evidence_are_those_of_differences(kind):
    crf, X, y = chains(2, count=20, inputs=7)
    where = {"coordinates": places()} if kind == "gaussian" else {"graph": line_graph(), "kernel": kind}
    prior = bf.Smooth(**where)
    evidence, names = expanded(crf, X, y, prior)
    logs = np.log(np.array([1.3, 0.5, 0.2, 1.4, 0.6]))
    _, slopes = evidence.negative(logs)
    for k in range(len(names)):
        ends = [evidence.negative(logs + sign * 1e-4 * np.eye(5)[k])[0] for sign in (1, -1)]
        assert (ends[0] - ends[1]) / 2e-4 == pytest.approx(slopes[k], rel=SLOPE, abs=1e-4)


def line_graph():
    weights = np.diag(np.ones(5), 1)
    weights = weights + weights.T
    return np.block([[weights, np.zeros((6, 1))], [np.zeros((1, 7))]])


def expanded(crf, X, y, prior):
    objective = read_sequences(crf, X, y, None, request(prior))
    optimum = lbfgs(objective, np.zeros(crf.n_parameters), 1e-8, 500)
    fitted = with_precision(crf, objective, objective, optimum, "dense", "lbfgs")
    names = prior.open(crf)
    return Evidence(fitted, prior.near(crf), prior.begun(crf), names), names


def test_the_evidence_is_laplaces_where_it_is_expanded():
    """Its differences at the numbers of the mode: those of Laplace's evidence with curvature and mode held."""
    crf, X, y = chains(3, count=20, inputs=7)
    prior = bf.Smooth(places())
    objective = read_sequences(crf, X, y, None, request(prior))
    optimum = lbfgs(objective, np.zeros(crf.n_parameters), 1e-8, 500)
    H = objective.likelihood_curvature(optimum.point)
    a = H @ optimum.parameters + objective.prior.pull(optimum.parameters)
    evidence, _ = expanded(crf, X, y, prior)
    here = np.log(np.array(prior.begun(crf)))
    there = here + np.array([0.3, -0.2, 0.4, 0.1, -0.3])
    values = []
    for logs in (here, there):
        Q = gaussian(prior.chosen(Numbers(*np.exp(logs))), crf).matrix()
        values.append(0.5 * (np.linalg.slogdet(Q)[1] - np.linalg.slogdet(H + Q)[1] + a @ linalg.solve(H + Q, a)))
    ours = [evidence.negative(logs)[0] for logs in (there, here)]
    assert ours[0] - ours[1] == pytest.approx(values[0] - values[1], abs=1e-6)


def test_smooth_weights_are_found_smooth_and_rough_ones_rough():
    """A length of about that of the profile, 3; of shuffled inputs almost nothing, and better labels for the first."""
    crf, X, y = chains(4)
    smooth = bf.fit_sequences(crf, X, y, bf.Smooth(np.arange(20.0)), correction="none")
    assert smooth.record.prior.settled
    assert 1.5 < smooth.prior.length < 8.0
    assert smooth.prior.nugget < 0.3
    places = np.random.default_rng(0).permutation(20).astype(float)
    rough = bf.fit_sequences(crf, X, y, bf.Smooth(places), correction="none")
    assert rough.prior.nugget > 0.5 or rough.prior.length < 1.0
    plain = bf.fit_sequences(crf, X, y, bf.Normal("evidence"), correction="none")
    _, test, labels = chains(5, count=200)
    losses = [log_loss(p, test, labels) for p in (smooth, rough, plain)]
    assert losses[0] < losses[2] - 0.005
    assert losses[1] < losses[2] + 0.02


def log_loss(posterior, X, y):
    p = bf.predict_sequences(posterior, X, "map").probabilities
    return -np.log(p[np.arange(len(p)), np.concatenate(y)]).mean()


def test_numbers_that_are_stated_are_not_learned():
    crf, X, y = chains(6, count=20, inputs=7)
    stated = {**STATED, "variance": "evidence"}
    posterior = bf.fit_sequences(crf, X, y, bf.Smooth(places(), **stated), correction="none")
    chosen = posterior.prior
    assert (chosen.length, chosen.nugget, chosen.others, chosen.transitions) == (1.5, 0.05, 2.0, 0.5)
    assert chosen.variance != 1.0
    assert "length 1.5, nugget 0.05" in str(posterior.record.prior)
    again = bf.fit_sequences(crf, X, y, chosen, correction="none")
    np.testing.assert_allclose(again.mode, posterior.mode, atol=1e-4)
    assert again.record.prior is None


def test_a_line_is_much_the_same_by_coordinates_and_by_its_graph():
    """exp(−ℓ²L/2) on a long line is a Gaussian of the same length; (I + ℓ²L)⁻¹ falls to 1/e in a length or so."""
    line = np.diag(np.ones(40), 1)
    line = line + line.T
    crf = bf.CRF(["a", "b"], 41)
    kernels = {
        kind: bf.Smooth(graph=line, kernel=kind, **STATED).near(crf).correlation(3.0)[20]
        for kind in ("diffusion", "laplacian")
    }
    gaussian_ = bf.Smooth(np.arange(41.0), **STATED).near(crf).correlation(3.0)[20]
    np.testing.assert_allclose(kernels["diffusion"][20:30], gaussian_[20:30], atol=0.08)
    assert kernels["laplacian"][23] == pytest.approx(np.exp(-1.0), abs=0.05)


def test_graphs_may_be_sparse_or_pairs_of_names():
    crf = bf.CRF(["a", "b"], ["low", "middle", "high", "constant"])
    matrix = np.zeros((4, 4))
    matrix[0, 1] = matrix[1, 0] = matrix[1, 2] = matrix[2, 1] = 1.0
    pairs = [("low", "middle"), ("middle", "high"), ("high", "unheard of")]
    covariances = [
        gaussian(bf.Smooth(graph=graph, **STATED), crf).covariance
        for graph in (matrix, sparse.csr_array(matrix), pairs)
    ]
    for other in covariances[1:]:
        np.testing.assert_allclose(other, covariances[0], atol=ALGEBRA)
    assert covariances[0][6, 6] == STATED["others"]


def test_names_that_lie_somewhere():
    crf = bf.CRF(["a", "b"], ["young", "grown", "old", "constant"])
    named = {"young": 20, "grown": 40, "old": 60, "ancient": 90}
    ours = gaussian(bf.Smooth(named, length=20.0, variance=1.0, nugget=0.1, others=1.0, transitions=1.0), crf)
    K = kernel(1.0, 1.0, 0.1, LINE[:3, None] - LINE[:3])
    np.testing.assert_allclose(ours.covariance[0:6:2, 0:6:2], K, atol=ALGEBRA)
    vectors = {"young": (0.0, 1.0), "grown": np.array([1.0, 0.0]), "old": [1.0, 1.0]}
    assert bf.Smooth(vectors).near(crf).between[0, 1] == pytest.approx(2.0)


def test_the_estimator_takes_arrays_and_named_inputs():
    _, X, y = chains(7, count=15, inputs=6)
    arrays = bf.BayesianCRF(bf.Smooth(np.arange(6.0)), correction="none", predictor="map").fit(X, y)
    items = [[{f"bin={d}": v for d, v in enumerate(row)} for row in x] for x in X]
    named = bf.BayesianCRF(bf.Smooth({f"bin={d}": d for d in range(6)}), correction="none", predictor="map").fit(
        items, y
    )
    assert named.attributes_ == [f"bin={d}" for d in range(6)]
    np.testing.assert_allclose(arrays.posterior_.mode, named.posterior_.mode, atol=1e-6)
    assert arrays.predict(X) == named.predict(items)
    assert set(arrays.variance_) == {"smooth", "transitions"}
    assert arrays.variance_["smooth"] == pytest.approx(arrays.posterior_.prior.variance)


def test_graphs_of_labels_take_it_too():
    rng = np.random.default_rng(0)
    edges = np.array([[0, 1], [1, 2], [2, 3]])
    X = [(rng.normal(size=(4, 5)), edges) for _ in range(15)]
    y = [[int(v) for v in nodes.sum(axis=1) > 0] for nodes, _ in X]
    crf = bf.GraphCRF(bf.Smooth(np.arange(5.0)), correction="none").fit(X, y)
    assert crf.posterior_.record.prior.settled
    W = crf.posterior_.mode[: crf.crf_.n_state].reshape(5, 2)
    assert (W[:, 1] > W[:, 0]).all()


def test_a_smooth_posterior_is_saved_and_read(tmp_path):
    crf, X, y = chains(8, count=10, inputs=7)
    for where in ({"coordinates": places()}, {"graph": sparse.csr_array(line_graph())}):
        posterior = bf.fit_sequences(crf, X, y, bf.Smooth(**where), correction="none")
        posterior.save(tmp_path / "smooth.bayesfield")
        back = bf.load(tmp_path / "smooth.bayesfield")
        np.testing.assert_array_equal(back.mean, posterior.mean)
        np.testing.assert_allclose(back.prior.precision(crf), posterior.prior.precision(crf), rtol=ALGEBRA)
        assert str(back.record.prior) == str(posterior.record.prior)


REFUSED = {
    "coordinates of the inputs, or a graph": lambda: bf.Smooth(),
    "give one of both": lambda: bf.Smooth(LINE, graph=[("a", "b")]),
    'kernel of coordinates is "gaussian"': lambda: bf.Smooth(LINE, kernel="diffusion"),
    'kernel of a graph is "diffusion" or "laplacian"': lambda: bf.Smooth(graph=np.eye(2), kernel="gaussian"),
    'length is a number, or "evidence"': lambda: bf.Smooth(LINE, length="long"),
    "length is finite and above zero": lambda: bf.Smooth(LINE, length=0.0),
    "nugget, the share": lambda: bf.Smooth(LINE, nugget=0.0),
    "variance is one number": lambda: bf.Smooth(LINE, variance=[1.0, 2.0]),
    "prior variances must be finite and above zero": lambda: bf.Smooth(LINE, others=-1.0),
    "a row for each of 7 inputs": lambda: gaussian(bf.Smooth(LINE), model()),
    "coordinates must be finite": lambda: gaussian(bf.Smooth([np.inf, *LINE]), model()),
    "as many numbers for each": lambda: gaussian(bf.Smooth({"input0": 1.0, "input1": (1.0, 2.0)}), model()),
    "are of 1 of the model's 7": lambda: gaussian(bf.Smooth({"input0": 1.0, "inputs1": 2.0}), model()),
    "weights of a graph must be symmetric": lambda: gaussian(bf.Smooth(graph=np.triu(np.ones((7, 7)))), model()),
    "none below zero": lambda: gaussian(bf.Smooth(graph=-np.ones((7, 7))), model()),
    "a row and a column for each of 7": lambda: gaussian(bf.Smooth(graph=np.ones((3, 3))), model()),
    "is for conditional fields": lambda: bf.fit(bf.chain(3), [[1, 1, 1]], bf.Smooth(LINE)),
    'possible="seen" leaves some out': lambda: bf.BayesianCRF(bf.Smooth(np.arange(6.0)), possible="seen").fit(
        *chains(0, count=5, inputs=6)[1:]
    ),
    'form="block" needs sequences': lambda: fitted_in_form("block", **STATED),
    "a diagonal prior": lambda: fitted_in_form("sparse", **STATED),
    'take form="dense", or give length': lambda: fitted_in_form("mean-field"),
    "variances that are numbers": lambda: fitted_in_form("dense", method=bf.ElasticNet(1.0), **STATED),
}


def fitted_in_form(form, method="auto", **numbers):
    crf, X, y = chains(0, count=5, inputs=7)
    return bf.fit_sequences(crf, X, y, bf.Smooth(places(), **numbers), form=form, method=method, verbose=False)


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_is_refused(message):
    with pytest.raises(bf.BayesfieldError) as refused:
        REFUSED[message]()
    assert message in str(refused.value)


@pytest.mark.slow
def test_chains_agree_with_the_dense_correction():
    crf, X, y = chains(9, count=10, inputs=7)
    prior = bf.Smooth(places(), **STATED)
    posterior = bf.fit_sequences(crf, X, y, prior)
    draws = bf.sample_sequences(crf, X, y, prior=prior, n_draws=2000, chains=2, rng=0)
    away = (posterior.mean - draws.flat.mean(axis=0)) / draws.flat.std(axis=0)
    assert np.sqrt(np.mean(away**2)) < 0.1
    assert np.median(posterior.sd / draws.flat.std(axis=0)) == pytest.approx(1.0, abs=0.1)


def test_gradient_of_cross_validated_numbers(monkeypatch):
    """Against central differences of the loss of what was left out."""
    from bayesfield.analysis.validation import slopes, smooth_numbers

    monkeypatch.setattr(slopes, "_TOLERANCE", 1e-9)
    monkeypatch.setattr(slopes, "_RESIDUAL", 1e-10)
    crf, X, y = chains(0, count=12)
    data = bf.as_sequences(crf, X, y)
    prior = bf.Smooth(np.append(np.arange(19.0), np.nan))
    near, names = prior.near(crf), prior.open(crf)
    assert names == ("length", "variance", "nugget", "others", "transitions")
    part = slopes.held_out(crf, data, np.arange(12) % 3 == 0)
    search = smooth_numbers._Search([part], near, prior.begun(crf), names)
    here = np.log([2.0, 0.5, 0.2, 0.7, 0.3])
    _, slope = search.loss(here)
    for k in range(5):
        step = 1e-3 * np.eye(5)[k]
        difference = (search.loss(here + step)[0] - search.loss(here - step)[0]) / 2e-3
        assert slope[k] == pytest.approx(difference, rel=1e-3, abs=1e-5)


def test_cross_validated_numbers_are_those_of_smooth_weights():
    """Weights of width 3 over 20 inputs: chosen to reach over neighbours, with a better loss than at the start; what is
    given stays, and a fit takes the prior as it is."""
    crf, X, y = chains(1, count=30)
    found = bf.cross_validated_smooth(crf, X, y, bf.Smooth(np.arange(20.0), transitions=0.1), rng=1)
    assert found.log_loss < found.before
    assert float(found.prior.length) > 1.5
    assert found.prior.transitions == pytest.approx(0.1)
    posterior = bf.fit_sequences(crf, X, y, prior=found.prior, correction="none")
    assert posterior.record.prior is None
    assert posterior.record.status.converged


@pytest.mark.parametrize(
    ("prior", "text"),
    [(bf.Normal(variance=1.0), "bf.Smooth"), (bf.Smooth(LINE, **STATED), "all numbers of this prior are given")],
)
def test_numbers_that_cannot_be_chosen(prior, text):
    crf, X, y = chains(0, count=4, inputs=6)
    with pytest.raises(bf.InvalidInput, match=text):
        bf.cross_validated_smooth(crf, X, y, prior)
