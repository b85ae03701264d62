"""Tree-reweighted messages: a bound that is convex, and contrastive free energies that have an optimum."""

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.graph.compiled import compiled
from bayesfield.inference.messages.reweighted import Reweighted

PRIOR = bf.Normal(variance=0.25)
ROWS = [tuple(e) for e in bf.grid_edges(3, 3).tolist()] + [(i, 9 + i // 3) for i in range(9)]
FIELDS = {
    "rows": lambda: bf.boltzmann(9, 3, (-1, 1), edges=ROWS),
    "machine": lambda: bf.boltzmann(9, 3, (-1, 1), edges=[(i, 9 + h) for i in range(9) for h in range(3)]),
    "grid": lambda: bf.grid(3, 4, (0, 1, 2)),
    "dense": lambda: bf.boltzmann(4, 3),
}


def parameters_of(field, seed=0, scale=0.7):
    return scale * np.random.default_rng(seed).normal(size=field.n_parameters)


@pytest.mark.parametrize("name", FIELDS)
def test_a_bound_with_right_derivatives(name):
    """log Z above the exact one; its gradient the beliefs, its curvature the response; convex between points."""
    field = FIELDS[name]()
    known, parameters = compiled(field), parameters_of(field)

    def at(where):
        found = Reweighted().infer(known.graph, known.design.potentials(where))
        assert found.status.converged
        return found

    here = at(parameters)
    assert here.log_z > bf.infer(field, parameters, bf.Exact()).log_z
    mean, step = known.design.expectations(here.tables), 1e-5
    direction = np.random.default_rng(1).normal(size=len(parameters))
    up, down = at(parameters + step * direction), at(parameters - step * direction)
    assert (up.log_z - down.log_z) / (2 * step) == pytest.approx(float(mean @ direction), rel=1e-6, abs=1e-7)
    moved = known.design.expectations(up.tables - down.tables) / (2 * step)
    response = Reweighted().response(known.graph, known.design, known.design.potentials(parameters), here)
    np.testing.assert_allclose(response.product(direction), moved, atol=1e-5)
    assert np.linalg.eigvalsh(response.covariance()).min() > -1e-9
    other = parameters_of(field, 5, 1.5)
    assert at(0.5 * (parameters + other)).log_z <= 0.5 * (here.log_z + at(other).log_z) + 1e-9


def test_exact_on_trees_and_bethe_at_one():
    for field in (bf.chain(6), bf.boltzmann(5, 1, edges=[(i, 5) for i in range(5)])):
        parameters = parameters_of(field)
        found, wanted = (bf.infer(field, parameters, e) for e in (Reweighted(), bf.Exact()))
        assert found.log_z == pytest.approx(wanted.log_z, abs=1e-9)
        np.testing.assert_allclose(found.marginals.tables, wanted.marginals.tables, atol=1e-9)
    field = bf.grid(3, 3)
    parameters = parameters_of(field, scale=0.3)
    found, wanted = (bf.infer(field, parameters, e) for e in (Reweighted(share=1.0), bf.Bethe()))
    assert found.log_z == pytest.approx(wanted.log_z, abs=1e-8)


def test_share_of_forests():
    """Of a complete graph n / 2 forests of n − 1 edges cover all n (n − 1) / 2: 2 / n. Of a loop (n − 1) / n."""
    for field, wanted in ((bf.boltzmann(4, 2), 2 / 6), (bf.pairwise(7, [(i, (i + 1) % 7) for i in range(7)]), 6 / 7)):
        assert Reweighted().share_of(compiled(field).graph) == pytest.approx(wanted, abs=0.005)


@pytest.mark.parametrize("name", ["rows", "machine"])
def test_contrastive_free_energies_have_an_optimum(name):
    """Five models each, of which Bethe has an optimum for half or for none."""
    field = FIELDS[name]()
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = bf.sample(field, 0.5 * rng.normal(size=field.n_parameters), 200, rng)[:, :9]
        posterior = bf.fit(field, X, PRIOR, Reweighted(), correction="none", starts=2)  # FitWarning is an error here
        assert posterior.record.status.converged
        assert np.linalg.eigvalsh(posterior.precision).min() > 0


def test_what_a_share_is():
    for wrong in (0.0, 1.5):
        with pytest.raises(bf.InvalidInput, match="share"):
            Reweighted(share=wrong)
