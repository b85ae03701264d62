"""The sampled engine, pseudo-likelihood, stochastic Newton, the fidelity check. Seeded; false alarms one in 10,000."""

import itertools

import numpy as np
import pandas as pd
import pytest

import bayesfield as bf
from bayesfield import parallel
from bayesfield.graph.compiled import compiled
from bayesfield.inference.sampling import gibbs_chains as chains
from bayesfield.inference.sampling import sampled
from bayesfield.inference.sampling.sampled import monte_carlo_error
from bayesfield.kernels.gibbs import general as gibbs
from bayesfield.kernels.gibbs import pairs as gibbs_pairs
from bayesfield.learning.phases.cases import field_objective
from bayesfield.learning.search.pseudo_likelihood import pseudo_likelihood_map
from bayesfield.learning.search.sampled_newton import _Curvature, sampled_newton

from awkward import CASES

FEW = bf.Sampled(chains=2000, burn_in=60, sweeps=40)
# Gibbs cannot cross barriers: these have states that single-site moves do not connect, or nearly so
# (the sweeps of the tied chain, alternating in a field, have a relaxation time of 35: their transition matrix says so)
STUCK = {"parity", "equality", "far too strong", "strong loop", "tied chain"}


@pytest.mark.parametrize("case", [c for c in CASES if c.name not in STUCK], ids=lambda c: c.name)
def test_means_are_within_their_own_error(case):
    beliefs, exact = bf.infer(case.field, case.parameters, FEW), bf.infer(case.field, case.parameters, bf.Exact())
    assert beliefs.status.outcome is bf.Outcome.SAMPLED
    assert np.isnan(beliefs.log_z)
    batches = beliefs.marginals.state.batch_means
    error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    gap = np.abs(beliefs.marginals.tables - exact.marginals.tables)
    assert (gap <= 8 * error + 2e-3).all()  # eight batches: t with 7 degrees of freedom; one in 10,000 at 8


def test_errors_and_effective_samples_are_told():
    """Means within their errors; without couplings Rao-Blackwellised means of single variables have none at all."""
    field = bf.grid(3, 3)
    parameters = 0.3 * np.random.default_rng(0).normal(size=21)
    beliefs = bf.infer(field, parameters, FEW)
    exact = bf.infer(field, parameters, bf.Exact()).mean
    assert (np.abs(beliefs.mean - exact) < 6 * beliefs.error).all()  # 15 degrees of freedom, 21 of them: 1 in 2,000
    variance = np.diag(bf.covariance(field, parameters, bf.Exact()))
    np.testing.assert_allclose(beliefs.effective_samples, variance / beliefs.error**2, rtol=0.1)
    assert beliefs.effective_samples.min() > 2000 * 2
    assert bf.infer(field, parameters).error is None
    lonely = bf.infer(field, np.concatenate([parameters[:9], np.zeros(12)]), FEW)
    assert lonely.error[:9].max() < 1e-12


def test_vector_and_table_kernels_sample_the_same_field():
    """The same binary field through both kernels: means within 6 of their joint standard errors."""
    field = bf.pairwise(7, itertools.combinations(range(7), 2), states=(-1, 1))
    parameters = 0.3 * np.random.default_rng(1).normal(size=field.n_parameters)
    known = compiled(field)
    g, theta = known.graph.arrays, known.design.potentials(parameters)
    states, seeds = chains.fresh(g, 4096, 0)
    thetas = np.broadcast_to(theta, (16, len(theta)))
    chains.run(known.graph, thetas, states, seeds, 50, count=False)
    fast = chains.normalised(g, chains.run(known.graph, thetas, states.copy(), seeds.copy(), 20))
    sums = np.zeros((16, len(theta)))
    for b in range(16):
        rows = slice(256 * b, 256 * (b + 1))
        gibbs.sweep_chains(g, theta, states[rows], seeds[rows], 20, sums[b])
    slow = chains.normalised(g, sums)
    gap = np.abs(fast.mean(0) - slow.mean(0))
    error = np.hypot(monte_carlo_error(fast), monte_carlo_error(slow))
    assert (gap < 6 * error).all()
    assert error.max() < 0.01


@pytest.mark.parametrize("states", [2, 3, 5], ids=lambda q: f"{q} states")
def test_scored_pairs_sample_the_same_field(states):
    """Chains of scored pairs against exact inference, in all features' means and in the states that they leave."""
    n = 6
    field = bf.ordinal(n, list(itertools.combinations(range(n), 2)), states)
    known, rng = compiled(field), np.random.default_rng(states)
    parameters = rng.normal(0.0, 0.5 / (states - 1) ** 2, field.n_parameters)
    theta = known.design.potentials(parameters)
    engine = FEW.for_fields(known.graph, known.design)
    assert engine.scores is not None
    found = engine.infer(known.graph, theta)
    exact = bf.Exact().infer(known.graph, theta)
    batches = known.design.expectations_many(found.state.batch_means)
    error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    gap = np.abs(batches.mean(axis=0) - known.design.expectations(exact.tables))
    assert (gap <= 6 * error + 2e-5).all()  # sixteen batches: one in 10,000 at 6; single precision
    assert (error < 0.05).all()
    last = found.state.states.reshape(-1, n)
    for i in range(n):
        share = np.bincount(last[:, i], minlength=states) / len(last)
        p = exact.tables[known.graph.arrays.node_ptr[i] :][:states]
        assert (np.abs(share - p) <= 5 * np.sqrt(p * (1 - p) / len(last) * 4)).all()  # snapshots remember a little


@pytest.mark.parametrize(("states", "left"), [(2, 0.2), (4, 0.3)])
def test_chains_know_their_own_noise(states, left, monkeypatch):
    """What surprises explain leaves a fifth of the variance at most (a thirtieth is usual); means are right."""
    n = 10
    field = bf.ordinal(n, list(itertools.combinations(range(n), 2)), states)
    known, rng = compiled(field), np.random.default_rng(states)
    parameters = rng.normal(0.0, 0.4 / (states - 1) ** 2, field.n_parameters)
    parameters[: n * (states - 1)] -= 0.5  # E[u² | rest] hangs on the rest, too
    theta = known.design.potentials(parameters)
    engine = bf.Sampled(chains=2048).for_fields(known.graph, known.design)
    exact = known.design.expectations(bf.Exact().infer(known.graph, theta).tables)

    def gaps() -> np.ndarray:
        return known.design.expectations(engine.infer(known.graph, theta).tables) - exact

    less = gaps()
    monkeypatch.setattr(sampled, "less_noise", lambda graph, scores, means, *rest: means)
    plain = gaps()
    assert np.mean(less**2) < left * np.mean(plain**2)


def test_widths_by_few_states():
    """1,600 states for 105 parameters: their covariance alone makes widths 4.1 % too large, 15 standard deviations over
    seeds; 1.01 is left."""
    field = bf.pairwise(14, list(itertools.combinations(range(14), 2)))
    truth = np.random.default_rng(1).normal(0.0, 0.3, field.n_parameters)
    X = bf.sample(field, truth, 2000, 0)
    exact = bf.fit(field, X, engine="exact", correction="none")
    known = compiled(field)
    few = bf.Sampled(chains=400, snapshots=1).for_fields(known.graph, known.design)
    _, matrix, _ = sampled_newton(exact.objective.with_engine(few), exact.mode, 7)
    assert np.mean(np.sqrt(np.diag(np.linalg.inv(matrix))) / exact.sd) == pytest.approx(1.0, abs=0.02)


def test_probed_widths_of_parameters_of_different_sizes():
    """Couplings of five answers are known to a hundredth of what thresholds are: probes have the widths of both to five
    errors of 1 / √256 (their correlations are below 1), and the trace of Λ⁻¹P⁻¹ to a tenth."""
    field = bf.ordinal(6, list(itertools.combinations(range(6), 2)), 5)
    prior = bf.Normal(variance=np.repeat([4.0, 1e-4], [24, 15]))
    objective = field_objective(field, np.random.default_rng(0).integers(5, size=(400, 6)), prior, bf.Sampled())
    curvature, answer = _Curvature(objective), objective.free.at(np.zeros(39))
    curvature.many = True
    curvature.look(answer, np.zeros(39), np.inf, False)
    inverse = np.linalg.inv(objective.sampled_precision(objective.free.response(answer).covariance(), 0.0))
    probed = curvature._probed()
    assert np.sqrt(np.diag(inverse)).max() > 10 * np.sqrt(np.diag(inverse)).min()
    np.testing.assert_allclose(probed.sd**2, np.diag(inverse), rtol=5 / 16)
    assert probed.held == pytest.approx(np.sum(objective.prior.diagonal * np.diag(inverse)), rel=0.1)


def test_beliefs_that_users_ask_for_are_tables():
    """The shortcut of fits gives means of features, which are no beliefs of ordinal items."""
    field = bf.ordinal(5, list(itertools.combinations(range(5), 2)), 3)
    beliefs = bf.infer(field, np.zeros(field.n_parameters), FEW)
    assert (beliefs.marginals.tables >= 0.0).all()
    assert "scores" not in repr(FEW.for_fields(compiled(field).graph, compiled(field).design))


def test_states_alone_by_colour():
    """Draws on a large field are made in single precision; on a chain pairs correlate by tanh w. Within 5 se."""
    n, w = 40_000, 0.6
    field = bf.chain(n, states=(-1, 1))
    x = bf.sample(field, np.r_[np.zeros(n), np.full(n - 1, w)], 2, 0, engine=bf.Sampled(burn_in=60)).astype(float)
    found = (x[:, 1:] * x[:, :-1]).mean()
    assert found == pytest.approx(np.tanh(w), abs=5 / np.sqrt(2 * n))
    assert abs(x.mean()) < 5 * np.sqrt(np.exp(2 * w) / (2 * n))


def test_colours_on_a_large_lattice():
    """Few chains on a large field move colour by colour. A strip of width 1 has known correlations: tanh w."""
    field = bf.chain(20_000)
    assert len(set(gibbs_pairs.colours(compiled(field).graph.arrays))) == 2
    w = 0.5
    parameters = np.concatenate([np.zeros(20_000), np.full(19_999, w)])
    beliefs = bf.infer(field, parameters, bf.Sampled(chains=8, burn_in=100, sweeps=100))
    pairs = beliefs.mean[20_000:]
    assert pairs.mean() == pytest.approx(np.tanh(w), abs=0.002)  # 1.6 million Rao-Blackwellised pairs: 5 errors
    assert np.abs(beliefs.mean[:20_000].mean()) < 0.01
    again = bf.infer(field, parameters, bf.Sampled(chains=8, burn_in=100, sweeps=100))
    np.testing.assert_array_equal(again.mean, beliefs.mean)


def test_logistic_and_uniform_lanes():
    lane = gibbs_pairs._lane()
    lane.odds[:] = np.linspace(-40, 40, 64)
    lane.odds[[0, -1]] = -1e5, 1e5
    gibbs_pairs._logistic(lane)
    np.testing.assert_allclose(lane.p[1:-1], 1 / (1 + np.exp(-lane.odds[1:-1])), rtol=1e-13)
    np.testing.assert_allclose(lane.p[[0, -1]], [0, 1], atol=1e-300)
    seeds = parallel.chain_seeds(1, 64)
    lane.low[:], lane.high[:] = seeds[:, 0], seeds[:, 1]
    one_by_one = [gibbs.uniform(seed) for seed in seeds.copy()]
    gibbs_pairs._uniforms(lane)
    np.testing.assert_allclose(lane.real, one_by_one, atol=2.0**-51)


def test_shrinkage_takes_what_helps():
    """Few samples on a sparse field: linear response is better, and is taken; on a dense one it is not."""
    sparse = bf.chain(30)
    dense = bf.pairwise(8, itertools.combinations(range(8), 2), states=(-1, 1))
    for field, scale, low, high in (sparse, 0.3, 0.5, 1.0), (dense, 0.2, 0.0, 0.3):
        parameters = np.full(field.n_parameters, scale)
        known = compiled(field)
        theta = known.design.potentials(parameters)
        few = bf.Sampled(chains=256, sweeps=20, snapshots=2)
        chains_there = few.infer(known.graph, theta)
        response = few.response(known.graph, known.design, theta, chains_there)
        assert low <= response.weight <= high
        exact = bf.covariance(field, parameters, bf.Exact())
        bare = bf.Sampled(chains=256, sweeps=20, snapshots=2, shrink=False)
        plain = bare.response(known.graph, known.design, theta, chains_there)
        assert plain.weight == 0.0
        errors = [np.linalg.norm(r.covariance() - exact) for r in (response, plain)]
        assert errors[0] <= 1.02 * errors[1]
        np.testing.assert_allclose(response.product(np.eye(response.size)), response.covariance(), atol=1e-12)
        np.testing.assert_allclose(response.diagonal(), np.diag(response.covariance()), atol=1e-12)


def test_draws_by_gibbs():
    """Means of 20,000 draws within 5 standard errors of the exact ones; seeded."""
    field = bf.potts(6, itertools.combinations(range(6), 2), states=("no", "maybe", "yes"))
    parameters = 0.3 * np.random.default_rng(0).normal(size=field.n_parameters)
    X = bf.sample(field, parameters, 20_000, 1, engine=bf.Sampled())
    exact = bf.infer(field, parameters, bf.Exact()).mean
    error = np.sqrt(np.diag(bf.covariance(field, parameters, bf.Exact())) / 20_000)
    assert (np.abs(field.features(X).mean(0) - exact) < 5 * error).all()
    assert (bf.sample(field, parameters, 20_000, 1, engine=bf.Sampled()) == X).all()
    assert bf.sample(field, parameters, 0, engine=bf.Sampled()).shape == (0, 6)


def test_covariance_is_near_the_exact_one():
    field = bf.grid(4, 4)
    parameters = 0.4 * np.random.default_rng(0).normal(size=field.n_parameters)
    got, wanted = (bf.covariance(field, parameters, e) for e in (FEW, bf.Exact()))
    np.testing.assert_allclose(got, wanted, atol=6 / np.sqrt(2000 * 4))
    known = compiled(field)
    theta = known.design.potentials(parameters)
    response = FEW.response(known.graph, known.design, theta, FEW.infer(known.graph, theta))
    np.testing.assert_allclose(response.product(np.eye(field.n_parameters)), response.covariance(), atol=1e-12)


def test_result_does_not_depend_on_the_threads(monkeypatch):
    field = bf.grid(4, 4)
    first = bf.infer(field, np.full(40, 0.2), FEW)
    monkeypatch.setattr(parallel, "cores", lambda: 1)
    np.testing.assert_array_equal(bf.infer(field, np.full(40, 0.2), FEW).marginals.tables, first.marginals.tables)
    other = bf.infer(field, np.full(40, 0.2), bf.Sampled(chains=2000, burn_in=60, sweeps=40, seed=1))
    assert np.abs(other.marginals.tables - first.marginals.tables).max() > 0


def test_generators_are_uniform():
    """Mean, variance and lag-one correlation of 200,000 numbers within 5 standard errors."""
    seeds = parallel.chain_seeds(3, 4)
    u = np.array([[gibbs.uniform(seed) for _ in range(50_000)] for seed in seeds])
    assert abs(u.mean() - 0.5) < 5 / np.sqrt(12 * u.size)
    assert abs(u.var() - 1 / 12) < 5 * np.sqrt(1 / 180 / u.size)
    assert abs(np.corrcoef(u[:, 1:].ravel(), u[:, :-1].ravel())[0, 1]) < 5 / np.sqrt(u.size)
    assert abs(np.corrcoef(u)[0, 1]) < 5 / np.sqrt(50_000)


def test_fit_finds_the_exact_optimum():
    field = bf.pairwise(8, itertools.combinations(range(8), 2), states=(0, 1))
    rng = np.random.default_rng(2)
    X = bf.sample(field, 0.6 * rng.normal(size=field.n_parameters), 400, rng)
    exact = bf.fit(field, X, engine=bf.Exact(), correction="none")
    sampled = bf.fit(field, X, engine=bf.Sampled(chains=2000), correction="none")
    assert sampled.record.status.outcome is bf.Outcome.OPTIMUM
    bias = (sampled.mode - exact.mode) / exact.sd
    assert np.sqrt(np.mean(bias**2)) < 0.08
    np.testing.assert_allclose(sampled.sd, exact.sd, rtol=0.05)
    again = bf.fit(field, X, engine=bf.Sampled(chains=2000), correction="none")
    np.testing.assert_array_equal(again.mode, sampled.mode)
    shifted = bf.fit(field, X, engine=bf.Sampled(chains=2000), correction="mean")
    wanted = bf.fit(field, X, engine=bf.Exact(), correction="mean").mean
    assert np.sqrt(np.mean(((shifted.mean - wanted) / exact.sd) ** 2)) < 0.08


def test_check_tells_good_from_bad():
    """On a 5×5 grid: Kikuchi passes, Bethe does not, and the bias it predicts is the true one."""
    field = bf.grid(5, 5)
    rng = np.random.default_rng(0)
    X = bf.sample(field, 0.5 * rng.normal(size=65), 1000, rng)
    prior = bf.Normal(variance=0.25)
    exact = bf.fit(field, X, prior, bf.Exact(), correction="none")
    good, bad = (bf.fit(field, X, prior, e, correction="none") for e in (bf.Kikuchi(), bf.Bethe()))
    assert good.check(1).passed
    found = bad.check(1)
    assert not found.passed
    assert "polish" in str(found)
    assert np.corrcoef(found.bias, (bad.mode - exact.mode) / exact.sd)[0, 1] > 0.9
    assert list(found.summary().columns) == ["bias", "error", "sd_ratio"]
    polished = bf.fit(field, X, prior, bf.Sampled(), start=bad.mode, correction="none")
    assert polished.check(2).passed
    with pytest.raises(bf.InvalidInput, match="without its data"):
        bf.Posterior(field, good.mean, good.precision, good.record).check()


def test_symptom_network(data):
    """ADHD items, complete graph: sampling against the exact posterior, and pseudo-likelihood beside it."""
    items = pd.read_csv(data / "questionnaires" / "adhd_symptoms.csv").drop(columns="group")
    field = bf.pairwise(18, itertools.combinations(range(18), 2), names=list(items.columns))
    exact, sampled = (bf.fit(field, items, bf.Normal(variance=1.0), e, correction="none") for e in ("exact", "sampled"))
    bias = (sampled.mode - exact.mode) / exact.sd
    assert np.sqrt(np.mean(bias**2)) < 0.05
    assert (np.abs(sampled.sd / exact.sd - 1) < 0.05).all()
    objective = field_objective(field, items, bf.Normal(variance=1.0), bf.Exact())
    rough = pseudo_likelihood_map(objective.data, objective.prior)
    assert np.sqrt(np.mean(((rough - exact.mode) / exact.sd) ** 2)) == pytest.approx(0.30, abs=0.02)


def test_auto_ends_in_sampling_where_nothing_else_is_right(data):
    """Depression and compulsion items, binarised at the median: 26 variables, complete graph, out of exact reach."""
    raw = pd.read_csv(data / "questionnaires" / "rogers_ocd_depression.csv")
    field = bf.pairwise(26, itertools.combinations(range(26), 2), states=(0, 1), names=list(raw.columns))
    posterior = bf.fit(field, (raw > raw.median()).astype(int), bf.Normal(variance=1.0))
    record = posterior.record
    assert record.engine.startswith("Sampled")
    assert record.check is None  # the search compares its chains with others that began anew
    (reason,) = record.choice
    assert reason.startswith("sampling was chosen")
    assert "dense" in reason
    assert record.correction.kind == "variational"
    assert posterior.check(5).passed


def test_auto_stops_where_the_check_passes():
    """A long narrow strip is exact; a 20×20 lattice is left to Kikuchi; a sparse random graph to Bethe."""
    rng = np.random.default_rng(0)
    lattice = bf.grid(20, 20)
    pairs = {tuple(sorted(rng.choice(100, 2, replace=False).tolist())) for _ in range(300)}
    sparse = bf.pairwise(100, sorted(pairs), states=(0, 1))
    for field, scale, engine in (lattice, 0.2, "Kikuchi"), (sparse, 0.05, "Bethe"):
        X = bf.sample(field, scale * rng.normal(size=field.n_parameters), 200, rng, engine=bf.Sampled())
        record = bf.fit(field, X, bf.Normal(variance=0.05), correction="none").record
        assert record.engine.startswith(engine)
        assert record.check.passed
        assert len(record.choice) == 2
    strip = bf.fit(bf.chain(50), bf.sample(bf.chain(50), np.full(99, 0.2), 100, 0), correction="none").record
    assert strip.engine.startswith("Exact")
    assert strip.check is None
    assert len(strip.choice) == 1


def test_bad_options_are_refused():
    with pytest.raises(bf.InvalidInput, match="chains"):
        bf.Sampled(chains=1)
    with pytest.raises(bf.InvalidInput, match="above zero"):
        bf.Sampled(error=0.0)
    with pytest.raises(bf.TooLarge, match=r"fewer chains"):
        bf.infer(bf.grid(1000, 1000), np.zeros(2_998_000), bf.Sampled(chains=100_000))


def test_chains_that_do_not_mix_are_noticed():
    """A lattice deep in its ordered phase, with a weak field: chains from random states have the wrong shares."""
    field, rng = bf.grid(5, 5), np.random.default_rng(32)
    X = bf.sample(field, np.repeat([0.1, 0.8], [25, 40]), 200, rng)
    with pytest.warns(bf.FitWarning, match="mix too slowly"):
        posterior = bf.fit(field, X, engine=bf.Sampled(moves="single"), correction="none")
    assert posterior.record.status.outcome is bf.Outcome.SLOW
    with pytest.raises(bf.InvalidInput, match="did not end at a mode"):
        posterior.evidence()
    weak = bf.sample(field, np.repeat([0.1, 0.3], [25, 40]), 200, rng)
    assert bf.fit(field, weak, engine="sampled", correction="none").record.status.converged


def test_searches_come_back_from_another_phase():
    """Answers with one common cause: stronger couplings, where the search begins, put all chains where no case is.

    The mode within 0.3 sd of the exact one in each of 78 parameters: 5 times the engine's error, 4.6e-5 by chance.
    """
    rng = np.random.default_rng(2)
    common = 0.6 * rng.normal(size=(3000, 1))
    X = (common + 0.8 * rng.normal(size=(3000, 12)) > 1.3).astype(int)
    field = bf.pairwise(12, [(i, j) for i in range(12) for j in range(i)], (0, 1))
    exact = bf.fit(field, X, engine="exact", correction="none")
    start = exact.mode + np.where(np.arange(78) < 12, 0.0, 0.5)
    mean = bf.infer(field, start).mean[:12]
    assert mean.min() > 0.5 > X.mean(axis=0).max()  # another phase
    sampled = bf.fit(field, X, engine=bf.Sampled(chains=4096), start=start, correction="none")
    assert sampled.record.status.outcome is bf.Outcome.OPTIMUM, sampled.record.status
    assert len(sampled.record.iterations) < 25
    np.testing.assert_allclose(sampled.mode, exact.mode, atol=0.3 * exact.sd.min())
