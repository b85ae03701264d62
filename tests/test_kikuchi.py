"""Kikuchi: valid region graphs, Bethe and the junction tree as special cases, libDAI's answer, linear response."""

import csv
import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import bayesfield as bf
from bayesfield.graph.compiled import compiled
from bayesfield.inference.messages.region_graph import loops, mini_buckets, region_graph

from awkward import CASES, IDS
from libdai import read_fg
from test_response import finite_differences_with, loopy_fields
from tolerances import FINITE_DIFFERENCE, FIXED_POINT

TREE = bf.Kikuchi(clusters="mini-buckets", max_entries=10**6)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_junction_tree_of_clusters_is_exact(case):
    beliefs, exact = bf.infer(case.field, case.parameters, TREE), bf.infer(case.field, case.parameters, bf.Exact())
    assert beliefs.status.converged
    assert beliefs.log_z == pytest.approx(exact.log_z, rel=1e-9, abs=FIXED_POINT)
    np.testing.assert_allclose(beliefs.marginals.tables, exact.marginals.tables, rtol=0, atol=FIXED_POINT)
    got, wanted = (bf.covariance(case.field, case.parameters, e) for e in (TREE, bf.Exact()))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=FIXED_POINT)


@pytest.mark.parametrize("case", [c for c in CASES if c.name != "factor inside factor"], ids=lambda c: c.name)
def test_factors_as_clusters_are_bethe(case):
    """A factor inside another is no region of its own, so that case is left out."""
    engine = bf.Kikuchi(clusters="factors")
    beliefs, bethe = bf.infer(case.field, case.parameters, engine), bf.infer(case.field, case.parameters, bf.Bethe())
    assert beliefs.status.converged
    assert beliefs.log_z == pytest.approx(bethe.log_z, rel=1e-9, abs=FIXED_POINT)
    np.testing.assert_allclose(beliefs.marginals.tables, bethe.marginals.tables, rtol=0, atol=FIXED_POINT)
    got, wanted = (bf.covariance(case.field, case.parameters, e) for e in (engine, bf.Bethe()))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=FIXED_POINT)


def test_libdai_loop4(data):
    """HAK_LOOP4: Kikuchi on the plaquettes of a 4×4 grid, by another implementation."""
    field = read_fg(data / "libdai_tests" / "testfast.fg")
    beliefs, exact = bf.infer(field, engine=bf.Kikuchi()), bf.infer(field, engine=bf.Exact())
    with (data / "libdai_tests" / "testfast_expected.csv").open() as file:
        row = next(r for r in csv.DictReader(file) if r["method"] == "HAK_LOOP4")
    assert beliefs.log_z - exact.log_z == pytest.approx(float(row["logz_err"]), rel=6e-4)
    errors = [np.abs(b - e).max() for b, e in zip(beliefs.variables, exact.variables, strict=True)]
    assert max(errors) == pytest.approx(float(row["max_var_err"]), rel=6e-4)
    for i in range(16):
        assert beliefs[f"x{i}"][1] == pytest.approx(float(row[f"p_x{i}_1"]), rel=6e-4)


def test_plaquettes_beat_bethe_on_a_lattice():
    field = bf.grid(5, 5)
    for seed in range(3):
        parameters = 0.5 * np.random.default_rng(seed).normal(size=field.n_parameters)
        exact, bethe, kikuchi = (bf.infer(field, parameters, e).mean for e in (bf.Exact(), bf.Bethe(), bf.Kikuchi()))
        assert np.abs(kikuchi - exact).max() < np.abs(bethe - exact).max() / 10


@settings(max_examples=25)
@given(loopy_fields(), st.sampled_from(["loops", "triplets", "mini-buckets"]))
def test_linear_response_on_random_fields(example, clusters):
    field, parameters = example
    engine = bf.Kikuchi(clusters=clusters, max_entries=40, tolerance=1e-13)
    assume(bf.infer(field, parameters, engine).status.converged)  # what is not is reported, and tested below
    got = bf.covariance(field, parameters, engine)
    wanted = finite_differences_with(engine, field, parameters)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=10 * FINITE_DIFFERENCE)
    assert np.linalg.eigvalsh(got)[0] > -FIXED_POINT


@pytest.mark.parametrize("seed", range(6))
def test_hard_constraints_inside_shared_regions(seed):
    """3×3 with forbidden pairs of states, some of them on edges that plaquettes share: response and messages."""
    rng = np.random.default_rng(seed)
    K = 2 + seed % 2
    names = [f"x{i}" for i in range(9)]
    edges = [(i, i + 1) for i in range(9) if i % 3 < 2] + [(i, i + 3) for i in range(6)]
    factors = [bf.Factor(names[i], {f"h{i}": np.eye(K)[1]}) for i in range(9)]
    for k, (i, j) in enumerate(edges):
        table = np.where(rng.random((K, K)) < 0.15, -np.inf, 0.0)
        factors.append(bf.Factor((names[i], names[j]), {f"w{k}": np.eye(K)}, table))
    field = bf.RandomField(dict.fromkeys(names, K), factors)
    parameters = 0.4 * rng.normal(size=field.n_parameters)
    engine = bf.Kikuchi(clusters="plaquettes", tolerance=1e-13)
    beliefs, exact = (bf.infer(field, parameters, e) for e in (engine, bf.Exact()))
    assert beliefs.status.converged
    assert np.abs(beliefs.mean - exact.mean).max() < 0.02
    got = bf.covariance(field, parameters, engine)
    np.testing.assert_allclose(got, finite_differences_with(engine, field, parameters), atol=FINITE_DIFFERENCE)


def test_short_loops_are_the_chordless_ones():
    """Against networkx, on random graphs."""
    rng = np.random.default_rng(0)
    for n, p in itertools.product((6, 12), (0.2, 0.4, 0.7)):
        network = nx.gnp_random_graph(n, p, seed=int(rng.integers(1000)))
        g = compiled(bf.pairwise(n, list(network.edges))).graph.arrays
        for length in (3, 4, 5):
            wanted = sorted(tuple(sorted(c)) for c in nx.chordless_cycles(network, length_bound=length))
            assert sorted(loops(g, length)) == wanted


def test_grid_regions():
    """3×3: four plaquettes, their four shared edges counted −1 and the centre +1."""
    g = compiled(bf.grid(3, 3)).graph.arrays
    regions = region_graph(g, loops(g, 4))
    assert regions.outer == ((0, 1, 3, 4), (1, 2, 4, 5), (3, 4, 6, 7), (4, 5, 7, 8))
    assert dict(zip(regions.inner, regions.counting, strict=True)) == {
        (1, 4): -1, (3, 4): -1, (4, 5): -1, (4, 7): -1, (4,): 1,
    }  # fmt: skip


@settings(max_examples=50)
@given(st.lists(st.sets(st.integers(0, 7), min_size=1, max_size=5), max_size=6))
def test_every_variable_and_factor_is_counted_once(clusters):
    """region_graph refuses what is not valid; closure makes all of these valid."""
    g = compiled(bf.pairwise(8, [(i, (i + 3) % 8) for i in range(8)])).graph.arrays
    regions = region_graph(g, clusters)
    for v in range(8):
        total = sum(v in r for r in regions.outer)
        total += sum(c for r, c in zip(regions.inner, regions.counting, strict=True) if v in r)
        assert total == 1


def test_mini_buckets_stay_within_their_size():
    g = compiled(bf.grid(6, 6)).graph.arrays
    assert max(2 ** len(c) for c in mini_buckets(g, 32)) <= 32


def test_descent_settles_what_messages_do_not():
    """Triplets on a complete graph, weak couplings: undamped messages run away, the double loop settles."""
    field = bf.pairwise(6, itertools.combinations(range(6), 2), states=(-1, 1))
    parameters = 0.1 * np.random.default_rng(1).normal(size=field.n_parameters)
    beliefs = bf.infer(field, parameters, bf.Kikuchi(clusters="triplets", damping=0.0))
    assert beliefs.status.outcome is bf.Outcome.MINIMISED
    exact = bf.infer(field, parameters, bf.Exact())
    assert np.abs(beliefs.mean - exact.mean).max() < 1e-3


def test_clusters_that_do_not_suit_say_so():
    field = bf.pairwise(6, itertools.combinations(range(6), 2), states=(-1, 1))
    parameters = np.random.default_rng(0).normal(size=field.n_parameters)
    status = bf.infer(field, parameters, bf.Kikuchi(clusters="triplets")).status
    assert status.outcome is bf.Outcome.NOT_CONVERGED
    assert "ran away" in str(status)


def test_bad_clusters_are_refused():
    field = bf.grid(2, 2)
    with pytest.raises(bf.InvalidInput, match="numbered 0 to 3"):
        bf.infer(field, np.zeros(8), bf.Kikuchi(clusters=((0, 9),)))
    with pytest.raises(bf.InvalidInput, match="'squares'"):
        bf.Kikuchi(clusters="squares")


def test_fit_by_kikuchi_is_near_the_exact_fit():
    field = bf.grid(4, 4)
    rng = np.random.default_rng(5)
    X = bf.sample(field, 0.5 * rng.normal(size=field.n_parameters), 1000, rng)
    prior = bf.Normal(variance=0.25)
    exact, kikuchi, bethe = (bf.fit(field, X, prior, e) for e in (bf.Exact(), bf.Kikuchi(), bf.Bethe()))
    assert kikuchi.record.status.converged
    assert np.abs((kikuchi.mean - exact.mean) / exact.sd).max() < 0.3
    assert np.abs((bethe.mean - exact.mean) / exact.sd).max() > 0.5
    np.testing.assert_allclose(kikuchi.sd, exact.sd, rtol=0.05)
