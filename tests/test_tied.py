"""Few parameters tied over many variables: streamed chains, the surface of log Z, and the default fit.

Statistical tests are seeded; each says how often a correct program would fail with another seed.
"""

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.fitting.fields import read_field
from bayesfield.fitting.planning.request import request
from bayesfield.graph.compiled import compiled
from bayesfield.inference.sampling import streams
from bayesfield.inference.sampling.streamed import Streamed
from bayesfield.learning.phases.surface import Polynomial, exponents, fitted, log_weights, monomial_slopes
from bayesfield.learning.search.conditionals import conditionals_map
from bayesfield.learning.search.pseudo_likelihood import pseudo_likelihood_map
from bayesfield.learning.search.tied import spread, surfaced, tied_start


def exact_moments(field, parameters):
    c = compiled(field)
    theta = c.design.potentials(np.asarray(parameters, dtype=float))
    marginals = bf.Exact().infer(c.graph, theta)
    return c.design.expectations(marginals.tables), bf.Exact().response(
        c.graph, c.design, theta, marginals
    ).covariance()


def image(rows, columns, parameters, seed=0, sweeps=400):
    """One image by streamed chains that began at random."""
    field = bf.grid(rows, columns, (-1, 1), tied=True)
    c = compiled(field)
    chains = streams.streams(c.graph, c.design, None, seed)
    chains.run(np.tile(parameters, (chains.chains, 1)), sweeps, sweeps)
    return np.where((chains.words >> np.uint64(1)) & np.uint64(1), 1, -1).reshape(1, -1)


FIELDS = {
    "lattice": (lambda: bf.grid(3, 4, (-1, 1), tied=True), [0.1, 0.3], True),
    "4 x 4": (lambda: bf.grid(4, 4, (-1, 1), tied=True), [-0.05, 0.45], True),
    "0 and 1": (lambda: bf.grid(3, 3, (0, 1), tied=True), [-0.4, 0.6], True),
    "Potts": (lambda: bf.potts(6, [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)], 3, tied=True), None, False),
}


@pytest.mark.parametrize("name", FIELDS)
def test_streamed_features_have_exact_moments(name):
    """Means to 4.5 standard errors of independent chains (one in 10,000 for t with 31 degrees, four fields, up to four
    features: fails once in 600 seeds), covariances to 8 %."""
    make, parameters, packed = FIELDS[name]
    field = make()
    parameters = np.full(field.n_parameters, 0.2) if parameters is None else np.array(parameters)
    c = compiled(field)
    assert (streams.pack(c.graph, c.design) is not None) == packed
    chains = streams.streams(c.graph, c.design, None, 3)
    points = np.tile(parameters, (chains.chains, 1))
    points[1::2] *= 0.5
    chains.run(points, 100, 100)
    series = chains.run(points, 6000 if packed else 2000, 1).states
    for k, at in enumerate((parameters, 0.5 * parameters)):
        mean, covariance = exact_moments(field, at)
        own = series[:, k::2]
        each = own.mean(axis=0)
        error = each.std(axis=0, ddof=1) / np.sqrt(each.shape[0])
        assert (np.abs(each.mean(axis=0) - mean) < 4.5 * error).all()
        found = np.cov(own.reshape(-1, len(mean)).T)
        scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
        assert np.abs((found - covariance) / scale).max() < 0.08


def test_chains_in_one_word_are_independent():
    """64 chains at one λ: the variance of their common mean is that of one chain over 64, to a factor 1.5; the ratio
    has 64 · 2000 / 2τ degrees of freedom in blocks of 100 sweeps: beyond once in a thousand seeds."""
    field = bf.grid(4, 4, (-1, 1), tied=True)
    c = compiled(field)
    chains = streams.streams(c.graph, c.design, None, 1)
    points = np.tile([0.0, 0.2], (chains.chains, 1))
    chains.run(points, 100, 100)
    blocks = chains.run(points, 40_000, 1).states.reshape(400, 100, chains.chains, 2).mean(axis=1)
    ratio = blocks.mean(axis=1).var(axis=0) * chains.chains / blocks.var(axis=0).mean(axis=0)
    assert (np.abs(np.log(ratio)) < np.log(1.5)).all()


def test_runs_repeat():
    field = bf.grid(5, 5, (-1, 1), tied=True)
    c = compiled(field)
    points = np.tile([0.1, 0.2], (64, 1))
    first, second = (streams.streams(c.graph, c.design, None, 5).run(points, 20, 2) for _ in range(2))
    assert (first.states == second.states).all()
    assert (first.means == second.means).all()


def test_couplings_of_several_classes():
    """Two couplings at one variable: situations count both. Means to 4.5 standard errors (once in 10,000)."""
    spin = np.array([-1.0, 1.0])
    both = np.outer(spin, spin)
    factors = [bf.Factor(f"x{i}", {"field": spin}) for i in range(6)]
    factors += [bf.Factor([f"x{i}", f"x{(i + 1) % 6}"], {"near": both}) for i in range(6)]
    factors += [bf.Factor([f"x{i}", f"x{(i + 2) % 6}"], {"far": both}) for i in range(6)]
    field = bf.RandomField({f"x{i}": (-1, 1) for i in range(6)}, factors)
    c = compiled(field)
    chains = streams.streams(c.graph, c.design, None, 2)
    assert isinstance(chains, streams.WordStreams)
    at = np.array([0.1, 0.2, -0.15])
    chains.run(np.tile(at, (64, 1)), 100, 100)
    each = chains.run(np.tile(at, (64, 1)), 5000).means.mean(axis=0)
    mean, _ = exact_moments(field, at)
    assert (np.abs(each.mean(axis=0) - mean) < 4.5 * each.std(axis=0, ddof=1) / 8).all()


def test_pseudo_likelihood_by_distinct_conditionals():
    for field in (bf.grid(6, 7, (-1, 1), tied=True), bf.potts(9, [(i, i + 1) for i in range(8)], 3, tied=True)):
        rng = np.random.default_rng(0)
        X = rng.choice(field.states[0], size=(3, field.n_variables))
        objective = read_field(field, X, request())
        cases = objective.data.cases
        expected = pseudo_likelihood_map(cases, objective.prior)
        assert np.abs(conditionals_map(cases, objective.prior) - expected).max() < 1e-5


def test_a_polynomial_is_found_from_its_slopes():
    z = 1.5 * spread(64, 2, 1.4)
    powers = exponents(2, 4)
    truth = np.random.default_rng(0).normal(size=len(powers))
    found = fitted(z, monomial_slopes(z, powers) @ truth, 1e-6 * np.eye(2))
    index = {tuple(p): a for p, a in zip(powers, truth, strict=True)}
    assert np.abs(found.coefficients - [index.get(tuple(p), 0.0) for p in found.powers]).max() < 1e-6
    surface = Polynomial(np.zeros(2), np.eye(2), np.zeros(2), 9.0, found.powers, found.coefficients)
    point, step = np.array([0.3, -0.2]), 1e-5
    slopes = [surface.values(point[None] + step * e)[1] - surface.values(point[None] - step * e)[1] for e in np.eye(2)]
    assert np.abs(np.vstack(slopes) / (2 * step) - surface.covariance(point)).max() < 1e-5


def test_weights_tell_log_z():
    """Gaussian states with mean z: log Z = |z|²/2. Monte Carlo: 64 × 400 states tell it to some 0.02."""
    z = spread(64, 2, 1.4)
    states = z[:, None, :] + np.random.default_rng(0).normal(size=(64, 400, 2))
    weights = log_weights(states, z)
    at = np.array([[0.0, 0.0], [1.0, 0.5], [-1.5, 1.0]])
    log = at @ states.reshape(-1, 2).T + weights
    assert np.abs(np.log(np.exp(log).sum(axis=1)) - 0.5 * (at**2).sum(axis=1)).max() < 0.1


@pytest.mark.parametrize("parameters", [(0.0, 0.2), (0.05, 0.35), (0.1, 0.3)])
def test_the_surface_has_the_exact_mode_and_widths(parameters):
    """14 × 14, against the junction tree. error=0.01: mode to 0.05 sd (five errors), widths to 5 %."""
    field = bf.grid(14, 14, (-1, 1), tied=True)
    X = image(14, 14, parameters)
    objective = read_field(field, X, request()).with_engine(Streamed(error=0.012, budget=4.0))
    made = surfaced(objective, tied_start(objective))
    exact = bf.fit(field, X, engine=bf.Exact(), correction="none")
    point = made.at(exact.mode)
    away = np.linalg.solve(made.curvature(point), point.gradient) / exact.sd
    assert np.abs(away).max() < 0.05
    sd = np.sqrt(np.diag(np.linalg.inv(made.curvature(point))))
    assert np.abs(sd / exact.sd - 1).max() < 0.05


def test_the_default_fit_streams():
    X = image(32, 32, (0.05, 0.35), seed=1)
    field = bf.grid(32, 32, (-1, 1), tied=True)
    posterior = bf.fit(field, X)
    assert posterior.record.engine == "Streamed()"
    assert "streaming chains were chosen" in posterior.record.choice[0]
    assert posterior.certificate.verdict == "good"
    assert (np.abs(posterior.mean - [0.05, 0.35]) < 4 * posterior.sd).all()
    assert 0.0 < posterior.record.correction.error < 0.15
    again = bf.fit(field, X)
    assert (again.mean == posterior.mean).all()
    with pytest.raises(bf.InvalidInput, match="up to a constant"):
        posterior.evidence()
    assert np.isnan(posterior.record.log_likelihood)


def test_several_images():
    X = np.concatenate([image(24, 24, (0.0, 0.3), seed=k) for k in range(4)])
    lattice = bf.LatticeField().fit(X.reshape(4, 24, 24))
    posterior = lattice.posterior_
    assert posterior.record.engine == "Streamed()"
    assert (np.abs(posterior.mean - [0.0, 0.3]) < 4 * posterior.sd).all()
    assert posterior.certificate.verdict == "good"


def test_potts_images():
    rng = np.random.default_rng(0)
    lattice = bf.LatticeField().fit(rng.integers(0, 3, size=(1, 24, 24)))
    posterior = lattice.posterior_
    assert posterior.record.engine == "Streamed()"
    coupling = posterior.field.parameter_names[-1]
    assert abs(posterior.mean[-1]) < 4 * posterior.sd[-1], coupling
    assert posterior.certificate.verdict in ("good", "fair")


def test_data_beyond_the_critical_point():
    """Two halves of opposite states, which single sites would not cross: clusters do. Against exact inference with
    correction="draws" (a minute of processor time, so that its numbers stand here), whose means are known to 0.01 sd;
    the engine's own error is 0.085 sd, and the certificate tolerates 10 % of a width."""
    X = np.ones((12, 12), dtype=int)
    X[::5, ::4] = -1
    X[:, :6] *= -1
    field = bf.grid(12, 12, (-1, 1), tied=True)
    streamed = bf.fit(field, X.reshape(1, -1), engine=Streamed())
    mean, sd = np.array([0.00197, 0.46214]), np.array([0.01771, 0.04235])
    np.testing.assert_allclose(streamed.mean, mean, atol=0.25 * sd.min())
    np.testing.assert_allclose(streamed.sd, sd, rtol=0.1)


def test_other_data_are_refused_or_go_another_way():
    field = bf.grid(16, 16, (-1, 1))
    with pytest.raises(bf.InvalidInput, match="streaming chains are for"):
        bf.fit(field, image(16, 16, (0.0, 0.2)), engine=Streamed())


def test_a_graph_of_edges():
    """16 nodes as 120 edge variables: density and two-stars, tied."""
    nodes = 16
    edges = [(i, j) for i in range(nodes) for j in range(i + 1, nodes)]
    pairs = [(a, b) for a in range(len(edges)) for b in range(a + 1, len(edges)) if set(edges[a]) & set(edges[b])]
    field = bf.pairwise(len(edges), pairs, (0, 1), tied=True)
    X = (np.random.default_rng(0).random((1, len(edges))) < 0.25).astype(int)
    posterior = bf.fit(field, X)
    assert posterior.record.engine == "Streamed()"
    assert np.isfinite(posterior.sd).all()


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [(0.0, 0.35), (0.05, 0.35), (0.0, 0.42)])
def test_intervals_hold_the_truth(parameters):
    """90 % intervals of both parameters over 100 images of 64 × 64: 83 to 97 % (outside once in 50 seeds a pair)."""
    field = bf.grid(64, 64, (-1, 1), tied=True)
    c = compiled(field)
    held = []
    for seed in range(2):
        chains = streams.streams(c.graph, c.design, None, seed)
        chains.run(np.tile(parameters, (64, 1)), 3000, 3000)
        for lane in range(50):
            X = np.where((chains.words >> np.uint64(lane)) & np.uint64(1), 1, -1).reshape(1, -1)
            rows = bf.fit(field, X).summary(0.9)
            lower, upper = rows["lower"].to_numpy(), rows["upper"].to_numpy()
            held.append((lower < parameters) & (np.array(parameters) < upper))
    share = np.mean(held, axis=0)
    assert (share >= 0.83).all(), share
    assert (share <= 0.97).all(), share
