"""Learners beside the engines' own: composite likelihood, contrastive divergence, iterative scaling, pseudo-moments."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

import bayesfield as bf
from bayesfield.graph import compiled
from bayesfield.learning import composite, composite_map, mrf_objective
from bayesfield.learning.blocks import grown_blocks

from awkward import CASES
from naive import Naive
from tolerances import ALGEBRA

LEARNABLE = [c for c in CASES if c.field.n_parameters and np.abs(c.parameters).max() < 10]
SMALL = [c for c in LEARNABLE if np.prod([float(len(s)) for s in c.field.states]) < 2000]


def composite_of(field, X, prior=None, block=1, blocks=None):
    o = mrf_objective(field, X, prior or bf.Normal(variance=0.5), bf.Exact())
    return composite(o.field, o.codes, o.precision, o.location, block, blocks)


def naive_composite(field, parameters, codes, blocks):
    """Value without prior, scores and curvature by brute force: joint tables of each block given the rest."""
    value, scores, curvature = 0.0, np.zeros((len(codes), field.n_parameters)), 0.0
    for c, x in enumerate(codes):
        for members in blocks:
            rest = {i: int(x[i]) for i in range(len(x)) if i not in members}
            oracle = Naive(field, parameters, rest)
            own = oracle.states.index(tuple(int(v) for v in x))
            value += oracle.log_z - oracle.energies[own]
            scores[c] += oracle.feature_matrix()[own] - oracle.mean()
            curvature = curvature + oracle.covariance()
    return value, scores, curvature


# --- composite likelihood -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 8])
@pytest.mark.parametrize("case", SMALL, ids=lambda c: c.name)
def test_composite_against_brute_force(case, block):
    """Cases that repeat are counted once, with a weight; value, gradient, scores and curvature by the definition."""
    X = np.repeat(bf.sample(case.field, case.parameters, 3, 1), [1, 2, 1], axis=0)
    prior = bf.Normal(variance=0.5, mean=0.1)
    objective = composite_of(case.field, X, prior, block)
    here = 0.7 * case.parameters + 0.1
    point = objective.at(here)
    blocks = grown_blocks(compiled(case.field).graph.arrays, block)
    value, scores, curvature = naive_composite(case.field, here, case.field.encode(X), blocks)
    away = here - 0.1
    assert point.value == pytest.approx(value + away @ away, rel=1e-10, abs=1e-10)
    np.testing.assert_allclose(point.gradient, 2 * away - scores.sum(0), atol=ALGEBRA * 10)
    np.testing.assert_allclose(objective.curvature(point), curvature, atol=ALGEBRA * 10)
    np.testing.assert_allclose(objective.counts @ objective.scores(point), scores.sum(0), atol=ALGEBRA * 10)
    mean = scores.mean(0)
    wanted = (scores - mean).T @ (scores - mean)
    np.testing.assert_allclose(objective.score_variance(point), wanted, atol=ALGEBRA * 100)


@pytest.mark.parametrize("block", [1, 16])
@pytest.mark.parametrize("case", LEARNABLE, ids=lambda c: c.name)
def test_composite_against_finite_differences(case, block):
    X = bf.sample(case.field, case.parameters, 6, 1)
    objective = composite_of(case.field, X, block=block)
    here = 0.7 * case.parameters + 0.1
    point, curvature = objective.at(here), objective.posterior_precision(objective.at(here)).matrix()
    for k in range(len(here)):
        step = np.zeros(len(here))
        step[k] = 1e-5
        up, down = objective.at(here + step), objective.at(here - step)
        assert point.gradient[k] == pytest.approx((up.value - down.value) / 2e-5, abs=1e-5)
        np.testing.assert_allclose(curvature[:, k], (up.gradient - down.gradient) / 2e-5, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("case", SMALL, ids=lambda c: c.name)
def test_a_block_of_everything_is_the_likelihood(case):
    X = bf.sample(case.field, case.parameters, 25, 1)
    exact = mrf_objective(case.field, X, bf.Normal(variance=0.5), bf.Exact())
    objective = composite_of(case.field, X, blocks=[range(case.field.n_variables)])
    here = 0.7 * case.parameters + 0.1
    point, wanted = objective.at(here), exact.at(here)
    assert point.value == pytest.approx(wanted.value, rel=1e-10)
    np.testing.assert_allclose(point.gradient, wanted.gradient, atol=1e-8)
    np.testing.assert_allclose(objective.posterior_precision(point).matrix(), exact.curvature(wanted), atol=1e-8)


def test_blocks_grow_along_edges():
    """Squares on a lattice; every variable once; nothing too large; single sites where nothing fits."""
    assert grown_blocks(compiled(bf.grid(2, 4)).graph.arrays, 16) == [[0, 1, 4, 5], [2, 3, 6, 7]]
    for case in CASES:
        g = compiled(case.field).graph.arrays
        for largest in (1, 2, 5, 12, 100):
            blocks = grown_blocks(g, largest)
            assert sorted(i for b in blocks for i in b) == list(range(len(g.cardinality)))
            assert all(len(b) == 1 or np.prod(g.cardinality[b]) <= largest for b in blocks)
            linked = {tuple(sorted(e)) for e in case.field.edges}
            for b in blocks:
                assert all(any(tuple(sorted((v, w))) in linked for w in b[:k]) for k, v in enumerate(b) if k)
    assert grown_blocks(compiled(bf.RandomField({"a": 2, "b": 3})).graph.arrays, 100) == [[0], [1]]


@pytest.mark.parametrize("name", ["a", "c"])
def test_regularised_pseudo_likelihood_of_another_library(data, name):
    """GraphicalModelLearning.jl's RPLE: a node at a time, an l1 penalty on its couplings, then (J + Jᵀ)/2.

    The penalty is smooth on each side of zero: couplings are split into positive and negative parts with bounds.
    """
    folder = data / "gml_learning_tests"
    histogram = np.loadtxt(folder / f"{name}_samples.csv", delimiter=",")
    wanted = np.loadtxt(folder / f"{name}_RPLE_learned.csv", delimiter=",")
    p, total = len(wanted), histogram[:, 0].sum()
    penalty = 0.2 * np.sqrt(np.log(p**2 / 0.05) / total)
    edges = list(itertools.combinations(range(p), 2))
    field = bf.pairwise(p, edges, states=(-1, 1))
    found = np.zeros((p, p))
    for i in range(p):
        whole = composite_of(field, histogram[:, 1:], bf.Normal(variance=1e12), blocks=[[i]])
        order = {tuple(row): c for row, c in zip(field.encode(histogram[:, 1:]).tolist(), histogram[:, 0], strict=True)}
        whole.counts[:] = [order[tuple(x)] for x in whole.cases.tolist()]
        mine = [i] + [p + k for k, e in enumerate(edges) if i in e]

        def loss(split, whole=whole, mine=mine):
            parameters = np.zeros(field.n_parameters)
            parameters[mine] = np.concatenate([split[:1], split[1:p] - split[p:]])
            point = whole.at(parameters)
            slope = point.gradient[mine] / total
            value = point.value / total + penalty * split[1:].sum()
            return value, np.concatenate([slope, -slope[1:]]) + penalty * (np.arange(2 * p - 1) > 0)

        bounds = [(None, None)] + [(0, None)] * (2 * p - 2)
        options = {"ftol": 1e-16, "gtol": 1e-11, "maxiter": 1000}
        best = minimize(loss, np.zeros(2 * p - 1), jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        found[i, i] = best[0]
        found[i, [j for j in range(p) if j != i]] = best[1:p] - best[p:]
    np.testing.assert_allclose((found + found.T) / 2, wanted, atol=1e-6)


@pytest.mark.parametrize("block", [1, 16])
def test_composite_optimum_is_tight(block):
    """Newton's optimum has a gradient of rounding size, and L-BFGS finds the same one."""
    field = bf.pairwise(8, itertools.combinations(range(8), 2), states=(0, 1))
    rng = np.random.default_rng(2)
    objective = composite_of(field, bf.sample(field, 0.6 * rng.normal(size=36), 400, rng), block=block)
    found = composite_map(objective, objective.location)
    assert found.status.outcome is bf.Outcome.OPTIMUM
    assert np.abs(found.point.gradient).max() < 1e-7
    options = {"ftol": 1e-16, "gtol": 1e-9, "maxiter": 5000, "maxfun": 50_000}
    other = minimize(lambda v: objective.at(v)[2:4], objective.location, jac=True, method="L-BFGS-B", options=options)
    np.testing.assert_allclose(other.x, found.parameters, atol=2e-6)
