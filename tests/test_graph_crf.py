"""Conditional fields on graphs of any shape: a chain given as a graph is the chain; any engine; awkward edges."""

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.fitting.graphs import fit_graphs
from bayesfield.fitting.sequences import fit_sequences
from bayesfield.learning.objective import gaussian
from bayesfield.learning.phases.graphs import graph_objective
from bayesfield.learning.phases.sequences import sequence_objective
from bayesfield.model.conditional import CRF, as_sequences
from bayesfield.model.graphs import as_graphs

PRIOR = bf.Normal(variance=0.7)


def chains(K, edge_inputs=None, seed=0):
    """The same data as sequences and as graphs; some edges the other way round."""
    rng = np.random.default_rng(seed)
    labels = "abc"[:K]
    X = [rng.normal(size=(T, 3)) for T in (4, 1, 3, 5, 2, 4)]
    y = [[labels[k] for k in rng.integers(0, K, len(x))] for x in X]
    crf = CRF(labels, 3, edge_inputs)
    Z = None if edge_inputs is None else [rng.normal(size=(len(x) - 1, edge_inputs)) for x in X]
    graphs = []
    for n, x in enumerate(X):
        edges = np.array([(t, t + 1) for t in range(len(x) - 1)], dtype=int).reshape(-1, 2)
        graphs.append((x, edges) if Z is None else (x, edges, Z[n]))
    return crf, X, y, Z, graphs


@pytest.mark.parametrize("edge_inputs", [None, 2])
@pytest.mark.parametrize("K", [2, 3])
def test_a_chain_as_a_graph_is_the_chain(K, edge_inputs):
    crf, X, y, Z, graphs = chains(K, edge_inputs)
    one = sequence_objective(crf, as_sequences(crf, X, y, Z), gaussian(PRIOR, crf))
    other = graph_objective(crf, as_graphs(crf, graphs, y), gaussian(PRIOR, crf), bf.Exact())
    here = np.random.default_rng(1).normal(size=crf.n_parameters)
    a, b = one.at(here), other.at(here)
    assert a.value == pytest.approx(b.value, abs=1e-9)
    np.testing.assert_allclose(a.gradient, b.gradient, atol=1e-9)
    np.testing.assert_allclose(one.curvature(a), other.curvature(b), atol=1e-8)
    first = fit_sequences(crf, X, y, PRIOR, Z=Z, correction="none")
    for engine in (bf.Exact(), bf.Bethe()):  # exact on trees
        second = fit_graphs(crf, graphs, y, PRIOR, engine, correction="none")
        np.testing.assert_allclose(first.mode, second.mode, atol=1e-6)
        np.testing.assert_allclose(first.sd, second.sd, atol=1e-6)
        assert second.record.n_cases == 6


def test_edges_turned_or_doubled():
    """(j, i) has the table of (i, j) transposed; an edge that is given twice counts twice."""
    rng = np.random.default_rng(2)
    crf = CRF("ab", 2, 1)
    x = rng.normal(size=(3, 2))
    here = rng.normal(size=crf.n_parameters)
    swapped = here.copy()
    swapped[crf.n_state :] = here[crf.n_state :].reshape(2, 2).T.ravel()

    def value(edges, z, parameters):
        data = as_graphs(crf, [(x, edges, z)], [["a", "b", "a"]])
        return graph_objective(crf, data, gaussian(PRIOR, crf), bf.Exact()).at(parameters).value

    one = np.ones((1, 1))
    assert value([(0, 1)], one, here) == pytest.approx(value([(1, 0)], one, swapped), abs=1e-10)
    assert value([(0, 1), (0, 1)], [[1.0], [0.5]], here) == pytest.approx(value([(0, 1)], 1.5 * one, here), abs=1e-10)
    both = value([(0, 1), (1, 0)], [[1.0], [1.0]], here)
    mixed = here.copy()
    mixed[crf.n_state :] = here[crf.n_state :] + swapped[crf.n_state :]
    prior = gaussian(PRIOR, crf).log_kernel
    assert both + prior(here) == pytest.approx(value([(0, 1)], one, mixed) + prior(mixed), abs=1e-10)


def test_loopy_graphs_by_every_engine():
    """Grids of labels: Kikuchi and sampling end near the exact posterior, and the check runs."""
    rng = np.random.default_rng(3)
    edges = np.array(bf.grid_edges(4, 4))
    crf = CRF(("no", "yes"), 3, None, [[-1.0, 1.0]], [[[1.0, -1.0], [-1.0, 1.0]]])
    X = [(np.c_[rng.normal(size=(16, 2)), np.ones(16)], edges) for _ in range(12)]
    truth = np.array([1.0, -0.5, 0.2, 0.3])
    y = []
    for x, _ in X:
        field = bf.grid(4, 4)
        h = x @ truth[:3]
        y.append([("no", "yes")[int(v > 0)] for v in bf.sample(field, np.r_[h, np.full(24, 0.3)], 1, rng)[0]])
    exact = fit_graphs(crf, X, y, PRIOR, "exact")
    assert exact.record.correction.kind == "variational"
    assert (np.abs(exact.mean - truth) < 4 * exact.sd).all()
    for engine in ("kikuchi", "sampled"):
        other = fit_graphs(crf, X, y, PRIOR, engine)
        assert (np.abs(other.mean - exact.mean) < 0.2 * exact.sd).all()
        np.testing.assert_allclose(other.sd, exact.sd, rtol=0.1)
    assert exact.check().passed


@pytest.mark.parametrize(
    ("X", "text"),
    [
        ([np.zeros((2, 3))], "node_features, edges"),
        ([(np.zeros((2, 4)), [])], "3 columns"),
        ([(np.zeros((2, 3)), [(0, 5)])], "from 0 to 1"),
        ([(np.zeros((2, 3)), [(0, 0)])], "two different nodes"),
        ([(np.zeros((2, 3)), [(0.5, 1.0)])], "pairs of node numbers"),
        ([(np.zeros((2, 3)), [(0, 1)], np.zeros((2, 1)))], "edge features need shape"),
    ],
)
def test_bad_graphs_are_refused(X, text):
    with pytest.raises(bf.InvalidInput, match=text):
        as_graphs(CRF("ab", 3), X)
