"""Corrections of the Laplace posterior, against quadrature, HMC and one another."""

import numpy as np
import pytest
from scipy import linalg

import bayesfield as bf
from bayesfield.correction.variational import Rate, orthogonal_draws, variational
from bayesfield.diagnostics import cramer_von_mises
from bayesfield.graph.compiled import compiled
from bayesfield.learning.objective import GaussianPrior
from bayesfield.learning.phases.cases import case_objective, field_objective
from bayesfield.learning.precision.dense import DensePrecision

from reference_hmc import hmc

PRIOR = bf.Normal(variance=0.25)


def skewed(correction, engine="auto"):
    """One skewed parameter: five ones out of five."""
    field = bf.RandomField({"x": (0, 1)}, [bf.Factor("x", {"x": [0, 1]})])
    return bf.fit(field, np.ones((5, 1)), bf.Normal(variance=4.0), engine, correction=correction)


def small_problem(n=20):
    field = bf.grid(3, 3)
    rng = np.random.default_rng(1)
    return field, bf.sample(field, 0.5 * rng.normal(size=21), n, rng)


def test_against_quadrature():
    grid = np.linspace(-10, 15, 5001)
    weight = np.exp(-5 * np.log1p(np.exp(-grid)) - grid**2 / 8)
    weight /= weight.sum()
    mean = weight @ grid
    sd = np.sqrt(weight @ (grid - mean) ** 2)
    plain, shifted, refined = (skewed(c) for c in ("none", "mean", "variational"))
    assert abs(plain.mean[0] - mean) > 0.3
    assert shifted.mean[0] == pytest.approx(mean, abs=0.05)
    assert refined.mean[0] == pytest.approx(mean, abs=0.05)
    assert shifted.sd[0] == plain.sd[0]
    assert abs(refined.sd[0] - sd) < abs(plain.sd[0] - sd)
    np.testing.assert_array_equal(shifted.mode, plain.mean)
    sampled = skewed("variational", bf.Sampled())
    assert sampled.mean[0] == pytest.approx(refined.mean[0], abs=0.05)
    assert sampled.sd[0] == pytest.approx(refined.sd[0], rel=0.05)


@pytest.mark.parametrize("engine", ["exact", "kikuchi", "sampled"])
@pytest.mark.parametrize("correction", ["mean", "variational"])
def test_score_falls_to_the_floor(engine, correction):
    """3×3, N = 20: CVM of 4,000 draws against HMC. Plain Laplace scores some 20 times the floor of 14."""
    field, X = small_problem()
    rng = np.random.default_rng(2)
    plain = bf.fit(field, X, PRIOR, "exact", correction="none")
    draws = hmc(field_objective(field, X, PRIOR, bf.Exact()), plain.mean, plain.precision, 4000, rng)[0]
    fitted = bf.fit(field, X, PRIOR, engine, correction=correction)
    before, after = (cramer_von_mises(draws, p.sample(4000, rng)).sum() for p in (plain, fitted))
    assert after < before / 4
    assert after < 5 * 14
    record = fitted.record.correction
    assert record.kind == correction
    assert record.settled
    assert record.error < 0.03
    assert 0.02 < record.shift[0] < 0.5
    assert correction in str(fitted.record)


@pytest.mark.parametrize("seed", [0, 1])
def test_sampled_steps_end_where_exact_ones_do(seed):
    """4×4 with fields of 1, where first steps overshoot: noise must not pass for that, and stop them short.

    Means 0.06 sd from those of the exact engine when it did, 0.02 now, and the record tells the error.
    """
    field, rng = bf.grid(4, 4), np.random.default_rng(seed)
    truth = np.concatenate([np.ones(16), np.full(24, 0.375)])
    X = bf.sample(field, truth, 1000, rng)
    exact, sampled = (
        bf.fit(field, X, bf.Normal(variance=1.0), engine, correction="variational", rng=seed)
        for engine in (bf.Exact(), bf.Sampled(seed=seed))
    )
    away = np.sqrt(np.mean(((sampled.mean - exact.mean) / exact.sd) ** 2))
    errors = [p.record.correction.error for p in (exact, sampled)]
    assert away < 1.5 * np.hypot(*errors)
    assert errors[1] < 0.035
    assert sampled.record.correction.settled


def test_noise_does_not_shorten_steps():
    noisy, overshooting = Rate(1.0), Rate(1.0)
    rng = np.random.default_rng(0)
    last = np.zeros(50)
    for _ in range(20):  # at rest but for noise: every step takes back the one before
        new = rng.normal(size=50)
        noisy.after(new - last, noise=1.0)
        overshooting.after(new - last)
        last = new
    assert noisy.value == 1.0
    assert overshooting.value < 0.3


@pytest.mark.parametrize("form", ["sparse", "matrix-free"])
def test_other_forms_find_the_same(form):
    """Fewer draws, and fewer curvatures: within 0.05 sd and 5 % of the dense form."""
    field, X = small_problem(100)
    dense, other = (
        bf.fit(field, X, PRIOR, "kikuchi", correction="variational", form=f, rng=3) for f in ("dense", form)
    )
    assert (dense.record.form, other.record.form) == ("dense", "matrix-free")
    assert other.record.correction.settled
    assert np.sqrt(np.mean(((other.mean - dense.mean) / dense.sd) ** 2)) < 0.05
    np.testing.assert_allclose(other.sd, dense.sd, rtol=0.05 if form == "sparse" else 0.3)
    shifted, wanted = (bf.fit(field, X, PRIOR, "kikuchi", correction="mean", form=f) for f in (form, "dense"))
    error = shifted.record.correction.error
    assert 0 < error < 0.05
    assert np.sqrt(np.mean(((shifted.mean - wanted.mean) / dense.sd) ** 2)) < 3 * error


def test_a_gaussian_is_left_alone():
    """No data: the objective is the prior's, quadratic, and there is nothing to correct."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    P, centre = root @ root.T + np.eye(6), rng.normal(size=6)
    field = compiled(bf.pairwise(3, [(0, 1), (1, 2), (0, 2)], (-1, 1)))
    problem = case_objective(field, np.empty((0, 3), dtype=np.int64), GaussianPrior(centre, P), bf.Exact())
    m, precision, record, *_ = variational(problem, problem, centre, DensePrecision(P), rng)
    np.testing.assert_allclose(m, centre, atol=1e-10)
    np.testing.assert_allclose(precision.matrix(), P, rtol=1e-10)
    assert record.error < 1e-10
    assert record.settled


def test_draws_have_exact_second_moments():
    z = orthogonal_draws(100, 100, 1, np.random.default_rng(0))
    assert z.shape == (100, 100)
    assert np.trace(z.T @ z) / 100 == pytest.approx(100)
    np.testing.assert_allclose(linalg.norm(np.triu(z @ z.T, 1)), 0, atol=1e-9)
    few = orthogonal_draws(3, 3, 22, np.random.default_rng(0))
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
    field, X = small_problem()
    objective = field_objective(field, X, PRIOR, bf.Bethe(max_sweeps=1, max_direct=0))
    plain = bf.fit(field, X, PRIOR, "exact", correction="none")
    m, precision, record, *_ = variational(objective, objective, plain.mode, plain.form, np.random.default_rng(0))
    np.testing.assert_array_equal(m, plain.mode)
    assert precision is plain.form
    assert record.failed == 1.0
    assert "failed" in str(record)
    assert not record.settled


def test_auto_takes_what_is_affordable():
    field, X = small_problem(100)
    kinds = {
        "exact": bf.fit(field, X, engine=bf.Exact()),
        "chosen": bf.fit(field, X),
        "sampled": bf.fit(field, X, engine=bf.Sampled()),
        "bethe": bf.fit(field, X, engine=bf.Bethe()),
        "BL-MP": bf.fit(field, X, engine=bf.Exact(), response=bf.Bethe()),
        "no data": bf.fit(field, X[:0]),
    }
    assert {k: p.record.correction.kind for k, p in kinds.items()} == {
        "exact": "variational", "chosen": "variational", "sampled": "variational",
        "bethe": "none", "BL-MP": "none", "no data": "none",
    }  # fmt: skip
    assert "as in the paper" in str(kinds["BL-MP"].record.correction)
    np.testing.assert_array_equal(kinds["chosen"].mean, kinds["exact"].mean)
    cheaper = bf.fit(field, X, budget=0.1).record.correction
    assert cheaper.kind == "mean"
    assert "would take" in str(cheaper)
    assert bf.fit(field, X, budget=1e-6).record.correction.kind == "none"
    with pytest.raises(bf.InvalidInput, match="'skew'"):
        bf.fit(field, X, correction="skew")
