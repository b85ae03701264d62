"""Corrections of the Laplace posterior, against quadrature, HMC and one another."""

import numpy as np
import pytest
from scipy import linalg

import bayesfield as bf
from bayesfield.diagnostics import cramer_von_mises
from bayesfield.learning import mrf_objective
from bayesfield.posterior.correction import _orthogonal_draws, variational

from reference_hmc import hmc


def one_parameter(correction):
    field = bf.RandomField({"x": (0, 1)}, [bf.Factor("x", {"x": [0, 1]})])
    return bf.fit(field, np.ones((5, 1)), bf.Normal(variance=4.0), correction=correction)


def test_against_quadrature():
    """One skewed parameter: five ones out of five."""
    grid = np.linspace(-10, 15, 5001)
    weight = np.exp(-5 * np.log1p(np.exp(-grid)) - grid**2 / 8)
    weight /= weight.sum()
    mean = weight @ grid
    sd = np.sqrt(weight @ (grid - mean) ** 2)
    plain, shifted, refined = (one_parameter(c) for c in ("none", "mean", "variational"))
    assert abs(plain.mean[0] - mean) > 0.3
    assert shifted.mean[0] == pytest.approx(mean, abs=0.05)
    assert refined.mean[0] == pytest.approx(mean, abs=0.05)
    assert shifted.sd[0] == plain.sd[0]
    assert abs(refined.sd[0] - sd) < abs(plain.sd[0] - sd)
    np.testing.assert_array_equal(shifted.mode, plain.mean)


@pytest.mark.parametrize("engine", [bf.Exact(), bf.Kikuchi()], ids=repr)
@pytest.mark.parametrize("correction", ["mean", "variational"])
def test_score_falls_to_the_floor(engine, correction):
    """3×3, N = 20: CVM of 4,000 draws against HMC. Plain Laplace scores some 20 times the floor of 14."""
    field = bf.grid(3, 3)
    rng = np.random.default_rng(1)
    prior = bf.Normal(variance=0.25)
    X = bf.sample(field, 0.5 * rng.normal(size=21), 20, rng)
    plain = bf.fit(field, X, prior, bf.Exact())
    draws = hmc(mrf_objective(field, X, prior, bf.Exact()), plain.mean, plain.precision, 4000, rng)[0]
    fitted = bf.fit(field, X, prior, engine, correction=correction)
    before, after = (cramer_von_mises(draws, p.sample(4000, rng)).sum() for p in (plain, fitted))
    assert after < before / 4
    assert after < 5 * 14
    record = fitted.record.correction
    assert record.kind == correction
    assert record.settled
    assert record.error < 0.03
    assert 0.02 < record.shift[0] < 0.5
    assert correction in str(fitted.record)


def test_a_gaussian_is_left_alone():
    """A quadratic objective: nothing to correct, in any number of dimensions."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    P, centre = root @ root.T + np.eye(6), rng.normal(size=6)

    def slope(x):
        return P @ (x - centre)

    m, precision, record = variational(slope, lambda x: (slope(x), P), centre, P, rng)
    np.testing.assert_allclose(m, centre, atol=1e-10)
    np.testing.assert_allclose(precision, P, rtol=1e-10)
    assert record.error < 1e-10
    assert record.settled


def test_draws_have_exact_second_moments():
    z = _orthogonal_draws(100, np.random.default_rng(0))
    assert z.shape == (100, 100)
    assert np.trace(z.T @ z) / 100 == pytest.approx(100)
    np.testing.assert_allclose(linalg.norm(np.triu(z @ z.T, 1)), 0, atol=1e-9)
    few = _orthogonal_draws(3, np.random.default_rng(0))
    assert len(few) == 66
    assert np.mean(few**2) == pytest.approx(1)


def test_same_seed_same_posterior():
    field = bf.chain(4)
    X = bf.sample(field, np.full(7, 0.3), 30, 0)
    first, again, other = (bf.fit(field, X, correction="variational", rng=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.mean, again.mean)
    assert np.abs((first.mean - other.mean) / first.sd).max() < 0.1


def test_draws_that_fail_are_told():
    """Where the engine gives no answer too often, the Laplace posterior stands and the record says so."""
    m, precision, record = variational(lambda x: None, lambda x: None, np.zeros(3), np.eye(3), np.random.default_rng(0))
    np.testing.assert_array_equal(m, 0)
    np.testing.assert_array_equal(precision, np.eye(3))
    assert record.failed == 1.0
    assert "failed" in str(record)
    assert not record.settled


def test_auto_takes_what_is_affordable():
    field = bf.grid(3, 3)
    X = bf.sample(field, np.full(21, 0.1), 100, 0)
    kinds = {
        "exact": bf.fit(field, X, engine=bf.Exact(), correction="auto"),
        "bethe": bf.fit(field, X, engine=bf.Bethe(), correction="auto"),
        "BL-MP": bf.fit(field, X, engine=bf.Exact(), response=bf.Bethe(), correction="auto"),
    }
    assert {k: p.record.correction.kind for k, p in kinds.items()} == {
        "exact": "variational", "bethe": "none", "BL-MP": "none",
    }  # fmt: skip
    with pytest.raises(bf.InvalidInput, match="'skew'"):
        bf.fit(field, X, correction="skew")
