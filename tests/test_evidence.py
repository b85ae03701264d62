"""Log evidence: against quadrature, between engines, by sampling; volumes of every form of precision."""

import itertools

import numpy as np
import pytest
from scipy import special

import bayesfield as bf
from bayesfield.graph.compiled import compiled
from bayesfield.inference.sampling.thermodynamic import log_partition
from bayesfield.learning.precision.dense import DensePrecision

from tolerances import ALGEBRA

PRIOR = bf.Normal(variance=1.0)


def quadrature(posterior, points=81, reach=7.0):
    """log ∫ p(D|λ) p(λ) dλ of a posterior with two parameters, on a grid of ±reach standard deviations."""
    o, F = posterior.objective, len(posterior.mean)
    root = np.linalg.cholesky(posterior.covariance())
    axis = np.linspace(-reach, reach, points)
    values = []
    for z in itertools.product(axis, repeat=F):
        here = posterior.mean + root @ np.array(z)
        values.append(o.log_likelihood(o.at(here)) + o.prior.log_density(here))
    cell = F * np.log(axis[1] - axis[0]) + np.log(np.diag(root)).sum()
    return float(special.logsumexp(values) + cell)


def lattice(n_cases, seed=0):
    field, rng = bf.grid(2, 3, tied=True), np.random.default_rng(seed)
    return field, bf.sample(field, [0.3, 0.4], n_cases, rng)


@pytest.mark.parametrize("n_cases", [3, 30, 300])
@pytest.mark.parametrize("prior", [PRIOR, bf.Normal(variance=[0.2, 3.0], mean=0.5), bf.Cauchy(scale=1.0)], ids=repr)
def test_against_quadrature(n_cases, prior):
    """Importance or bridge sampling within four standard errors (false alarm: 1 in 16,000); Laplace within 0.3 nats."""
    field, X = lattice(n_cases)
    posterior = bf.fit(field, X, prior, "exact")
    found, wanted = posterior.evidence(), quadrature(posterior)
    assert found.method == ("bridge" if posterior.record.correction.kind == "draws" else "importance")
    assert abs(found.value - wanted) < 4 * found.error + 1e-4
    assert abs(found.laplace - wanted) < 0.3
    assert posterior.log_evidence == found.value
    assert posterior.evidence(n_draws=0).value == found.laplace


def test_with_a_covariance():
    field, X = lattice(20)
    posterior = bf.fit(field, X, bf.Normal(covariance=[[1.0, 0.4], [0.4, 0.5]]), "exact")
    found = posterior.evidence()
    assert abs(found.value - quadrature(posterior)) < 4 * found.error + 1e-4


def test_with_holes_and_hidden_variables():
    field, rng = bf.chain(4, tied=True), np.random.default_rng(1)
    X = bf.sample(field, [0.2, 0.7], 40, rng).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    for one in (field, field.with_hidden([3])):
        data = X if not one.hidden else np.where(np.arange(4) == 3, np.nan, X)
        posterior = bf.fit(one, data, PRIOR, "exact")
        found = posterior.evidence()
        assert abs(found.value - quadrature(posterior)) < 4 * found.error + 1e-4


def test_of_a_conditional_field():
    rng = np.random.default_rng(2)
    crf = bf.CRF((0, 1), 1, node_tables=[[-1, 1]], edge_tables=[[[1, -1], [-1, 1]]])
    X = [rng.normal(size=(5, 1)) for _ in range(6)]
    y = [(x[:, 0] + rng.normal(size=5) > 0).astype(int).tolist() for x in X]
    posterior = bf.fit_sequences(crf, X, y, PRIOR)
    found = posterior.evidence()
    assert abs(found.value - quadrature(posterior)) < 4 * found.error + 1e-4
    as_graphs = bf.fit_graphs(crf, [(x, np.array([[t, t + 1] for t in range(4)])) for x in X], y, PRIOR)
    assert abs(as_graphs.evidence(n_draws=0).value - found.laplace) < ALGEBRA * 1e2


def test_engines_agree_on_a_tree():
    field, rng = bf.chain(5), np.random.default_rng(3)
    X = bf.sample(field, 0.5 * rng.normal(size=field.n_parameters), 100, rng)
    exact, *others = (bf.fit(field, X, PRIOR, e, correction="none") for e in ("exact", "bethe", "kikuchi"))
    for other in others:
        assert abs(other.evidence(n_draws=0).value - exact.evidence(n_draws=0).value) < 1e-6
    sampled = bf.fit(field, X, PRIOR, "sampled", correction="none").evidence()
    assert abs(sampled.value - exact.evidence(n_draws=0).value) < 4 * sampled.error + 0.02
    assert "sampling has no log Z at draws" in str(sampled)


def test_without_data_and_without_parameters():
    """Nothing observed: p(D) = 1, whatever the prior. No parameter: the likelihood itself."""
    field = bf.grid(2, 2)
    assert abs(bf.fit(field, np.empty((0, 4)), PRIOR, "exact").evidence(n_draws=0).value) < ALGEBRA
    fixed = bf.RandomField({"a": 2}, [bf.Factor("a", log_table=[0.0, 1.0])])
    posterior = bf.fit(fixed, [[1], [0], [1]], PRIOR, "exact")
    assert abs(posterior.log_evidence - (2.0 - 3.0 * np.log1p(np.e))) < ALGEBRA


def test_pseudo_likelihood_has_none():
    field, X = lattice(30)
    with pytest.raises(bf.InvalidInput, match="has no evidence"):
        _ = bf.fit(field, X, PRIOR, method="pseudo_likelihood").log_evidence


def test_far_from_a_gaussian_the_draws_are_refused():
    """A hundred parameters, two cases: the weights are too uneven. With so many draws as asked for Laplace stands, with
    the reason and an error; else chains and a bridge, which agree with it within that error."""
    field, rng = bf.grid(6, 7), np.random.default_rng(4)
    X = bf.sample(field, 0.5 * rng.normal(size=field.n_parameters), 2, rng)
    posterior = bf.fit(field, X, bf.Normal(variance=4.0), "exact", correction="none")
    found = posterior.evidence(n_draws=512)
    assert found.method == "laplace"
    assert "too few" in found.reason
    bridged = posterior.evidence()
    assert bridged.method == "bridge"
    assert abs(bridged.value - found.value) < 3 * np.hypot(found.error, bridged.error)


@pytest.mark.parametrize("form", ["sparse", "matrix-free"])
def test_volume_of_every_form(form):
    """log det P as the dense form has it; where it is probed, within four standard errors (1 in 16,000)."""
    field, rng = bf.grid(7, 7), np.random.default_rng(5)
    X = bf.sample(field, 0.4 * rng.normal(size=field.n_parameters), 200, rng)
    dense = bf.fit(field, X, PRIOR, "bethe", correction="none", form="dense")
    other = bf.fit(field, X, PRIOR, "bethe", correction="none", form=form)
    assert other.form.form == form
    away = abs(other.form.log_det - dense.form.log_det)
    assert away < 4 * other.form.log_det_error + 1e-6
    assert abs(dense.form.log_det - np.linalg.slogdet(dense.precision)[1]) < 1e-8
    assert abs(other.evidence().value - dense.evidence(n_draws=0).value) < 4 * other.evidence().error + 1e-4


@pytest.mark.parametrize("field", [bf.grid(3, 3), bf.potts(4, [(0, 1), (1, 2), (2, 3), (0, 3)], 3)], ids=repr)
def test_thermodynamic_integration(field):
    """log Z within four standard errors of the exact one (1 in 16,000)."""
    rng = np.random.default_rng(6)
    known = compiled(field)
    theta = known.design.potentials(rng.normal(size=field.n_parameters))
    exact = bf.Exact().infer(known.graph, theta)
    engine = bf.Sampled(seed=7)
    found = log_partition(known.graph, theta, engine, engine.infer(known.graph, theta).tables, 2e-3)
    assert found.error < 0.02
    assert abs(found.value - exact.log_z) < 4 * found.error
    theta[0] = -np.inf
    with pytest.raises(bf.InvalidInput, match="without forbidden states"):
        log_partition(known.graph, theta, engine, exact.tables, 1e-3)


def test_a_fit_that_did_not_end_has_none():
    """Loopy belief propagation at strong couplings stops anywhere; its evidence would be anything."""
    field, rng = bf.grid(4, 4), np.random.default_rng(8)
    X = bf.sample(field, np.repeat([0.0, 1.2], [16, 24]), 100, rng)
    with pytest.warns(bf.FitWarning, match="not to be trusted"):
        posterior = bf.fit(field, X, bf.Normal(variance=4.0), "bethe")
    with pytest.raises(bf.InvalidInput, match="did not end at a mode"):
        posterior.evidence()


def test_heavy_tails_and_few_cases():
    """A Cauchy prior and three cases: within four standard errors of the mean likelihood of prior draws."""
    field, rng = bf.chain(2), np.random.default_rng(9)
    X = np.array([[1, 1], [1, 1], [-1, -1]])
    posterior = bf.fit(field, X, bf.Cauchy(scale=1.0), "exact")
    draws = rng.standard_cauchy((400_000, 3))
    states = np.array(list(itertools.product((-1, 1), repeat=2)))
    energy = draws[:, :2] @ states.T + draws[:, 2:] * np.prod(states, axis=1)
    given = energy[:, 3] * 2 + energy[:, 0] - 3 * special.logsumexp(energy, axis=1)
    weight = np.exp(given)
    wanted, error = np.log(weight.mean()), weight.std() / weight.mean() / np.sqrt(len(weight))
    found = posterior.evidence(n_draws=4000)
    assert abs(found.value - wanted) < 4 * np.hypot(error, found.error) + 0.02


def test_an_empty_precision():
    assert DensePrecision(np.empty((0, 0))).log_det == 0.0


def test_bad_input():
    field, X = lattice(10)
    posterior = bf.fit(field, X, PRIOR, "exact")
    for wrong in (-1, 10, 1.5):
        with pytest.raises(bf.InvalidInput, match="draws is 0, for plain Laplace"):
            posterior.evidence(n_draws=wrong)
    for wrong in (np.inf, 0.0, -1.0, "large", [1.0, np.nan]):
        with pytest.raises(bf.InvalidInput, match="prior variances"):
            bf.Normal(variance=wrong)  # an improper prior has no evidence
