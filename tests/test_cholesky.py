"""Sparse Cholesky factors and selected inverses against dense ones."""

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import bayesfield as bf
from bayesfield.response.factors.cholesky import Cholesky, factorise
from bayesfield.response.factors.pattern import analyse

GRAPHS = {
    "one": nx.empty_graph(1),
    "no edges": nx.empty_graph(40),
    "path": nx.path_graph(300),
    "star": nx.star_graph(200),
    "ring": nx.cycle_graph(101),
    "complete": nx.complete_graph(130),
    "grid": nx.grid_2d_graph(31, 33),
    "cube": nx.grid_graph((9, 9, 9)),
    "two parts": nx.disjoint_union(nx.grid_2d_graph(12, 13), nx.path_graph(30)),
    "random": nx.gnm_random_graph(500, 900, seed=1),
    "dense random": nx.gnm_random_graph(300, 6000, seed=2),
    "tree": nx.random_labeled_tree(700, seed=3),
}


def problem(graph, seed=0):
    """Entries of a positive definite matrix on a graph, each pair once and in any order, and the dense matrix."""
    rng = np.random.default_rng(seed)
    graph = nx.convert_node_labels_to_integers(graph)
    n = len(graph)
    ends = np.array(list(graph.edges()), dtype=np.int64).reshape(-1, 2)
    ends = ends[np.arange(len(ends))[:, None], rng.permuted(np.tile([0, 1], (len(ends), 1)), axis=1)]
    rows, columns = np.concatenate([np.arange(n), ends[:, 0]]), np.concatenate([np.arange(n), ends[:, 1]])
    weights = rng.normal(size=len(ends))
    diagonal = np.full(n, 0.1)
    np.add.at(diagonal, ends.ravel(), np.repeat(np.abs(weights), 2))
    order = rng.permutation(len(rows))
    data = np.concatenate([diagonal, weights])[order]
    rows, columns = rows[order], columns[order]
    dense = np.zeros((n, n))
    dense[rows, columns] = dense[columns, rows] = data
    return rows, columns, data, dense


@pytest.mark.parametrize("name", GRAPHS)
def test_all_that_a_factor_can_do(name):
    rows, columns, data, dense = problem(GRAPHS[name])
    factor = Cholesky(analyse(rows, columns, len(dense)), data)
    inverse = np.linalg.inv(dense)
    np.testing.assert_allclose(factor.inverse_entries(), inverse[rows, columns], rtol=1e-9, atol=1e-12)
    right = np.random.default_rng(1).normal(size=(len(dense), 3))
    np.testing.assert_allclose(factor.solve(right), inverse @ right, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(factor.solve(right[:, 0]), inverse @ right[:, 0], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(factor.log_det, np.linalg.slogdet(dense)[1], rtol=1e-10)
    root = factor.root(np.eye(len(dense)))
    np.testing.assert_allclose(root @ root.T, dense, atol=1e-11)


@pytest.mark.parametrize("cores", [1, 2, 5])
def test_the_same_numbers_on_any_number_of_cores(cores, monkeypatch):
    rows, columns, data, dense = problem(GRAPHS["grid"])
    pattern = analyse(rows, columns, len(dense))
    alone = Cholesky(pattern, data)
    monkeypatch.setattr("bayesfield.parallel.cores", lambda: cores)
    shared = Cholesky(pattern, data)
    right = np.random.default_rng(1).normal(size=(len(dense), 4))
    np.testing.assert_array_equal(shared.solve(right), alone.solve(right))
    np.testing.assert_array_equal(shared.inverse_entries(), alone.inverse_entries())


@pytest.mark.parametrize("where", [0, 17, -1])
def test_what_is_not_positive_definite_is_refused(where):
    rows, columns, data, dense = problem(GRAPHS["grid"])
    pattern = analyse(rows, columns, len(dense))
    data[np.flatnonzero(rows == columns)[where]] = -1.0
    with pytest.raises(bf.IndefiniteCurvature):
        Cholesky(pattern, data)


def test_not_a_number_is_refused():
    rows, columns, data, dense = problem(GRAPHS["path"])
    data[5] = np.nan
    with pytest.raises(bf.IndefiniteCurvature):
        Cholesky(analyse(rows, columns, len(dense)), data)


def test_what_underflows_is_zero():
    """A long path with weak links: entries of the inverse go down to 10⁻⁶⁰⁰; those near the diagonal are right."""
    n = 400
    rows = np.concatenate([np.arange(n), np.arange(n - 1)])
    columns = np.concatenate([np.arange(n), np.arange(1, n)])
    data = np.concatenate([np.ones(n), np.full(n - 1, 0.03)])
    factor = Cholesky(analyse(rows, columns, n), data)
    dense = np.diag(np.ones(n)) + 0.03 * (np.eye(n, k=1) + np.eye(n, k=-1))
    np.testing.assert_allclose(factor.inverse_entries(), np.linalg.inv(dense)[rows, columns], rtol=1e-12)


@pytest.mark.parametrize("size", [0, 1])
def test_little_matrices(size):
    factor = factorise(sparse.csc_array(2.0 * np.eye(size)))
    np.testing.assert_array_equal(factor.solve(np.ones(size)), 0.5 * np.ones(size))
    assert factor.log_det == size * np.log(2.0)


@pytest.mark.parametrize("dense_up_to", [0, 10_000])
def test_forms_with_the_inverse(dense_up_to, monkeypatch):
    """w A⁻¹ wᵀ for rows w on single sites and on linked pairs, by both kinds of factor."""
    monkeypatch.setattr("bayesfield.response.factors.cholesky._DENSE", dense_up_to)
    rows, columns, _, dense = problem(GRAPHS["random"])
    rng = np.random.default_rng(4)
    pairs = np.flatnonzero(rows != columns)
    at = np.repeat(np.arange(len(pairs)), 2), np.stack([rows[pairs], columns[pairs]], axis=1).ravel()
    W = sparse.csr_array((rng.normal(size=2 * len(pairs)), at), shape=(len(pairs), len(dense)))
    wanted = np.einsum("ki,ij,kj->k", W.toarray(), np.linalg.inv(dense), W.toarray(), optimize=True)
    np.testing.assert_allclose(factorise(sparse.csc_array(dense)).inverse_forms(W), wanted, rtol=1e-9)
