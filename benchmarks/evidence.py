"""Is the evidence right? Log evidence against bridge sampling, prior variances, and relevance determination."""

import time
import warnings

import numpy as np
from scipy import special

import bayesfield as bf
from benchmarks.timing import Report, Watch

PRIOR = bf.Normal(variance=1.0)
INFORMATIVE, NOISE, LABELS = 24, 200, 3


def run(watch: Watch) -> list[Report]:
    return [_log_evidence(watch), _variances(watch), _relevance(watch)]


# --- log evidence -----------------------------------------------------------------------------------------------


def _log_evidence(watch: Watch) -> Report:
    """Lattices with N(0, 0.5²) parameters: every engine's log evidence minus that of bridge sampling."""
    rows = []
    for side in (3,) if watch.quick else (3, 4):
        for cases in (20, 200, 2000):
            watch.tell(f"log evidence, {side}×{side}, {cases} cases")
            rng = np.random.default_rng(side + cases)
            field = bf.grid(side, side)
            X = bf.sample(field, 0.5 * rng.normal(size=field.n_parameters), cases, rng)
            posteriors = {e: bf.fit(field, X, PRIOR, e) for e in ("exact", "kikuchi", "bethe", "sampled")}
            wanted, error = bridge(posteriors["exact"], field, X)
            found = [p.evidence() for p in posteriors.values()]
            plain = posteriors["exact"].evidence(n_draws=0).value
            rows.append((f"{side}×{side}", cases, wanted, error, plain - wanted, *(e.value - wanted for e in found)))
    columns = ("lattice", "cases", "bridge", "its error", "Laplace, exact", "exact", "Kikuchi", "Bethe", "sampled")
    notes = ("differences in nats; to reach: 0.5 by exact and Kikuchi",)
    return Report("Log evidence against bridge sampling with exact likelihoods", columns, rows, notes)


def bridge(posterior: bf.Posterior, field: bf.RandomField, X: np.ndarray, draws: int = 4000) -> tuple[float, float]:
    """log p(D) by bridge sampling (Meng & Wong 1996) between NUTS draws and a Gaussian, and its standard error.

    The Gaussian has the moments of other draws than those that are bridged.
    """
    made = bf.sample_posterior(field, X, PRIOR, n_draws=draws // 2, chains=4, shape=posterior, rng=1)
    chains = made.values
    shaping, used = chains[:2].reshape(-1, chains.shape[2]), chains[2:].reshape(-1, chains.shape[2])
    mean, spread = shaping.mean(axis=0), np.cov(shaping.T)
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(spread)
    proposed = mean + rng.standard_normal((len(used), len(mean))) @ root.T

    def ratios(points: np.ndarray) -> np.ndarray:
        z = np.linalg.solve(root, (points - mean).T)
        gaussian = -0.5 * (z**2).sum(axis=0) - np.log(np.diag(root)).sum() - 0.5 * len(mean) * np.log(2 * np.pi)
        o = posterior.objective
        joint = [o.prior.log_density(p) + o.log_likelihood(o.at(p)) for p in points]
        return np.array(joint) - gaussian

    ours, theirs = ratios(used), ratios(proposed)
    halves = [_bridged(ours[k::2], theirs[k::2]) for k in range(2)]
    return _bridged(ours, theirs), abs(halves[0] - halves[1]) / 2


def _bridged(posterior: np.ndarray, proposed: np.ndarray) -> float:
    value = float(np.median(posterior))
    for _ in range(200):
        above = special.logsumexp(proposed - value - np.logaddexp(proposed - value, 0.0))
        below = special.logsumexp(-np.logaddexp(posterior - value, 0.0))
        new = value + above - below
        if abs(new - value) < 1e-10:
            break
        value = new
    return value


# --- prior variances --------------------------------------------------------------------------------------------


def _variances(watch: Watch) -> Report:
    """5×5 lattices, 500 cases: the variance by maximum evidence, against the one that made the parameters."""
    rows = []
    for variance in (0.1, 0.25):
        found, real = [], []
        for seed in range(5 if watch.quick else 50):
            watch.tell(f"maximum evidence, variance {variance}, field {seed}")
            rng = np.random.default_rng([seed, int(100 * variance)])
            field = bf.grid(5, 5)
            truth = np.sqrt(variance) * rng.normal(size=field.n_parameters)
            X = bf.sample(field, truth, 500, rng)
            posterior = bf.fit(field, X, bf.Normal(variance="evidence"), correction="none")
            found.append(float(posterior.record.prior.table["variance"].iloc[0]))
            real.append(float(np.mean(truth**2)))
        each = np.array(found) / np.array(real)
        rows.append((variance, len(found), np.mean(found), np.mean(found) / variance, each.min(), each.max()))
    columns = ("generating variance", "fields", "mean found", "ratio", "least", "most")
    notes = ("ratio to reach: 0.75 to 1.25. least, most: of a field's own, against the mean square of its parameters",)
    return Report("Prior variance by maximum evidence", columns, rows, notes)


# --- relevance --------------------------------------------------------------------------------------------------


def _relevance(watch: Watch) -> Report:
    """Chain CRFs with 24 informative and 200 noise inputs: which are dropped, and errors on other sequences."""
    rows = []
    for seed in range(1 if watch.quick else 5):
        watch.tell(f"relevance, CRF {seed}")
        rng = np.random.default_rng(seed)
        W, V = effects(rng), rng.normal(size=(LABELS, LABELS)) + np.eye(LABELS)
        X, y = sequences(rng, 150, W, V)
        new, truth = sequences(rng, 150, W, V)
        begun = time.perf_counter()
        whole, known = bf.CRF(LABELS, INFORMATIVE + NOISE), bf.CRF(LABELS, INFORMATIVE)
        sparse = bf.fit_sequences(whole, X, y, bf.ARD(groups="inputs"), correction="none")
        took = time.perf_counter() - begun
        few = bf.fit_sequences(known, _first(X), y, bf.Normal(variance="evidence"), correction="none")
        gone = sparse.record.prior.table["dropped"].to_numpy()
        errors = [_error(p, Z, truth) for p, Z in ((sparse, new), (few, _first(new)))]
        noise = gone[INFORMATIVE : INFORMATIVE + NOISE].mean()
        rows.append((seed, noise, gone[:INFORMATIVE].mean(), *errors, errors[0] / errors[1], took))
    columns = ("CRF", "noise dropped", "informative dropped", "error", "with the true inputs", "ratio", "seconds")
    notes = ("to reach: noise 0.95 or more, informative 0.05 or less, ratio 1.1 or less",)
    return Report("ARD on chain CRFs, 24 informative and 200 noise inputs", columns, rows, notes)


def effects(rng: np.random.Generator) -> np.ndarray:
    """(INFORMATIVE, LABELS) weights that differ between labels, by 0.3 to 1 (standard deviation)."""
    W = rng.normal(size=(INFORMATIVE, LABELS))
    W -= W.mean(axis=1, keepdims=True)
    return W / W.std(axis=1, keepdims=True) * rng.uniform(0.3, 1.0, size=(INFORMATIVE, 1))


def sequences(rng: np.random.Generator, count: int, W: np.ndarray, V: np.ndarray, length: int = 20) -> tuple:
    """Inputs N(0, 1), and labels drawn from the CRF whose first inputs have weights W."""
    X = [rng.normal(size=(length, INFORMATIVE + NOISE)) for _ in range(count)]
    return X, [_labels(rng, x[:, : len(W)] @ W, V) for x in X]


def _labels(rng: np.random.Generator, theta: np.ndarray, V: np.ndarray) -> list[int]:
    """Filter forwards, draw backwards."""
    forward = [theta[0]]
    for t in range(1, len(theta)):
        forward.append(theta[t] + special.logsumexp(forward[-1][:, None] + V, axis=0))
    labels = [int(rng.choice(LABELS, p=special.softmax(forward[-1])))]
    for a in forward[-2::-1]:
        labels.append(int(rng.choice(LABELS, p=special.softmax(a + V[:, labels[-1]]))))
    return labels[::-1]


def _first(X: list) -> list:
    return [x[:, :INFORMATIVE] for x in X]


def _error(posterior: bf.Posterior, X: list, truth: list) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = bf.predict_sequences(posterior, X)
    labels = np.concatenate([np.asarray(one) for one in found.labels]) if np.ndim(found.labels[0]) else found.labels
    return float(np.mean(np.asarray(labels) != np.concatenate(truth)))
