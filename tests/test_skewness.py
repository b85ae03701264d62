"""Skewed marginals: the family against its own moments, and the posterior's skewness against quadrature and HMC."""

import numpy as np
import pytest
from scipy import integrate, stats

import bayesfield as bf
from bayesfield.correction.cumulants import probability_below, to_skewed
from bayesfield.diagnostics import cramer_von_mises
from bayesfield.learning.phases.cases import field_objective

from reference_hmc import hmc


@pytest.mark.parametrize("skewness", [-2.0, -0.7, -0.01, 0.0, 1e-5, 0.3, 1.5])
def test_family_has_the_moments_it_should(skewness):
    shape = np.array([skewness])

    def moment(k):
        return integrate.quad(lambda z: to_skewed(np.array([z]), shape)[0] ** k * stats.norm.pdf(z), -9, 9)[0]

    assert moment(1) == pytest.approx(0, abs=1e-6)
    assert moment(2) == pytest.approx(1, abs=1e-4)
    assert moment(3) == pytest.approx(skewness, abs=2e-2 if abs(skewness) > 1 else 1e-3)
    z = np.linspace(-4, 4, 81)
    x = np.array([to_skewed(np.array([v]), shape)[0] for v in z])
    assert (np.diff(x) > 0).all()
    below = np.array([probability_below(np.array([v]), shape)[0] for v in x])
    np.testing.assert_allclose(below, stats.norm.cdf(z), atol=1e-9)
    assert probability_below(np.array([-50.0]), shape)[0] < 1e-6


def skewed_grid(n):
    field = bf.grid(3, 3)
    rng = np.random.default_rng(n)
    return field, bf.sample(field, np.concatenate([np.full(9, 1.0), np.full(12, 0.2)]), n, rng), rng


@pytest.mark.parametrize("engine", ["exact", "kikuchi", "sampled"])
def test_against_hmc(engine):
    """Nearly saturated data, N = 300: better than Gaussian marginals with the same mean and sd."""
    field, X, rng = skewed_grid(300)
    prior = bf.Normal(variance=1.0)
    posterior = bf.fit(field, X, prior, engine)
    plain = bf.fit(field, X, prior, "exact", correction="none")
    draws = hmc(field_objective(field, X, prior, bf.Exact()), plain.mean, plain.precision, 8000, rng)[0]
    true = stats.skew(draws)
    assert np.corrcoef(posterior.skewness, true)[0, 1] > 0.9
    assert np.abs(posterior.skewness - true).max() < 0.35
    assert posterior.record.correction.skewness == pytest.approx(np.abs(posterior.skewness).max())
    gaussian = bf.Posterior(field, posterior.mean, posterior.form, posterior.record)
    skewed, symmetric = (cramer_von_mises(draws, p.sample(8000, 1)).sum() for p in (posterior, gaussian))
    assert skewed < 0.9 * symmetric
    assert 0.92 < np.median(posterior.sd / draws.std(0)) < 1.05
    summary = posterior.summary(0.9)
    np.testing.assert_allclose(summary["lower"], np.quantile(draws, 0.05, axis=0), atol=0.3 * posterior.sd.max())
    np.testing.assert_allclose(summary["p_positive"], (draws > 0).mean(0), atol=0.03)
    np.testing.assert_allclose(summary["p_positive"], (posterior.sample(20_000, 2) > 0).mean(0), atol=0.02)


def test_plain_laplace_is_gaussian():
    field, X, _ = skewed_grid(100)
    plain = bf.fit(field, X, correction="none")
    assert not plain.skewness.any()
    table = plain.summary(0.95)
    np.testing.assert_allclose(table["upper"] - plain.mean, plain.mean - table["lower"], rtol=1e-12)
    assert plain.record.correction.skewness == 0.0
