"""pgmpy: its networks as fields, fields as its networks, and the same marginals both ways; also after learning."""

import warnings

import numpy as np
import pandas as pd
import pytest

import bayesfield as bf

from awkward import CASES
from tolerances import ALGEBRA

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("pgmpy")
    from pgmpy import models
    from pgmpy.estimators import MirrorDescentEstimator
    from pgmpy.factors.discrete import DiscreteFactor, TabularCPD
    from pgmpy.inference import VariableElimination
    from pgmpy.parameter_estimator import DiscreteMLE

pytestmark = pytest.mark.filterwarnings("ignore")


def marginals_there(model):
    engine = VariableElimination(model)
    return {str(v): engine.query([v], show_progress=False) for v in model.nodes() if not isinstance(v, DiscreteFactor)}


def assert_same(field, parameters, model):
    beliefs = bf.infer(field, parameters, bf.Exact())
    found = marginals_there(model)
    for name, states, p in zip(field.names, field.states, beliefs.variables, strict=True):
        there = found[name]
        assert there.state_names[name] == list(states)
        # of Markov networks pgmpy does not normalise them
        np.testing.assert_allclose(p, there.values / there.values.sum(), atol=ALGEBRA)


def student():
    """The network of Koller & Friedman, with names of states."""
    network = models.DiscreteBayesianNetwork([("D", "G"), ("I", "G"), ("G", "L"), ("I", "S")])
    ways = {"D": ["easy", "hard"], "I": ["low", "high"], "G": ["A", "B", "C"], "L": ["weak", "strong"], "S": [0, 1]}

    def cpd(variable, values, evidence=()):
        names = {v: ways[v] for v in (variable, *evidence)}
        sizes = [len(ways[v]) for v in evidence]
        return TabularCPD(variable, len(ways[variable]), values, list(evidence) or None, sizes or None, names)

    network.add_cpds(
        cpd("D", [[0.6], [0.4]]),
        cpd("I", [[0.7], [0.3]]),
        cpd("G", [[0.3, 0.05, 0.9, 0.5], [0.4, 0.25, 0.08, 0.3], [0.3, 0.7, 0.02, 0.2]], ["I", "D"]),
        cpd("L", [[0.1, 0.4, 0.99], [0.9, 0.6, 0.01]], ["G"]),
        cpd("S", [[0.95, 0.2], [0.05, 0.8]], ["I"]),
    )
    return network


def misconception():
    network = models.DiscreteMarkovNetwork([("A", "B"), ("B", "C"), ("C", "D"), ("D", "A")])
    tables = {("A", "B"): [30, 5, 1, 10], ("B", "C"): [100, 1, 1, 100], ("D", "C"): [1, 100, 100, 1]}
    tables[("D", "A")] = [100, 1, 0, 100]
    network.add_factors(*(DiscreteFactor(list(scope), [2, 2], values) for scope, values in tables.items()))
    return network


def test_bayesian_networks():
    field = bf.from_pgmpy(student())
    assert field.states[field.number("G")] == ("A", "B", "C")
    assert_same(field, (), student())
    assert bf.infer(field, engine=bf.Exact()).log_z == pytest.approx(0.0, abs=ALGEBRA)


def test_markov_networks_and_factor_graphs():
    network = misconception()
    field = bf.from_pgmpy(network)
    assert_same(field, (), network)
    assert bf.infer(field, engine=bf.Exact()).log_z == pytest.approx(np.log(network.get_partition_function()))
    graph = bf.from_pgmpy(network.to_factor_graph())
    assert sorted(graph.names) == sorted(field.names)
    assert bf.infer(graph, engine=bf.Exact()).log_z == pytest.approx(bf.infer(field, engine=bf.Exact()).log_z)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.field.n_variables and np.abs(c.parameters).max(initial=0) < 10], ids=lambda c: c.name
)
def test_there_and_back(case):
    network = bf.to_pgmpy(case.field, case.parameters)
    assert network.check_model()
    again = bf.from_pgmpy(network)
    wanted = bf.infer(case.field, case.parameters, bf.Exact())
    assert again.names == case.field.names
    assert [tuple(s) for s in again.states] == [tuple(s) for s in case.field.states]
    assert bf.infer(again, engine=bf.Exact()).log_z == pytest.approx(wanted.log_z, abs=ALGEBRA)
    assert_same(case.field, case.parameters, network)


def test_a_posterior_at_its_mean():
    field = bf.chain(4)
    posterior = bf.fit(field, bf.sample(field, np.full(7, 0.3), 100, 0))
    assert_same(field, posterior.mean, bf.to_pgmpy(posterior))


def test_what_is_refused():
    with pytest.raises(bf.InvalidInput, match="give their values"):
        bf.to_pgmpy(bf.chain(2))
    with pytest.raises(bf.InvalidInput, match="Markov network, factor graph"):
        bf.from_pgmpy({"a": 1})
    lonely = misconception()
    lonely.add_node("E")
    with pytest.raises(bf.InvalidInput, match="'E' of the network has no factor"):
        bf.from_pgmpy(lonely)
    odd = models.DiscreteMarkovNetwork([("A", "B")])
    odd.add_factors(
        DiscreteFactor(["A"], [2], [1, 2], {"A": ["x", "y"]}),
        DiscreteFactor(["A", "B"], [2, 2], [1, 2, 3, 4], {"A": ["y", "x"], "B": [0, 1]}),
    )
    with pytest.raises(bf.InvalidInput, match="the same order"):
        bf.from_pgmpy(odd)


# --- the same estimates, where they are defined the same ----------------------------------------------------

FLAT = bf.Normal(variance=1e8)
LEARNED = 1e-6  # what two searches leave


@pytest.fixture(scope="module")
def answers(data):
    """Five questions of the LSAT, right or wrong, for 1000 people."""
    return pd.read_csv(data / "questionnaires" / "lsat6.csv")


def mirror_descent(table, edges):
    names = list(table)
    pairs = [(names[i], names[j]) for i, j in edges]
    network = models.DiscreteMarkovNetwork(pairs)
    network.add_factors(*(DiscreteFactor(list(pair), [2, 2], np.zeros(4)) for pair in pairs))
    return MirrorDescentEstimator(network, table).estimate(pairs, iterations=300, show_progress=False)


def joint_of(field, parameters):
    """All probabilities, one axis for each variable."""
    shape = tuple(field.cardinalities)
    states = np.array(list(np.ndindex(*shape)))
    weight = np.exp(field.features(states) @ parameters)
    return (weight / weight.sum()).reshape(shape)


def marginal(joint, axes):
    """Of some variables, in their order."""
    left = joint.sum(axis=tuple(k for k in range(joint.ndim) if k not in axes))
    return left.transpose(np.argsort(np.argsort(axes)))


def clique_error(tree, names, joint):
    shares = [(f.values / f.values.sum(), [names.index(v) for v in f.variables]) for f in tree.factors]
    return max(np.abs(there - marginal(joint, axes)).max() for there, axes in shares)


@pytest.mark.parametrize("edges", [[(0, 1), (1, 2), (2, 3), (3, 4)], [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)]])
def test_cliques_as_by_mirror_descent(answers, edges):
    field = bf.pairwise(5, edges, names=list(answers))
    posterior = bf.fit(field, answers, FLAT)
    assert clique_error(mirror_descent(answers, edges), list(answers), joint_of(field, posterior.mode)) < LEARNED
    scaled = bf.fit(field, answers, FLAT, method="iterative_scaling")
    assert clique_error(mirror_descent(answers, edges), list(answers), joint_of(field, scaled.mode)) < 1e-4


def test_edges_of_a_cycle_as_by_mirror_descent(answers):
    """Where triangulation joins two more variables, pgmpy's cliques disagree on that pair; on edges all agree."""
    edges, names = [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)], list(answers)
    field = bf.pairwise(5, edges, names=names)
    joint = joint_of(field, bf.fit(field, answers, FLAT).mode)
    tree = mirror_descent(answers, edges)
    for i, j in edges:
        clique = next(f for f in tree.factors if {names[i], names[j]} <= set(f.variables))
        pair = clique.marginalize([v for v in clique.variables if v not in (names[i], names[j])], inplace=False)
        axes = [names.index(v) for v in pair.variables]
        np.testing.assert_allclose(pair.values / pair.values.sum(), marginal(joint, axes), atol=LEARNED)


def test_a_tree_as_by_conditional_tables(answers):
    names = list(answers)
    network = models.DiscreteBayesianNetwork([(names[0], names[1]), (names[1], names[2]), (names[1], names[3])])
    network.fit(answers[names[:4]], estimator=DiscreteMLE())
    field = bf.pairwise(4, [(0, 1), (1, 2), (1, 3)], names=names[:4])
    posterior = bf.fit(field, answers[names[:4]], FLAT)
    there = bf.from_pgmpy(network)
    wanted = np.exp(
        [
            sum(float(np.asarray(f.log_table)[tuple(x[there.number(v)] for v in f.variables)]) for f in there.factors)
            for x in np.ndindex(2, 2, 2, 2)
        ]
    ).reshape(2, 2, 2, 2)
    order = [there.number(name) for name in names[:4]]
    np.testing.assert_allclose(joint_of(field, posterior.mode), wanted.transpose(order), atol=LEARNED)
    assert (posterior.sd > 0).all()
