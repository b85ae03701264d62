"""The kernels for binary and pairwise fields give what the general one gives."""

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.graph.compiled import compiled
from bayesfield.kernels.messages import pairs
from bayesfield.kernels.messages import sum_product as messages

from awkward import random_field
from tolerances import ALGEBRA, FIXED_POINT


def general(graph, theta, flooding=False, damping=0.0, sweeps=2000, tolerance=1e-13):
    """The beliefs that the general kernel converges to."""
    g = graph.arrays
    inbox = np.zeros(g.message_ptr[-1])
    count, residual = messages.run_sweeps(g, theta, inbox, flooding, damping, tolerance, np.zeros(sweeps), False)
    assert residual <= tolerance
    tables = np.empty(graph.n_entries)
    cavity, _ = messages.cavities(g, theta, inbox)
    return messages.beliefs(g, theta, inbox, cavity, tables), tables, count


RNG = np.random.default_rng(0)
RING = [(0, 1), (1, 2), (2, 3), (3, 0)]
FIELDS = {
    "binary grid": bf.grid(4, 5),
    "binary 0/1 on a random graph": bf.pairwise(12, [(i, (5 * i + 1) % 12) for i in range(12) if i % 4], states=(0, 1)),
    "binary tables": random_field(RNG, [2] * 6, [*RING, (3, 4), (4, 5), (5, 0)], 2),
    "potts": bf.potts(9, bf.grid_edges(3, 3), 5),
    "potts tables": bf.potts(9, bf.grid_edges(3, 3), 4, interaction="table"),
    "mixed cardinalities": random_field(RNG, [2, 3, 5, 4, 1], [*RING, (3, 4)], 2),
    "odd and even widths": random_field(RNG, [7, 3, 9, 6], RING, 1),
}


@pytest.mark.parametrize("schedule", ["sequential", "flooding"])
@pytest.mark.parametrize("damping", [0.0, 0.25])
@pytest.mark.parametrize("name", FIELDS)
def test_same_fixed_point(name, damping, schedule):
    field = FIELDS[name]
    known = compiled(field)
    theta = known.design.potentials(0.4 * np.random.default_rng(5).normal(size=field.n_parameters))
    assert known.graph.pairs
    assert pairs.log_range(known.graph.arrays, theta) < pairs.SAFE_RANGE
    engine = bf.Bethe(schedule=schedule, damping=damping, tolerance=1e-13)
    fast = engine.infer(known.graph, theta)
    log_z, tables, _ = general(known.graph, theta, schedule == "flooding", damping)
    assert fast.status.outcome is bf.Outcome.CONVERGED
    assert fast.log_z == pytest.approx(log_z, abs=ALGEBRA)
    np.testing.assert_allclose(fast.tables, tables, rtol=0, atol=ALGEBRA)


@pytest.mark.parametrize("damping", [0.0, 0.25])
@pytest.mark.parametrize("name", ["binary grid", "binary 0/1 on a random graph", "binary tables"])
def test_in_blocks_the_same_fixed_point(name, damping, monkeypatch):
    monkeypatch.setattr("bayesfield.inference.messages.odds._LARGE", 0)
    monkeypatch.setattr("bayesfield.inference.messages.odds._CROSSING", 1.0)
    field = FIELDS[name]
    graph, design = compiled(field).graph, compiled(field).design
    theta = design.potentials(0.4 * np.random.default_rng(5).normal(size=field.n_parameters))
    found = bf.Bethe(damping=damping).infer(graph, theta)
    log_z, tables, _ = general(graph, theta, damping=damping)
    assert len(graph.plans.pop("blocks").arrives) > 0
    assert found.log_z == pytest.approx(log_z, abs=ALGEBRA)
    np.testing.assert_allclose(found.tables, tables, rtol=0, atol=ALGEBRA)


def test_a_large_field_on_any_number_of_cores(monkeypatch):
    """More edges than one block takes: to the last bit the same on one core and on two."""
    field = bf.grid(170, 170)
    graph, design = compiled(field).graph, compiled(field).design
    theta = design.potentials(0.3 * np.random.default_rng(5).normal(size=field.n_parameters))
    monkeypatch.setattr("bayesfield.parallel.cores", lambda: 1)
    alone = bf.Bethe(tolerance=1e-9).infer(graph, theta)
    monkeypatch.setattr("bayesfield.parallel.cores", lambda: 2)
    shared = bf.Bethe(tolerance=1e-9).infer(graph, theta)
    assert len(graph.plans["blocks"].bounds) > 2
    assert shared.log_z == alone.log_z
    np.testing.assert_array_equal(shared.tables, alone.tables)
    np.testing.assert_array_equal(shared.state, alone.state)


def test_a_graph_without_neighbourhoods_is_one_block(monkeypatch):
    """Edges between variables far apart in number would all come a sweep late."""
    monkeypatch.setattr("bayesfield.inference.messages.odds._LARGE", 0)
    rng = np.random.default_rng(0)
    field = bf.pairwise(60, [(i, j) for i, j in rng.integers(0, 60, (90, 2)) if i != j])
    graph, design = compiled(field).graph, compiled(field).design
    theta = design.potentials(0.2 * rng.normal(size=field.n_parameters))
    found = bf.Bethe().infer(graph, theta)
    assert len(graph.plans["blocks"].arrives) == 0
    np.testing.assert_allclose(found.tables, general(graph, theta)[1], rtol=0, atol=ALGEBRA)


def test_single_precision():
    field = bf.grid(30, 30)
    graph, design = compiled(field).graph, compiled(field).design
    theta = design.potentials(0.3 * np.random.default_rng(5).normal(size=field.n_parameters))
    double, single = bf.Bethe().infer(graph, theta), bf.Bethe(single=True, tolerance=1e-6).infer(graph, theta)
    assert single.status.converged
    np.testing.assert_allclose(single.tables, double.tables, rtol=0, atol=2e-6)
    with pytest.raises(bf.InvalidInput, match="single precision"):
        bf.Bethe(single=True)


def test_warm_start_returns_at_once():
    field = bf.grid(6, 6)
    known = compiled(field)
    theta = known.design.potentials(0.3 * np.random.default_rng(0).normal(size=field.n_parameters))
    cold = bf.Bethe().infer(known.graph, theta)
    warm = bf.Bethe().infer(known.graph, theta, start=cold.state)
    assert warm.status.iterations <= 2 < cold.status.iterations
    np.testing.assert_allclose(warm.tables, cold.tables, rtol=0, atol=FIXED_POINT)


@pytest.mark.parametrize("strength", [50.0, 400.0, 2000.0])
def test_strong_fields_leave_the_fast_path_in_time(strength):
    """Beyond the range of plain numbers the log domain takes over; on a tree the answer is known."""
    field = bf.chain(6)
    parameters = strength * np.array([1, -1, 0.5, 0.2, -0.3, 0.9, 1, -0.7, 0.8, 0.1, -1.0])
    beliefs = bf.infer(field, parameters, bf.Bethe())
    exact = bf.infer(field, parameters, bf.Exact())
    assert beliefs.status.converged
    assert beliefs.log_z == pytest.approx(exact.log_z, rel=1e-12)
    np.testing.assert_allclose(beliefs.marginals.tables, exact.marginals.tables, rtol=0, atol=ALGEBRA)


def test_damping_does_not_loosen_the_tolerance():
    """The residual is that of an undamped update, so a damped run ends as near to the fixed point as another."""
    field = bf.grid(5, 5)
    known = compiled(field)
    theta = known.design.potentials(0.5 * np.random.default_rng(7).normal(size=field.n_parameters))
    wanted = bf.Bethe(tolerance=1e-14).infer(known.graph, theta).tables
    for damping in (0.0, 0.5, 0.9):
        got = bf.Bethe(damping=damping, tolerance=1e-6, max_sweeps=5000).infer(known.graph, theta)
        assert got.status.outcome is bf.Outcome.CONVERGED
        assert np.abs(got.tables - wanted).max() < 1e-5
