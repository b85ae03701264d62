"""Fits to many data sets: those that ``bf.fit`` makes one by one."""

import numpy as np
import pandas as pd
import pytest

import bayesfield as bf

FIELD = bf.grid(3, 3)


def data(count=8, cases=60):
    rng = np.random.default_rng(0)
    return [bf.sample(FIELD, 0.4 * rng.normal(size=FIELD.n_parameters), cases, k) for k in range(count)]


def test_the_same_as_one_by_one():
    sets = data()
    found = bf.fit_many(FIELD, sets, bf.Normal(variance=0.5), "exact", correction="none", tolerance=1e-9, jobs=1)
    for k, X in enumerate(sets):
        wanted = bf.fit(FIELD, X, bf.Normal(variance=0.5), "exact", correction="none", tolerance=1e-9)
        np.testing.assert_allclose(found.mean[k], wanted.mean, atol=1e-9)
        np.testing.assert_allclose(found.sd[k], wanted.sd, rtol=1e-8)
        assert found.log_likelihood[k] == pytest.approx(wanted.record.log_likelihood)
    assert found.converged.all()
    assert not found.failures
    assert found.posteriors == []
    assert repr(found) == "Fits(8 data sets, 21 parameters, 8 converged)"


def test_on_processes_the_same_numbers():
    sets = data(5)
    alone = bf.fit_many(FIELD, sets, engine="bethe", jobs=1, keep=True)
    shared = bf.fit_many(FIELD, iter(sets), engine="bethe", jobs=2, keep=True)
    np.testing.assert_array_equal(shared.mean, alone.mean)
    np.testing.assert_array_equal(shared.sd, alone.sd)
    assert [p.record.n_cases for p in shared.posteriors] == [60] * 5


def test_a_fit_that_fails_leaves_a_hole():
    sets = data(4)
    sets[2] = np.full((10, 9), 7)
    done = []
    found = bf.fit_many(FIELD, sets, engine="exact", correction="none", watch=lambda k, n: done.append((k, n)))
    assert np.isnan(found.mean[2]).all()
    assert np.isfinite(found.mean[[0, 1, 3]]).all()
    assert list(found.failures) == [2]
    assert "not one of its states" in found.failures[2]
    assert done[0] == (1, 4)
    assert done[-1] == (4, 4)
    assert found.converged.tolist() == [True, True, False, True]
    assert np.isfinite(found.summary().to_numpy()).all()


def test_bootstrap_spread_is_the_posterior_width():
    """With a wide prior the spread of bootstrap modes is the Laplace width to first order: ratio 1 ± 0.15 in the mean.

    200 replicates give each ratio an error of 0.05, and the mean of 21 one below 0.02; the rest is curvature.
    """
    X = data(1, 2000)[0]
    found = bf.fit_many(FIELD, bf.Bootstrap(X, 200), bf.Normal(variance=100.0), "exact", correction="none")
    assert abs(found.summary()["ratio"].mean() - 1.0) < 0.15


def test_replicates_are_drawn_by_their_own_seeds():
    X = pd.DataFrame({"a": [0, 1, 1, 0], "b": [1, 1, 0, 0]})
    first, again, other = bf.Bootstrap(X, 3), bf.Bootstrap(X, 9), bf.Bootstrap(X, 3, seed=1)
    pd.testing.assert_frame_equal(first[2], again[2])
    assert not all(first[k].equals(other[k]) for k in range(3))
    assert len(list(first)) == 3


BAD = {
    "none": (lambda: bf.fit_many(FIELD, []), "no data sets"),
    "replicates": (lambda: bf.Bootstrap(np.ones((2, 2)), 0), "at least one"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    call, message = BAD[name]
    with pytest.raises(bf.InvalidInput, match=message):
        call()
