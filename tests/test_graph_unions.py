"""Many graphs in one objective: each settles by itself, and the plan knows what tables with many parameters cost."""

import itertools

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.graph.compiled import compiled, pairs_within
from bayesfield.graph.structure import pair_graph
from bayesfield.inference.messages.parts import component_of, part_of
from bayesfield.learning.objective import gaussian
from bayesfield.learning.phases.graphs import graph_objective
from bayesfield.model.conditional import CRF
from bayesfield.model.graphs import as_graphs
from bayesfield.types import Outcome
from benchmarks import snakes

from tolerances import ALGEBRA

FIXED_POINT = 1e-6


def test_a_graph_that_circles_does_not_hold_up_the_others():
    """Four graphs of five variables with three states, all pairs joined: two that settle at once, one that takes
    hundreds of sweeps, and one whose messages circle. Log Z and beliefs are those of each alone."""
    pairs = np.array(list(itertools.combinations(range(5), 2)))
    graph = pair_graph(np.full(20, 3), np.concatenate([pairs + 5 * k for k in range(4)]))
    theta, engine, alone = np.empty(graph.n_entries), bf.Bethe(), []
    assert component_of(graph.arrays).tolist() == np.repeat(np.arange(4), 5).tolist()
    for k, seed in enumerate((0, 4, 2, 1)):
        rng, part = np.random.default_rng(seed), part_of(graph, k)
        own = np.concatenate([0.5 * rng.normal(size=15), 4.0 * rng.normal(size=90)])
        theta[part.entries] = own
        alone.append(engine.infer(part.graph, own))
    outcomes = [found.status.outcome for found in alone]
    assert outcomes == [Outcome.CONVERGED, Outcome.MINIMISED, Outcome.CONVERGED, Outcome.CONVERGED]
    assert len(alone[2].status.history) > 300
    together = engine.infer(graph, theta)
    assert together.status.outcome is Outcome.MINIMISED
    assert len(together.status.history) <= len(alone[1].status.history)
    assert together.log_z == pytest.approx(sum(found.log_z for found in alone), abs=FIXED_POINT)
    for k, found in enumerate(alone):
        np.testing.assert_allclose(together.tables[part_of(graph, k).entries], found.tables, atol=FIXED_POINT)


def test_parts_are_cut_out_of_any_graph():
    """Factors of one to three variables, two parts: log Z by enumeration is the sum."""
    field = bf.RandomField(
        {name: (0, 1, 2) if name in "ce" else (0, 1) for name in "abcde"},
        [
            bf.Factor(("a", "c", "e"), {"w": np.arange(18.0).reshape(2, 3, 3) / 9}),
            bf.Factor(("b", "d"), {"v": [[0.0, 1.0], [2.0, 0.5]]}),
            bf.Factor(("d",), {"u": [0.3, -0.2]}),
        ],
    )
    graph, design = compiled(field).graph, compiled(field).design
    theta, engine = design.potentials(np.array([0.7, -0.4, 1.1])), bf.Enumeration()
    parts = [part_of(graph, int(k)) for k in np.unique(component_of(graph.arrays))]
    assert len(parts) == 2
    each = [engine.infer(part.graph, theta[part.entries]).log_z for part in parts]
    assert sum(each) == pytest.approx(engine.infer(graph, theta).log_z, abs=ALGEBRA)
    assert sorted(np.concatenate([part.entries for part in parts])) == list(range(graph.n_entries))


def _snakes(count, seed=0):
    rng = np.random.default_rng(seed)
    boards = [snakes.board(rng) for _ in range(count)]
    return [snakes.instance(one, True) for one in boards], [one.labels.ravel() for one in boards]


def test_snakes():
    """Every board has a snake of ten cells, whose colours tell the next one."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        one = snakes.board(rng)
        at = {int(label): np.argwhere(one.labels == label) for label in range(1, 11)}
        assert all(len(cells) == 1 for cells in at.values())
        for label in range(1, 10):
            step = at[label + 1][0] - at[label][0]
            assert (snakes._STEPS[one.colours[tuple(at[label][0])]] == step).all()
        assert ((one.colours == 4) == (one.labels == 0)).all()


def test_tables_with_many_parameters_are_searched_without_curvature():
    X, y = _snakes(20)
    crf = CRF(list(range(11)), 45, X[0][2].shape[1])
    data = as_graphs(crf, X, y)
    objective = graph_objective(crf, data, gaussian(bf.Normal(variance=1.0), crf), bf.Bethe())
    graph, design = objective.free.graph, objective.free.design
    each = (data.edge_inputs != 0).sum(axis=1) * 121.0
    assert pairs_within(graph, design) == pytest.approx(float(each @ each))
    assert "lbfgs" in bf.preview(crf, data, correction="none", engine=bf.Bethe()).detail
    few = bf.CRF(2, 45, symmetric=True)
    plain = as_graphs(few, [(x[0], x[1]) for x in X], [(labels > 0).astype(int) for labels in y])
    assert "newton" in bf.preview(few, plain, correction="none", engine=bf.Bethe()).detail


@pytest.mark.slow
def test_snakes_are_labelled():
    """40 boards to learn from, 20 held out; with 200 nearly all cells are right (benchmarks/snakes.py)."""
    X, y = _snakes(60)
    crf = bf.GraphCRF(1.0, directed=True, correction="none", predictor="map", engine="bethe").fit(X[:40], y[:40])
    assert crf.score(X[40:], y[40:]) > 0.93
