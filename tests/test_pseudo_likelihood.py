"""Pseudo-likelihood of dense pairs by matrix products, of many parameters by sums of scores, and with holes."""

import itertools

import numpy as np
import pytest
from scipy.optimize import root

import bayesfield as bf
from bayesfield.graph.compiled import compiled
from bayesfield.graph.scored import scored_pairs
from bayesfield.graph.structure import counts, distinct_rows
from bayesfield.learning.phases.cases import field_objective
from bayesfield.learning.phases.composite import composite_objective, score_variance
from bayesfield.learning.phases.conditionals import CompositePhase
from bayesfield.learning.phases.scored import ScoredPhase
from bayesfield.learning.precision.sketched import OverlappingBlocks
from bayesfield.learning.search import kept_newton
from bayesfield.learning.search.kept_newton import composite_map
from bayesfield.learning.search.optimum import QUIET
from bayesfield.model.ordinal import ordinal

from naive import Naive

STATES = [(0, 1, 2), (1, 2, 3, 4), (0, 1), (0, 1, 2), (0, 2, 3)]


def complete(n):
    return list(itertools.combinations(range(n), 2))


FIELDS = {
    "0/1": bf.pairwise(7, complete(7)),
    "spins": bf.pairwise(7, complete(7), states=(-1, 1)),
    "ordinal": ordinal(5, complete(5), STATES),
    "half of the edges": bf.pairwise(6, complete(6)[::2]),
}


def problem(name, cases=300):
    field = FIELDS[name]
    truth = 0.3 * np.random.default_rng(0).normal(size=field.n_parameters)
    return field, truth, bf.sample(field, truth, cases, 1)


def objective_of(field, X, variance=1.0):
    o = field_objective(field, X, bf.Normal(variance=variance), bf.Exact())
    return composite_objective(o.data.cases, o.prior)


def table_by_table(phase):
    return CompositePhase(phase.field, phase.blocks_of, phase.distinct, phase.counts)


@pytest.mark.parametrize("name", FIELDS)
def test_products_of_scores_are_the_general_kernel(name):
    """Value, gradient, curvature, variances and sums of scores, to rounding."""
    field, truth, X = problem(name)
    phase = objective_of(field, X).free
    assert isinstance(phase, ScoredPhase)
    slow = table_by_table(phase)
    fast, wanted = phase.at(truth), slow.at(truth)
    assert fast.log_z == pytest.approx(wanted.log_z, rel=1e-12)
    np.testing.assert_allclose(fast.mean, wanted.mean, atol=1e-9)
    np.testing.assert_allclose(phase.response(fast).covariance(), slow.response(wanted).covariance(), atol=1e-9)
    np.testing.assert_allclose(phase.variances(fast), slow.variances(wanted), atol=1e-9)
    signs = np.random.default_rng(2).normal(size=len(phase.distinct))
    sums = [np.concatenate(list(p.grouped_scores(fast.found, signs, 7)), axis=1) for p in (phase, slow)]
    np.testing.assert_allclose(sums[0], sums[1], atol=1e-10)


@pytest.mark.parametrize("name", FIELDS)
def test_products_of_scores_against_finite_differences(name):
    field, truth, X = problem(name, 50)
    objective = objective_of(field, X)
    point = objective.at(truth)
    curvature = objective.curvature(point)
    for k in range(0, len(truth), 3):
        step = 1e-5 * np.eye(len(truth))[k]
        up, down = objective.at(truth + step), objective.at(truth - step)
        assert point.gradient[k] == pytest.approx((up.value - down.value) / 2e-5, abs=1e-5)
        np.testing.assert_allclose(curvature[:, k], (up.gradient - down.gradient) / 2e-5, rtol=1e-6, atol=1e-5)


def test_what_is_no_product_of_scores_keeps_the_general_kernel():
    """Tables of three states, sparse fields, factors of three, forbidden states."""
    barred = bf.RandomField({"a": 2, "b": 2}, [bf.Factor(("a", "b"), {"J": [[1, 0], [0, 1]]}, [[0, -np.inf], [0, 0]])])
    for field in (bf.potts(4, complete(4), 3, interaction="table"), bf.grid(5, 5), barred):
        known = compiled(field)
        assert scored_pairs(known.graph, known.design) is None
    known = compiled(bf.potts(4, complete(4), 2, interaction="table"))
    assert scored_pairs(known.graph, known.design) is not None


@pytest.mark.parametrize("name", ["0/1", "ordinal"])
def test_blocks_solve_as_the_matrix_does(name):
    field, truth, X = problem(name)
    objective = objective_of(field, X)
    point = objective.at(truth)
    blocks = OverlappingBlocks(kept_newton.block_curvature(objective, point), objective.prior)
    P, v = objective.curvature(point), np.random.default_rng(0).normal(size=(len(truth), 3))
    np.testing.assert_allclose(blocks.product(v), P @ v, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(blocks.solve(v), np.linalg.solve(P, v), atol=1e-8)
    np.testing.assert_allclose(blocks.solve(v[:, 0]), np.linalg.solve(P, v[:, 0]), atol=1e-8)


@pytest.mark.parametrize("dense", [True, False])
def test_a_kept_curvature_finds_the_same_optimum(monkeypatch, dense):
    """By a tenth of the cases at first, then by a curvature that is kept."""
    field, _, X = problem("0/1", 4000)
    objective = objective_of(field, X)
    wanted = composite_map(objective, objective.prior.location)
    monkeypatch.setattr(kept_newton, "_CURVATURE", 1.0)
    monkeypatch.setattr(kept_newton, "_EACH", 5)
    assert kept_newton.thinned(objective) > 2
    found = kept_newton.kept_newton(objective, objective.prior.location, 1e-9, 50, QUIET, dense)
    assert found.status.converged
    np.testing.assert_allclose(found.parameters, wanted.parameters, atol=1e-8)


@pytest.mark.parametrize("name", ["0/1", "ordinal"])
def test_sums_of_scores_have_the_widths_of_the_matrix(name):
    """Few parameters, so that few sums: √(1/2M) is 13 % for 28 of them. The root mean square over all parameters is
    within three times that for all but one seed in 1,000 even if all were the same. V⁻¹ is exact."""
    field, _, X = problem(name, 2000)
    matrix = bf.fit(field, X, method="pseudo_likelihood")
    sums = bf.fit(field, X, method="pseudo_likelihood", form="matrix-free")
    np.testing.assert_allclose(sums.mode, matrix.mode, atol=1e-8)
    error = np.sqrt(0.5 / field.n_parameters)
    assert sums.form.sd_error == pytest.approx(error)
    assert np.sqrt(np.mean((sums.sd / matrix.sd - 1.0) ** 2)) < 3 * error
    np.testing.assert_allclose(sums.form.matrix(), matrix.precision, rtol=1e-5, atol=1e-3)
    assert "sums of scores" in str(sums.record)
    np.testing.assert_allclose(sums.sample(20_000, 0).std(axis=0), sums.sd, rtol=0.05)


def test_j_by_groups_is_unbiased(monkeypatch):
    """Its diagonal has a relative error of √(2/M), 3.9 % at 1,300 groups; the mean over 28 parameters is within 4 %."""
    field, _, X = problem("0/1", 5000)
    objective = objective_of(field, X)
    point = composite_map(objective, objective.prior.location).point
    exact = score_variance(objective, point)
    monkeypatch.setattr("bayesfield.learning.phases.composite._MADE", 1.0)
    monkeypatch.setattr("bayesfield.learning.phases.composite._GROUPS", 60)
    monkeypatch.setattr("bayesfield.learning.phases.composite._LEAST", 2)
    rough = score_variance(objective, point)
    ratio = np.diag(rough) / np.diag(exact)
    assert np.abs(ratio - 1).max() > 1e-6
    assert ratio.mean() == pytest.approx(1.0, abs=4 * np.sqrt(2 / 56))


def test_many_items_in_a_network():
    """96 binary items, 4,656 parameters: z-scores of the truth have mean 0 and sd 1.

    They are weakly dependent: the mean's standard error is some 0.015, the sd's 0.011 and the widths' 0.02; tolerances
    of four and more of them, so one false alarm in 10,000 seeds.
    """
    n, N, rng = 96, 8000, np.random.default_rng(0)
    B = np.triu(rng.normal(0, 0.4, (n, n)) * (rng.random((n, n)) < 0.05), 1)
    B, a, X = B + B.T, rng.normal(-0.5, 0.3, n), rng.integers(0, 2, (N, n)).astype(float)
    for _ in range(12):
        for i in range(n):
            X[:, i] = rng.random(N) < 1 / (1 + np.exp(-a[i] - X @ B[:, i]))
    network = bf.IsingNetwork(method="pseudo_likelihood").fit(X)
    posterior = network.posterior_
    assert posterior.record.form == "matrix-free"
    z = (posterior.mean - np.concatenate([a, B[np.triu_indices(n, 1)]])) / posterior.sd
    assert z.mean() == pytest.approx(0.0, abs=0.08)
    assert z.std() == pytest.approx(1.0, abs=0.08)
    assert len(network.edges_) == n * (n - 1) // 2


def test_counts_of_dense_pairs_are_those_of_tables(monkeypatch):
    field, _, X = problem("ordinal")
    graph, codes = compiled(field).graph, field.encode(X)
    wanted = counts(graph, codes)
    monkeypatch.setattr("bayesfield.graph.structure._CELLS", 10)
    np.testing.assert_array_equal(counts(graph, codes), wanted)


def test_distinct_rows():
    rows = np.random.default_rng(0).integers(-1, 2, size=(500, 5))
    where, which = distinct_rows(rows)
    np.testing.assert_array_equal(rows[where][which], rows)
    assert len(where) == len(np.unique(rows, axis=0))
    assert len(distinct_rows(rows[:0])[0]) == 0


# --- holes ----------------------------------------------------------------------------------------------------------


def with_holes(field, X, share, seed=0):
    """Missing at random: the first column is always there, and where it is highest more is missing."""
    X = np.array(X, dtype=float)
    top = X[:, :1] == X[:, :1].max()
    gone = np.random.default_rng(seed).random(X.shape) < np.where(top, 2 * share, share)
    gone[:, 0] = False
    X[gone] = np.nan
    return X


def naive_equation(field, parameters, codes, precision):
    """U and every case's part of it, by enumeration of all completions and of each conditional."""
    parts = np.zeros((len(codes), field.n_parameters))
    for c, x in enumerate(codes):
        seen = {i: int(v) for i, v in enumerate(x) if v >= 0}
        holes = Naive(field, parameters, seen)
        share = np.exp(np.asarray(holes.energies) - holes.log_z)
        for q, state in zip(share, holes.states, strict=True):
            for i in range(len(x)):
                oracle = Naive(field, parameters, {j: int(v) for j, v in enumerate(state) if j != i})
                own = oracle.states.index(tuple(int(v) for v in state))
                parts[c] += q * (oracle.feature_matrix()[own] - oracle.mean())
    return parts.sum(0) - precision * parameters, parts


@pytest.mark.parametrize("kind", ["binary", "ordinal", "triple"])
def test_holes_against_brute_force(kind):
    """The root of U, and V = A⁻¹ (J + Λ⁻¹) A⁻ᵀ with A by finite differences."""
    triple = np.arange(12.0).reshape(2, 3, 2)
    field = {
        "binary": bf.pairwise(3, complete(3)),
        "ordinal": ordinal(3, complete(3), [(0, 1, 2), (0, 1), (0, 1, 2)]),
        "triple": bf.RandomField({"a": 2, "b": 3, "c": 2}, [bf.Factor(("a", "b", "c"), {"t": triple})]),
    }[kind]
    rng = np.random.default_rng(1)
    X = with_holes(field, bf.sample(field, 0.2 * rng.normal(size=field.n_parameters), 12, 1), 0.25, 3)
    codes = field.encode(X, holes=True)
    wanted = root(lambda v: naive_equation(field, v, codes, 2.0)[0], np.zeros(field.n_parameters), tol=1e-10).x
    posterior = bf.fit(field, X, bf.Normal(variance=0.5), method="pseudo_likelihood")
    np.testing.assert_allclose(posterior.mode, wanted, atol=1e-7)
    eye = 1e-5 * np.eye(len(wanted))
    A = np.stack(
        [
            (naive_equation(field, wanted - e, codes, 2.0)[0] - naive_equation(field, wanted + e, codes, 2.0)[0]) / 2e-5
            for e in eye
        ],
        axis=1,
    )
    parts = naive_equation(field, wanted, codes, 2.0)[1]
    J = (parts - parts.mean(0)).T @ (parts - parts.mean(0)) + 2.0 * np.eye(len(wanted))
    V = np.linalg.solve(A, np.linalg.solve(A, J).T)
    np.testing.assert_allclose(posterior.covariance(), V, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("drawn", [False, True])
def test_holes_leave_the_estimate_unbiased_and_its_widths_right(monkeypatch, drawn):
    """60 data sets of 400 cases with 8 to 16 % of the cells missing at random: z-scores of the truth.

    15 parameters × 60: the mean of all has a standard error of at most 0.06 (the parameters of a set depend on one
    another), the sd 0.03; tolerances of four, so one false alarm in 10,000 seeds. drawn: by draws instead of sums.
    """
    if drawn:
        monkeypatch.setattr("bayesfield.learning.search.completions.SUMMED", 1)
    sets, n, rng = (12 if drawn else 60), 5, np.random.default_rng(0)
    field = bf.pairwise(n, complete(n))
    truth = np.concatenate([np.full(n, -0.8), rng.normal(0.4, 0.3, 10)])
    z = []
    for k, X in enumerate(bf.sample(field, truth, sets * 400, 1).reshape(sets, 400, n)):
        posterior = bf.fit(field, with_holes(field, X, 0.08, k), bf.Normal(variance=100.0), method="pseudo_likelihood")
        z.append((posterior.mean - truth) / posterior.sd)
    scale = np.sqrt(60 / sets)
    assert np.mean(z) == pytest.approx(0.0, abs=0.24 * scale)
    assert np.std(z) == pytest.approx(1.0, abs=0.12 * scale)


def test_draws_of_holes_come_close_to_sums(monkeypatch):
    """32 draws leave a thirty-second of the holes' own variance: 0.1 sd here in the root mean square."""
    field, _, X = problem("ordinal", 800)
    X = with_holes(field, X, 0.1)
    summed = bf.fit(field, X, method="pseudo_likelihood")
    monkeypatch.setattr("bayesfield.learning.search.completions.SUMMED", 1)
    drawn = bf.fit(field, X, method="pseudo_likelihood")
    assert np.sqrt(np.mean(((drawn.mode - summed.mode) / summed.sd) ** 2)) < 0.2
    np.testing.assert_allclose(drawn.sd, summed.sd, rtol=0.1)
    assert "draws stand for the holes" in str(drawn.record)


def test_holes_with_weights_blocks_and_estimators():
    """Weights are repeated cases; larger blocks take holes; complete rows give what they gave without."""
    field, _, X = problem("0/1", 120)
    X = with_holes(field, X, 0.1)
    weights = np.arange(len(X)) % 3 + 1
    a = bf.fit(field, X, method="pseudo_likelihood", weights=weights)
    b = bf.fit(field, np.repeat(X, weights, axis=0), method="pseudo_likelihood")
    np.testing.assert_allclose(a.mode, b.mode, atol=1e-7)
    np.testing.assert_allclose(a.sd, b.sd, rtol=1e-6)
    whole = bf.fit(field, X, method=bf.PseudoLikelihood(block=2**7), correction="none")
    exact = bf.fit(field, X, engine="exact", correction="none")
    np.testing.assert_allclose(whole.mode, exact.mode, atol=1e-5)  # one block of all: the likelihood itself
    assert bf.IsingNetwork(method="pseudo_likelihood").fit(X).posterior_.record.status.converged
    with pytest.raises(bf.InvalidInput, match="precision is dense"):
        bf.fit(field, X, method="pseudo_likelihood", form="matrix-free")
