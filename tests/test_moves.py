"""Moves that mix where single sites do not: clusters and ladders of temperatures. Seeded.

Kernels against enumeration, torus energies against Kaufman's exact ones, fits and log Z against exact inference.
False alarms: z-scores of independent chains are allowed 5, one in a million each and one in 10,000 for a test.
"""

import itertools

import numpy as np
import pytest

import bayesfield as bf
from bayesfield import parallel
from bayesfield.graph.compiled import compiled
from bayesfield.graph.scored import scored_pairs
from bayesfield.inference.sampling.gibbs_chains import normalised
from bayesfield.inference.sampling.moves import Clusters, Single, clusters_help
from bayesfield.inference.sampling.tempering import energies_of, place, tempered
from bayesfield.kernels import tables as table_kernel
from bayesfield.kernels.gibbs import clusters
from benchmarks.mixing import ferromagnet, log_z, plus_minus, sherrington

GRAPHS = {
    "tree": (6, [(0, 1), (0, 2), (2, 3), (2, 4), (4, 5)], [1.2, -0.8, 0.5, 1.5, -0.3]),
    "frustrated loop": (4, [(0, 1), (1, 2), (2, 3), (3, 0)], [1.0, 0.7, 0.9, -1.1]),
    "disconnected": (6, [(0, 1), (1, 2), (0, 2), (4, 5)], [-1.0, -0.8, 0.6, 1.4]),
    "isolated node": (4, [(0, 1), (1, 2)], [0.9, 1.1]),
    "zero couplings": (5, [(0, 1), (1, 2), (2, 3), (3, 4)], [0.0, 1.0, 0.0, -1.0]),
    "strong": (5, list(itertools.combinations(range(5), 2)), [3.0] * 10),
}


def arrays(edges):
    ends = np.array(edges, dtype=np.int32)
    return ends[:, 0].copy(), ends[:, 1].copy()


def enumerated(n, edges, J, h):
    """E[s_i] and E[s_i s_j]."""
    s = np.array(list(itertools.product((-1, 1), repeat=n)))
    pairs = np.array([s[:, i] * s[:, j] for i, j in edges]).T
    p = np.exp(s @ h + pairs @ J)
    return p @ s / p.sum(), p @ pairs / p.sum()


@pytest.mark.parametrize("signs", [0.0, 0.5])
@pytest.mark.parametrize("name", GRAPHS)
def test_clusters_against_enumeration(name, signs):
    """20,000 chains: their states, and the conditional means that 20 updates of each gather, within 5 errors."""
    n, edges, J = GRAPHS[name]
    h = signs * np.random.default_rng(5).normal(size=n)
    first, second = arrays(edges)
    f = clusters.spins(first, second, np.array(J), h)
    chains = 20_000
    states = np.random.default_rng(1).integers(0, 2, (chains, n), dtype=np.int32)
    seeds, site, pair = parallel.chain_seeds(2, chains), np.zeros(n), np.zeros(len(J))
    clusters.update_chains(f, states, seeds, 60, False, site, pair)
    clusters.update_chains(f, states, seeds, 20, True, site, pair)
    mean, both = enumerated(n, edges, np.array(J), h)
    s = 2.0 * states - 1.0
    error = np.sqrt((1.0 - mean**2) / chains), np.sqrt((1.0 - both**2) / chains)
    assert (np.abs(s.mean(0) - mean) <= 5 * error[0] + 1e-4).all()
    assert (np.abs((s[:, first] * s[:, second]).mean(0) - both) <= 5 * error[1] + 1e-4).all()
    assert (np.abs(site / (20 * chains) - mean) <= 5 * error[0] + 1e-4).all()
    assert (np.abs(pair / (20 * chains) - both) <= 5 * error[1] + 1e-4).all()


def test_gauge():
    """Signs that make all couplings positive, where there are any; parts that stand alone."""
    for name, (n, edges, J) in GRAPHS.items():
        first, second = arrays(edges)
        found = clusters.gauge(n, first, second, np.array(J))
        assert found.frustrated.any() == (name == "frustrated loop")
        if not found.frustrated.any():
            assert (J * found.sign[first] * found.sign[second] >= 0.0).all()
    n, edges, J = GRAPHS["zero couplings"]
    assert list(clusters.gauge(n, *arrays(edges), np.array(J)).part) == [0, 1, 1, 3, 3]
    rng = np.random.default_rng(0)
    grid = bf.grid(6, 6)
    ends, flips = np.array(grid.edges), rng.choice([-1, 1], 36)
    for sign, helps in (flips[ends[:, 0]] * flips[ends[:, 1]], True), (rng.choice([-1, 1], 60), False):
        compiled_field = compiled(grid)
        theta = compiled_field.design.potentials(np.r_[rng.normal(size=36), 0.8 * sign])
        assert clusters_help(compiled_field.graph, theta) is helps


def energy(L, K):
    """Mean of s_i s_j over the torus' edges: the derivative of log Z."""
    return (log_z(L, K + 1e-5) - log_z(L, K - 1e-5)) / 2e-5 / (2 * L * L)


def torus(L):
    site = np.arange(L * L).reshape(L, L)
    edges = np.concatenate([np.stack([site.ravel(), np.roll(site, -1, axis).ravel()]) for axis in (0, 1)], axis=1)
    return edges.astype(np.int32)


def test_kaufman_against_enumeration():
    s = np.array(list(itertools.product((-1, 1), repeat=9)))
    first, second = torus(3)
    for K in 0.2, 0.44, 0.7:
        assert log_z(3, K) == pytest.approx(np.log(np.exp(K * (s[:, first] * s[:, second]).sum(1)).sum()), abs=1e-9)


@pytest.mark.parametrize("K", [0.3, 0.44, 0.6])
def test_torus_energies(K):
    """64×64, 32 chains of 400 updates after 100: within 3 errors of whole chains' means (0.5 % with 31 degrees)."""
    first, second = torus(64)
    f = clusters.spins(first, second, np.full(8192, K), np.zeros(4096))
    found = []
    for c in range(32):
        states = np.random.default_rng(c).integers(0, 2, (1, 4096), dtype=np.int32)
        seeds, site, pair = parallel.chain_seeds(c, 1), np.zeros(4096), np.zeros(8192)
        clusters.update_chains(f, states, seeds, 100, False, site, pair)
        clusters.update_chains(f, states, seeds, 400, True, site, pair)
        found.append(pair.mean() / 400)
    error = np.std(found, ddof=1) / np.sqrt(32)
    assert error < 1e-3
    assert abs(np.mean(found) - energy(64, K)) < 3 * error


def agree(field, parameters, engine, moves):
    """Means within 6 of their errors (15 degrees of freedom, some hundred means: one in 100), declared mixed."""
    beliefs, exact = bf.infer(field, parameters, engine), bf.infer(field, parameters, bf.Exact())
    assert beliefs.status.converged, beliefs.status
    assert beliefs.mixing <= 1.0
    assert (beliefs.marginals.state.moves or Single()).name == moves
    assert (np.abs(beliefs.mean - exact.mean) <= 6 * beliefs.error + 2e-3).all()
    return beliefs


def test_auto_takes_what_mixes():
    """Single sites where these mix, with the draws that they have by hand; clusters for a magnet; else a ladder."""
    easy = bf.grid(4, 4), np.r_[np.zeros(16), np.full(24, 0.2)]
    auto = agree(*easy, bf.Sampled(), "single")
    np.testing.assert_array_equal(auto.mean, bf.infer(*easy, bf.Sampled(moves="single")).mean)
    assert "by clusters" in str(agree(*ferromagnet(5), bf.Sampled(), "clusters").status)
    found = agree(*plus_minus(5), bf.Sampled(chains=1024), "tempering")
    assert "temperatures, swap rates" in str(found.status)


def test_general_tables_by_tempering():
    """Three states, in every table: Potts couplings that single sites do not cross."""
    field = bf.potts(9, bf.grid(3, 3).edges, states=("a", "b", "c"))
    parameters = np.r_[np.zeros(field.n_parameters - 12), np.full(12, 2.0)]
    agree(field, parameters, bf.Sampled(chains=1024, moves="tempering"), "tempering")


def test_ladder_rates_are_equal():
    """Swap rates of 1/2, each within 0.12, on a ladder from 0 to 1; energies as the tables say."""
    field, parameters = plus_minus(6)
    c = compiled(field)
    theta = c.design.potentials(parameters)
    betas = place(c.graph, theta, Single(), 0)
    assert (betas[0], betas[-1]) == (0.0, 1.0)
    thetas = np.broadcast_to(theta, (4, len(theta)))
    ladder = tempered(c.graph, thetas, 512, 0, Single())
    states, seeds = np.random.default_rng(0).integers(0, 2, (512, 36), dtype=np.int32), parallel.chain_seeds(9, 512)
    ladder.run(c.graph, thetas, states, seeds, 40, count=False)
    counted = ladder.copy()
    counted.run(c.graph, thetas, states, seeds, 40, count=False)
    assert (np.abs(counted.rates - counted.rates.mean()) < 0.12).all()
    assert 0.4 < counted.rates.mean() < 0.75
    wanted = np.empty(512)
    table_kernel.energies(c.graph.arrays, theta, states, wanted)
    np.testing.assert_allclose(energies_of(c.graph, thetas, states), wanted, atol=1e-10)


@pytest.mark.parametrize(
    "make",
    [
        lambda: plus_minus(5),
        lambda: ferromagnet(5),
        pytest.param(sherrington, marks=pytest.mark.slow),
        pytest.param(lambda: plus_minus(12), marks=pytest.mark.slow),
        pytest.param(lambda: ferromagnet(10), marks=pytest.mark.slow),
    ],
    ids=["±J 5×5", "ferromagnet 5×5", "SK 20", "±J 12×12", "ferromagnet 10×10"],
)
def test_log_z_along_the_ladder(make):
    """Within 0.1 nat, and within 6 of its errors and 0.01."""
    field, parameters = make()
    c = compiled(field)
    found = bf.Sampled(chains=512, moves="tempering").log_partition(c.graph, c.design.potentials(parameters), 0.03)
    gap = abs(found.value - bf.infer(field, parameters, bf.Exact()).log_z)
    assert gap < 0.1
    assert gap < 6 * found.error + 0.01
    assert found.mixing <= 1.0


def test_draws_mix():
    """Magnets' draws no longer warn: |m| of 400 draws within 5 errors of that of exact ones, and both signs occur."""
    field, parameters = ferromagnet(4)
    x = bf.sample(field, parameters, 400, 0, engine=bf.Sampled()).mean(axis=1)
    exact = bf.sample(field, parameters, 4000, 0).mean(axis=1)
    assert abs(np.abs(x).mean() - np.abs(exact).mean()) < 5 * np.abs(exact).std() / np.sqrt(360)
    assert abs((x > 0).mean() - 0.5) < 0.125


def compare(field, parameters, cases, engine, moves):
    """Root mean square of the mode's distance in sd, and the sds' largest relative difference, to the exact fit."""
    X = bf.sample(field, parameters, cases, 0)
    prior = bf.Normal(variance=1.0)
    exact = bf.fit(field, X, prior, engine="exact", correction="none")
    sampled = bf.fit(field, X, prior, engine=engine, correction="none")
    assert sampled.record.status.outcome is bf.Outcome.OPTIMUM, sampled.record.status
    assert sampled.record.status.mixing <= 1.0
    assert moves in str(sampled.record.status)
    assert np.sqrt(np.mean(((sampled.mode - exact.mode) / exact.sd) ** 2)) < 0.05
    np.testing.assert_allclose(sampled.sd, exact.sd, rtol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "moves"), [(5, "clusters"), (7, ""), (10, "clusters")])
def test_fit_of_ferromagnets(size, moves):
    """Of 7×7 the search ends with a ladder of temperatures, which mixes as well."""
    compare(*ferromagnet(size), 500, bf.Sampled(error=0.025), moves)


@pytest.mark.slow
@pytest.mark.parametrize("make", [sherrington, lambda: plus_minus(12)], ids=["SK 20", "±J 12×12"])
def test_fit_of_glasses(make):
    compare(*make(), 500, bf.Sampled(error=0.025), "")


def test_what_cannot_be_is_refused():
    with pytest.raises(bf.InvalidInput, match="must be one of"):
        bf.Sampled(moves="wolff")
    field = bf.potts(3, [(0, 1), (1, 2)], 3)
    with pytest.raises(bf.InvalidInput, match="two states"):
        bf.infer(field, np.zeros(field.n_parameters), bf.Sampled(moves="clusters"))
    assert str(Clusters()) == "by clusters"


@pytest.mark.parametrize("answers", [2, 4])
def test_ladder_of_scored_pairs(answers):
    """One kernel for all temperatures of a dense field: states, expectations and energies, batches at different θ.

    20,000 chains from random states; single sites alone would not cross between the field's two phases. Means of states
    within 5 errors of enumeration; expectations of features within 3 % of a standard deviation (some 5 errors).
    """
    n, chains, batches, rng = 5, 20_000, 4, np.random.default_rng(3)
    pairs = list(itertools.combinations(range(n), 2))
    field = bf.pairwise(n, pairs) if answers == 2 else bf.ordinal(n, pairs, answers)
    c = compiled(field)
    nodes = np.array(list(field.groups)) == "nodes"
    scores = scored_pairs(c.graph, c.design)
    strength = 1.5 if answers == 2 else 0.35
    parameters = [np.where(nodes, 0.3, strength) * rng.normal(1.0, 0.2, field.n_parameters) for _ in range(batches)]
    thetas = np.array([c.design.potentials(p) for p in parameters])
    inner = Single(scores=scores)
    ladder = tempered(c.graph, thetas, chains, 0, inner)
    states = rng.integers(0, answers, (chains, n), dtype=np.int32)
    seeds = parallel.chain_seeds(4, chains)
    ladder.run(c.graph, thetas, states, seeds, 60, count=False)
    counted = ladder.copy()
    counted.record = []
    sums = counted.run(c.graph, thetas, states, seeds, 12)
    assert len(counted.record) == 12
    assert counted.rates.shape == (len(ladder.betas) - 1,)
    assert ((counted.rates > 0.2) & (counted.rates < 1.0)).all()
    each = chains // batches
    for b, parameters_b in enumerate(parameters):
        exact = bf.infer(field, parameters_b, bf.Enumeration())
        part = states[b * each : (b + 1) * each]
        seen = np.array([np.bincount(column, minlength=answers) for column in part.T]) / each
        p = np.array(exact.variables)
        assert (np.abs(seen - p) <= 5 * np.sqrt(p * (1 - p) / each) + 1e-4).all()
        mean = c.design.expectations(normalised(c.graph.arrays, sums[b : b + 1])[0])
        sd = np.sqrt(np.diag(bf.covariance(field, parameters_b, bf.Enumeration())))
        assert (np.abs(mean - exact.mean) <= 0.03 * sd).all()
    every = [*counted.states, states]  # swaps leave the sum over temperatures as it is
    energies = np.sum([energies_of(c.graph, thetas, x) for x in every], axis=0)
    np.testing.assert_allclose(counted.record[-1].sum(axis=0), energies, atol=1e-3)
