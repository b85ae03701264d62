"""Max-margin chains: the optimum against a quadratic programme over all labellings."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

import bayesfield as bf
from bayesfield.learning.baselines.max_margin import max_margin
from bayesfield.learning.objective import gaussian
from bayesfield.learning.phases.sequences import sequence_objective
from bayesfield.model.conditional import CRF, as_sequences


def problem(seed=0):
    rng = np.random.default_rng(seed)
    crf = CRF("ab", 2)
    X = [rng.normal(size=(T, 2)) for T in (3, 2, 3, 1, 0, 2)]
    y = [["ab"[int(v)] for v in (x[:, 0] + 0.5 * rng.normal(size=len(x)) > 0)] for x in X]
    return crf, X, y


def features(crf, x, labels):
    data = as_sequences(crf, [x], [labels])
    return sequence_objective(crf, data, gaussian(bf.Normal(variance=1.0), crf)).statistic


def constraints(crf, X, y):
    """For each sequence, f(y_n) − f(y) and Δ(y) of every labelling."""
    found = []
    for x, own in zip(X, y, strict=True):
        if not len(x):
            continue
        rows, losses = [], []
        truth = features(crf, x, own)
        for other in itertools.product("ab", repeat=len(x)):
            rows.append(truth - features(crf, x, list(other)))
            losses.append(sum(a != b for a, b in zip(own, other, strict=True)))
        found.append((np.array(rows), np.array(losses, dtype=float)))
    return found


@pytest.mark.parametrize("variance", [0.3, 2.0])
def test_reaches_the_optimum_of_the_quadratic_programme(variance):
    """min ½|λ|²/σ² + Σ ξ_n with ξ_n ≥ Δ − λᵀ(f(y_n) − f(y)) for all labellings, by SciPy's SLSQP."""
    crf, X, y = problem()
    found = max_margin(crf, X, y, variance, tolerance=1e-3, epochs=3000)
    sets = constraints(crf, X, y)
    F = crf.n_parameters

    def value(v):
        return 0.5 * v[:F] @ v[:F] / variance + v[F:].sum()

    limits = [
        {"type": "ineq", "fun": lambda v, n=n, rows=rows, losses=losses: v[F + n] + rows @ v[:F] - losses}
        for n, (rows, losses) in enumerate(sets)
    ]
    start = np.r_[np.zeros(F), np.full(len(sets), 3.0)]
    wanted = minimize(value, start, constraints=limits, method="SLSQP", options={"maxiter": 500, "ftol": 1e-12})
    assert found.field is crf
    assert found.status.converged
    assert found.gap <= 1e-3 * found.objective
    assert found.objective - found.gap - 1e-8 <= wanted.fun <= found.objective + 1e-8
    # ½|λ|²/σ² makes the objective strongly convex, so a small gap leaves little room for the parameters
    assert np.linalg.norm(found.mode - wanted.x[:F]) <= np.sqrt(2 * variance * found.gap) + 1e-4


def test_the_gap_bounds_the_distance_and_the_budget_is_told():
    crf, X, y = problem(1)
    data = as_sequences(crf, X, y)
    good = max_margin(crf, data, tolerance=1e-3, epochs=3000)
    early = max_margin(crf, data, tolerance=1e-9, epochs=2)
    assert good.objective - good.gap <= early.objective <= good.objective + early.gap + 1e-9
    assert not early.status.converged
    with pytest.raises(bf.InvalidInput, match="labelled"):
        max_margin(crf, as_sequences(crf, X))
