"""Judges of samples, against their definitions."""

import warnings

import numpy as np
import pytest

import bayesfield as bf
from bayesfield import diagnostics
from bayesfield.diagnostics import cramer_von_mises, split_r_hat


def test_cvm_is_the_sum_of_squared_differences_of_distribution_functions():
    a, b = np.array([[0.0], [2.0], [5.0]]), np.array([[1.0], [2.0]])
    points = [0, 2, 5, 1, 2]
    wanted = sum((np.mean(a <= z) - np.mean(b <= z)) ** 2 for z in points)
    assert cramer_von_mises(a, b)[0] == pytest.approx(wanted)


def test_cvm_floor_and_shift():
    """Two exact sets score 2/3 on average; a shift of δ sd adds 0.184 n δ². 400 columns: within 5 se (0.6 each)."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 2000, 400))
    assert cramer_von_mises(a, b).mean() == pytest.approx(2 / 3, abs=5 * 0.6 / 20)
    shifted = cramer_von_mises(a, b + 0.2).mean() - cramer_von_mises(a, b).mean()
    assert shifted == pytest.approx(0.184 * 2000 * 0.04, rel=0.1)


def test_cvm_refuses_sets_of_different_parameters():
    with pytest.raises(bf.InvalidInput, match="3 and 4 columns"):
        cramer_von_mises(np.zeros((5, 3)), np.zeros((5, 4)))


def test_r_hat_is_near_one_for_equal_chains_and_not_for_others():
    rng = np.random.default_rng(1)
    chains = rng.normal(size=(4, 1000, 3))
    np.testing.assert_allclose(split_r_hat(chains), 1.0, atol=0.01)
    chains[0, :, 1] += 3.0
    chains[:, 500:, 2] += 3.0
    assert (split_r_hat(chains)[1:] > 1.3).all()


def autoregressive(m, n, size, phi, seed=0):
    """Chains of x_t = φ x_{t−1} + noise, begun in their stationary distribution."""
    rng = np.random.default_rng(seed)
    x = np.empty((m, n, size))
    x[:, 0] = rng.normal(size=(m, size)) / np.sqrt(1 - phi**2)
    for t in range(1, n):
        x[:, t] = phi * x[:, t - 1] + rng.normal(size=(m, size))
    return x


@pytest.mark.parametrize(
    ("m", "n", "phi"), [(4, 1000, 0.9), (3, 501, 0.0), (2, 200, -0.5), (5, 101, 0.5), (1, 300, 0.3)]
)
def test_agrees_with_arviz(m, n, phi):
    """Skewed and heavy-tailed too. The last pairs of the autocorrelation sum are cut alike but for rare ties."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arviz = pytest.importorskip("arviz")
    x = autoregressive(m, n, 3, phi)
    x[..., 1] = np.exp(x[..., 1])
    x[..., 2] = x[..., 2] ** 3
    data = arviz.convert_to_dataset({"x": x})
    for method, ours in (
        ("bulk", diagnostics.bulk_size),
        ("tail", diagnostics.tail_size),
        ("mean", diagnostics.effective_size),
    ):
        np.testing.assert_allclose(ours(x), arviz.ess(data, method=method)["x"].values, rtol=2e-3)
    if m > 1:
        np.testing.assert_allclose(diagnostics.r_hat(x), arviz.rhat(data)["x"].values, rtol=1e-10)
        np.testing.assert_allclose(split_r_hat(x), arviz.rhat(data, method="split")["x"].values, rtol=1e-10)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9, -0.5])
def test_autocorrelation_time_of_an_autoregression(phi):
    """(1 + φ)/(1 − φ). Means of 20 estimates from 4 chains of 20,000: within 5 %, some eight errors."""
    found = diagnostics.autocorrelation_time(autoregressive(4, 20_000, 20, phi))
    assert found.mean() == pytest.approx((1 + phi) / (1 - phi), rel=0.05)


def test_thinning_leaves_independent_draws():
    chains = autoregressive(4, 20_000, 3, 0.9)
    thin = diagnostics.thinned(chains)
    assert 19 <= chains.shape[1] // thin.shape[1] <= 24
    assert diagnostics.autocorrelation_time(thin).max() < 1.5
    np.testing.assert_array_equal(diagnostics.thinned(chains, 100), chains[:, 99::100])


def test_mpsrf_by_its_definition_and_as_a_bound():
    """Brooks & Gelman (1998): the largest R of any linear combination; so at least that of any parameter."""
    rng = np.random.default_rng(2)
    chains = rng.normal(size=(5, 400, 3)) + 0.2 * rng.normal(size=(5, 1, 3))
    m, n, _ = chains.shape
    W = np.mean([np.cov(c, rowvar=False) for c in chains], axis=0)
    B_over_n = np.cov(chains.mean(axis=1), rowvar=False)
    largest = np.linalg.eigvals(np.linalg.solve(W, B_over_n)).real.max()
    found = diagnostics.multivariate_r_hat(chains)
    assert found == pytest.approx((n - 1) / n + (m + 1) / m * largest)
    single = (n - 1) / n + (m + 1) / m * np.diag(B_over_n) / np.diag(W)
    assert found >= single.max()
    assert diagnostics.multivariate_r_hat(rng.normal(size=(5, 2000, 3))) < 1.02


def test_judges_say_when_they_cannot_tell():
    assert diagnostics.multivariate_r_hat(np.zeros((1, 10, 2))) == np.inf
    assert diagnostics.multivariate_r_hat(np.zeros((3, 10, 2))) == np.inf
    assert np.isnan(diagnostics.autocorrelation_time(np.ones((2, 10, 1)))[0])
    with pytest.raises(bf.InvalidInput, match="chain, draw, parameter"):
        diagnostics.r_hat(np.zeros((10, 2)))
