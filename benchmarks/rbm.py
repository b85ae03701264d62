"""Restricted Boltzmann machines: held-out log-likelihood, time and memory, beside scikit-learn's BernoulliRBM.

scikit-learn's digits, 1,400 cases to learn from and 397 held out, 64 pixels cut at half of the range. Held-out nats a
case by annealed importance sampling that is written here, for both. BernoulliRBM's figure is the best over its own
settings, chosen on the held-out cases themselves, which favours it.
"""

import resource
import time

import numpy as np
from scipy import special

import bayesfield as bf
from benchmarks.timing import Report, Watch

RATES, PASSES, BATCHES = (0.1, 0.03, 0.01, 0.003), (30, 100, 300, 1000), (10, 50)
CHAINS, STEPS = 100, 1000
SIDE, HIDDEN, CASES = 28, 128, 2000


def run(watch: Watch) -> list[Report]:
    learnt, held = digits()
    rows = []
    for hidden in (16, 64):
        rows.append(_ours(hidden, learnt, held, watch))
        rows.append(_theirs(hidden, learnt, held, watch))
    share = (learnt.sum(axis=0) + 0.5) / (len(learnt) + 1.0)
    alone = float(np.mean(np.log(share) @ held.T + np.log1p(-share) @ (1 - held).T))
    notes = (
        f"independent pixels: {alone:.2f} nats. Mode: at the most probable weights; averaged: RBM.score, over 100 "
        "draws of the posterior. 16 hidden units are summed over exactly, 64 are learnt by chains. Processor seconds",
        f"BernoulliRBM: the best of learning rates {RATES}, {PASSES} passes and batches of {BATCHES}, by the held-out "
        "cases; seconds of that one fit",
    )
    columns = ("digits, 64 pixels", "held out, mode", "averaged", "seconds", "certificate")
    reports = [Report("Restricted Boltzmann machines", columns, rows, notes)]
    return reports if watch.quick else [*reports, _large(watch)]


def digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    X = (load_digits().data / 16 > 0.5).astype(np.int64)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order[:1400]], X[order[1400:]]


def bars_and_stripes(n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows or columns on or off, a tenth of the pixels flipped."""
    lines = rng.integers(2, size=(n, SIDE, 1)) * np.ones((1, 1, SIDE), dtype=np.int64)
    images = np.where(rng.random((n, 1, 1)) < 0.5, lines, lines.transpose(0, 2, 1))
    return (images ^ (rng.random(images.shape) < 0.1)).reshape(n, -1)


def log_z(a: np.ndarray, b: np.ndarray, W: np.ndarray, base: np.ndarray) -> float:
    """By annealing from independent pixels; an independent implementation, in double precision."""
    rng = np.random.default_rng(1)
    v = (rng.random((CHAINS, len(a))) < special.expit(base)).astype(float)
    log_w, before = np.zeros(CHAINS), 0.0
    for beta in np.linspace(0.0, 1.0, STEPS + 1)[1:]:
        for sign, at in ((1, beta), (-1, before)):
            log_w += sign * (v @ ((1 - at) * base + at * a) + np.logaddexp(0.0, at * (v @ W + b)).sum(axis=1))
        h = rng.random((CHAINS, len(b))) < special.expit(beta * (v @ W + b))
        v = (rng.random(v.shape) < special.expit((1 - beta) * base + beta * (a + h @ W.T))).astype(float)
        before = beta
    start = np.logaddexp(0.0, base).sum() + len(b) * np.log(2.0)
    return float(start + special.logsumexp(log_w) - np.log(CHAINS))


def held_out(a: np.ndarray, b: np.ndarray, W: np.ndarray, learnt: np.ndarray, held: np.ndarray) -> float:
    base = special.logit((learnt.sum(axis=0) + 0.5) / (len(learnt) + 1.0))
    return float(np.mean(held @ a + np.logaddexp(0.0, held @ W + b).sum(axis=1)) - log_z(a, b, W, base))


def _ours(hidden: int, learnt: np.ndarray, held: np.ndarray, watch: Watch) -> tuple:
    watch.tell(f"RBM({hidden})")
    begun = time.process_time()
    machine = bf.RBM(hidden, verbose=False).fit(learnt)
    seconds = time.process_time() - begun
    posterior, n = machine.posterior_, learnt.shape[1]
    at = posterior.mode
    mode = held_out(at[:n], at[n : n + hidden], at[n + hidden :].reshape(n, hidden), learnt, held)
    verdict = posterior.certificate.verdict
    return f"bf.RBM({hidden})", round(mode, 2), round(machine.score(held), 2), round(seconds, 1), verdict


def _theirs(hidden: int, learnt: np.ndarray, held: np.ndarray, watch: Watch) -> tuple:
    from sklearn.neural_network import BernoulliRBM

    best = (-np.inf, 0.0, "")
    for rate in RATES:
        for passes in PASSES[:2] if watch.quick else PASSES:
            for batch in BATCHES:
                watch.tell(f"BernoulliRBM({hidden}), {rate}, {passes} passes")
                begun = time.process_time()
                peer = BernoulliRBM(hidden, learning_rate=rate, n_iter=passes, batch_size=batch, random_state=0)
                peer.fit(learnt)
                seconds = time.process_time() - begun
                W = peer.components_.T
                found = held_out(peer.intercept_visible_, peer.intercept_hidden_, W, learnt, held)
                best = max(best, (found, seconds, f"rate {rate}, {passes} passes of {batch}"))
    return f"BernoulliRBM({hidden}), {best[2]}", round(best[0], 2), "–", round(best[1], 1), "–"


def _large(watch: Watch) -> Report:
    watch.tell(f"{SIDE * SIDE} × {HIDDEN}")
    X = bars_and_stripes(CASES, np.random.default_rng(0))
    field = bf.restricted_boltzmann(SIDE * SIDE, HIDDEN)
    begun, wall = time.process_time(), time.perf_counter()
    posterior = bf.fit(field, X, verbose=False)
    seconds, wall = time.process_time() - begun, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    row = (
        f"{SIDE * SIDE} × {HIDDEN}, {CASES:,} cases", field.n_parameters, round(seconds), round(wall), round(peak, 2),
        posterior.certificate.verdict, round(posterior.record.correction.effective),
    )  # fmt: skip
    columns = ("machine", "weights", "processor (s)", "wall (s)", "peak memory (GiB)", "certificate", "worth draws")
    note = "bars and stripes of 28 × 28 with a tenth of the pixels flipped, by bf.fit; the peak is the process's"
    return Report("A machine of 784 × 128", columns, [row], (note,))
