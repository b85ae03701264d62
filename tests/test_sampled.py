"""The sampled engine, pseudo-likelihood, stochastic Newton, the fidelity check. Seeded; false alarms one in 10,000."""

import itertools

import numpy as np
import pandas as pd
import pytest

import bayesfield as bf
from bayesfield import parallel
from bayesfield.graph import compiled
from bayesfield.kernels import gibbs
from bayesfield.learning import mrf_objective, pseudo_likelihood_map

from awkward import CASES

FEW = bf.Sampled(chains=2000, burn_in=60, sweeps=40)
# Gibbs cannot cross barriers: these have states that single-site moves do not connect, or nearly so
STUCK = {"parity", "equality", "far too strong", "strong loop"}


@pytest.mark.parametrize("case", [c for c in CASES if c.name not in STUCK], ids=lambda c: c.name)
def test_means_are_within_their_own_error(case):
    beliefs, exact = bf.infer(case.field, case.parameters, FEW), bf.infer(case.field, case.parameters, bf.Exact())
    assert beliefs.status.outcome is bf.Outcome.SAMPLED
    assert np.isnan(beliefs.log_z)
    batches = beliefs.marginals.state.batch_means
    error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    gap = np.abs(beliefs.marginals.tables - exact.marginals.tables)
    assert (gap <= 8 * error + 2e-3).all()  # eight batches: t with 7 degrees of freedom; one in 10,000 at 8


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
    u = np.array([[gibbs._uniform(seed) for _ in range(50_000)] for seed in seeds])
    assert abs(u.mean() - 0.5) < 5 / np.sqrt(12 * u.size)
    assert abs(u.var() - 1 / 12) < 5 * np.sqrt(1 / 180 / u.size)
    assert abs(np.corrcoef(u[:, 1:].ravel(), u[:, :-1].ravel())[0, 1]) < 5 / np.sqrt(u.size)
    assert abs(np.corrcoef(u)[0, 1]) < 5 / np.sqrt(50_000)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.field.n_parameters and c.name not in STUCK], ids=lambda c: c.name
)
def test_pseudo_likelihood_gradient(case):
    """Value against the definition, and gradient against central differences."""
    known = compiled(case.field)
    codes = case.field.encode(bf.sample(case.field, case.parameters, 6, 1))
    weights = np.arange(1.0, 7.0)
    here = 0.7 * case.parameters + 0.1
    slope = np.empty(known.graph.n_entries)

    def value(parameters):
        theta = known.design.potentials(parameters)
        return gibbs.pseudo_likelihood(known.graph.arrays, theta, codes, weights, slope)

    wanted = 0.0
    for x, w in zip(codes, weights, strict=True):
        for i, states in enumerate(case.field.states):
            moved = np.repeat(x[None], len(states), axis=0)
            moved[:, i] = np.arange(len(states))
            theta = known.design.potentials(here)
            energy = np.array([_energy(known, theta, row) for row in moved])
            wanted += w * (np.logaddexp.reduce(energy) - energy[x[i]])
    assert value(here) == pytest.approx(wanted, rel=1e-9)
    gradient = known.design.expectations(slope.copy())
    for k in range(case.field.n_parameters):
        step = np.zeros(case.field.n_parameters)
        step[k] = 1e-5
        assert gradient[k] == pytest.approx((value(here + step) - value(here - step)) / 2e-5, abs=1e-5)


def _energy(known, theta, row):
    g = known.graph.arrays
    total = theta[g.node_ptr[:-1] + row].sum()
    for a in range(len(g.table_ptr) - 1):
        slots = slice(g.scope_ptr[a], g.scope_ptr[a + 1])
        total += theta[g.table_ptr[a] + row[g.scope[slots]] @ g.stride[slots]]
    return total


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
    objective = mrf_objective(field, items, bf.Normal(variance=1.0), bf.Exact())
    rough = pseudo_likelihood_map(objective.field, objective.codes, objective.precision, objective.location)
    assert np.sqrt(np.mean(((rough - exact.mode) / exact.sd) ** 2)) == pytest.approx(0.30, abs=0.02)


def test_bad_options_are_refused():
    with pytest.raises(bf.InvalidInput, match="chains"):
        bf.Sampled(chains=1)
    with pytest.raises(bf.InvalidInput, match="above zero"):
        bf.Sampled(error=0.0)
    with pytest.raises(bf.TooLarge, match=r"fewer chains"):
        bf.infer(bf.grid(1000, 1000), np.zeros(2_998_000), bf.Sampled(chains=100_000))
