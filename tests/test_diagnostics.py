"""Judges of samples, against their definitions."""

import numpy as np
import pytest

import bayesfield as bf
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
