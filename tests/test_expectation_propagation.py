"""Expectation propagation for chains: its fixed point against quadrature, its posterior against sampling."""

import itertools

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.fitting.sequences import fit_sequences
from bayesfield.learning.baselines.expectation_propagation import _Passes, expectation_propagation
from bayesfield.learning.objective import gaussian
from bayesfield.learning.phases.sequences import sequence_objective
from bayesfield.learning.search.minimise import newton
from bayesfield.model.conditional import CRF, as_sequences
from bayesfield.prediction.chain import predict_sequences
from bayesfield.samplers.sample import sample_sequences

SIGNS = {"node_tables": [[-1, 1]], "edge_tables": [[[1, -1], [-1, 1]]]}


def labelled(seed, lengths, D=2, labels="ab", **tables):
    rng = np.random.default_rng(seed)
    crf = CRF(labels, D, **tables)
    X = [rng.normal(size=(T, D)) for T in lengths]
    y = [
        [labels[int(v)] for v in np.clip(np.round(x[:, 0] + 0.7 * rng.normal(size=len(x)) + 0.5), 0, len(labels) - 1)]
        for x in X
    ]
    return crf, as_sequences(crf, X, y)


def objective_of(crf, data, variance):
    return sequence_objective(crf, data, gaussian(bf.Normal(variance=variance), crf))


def ended(crf, data, variance=1.0):
    objective = objective_of(crf, data, variance)
    mode = newton(objective, objective.prior.location, 1e-8, 100).parameters
    return objective, expectation_propagation(objective, mode)


def test_moments_match_by_quadrature():
    """Single positions: with w one number, q / Z̃_k · Z_k has q's mean and variance for every factor k."""
    crf, data = labelled(0, [1] * 6, D=1, **SIGNS)
    objective, found = ended(crf, data)
    assert found.status.converged
    passes = _Passes(objective)
    sites = passes.at_mode(found.mean)
    covariance = None
    for _ in range(200):  # to the fixed point, as the library does but for the stopping
        mean, covariance, _ = passes.gaussian(sites)
        sites = type(sites)(
            *(0.5 * a + 0.5 * b for a, b in zip(sites, passes.updated(sites, mean, covariance), strict=True))
        )
    w = np.linspace(-12, 12, 20_001)
    m, v = mean[0], covariance[0, 0]
    for k, x in enumerate(data.inputs.toarray()[:, 0]):
        u = np.stack([-x * w, x * w], axis=1)
        log_site = u @ sites.h[k] + 0.5 * np.einsum("wi,ij,wj->w", u, sites.C[k], u)
        log_tilted = -0.5 * (w - m) ** 2 / v - log_site + np.logaddexp(u[:, 0], u[:, 1])
        p = np.exp(log_tilted - log_tilted.max())
        p /= p.sum()
        np.testing.assert_allclose([p @ w, p @ w**2 - (p @ w) ** 2], [m, v], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found.mean, mean, atol=2e-4)


@pytest.mark.parametrize(("labels", "tables"), [("ab", SIGNS), ("ab", {}), ("abc", {})])
def test_passes_equal_loops(labels, tables):
    """Precision and right-hand side against sums over factors, one by one."""
    crf, data = labelled(1, [3, 1, 2], labels=labels, **tables)
    objective = objective_of(crf, data, 0.5)
    passes, rng = _Passes(objective), np.random.default_rng(2)
    sites = passes.at_mode(rng.normal(size=crf.n_parameters))
    mean, covariance, _ = passes.gaussian(sites)
    P, right = objective.prior.matrix(), objective.statistic.copy()
    x, K = data.inputs.toarray(), len(labels)
    pairs = [t for s in range(len(data)) for t in range(data.ptr[s], data.ptr[s + 1] - 1)]
    for t in range(data.positions):
        phi = np.zeros((K, crf.n_parameters))
        phi[:, : crf.n_state] = np.einsum("d,gk->kdg", x[t], crf.node_tables).reshape(K, -1)
        P, right = P + phi.T @ sites.C[t] @ phi, right - phi.T @ sites.h[t]
    for k in range(len(pairs)):
        phi = np.zeros((K * K, crf.n_parameters))
        for row, (i, j) in enumerate(itertools.product(range(K), repeat=2)):
            phi[row, crf.n_state :] = crf.edge_tables[:, i, j]
        P, right = P + phi.T @ sites.C_pair[k] @ phi, right - phi.T @ sites.h_pair[k]
    np.testing.assert_allclose(covariance, np.linalg.inv(P), atol=1e-10)
    np.testing.assert_allclose(mean, np.linalg.solve(P, right), atol=1e-10)


def test_near_the_true_posterior_where_positions_are_independent():
    """Few cases, wide prior: closer to NUTS's mean than the mode is. Its 4,000 draws give means to about 0.03 sd."""
    crf, data = labelled(3, [1] * 12)
    ep = fit_sequences(crf, data, method="ep", prior=bf.Normal(variance=4.0))
    truth = sample_sequences(crf, data, prior=bf.Normal(variance=4.0), n_draws=1000, rng=0)
    mean, sd = truth.flat.mean(axis=0), truth.flat.std(axis=0)
    n = crf.n_state
    off = [np.abs((point - mean) / sd)[:n].max() for point in (ep.mean, ep.mode)]
    assert off[0] < 0.1 < off[1]
    np.testing.assert_allclose((ep.sd / sd)[:n], 1.0, atol=0.12)


def test_predicts_like_any_posterior():
    crf, data = labelled(4, [6, 5, 7, 4], labels="abc")
    ep = fit_sequences(crf, data, method="ep")
    assert ep.record.method == "ep"
    assert ep.record.status.converged
    assert ep.record.correction.kind == "expectation propagation"
    assert ep.record.correction.settled
    for method in ("map", "marginal", "vote", "quadratic"):
        found = predict_sequences(ep, data, method)
        assert np.mean(found.labels == data.labels) > 0.5
    assert "ExpectationPropagation" in str(ep.record)


def test_too_large_is_refused():
    crf, data = labelled(5, [30_000], labels=tuple("abcdefghijklmnopqrstuvwxyz"))
    with pytest.raises(bf.TooLarge, match="expectation propagation needs"):
        _Passes(objective_of(crf, data, 1.0))
