"""Default fits of dense Ising networks beside long runs of a simulator of this file alone.

At the variational Gaussian N(m, P⁻¹) of a posterior ∝ exp(λᵀs − N log Z(λ)) N(λ; 0, Λ)

    P = N E_q[C(λ)] + Λ⁻¹    and    E_q[s − N E[f]] − Λ⁻¹ m = 0,

C the covariance of the features. Both averages are over draws λ of the fit's own posterior, with independent states at
each: Gibbs chains of their own from random states, SWEEPS long, of which the last state counts. Some parameters, drawn
at random, have their columns of P⁻¹ by conjugate gradients, which need no matrix of features: (C v)_ab is an average of
s_a s_b (sᵀ V s). A sample covariance of M states makes widths too wide by ½ tr(N C P⁻¹)/M about, which is printed: the
long run's own bias.
"""

import os

import numba
import numpy as np

import bayesfield as bf
from benchmarks.dense import THRESHOLDS, Problem, network
from benchmarks.timing import Cell, Report, Watch

LAMBDAS, SWEEPS, PARAMETERS = 32, 60, 24
FEWER = {200: 8}  # parameters that are compared: a column of P⁻¹ takes a minute there
STATES = {40: 320_000, 60: 320_000, 100: 320_000, 200: 160_000}
PROBLEMS = [
    Problem(40, 2, 500, 5.0),
    Problem(60, 2, 500, 5.0),
    Problem(100, 2, 500, 5.0),
    Problem(200, 2, 500, 10.0),
    Problem(40, 2, 20_000, 5.0),
    Problem(100, 2, 20_000, 5.0),
    Problem(40, 2, 1_000_000, 5.0),
]
QUICK = [Problem(26, 2, 200, 5.0)]
COLUMNS = (
    *("items", "cases N", "parameters F", "correction", "sd over the long run's, least", "median", "most"),
    *("largest difference, %", "target, %", "long run's bias, %", "shift of the mean, rms sd", "its noise"),
)


def run(watch: Watch) -> list[Report]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        rows = [_row(watch, one) for one in (QUICK if watch.quick else PROBLEMS) if watch.wants(_title(one))]
        return [Report("Widths of dense Ising networks beside long runs", COLUMNS, rows)]
    finally:
        os.sched_setaffinity(0, before)


def _title(problem: Problem) -> str:
    return f"{problem.items} items, {problem.cases} cases"


def _row(watch: Watch, problem: Problem) -> tuple[Cell, ...]:
    watch.tell(_title(problem))
    n = problem.items
    X, _, variance = network(problem)
    variances = np.repeat([THRESHOLDS, variance], [n, n * (n - 1) // 2])
    posterior = bf.IsingNetwork(prior=bf.Normal(variance=variances), verbose=False).fit(X).posterior_
    states = _states(posterior, n, STATES.get(n, 100_000))
    total = states.shape[0] * states.shape[1]
    rng = np.random.default_rng(1)
    some = FEWER.get(n, PARAMETERS) - 4
    chosen = np.r_[rng.choice(n, 4, replace=False), n + rng.choice(n * (n - 1) // 2, some, replace=False)]
    columns = _columns(states, float(problem.cases), 1.0 / variances, chosen)
    ratio = posterior.sd[chosen] / np.sqrt(columns[np.arange(len(chosen)), chosen])
    expected = _features_sum(states.reshape(-1, n)) / total
    gradient = _features_sum(X.astype(np.float32)) - problem.cases * expected - posterior.mean / variances
    shift = columns @ gradient / posterior.sd[chosen]
    share = 1.0 - columns[np.arange(len(chosen)), chosen] / variances[chosen]  # what the data tell of each
    bias = 50.0 * float(share.mean()) * len(variances) / total
    noise = float(np.sqrt(problem.cases / total))
    row = (
        n,
        problem.cases,
        len(posterior.mean),
        posterior.record.correction.kind,
        float(ratio.min()),
        float(np.median(ratio)),
        float(ratio.max()),
        100.0 * float(np.abs(ratio - 1.0).max()),
        problem.target,
        bias,
        float(np.sqrt(np.mean(shift**2))),
        noise,
    )
    print(row, flush=True)
    return row


def _states(posterior: bf.Posterior, n: int, total: int) -> np.ndarray:
    """Independent states at each of LAMBDAS draws of the posterior, (LAMBDAS, total / LAMBDAS, n)."""
    each = total // LAMBDAS
    draws = posterior.sample(LAMBDAS // 2, 3)
    draws = np.concatenate([draws, 2.0 * posterior.mean - draws])  # antithetic
    result = np.empty((LAMBDAS, each, n), dtype=np.float32)
    for k, draw in enumerate(draws):
        B = np.zeros((n, n), dtype=np.float32)
        B[np.triu_indices(n, 1)] = draw[n:]
        _sweep(B + B.T, draw[:n].astype(np.float32), result[k], SWEEPS, k)
    return result


@numba.njit(cache=True, fastmath=True, parallel=True)
def _sweep(B: np.ndarray, bias: np.ndarray, states: np.ndarray, sweeps: int, seed: int) -> None:
    """Gibbs sweeps of states 0 and 1, from random ones."""
    chains, n = states.shape
    for c in numba.prange(chains):
        np.random.seed(seed * 1_000_003 + c)  # noqa: NPY002, Numba's own generator
        s = states[c]
        for i in range(n):
            s[i] = 1.0 if np.random.random() < 0.5 else 0.0  # noqa: NPY002
        for _ in range(sweeps):
            for i in range(n):
                odds = bias[i]
                for j in range(n):
                    odds += B[i, j] * s[j]
                s[i] = 1.0 if np.random.random() * (1.0 + np.exp(-odds)) < 1.0 else 0.0  # noqa: NPY002


def _features_sum(states: np.ndarray) -> np.ndarray:
    """Σ over the states of s_a, and of s_a s_b, a < b."""
    second = np.zeros((states.shape[1], states.shape[1]))
    for block in np.array_split(states, max(1, len(states) // 50_000)):
        second += (block.T @ block).astype(float)
    return np.r_[states.sum(axis=0, dtype=float), second[np.triu_indices(states.shape[1], 1)]]


def _columns(states: np.ndarray, cases: float, precision: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Rows e_jᵀ P⁻¹ of the chosen parameters, by conjugate gradients with the diagonal of P before them."""
    means = np.array([_features_sum(part) for part in states]) / states.shape[1]
    n = states.shape[2]
    scale = 1.0 / (cases * (means * (1.0 - means)).mean(axis=0) + precision)
    found = np.zeros((len(chosen), len(precision)))
    residual = np.zeros_like(found)
    residual[np.arange(len(chosen)), chosen] = 1.0
    along = residual * scale
    size = (residual * along).sum(axis=1)
    first = size.copy()
    for _ in range(200):
        product = cases * _covariance_times(states, means, along, n) + precision * along
        step = size / (along * product).sum(axis=1)
        found += step[:, None] * along
        residual -= step[:, None] * product
        scaled = residual * scale
        previous, size = size, (residual * scaled).sum(axis=1)
        if (size < 1e-6 * first).all():  # widths to 1e-3
            break
        along = scaled + (size / previous)[:, None] * along
    return found


def _covariance_times(states: np.ndarray, means: np.ndarray, vectors: np.ndarray, n: int) -> np.ndarray:
    """E_q[C(λ)] v of each row v: the average over draws of λ of covariances within the states there."""
    upper = np.triu_indices(n, 1)
    result = np.zeros_like(vectors)
    V = np.zeros((len(vectors), n, n), dtype=np.float32)
    V[:, upper[0], upper[1]] = vectors[:, n:]
    linear = vectors[:, :n].astype(np.float32)
    for part, mean in zip(states, means, strict=True):
        for k in range(len(vectors)):
            value = ((part @ V[k]) * part).sum(axis=1, dtype=np.float64) + part @ linear[k] - mean @ vectors[k]
            weighted = part * value[:, None].astype(np.float32)
            second = weighted.T @ part
            result[k, :n] += weighted.sum(axis=0) / len(part)
            result[k, n:] += second[upper] / len(part)
    return result / len(states)
