"""Fields as users state them: builders, features, states in and out."""

import pickle

import numpy as np
import pandas as pd
import pytest

import bayesfield as bf
from bayesfield.graph.compiled import compiled
from bayesfield.graph.structure import counts


def test_grid_features_are_sites_then_bonds():
    field = bf.grid(2, 3)
    assert field.edges == [(0, 1), (0, 3), (1, 2), (1, 4), (2, 5), (3, 4), (4, 5)]
    x = np.array([[1, -1, 1, 1, 1, -1]])
    wanted = [*x[0], *(x[0, i] * x[0, j] for i, j in field.edges)]
    np.testing.assert_array_equal(field.features(x)[0], wanted)
    assert field.parameter_names[:2] == ["x[0,0]", "x[0,1]"]
    assert field.parameter_names[6] == "x[0,0]*x[0,1]"
    assert list(field.groups) == ["nodes"] * 6 + ["edges"] * 7


def test_pairwise_sorts_edges_and_uses_the_states_values():
    field = bf.pairwise(4, [(3, 1), (0, 2), (1, 3)], states=(0, 1, 5))
    assert field.edges == [(0, 2), (1, 3)]
    np.testing.assert_array_equal(field.features([[5, 1, 1, 5]]), [[5, 1, 1, 5, 5, 5]])


def test_labels_that_are_no_numbers_count_by_position():
    field = bf.pairwise(2, [(0, 1)], states=("no", "maybe", "yes"))
    np.testing.assert_array_equal(field.features([["yes", "maybe"]]), [[2, 1, 2]])
    assert bf.sample(field, np.zeros(3), 4, 0).dtype == object


def test_chain_is_a_line():
    assert bf.chain(4).edges == [(0, 1), (1, 2), (2, 3)]
    assert bf.chain(0).edges == []


def test_tied_parameters_sum_their_features():
    tied, untied = bf.grid(3, 3, tied=True), bf.grid(3, 3)
    X = np.where(np.random.default_rng(0).random((5, 9)) < 0.5, -1, 1)
    f = untied.features(X)
    np.testing.assert_array_equal(tied.features(X), np.stack([f[:, :9].sum(1), f[:, 9:].sum(1)], axis=1))
    assert bf.infer(tied, [0.2, 0.3]).log_z == pytest.approx(bf.infer(untied, [0.2] * 9 + [0.3] * 12).log_z)


def test_potts_features():
    field = bf.potts(2, [(0, 1)], ("a", "b", "c"))
    assert field.parameter_names == ["x0=b", "x0=c", "x1=b", "x1=c", "x0==x1"]
    np.testing.assert_array_equal(field.features([["b", "b"], ["a", "c"]]), [[1, 0, 1, 0, 1], [0, 0, 0, 1, 0]])
    tables = bf.potts(2, [(0, 1)], ("a", "b", "c"), interaction="table")
    assert tables.parameter_names[4:] == ["x0=b,x1=b", "x0=b,x1=c", "x0=c,x1=b", "x0=c,x1=c"]
    np.testing.assert_array_equal(tables.features([["c", "b"]])[0, 4:], [0, 0, 1, 0])


def test_general_constructor_ties_by_name_and_keeps_the_order_of_scopes():
    table = np.arange(6.0).reshape(3, 2)
    field = bf.RandomField(
        [bf.Variable("a", 2), bf.Variable("b", ("u", "v", "w"))],
        [bf.Factor(("b", "a"), {"w": table}), bf.Factor(("a", "b"), {"w": table.T, "z": np.ones((2, 3))})],
    )
    assert field.parameter_names == ["w", "z"]
    np.testing.assert_array_equal(field.features([[1, "w"]]), [[2 * table[2, 1], 1]])
    assert bf.infer(field, [0.1, 0.2]).factors[0].shape == (3, 2)
    assert [f.variables for f in field.factors] == [("b", "a"), ("a", "b")]


def test_design_and_its_transpose():
    """E[f] = Aᵀb is the adjoint of θ = Aλ, and the data's mean features are Aᵀ of its frequencies."""
    field = bf.potts(6, bf.grid_edges(2, 3), 4)
    design = compiled(field).design
    rng = np.random.default_rng(0)
    v, b = rng.normal(size=field.n_parameters), rng.normal(size=compiled(field).graph.n_entries)
    assert (design.potentials(v) - design.offset) @ b == pytest.approx(v @ design.expectations(b))
    X = rng.integers(0, 4, size=(30, 6))
    taken = counts(compiled(field).graph, field.encode(X))
    np.testing.assert_allclose(design.expectations(taken) / 30, field.features(X).mean(axis=0), atol=1e-12)


def test_encode_and_decode_are_inverse():
    field = bf.RandomField({"a": ("x", "y"), "b": (1, 2, 3), "c": (0.5, 1.5)})
    codes = np.array([[0, 2, 1], [1, 0, 0]])
    np.testing.assert_array_equal(field.encode(field.decode(codes)), codes)


def test_frames_are_read_by_name_or_by_position():
    field = bf.pairwise(3, [(0, 1), (1, 2)], names=["a", "b", "c"])
    frame = pd.DataFrame({"c": [1, 0], "a": [0, 0], "b": [1, 1], "other": [7, 7]})
    np.testing.assert_array_equal(field.encode(frame), [[0, 1, 1], [0, 1, 0]])
    np.testing.assert_array_equal(bf.pairwise(3, []).encode(frame[["c", "a", "b"]]), [[1, 0, 1], [0, 0, 1]])
    np.testing.assert_array_equal(field.encode(frame[["c", "a", "b"]].astype("category")), [[0, 1, 1], [0, 1, 0]])
    np.testing.assert_array_equal(field.encode(frame[["c", "a", "b"]].astype(bool)), [[0, 1, 1], [0, 1, 0]])


def test_a_large_lattice_is_stated_in_blocks():
    field = bf.grid(300, 300)
    assert len(field.blocks) == 2
    assert field.n_parameters == 90_000 + 2 * 300 * 299
    assert field.parameter_names[-1] == "x[299,298]*x[299,299]"


def test_fields_can_be_pickled():
    field = bf.grid(3, 3)
    bf.infer(field, np.zeros(21))
    again = pickle.loads(pickle.dumps(field))
    assert again.parameter_names == field.parameter_names
    assert bf.infer(again, np.ones(21)).log_z == bf.infer(field, np.ones(21)).log_z


def test_priors():
    field = bf.grid(2, 2)
    np.testing.assert_array_equal(bf.Normal(variance=0.25).precision(field), [4.0] * 8)
    by_group = bf.Normal(variance={"nodes": 1.0, "edges": 0.5}).precision(field)
    np.testing.assert_array_equal(by_group, [1.0] * 4 + [2.0] * 4)
    variances = np.linspace(1, 2, 8)
    np.testing.assert_allclose(bf.Normal(variance=variances).precision(field), 1 / variances)
    matrix = np.diag(variances) + 0.1
    np.testing.assert_allclose(bf.Normal(covariance=matrix).precision(field) @ matrix, np.eye(8), atol=1e-12)
    np.testing.assert_array_equal(bf.Normal(variance=1, mean=0.5).location(field), [0.5] * 8)


def test_potts_with_states_of_their_own():
    field = bf.potts(
        3, [(0, 1), (1, 2)], [["a", "b"], [0, 1, 2], ["x", "y", "z"]], interaction="table", names=list("ABC")
    )
    assert field.parameter_names[:6] == ["A=b", "B=1", "B=2", "C=y", "C=z", "A=b,B=1"]
    assert field.n_parameters == 5 + 2 + 4
    same = bf.RandomField(
        {"A": ["a", "b"], "B": [0, 1, 2], "C": ["x", "y", "z"]},
        [bf.Factor(f.variables, f.features) for f in field.factors],
    )
    parameters = np.random.default_rng(0).normal(size=field.n_parameters)
    assert bf.infer(field, parameters, bf.Enumeration()).log_z == pytest.approx(
        bf.infer(same, parameters, bf.Enumeration()).log_z, abs=1e-12
    )
    with pytest.raises(bf.InvalidInput, match='need interaction="table"'):
        bf.potts(2, [(0, 1)], [["a", "b"], [0, 1, 2]])


def test_relabelled_states():
    field = bf.pairwise(2, [(0, 1)], (-1, 1)).relabelled([["no", "yes"], [0, 1]])
    plain = bf.pairwise(2, [(0, 1)], (-1, 1))
    assert field.states == [("no", "yes"), (0, 1)]
    assert bf.infer(field, [0.1, 0.2, 0.5]).log_z == bf.infer(plain, [0.1, 0.2, 0.5]).log_z
    with pytest.raises(bf.InvalidInput, match="has 2 states; got 3"):
        plain.relabelled([[0, 1, 2], [0, 1]])
