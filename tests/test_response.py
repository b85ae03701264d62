"""Linear response: against finite differences of beliefs, its two routes against one another, trees against exact."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesfield as bf
from bayesfield.graph.compiled import compiled
from bayesfield.response.linear import SingularFactor, bethe_response
from bayesfield.response.susceptibility import SusceptibilityResponse

from awkward import CASES, FOREST_IDS, FORESTS, random_field
from naive import Naive
from tolerances import ALGEBRA, FINITE_DIFFERENCE, FIXED_POINT

TIGHT = bf.Bethe(tolerance=1e-13)
STEP = 1e-5


def responses(field, parameters):
    """Both routes at the same beliefs."""
    known = compiled(field)
    theta = known.design.potentials(parameters)
    marginals = TIGHT.infer(known.graph, theta)
    assert marginals.status.converged
    return [route(known.graph, known.design, marginals.tables) for route in (bethe_response, SusceptibilityResponse)]


def finite_differences(field, parameters):
    return finite_differences_with(TIGHT, field, parameters)


def finite_differences_with(engine, field, parameters):
    columns = []
    for k in range(field.n_parameters):
        step = np.zeros(field.n_parameters)
        step[k] = STEP
        up, down = (bf.infer(field, parameters + s * step, engine).mean for s in (1, -1))
        columns.append((up - down) / (2 * STEP))
    return np.array(columns).T


@st.composite
def loopy_fields(draw):
    """Random fields of 3-6 variables with 2-5 states and factors of 1-4 variables, loops and all."""
    n = draw(st.integers(3, 6))
    cardinalities = draw(st.lists(st.integers(2, 5), min_size=n, max_size=n))
    scopes = [(i, (i + 1) % n) for i in range(n)]
    extra = draw(
        st.lists(st.permutations(range(n)).flatmap(lambda p: st.integers(1, 4).map(lambda k: tuple(p[:k]))), max_size=3)
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    field = random_field(rng, cardinalities, scopes + extra, features=draw(st.integers(1, 2)))
    return field, 0.4 * rng.normal(size=field.n_parameters)


@settings(max_examples=40)
@given(loopy_fields())
def test_finite_differences_on_random_loopy_fields(example):
    field, parameters = example
    sparse, messages = (r.covariance() for r in responses(field, parameters))
    np.testing.assert_allclose(sparse, messages, rtol=0, atol=FIXED_POINT)
    np.testing.assert_allclose(sparse, finite_differences(field, parameters), rtol=0, atol=FINITE_DIFFERENCE)
    np.testing.assert_array_equal(sparse, sparse.T)
    assert np.linalg.eigvalsh(sparse)[0] >= -ALGEBRA


@pytest.mark.parametrize("case", FORESTS, ids=FOREST_IDS)
def test_exact_on_forests(case):
    wanted = Naive(case.field, case.parameters).covariance()
    for route in ("sparse", "messages"):
        got = bf.covariance(case.field, case.parameters, bf.Bethe(linear_response=route))
        np.testing.assert_allclose(got, wanted, rtol=0, atol=FIXED_POINT)


@pytest.mark.parametrize("case", [c for c in CASES if not c.forest], ids=lambda c: c.name)
def test_both_routes_and_differences_on_awkward_loops(case):
    sparse, messages = (r.covariance() for r in responses(case.field, case.parameters))
    np.testing.assert_allclose(sparse, messages, rtol=0, atol=FIXED_POINT)
    np.testing.assert_allclose(sparse, finite_differences(case.field, case.parameters), rtol=0, atol=FINITE_DIFFERENCE)


def test_a_factor_that_ties_its_variables_goes_by_messages():
    """Equality makes V_a singular; the sparse route says so, and the engine takes the other."""
    case = next(c for c in CASES if c.name == "equality")
    known = compiled(case.field)
    marginals = TIGHT.infer(known.graph, known.design.potentials(case.parameters))
    with pytest.raises(SingularFactor):
        bethe_response(known.graph, known.design, marginals.tables)
    got = bf.covariance(case.field, case.parameters, bf.Bethe())
    np.testing.assert_allclose(got, Naive(case.field, case.parameters).covariance(), rtol=0, atol=FIXED_POINT)


def test_response_where_message_passing_is_unstable():
    """At a minimum that message passing leaves: derivatives cannot be passed along either, and are solved for."""
    field = bf.pairwise(12, itertools.combinations(range(12), 2), states=(-1, 1))
    parameters = np.random.default_rng(0).normal(size=field.n_parameters)
    beliefs = bf.infer(field, parameters, TIGHT)
    assert beliefs.status.outcome is bf.Outcome.MINIMISED
    sparse, messages = (r.covariance() for r in responses(field, parameters))
    np.testing.assert_allclose(sparse, messages, rtol=0, atol=FIXED_POINT)


@pytest.mark.parametrize(
    "engine", [bf.Enumeration(), bf.Exact(), bf.Bethe(), bf.Bethe(linear_response="messages")], ids=repr
)
def test_all_questions_agree_with_the_full_matrix(engine):
    """Products, columns, entries, diagonal and solves, prepared once."""
    field = bf.grid(3, 3)
    rng = np.random.default_rng(1)
    parameters = 0.5 * rng.normal(size=field.n_parameters)
    known = compiled(field)
    theta = known.design.potentials(parameters)
    response = engine.response(known.graph, known.design, theta, engine.infer(known.graph, theta))
    full = response.covariance()
    np.testing.assert_allclose(full, bf.covariance(field, parameters, engine), rtol=0, atol=ALGEBRA)
    vectors = rng.normal(size=(field.n_parameters, 3))
    np.testing.assert_allclose(response.product(vectors), full @ vectors, rtol=0, atol=ALGEBRA)
    np.testing.assert_allclose(response.product(vectors[:, 0]), full @ vectors[:, 0], rtol=0, atol=ALGEBRA)
    np.testing.assert_allclose(response.diagonal(), np.diag(full), rtol=0, atol=ALGEBRA)
    np.testing.assert_allclose(response.columns(np.array([4, 7])), full[:, [4, 7]], rtol=0, atol=ALGEBRA)
    rows, columns = np.array([0, 5, 5]), np.array([3, 3, 20])
    np.testing.assert_allclose(response.entries(rows, columns), full[rows, columns], rtol=0, atol=ALGEBRA)
    ridge = np.linspace(1, 2, field.n_parameters)
    wanted = np.linalg.solve(50 * full + np.diag(ridge), vectors)
    np.testing.assert_allclose(response.solve(vectors, 50.0, ridge), wanted, rtol=0, atol=ALGEBRA)


def test_sparse_factor_equals_dense_factor(monkeypatch):
    """The two factorisations of Ω behind one function."""
    field = bf.grid(6, 6)
    parameters = 0.4 * np.random.default_rng(2).normal(size=field.n_parameters)
    dense = bf.covariance(field, parameters, bf.Bethe())
    monkeypatch.setattr("bayesfield.response.factors.cholesky._DENSE", 1)
    np.testing.assert_allclose(bf.covariance(field, parameters, bf.Bethe()), dense, rtol=0, atol=ALGEBRA)


@pytest.mark.parametrize("limit", [1, 1000])
def test_indefinite_curvature_is_refused(limit, monkeypatch):
    """The symmetric point of a strongly coupled field is stationary, but no minimum: no covariance there."""
    monkeypatch.setattr("bayesfield.response.factors.cholesky._DENSE", limit)
    field = bf.grid(4, 4)
    known = compiled(field)
    parameters = np.concatenate([np.zeros(16), np.full(24, 0.8)])
    flat = bf.Bethe(max_sweeps=1, max_direct=0).infer(known.graph, known.design.potentials(parameters))
    np.testing.assert_allclose(flat.tables[:32], 0.5)
    with pytest.raises(bf.IndefiniteCurvature, match="not positive definite"):
        bethe_response(known.graph, known.design, flat.tables)
