"""The number of labels behind an image: evidence and jumps against enumeration, and against one another."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import bayesfield as bf
from bayesfield.analysis.labels.image import observed
from bayesfield.kernels.gibbs import number as kernel
from bayesfield.model.builders import grid_edges

MOST = 3


@pytest.fixture(scope="module")
def small():
    """A 3×3 image of two labels or so, and P(K|y) for up to three by enumeration of all labels, β on a fine grid."""
    rng = np.random.default_rng(3)
    image = 2.5 * (rng.random((3, 3)) < 0.5) + 0.5 * rng.normal(size=(3, 3))
    y, edges = (image.ravel() - image.mean()) / image.std(), grid_edges(3, 3)
    beta = np.linspace(0.0, 2.0, 401)
    prior = -0.5 * beta**2 - logsumexp(-0.5 * beta**2)
    log_evidence = []
    for K in range(1, MOST + 1):
        labels = np.array(list(itertools.product(range(K), repeat=9)))
        same = (labels[:, edges[:, 0]] == labels[:, edges[:, 1]]).sum(axis=1)
        joint = sum(marginal(labels == k, y) for k in range(K))
        each = [logsumexp(b * same + joint) - logsumexp(b * same) for b in beta]
        log_evidence.append(logsumexp(prior + np.array(each)))
    return image, np.exp(log_evidence - logsumexp(log_evidence))


def marginal(members, y):
    """log ∫ Π N(y_i; μ, σ²) p(μ, σ²), by its formula, of members (L, n)."""
    a, b, kappa = 2.0, 0.2, 0.1
    n, first, second = members.sum(axis=1), members @ y, members @ y**2
    scale = b + 0.5 * (second - first**2 / (kappa + n))
    level = 0.5 * np.log(kappa / (kappa + n)) + a * np.log(b) - (a + 0.5 * n) * np.log(scale)
    return level + gammaln(a + 0.5 * n) - gammaln(a) - 0.5 * n * np.log(2 * np.pi)


def test_evidence_is_that_of_enumeration(small):
    """Its own error is 0.002, the tables' below 0.01 in the log; within 0.02, eight times what seeds differ by."""
    image, wanted = small
    found = bf.label_evidence(image, MOST, rounds=4000, free_updates=4000)
    np.testing.assert_allclose(found.probabilities, wanted, atol=0.02)
    assert found.likeliest == MOST
    assert "0." in repr(found)


def test_jumps_are_those_of_enumeration(small):
    """Half of the chains begin with one label, half with the most; within 0.02 as above, and they have met."""
    image, wanted = small
    found = bf.label_jumps(image, MOST, rounds=10_000, free_updates=4000)
    np.testing.assert_allclose(found.probabilities, wanted, atol=0.02)
    assert found.r_hat < 1.02
    assert found.jumps > 0.05


def test_emissions_integrate_by_quadrature():
    """m of three observations against sums over μ and σ²."""
    y, hyper = np.array([-0.4, 0.3, 1.1]), np.array([0.1, 2.0, 0.2, 1.0])
    mu, log_v = np.meshgrid(np.linspace(-30, 30, 3001), np.linspace(-6, 8, 1201), indexing="ij")
    v = np.exp(log_v)
    logs = 2.0 * np.log(0.2) - 3.0 * log_v - 0.2 / v + log_v  # IG(2, 0.2), Γ(2) = 1, in log σ²
    logs += -0.5 * np.log(2 * np.pi * v / 0.1) - 0.05 * mu**2 / v
    logs += sum(-0.5 * np.log(2 * np.pi * v) - 0.5 * (value - mu) ** 2 / v for value in y)
    total = logsumexp(logs) + np.log(0.02 * 14 / 1200)
    assert kernel.log_marginal(3.0, y.sum(), (y**2).sum(), hyper) == pytest.approx(total, abs=1e-3)


def test_tables_of_free_fields():
    """log Z of a 3×3 field of three labels by enumeration: within 0.05, at all couplings."""
    seen = observed(np.arange(9.0).reshape(3, 3), 3, 4, bf.NumberPrior(), 4000)
    labels, edges = np.array(list(itertools.product(range(3), repeat=9))), grid_edges(3, 3)
    same = (labels[:, edges[:, 0]] == labels[:, edges[:, 1]]).sum(axis=1)
    wanted = [logsumexp(beta * same) for beta in np.linspace(0.0, 2.0, 401)]
    np.testing.assert_allclose(seen.image.log_z[3], wanted, atol=0.05)
    np.testing.assert_allclose(seen.image.log_z[1], 12 * np.linspace(0.0, 2.0, 401))


def test_sites_that_are_left_out():
    image = np.array([[0.0, 0.2, np.nan], [2.0, 2.2, 2.1]])
    seen = observed(image, 2, 4, bf.NumberPrior(), 200)
    assert len(seen.image.y) == 5
    assert seen.graph.edges == 5
    assert bf.label_jumps(image, 2, rounds=200, free_updates=200).probabilities.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: bf.label_evidence(np.zeros(4)), "rows, columns"),
        (lambda: bf.label_evidence(np.ones((3, 3))), "different values"),
        (lambda: bf.label_jumps(np.eye(3), most=1), "at least 2"),
        (lambda: bf.label_jumps(np.eye(3), chains=1), "at least 2"),
        (lambda: bf.NumberPrior(rate=0.0), "positive"),
    ],
)
def test_refusals(call, text):
    with pytest.raises(bf.InvalidInput, match=text):
        call()
