"""Objective, gradient and curvature against finite differences; optimisers; starts; the posterior."""

import itertools

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.learning.objective import gaussian
from bayesfield.learning.phases.cases import field_objective
from bayesfield.learning.phases.sequences import sequence_objective
from bayesfield.learning.search import minimise
from bayesfield.learning.search.minimise import lbfgs, newton
from bayesfield.learning.search.moment_matching import pseudo_moments

from awkward import CASES, random_field
from tolerances import ALGEBRA, FIXED_POINT

ENGINES = [
    bf.Enumeration(),
    bf.Exact(),
    bf.Bethe(tolerance=1e-13),
    bf.Bethe(tolerance=1e-13, linear_response="messages"),
]
LEARNABLE = [c for c in CASES if c.field.n_parameters and np.abs(c.parameters).max() < 10]
PRIORS = {
    "scalar": lambda F: bf.Normal(variance=0.5),
    "each": lambda F: bf.Normal(variance=np.linspace(0.3, 2.0, F), mean=0.1),
    "full": lambda F: bf.Normal(covariance=0.2 * np.ones((F, F)) + 0.7 * np.eye(F)),
}


def objective_of(case, prior, engine, n=25):
    X = bf.sample(case.field, case.parameters, n, np.random.default_rng(1))
    return field_objective(case.field, X, prior, engine)


@pytest.mark.parametrize("engine", ENGINES, ids=repr)
@pytest.mark.parametrize("case", LEARNABLE, ids=lambda c: c.name)
def test_gradient_and_curvature(case, engine):
    """Central differences of value and gradient at a point that is no optimum. Relative to N = 25 cases."""
    F = case.field.n_parameters
    for prior in PRIORS.values():
        objective = objective_of(case, prior(F), engine)
        here = 0.8 * case.parameters + 0.05
        point = objective.at(here)
        curvature = objective.curvature(point)
        for k in range(F):
            step = np.zeros(F)
            step[k] = 1e-5
            up, down = objective.at(here + step), objective.at(here - step)
            slope = (up.value - down.value) / 2e-5
            assert point.gradient[k] == pytest.approx(slope, abs=1e-6 * max(1.0, abs(slope)) + 1e-6)
            np.testing.assert_allclose(curvature[:, k], (up.gradient - down.gradient) / 2e-5, rtol=1e-6, atol=1e-5)


def test_value_is_the_negative_log_posterior():
    field = bf.grid(2, 3)
    rng = np.random.default_rng(0)
    parameters, truth = rng.normal(size=(2, field.n_parameters))
    X = bf.sample(field, truth, 40, rng)
    objective = field_objective(field, X, bf.Normal(variance=0.25), bf.Exact())
    log_z = bf.infer(field, parameters, bf.Enumeration()).log_z
    log_likelihood = (field.features(X) @ parameters - log_z).sum()
    assert objective.log_likelihood(objective.at(parameters)) == pytest.approx(log_likelihood)
    assert objective.at(parameters).value == pytest.approx(-log_likelihood + 2 * parameters @ parameters)


@pytest.mark.parametrize("case", LEARNABLE, ids=lambda c: c.name)
def test_newton_and_lbfgs_meet(case):
    X = bf.sample(case.field, case.parameters, 50, np.random.default_rng(2))
    first = bf.fit(case.field, X, bf.Normal(variance=0.5), bf.Exact())
    second = bf.fit(case.field, X, bf.Normal(variance=0.5), bf.Exact(), method="lbfgs", tolerance=1e-9)
    assert first.record.status.outcome is bf.Outcome.OPTIMUM
    assert first.record.distance < 1e-6
    assert second.record.status.converged
    np.testing.assert_allclose(second.mean, first.mean, atol=1e-4 * first.sd.min())


@pytest.mark.parametrize("states", [(-1, 1), (0, 1)])
def test_pseudo_moments_are_closed_form(states):
    """With a parameter for every pattern, belief propagation at the start returns the (smoothed) frequencies."""
    field = bf.grid(3, 3, states=states)
    X = bf.sample(field, 0.4 * np.random.default_rng(0).normal(size=21), 2000, 1)
    objective = field_objective(field, X, bf.Normal(variance=1.0), bf.Bethe(tolerance=1e-13))
    point = objective.at(pseudo_moments(objective))
    smoothed = (objective.data.cases.counts + 1 / np.where(np.arange(66) < 18, 2, 4)) / 2001
    np.testing.assert_allclose(point.answers[0].found[1].tables, smoothed, atol=1e-5)


def test_pseudo_moments_for_general_tables():
    """Full tables of mixed cardinalities on a tree: the start is the maximum-likelihood estimate."""
    rng = np.random.default_rng(3)
    names, cards, edges = list("abcd"), [2, 3, 4, 2], [(0, 1), (1, 2), (1, 3)]
    factors = []
    for k, scope in enumerate([(0,), (1,), (2,), (3,), *edges]):
        shape = tuple(cards[i] for i in scope)
        units = np.eye(int(np.prod(shape))).reshape(-1, *shape)
        tables = {f"{k}.{cell}": unit for cell, unit in enumerate(units)}
        factors.append(bf.Factor([names[i] for i in scope], tables))
    field = bf.RandomField(dict(zip(names, cards, strict=True)), factors)
    X = bf.sample(field, rng.normal(size=field.n_parameters), 3000, 4)
    objective = field_objective(field, X, bf.Normal(variance=1e6), bf.Exact())
    point = objective.at(pseudo_moments(objective))
    assert np.abs(point.gradient).max() / 3000 < 1e-3


def test_no_cases_give_the_prior_back():
    field = bf.grid(3, 3)
    posterior = bf.fit(field, np.empty((0, 9)), bf.Normal(variance=0.25, mean=0.1), bf.Exact())
    np.testing.assert_allclose(posterior.mean, 0.1)
    np.testing.assert_allclose(posterior.covariance(), 0.25 * np.eye(21), atol=ALGEBRA)


def test_the_paper_s_two_settings():
    """BL-MP: exact optimum, Bethe curvature there. BL-BP: both by Bethe."""
    field = bf.grid(4, 4)
    rng = np.random.default_rng(5)
    X = bf.sample(field, 0.5 * rng.normal(size=field.n_parameters), 500, rng)
    prior = bf.Normal(variance=0.25)
    exact = bf.fit(field, X, prior, bf.Exact(), correction="none")
    bl_mp = bf.fit(field, X, prior, engine=bf.Exact(), response=bf.Bethe())
    bl_bp = bf.fit(field, X, prior, engine=bf.Bethe())
    np.testing.assert_array_equal(bl_mp.mean, exact.mean)
    wanted = 500 * bf.covariance(field, exact.mean, bf.Bethe()) + 4 * np.eye(field.n_parameters)
    np.testing.assert_allclose(bl_mp.precision, wanted, rtol=1e-9)
    assert np.abs(bl_mp.precision - exact.precision).max() > 1
    moments = bf.infer(field, bl_bp.mean, bf.Bethe()).mean
    np.testing.assert_allclose(500 * (field.features(X).mean(0) - moments), 4 * bl_bp.mean, atol=1e-4)
    assert "Bethe()" in bl_mp.record.response
    assert "Exact()" in bl_mp.record.engine


def test_posterior_answers_agree():
    field = bf.chain(4)
    X = bf.sample(field, np.full(7, 0.3), 100, 0)
    posterior = bf.fit(field, X, correction="none")
    covariance = posterior.covariance()
    np.testing.assert_allclose(covariance @ posterior.precision, np.eye(7), atol=1e-9)
    np.testing.assert_allclose(posterior.sd, np.sqrt(np.diag(covariance)))
    draws = posterior.sample(40_000, np.random.default_rng(0))
    assert draws.shape == (40_000, 7)
    # five standard errors: one false alarm in some 60,000 seeds
    np.testing.assert_allclose(draws.mean(0), posterior.mean, atol=5 * posterior.sd.max() / 200)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=5 * 1.5 * posterior.sd.max() ** 2 / 200)
    np.testing.assert_array_equal(posterior.sample(3, 1), posterior.sample(3, np.random.default_rng(1)))
    table = posterior.summary(0.9)
    assert list(table.columns) == ["mean", "sd", "lower", "upper", "p_positive"]
    assert list(table.index) == field.parameter_names
    np.testing.assert_allclose(table["upper"] - table["mean"], 1.6449 * posterior.sd, rtol=1e-4)


def test_posterior_is_calibrated_at_the_truth():
    """z-scores of 40 fits whose truths come from the prior: variance 1 within four standard errors (1 in 15,000)."""
    field = bf.chain(6)
    scores = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        truth = 0.5 * rng.normal(size=field.n_parameters)
        posterior = bf.fit(field, bf.sample(field, truth, 400, rng), bf.Normal(variance=0.25))
        scores.append((truth - posterior.mean) / posterior.sd)
    z = np.array(scores)
    assert abs(np.mean(z**2) - 1) < 4 * np.sqrt(2 / z.size) + 0.03


def test_indefinite_precision_is_refused_by_name():
    field = bf.chain(3)
    record = bf.fit(field, np.ones((5, 3))).record
    with pytest.raises(bf.IndefiniteCurvature, match=r"x1.*narrower prior"):
        bf.Posterior(field, np.zeros(5), np.diag([1.0, -1.0, 1.0, 1.0, 1.0]), record)


def test_bethe_on_a_dense_strong_field_ends_in_a_plain_answer():
    """A warning that says the posterior is not to be trusted; never NaN, never silence."""
    field = bf.pairwise(10, itertools.combinations(range(10), 2), states=(-1, 1))
    X = bf.sample(field, np.concatenate([np.zeros(10), np.full(45, 0.35)]), 300, 0)
    with pytest.warns(bf.FitWarning, match="not to be trusted"):
        posterior = bf.fit(field, X, bf.Normal(variance=1.0), bf.Bethe(), max_iterations=30)
    assert np.isfinite(posterior.mean).all()
    assert not posterior.record.status.converged


def test_newton_goes_on_by_lbfgs_where_curvature_fails(monkeypatch):
    field = bf.grid(3, 3)
    X = bf.sample(field, np.full(21, 0.1), 200, 0)
    objective = field_objective(field, X, bf.Normal(variance=0.5), bf.Exact())
    wanted = newton(objective, np.zeros(21), 1e-8, 50)
    assert wanted.status.converged

    def fails(objective, point, form):
        raise bf.IndefiniteCurvature("no curvature")

    monkeypatch.setattr("bayesfield.learning.search.minimise.precision_at", fails)
    got = newton(objective, np.zeros(21), 1e-8, 500)
    assert got.status.converged
    np.testing.assert_allclose(got.parameters, wanted.parameters, atol=1e-6)


def test_iterations_are_watched():
    field = bf.chain(3)
    seen = []
    posterior = bf.fit(field, bf.sample(field, np.full(5, 0.2), 50, 0), watch=seen.append)
    search, correction = (seen[: len(posterior.record.iterations)], seen[len(posterior.record.iterations) :])
    assert tuple(search) == posterior.record.iterations
    assert search[-1].distance <= 1e-6
    assert [i.number for i in search] == list(range(len(search)))
    assert [i.number for i in correction] == list(range(posterior.record.correction.steps))
    assert correction[-1].distance < correction[0].distance
    assert all(np.isnan(i.value) for i in correction)


def test_constraints_enter_the_likelihood():
    """A fixed table with zeros: the exact fit only sees what is possible, and forbidden data are refused."""
    rng = np.random.default_rng(0)
    barred = np.array([[0.0, -np.inf], [0.3, 0.0]])
    field = bf.RandomField(
        {"a": 2, "b": 2}, [bf.Factor(("a", "b"), {"w": [[1, 0], [0, 1]]}, barred), bf.Factor("a", {"h": [0, 1]})]
    )
    X = bf.sample(field, [0.3, -0.2], 300, rng)
    posterior = bf.fit(field, X, engine=bf.Bethe())
    np.testing.assert_allclose(posterior.mean, bf.fit(field, X, engine=bf.Enumeration()).mode, atol=FIXED_POINT)
    with pytest.raises(bf.InvalidInput, match="forbids"):
        bf.fit(field, [[0, 1]])


def test_lbfgs_without_parameters():
    objective = field_objective(bf.RandomField({"a": 2}), [[0]], bf.Normal(variance=1), bf.Exact())
    assert lbfgs(objective, np.empty(0), 1e-6, 10).status.converged
    assert bf.fit(random_field(np.random.default_rng(0), [2, 2], [(0, 1)], 0), [[0, 1]]).summary().empty


def test_expensive_curvature_is_asked_for_once(monkeypatch):
    """Above a stated amount of work a fit goes by gradients, and needs the covariance only at the end."""
    field = bf.grid(3, 3)
    X = bf.sample(field, np.full(21, 0.1), 200, 0)
    cheap = bf.fit(field, X)
    monkeypatch.setattr("bayesfield.fitting.plan.EXPENSIVE", 0.0)
    expensive = bf.fit(field, X)
    assert (cheap.record.method, expensive.record.method) == ("newton", "lbfgs")
    assert expensive.record.status.converged
    np.testing.assert_allclose(expensive.mean, cheap.mean, atol=1e-4 * cheap.sd.min())


@pytest.mark.parametrize("engine", ["exact", "bethe", "kikuchi"])
def test_the_posterior_at_given_parameters(engine):
    """At a fit's own mode, with as many cases, it is the fit's."""
    field, rng = bf.grid(3, 3), np.random.default_rng(0)
    X = bf.sample(field, 0.4 * rng.normal(size=field.n_parameters), 200, rng)
    fitted = bf.fit(field, X, bf.Normal(variance=0.5), engine, correction="none")
    given = bf.laplace(field, fitted.mode, 200, bf.Normal(variance=0.5), engine)
    np.testing.assert_allclose(given.precision, fitted.precision, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(given.mean, fitted.mode)
    assert "nothing was fitted" in str(given.record)
    np.testing.assert_allclose(bf.laplace(field, fitted.mode, 0, engine=engine).sd, 1.0)
    with pytest.raises(bf.InvalidInput, match="must not be negative"):
        bf.laplace(field, fitted.mode, -1)
    with pytest.raises(bf.InvalidInput, match="hidden"):
        bf.laplace(field.with_hidden([0]), fitted.mode)
    with pytest.raises(bf.InvalidInput, match="nothing to learn from"):
        bf.laplace(field, fitted.mode, prior=bf.ARD())


def test_lbfgs_goes_on_where_values_no_longer_tell():
    """Weights that only the prior holds have sd 1, not 0.01: L-BFGS alone ends 5e-6 away, and no value shows it."""
    rng = np.random.default_rng(0)
    crf = bf.CRF(6, ["a", "b", "c"])
    X = [rng.normal(size=(20, 3)) for _ in range(400)]
    y = [(x @ rng.normal(size=(3, 6)) + rng.gumbel(size=(20, 6))).argmax(axis=1) for x in X]
    objective = sequence_objective(crf, bf.as_sequences(crf, X, y), gaussian(bf.Normal(variance=1.0), crf))
    start = np.zeros(crf.n_parameters)
    exact = newton(objective, start, 1e-12, 50)
    found = lbfgs(objective, start, 1e-10, 500)
    assert np.abs(found.parameters - exact.parameters).max() < 1e-9
    assert found.iterations[-1].distance < 1e-9


@pytest.mark.parametrize("holes", [False, True])
def test_whole_weights_are_repeated_cases(holes):
    rng = np.random.default_rng(0)
    field = bf.potts(4, [(0, 1), (1, 2), (2, 3), (0, 3)], 3)
    X = bf.sample(field, rng.normal(0, 0.5, field.n_parameters), 60, rng)
    weights = rng.integers(0, 4, 60)
    if holes:
        X = np.where(rng.random(X.shape) < 0.2, None, X.astype(object))
    weighted, repeated = bf.fit(field, X, weights=weights), bf.fit(field, np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(weighted.mean, repeated.mean, atol=ALGEBRA)
    np.testing.assert_allclose(weighted.sd, repeated.sd, atol=ALGEBRA)
    assert weighted.record.n_cases == weights.sum()
    assert weighted.evidence().value == pytest.approx(repeated.evidence().value, rel=ALGEBRA)


@pytest.mark.parametrize("engine", [bf.Bethe(), bf.Kikuchi(), bf.Sampled()])
def test_weights_count_for_every_engine(engine):
    field = bf.grid(2, 3)
    X = bf.sample(field, np.full(field.n_parameters, 0.2), 50, 0)
    doubled = bf.fit(field, X, engine=engine, weights=np.full(50, 2.0))
    repeated = bf.fit(field, np.repeat(X, 2, axis=0), engine=engine)
    np.testing.assert_allclose(doubled.mode, repeated.mode, atol=0.02 * repeated.sd.max())
    np.testing.assert_allclose(doubled.sd, repeated.sd, rtol=0.02)


def test_weights_that_cannot_be():
    field = bf.grid(2, 2)
    X = bf.sample(field, np.zeros(field.n_parameters), 10, 0)
    for wrong in (np.ones(9), -np.ones(10), np.full(10, np.nan), "many"):
        with pytest.raises(bf.InvalidInput, match="weights"):
            bf.fit(field, X, weights=wrong)
    holed = X.astype(object)
    holed[0, 0] = None
    for wrong in (np.ones(9), -np.ones(10), np.full(10, np.nan), "many"):
        with pytest.raises(bf.InvalidInput, match="weights"):
            bf.fit(field, holed, weights=wrong)
    with pytest.raises(bf.InvalidInput, match="complete cases"):
        bf.fit(field, holed, weights=np.ones(10), method="cd")
    with pytest.raises(bf.InvalidInput, match="with weights"):
        bf.fit(field, X, weights=np.ones(10), method="cd")
    fitted = bf.fit(field, X, weights=np.full(10, 0.5))
    with pytest.raises(bf.InvalidInput, match="left out"):
        bf.loo(fitted)
    with pytest.raises(bf.InvalidInput, match="weighted"):
        bf.predictive_check(fitted)


def test_time_ends_the_newton_steps_after_a_search_without_curvature(monkeypatch):
    class Over(minimise.Progress):
        asked = 0

        @property
        def expired(self):
            self.asked += 1
            return True

    field = bf.grid(3, 3)
    objective = field_objective(field, bf.sample(field, np.full(21, 0.3), 100, 0), bf.Normal(variance=1.0), bf.Exact())
    monkeypatch.setattr(minimise, "quasi_newton", lambda *_: None)  # which leaves all to those steps
    progress = Over()
    found = lbfgs(objective, np.zeros(21), 1e-6, 10, progress)
    assert found.status.outcome is bf.Outcome.TIME_UP
    assert progress.asked == 2  # within the first step's conjugate gradients, and after
