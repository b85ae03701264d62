"""The posterior precision in its three forms: same answers as the dense one."""

import itertools

import numpy as np
import pytest
from scipy import linalg

import bayesfield as bf
from bayesfield.learning.phases.cases import field_objective
from bayesfield.learning.precision.at import averaged, precision_at
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.learning.precision.matrix_free import MatrixFree
from bayesfield.learning.precision.sparse import SparsePrecision
from bayesfield.response.linear import BlockResponse, NotSparse
from bayesfield.response.local import LocalResponse


def problem(engine, form, prior=None):
    field = bf.grid(4, 5)
    rng = np.random.default_rng(0)
    X = bf.sample(field, 0.4 * rng.normal(size=field.n_parameters), 200, rng)
    objective = field_objective(field, X, prior or bf.Normal(variance=0.5), engine)
    return precision_at(objective, objective.at(0.2 * rng.normal(size=field.n_parameters)), form)


FORMS = [("bethe", "sparse"), ("kikuchi", "sparse"), ("bethe", "matrix-free"), ("exact", "matrix-free")]


@pytest.mark.parametrize(("engine", "form"), FORMS)
def test_forms_agree(engine, form):
    engine = {"bethe": bf.Bethe(), "kikuchi": bf.Kikuchi(), "exact": bf.Exact()}[engine]
    dense, other = problem(engine, "dense"), problem(engine, form)
    assert isinstance(dense, DensePrecision)
    assert isinstance(other, SparsePrecision if form == "sparse" else MatrixFree)
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(dense.size, 3))
    scale = np.abs(dense.matrix()).max()
    np.testing.assert_allclose(other.matrix(), dense.matrix(), atol=1e-10 * scale)
    np.testing.assert_allclose(other.solve(vectors), dense.solve(vectors), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(other.solve(vectors[:, 0]), dense.solve(vectors[:, 0]), rtol=1e-6, atol=1e-9)
    if form == "sparse":
        np.testing.assert_allclose(other.sd, dense.sd, rtol=1e-9)
        assert other.sd_error == 0.0
    else:  # probed: within 4 of its own standard errors, all but one parameter in a hundred or so
        gap = np.abs(other.sd / dense.sd - 1)
        assert 0.0 < other.sd_error < 0.1
        assert np.mean(gap > 4 * other.sd_error) < 0.05


@pytest.mark.parametrize(("engine", "form"), FORMS[:3])
def test_draws_have_the_right_covariance(engine, form):
    """P⁻ᐟ² is a square root: applied to all unit vectors it gives P⁻¹ itself, with no sampling error."""
    engine = {"bethe": bf.Bethe(), "kikuchi": bf.Kikuchi()}[engine]
    dense, other = problem(engine, "dense"), problem(engine, form)
    for precision in (dense, other):
        root = precision.draws(np.eye(dense.size))
        np.testing.assert_allclose(root @ root.T, linalg.inv(dense.matrix()), atol=1e-5 * dense.sd.max() ** 2)


class UnitVectors:
    """In place of a generator: its k-th call for noise gets what part of a unit vector it asks for."""

    def __init__(self, which):
        self.left = which

    def standard_normal(self, size):
        out = np.zeros(size)
        if 0 <= self.left < size:
            out[self.left] = 1.0
        self.left -= size
        return out


@pytest.mark.parametrize("engine", ["bethe", "kikuchi"])
def test_samples_by_conditioning_have_the_right_covariance(engine):
    """A sample is a linear map T of standard normal numbers, and T Tᵀ = P⁻¹ with no sampling error."""
    engine = {"bethe": bf.Bethe(), "kikuchi": bf.Kikuchi()}[engine]
    dense, other = problem(engine, "dense"), problem(engine, "sparse")
    count = dense.size + other.response.slopes.shape[1]
    T = np.column_stack([other.sample(UnitVectors(k), 1)[:, 0] for k in range(count)])
    np.testing.assert_allclose(T @ T.T, linalg.inv(dense.matrix()), atol=1e-10 * dense.sd.max() ** 2)


def test_a_mean_over_points_is_preconditioned_by_one():
    field = bf.grid(4, 4)
    rng = np.random.default_rng(0)
    X = bf.sample(field, 0.4 * rng.normal(size=field.n_parameters), 100, rng)
    objective = field_objective(field, X, bf.Normal(variance=0.5), bf.Kikuchi())
    found = {}
    for form in ("dense", "sparse"):
        points = [objective.at(0.3 * np.random.default_rng(seed).normal(size=40)) for seed in range(3)]
        if form == "dense":
            found[form] = DensePrecision(sum(objective.curvature(p) for p in points) / 3)
        else:
            found[form] = averaged(objective, form, [objective.response(p) for p in points], points)
    assert isinstance(found["sparse"].near, SparsePrecision)
    right = rng.normal(size=40)
    np.testing.assert_allclose(found["sparse"].solve(right), found["dense"].solve(right), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found["sparse"].sd, found["dense"].sd, rtol=0.15)
    assert found["sparse"].sd_error < 0.04


def test_full_priors_and_exact_engines_are_not_sparse():
    full = bf.Normal(covariance=np.eye(51) + 0.1)
    with pytest.raises(NotSparse, match="diagonal prior"):
        problem(bf.Bethe(), "sparse", full)
    with pytest.raises(NotSparse, match="linear response"):
        problem(bf.Exact(), "sparse")
    vectors = np.random.default_rng(0).normal(size=(51, 2))
    dense, free = (problem(bf.Bethe(), form, full) for form in ("dense", "matrix-free"))
    np.testing.assert_allclose(free.solve(vectors), dense.solve(vectors), rtol=1e-6, atol=1e-9)


def test_large_fits_are_sparse_by_themselves():
    """2,296 parameters: same posterior as dense."""
    field = bf.grid(28, 28)
    rng = np.random.default_rng(0)
    X = bf.sample(field, 0.3 * rng.normal(size=field.n_parameters), 300, rng, engine=bf.Sampled())
    sparse, dense = (bf.fit(field, X, engine="bethe", form=form) for form in ("auto", "dense"))
    assert (sparse.record.form, dense.record.form) == ("sparse", "dense")
    np.testing.assert_allclose(sparse.mean, dense.mean, atol=1e-6)
    np.testing.assert_allclose(sparse.sd, dense.sd, rtol=1e-6)
    assert sparse.sample(3, 0).shape == (3, field.n_parameters)


def test_many_parameters_on_one_factor_are_matrix_free():
    shape = (16, 16)
    features = {f"w{a},{b}": np.eye(256)[16 * a + b].reshape(shape) for a, b in itertools.product(range(16), repeat=2)}
    field = bf.RandomField({"a": 16, "b": 16}, [bf.Factor(("a", "b"), features)])
    X = np.random.default_rng(0).integers(0, 16, size=(50, 2))
    with pytest.raises(bf.InvalidInput, match="share factors directly"):
        bf.fit(field, X, engine="bethe", form="sparse")


@pytest.mark.parametrize(
    ("field", "engine"),
    [
        (bf.grid(24, 25), "bethe"),
        (bf.grid(24, 25), "kikuchi"),
        (bf.potts(400, bf.grid_edges(20, 20), 3), "bethe"),
        (bf.chain(700), "bethe"),
        (bf.pairwise(700, [(i, i + 1) for i in range(0, 700, 2)], (-1, 1)), "bethe"),  # in many pieces
    ],
    ids=["grid", "kikuchi", "potts", "chain", "pieces"],
)
def test_widths_by_the_selected_inverse(field, engine, monkeypatch):
    """Where the factor is sparse: the widths are those that a solve for each parameter gives."""
    monkeypatch.setattr("bayesfield.response.factors.cholesky._DENSE", 0)
    monkeypatch.setattr("bayesfield.response.local._DENSE", 0)
    rng = np.random.default_rng(2)
    parameters = 0.3 * rng.normal(size=field.n_parameters)
    parameters[rng.random(len(parameters)) < 0.2] = 0.0  # couplings that are not there
    form = bf.laplace(field, parameters, 500, bf.Normal(variance=0.5), engine, form="sparse").form
    assert isinstance(form.response, BlockResponse if engine == "kikuchi" else LocalResponse)
    np.testing.assert_allclose(form.sd**2, np.diag(form.solve(np.eye(form.size))), rtol=1e-8)


def test_entries_that_underflow():
    """Weak couplings over a long way: the factor has entries below 1e-308."""
    field = bf.grid(60, 60)
    form = bf.laplace(
        field, np.full(field.n_parameters, 0.05), 1000, bf.Normal(variance=0.5), "bethe", form="sparse"
    ).form
    some = np.random.default_rng(3).integers(0, form.size, 20)
    unit = np.zeros((form.size, 20))
    unit[some, np.arange(20)] = 1.0
    wanted = np.sqrt(form.solve(unit)[some, np.arange(20)])
    np.testing.assert_allclose(form.sd[some], wanted, rtol=1e-8)
