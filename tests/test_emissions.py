"""Emissions of hidden labels and hidden Markov chains, against enumeration, differences and hmmlearn."""

import itertools
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import bayesfield as bf
from bayesfield.estimators.checks import expected_failed_checks
from bayesfield.fitting.hidden import read_hidden
from bayesfield.inference.sampling.labels import LabelChain, neighbours
from bayesfield.inference.sampling.streamed import Streamed

FLAT = bf.Normal(variance=1e8)


def observations(kind, n, rng):
    y = {
        "gaussian": rng.normal(size=n),
        "shared": rng.normal(size=n),
        "student": rng.standard_t(3, size=n),
        "poisson": rng.poisson(3, size=n).astype(float),
        "categorical": rng.permutation(np.arange(n) % 3).astype(float),
    }
    return np.column_stack([y["gaussian"], y["poisson"]]) if kind == "both" else y[kind][:, None]


EMISSIONS = {
    "gaussian": bf.GaussianEmission(),
    "shared": bf.GaussianEmission(shared_sd=True),
    "student": bf.StudentEmission(3.0),
    "poisson": bf.PoissonEmission(),
    "categorical": bf.CategoricalEmission(),
    "both": [bf.GaussianEmission(), bf.PoissonEmission()],
}


def density(kind, y, k, eta, K):
    """log p(y | k), by scipy; y: one row. η as the library lays it out."""
    if kind == "both":
        return density("gaussian", y[:1], k, eta[: 2 * K], K) + density("poisson", y[1:], k, eta[2 * K :], K)
    if np.isnan(y[0]):
        return 0.0
    if kind == "poisson":
        return stats.poisson.logpmf(y[0], np.exp(eta[k]))
    if kind == "categorical":
        weights = eta.reshape(-1, K)[:, k]
        return weights[int(y[0])] - special.logsumexp(weights)
    scale = np.exp(eta[K] if kind == "shared" else eta[K + k])
    return stats.t.logpdf(y[0], 3.0, eta[k], scale) if kind == "student" else stats.norm.logpdf(y[0], eta[k], scale)


def chain_objective(kind, ptr, rng, K=3, initial="free"):
    y = observations(kind, ptr[-1], rng)
    y[1, 0] = np.nan
    model = bf.hidden_field(bf.MarkovChain(K, initial), K, EMISSIONS[kind]).bound(y)
    objective = read_hidden(model, y, np.diff(ptr), model.default_prior(y))
    return model, y, objective, model.default_prior(y).location(model) + 0.5 * rng.normal(size=model.n_parameters)


@pytest.mark.parametrize("kind", EMISSIONS)
def test_chain_likelihood_by_enumeration(kind):
    """Two sequences of 4 and 2 labels: the sum over all 3^4 and 3^2 labellings."""
    K, ptr = 3, np.array([0, 4, 6])
    model, y, objective, here = chain_objective(kind, ptr, np.random.default_rng(1), K)
    law, eta = model.split(here)
    first, moves = model.law.tables(law)
    total = 0.0
    for a, b in itertools.pairwise(ptr):
        terms = [
            first[z[0]]
            + sum(moves[i, j] for i, j in itertools.pairwise(z))
            + sum(density(kind, y[a + t], k, eta, K) for t, k in enumerate(z))
            for z in itertools.product(range(K), repeat=b - a)
        ]
        total += special.logsumexp(terms)
    assert objective.log_likelihood(objective.at(here)) == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("kind", EMISSIONS)
def test_chain_derivatives(kind):
    """Gradient and observed information against central differences."""
    _, _, objective, here = chain_objective(kind, np.array([0, 12, 30]), np.random.default_rng(2))
    point, h = objective.at(here), 1e-5
    ahead, behind = ([objective.at(here + s * h * e) for e in np.eye(len(here))] for s in (1, -1))
    gradient = [(a.value - b.value) / (2 * h) for a, b in zip(ahead, behind, strict=True)]
    curvature = [(a.gradient - b.gradient) / (2 * h) for a, b in zip(ahead, behind, strict=True)]
    np.testing.assert_allclose(point.gradient, gradient, atol=1e-6)
    np.testing.assert_allclose(objective.curvature(point), curvature, atol=1e-6)


@pytest.mark.parametrize("kind", ["gaussian", "categorical", "both"])
def test_labels_may_change_places(kind):
    """Every order of the labels is as likely as any other, prior included; ``ordered`` is one of them."""
    model, _, objective, here = chain_objective(kind, np.array([0, 9]), np.random.default_rng(3))
    value, (law, eta) = objective.at(here).value, model.split(here)
    for order in itertools.permutations(range(3)):
        order = np.array(order)
        other = np.concatenate([law[model.law.relabelled(order)], eta[model.emitted.relabelled(order)]])
        assert objective.at(other).value == pytest.approx(value, abs=1e-10)
    ordered = model.ordered(here)
    assert objective.at(ordered).value == pytest.approx(value, abs=1e-10)
    assert (np.diff(model.emitted.means(model.split(ordered)[1])[:, 0]) >= 0).all()


def simulated(T, rng, K=3, stay=0.9, sd=0.6):
    moves = np.full((K, K), (1 - stay) / (K - 1))
    np.fill_diagonal(moves, stay)
    z = np.zeros(T, dtype=int)
    for t in range(1, T):
        z[t] = rng.choice(K, p=moves[z[t - 1]])
    mean = 2.0 * np.arange(K)
    return mean[z] + sd * rng.normal(size=T), z


def test_maximum_likelihood_is_that_of_hmmlearn():
    """Flat prior, the same start: log-likelihood and means to 1e-4, as long as EM is run to its end."""
    hmm = pytest.importorskip("hmmlearn.hmm")
    y, _ = simulated(1500, np.random.default_rng(0))
    field = bf.hidden_field("chain", 3)
    posterior = bf.fit_hidden(field, y, FLAT, correction="none")
    # its own priors of means and variances taken out; the first label uniform, as here
    peer = hmm.GaussianHMM(
        3, "diag", n_iter=2000, tol=1e-9, init_params="", params="tmc", covars_prior=0.0, covars_weight=0.0,
        means_weight=0.0, min_covar=0.0,
    )  # fmt: skip
    peer.startprob_, peer.transmat_ = np.full(3, 1 / 3), np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    peer.means_ = np.quantile(y, [1 / 6, 1 / 2, 5 / 6])[:, None]
    peer.covars_ = np.full((3, 1), y.var() / 9)
    peer.fit(y[:, None])
    model = posterior.field
    law, eta = model.split(posterior.mode)
    assert posterior.record.log_likelihood == pytest.approx(peer.score(y[:, None]), abs=1e-4)
    np.testing.assert_allclose(model.emitted.means(eta), peer.means_, atol=1e-4)
    np.testing.assert_allclose(np.exp(eta[3:]), np.sqrt(peer.covars_).ravel(), atol=1e-4)
    np.testing.assert_allclose(np.exp(model.law.tables(law)[1]), peer.transmat_, atol=1e-4)


@pytest.mark.slow
def test_posterior_of_a_chain_against_metropolis():
    """sds within 10 %, means within 0.1 sd, of 40,000 steps of a random walk on the exact likelihood."""
    y, _ = simulated(800, np.random.default_rng(4))
    posterior = bf.fit_hidden(bf.hidden_field("chain", 3), y)
    rng, size = np.random.default_rng(5), len(posterior.mean)
    here, value = posterior.mode.copy(), posterior.objective.at(posterior.mode).value
    root, kept = np.linalg.cholesky(np.linalg.inv(posterior.form.matrix())), []
    for _ in range(40_000):
        other = here + 2.4 / np.sqrt(size) * (root @ rng.standard_normal(size))
        new = posterior.objective.at(other).value
        if np.log(rng.random()) < value - new:
            here, value = other, new
        kept.append(here)
    draws = np.array(kept[2000:])
    np.testing.assert_allclose(posterior.sd / draws.std(axis=0), 1.0, atol=0.1)
    np.testing.assert_allclose((posterior.mean - draws.mean(axis=0)) / draws.std(axis=0), 0.0, atol=0.1)


def test_hidden_chain_estimator():
    y, z = simulated(1200, np.random.default_rng(6))
    holes = y.copy()
    holes[200:210] = np.nan
    chain = bf.HiddenChain(3, correction="none", n_draws=5).fit(holes, lengths=[700, 500])
    assert (chain.predict(y) == z).mean() > 0.95
    probabilities = chain.predict_proba(holes, lengths=[700, 500])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert probabilities[205].max() < probabilities[300].max()
    filled = chain.impute(holes, lengths=[700, 500])
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[:200, 0], y[:200])
    assert abs(chain.means_.ravel() - [0, 2, 4]).max() < 0.2
    np.testing.assert_allclose(chain.transmat_.sum(axis=1), 1.0)
    X, labels = chain.sample(50)
    assert X.shape == (50, 1)
    assert set(labels) <= {0, 1, 2}
    # rows' predictive probabilities multiply to that of the sequence; at the mode, to its likelihood
    at_mode = bf.HiddenChain(3, correction="none", n_draws=1).fit(holes, lengths=[700, 500])
    at_mode.posterior_ = at_mode.posterior_.at_temperature(0.0)
    total = at_mode.score_samples(holes, lengths=[700, 500]).sum()
    assert total == pytest.approx(at_mode.posterior_.record.log_likelihood, abs=1e-8)


def test_a_posterior_of_a_chain_is_reproducible_and_says_what_it_is():
    y, _ = simulated(400, np.random.default_rng(7))
    one, two = (bf.fit_hidden(bf.hidden_field("chain", 2), y, correction="mean") for _ in range(2))
    np.testing.assert_array_equal(one.mean, two.mean)
    assert one.record.status.converged
    assert list(one.summary().index[-4:]) == ["mean[0]", "mean[1]", "log_sd[0]", "log_sd[1]"]
    assert "chains of 400 labels" in str(one.record)


def test_refusals():
    y = np.random.default_rng(8).normal(size=50)
    field = bf.hidden_field("chain", 2)
    with pytest.raises(bf.InvalidInput, match="lengths"):
        bf.fit_hidden(field, y, lengths=[10, 10])
    with pytest.raises(bf.InvalidInput, match="counts"):
        bf.fit_hidden(bf.hidden_field("chain", 2, bf.PoissonEmission()), y)
    with pytest.raises(bf.InvalidInput, match="alike"):
        bf.fit_hidden(field, np.ones(20))
    with pytest.raises(bf.InvalidInput, match="structure"):
        bf.hidden_field("ring", 2)
    with pytest.raises(bf.InvalidInput, match="nothing but missing"):
        bf.fit_hidden(field, np.full(20, np.nan))
    with pytest.raises(bf.InvalidInput, match="emission"):
        bf.HiddenChain(2, emission="gamma").fit(y)
    with pytest.raises(bf.InvalidInput, match="n_labels"):
        bf.HiddenChain(1).fit(y)


@pytest.mark.slow
def test_estimators_of_hidden_labels_keep_the_contract():
    from sklearn.utils.estimator_checks import check_estimator

    chain = bf.HiddenChain(2, correction="none", verbose=False)
    listed = expected_failed_checks(chain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bf.FitWarning)  # some of the tables have no more to say than noise
        found = check_estimator(chain, expected_failed_checks=listed, on_fail=None, on_skip=None)
    assert {c["check_name"] for c in found if c["status"] == "failed"} == set()
    assert {c["check_name"] for c in found if c["status"] == "xfail"} == set(listed)


# --- lattices and other graphs ---------------------------------------------------------------------------------------


def lattice_objective(kind, K, rng, rows=2, columns=3):
    y = observations(kind, rows * columns, rng)
    y[1, 0] = np.nan
    model = bf.hidden_field((rows, columns), K, EMISSIONS[kind]).bound(y)
    prior = model.default_prior(y)
    here = prior.location(model) + 0.5 * rng.normal(size=model.n_parameters)
    return model, y, read_hidden(model, y, None, prior), here


@pytest.mark.parametrize("kind", EMISSIONS)
def test_lattice_likelihood_by_enumeration(kind):
    """log p(y) = log Σ_z exp(β S(z)) p(y | z) − log Σ_z exp(β S(z)), by all 3^6 labellings."""
    K = 3
    _, y, objective, here = lattice_objective(kind, K, np.random.default_rng(11), 2, 3)
    z = np.array(list(itertools.product(range(K), repeat=6)))
    edges = bf.grid_edges(2, 3)
    same = (z[:, edges[:, 0]] == z[:, edges[:, 1]]).sum(axis=1)
    U = np.array([[density(kind, row, k, here[1:], K) for k in range(K)] for row in y])
    total = special.logsumexp(here[0] * same + U[np.arange(6), z].sum(axis=1)) - special.logsumexp(here[0] * same)
    exact = objective.with_engine(bf.Exact())
    assert exact.log_likelihood(exact.at(here)) == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("engine", [bf.Exact(), bf.Bethe(), bf.Kikuchi()], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("kind", ["gaussian", "student", "both"])
def test_lattice_derivatives(kind, engine):
    _, _, objective, here = lattice_objective(kind, 2, np.random.default_rng(12), 3, 3)
    objective = objective.with_engine(engine)
    point, h = objective.at(here), 1e-5
    ahead, behind = ([objective.at(here + s * h * e) for e in np.eye(len(here))] for s in (1, -1))
    gradient = [(a.value - b.value) / (2 * h) for a, b in zip(ahead, behind, strict=True)]
    curvature = [(a.gradient - b.gradient) / (2 * h) for a, b in zip(ahead, behind, strict=True)]
    np.testing.assert_allclose(point.gradient, gradient, atol=1e-5)
    np.testing.assert_allclose(objective.curvature(point), curvature, atol=1e-5)


@pytest.mark.parametrize("beta", [0.7, -0.7])
def test_chains_of_labels_by_enumeration(beta):
    """Means of equal pairs and beliefs of 40,000 sweeps, to five standard errors (batches; one false alarm in 10^5)."""
    rng, edges, K = np.random.default_rng(13), bf.grid_edges(2, 3), 3
    U = rng.normal(size=(6, K))
    z = np.array(list(itertools.product(range(K), repeat=6)))
    same = (z[:, edges[:, 0]] == z[:, edges[:, 1]]).sum(axis=1)
    free, given = (special.softmax(beta * same + c * U[np.arange(6), z].sum(axis=1)) for c in (0.0, 1.0))
    chain = LabelChain(neighbours(6, edges), K, np.zeros(6), 1)
    run = chain.clamped(beta, U, U[:, :, None], 40_000)
    for p, series in [(given, run.same), (given, run.states[:, 0]), *((free, s) for s in chain.free(beta, 40_000).T)]:
        batches = series.reshape(100, -1).mean(axis=1)
        assert abs(batches.mean() - p @ same) < 5 * batches.std(ddof=1) / 10
    exact = np.stack([(given[:, None] * (z == k)).sum(axis=0) for k in range(K)], axis=1)
    np.testing.assert_allclose(run.beliefs, exact, atol=0.01)
    scores = np.stack([(given[:, None] * (z == k)) @ U[:, k] for k in range(K)]).sum(axis=1)
    np.testing.assert_allclose(run.states[:, 1:].mean(axis=0), scores, atol=0.05)


def hidden_image(rows, columns, K, beta, seed, gap=2.0):
    rng = np.random.default_rng(seed)
    chain = LabelChain(
        neighbours(rows * columns, bf.grid_edges(rows, columns)), K, rng.integers(0, K, rows * columns), 7
    )
    chain.free(beta, 200)
    z = chain.z.astype(int).reshape(rows, columns)
    return z, gap * z + rng.normal(size=z.shape)


def test_chains_of_labels_have_the_exact_posterior():
    """A strip of 5 × 80, where exact inference takes milliseconds: modes within 0.35 sd (the chains' own error is some
    0.1), sds within 20 %."""
    _, image = hidden_image(5, 80, 2, 0.8, 3)
    field, small = bf.hidden_field(image.shape, 2), bf.hidden_field((5, 20), 2)
    exact = bf.fit_hidden(field, image.ravel(), engine=bf.Exact(), correction="none")
    chains = bf.fit_hidden(field, image.ravel(), engine=Streamed())
    assert exact.record.status.converged
    assert chains.record.inference.mixing < 1.0
    np.testing.assert_allclose((chains.mode - exact.mode) / exact.sd, 0.0, atol=0.35)
    np.testing.assert_allclose(chains.sd / exact.sd, 1.0, atol=0.2)
    assert "second order" in chains.certificate.advice
    one, again = (bf.fit_hidden(small, image[:, :20].ravel(), engine=Streamed(0.3)) for _ in range(2))
    np.testing.assert_array_equal(again.mean, one.mean)


def test_hidden_lattice_estimator():
    """Labels at least as good as those of ICM with the true parameters; other images; missing pixels; no data in
    pickles."""
    z, image = hidden_image(40, 40, 3, 0.9, 4, gap=1.5)
    lattice = bf.HiddenLattice(3, n_draws=5).fit(image)
    truth = np.concatenate([[0.9], 1.5 * np.arange(3), np.zeros(3)])
    assert (np.abs(lattice.posterior_.mean - truth) < 4 * lattice.posterior_.sd).all()
    labels = lattice.predict(image)
    assert (labels == z).mean() >= (icm(image, 0.9, 1.5 * np.arange(3)) == z).mean()
    p, doubt = lattice.predict_proba(image), lattice.doubt(image)
    np.testing.assert_allclose(p.sum(axis=-1), 1.0)
    np.testing.assert_allclose(doubt, 1.0 - p.max(axis=-1), atol=1e-12)
    holes = image.copy()
    holes[10:14, 10:14] = np.nan
    filled = lattice.impute(holes)
    assert np.isfinite(filled).all()
    assert lattice.doubt(holes)[10:14, 10:14].mean() > doubt[10:14, 10:14].mean()
    _, other = hidden_image(30, 20, 3, 0.9, 5, gap=1.5)
    assert lattice.predict(np.stack([other, other])).shape == (2, 30, 20)
    assert lattice.score(other) > lattice.score(other + 1.0)
    new, its_labels = lattice.sample((12, 9))
    assert new.shape == its_labels.shape == (12, 9)
    again = pickle.loads(pickle.dumps(lattice))
    np.testing.assert_array_equal(again.predict(image), labels)
    assert again.posterior_.objective is None


def icm(image, beta, mean):
    """Iterated conditional modes from each site's own best label, sd 1."""
    z = np.abs(image[..., None] - mean).argmin(axis=-1)
    for turn in range(20):
        padded = np.pad(z, 1, constant_values=-1)
        near = np.stack([padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]])
        votes = (near[..., None] == np.arange(len(mean))).sum(axis=0)
        parity = np.add.outer(*map(np.arange, z.shape)) % 2
        best = (beta * votes - 0.5 * (image[..., None] - mean) ** 2).argmax(axis=-1)
        z = np.where(parity == turn % 2, best, z)
    return z


def test_a_field_of_ones_own_and_a_mask():
    """Labels on a field with an own law, by exact inference; sites outside a mask are nobody's neighbours."""
    _, image = hidden_image(4, 4, 2, 0.8, 6)
    own = bf.potts(16, bf.grid_edges(4, 4), 2, tied=True)
    posterior = bf.fit_hidden(bf.hidden_field(own, 2), image.ravel(), correction="none")
    assert posterior.record.status.converged
    assert list(posterior.summary().index[:2]) == list(own.parameter_names)
    mask = np.ones((4, 4), dtype=bool)
    mask[0, :] = False
    lattice = bf.HiddenLattice(2, mask=mask, correction="none", n_draws=2).fit(image)
    assert (lattice.predict(image)[0] == -1).all()
    assert (lattice.predict(image)[1:] >= 0).all()
    changed = image.copy()
    changed[0] = 100.0
    np.testing.assert_array_equal(lattice.predict_proba(changed), lattice.predict_proba(image))
    with pytest.raises(bf.InvalidInput, match="mask"):
        bf.HiddenLattice(2, mask=np.zeros((4, 4), dtype=bool)).fit(image)
    with pytest.raises(bf.InvalidInput, match="labels, and there are"):
        bf.fit_hidden(bf.hidden_field((2, 2), 2), np.arange(5.0))


def test_measurements_are_refused_and_the_class_for_them_is_named():
    rng = np.random.default_rng(9)
    with pytest.raises(bf.InvalidInput, match="HiddenLattice"):
        bf.LatticeField().fit(rng.integers(0, 100, (1, 8, 8)))
    table = pd.DataFrame({"age": np.arange(60) % 30, "answer": rng.integers(0, 2, 60)})
    with pytest.raises(bf.InvalidInput, match=r"30 levels.*HiddenChain"):
        bf.PottsNetwork().fit(table)
    named = table.astype({"age": "category"})
    assert bf.PottsNetwork(edges=[], engine="exact", correction="none").field_for(named).n_variables == 2


def test_evidence_counts_the_orders_of_the_labels():
    """Two well separated labels: the evidence of one mode, by importance, and log 2; a third one loses."""
    y, _ = simulated(300, np.random.default_rng(10), K=2, sd=0.5)
    two, three = (bf.fit_hidden(bf.hidden_field("chain", K), y, correction="none") for K in (2, 3))
    whole = two.evidence()
    one = two.objective.values(two.mode[None])[0]
    laplace = -one + 0.5 * two.objective.prior.log_det - 0.5 * two.laplace_precision.log_det
    assert whole.laplace == pytest.approx(laplace + np.log(2), abs=0.05)
    assert abs(whole.value - whole.laplace) < 0.3
    assert three.evidence(n_draws=0).value < whole.value
    assert two.field.equivalent_modes == 2


def test_what_posteriors_of_hidden_labels_refuse():
    y, _ = simulated(120, np.random.default_rng(14), K=2)
    posterior = bf.fit_hidden(bf.hidden_field("chain", 2), y, correction="none")
    with pytest.raises(bf.InvalidInput, match="all of them together"):
        posterior.update(y)
    with pytest.raises(bf.InvalidInput, match="several sequences"):
        bf.loo(posterior)
    shared = bf.fit_hidden(bf.hidden_field("chain", 2, bf.GaussianEmission(shared_sd=True)), y, correction="none")
    assert shared.field.parameter_names[-1] == "log_sd"


def test_images_of_several_channels():
    """Three channels, one of them counts: each alone tells less than all; a missing value is no missing site."""
    rng, z = np.random.default_rng(0), np.zeros((12, 12), dtype=int)
    z[3:9, 3:9] = 1
    image = np.stack([2.0 * z, -2.0 * z, np.zeros(z.shape)], axis=-1) + rng.normal(size=(12, 12, 3))
    image[:, :, 2] = rng.poisson(3.0 + 3.0 * z)
    image[0, 0, 1] = np.nan
    emission = ["gaussian", "student", "poisson"]
    lattice = bf.HiddenLattice(2, emission=emission, channels=True, correction="none", n_draws=5).fit(image)
    assert lattice.predict(image).shape == (12, 12)
    assert lattice.predict_proba(image).shape == (12, 12, 2)
    assert lattice.means_.shape == (2, 3)
    alone = bf.HiddenLattice(2, correction="none", n_draws=5).fit(image[:, :, 0])
    assert (lattice.predict(image) == z).mean() > max((alone.predict(image[:, :, 0]) == z).mean(), 0.9)
    filled = lattice.impute(image)
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[1:], image[1:])
    values, labels = lattice.sample((4, 5), 0)
    assert values.shape == (4, 5, 3)
    assert labels.shape == (4, 5)
    assert lattice.score_samples(np.stack([image, image])).shape == (2,)
    for bad, words in ((image[..., :2], "3 channels, these have 2"), (image[..., 0], "rows, columns, channels")):
        with pytest.raises(bf.InvalidInput, match=words):
            lattice.predict(bad)
    with pytest.raises(bf.InvalidInput, match="channels=True"):
        bf.HiddenLattice(2).fit(image[None])
