"""Chains of labels: every answer against enumeration, every derivative against finite differences."""

import itertools

import numpy as np
import pytest

import bayesfield as bf
from bayesfield import parallel
from bayesfield.fitting.sequences import fit_sequences
from bayesfield.inference.trees.chain import best_labellings, chain_draws, chain_marginals, chain_tangent, forward_log_z
from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.learning.objective import gaussian
from bayesfield.learning.phases import chain as chain_phase
from bayesfield.learning.phases import chain_covariance
from bayesfield.learning.phases.cases import field_objective
from bayesfield.learning.phases.chain import worth_it
from bayesfield.learning.phases.crf_design import potentials
from bayesfield.learning.phases.sequences import sequence_objective
from bayesfield.learning.precision.at import precision_at
from bayesfield.model.conditional import CRF, as_sequences
from bayesfield.samplers.contrasts import Steps, contrast_of
from bayesfield.samplers.sample import sample_sequences

from tolerances import ALGEBRA

LENGTHS = [(4,), (1,), (3, 1, 0, 4), (0,), (2, 2, 5)]


def problem(lengths, K=3, Q=2, seed=0, forbid=False):
    rng = np.random.default_rng(seed)
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    P = int(ptr[-1])
    chains = ChainArrays(ptr, rng.integers(0, Q, P))
    node, edge = 1.5 * rng.normal(size=(P, K)), 1.5 * rng.normal(size=(Q, K, K))
    if forbid:
        edge[:, 0, 1] = -np.inf
    return chains, node, edge


def labellings(chains, node, edge, s):
    """All labellings of one sequence with their log-weights."""
    begin, end = chains.ptr[s], chains.ptr[s + 1]
    found = []
    for y in itertools.product(range(node.shape[1]), repeat=end - begin):
        score = sum(node[begin + t, k] for t, k in enumerate(y))
        score += sum(edge[chains.which[begin + t], y[t], y[t + 1]] for t in range(len(y) - 1))
        found.append((score, y))
    return found


def brute(chains, node, edge):
    """log Z, marginals and expected transitions by enumeration."""
    log_z, marginal, pairs = [], np.zeros_like(node), np.zeros_like(edge)
    for s in range(len(chains.ptr) - 1):
        every = labellings(chains, node, edge, s)
        log_z.append(np.logaddexp.reduce([score for score, _ in every]))
        for score, y in every:
            p = np.exp(score - log_z[-1])
            for t, k in enumerate(y):
                marginal[chains.ptr[s] + t, k] += p
            for t in range(len(y) - 1):
                pairs[chains.which[chains.ptr[s] + t], y[t], y[t + 1]] += p
    return np.array(log_z), marginal, pairs


@pytest.mark.parametrize("forbid", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_marginals_are_those_of_enumeration(lengths, forbid):
    chains, node, edge = problem(lengths, forbid=forbid)
    found = chain_marginals(chains, node, edge)
    for got, wanted in zip((found.log_z, found.marginal, found.transitions), brute(chains, node, edge), strict=True):
        np.testing.assert_allclose(got, wanted, atol=ALGEBRA)
    assert found.finite
    np.testing.assert_array_equal(forward_log_z(chains, node, edge), found.log_z)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_tangent_is_the_derivative(lengths):
    chains, node, edge = problem(lengths, seed=1)
    rng = np.random.default_rng(2)
    found = chain_marginals(chains, node, edge)
    dn, de = rng.normal(size=(*node.shape, 3)), rng.normal(size=(*edge.shape, 3))
    moved, pairs = chain_tangent(chains, found, dn, de)
    h = 1e-5
    for d in range(3):
        up, down = (chain_marginals(chains, node + s * h * dn[..., d], edge + s * h * de[..., d]) for s in (1, -1))
        np.testing.assert_allclose(moved[..., d], (up.marginal - down.marginal) / (2 * h), atol=1e-8)
        np.testing.assert_allclose(pairs[..., d], (up.transitions - down.transitions) / (2 * h), atol=1e-8)


@pytest.mark.parametrize("forbid", [False, True])
@pytest.mark.parametrize("count", [1, 2, 7, 30])
def test_best_labellings(count, forbid):
    chains, node, edge = problem((3, 1, 0, 4), seed=3, forbid=forbid)
    labels, scores = best_labellings(chains, node, edge, count)
    for s in range(4):
        every = [(v, y) for v, y in labellings(chains, node, edge, s) if v > -np.inf]
        wanted = sorted(every, reverse=True)[:count]
        np.testing.assert_allclose(scores[s, : len(wanted)], [v for v, _ in wanted], atol=ALGEBRA)
        assert (scores[s, len(wanted) :] == -np.inf).all()
        for r, (_, y) in enumerate(wanted):
            assert tuple(labels[r, chains.ptr[s] : chains.ptr[s + 1]]) == y


def test_draws_have_the_marginals():
    """20,000 draws of 3 + 4 positions: frequencies within 5 standard errors (21 numbers; false alarm 1e-5)."""
    chains, node, edge = problem((3, 4), seed=4, forbid=True)
    found = chain_marginals(chains, node, edge)
    labels = chain_draws(chains, found, 20_000, np.random.default_rng(0))
    for k in range(3):
        p = found.marginal[:, k]
        assert (np.abs((labels == k).mean(axis=0) - p) < 5 * np.sqrt(p * (1 - p) / 20_000) + 1e-12).all()
    for t in (0, 1, 3, 4, 5):
        assert not ((labels[:, t] == 0) & (labels[:, t + 1] == 1)).any()


def test_long_chains_do_not_underflow_and_impossible_ones_say_so():
    chains, node, edge = problem((5000,), K=2)
    found = chain_marginals(chains, 20 * node, edge)
    assert np.isfinite(found.log_z).all()
    np.testing.assert_allclose(found.marginal.sum(axis=1), 1.0, atol=1e-12)
    chains, node, edge = problem((3,), K=2)
    edge[:] = -np.inf
    assert not chain_marginals(chains, node, edge).finite


def test_numbers_do_not_depend_on_the_cores(monkeypatch):
    chains, node, edge = problem((30,) * 400, K=20)
    many = chain_marginals(chains, node, edge)
    monkeypatch.setattr(parallel, "_limit", 1)
    one = chain_marginals(chains, node, edge)
    np.testing.assert_array_equal(one.transitions, many.transitions)
    np.testing.assert_array_equal(one.marginal, many.marginal)


# --- the objective --------------------------------------------------------------------------------------------------


def crf_problem(kind, seed=0):
    rng = np.random.default_rng(seed)
    lengths = (4, 1, 3, 0, 2)
    X = [rng.normal(size=(T, 3)) * (rng.random((T, 3)) < 0.7) for T in lengths]
    if kind == "spins":
        crf = CRF(("a", "b"), 3, 2, [[-1.0, 1.0]], [[[1.0, -1.0], [-1.0, 1.0]]])
        Z = [rng.integers(0, 2, size=(max(T - 1, 0), 2)).astype(float) for T in lengths]
    else:
        crf, Z = CRF(("a", "b", "c"), ["u", "v", "w"]), None
    y = [[crf.labels[k] for k in rng.integers(0, len(crf.labels), T)] for T in lengths]
    return crf, as_sequences(crf, X, y, Z), X, y, Z


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("kind", ["spins", "indicators"])
def test_value_gradient_and_curvature(kind, full):
    crf, data, *_ = crf_problem(kind)
    F = crf.n_parameters
    prior = bf.Normal(covariance=0.5 * np.eye(F) + 0.1, mean=0.2) if full else bf.Normal(variance=0.7)
    objective = sequence_objective(crf, data, gaussian(prior, crf))
    rng = np.random.default_rng(5)
    here, h = rng.normal(size=F), 1e-5
    point = objective.at(here)
    assert len(crf.parameter_names) == F == len(set(crf.parameter_names)) == len(crf.groups)
    log_z, *_ = brute(objective.free.chains, *potentials(crf, data, here))
    truth = log_z.sum() - here @ objective.statistic - objective.prior.log_kernel(here)
    assert point.value == pytest.approx(truth, abs=1e-9)
    moves = [(objective.at(here + h * e), objective.at(here - h * e)) for e in np.eye(F)]
    np.testing.assert_allclose(point.gradient, [(a.value - b.value) / (2 * h) for a, b in moves], atol=1e-7)
    wanted = np.array([(a.gradient - b.gradient) / (2 * h) for a, b in moves])
    np.testing.assert_allclose(objective.curvature(point), wanted, atol=1e-7)
    v = rng.normal(size=(F, 2))
    product = precision_at(objective, point, "dense").product(v)
    np.testing.assert_allclose(product, wanted @ v, atol=1e-6)
    assert (objective.variances(point) > 0).all()


@pytest.mark.parametrize("lean", [False, True])
@pytest.mark.parametrize("kind", ["plain", "edge inputs", "tables", "tables and edge inputs"])
def test_variances_are_those_of_each_position_and_pair(kind, lean, monkeypatch):
    """Σ_t x² Var(B) and Σ_t z² Var(T), by enumeration: how inputs differ between positions counts."""
    monkeypatch.setattr(chain_phase, "_LEAN", 0 if lean else 10**9)
    rng = np.random.default_rng(2)
    edges = ["near", "far"] if "edge inputs" in kind else None
    tables = rng.normal(size=(2, 3, 3)) if "tables" in kind else None
    crf = CRF(3, 2, edges, edge_tables=tables)
    X = [2.0 * rng.normal(size=(T, 2)) for T in (4, 1, 0, 3, 5)]
    Z = [rng.normal(size=(max(len(x) - 1, 0), 2)).round() for x in X] if edges else None
    data = as_sequences(crf, X, [[0] * len(x) for x in X], Z)
    objective = sequence_objective(crf, data, gaussian(bf.Normal(variance=1.0), crf))
    here = rng.normal(size=crf.n_parameters)
    node, edge = potentials(crf, data, here)
    chains, wanted = objective.free.chains, np.ones(crf.n_parameters)
    for s in range(len(X)):
        every = labellings(chains, node, edge, s)
        p = np.exp([score for score, _ in every] - np.logaddexp.reduce([score for score, _ in every]))
        for t in range(len(X[s])):
            own = np.array([q * np.eye(3)[y[t]] for q, (_, y) in zip(p, every, strict=True)]).sum(axis=0)
            wanted[:6] += np.outer(X[s][t] ** 2, own * (1 - own)).ravel()
        for t in range(len(X[s]) - 1):
            joint = np.zeros((3, 3))
            for q, (_, y) in zip(p, every, strict=True):
                joint[y[t], y[t + 1]] += q
            mean = np.einsum("hij,ij->h", crf.edge_tables, joint)
            spread = np.einsum("hij,ij->h", crf.edge_tables**2, joint) - mean**2
            wanted[6:] += np.outer(np.ones(1) if Z is None else Z[s][t] ** 2, spread).ravel()
    np.testing.assert_allclose(objective.variances(objective.at(here)), wanted, atol=1e-10)


def test_a_crf_is_a_field_over_all_labels_with_one_case():
    """The union of the chains as one random field, its parameters tied: same value and gradient."""
    crf, data, X, y, Z = crf_problem("spins")
    spin = np.array([-1.0, 1.0])
    factors, variables, values = [], {}, []
    for n, x in enumerate(X):
        for t in range(len(x)):
            variables[f"{n},{t}"] = ("a", "b")
            values.append(y[n][t])
            factors.append(bf.Factor(f"{n},{t}", {name: x[t, d] * spin for d, name in enumerate(crf.inputs)}))
            if t + 1 < len(x):
                table = np.outer(spin, spin)
                named = {name: Z[n][t, e] * table for e, name in enumerate(crf.edge_inputs)}
                factors.append(bf.Factor((f"{n},{t}", f"{n},{t + 1}"), named))
    field = bf.RandomField(variables, factors)
    assert sorted(field.parameter_names) == sorted(crf.parameter_names)
    order = [crf.parameter_names.index(name) for name in field.parameter_names]
    whole = field_objective(field, np.array([values]), bf.Normal(variance=0.7), bf.Exact())
    objective = sequence_objective(crf, data, gaussian(bf.Normal(variance=0.7), crf))
    here = np.random.default_rng(6).normal(size=crf.n_parameters)
    one, other = objective.at(here), whole.at(here[order])
    assert one.value == pytest.approx(other.value, abs=1e-9)
    np.testing.assert_allclose(one.gradient[order], other.gradient, atol=1e-9)


@pytest.mark.parametrize(
    ("X", "y", "Z", "text"),
    [
        ([np.zeros((2, 4))], [["a", "b"]], None, "3 columns"),
        ([np.zeros((2, 3))], [["a"]], None, "2 positions and 1 labels"),
        ([np.zeros((2, 3))], [["a", "z"]], None, "label 'z'"),
        ([np.zeros((2, 3))], [], None, "1 sequences of inputs and 0 of labels"),
        ([np.full((2, 3), np.nan)], [["a", "b"]], None, "finite"),
        ([[["x", "y", "z"]]], [["a"]], None, "numbers"),
        ([np.zeros(3)], [["a"]], None, "row for each position"),
        ([np.zeros((3, 3))], [["a"] * 3], [np.zeros((1, 1))], "edge inputs need shape"),
    ],
)
def test_bad_sequences_are_refused(X, y, Z, text):
    crf = CRF(("a", "b", "c"), 3)
    with pytest.raises(bf.InvalidInput, match=text):
        as_sequences(crf, X, y, Z)


def test_block_precision_is_exact_where_nothing_is_left_out():
    """One input at a position: its block is all there is. Sequences of two: the transitions' block is exact too."""
    rng = np.random.default_rng(7)
    crf = CRF("abc", 4)
    X = [np.eye(4)[rng.integers(0, 4, 1)] * rng.uniform(0.5, 2.0) for _ in range(30)]
    y = [list(rng.choice(list("abc"), 1)) for _ in X]
    here = rng.normal(size=crf.n_parameters)
    for lengths in (1, 2):
        if lengths == 2:
            X, y = [np.vstack([x, x]) for x in X], [[*a, *b] for a, b in zip(y, reversed(y), strict=True)]
        objective = sequence_objective(crf, as_sequences(crf, X, y), gaussian(bf.Normal(variance=0.8), crf))
        point = objective.at(here)
        dense = objective.curvature(point)
        block = precision_at(objective, point, "block")
        matrix = block.product(np.eye(crf.n_parameters))
        if lengths == 1:
            np.testing.assert_allclose(matrix, dense, atol=1e-10)
        np.testing.assert_allclose(matrix[12:, 12:], dense[12:, 12:], atol=1e-10)
        v = rng.normal(size=(crf.n_parameters, 3))
        np.testing.assert_allclose(block.product(block.solve(v)), v, atol=1e-10)
        np.testing.assert_allclose(block.solve(v[:, 0]), block.solve(v)[:, 0], atol=1e-12)
        root = block.draws(np.eye(crf.n_parameters))
        np.testing.assert_allclose(root @ root.T, np.linalg.inv(matrix), atol=1e-10)
        np.testing.assert_allclose(block.sd, np.sqrt(np.diag(np.linalg.inv(matrix))), atol=1e-12)


def test_block_posterior_of_edge_inputs_and_its_widths():
    """Widths given all other weights are never above the full ones; corrections are refused."""
    crf, data, *_ = crf_problem("spins")
    full = fit_sequences(crf, data, correction="none")
    with pytest.warns(bf.FitWarning, match="this posterior is poor"):  # block widths, uncorrected
        block = fit_sequences(crf, data, form="block")
    np.testing.assert_allclose(block.mode, full.mode, atol=1e-5)
    assert block.record.form == "block"
    assert "too narrow where blocks go together" in str(block.record)
    assert "too rough" in block.record.correction.reason
    n = crf.n_state
    conditional = 1 / np.sqrt(np.diag(full.precision)[:n])
    assert (block.sd[:n] < 1.3 * full.sd[:n]).all()
    np.testing.assert_allclose(block.sd[:n], conditional, rtol=0.5)
    with pytest.raises(bf.InvalidInput, match="needs all of the precision"):
        fit_sequences(crf, data, form="block", correction="mean")


@pytest.mark.parametrize("sampler", [bf.Metropolis(), bf.Exchange(), bf.Moller()], ids=repr)
@pytest.mark.parametrize("kind", ["spins", "indicators"])
def test_samplers_agree_on_a_chain_crf(sampler, kind):
    """NUTS and the others, all exact: means within 4.5 standard errors (at most 20 numbers; false alarm 1e-4)."""
    crf, data, *_ = crf_problem(kind)
    first = sample_sequences(crf, data, prior=bf.Normal(variance=0.5), sampler=bf.NUTS(), n_draws=2000)
    second = sample_sequences(crf, data, prior=bf.Normal(variance=0.5), sampler=sampler, n_draws=1000, thin=10, rng=1)
    one, other = first.summary(), second.summary()
    gap = (one["mean"] - other["mean"]) / np.hypot(one["mcse"], other["mcse"])
    assert np.abs(gap).max() < 4.5
    assert first.mpsrf < 1.02


def test_drawn_labels_have_the_chains_own_means():
    """Features of 4,000 drawn labellings against E[f] by forward and backward passes: within 4.5 standard errors."""
    for kind in ("spins", "indicators"):
        crf, data, *_ = crf_problem(kind)
        phase = sequence_objective(crf, data, gaussian(bf.Normal(variance=0.5), crf)).free
        here, rng = 0.6 * np.random.default_rng(2).normal(size=crf.n_parameters), np.random.default_rng(5)
        drawn = np.array([phase.drawn(here, bf.Exact(), rng) for _ in range(4000)])
        by_tree = np.array([phase.by_tree.drawn(here, bf.Exact(), rng) for _ in range(500)])
        for sums in (drawn, by_tree):
            error = np.maximum(sums.std(axis=0) / np.sqrt(len(sums)), 1e-9)
            assert np.abs((sums.mean(axis=0) - phase.at(here).mean) / error).max() < 4.5


def test_variational_posterior_of_a_chain_crf_is_near_the_sampled_one():
    """Few data, wide prior: the corrected mean is within 0.15 sd of NUTS's in every parameter, the mode is not."""
    crf, data, *_ = crf_problem("indicators")
    prior = bf.Normal(variance=2.0)
    truth = sample_sequences(crf, data, prior=prior, n_draws=3000).summary()
    fitted = fit_sequences(crf, data, prior=prior, correction="variational")
    away = np.abs(fitted.mean - truth["mean"]) / truth["sd"]
    assert away.max() < 0.15
    assert (np.abs(fitted.mode - truth["mean"]) / truth["sd"]).max() > 2 * away.max()
    np.testing.assert_allclose(fitted.sd, truth["sd"], rtol=0.15)


@pytest.mark.parametrize("kind", ["spins", "indicators"])
def test_contrastive_gradient_after_many_sweeps_is_the_gradient(kind):
    """400 gradients after 40 sweeps: their mean within 5 standard errors of the exact one (false alarm below 1e-4)."""
    crf, data, *_ = crf_problem(kind)
    objective = sequence_objective(crf, data, gaussian(bf.Normal(variance=0.5), crf))
    here = 0.5 * np.random.default_rng(3).normal(size=crf.n_parameters)
    contrast, seed = contrast_of(objective), parallel.chain_seeds(1, 1)
    slopes, unit = [], np.eye(crf.n_parameters)
    for _ in range(400):  # a step of size √2 without noise moves by the gradient itself
        x, kept = here.copy(), np.empty((1, crf.n_parameters))
        contrast.drift(Steps(unit, np.zeros((1, crf.n_parameters)), np.sqrt(2.0), 40), x, seed, kept)
        slopes.append(x - here)
    mean, error = np.mean(slopes, axis=0), np.std(slopes, axis=0) / 20 + 1e-9
    assert np.abs((mean + objective.at(here).gradient) / error).max() < 5.0


def test_langevin_on_a_chain_crf():
    """LV-CD after many sweeps is near NUTS; after one it is what it is. Small steps, so little widening."""
    crf, data, *_ = crf_problem("spins")
    prior = bf.Normal(variance=0.5)
    truth = sample_sequences(crf, data, prior=prior, n_draws=2000).summary()
    langevin = sample_sequences(crf, data, prior=prior, sampler=bf.Langevin(sweeps=20, step=0.3), n_draws=3000, thin=10)
    away = (langevin.summary()["mean"] - truth["mean"]) / truth["sd"]
    assert np.abs(away).max() < 0.2
    np.testing.assert_allclose(langevin.summary()["sd"], truth["sd"], rtol=0.15)
    again = sample_sequences(crf, data, prior=prior, sampler=bf.Langevin(sweeps=20, step=0.3), n_draws=3000, thin=10)
    np.testing.assert_array_equal(langevin.values, again.values)


@pytest.mark.parametrize("kind", ["spins", "indicators"])
@pytest.mark.parametrize("slab", [1, 5, 1000])
def test_covariance_by_sequence_is_the_covariance(kind, slab, monkeypatch):
    """Products of each sequence's own covariance against directions carried along all of them."""
    monkeypatch.setattr(chain_covariance, "_SLAB", slab)
    crf, data, *_ = crf_problem(kind)
    objective = sequence_objective(crf, data, gaussian(bf.Normal(variance=0.5), crf))
    point = objective.at(np.random.default_rng(4).normal(size=crf.n_parameters))
    wanted = objective.response(point).product(np.eye(crf.n_parameters))
    found = chain_covariance.covariance_by_sequence(crf, data, point.answers[0].found)
    np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_short_sequences_take_the_covariance_by_sequence():
    rng = np.random.default_rng(5)
    crf = CRF("abc", 30)
    data = as_sequences(crf, [rng.normal(size=(3, 30)) for _ in range(4)], [list("abc")] * 4)
    assert worth_it(crf, data)
    objective = sequence_objective(crf, data, gaussian(bf.Normal(variance=0.5), crf))
    point = objective.at(rng.normal(size=crf.n_parameters))
    response = objective.response(point)
    np.testing.assert_allclose(response.covariance(), response.product(np.eye(crf.n_parameters)), atol=1e-9)
    long = as_sequences(crf, [rng.normal(size=(30, 30))], [list("abc") * 10])
    assert not worth_it(crf, long)
