"""Linear response table by table against the same by sparse products."""

import itertools

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.graph.compiled import compiled
from bayesfield.response.linear import SingularFactor, bethe_response
from bayesfield.response.local import LocalResponse, local_response

RNG = np.random.default_rng(0)


def mixed():
    """Factors of three variables that overlap in two, several parameters to a table, and tables without any."""
    ab = {f"w{a}{b}": np.eye(6)[2 * a + b].reshape(3, 2) for a, b in itertools.product(range(3), range(2))}
    del ab["w00"]
    return bf.RandomField(
        {"a": 3, "b": 2, "c": 2, "d": 3},
        [
            bf.Factor(("a", "b"), ab),
            bf.Factor(("b", "c", "d"), {"t": RNG.normal(size=(2, 2, 3)), "u": RNG.normal(size=(2, 2, 3))}),
            bf.Factor(("c", "d"), log_table=RNG.normal(size=(2, 3))),
            bf.Factor(("a",), {"z": np.array([0.0, 1.0, 2.0]), "y": np.array([1.0, 0.0, -1.0])}),
        ],
    )


FIELDS = {
    "grid": bf.grid(4, 5),
    "potts": bf.potts(12, bf.grid_edges(3, 4), 3),
    "chain": bf.chain(9),
    "mixed": mixed(),
    "no edges": bf.pairwise(5, [], (0, 1)),
}


@pytest.mark.parametrize("dense_up_to", [-1, 1000])
@pytest.mark.parametrize("name", FIELDS)
def test_the_same_blocks_and_the_same_system(name, dense_up_to, monkeypatch):
    monkeypatch.setattr("bayesfield.response.local._DENSE", dense_up_to)
    field = FIELDS[name]
    graph, design = compiled(field).graph, compiled(field).design
    theta = design.potentials(0.7 * np.random.default_rng(1).normal(size=field.n_parameters))
    beliefs = bf.Bethe().infer(graph, theta).tables
    found, wanted = local_response(graph, design, beliefs), bethe_response(graph, design, beliefs)
    assert isinstance(found, LocalResponse)
    for part in ("private", "slopes", "omega"):
        np.testing.assert_allclose(getattr(found, part).toarray(), getattr(wanted, part).toarray(), atol=1e-12)
    ridge = np.random.default_rng(2).uniform(0.5, 3.0, size=field.n_parameters)
    ours, theirs = found.system(100.0, ridge), wanted.system(100.0, ridge)
    np.testing.assert_allclose(ours.own.toarray(), theirs.own.toarray(), atol=1e-12)
    np.testing.assert_allclose(ours.shares.toarray(), theirs.shares.toarray(), atol=1e-12)
    np.testing.assert_allclose(ours.forms(), theirs.forms(), atol=1e-12)
    np.testing.assert_allclose(found.covariance(), wanted.covariance(), atol=1e-12)


def test_a_parameter_in_many_tables_is_not_local():
    field = bf.grid(4, 4, tied=True)
    known = compiled(field)
    beliefs = bf.Bethe().infer(known.graph, known.design.potentials(np.full(field.n_parameters, 0.1))).tables
    assert local_response(known.graph, known.design, beliefs) is None


def test_states_that_cannot_occur_are_left_to_the_general_way():
    tables = [
        bf.Factor(
            ("a", "b"), {"w": np.array([[1.0, 0.0], [0.0, 1.0]])}, log_table=np.array([[-np.inf, -np.inf], [0, 0]])
        )
    ]
    field = bf.RandomField({"a": 2, "b": 2}, tables)
    known = compiled(field)
    beliefs = bf.Exact().infer(known.graph, known.design.potentials(np.array([0.3]))).tables
    assert local_response(known.graph, known.design, beliefs) is None


def test_a_factor_that_ties_its_members_is_singular():
    tables = [
        bf.Factor(
            ("a", "b"), {"w": np.array([[1.0, 0.0], [0.0, -1.0]])}, log_table=np.array([[0, -np.inf], [-np.inf, 0]])
        )
    ]
    field = bf.RandomField({"a": 2, "b": 2}, tables)
    known = compiled(field)
    beliefs = bf.Exact().infer(known.graph, known.design.potentials(np.array([0.3]))).tables
    with pytest.raises(SingularFactor):
        local_response(known.graph, known.design, beliefs)
