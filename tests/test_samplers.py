"""Samplers of the parameter posterior: right where they are exact, biased as known where they are not."""

import itertools
import sys

import numpy as np
import pytest
from scipy import stats

import bayesfield as bf
from bayesfield import diagnostics, parallel
from bayesfield.formats.arviz import to_arviz
from bayesfield.graph.structure import counts
from bayesfield.kernels.gibbs.general import sweep_chains
from bayesfield.kernels.gibbs.langevin import contrast
from bayesfield.learning.phases.cases import field_objective
from bayesfield.samplers import metropolis, nuts
from bayesfield.samplers.auxiliary import drawing
from bayesfield.samplers.contract import Problem
from bayesfield.samplers.contrasts import contrast_of

PRIOR = bf.Normal(variance=0.25)
EXACT = {  # enough steps between draws that a test of some seconds has effective sizes in the thousands
    "metropolis": (bf.Metropolis(), {"n_draws": 3000, "thin": 40}),
    "exchange": (bf.Exchange(), {"n_draws": 1500, "thin": 30}),
    "moller": (bf.Moller(), {"n_draws": 1000, "thin": 30}),
}
STEPPERS = [bf.Metropolis(), bf.Metropolis(bf.Bethe()), bf.Exchange(), bf.Moller(), bf.Langevin()]


def problem(side, n, seed=0, scale=0.5):
    field, rng = bf.grid(side, side), np.random.default_rng([seed, side, n])
    return field, bf.sample(field, scale * rng.normal(size=field.n_parameters), n, rng)


def moments(values, centre):
    """Mean and second moment about ``centre`` of every parameter, each with its Monte-Carlo error."""
    found = []
    for figures in (values, (values - centre) ** 2):
        error = figures.std(axis=(0, 1)) / np.sqrt(diagnostics.effective_size(figures))
        found.append((figures.mean(axis=(0, 1)), error))
    return found


def gaps(first, second):
    """Differences of both moments in standard errors."""
    centre = first.mean(axis=(0, 1))
    pairs = zip(moments(first, centre), moments(second, centre), strict=True)
    return np.concatenate([(a - b) / np.hypot(s, t) for (a, s), (b, t) in pairs])


@pytest.mark.parametrize("side", [2, 3])
@pytest.mark.parametrize("name", EXACT)
def test_exact_samplers_agree_with_nuts(name, side):
    """Means and variances within 4 standard errors: 16 or 42 numbers a run, so 0.8 % of seeds fail somewhere."""
    field, X = problem(side, 60)
    truth = bf.sample_posterior(field, X, PRIOR, bf.NUTS(), n_draws=5000, rng=1)
    sampler, options = EXACT[name]
    found = bf.sample_posterior(field, X, PRIOR, sampler, rng=2, **options)
    assert found.mpsrf < 1.1
    assert np.abs(gaps(truth.values, found.values)).max() < 4


def test_exact_samplers_agree_with_one_another():
    """Metropolis, exchange and Møller: 16 numbers for each pair; false alarm 0.3 %."""
    field, X = problem(2, 200, seed=1)
    found = [bf.sample_posterior(field, X, PRIOR, sampler, rng=3, **options) for sampler, options in EXACT.values()]
    for one, other in itertools.combinations(found, 2):
        assert np.abs(gaps(one.values, other.values)).max() < 4


@pytest.mark.parametrize("bridges", [1, 4])
def test_auxiliary_variables_with_any_number_of_bridges(bridges):
    """One bridge is the method as it was published; its chains stick, so that there is more to draw."""
    field, X = problem(2, 40, seed=2)
    truth = bf.sample_posterior(field, X, PRIOR, n_draws=3000)
    found = bf.sample_posterior(field, X, PRIOR, bf.Moller(bridges=bridges), n_draws=1500, thin=60 // bridges, rng=4)
    assert np.abs(gaps(truth.values, found.values)).max() < 4
    with pytest.raises(bf.InvalidInput, match="at least 1"):
        bf.Moller(bridges=0)


def test_weights_of_auxiliary_variables_estimate_a_ratio_of_normalisers():
    """E[w] = (Z(λ̃)/Z(λ))^N by enumeration, with any number of bridges: 20,000 weights each, within 4.5 errors."""
    field, X = problem(2, 3)
    objective = field_objective(field, X, PRIOR, bf.Exact())
    rng = np.random.default_rng(0)
    centre, here = 0.3 * rng.normal(size=(2, 8))
    wanted = 3 * (bf.infer(field, centre).log_z - bf.infer(field, here).log_z)
    shared = drawing(Problem(objective, centre, np.eye(8)), bf.Exact(), 1.0)
    for bridges in (1, 3):
        sampler = bf.Moller(bridges=bridges)
        weights = np.exp([sampler._weighed(shared, here, rng)[1] - wanted for _ in range(20_000 // bridges)])
        assert abs(weights.mean() - 1.0) < 4.5 * weights.std() / np.sqrt(len(weights))


def test_nuts_has_the_exact_moments():
    """One parameter: the posterior by quadrature. 4 standard errors of both moments."""
    field = bf.RandomField([bf.Variable("x", (0, 1))], [bf.Factor("x", {"h": [0.0, 1.0]})])
    X = np.array([[1]] * 9 + [[0]] * 3)
    h = np.linspace(-8, 8, 20_001)
    weight = np.exp(9 * h - 12 * np.log1p(np.exp(h)) - h**2 / 2)
    weight /= weight.sum()
    mean = (weight * h).sum()
    draws = bf.sample_posterior(field, X, bf.Normal(variance=1.0), bf.NUTS(), n_draws=4000)
    (found, error), (variance, variance_error) = moments(draws.values, mean)
    assert abs(found[0] - mean) < 4 * error[0]
    assert abs(variance[0] - (weight * (h - mean) ** 2).sum()) < 4 * variance_error[0]


def test_gibbs_draws_serve_the_exchange_algorithm():
    field, X = problem(2, 40)
    truth = bf.sample_posterior(field, X, PRIOR, n_draws=3000)
    sampler = bf.Exchange(bf.Sampled(burn_in=15))
    found = bf.sample_posterior(field, X, PRIOR, sampler, n_draws=150, thin=10, warmup=300)
    assert np.abs(gaps(truth.values, found.values)).max() < 4


def test_bias_of_the_papers_samplers_shows():
    """Strong couplings, many cases: MC-BP and LV-CD are off by many standard errors, and more sweeps help LV-CD."""
    field, X = problem(3, 500, scale=1.0)
    truth = bf.sample_posterior(field, X, PRIOR, n_draws=3000)

    def off(sampler, thin):
        found = bf.sample_posterior(field, X, PRIOR, sampler, n_draws=1000, thin=thin)
        shift = found.flat.mean(axis=0) - truth.flat.mean(axis=0)
        worst = np.abs(gaps(truth.values, found.values)).max()
        return np.sqrt(np.mean((shift / truth.flat.std(axis=0)) ** 2)), worst

    bethe, one, many = off(bf.Metropolis(bf.Bethe()), 80), off(bf.Langevin(), 10), off(bf.Langevin(sweeps=20), 10)
    assert min(bethe[1], one[1]) > 6  # by chance: 1 in 10^7
    assert bethe[0] > 0.1
    assert many[0] < one[0] / 2


def test_langevin_widens_a_gaussian_by_its_step():
    """Without data the posterior is the prior N(0, 1), and the stationary variance 1/(1 − ε²/4). Within 4 se."""
    field = bf.grid(2, 2)
    no_data = np.empty((0, 4), dtype=int)
    sampler = bf.Langevin(step=0.8)
    draws = bf.sample_posterior(field, no_data, bf.Normal(variance=1.0), sampler, n_draws=20_000, thin=2)
    _, (variance, error) = moments(draws.values, 0.0)
    assert np.abs((variance - 1 / (1 - 0.16)) / error).max() < 4


@pytest.mark.parametrize("sampler", [bf.NUTS(), bf.Metropolis(), bf.Exchange(), bf.Moller()], ids=repr)
def test_without_data_the_prior_is_sampled(sampler):
    """Kolmogorov-Smirnov on thinned draws, 5 parameters: false alarm 0.5 %."""
    covariance = np.full((5, 5), 0.3) + np.diag([0.7, 1.2, 0.2, 3.0, 0.7])
    field = bf.chain(3)
    prior = bf.Normal(mean=np.arange(5.0), covariance=covariance)
    thin = 1 if isinstance(sampler, bf.NUTS) else 60
    draws = bf.sample_posterior(field, np.empty((0, 3), dtype=int), prior, sampler, n_draws=1000, thin=thin)
    for k in range(5):
        own = draws.flat[::3, k]
        assert stats.kstest(own, stats.norm(k, np.sqrt(covariance[k, k])).cdf).pvalue > 1e-3


@pytest.mark.parametrize("engine", [bf.Exact(), bf.Bethe(max_direct=0)], ids=repr)
@pytest.mark.parametrize("full", [False, True])
def test_compiled_walk_is_the_general_one(engine, full, monkeypatch):
    field, X = problem(3, 30)
    prior = bf.Normal(covariance=0.1 * np.ones((21, 21)) + 0.4 * np.eye(21)) if full else PRIOR
    options = {"n_draws": 20, "thin": 3, "warmup": 60, "chains": 3}
    fast = bf.sample_posterior(field, X, prior, bf.Metropolis(engine), **options)
    monkeypatch.setattr(metropolis, "fast_target", lambda objective, engine: None)
    slow = bf.sample_posterior(field, X, prior, bf.Metropolis(engine), **options)
    np.testing.assert_allclose(fast.values, slow.values, atol=1e-9)
    shift = fast.stats["energy"] - slow.stats["energy"]  # the kernel leaves out N times the data's fixed energy
    np.testing.assert_allclose(shift, shift[0, 0], atol=1e-6)
    np.testing.assert_allclose(fast.stats["acceptance"], slow.stats["acceptance"], atol=1e-12)


@pytest.mark.parametrize("full", [False, True])
def test_compiled_density_is_the_general_one(full):
    """Value up to a constant, and gradient, in the sampler's coordinates; a field with ties and three states too."""
    rng = np.random.default_rng(3)
    for field in (bf.grid(3, 4), bf.potts(5, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)], 3, tied=True)):
        F = field.n_parameters
        covariance = 0.2 * np.ones((F, F)) + np.diag(rng.uniform(0.3, 1.0, F))
        prior = bf.Normal(mean=rng.normal(size=F), **({"covariance": covariance} if full else {"variance": 0.7}))
        X = bf.sample(field, 0.3 * rng.normal(size=F), 25, rng)
        objective = field_objective(field, X, prior, bf.Exact())
        known = Problem(objective, rng.normal(size=F), rng.normal(size=(F, F)) / F)
        fast = nuts._density(objective, known)
        shifts = []
        for z in rng.normal(size=(4, F)):
            value, gradient = fast(z)
            point = objective.at(known.centre + known.factor @ z)
            shifts.append(value + point.value)
            np.testing.assert_allclose(gradient, -known.factor.T @ point.gradient, atol=1e-8)
        np.testing.assert_allclose(shifts, shifts[0], atol=1e-8)


def test_single_precision_contrast_has_the_gradient_of_the_general_one():
    """Means of 2,000 CD-2 gradients by both kernels, 21 numbers: within 4.5 standard errors (false alarm 0.01 %)."""
    field, X = problem(3, 150)
    objective = field_objective(field, X, PRIOR, bf.Exact())
    here = 0.4 * np.random.default_rng(0).normal(size=21)
    fast, seeds = contrast_of(objective).known, parallel.chain_seeds(1, 64)
    field, slopes = objective.data.cases.field, np.empty((2, 2000, 21))
    many = parallel.chain_seeds(2, len(X))
    for k in range(2000):
        contrast(fast, here, 2, seeds, slopes[0, k])
        states = objective.data.cases.codes.astype(np.int32)
        unused = np.zeros(field.graph.n_entries)
        sweep_chains(field.graph.arrays, field.design.potentials(here), states, many, 2, unused)
        mean = field.design.expectations(counts(field.graph, states.astype(np.int64)))
        slopes[1, k] = objective.statistic - mean - objective.prior.pull(here)
    error = np.hypot(*slopes.std(axis=1)) / np.sqrt(2000)
    assert np.abs((slopes[0].mean(axis=0) - slopes[1].mean(axis=0)) / error).max() < 4.5


@pytest.mark.parametrize("sampler", STEPPERS, ids=repr)
def test_going_on_gives_the_numbers_of_one_long_run(sampler, tmp_path):
    field, X = problem(2, 20)
    options = {"prior": PRIOR, "sampler": sampler, "thin": 2, "chains": 3, "rng": 5}
    whole = bf.sample_posterior(field, X, n_draws=60, warmup=110, **options)
    first = bf.sample_posterior(field, X, n_draws=25, warmup=110, **options)
    first.save(tmp_path / "first.npz")
    again = bf.load_draws(tmp_path / "first.npz", field)
    np.testing.assert_array_equal(again.values, first.values)
    for start in (first, again):
        rest = bf.sample_posterior(field, X, n_draws=35, resume=start, **options)
        np.testing.assert_allclose(rest.values, whole.values, atol=1e-12)
        assert rest.warmup == 110
        for name, figures in whole.stats.items():
            np.testing.assert_allclose(rest.stats[name], figures, atol=1e-9)


def test_going_on_inherits_what_the_draws_were_made_with():
    field, X = problem(2, 20)
    first = bf.sample_posterior(field, X, PRIOR, bf.Metropolis(), n_draws=20, chains=3, thin=5, warmup=50)
    longer = bf.sample_posterior(field, X[::-1], PRIOR, bf.Metropolis(), n_draws=10, resume=first)  # the same cases
    assert longer.values.shape[:2] == (3, 30)
    assert longer.thin == 5


def test_langevin_with_holes_goes_on_as_one_long_run():
    field, X = problem(2, 20)
    X = X.astype(float)
    X[::3, 1] = np.nan
    options = {"prior": PRIOR, "sampler": bf.Langevin(), "chains": 2, "rng": 5}
    whole = bf.sample_posterior(field, X, n_draws=12, warmup=20, **options)
    first = bf.sample_posterior(field, X, n_draws=5, warmup=20, **options)
    rest = bf.sample_posterior(field, X, n_draws=7, resume=first, **options)
    np.testing.assert_allclose(rest.values, whole.values, atol=1e-12)


def test_a_chain_does_not_depend_on_its_neighbours():
    """Bethe's lanes: a chain alone, as a worker of a cluster runs it, and beside others."""
    field, X = problem(3, 60)
    beside = bf.sample_posterior(field, X, PRIOR, bf.Metropolis(bf.Bethe()), n_draws=50, warmup=100, chains=3, rng=2)
    alone = bf.sample_posterior(field, X, PRIOR, bf.Metropolis(bf.Bethe()), n_draws=50, warmup=100, chains=1, rng=2)
    np.testing.assert_array_equal(alone.values[0], beside.values[0])


@pytest.mark.parametrize("sampler", [bf.Metropolis(bf.Sampled()), bf.NUTS(bf.Sampled())], ids=repr)
def test_engines_without_log_z_are_refused(sampler):
    field, X = problem(2, 10)
    with pytest.raises(bf.InvalidInput, match="needs log Z"):
        bf.sample_posterior(field, X, sampler=sampler)


def test_nuts_goes_on_from_where_it_stands():
    field, X = problem(2, 50)
    first = bf.sample_posterior(field, X, PRIOR, n_draws=500)
    both = bf.sample_posterior(field, X, PRIOR, n_draws=500, resume=first)
    assert both.values.shape == (4, 1000, 8)
    np.testing.assert_array_equal(both.values[:, :500], first.values)
    assert diagnostics.r_hat(both.values).max() < 1.02


@pytest.mark.parametrize("sampler", [*STEPPERS, bf.NUTS()], ids=repr)
def test_numbers_do_not_depend_on_the_cores(sampler, monkeypatch):
    field, X = problem(2, 20)
    options = {"prior": PRIOR, "sampler": sampler, "n_draws": 10, "warmup": 55, "chains": 10}
    many = bf.sample_posterior(field, X, **options)
    monkeypatch.setattr(parallel, "_limit", 1)
    np.testing.assert_allclose(bf.sample_posterior(field, X, **options).values, many.values, atol=1e-12)


@pytest.mark.parametrize(
    "sampler", [bf.Metropolis(), bf.Metropolis(bf.Bethe()), bf.Exchange(), bf.Moller(bridges=6), bf.Langevin(sweeps=20)]
)
def test_fields_of_any_kind(sampler):
    """Three states, a chain (Bethe is exact there): all samplers near NUTS, the slow paths included."""
    field = bf.potts(4, [(0, 1), (1, 2), (2, 3)], 3)
    rng = np.random.default_rng(7)
    X = bf.sample(field, 0.5 * rng.normal(size=field.n_parameters), 40, rng)
    truth = bf.sample_posterior(field, X, PRIOR, n_draws=2000)
    slow = isinstance(sampler, bf.Metropolis) and isinstance(sampler.engine, bf.Bethe)
    found = bf.sample_posterior(field, X, PRIOR, sampler, n_draws=300, thin=8 if slow else 30, warmup=400)
    limit = 4 if not isinstance(sampler, bf.Langevin) else 8  # its step widens by 2.6 %
    assert np.abs(gaps(truth.values, found.values)).max() < limit


def test_moves_without_a_log_z_are_refused_and_counted():
    """Couplings near 2 on a complete graph: belief propagation does not settle everywhere."""
    field = bf.pairwise(6, [(i, j) for i in range(6) for j in range(i)], states=(-1, 1))
    prior = bf.Normal(variance=25.0)
    X = np.array([[1] * 6, [-1] * 6, [1, -1, 1, -1, 1, -1], [1, 1, -1, -1, 1, 1]])
    draws = bf.sample_posterior(field, X, prior, bf.Metropolis(bf.Bethe()), n_draws=100, warmup=200, thin=5)
    assert np.isfinite(draws.values).all()
    assert 0 < draws.stats["unsettled"].mean() < 1


def test_summary_and_thinning():
    field, X = problem(2, 50)
    draws = bf.sample_posterior(field, X, PRIOR, bf.Metropolis(), n_draws=2000)
    table = draws.summary(0.9)
    assert list(table.index) == list(field.parameter_names)
    assert (table["lower"] < table["mean"]).all()
    assert (table["mean"] < table["upper"]).all()
    thin = draws.thinned()
    assert thin.thin > 3
    assert thin.values.shape[1] == draws.values.shape[1] // thin.thin
    assert diagnostics.autocorrelation_time(thin.values).max() < 2.0
    assert thin.stats["energy"].shape == thin.values.shape[:2]
    assert "4 chains" in repr(draws)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sampler": "nuts"}, "bf.NUTS"),
        ({"n_draws": 0}, "above zero"),
        ({"chains": 0}, "above zero"),
        ({"warmup": -1}, "above zero"),
    ],
)
def test_bad_input_is_refused(options, text):
    field, X = problem(2, 10)
    with pytest.raises(bf.InvalidInput, match=text):
        bf.sample_posterior(field, X, **options)


def test_going_on_with_another_sampler_is_refused(tmp_path):
    field, X = problem(2, 10)
    draws = bf.sample_posterior(field, X, sampler=bf.Metropolis(), n_draws=5, warmup=10)
    with pytest.raises(bf.InvalidInput, match="Metropolis"):
        bf.sample_posterior(field, X, sampler=bf.Langevin(), resume=draws)
    for other, text in (({"chains": 3}, "chains=4"), ({"thin": 7}, "thin=1")):
        with pytest.raises(bf.InvalidInput, match=text):
            bf.sample_posterior(field, X, sampler=bf.Metropolis(), resume=draws, **other)
    for cases, prior in ((X[:-1], None), (X, PRIOR)):
        with pytest.raises(bf.InvalidInput, match="another posterior"):
            bf.sample_posterior(field, cases, prior, bf.Metropolis(), resume=draws)
    (tmp_path / "other.npz").write_bytes(b"no draws")
    with pytest.raises(bf.InvalidInput, match="no draws"):
        bf.load_draws(tmp_path / "other.npz", field)
    draws.save(tmp_path / "draws.npz")
    with pytest.raises(bf.InvalidInput, match="other parameters"):
        bf.load_draws(tmp_path / "draws.npz", bf.chain(3))


def test_missing_packages_are_named(monkeypatch):
    field, X = problem(2, 10)
    draws = bf.sample_posterior(field, X, sampler=bf.Metropolis(), n_draws=5, warmup=10)
    monkeypatch.setitem(sys.modules, "nutpie", None)
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(bf.InvalidInput, match=r"bayesfield\[samplers\]"):
        bf.sample_posterior(field, X)
    with pytest.raises(bf.InvalidInput, match=r"bayesfield\[samplers\]"):
        to_arviz(draws)


@pytest.mark.parametrize("library", ["arviz", "arviz_base"])
def test_to_arviz(library, monkeypatch):
    """ArviZ 0.x gives an InferenceData; 1.x, whose data part is arviz_base, a DataTree. Names and figures arrive."""
    module = pytest.importorskip(library, exc_type=ImportError)
    if library == "arviz_base":
        monkeypatch.setattr(module, "__version__", "1.0", raising=False)
        monkeypatch.setitem(sys.modules, "arviz", module)
    field, X = problem(2, 30)
    draws = bf.sample_posterior(field, X, PRIOR, bf.Metropolis(), n_draws=50)
    found = to_arviz(draws)
    values = found["posterior"]["parameters"]
    assert values.dims == ("chain", "draw", "parameter")
    assert list(values.coords["parameter"].values) == list(field.parameter_names)
    np.testing.assert_array_equal(values.values, draws.values)
    np.testing.assert_array_equal(found["sample_stats"]["energy"].values, draws.stats["energy"])
    assert found["posterior"].attrs["inference_library"] == "bayesfield"
    fitted = to_arviz(bf.fit(field, X, PRIOR), n=25)
    assert fitted["posterior"]["parameters"].shape == (4, 25, 8)
    assert fitted["posterior"].attrs["made_by"].startswith("Gaussian posterior")


@pytest.mark.parametrize("n", [25, 1_000_000])
def test_to_arviz_of_a_posterior_made_of_draws(n):
    """Its own draws, by their weights, and no more than it has."""
    pytest.importorskip("arviz", exc_type=ImportError)
    made = bf.fit(bf.pairwise(1, []), [[0]] * 10, bf.Normal(variance=100.0))
    found = to_arviz(made, n=n)["posterior"]
    values = found["parameters"].values
    assert values.shape == (4, min(n, len(made.marginals.points) // 4), 1)
    assert set(values.ravel()) <= set(made.marginals.points.ravel())
    assert found.attrs["made_by"].startswith("posterior made of draws")
    error = made.sd[0] / np.sqrt(values.size)
    assert abs(values.mean() - made.mean[0]) < 5 * error  # seeded; by chance one in two million
