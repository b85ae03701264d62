"""Fields of two layers: sums over the smaller one against brute force."""

import itertools

import numpy as np
import pytest
from scipy import special

import bayesfield as bf
from bayesfield.graph.clamp import clamp
from bayesfield.graph.compiled import compiled
from bayesfield.graph.layers import layer_potentials, layers_of
from bayesfield.graph.structure import table_entries
from bayesfield.inference.enumeration import Enumeration
from bayesfield.inference.sampling.annealing import annealed
from bayesfield.inference.trees.small_layer import SmallLayer, sum_over_layer
from bayesfield.learning.layers.phase import LayerPhase
from bayesfield.learning.objective import Objective
from bayesfield.learning.phases.cases import field_objective
from bayesfield.learning.phases.graph import GraphPhase

ALGEBRA = 1e-10


def machine(visible, hidden, seed=0, states=(0, 1), scale=0.7):
    field, rng = bf.restricted_boltzmann(visible, hidden, states), np.random.default_rng(seed)
    return field, scale * rng.normal(size=field.n_parameters), rng


@pytest.mark.parametrize(("visible", "hidden"), [(12, 5), (5, 12), (9, 9)])
@pytest.mark.parametrize("states", [(0, 1), (-1, 1)], ids=str)
def test_sums_over_the_smaller_layer(visible, hidden, states):
    field, parameters, _ = machine(visible, hidden, states=states)
    known = compiled(field)
    theta = known.design.potentials(parameters)
    found, wanted = (e.infer(known.graph, theta) for e in (SmallLayer(), Enumeration()))
    assert found.log_z == pytest.approx(wanted.log_z, rel=ALGEBRA)
    np.testing.assert_allclose(found.tables, wanted.tables, atol=ALGEBRA)
    ours, theirs = (
        e.response(known.graph, known.design, theta, m)
        for e, m in ((SmallLayer(), found), (bf.Exact(), bf.Exact().infer(known.graph, theta)))
    )
    np.testing.assert_allclose(ours.covariance(), theirs.covariance(), atol=1e-9)
    vectors = np.random.default_rng(1).normal(size=(field.n_parameters, 3))
    np.testing.assert_allclose(ours.product(vectors), theirs.covariance() @ vectors, atol=1e-9)
    best, _ = SmallLayer().maximise(known.graph, theta)
    np.testing.assert_array_equal(best, bf.Exact().maximise(known.graph, theta)[0])


def test_large_potentials_take_the_slow_way():
    """Products of 1 + e^x are no numbers beyond e^709."""
    field, parameters, _ = machine(12, 5, scale=150.0)
    known = compiled(field)
    theta = known.design.potentials(parameters)
    found, wanted = (e.infer(known.graph, theta) for e in (SmallLayer(), Enumeration()))
    assert not found.state.fast
    assert found.log_z == pytest.approx(wanted.log_z, rel=ALGEBRA)
    np.testing.assert_allclose(found.tables, wanted.tables, atol=ALGEBRA)


def test_draws_of_two_layers():
    """20,000 draws: means within five standard errors, a false alarm in 10⁵ for each of 77 features."""
    field, parameters, rng = machine(12, 5, scale=0.5)
    known = compiled(field)
    theta = known.design.potentials(parameters)
    codes = SmallLayer().sample(known.graph, theta, 20_000, rng)
    f = np.array([codes[:, i] for i in range(17)] + [codes[:, i] * codes[:, j] for i, j in field.edges])
    tables = bf.infer(field, parameters, bf.Enumeration()).marginals.tables
    wanted = np.concatenate([tables[1:34:2], tables[34:].reshape(-1, 4)[:, 3]])
    np.testing.assert_array_less(np.abs(f.mean(axis=1) - wanted), 5 * np.sqrt(wanted * (1 - wanted) / 20_000) + 1e-12)


def test_what_two_layers_are():
    layers = layers_of(compiled(bf.restricted_boltzmann(14, 6)).graph)
    assert layers.small.tolist() == list(range(14, 20))
    assert layers_of(compiled(bf.restricted_boltzmann(4, 14)).graph).small.tolist() == list(range(4))
    for field in (bf.grid(5, 5), bf.boltzmann(12, 6), bf.restricted_boltzmann(12, 6, 3), bf.chain(30)):
        assert layers_of(compiled(field).graph) is None


def objectives(visible, hidden, states=(0, 1), seed=0, n=40, weights=None):
    """The same cases with the phases for layers, and with those for any graph."""
    field, parameters, rng = machine(visible, hidden, seed, states)
    seen = [states[k] for k in (0, 1)]
    X = rng.choice(seen, (n, visible))
    X[: n // 4] = X[n // 4 : 2 * (n // 4)]  # cases that are alike
    prior, codes = bf.Normal(variance=0.7), field.encode(X, holes=True)
    ours = field_objective(field, X, prior, SmallLayer(), weights)
    clamped = clamp(compiled(field), codes, weights)
    phases = [GraphPhase(p.graph, p.design, bf.Exact(), -p.weight, contrasts=True) for p in clamped.phases]
    free = GraphPhase(compiled(field).graph, compiled(field).design, bf.Exact(), ours.weight)
    statistic = compiled(field).design.transpose @ clamped.counts
    return field, parameters, ours, Objective(ours.prior, (free, *phases), statistic, 0.0, ours.data)


@pytest.mark.parametrize(("visible", "hidden"), [(13, 5), (5, 13)])
@pytest.mark.parametrize("states", [(0, 1), (-1, 1)], ids=str)
def test_objective_of_layers(visible, hidden, states):
    """Value, gradient and curvature as by unions of graphs."""
    weights = np.random.default_rng(3).uniform(0.5, 2.0, 40) if states == (0, 1) else None
    _, parameters, ours, theirs = objectives(visible, hidden, states, weights=weights)
    assert isinstance(ours.phases[1], LayerPhase)
    a, b = ours.at(parameters), theirs.at(parameters)
    assert a.value == pytest.approx(b.value, rel=ALGEBRA)
    np.testing.assert_allclose(a.gradient, b.gradient, atol=1e-9)
    np.testing.assert_allclose(ours.curvature(a), theirs.curvature(b), atol=1e-8)
    np.testing.assert_allclose(ours.response(a).diagonal(), np.diag(theirs.likelihood_curvature(b)), atol=1e-8)
    held = ours.data.case_log_z(ours.data.codes[:7], parameters[None], SmallLayer())
    naive = [theirs.data.field.design.potentials(parameters)]
    np.testing.assert_allclose(held, case_log_z(theirs.data.field, ours.data.codes[:7], naive[0])[None], rtol=1e-10)


def case_log_z(known, codes, theta):
    """log Σ over what is hidden of exp θ, by all states of the hidden variables, case by case."""
    holes = np.flatnonzero(codes[0] < 0)
    states = np.array(list(itertools.product(range(2), repeat=len(holes))))
    found = []
    for row in codes:
        whole = np.tile(row, (len(states), 1))
        whole[:, holes] = states
        found.append(special.logsumexp(theta[table_entries(known.graph.arrays, whole)].sum(axis=1)))
    return np.array(found)


def test_gradient_of_a_machine_of_20_by_12():
    """Against a sum over all 2^20 · 2^12 joint states, the hidden layer by hidden layer: 1e-9 of the number of cases."""
    field, parameters, rng = machine(20, 12, scale=0.4)
    X = rng.integers(2, size=(50, 20))
    objective = field_objective(field, X, bf.Normal(variance=1.0), SmallLayer())
    a, b, W = parameters[:20], parameters[20:32], parameters[32:]
    index = {name: k for k, name in enumerate(field.parameter_names)}
    W = np.array([[parameters[index[f"v{i}*h{j}"]] for j in range(12)] for i in range(20)])
    x = (np.arange(2**20)[:, None] >> np.arange(20) & 1).astype(np.float64)  # over the LARGER layer
    logits = x @ W + b
    log_p = x @ a + np.logaddexp(0.0, logits).sum(axis=1)
    log_z = special.logsumexp(log_p)
    p = np.exp(log_p - log_z)
    active = special.expit(logits) * p[:, None]
    q = special.expit(X @ W + b)
    visible, hidden = p @ x - X.mean(axis=0), active.sum(axis=0) - q.mean(axis=0)
    joint = x.T @ active - X.T @ q / len(X)
    wanted = np.empty(len(parameters))
    wanted[:20], wanted[20:32] = visible, hidden
    for i in range(20):
        for j in range(12):
            wanted[index[f"v{i}*h{j}"]] = joint[i, j]
    found = objective.at(parameters)
    np.testing.assert_allclose((found.gradient - parameters) / len(X), wanted, atol=1e-9)
    likelihood = (X @ a + np.logaddexp(0.0, X @ W + b).sum(axis=1) - log_z).sum()
    assert objective.log_likelihood(found) == pytest.approx(likelihood, rel=1e-10)


def test_annealing_against_the_exact_sum():
    """Up and down, within 4 standard errors and 0.1 nats of one another."""
    field, parameters, rng = machine(14, 8, scale=0.8)
    t = layer_potentials(compiled(field).graph, layers_of(compiled(field).graph), compiled(field).design.potentials(parameters))
    found = annealed(t, np.zeros(14), rng, chains=200, steps=400)
    wanted = sum_over_layer(t).log_z
    assert abs(found.log_z - wanted) < 4 * found.error
    assert abs(found.gap) < 0.1 > found.error
