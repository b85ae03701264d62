"""Second derivatives of the means by third moments, against differences of the engine's own means."""

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.graph.compiled import compiled
from bayesfield.learning.phases.cases import field_objective
from bayesfield.response.linear import CurvedResponse

RNG = np.random.default_rng(0)


def tables_of_three():
    """Factors over three variables, several parameters each, and one that is tied across tables."""
    shape = (2, 3, 2)
    return bf.RandomField(
        {"a": 2, "b": 3, "c": 2, "d": 3},
        [
            bf.Factor(("a", "b", "c"), {"u": RNG.normal(size=shape), "v": RNG.normal(size=shape)}),
            bf.Factor(("c", "d"), {"w": RNG.normal(size=(2, 3)), "v": RNG.normal(size=(2, 3))}),
            bf.Factor(("a", "d"), {"x": RNG.normal(size=(2, 3))}),
            bf.Factor(("b",), {"y": np.array([0.0, 1.0, 2.0])}),
        ],
    )


FIELDS = {
    "grid": bf.grid(3, 4),
    "tied grid": bf.grid(3, 3, tied=True),
    "potts": bf.potts(6, bf.grid_edges(2, 3), 3),
    "chain": bf.chain(5),
    "three": tables_of_three(),
}


@pytest.mark.parametrize("engine", [bf.Bethe(), bf.Kikuchi(), bf.Kikuchi("factors")], ids=repr)
@pytest.mark.parametrize("name", FIELDS)
def test_against_differences(name, engine):
    field = FIELDS[name]
    X = bf.sample(field, np.zeros(field.n_parameters), 3, 0)
    objective = field_objective(field, X, bf.Normal(variance=1.0), engine)
    rng = np.random.default_rng(1)
    here, t = 0.4 * rng.normal(size=field.n_parameters), rng.normal(size=field.n_parameters)
    found = objective.second_derivatives(here, np.column_stack([t, -2.0 * t]))
    h = 1e-3
    up, middle, down = (objective.at(here + k * h * t).gradient for k in (1, 0, -1))
    wanted = (up - 2.0 * middle + down) / h**2
    np.testing.assert_allclose(found[:, 0], wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())
    np.testing.assert_allclose(found[:, 1], 4.0 * found[:, 0], rtol=1e-10, atol=1e-12)


def test_the_mean_shift_is_near_the_exact_one():
    """By differences of exact means, in posterior sd: Kikuchi's own shift is an approximation, and off by less."""
    field = bf.grid(3, 3)
    X = bf.sample(field, 0.5 * np.random.default_rng(2).normal(size=field.n_parameters), 100, 0)
    exact = bf.fit(field, X, engine="exact", correction="mean")
    found = bf.fit(field, X, engine="kikuchi", correction="mean")
    gap = np.abs((found.mean - found.mode) - (exact.mean - exact.mode)) / exact.sd
    assert gap.max() < 0.15
    np.testing.assert_allclose(found.skewness, exact.skewness, atol=0.1)


def test_what_cannot_move_freely_has_none():
    """A hard constraint leaves the general way, which has no second derivatives: differences step in."""
    locked = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    free = {"v": np.array([[1.0, 0.0], [0.0, 1.0]])}
    factors = [
        bf.Factor(("a", "b"), {"w": np.array([[1.0, 0.0], [0.0, -1.0]])}, log_table=locked),
        bf.Factor(("b", "c"), free),
        bf.Factor(("a", "c"), free),
    ]
    known = compiled(bf.RandomField({"a": 2, "b": 2, "c": 2}, factors))
    theta, engine = known.design.potentials(np.array([0.2, 0.1])), bf.Kikuchi("factors")
    response = engine.response(known.graph, known.design, theta, engine.infer(known.graph, theta))
    assert not isinstance(response, CurvedResponse)
    assert response.second_derivatives(np.ones((2, 1))) is None
