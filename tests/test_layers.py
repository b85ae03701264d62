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
from bayesfield.learning.layers.ascent import Walk
from bayesfield.learning.layers.coordinates import Coordinates, LayerParameters
from bayesfield.learning.layers.phase import LayerPhase
from bayesfield.learning.objective import Objective
from bayesfield.learning.phases.cases import field_objective
from bayesfield.learning.phases.graph import GraphPhase
from bayesfield.learning.search.optimum import QUIET
from bayesfield.prediction.layers import layer_scores

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
    """Against a sum over all 2^20 · 2^12 joint states, the the hidden layer summed out: 1e-9."""
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
    t = layer_potentials(
        compiled(field).graph, layers_of(compiled(field).graph), compiled(field).design.potentials(parameters)
    )
    found = annealed(t, np.zeros(14), rng, chains=200, steps=400)
    wanted = sum_over_layer(t).log_z
    assert abs(found.log_z - wanted) < 4 * found.error
    assert abs(found.gap) < 0.1 > found.error


# --- learning -------------------------------------------------------------------------------------------------------


def planted(visible=24, hidden=20, n=300, seed=0):
    """A machine with both layers too large for a sum, and cases of it by long chains."""
    rng = np.random.default_rng(seed)
    field = bf.restricted_boltzmann(visible, hidden)
    parameters = rng.normal(size=field.n_parameters) * 0.6
    drawn = bf.sample(field, parameters, n, rng, bf.Sampled(chains=n, burn_in=200))
    return field, parameters, drawn[:, :visible]


@pytest.mark.parametrize("states", [(0, 1), (-1, 1)], ids=str)
def test_coordinates_of_layers(states):
    """(a, b, W) and back; the pull of the prior by differences."""
    field, parameters, rng = machine(12, 6, states=states)
    X = rng.choice(states, (20, 12))
    objective = field_objective(field, X, bf.Normal(variance=0.5, mean=0.2), SmallLayer())
    at = Coordinates.of(objective.data.clamped, objective.prior)
    there = at.from_parameters(parameters)
    np.testing.assert_allclose(at.to_parameters(there), parameters, atol=1e-12)
    t = objective.data.clamped.potentials(parameters)
    np.testing.assert_allclose(there.joint, t.joint, atol=1e-12)
    np.testing.assert_allclose(there.hidden, t.small, atol=1e-12)
    step = LayerParameters(*(rng.normal(size=part.shape) for part in there))
    values = [-objective.prior.log_kernel(at.to_parameters(there.plus(step, e))) for e in (1e-5, -1e-5)]
    pulled = sum(float((p * s).sum()) for p, s in zip(at.pull(there), step, strict=True))
    assert pulled == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-6)
    x, h = rng.uniform(size=12), rng.uniform(size=6)
    back = there.centred(x, h).uncentred(x, h)
    for one, other in zip(back, there, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_slopes_by_chains_are_unbiased():
    """The average over 400 steps at one λ, chains in equilibrium, against the exact slope: within 5 standard errors."""
    field, parameters, rng = machine(12, 6, scale=0.3)
    X = rng.integers(2, size=(60, 12))
    objective = field_objective(field, X, bf.Normal(variance=1.0), SmallLayer())
    layer = objective.data.clamped
    at = Coordinates.of(layer, objective.prior)
    walk, here = Walk(layer, at, 0, QUIET), at.from_parameters(parameters)
    zero, chains, found = np.zeros(6), np.zeros((100, 12), dtype=np.float32), []
    for _ in range(420):
        slope, chains, _ = walk.slope(here, walk.cases, chains, zero)
        found.append(np.concatenate([(slope.joint + np.multiply.outer(walk.x, slope.hidden)).ravel()]))
    found = np.array(found[20:])
    n, exact = len(X), objective.at(parameters).gradient - parameters
    names = {name: k for k, name in enumerate(field.parameter_names)}
    wanted = np.array([exact[names[f"v{i}*h{j}"]] for i in range(12) for j in range(6)]) / n
    batches = found.reshape(20, 20, -1).mean(axis=1)  # chains remember a few passes
    error = batches.std(axis=0, ddof=1) / np.sqrt(20)
    np.testing.assert_array_less(np.abs(batches.mean(axis=0) - wanted), 5 * error + 1e-3)


def test_how_far_the_slope_says_that_the_optimum_is():
    """Against the exact slope at the same λ, rms in sds of each parameter given all others: within a tenth."""
    field, parameters, rng = machine(12, 6, scale=0.3)
    X = rng.integers(2, size=(60, 12))
    objective = field_objective(field, X, bf.Normal(variance=1.0), SmallLayer())
    at = Coordinates.of(objective.data.clamped, objective.prior)
    walk, here = Walk(objective.data.clamped, at, 0, QUIET), at.from_parameters(parameters)
    slope = at.from_parameters(objective.at(parameters).gradient).slope_centred(walk.x, walk.hidden_means(here))
    wanted = [(part * np.sqrt(wide)).ravel() for part, wide in zip(slope, walk.spread(here), strict=True)]
    assert walk.left(here) == pytest.approx(np.sqrt(np.mean(np.concatenate(wanted) ** 2)), rel=0.1)


def test_steps_that_leap_away_are_not_called_an_optimum():
    field, _, X = planted()
    with pytest.warns(bf.FitWarning, match="not to be trusted"):
        posterior = bf.fit(field, X, method=bf.LayerChains(steps=5, rate=0.9, moves=0), verbose=False)
    assert posterior.record.status.outcome is bf.Outcome.NO_OPTIMUM
    assert posterior.record.status.residual > 1.0


def test_two_large_layers_are_learnt_by_chains():
    field, _, X = planted()
    plan = bf.preview(field, X).detail
    assert "layer chains" in plan
    posterior = bf.fit(field, X, method=bf.LayerChains(steps=1500, moves=800, draws=40), verbose=False)
    record = posterior.record
    assert record.method == "layer chains"
    assert record.correction.kind == "draws"
    assert record.certificate.verdict in ("fair", "poor")  # so few moves are worth few draws, and it says so
    assert 0 < record.correction.effective < 400
    rows = {tuple(row) for row in posterior.marginals.points.tolist()}
    assert all(tuple(row) in rows for row in posterior.sample(5, 0).tolist())  # draws of the posterior are draws
    again = bf.fit(field, X, method=bf.LayerChains(steps=1500, moves=800, draws=40), verbose=False)
    np.testing.assert_array_equal(again.mean, posterior.mean)
    alone = bf.fit(field, X, method=bf.LayerChains(steps=1500, moves=0), verbose=False)
    assert "given all others" in alone.record.choice[0]


@pytest.mark.slow
def test_modes_by_chains_are_modes():
    """On a machine that can be summed over: within one posterior sd (rms) of the exact mode nearby."""
    field, _, X = planted(20, 10, 500)
    chains = bf.fit(field, X, method=bf.LayerChains(moves=0), verbose=False)
    exact = bf.fit(field, X, start=chains.mode, correction="none")
    assert exact.record.status.converged
    away = (chains.mode - exact.mode) / exact.sd
    assert np.sqrt(np.mean(away**2)) < 1.0


@pytest.mark.slow
def test_machine_of_20_by_12_against_nuts():
    """Within one mode, the exact posterior's sds over those of NUTS: 0.9 to 1.1 for 95 % of the parameters.

    An informative prior keeps the chains of NUTS in the mode that they begin in. 800 draws tell an sd to about 3 %.
    """
    rng = np.random.default_rng(2)
    field = bf.restricted_boltzmann(20, 12)
    truth = rng.normal(size=field.n_parameters) * 1.0
    X = bf.sample(field, truth, 800, rng)[:, :20]
    prior = bf.Normal(variance=0.04, mean=truth)
    posterior = bf.fit(field, X, prior, start=truth)
    draws = bf.sample_posterior(field, X, prior, n_draws=400, chains=2, shape=posterior, rng=1).summary()
    ratio = posterior.sd / draws["sd"].to_numpy()
    assert np.mean((ratio > 0.9) & (ratio < 1.1)) >= 0.95


def test_what_layer_chains_do_not_learn():
    rng = np.random.default_rng(0)
    with pytest.raises(bf.InvalidInput, match="two layers of binary variables"):
        bf.fit(bf.grid(4, 5, (0, 1)), rng.integers(2, size=(30, 20)), method=bf.LayerChains())
    field, _, X = planted()
    holed = X.astype(float)
    holed[0, 0] = np.nan
    with pytest.raises(bf.InvalidInput, match="two layers of binary variables"):
        bf.fit(field, holed, method=bf.LayerChains())
    with pytest.raises(bf.InvalidInput, match="at least 1 step"):
        bf.LayerChains(steps=0)
    with pytest.raises(bf.InvalidInput, match="between 0 and 1"):
        bf.LayerChains(move=1.5)


def test_estimator_scores_and_features():
    """score_samples by sums against the field's own log p; hidden_proba as by ``impute``."""
    rng = np.random.default_rng(1)
    X = rng.integers(2, size=(60, 14))
    machine = bf.RBM(4, correction="none", n_draws=5).fit(X)
    points = machine.posterior_.sample(5, 0)
    known = compiled(machine.field_)
    codes = machine.field_.encode(X[:6], holes=True)
    log_p = []
    for here in points:
        theta = known.design.potentials(here)
        log_p.append(case_log_z(known, codes, theta) - bf.infer(machine.field_, here, bf.Exact()).log_z)
    wanted = special.logsumexp(log_p, axis=0) - np.log(5)
    np.testing.assert_allclose(machine.score_samples(X[:6]), wanted, rtol=1e-9)
    found = machine.posterior_.impute(X[:6], 5, 0, 0).probabilities[:, 1].reshape(6, 4)
    np.testing.assert_allclose(machine.hidden_proba(X[:6]), found, atol=1e-9)


def test_large_machines_are_scored_by_annealing():
    """At one draw, 24 × 18 by annealing against the sum over 2^18 states."""
    field, parameters, _ = machine(24, 18, scale=0.4)
    known, rng = compiled(field), np.random.default_rng(0)
    codes = np.full((5, 42), -1)
    codes[:, :24] = rng.integers(2, size=(5, 24))
    exact = layer_scores(known, codes, parameters[None], 0)
    assert exact.error == 0.0
    t = layer_potentials(known.graph, layers_of(known.graph), known.design.potentials(parameters))
    found = annealed(t, np.zeros(24), rng, 100, 400)
    assert abs(found.log_z - sum_over_layer(t).log_z) < 4 * found.error + 0.02
    wide, wanted, _ = planted()
    big = np.full((5, 44), -1)
    big[:, :24] = codes[:, :24]
    scores = layer_scores(compiled(wide), big, wanted[None], 0)
    assert 0.0 < scores.error < 0.5
    assert abs(scores.gap) < 1.0
