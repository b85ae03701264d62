"""Profiled marginals, against exact integration, another form of the precision, and draws."""

import itertools

import numpy as np
import pytest
from scipy import integrate, special

import bayesfield as bf
from bayesfield.correction import profile
from bayesfield.correction.cumulants import Corrected, CorrectionRecord, SkewedMarginals
from bayesfield.correction.marginals import ProfiledMarginals
from bayesfield.learning.phases.cases import field_objective

from tolerances import ALGEBRA

# What a profile of a small field is to reach: mean (sd), sd (relative), P(λ > 0)
MEAN, SD, SIGN = 0.05, 0.05, 0.01


def one_spin():
    return bf.RandomField({"x": (0, 1)}, [bf.Factor("x", {"x": [0, 1]})])


def by_integration(field, X, variance, low, high, points):
    """Mean, sd and P(λ > 0) of every parameter, on a lattice of points."""
    axes = [np.linspace(a, b, points) for a, b in zip(low, high, strict=True)]
    at = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    states = field.features(list(itertools.product(*field.states)))
    log_z = special.logsumexp(at @ states.T, axis=1)
    log_p = at @ field.features(X).sum(axis=0) - len(X) * log_z - (at**2).sum(axis=1) / (2 * variance)
    p = special.softmax(log_p)
    mean = p @ at
    joint, positive = p.reshape((points,) * len(axes)), []
    for k, axis in enumerate(axes):
        below = np.cumsum(joint.sum(axis=tuple(j for j in range(len(axes)) if j != k)))
        positive.append(1.0 - np.interp(0.0, axis + (axis[1] - axis[0]) / 2, below))
    return mean, np.sqrt(p @ (at - mean) ** 2), np.array(positive)


def assert_as_integrated(posterior, field, X, variance, points):
    marginals = posterior.marginals
    size = len(posterior.mean)
    low, high = (marginals.from_normal(np.full(size, z)) for z in (-5.0, 5.0))
    reach = 0.3 * (high - low)
    mean, sd, positive = by_integration(field, X, variance, low - reach, high + reach, points)
    np.testing.assert_array_less(np.abs(posterior.mean - mean) / sd, MEAN)
    np.testing.assert_allclose(posterior.sd, sd, rtol=SD)
    np.testing.assert_allclose(posterior.summary()["p_positive"], positive, atol=SIGN)


@pytest.mark.parametrize(("cases", "variance"), [(10, 100.0), (3, 1e4), (1, 1.0)])
def test_one_parameter_is_exact(cases, variance):
    """Ten times 0 under variance 100 is −9.76 ± 5.64; the best Gaussian says −9.19 ± 3.83."""

    def density(x):
        return np.exp(-cases * np.logaddexp(0.0, x) - x**2 / (2 * variance))

    sd = np.sqrt(variance)
    parts = [(-12 * sd, -10.0), (-10.0, 0.0), (0.0, min(12 * sd, 40.0 / cases))]
    total, first, second = (
        sum(integrate.quad(lambda x, p=power: x**p * density(x), *part, limit=200)[0] for part in parts)
        for power in range(3)
    )
    mean, width = first / total, np.sqrt(second / total - (first / total) ** 2)
    posterior = bf.fit(one_spin(), np.zeros((cases, 1)), bf.Normal(variance=variance), correction="profile")
    assert posterior.mean[0] == pytest.approx(mean, abs=1e-3 * width)
    assert posterior.sd[0] == pytest.approx(width, rel=1e-3)
    positive = integrate.quad(density, *parts[2])[0] / total
    assert posterior.summary()["p_positive"].iloc[0] == pytest.approx(positive, abs=1e-4)
    assert posterior.record.correction.kind == "profile"
    assert posterior.record.correction.settled
    assert "of x" in posterior.record.correction.reason
    assert posterior.certificate.verdict == "good"


@pytest.mark.parametrize("variance", [1.0, 10.0, 100.0])
def test_three_parameters(variance):
    """In these cases b is 1 whenever a is: nothing but the prior bounds the coupling."""
    field = bf.pairwise(2, [(0, 1)], names=["a", "b"])
    X = [[0, 0]] * 15 + [[0, 1]] * 10 + [[1, 1]] * 15
    posterior = bf.fit(field, X, bf.Normal(variance=variance), correction="profile")
    assert_as_integrated(posterior, field, X, variance, 120)


def test_few_cases():
    field = bf.pairwise(2, [(0, 1)], states=(-1, 1))
    X = [[1, 1]] * 5 + [[1, -1]] + [[-1, -1]] * 2
    posterior = bf.fit(field, X, bf.Normal(variance=100.0), correction="profile")
    assert_as_integrated(posterior, field, X, 100.0, 120)


def test_two_parameters():
    field, X = bf.pairwise(2, []), [[0, 0]] * 8 + [[0, 1]] * 2
    posterior = bf.fit(field, X, bf.Normal(variance=100.0), correction="profile")
    assert_as_integrated(posterior, field, X, 100.0, 1200)


def never_up(rows, columns, cases=200):
    """A grid in which one variable is never 1."""
    rng = np.random.default_rng(0)
    size = rows * columns
    X = np.where(rng.random((cases, size)) < rng.uniform(0.3, 0.7, size), 1, -1)
    X[:, columns + 1] = -1
    return bf.grid(rows, columns), X


def test_forms_agree():
    field, X = never_up(4, 4)
    options = {"prior": bf.Normal(variance=30.0), "engine": bf.Bethe(), "correction": "profile"}
    dense, sparse, free = (bf.fit(field, X, form=form, **options) for form in ("dense", "sparse", "matrix-free"))
    np.testing.assert_allclose(sparse.mean, dense.mean, atol=1e-6)
    np.testing.assert_allclose(sparse.sd, dense.sd, rtol=1e-6)
    worst = int(np.argmax(np.abs(dense.skewness)))
    assert free.mean[worst] == pytest.approx(dense.mean[worst], abs=1e-4)  # its mode by L-BFGS
    plain = bf.fit(field, X, bf.Normal(variance=30.0), bf.Bethe(), correction="none")
    assert dense.mean[worst] < plain.mean[worst] - plain.sd[worst]


def test_large_sparse_field():
    """The marginal of what is far from the borders hangs on its neighbourhood only: 16×16 and 8×8 around the same
    corner, with the same cases there, agree."""
    large, X = never_up(16, 16)
    columns = [16 * r + c for r in range(8) for c in range(8)]
    small = bf.grid(8, 8)
    found = [
        bf.fit(field, cases, bf.Normal(variance=30.0), bf.Bethe(), correction="profile", form="sparse")
        for field, cases in ((large, X), (small, X[:, columns]))
    ]
    big, little = (one.summary().loc["x[1,1]"] for one in found)
    assert big["mean"] == pytest.approx(little["mean"], abs=0.05 * little["sd"])
    assert big["sd"] == pytest.approx(little["sd"], rel=0.05)
    assert big["p_positive"] < 1e-3
    assert "x[1,1]" in found[0].record.correction.reason


def test_copula_stays():
    """Ranks of draws go with those of the Gaussian's draws, which they come from."""
    field = bf.pairwise(2, [(0, 1)], names=["a", "b"])
    X = [[0, 0]] * 15 + [[0, 1]] * 10 + [[1, 1]] * 15
    posterior = bf.fit(field, X, bf.Normal(variance=100.0), correction="profile")
    draws = posterior.sample(500, rng=1)
    gaussian = posterior.form.sample(np.random.default_rng(1), 500).T
    np.testing.assert_array_equal(np.argsort(draws, axis=0), np.argsort(gaussian, axis=0))
    # 500 draws: the mean within 4 standard errors, one false alarm in 5,000
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - posterior.mean) / posterior.sd, 4.0 / np.sqrt(500))


def test_tables_are_a_distribution():
    """A Gaussian as a table: quantiles, probabilities and densities of the Gaussian, and one the inverse of another."""
    x = np.linspace(-6.0, 6.0, 401)
    base = SkewedMarginals(np.array([5.0, 0.0]), np.ones(2), np.zeros(2))
    table = (-0.5 * (x**2 + np.log(2 * np.pi)))[None]
    made = ProfiledMarginals(base, np.array([1]), x[None], table)
    z = np.linspace(-8.0, 8.0, 33)[:, None] * np.ones(2)
    values = made.from_normal(z)
    np.testing.assert_allclose(values[:, 0], 5.0 + z[:, 0], atol=ALGEBRA)
    inside = np.abs(z[:, 1]) < 4.0
    np.testing.assert_allclose(values[inside, 1], z[inside, 1], atol=1e-3)
    assert (np.diff(values[:, 1]) > 0).all()
    np.testing.assert_allclose(made.below(values[10])[1], special.ndtr(z[10, 1]), atol=ALGEBRA)
    np.testing.assert_allclose(
        made.log_density(values)[inside, 1], -0.5 * (z[inside, 1] ** 2 + np.log(2 * np.pi)), atol=5e-3
    )
    np.testing.assert_allclose(made.mean, [5.0, 0.0], atol=1e-8)
    np.testing.assert_allclose(made.sd, 1.0, atol=1e-6)
    other = made.only(np.array([1]))
    np.testing.assert_allclose(other.from_normal(z[:, 1:]), values[:, 1:], atol=ALGEBRA)
    assert not len(made.only(np.array([0])).which)


def laplace_of(field, X, variance):
    posterior = bf.fit(field, X, bf.Normal(variance=variance), "exact", correction="none")
    return posterior, Corrected(posterior.mean, posterior.form, CorrectionRecord("none"))


def test_a_profile_that_fails_is_told(monkeypatch):
    """Its marginal stays as it was."""
    field = bf.pairwise(2, [(0, 1)], names=["a", "b"])
    plain, start = laplace_of(field, [[0, 0]] * 5 + [[1, 1]] * 3, 10.0)
    resolved = profile._Profiles._resolved
    monkeypatch.setattr(
        profile._Profiles, "_resolved", lambda self, near, k, value: None if k == 1 else resolved(self, near, k, value)
    )
    made = profile.profiled(plain.objective, plain.mode, plain.form, start, np.array([0, 1, 2]), field.parameter_names)
    assert not made.record.settled
    assert "could not be re-solved along b" in made.record.reason
    assert made.mean[1] == plain.mean[1]
    assert made.marginals.sd[1] == plain.sd[1]
    assert made.mean[2] != plain.mean[2]


def test_those_that_lean_most():
    size = 20
    field = bf.pairwise(size, [])
    X = (np.random.default_rng(0).random((50, size)) < 0.5).astype(int)
    X[:, 7] = 0
    posterior = bf.fit(field, X, bf.Normal(variance=30.0), correction="profile")
    assert 7 in posterior.marginals.which
    assert len(posterior.marginals.which) == profile.PARAMETERS  # all others are symmetric, and right before
    assert not posterior.record.correction.partial
    objective = field_objective(field, X, bf.Normal(variance=30.0), bf.Exact())
    plain, start = laplace_of(field, X, 30.0)
    few = profile.profiled(objective, plain.mode, plain.form, start, np.array([7]))
    assert few.record.partial
    np.testing.assert_array_equal(profile.leaning(start, 1), [7])


def test_auto_profiles_where_draws_are_not_possible():
    """More than 500 parameters, one of which leans."""
    size = 510
    field = bf.pairwise(size, [])
    X = (np.random.default_rng(0).random((100, size)) < 0.5).astype(int)
    X[:, 7] = 0
    posterior = bf.fit(field, X, bf.Normal(variance=30.0))
    assert posterior.record.correction.kind == "profile"
    assert 7 in posterior.marginals.which
    alone = bf.fit(one_spin(), np.zeros((100, 1)), bf.Normal(variance=30.0), correction="profile")
    assert posterior.mean[7] == pytest.approx(alone.mean[0], abs=1e-3)
    assert posterior.sd[7] == pytest.approx(alone.sd[0], rel=1e-3)
    assert posterior.certificate.verdict == "fair"
    assert "profiled" in posterior.certificate.advice


def test_price_is_planned():
    field, X = never_up(4, 4)
    usual, asked = (bf.preview(field, X, engine=bf.Bethe(), correction=c).seconds for c in ("none", "profile"))
    assert asked > usual
    posterior = bf.fit(field, X, bf.Normal(variance=30.0), bf.Bethe(), correction="profile")
    assert dict(posterior.record.plan.seconds)["the profiles"] > 0.0
    assert "profiled" in str(posterior.record.plan)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": bf.Sampled()}, "log Z"),
        ({"method": "pseudo_likelihood"}, "ends beside"),
        ({"response": bf.Bethe()}, "one engine"),
        ({"prior": bf.Cauchy(2.5)}, "heavy tails"),
    ],
)
def test_what_is_refused(options, message):
    field = bf.pairwise(2, [(0, 1)])
    with pytest.raises(bf.InvalidInput, match=message):
        bf.fit(field, [[0, 1], [1, 1]], correction="profile", **options)
