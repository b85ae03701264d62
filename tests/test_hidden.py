"""Hidden variables and missing cells: the objective against brute force, engine by engine."""

import itertools

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.graph.clamp import clamp
from bayesfield.graph.compiled import compiled
from bayesfield.learning.phases.cases import field_objective
from bayesfield.response import components

from awkward import CASES
from naive import Naive, differences
from tolerances import ALGEBRA

SMALL = [c for c in CASES if c.field.n_parameters and np.abs(c.parameters).max() < 10 and c.field.n_variables > 1
         and np.prod(c.field.cardinalities.astype(float)) < 3000]  # fmt: skip
EXACT = [bf.Enumeration(), bf.Exact(), bf.Auto()]
ON_TREES = [bf.Bethe(), bf.Bethe(linear_response="messages"), bf.Kikuchi()]


def with_holes(case, share=0.4, n=30, seed=1):
    """Cases with a share of the cells taken out: every column is observed somewhere, some rows are complete."""
    rng = np.random.default_rng(seed)
    X = bf.sample(case.field, case.parameters, n, rng).astype(object)
    holes = rng.random(X.shape) < share
    holes[:2] = False
    X[holes] = None
    return X


class NaiveValue:
    """−log posterior, up to the prior's constant, by summing p(x) over all joint states that agree with each case."""

    def __init__(self, field, X, variance):
        self.oracle = Naive(field, np.zeros(field.n_parameters))
        self.features, self.variance = self.oracle.feature_matrix(), variance
        states, codes = np.array(self.oracle.states), field.encode(X, holes=True)
        observed = codes[(codes >= 0).any(axis=1)]
        self.agree = [((states == row) | (row < 0)).all(axis=1) for row in observed]

    def __call__(self, parameters):
        energy = np.array(self.oracle.energies) + self.features @ parameters
        log_z = np.logaddexp.reduce(energy)
        total = sum(np.logaddexp.reduce(energy[agree]) - log_z for agree in self.agree)
        return -total + 0.5 * (parameters**2).sum() / self.variance


@pytest.mark.parametrize("case", SMALL, ids=lambda c: c.name)
def test_against_the_brute_force_marginal_likelihood(case):
    """Value, gradient and curvature to 1e-6 (gradient of differences of values; curvature of differences of it)."""
    X, here = with_holes(case), 0.7 * case.parameters + 0.03
    found = field_objective(case.field, X, bf.Normal(variance=0.5), bf.Exact())
    assert found.hidden
    assert all(phase.contrasts for phase in found.phases[1:])
    point = found.at(here)
    oracle = NaiveValue(case.field, X, 0.5)
    assert point.value == pytest.approx(oracle(here), rel=1e-10, abs=1e-8)
    np.testing.assert_allclose(point.gradient, differences(oracle, here), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        found.curvature(point), differences(lambda p: found.at(p).gradient, here), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("engine", EXACT[:1] + EXACT[2:], ids=repr)
@pytest.mark.parametrize("case", SMALL, ids=lambda c: c.name)
def test_exact_engines_agree(case, engine):
    X, here = with_holes(case, n=8), 0.7 * case.parameters + 0.03
    if isinstance(engine, bf.Enumeration):
        X = X[:3]  # the union's joint states are enumerated together
        X[2, 0] = None
    agree(case, X, here, engine)


@pytest.mark.parametrize("engine", ON_TREES, ids=repr)
@pytest.mark.parametrize("case", [c for c in SMALL if c.forest], ids=lambda c: c.name)
def test_approximate_engines_are_exact_on_trees(case, engine):
    agree(case, with_holes(case), 0.7 * case.parameters + 0.03, engine)


def agree(case, X, here, engine):
    prior = bf.Normal(variance=0.5)
    exact, other = (field_objective(case.field, X, prior, e) for e in (bf.Exact(), engine))
    one, two = exact.at(here), other.at(here)
    assert two.value == pytest.approx(one.value, rel=1e-9, abs=1e-8)
    np.testing.assert_allclose(two.gradient, one.gradient, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(other.curvature(two), exact.curvature(one), rtol=1e-7, atol=1e-7)


def test_every_pattern_of_holes():
    """All 2^4 − 1 patterns of four variables that leave something observed, one case each, factors of up to three."""
    tables = [np.random.default_rng(k).normal(size=s) for k, s in enumerate([(2, 3, 2), (2, 2), (3,), (2, 3)])]
    scopes = [("a", "b", "c"), ("c", "d"), ("b",), ("d", "b")]
    field = bf.RandomField(
        {"a": 2, "b": 3, "c": 2, "d": 2},
        [bf.Factor(s, {f"p{k}": t}) for k, (s, t) in enumerate(zip(scopes, tables, strict=True))],
    )
    here = np.array([0.4, -0.7, 0.9, 0.5])
    full = bf.sample(field, here, 16, 0).astype(object)
    for row, pattern in zip(full, itertools.product((True, False), repeat=4), strict=True):
        row[list(pattern)] = None
    objective = field_objective(field, full, bf.Normal(variance=2.0), bf.Exact())
    assert objective.weight == 15  # the case with nothing observed is left out
    value = NaiveValue(field, full, 2.0)
    point = objective.at(here)
    assert point.value == pytest.approx(value(here), rel=ALGEBRA)
    np.testing.assert_allclose(point.gradient, differences(value, here), rtol=1e-8, atol=1e-8)


def test_alike_cases_share_one_inference():
    field = bf.chain(4)
    rows = np.array([[1, np.nan, 1, -1], [1, np.nan, 1, -1], [np.nan, 1, 1, 1], [1, 1, 1, 1], [1, np.nan, 1, -1]])
    found = clamp(compiled(field), field.encode(rows, holes=True))
    assert [(p.weight, len(p.cells)) for p in found.phases] == [(1.0, 2), (2.0, 1)]  # the first stands in both
    np.testing.assert_array_equal(found.first, [0, 0, 2, 3, 0])
    np.testing.assert_array_equal(found.phases[1].cells, [[0, 1]])


@pytest.mark.parametrize("dense", [0, 10**9], ids=["sparse", "dense"])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_covariance_of_many_small_components(share, dense, monkeypatch):
    """By joint states (Exact) and by a sparse inverse (Bethe, exact on chains), against products through all tables."""
    monkeypatch.setattr(components, "_DENSE", dense)
    monkeypatch.setattr(components, "_WORK", dense)
    case = next(c for c in CASES if c.name == "chain")
    X = with_holes(case, share, n=900)
    (phase, *_) = clamp(compiled(case.field), case.field.encode(X, holes=True)).phases
    theta = phase.design.potentials(case.parameters)
    for engine in (bf.Exact(), bf.Bethe()):
        response = engine.response(phase.graph, phase.design, theta, engine.infer(phase.graph, theta))
        products = response.product(np.eye(len(case.parameters)))
        np.testing.assert_allclose(response.covariance(), products, rtol=1e-9, atol=1e-9)
