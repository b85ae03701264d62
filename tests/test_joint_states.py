"""Exact inference by all joint states: against enumeration and the junction tree, on awkward dense fields."""

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.graph.compiled import compiled
from bayesfield.graph.structure import Graph, pair_graph
from bayesfield.inference.enumeration import Enumeration
from bayesfield.inference.trees import joint_states
from bayesfield.inference.trees.junction_tree import Exact

from tolerances import ALGEBRA

CARDINALITIES = {
    "binary": [2] * 7,
    "mixed": [3, 2, 4, 2, 3],
    "one state": [1, 3, 2, 1, 4, 2, 3, 1],
    "wide": [6, 5, 7],
    "more than inner": [2] * 16,
    "five answers, more than inner": [5] * 6 + [2],
}


def dense_graph(cardinality: list[int], left_out: int = 0) -> Graph:
    n = len(cardinality)
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    return pair_graph(np.array(cardinality), np.array(pairs[left_out:]))


@pytest.mark.parametrize("left_out", [0, 2])
@pytest.mark.parametrize("name", CARDINALITIES)
def test_beliefs_and_log_z_are_those_of_enumeration(name: str, left_out: int) -> None:
    graph = dense_graph(CARDINALITIES[name], left_out)
    states = joint_states.joint_states(graph.arrays)
    assert states is not None
    rng = np.random.default_rng(0)
    thetas = rng.normal(size=(3, graph.n_entries))
    thetas[1, rng.integers(graph.n_entries, size=2)] = -np.inf  # hard constraints
    thetas[2] *= 5.0
    log_z, beliefs = joint_states.infer_many(states, thetas)
    for theta, value, tables in zip(thetas, log_z, beliefs, strict=True):
        truth = Enumeration().infer(graph, theta)
        np.testing.assert_allclose(value, truth.log_z, atol=ALGEBRA)
        np.testing.assert_allclose(tables, truth.tables, atol=ALGEBRA)
    np.testing.assert_allclose(joint_states.log_z_many(states, thetas), log_z, atol=ALGEBRA)


@pytest.mark.parametrize("name", ["binary", "mixed", "one state", "wide", "five answers, more than inner"])
def test_covariances_are_those_of_enumeration(name: str) -> None:
    graph = dense_graph(CARDINALITIES[name], 1)
    states = joint_states.joint_states(graph.arrays)
    assert states is not None
    thetas = np.random.default_rng(1).normal(size=(2, graph.n_entries))
    thetas[1, 0] = -np.inf if CARDINALITIES[name][0] > 1 else 0.0
    log_z, beliefs = joint_states.infer_many(states, thetas)
    total = joint_states.covariance_sum(states, thetas, log_z, beliefs)
    expected = np.zeros((graph.n_entries, graph.n_entries))
    for theta in thetas:
        entries, probability = Enumeration().infer(graph, theta).state
        indicator = np.zeros((len(probability), graph.n_entries))
        for column in entries.T:
            indicator[np.arange(len(probability)), column] += 1.0
        mean = probability @ indicator
        expected += (indicator.T * probability) @ indicator - np.outer(mean, mean)
    np.testing.assert_allclose(states.indicators @ (states.indicators @ total).T, expected, atol=ALGEBRA)


def test_exact_takes_them_where_the_field_is_dense_only() -> None:
    engine = Exact()
    assert "joint states" in engine.preview(dense_graph([2] * 12)).detail
    assert "joint states" not in engine.preview(compiled(bf.grid(4, 5)).graph).detail
    assert "joint states" not in engine.preview(dense_graph([2] * 4)).detail  # too few to be worth it
    assert joint_states.joint_states(dense_graph([2] * 27).arrays) is None
    assert joint_states.joint_states(dense_graph([400, 400]).arrays) is None  # too many products of indicators


def test_the_engine_answers_alike_by_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    field = bf.potts(6, [(i, j) for i in range(6) for j in range(i + 1, 6)], 3)
    parameters = 0.4 * np.random.default_rng(2).normal(size=field.n_parameters)
    dense = compiled(field)
    theta = dense.design.potentials(parameters)
    engine = Exact()
    marginals = engine.infer(dense.graph, theta)
    response = engine.response(dense.graph, dense.design, theta, marginals)
    monkeypatch.setattr(Exact, "_joint_states", lambda self, graph: None)
    other = engine.infer(dense.graph, theta)
    tree = engine.response(dense.graph, dense.design, theta, other)
    np.testing.assert_allclose(marginals.log_z, other.log_z, atol=ALGEBRA)
    np.testing.assert_allclose(marginals.tables, other.tables, atol=ALGEBRA)
    np.testing.assert_allclose(response.covariance(), tree.covariance(), atol=ALGEBRA)
    vector = np.random.default_rng(3).normal(size=field.n_parameters)
    np.testing.assert_allclose(response.product(vector), tree.product(vector), atol=ALGEBRA)


def test_weights_that_are_no_numbers_are_left_to_the_junction_tree() -> None:
    """All tables ask for other states than their neighbours: the largest weight is e^−1200 of the product of tops."""
    graph = dense_graph([2] * 8)
    theta = np.zeros(graph.n_entries)
    pairs = theta[graph.arrays.table_ptr[0] :].reshape(-1, 4)
    pairs[:, [0, 3]] = -100.0  # antiferromagnet on a complete graph: 12 pairs of 28 must agree
    truth = Enumeration().infer(graph, theta)
    found = Exact().infer(graph, theta)
    np.testing.assert_allclose(found.log_z, truth.log_z, rtol=1e-12)
    np.testing.assert_allclose(found.tables, truth.tables, atol=ALGEBRA)
    impossible = theta.copy()
    impossible[:2] = -np.inf
    assert Exact().infer(graph, impossible).log_z == -np.inf


def test_a_fit_of_a_dense_network_is_that_of_the_junction_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modes and widths to rounding; corrected means to their Monte-Carlo error, the draws being the same."""
    field = bf.pairwise(8, [(i, j) for i in range(8) for j in range(i + 1, 8)])
    X = (np.random.default_rng(4).random((150, 8)) < 0.4).astype(int)
    dense = bf.fit(field, X, correction="variational")
    monkeypatch.setattr(Exact, "_joint_states", lambda self, graph: None)
    tree = bf.fit(bf.pairwise(8, [(i, j) for i in range(8) for j in range(i + 1, 8)]), X, correction="variational")
    np.testing.assert_allclose(dense.mode, tree.mode, atol=1e-6)
    np.testing.assert_allclose(dense.mean, tree.mean, atol=0.01 * tree.sd.min())
    np.testing.assert_allclose(dense.sd, tree.sd, rtol=0.01)
