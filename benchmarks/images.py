"""Tied Ising images by default fits of ``bf.LatticeField``: processor seconds, memory, posterior against the truth.

Images, Fisher information and the estimate beside the posterior's mean come from a simulator of this file alone:
Swendsen-Wang updates of square lattices with open borders. The estimate is one Newton step from the posterior's mean by
long chains there; Fisher's information, by the same chains, is at that mean (near a critical point it is another at the
truth, which an image tells to one sd; beyond it the posterior of h lies on one side, and no Gaussian has its width).
Every fit of the table runs in a process of its own, on all cores, so that its peak of memory is its own; processor time
is that of all cores, of a second call (the first compiles, on a small image).

Intervals of an exact posterior hold a fixed truth in 90 % of images where the posterior is near a Gaussian whose width
is the same everywhere. Near the critical point it is not, so that beside the fits' intervals stand those of the exact
posterior of the same images, on a grid, with log Z by reweighting a long chain at the truth.
"""

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np

from benchmarks.timing import Cell, Report, Watch

COUPLINGS, FIELDS = (0.2, 0.35, 0.42), (0.0, 0.05)
TARGETS = {64: 2.0, 256: 10.0, 1000: 90.0}
BEYOND = (0.44, 0.46, 0.5)
UPDATES = {64: 400, 256: 400, 1000: 250}  # from random spins; clusters forget within some ten at K = 0.42
STATES = {64: 20_000, 256: 3_000, 1000: 400}  # of the chains beside: they tell the estimate to 0.1 sd or better
COVERED = {(K, h): 100 for K in COUPLINGS for h in FIELDS}
REWEIGHTED, APART = 60_000, 5.0  # states; sd to each side of the truth that the grid reaches
COLUMNS = (
    *("sites", "K", "h", "processor s", "target s", "peak GB", "(mean − truth)/sd: h", "K"),
    *("(mean − estimate)/sd: h", "K", "sd / Fisher's: h", "K", "verdict"),
)

COVERAGE = (
    *("K", "h", "images", "90 % intervals hold h, %", "K, %", "of the exact posterior h, %", "K, %"),
    *("mean processor s", "good", "fair", "poor"),
)
BEYOND_TITLE, COVERAGE_TITLE = "At the critical point, 0.4407, and beyond", "Coverage, 64 × 64"


def run(watch: Watch) -> list[Report]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        sides = [side for side in ((32, 64) if watch.quick else TARGETS) if watch.wants(_title(side))]
        reports = [_tied(watch, side) for side in sides]
        if watch.wants(BEYOND_TITLE):
            rows = [_row(watch, 64, K, 0.0) for K in BEYOND]
            reports.append(Report(BEYOND_TITLE, COLUMNS, rows))
        if watch.wants(COVERAGE_TITLE):
            some = {(0.35, 0.05): 5} if watch.quick else COVERED
            rows = [_coverage(watch, K, h, count) for (K, h), count in some.items()]
            reports.append(Report(COVERAGE_TITLE, COVERAGE, rows))
        return reports
    finally:
        os.sched_setaffinity(0, before)


def _tied(watch: Watch, side: int) -> Report:
    rows = [_row(watch, side, K, h) for K in COUPLINGS for h in FIELDS]
    mean = float(np.mean([float(str(row[3])) for row in rows]))
    note = f"{1e6 * mean / side**2:.3g} µs of processor a site on average"
    return Report(_title(side), COLUMNS, rows, (note,))


def _title(side: int) -> str:
    return f"Tied Ising images, {side}²"


def _row(watch: Watch, side: int, K: float, h: float) -> tuple[Cell, ...]:
    watch.tell(f"{side} × {side}, K = {K}, h = {h}")
    call = [sys.executable, "-m", "benchmarks.images", str(side), str(K), str(h)]
    found = json.loads(subprocess.run(call, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    mean, sd = np.array(found["mean"]), np.array(found["sd"])
    estimate, width = beside(side, mean, np.array(found["observed"]))
    columns = ((mean - [h, K]) / sd, (mean - estimate) / sd, sd / width)
    row = (
        f"{side}²", K, h, found["seconds"], TARGETS.get(side), found["peak"] / 1e9,
        *np.concatenate(columns).tolist(), found["verdict"],
    )  # fmt: skip
    print(row, flush=True)
    return row


def _coverage(watch: Watch, K: float, h: float, count: int) -> tuple[Cell, ...]:
    import bayesfield as bf

    held, seconds, verdicts, exact = [], [], [], _exact(watch, K, h)
    for seed in range(count):
        watch.tell(f"coverage: K = {K}, h = {h}, image {seed}")
        x = image(64, K, h, 1000 + seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            begun = time.process_time()
            posterior = bf.LatticeField(verbose=False).fit(x[None]).posterior_
            seconds.append(time.process_time() - begun)
        rows = posterior.summary(0.9)
        own = [(low < t < high) for low, high, t in zip(rows["lower"], rows["upper"], (h, K), strict=True)]
        held.append([*own, *exact(observed(x))])
        verdicts.append(posterior.certificate.verdict)
    row = (K, h, count, *(100.0 * np.mean(held, axis=0)).tolist(), float(np.mean(seconds)))
    print(row, verdicts, flush=True)
    return (*row, *[verdicts.count(v) for v in ("good", "fair", "poor")])


def _exact(watch: Watch, K: float, h: float) -> Callable[[np.ndarray], list[bool]]:
    """Whether the exact posterior's 90 % intervals hold h and K, of an image with these Σ s and Σ s s'."""
    watch.tell(f"chain at K = {K}, h = {h}")
    sums = swendsen_wang(image(64, K, h, 5), K, h, REWEIGHTED, 6)
    centre = sums.mean(axis=0)
    sd = np.sqrt(np.diag(np.linalg.inv(np.cov(sums.T))))
    grid = np.linspace(-APART, APART, 81)[:, None] * sd  # (81, 2), from the truth
    along = (sums - centre) * 1.0
    log_z = np.empty((81, 81))
    for k, step in enumerate(grid[:, 1]):
        terms = np.outer(grid[:, 0], along[:, 0]) + step * along[:, 1]
        most = terms.max(axis=1)
        log_z[:, k] = most + np.log(np.exp(terms - most[:, None]).mean(axis=1))

    def held(observed: np.ndarray) -> list[bool]:
        first, second = np.meshgrid(*grid.T, indexing="ij")
        gap = observed - centre
        log_p = first * gap[0] + second * gap[1] - log_z - ((h + first) ** 2 + (K + second) ** 2) / 2
        p = np.exp(log_p - log_p.max())
        sides = [p.sum(axis=1), p.sum(axis=0)]  # the truth is in the middle of the grid
        return [bool(0.05 < (q[:40].sum() + q[40] / 2) / q.sum() < 0.95) for q in sides]

    return held


def image(side: int, K: float, h: float, seed: int) -> np.ndarray:
    spins = np.random.default_rng(seed).choice(np.array([-1, 1], dtype=np.int8), size=(side, side))
    swendsen_wang(spins, K, h, UPDATES.get(side, 400), seed)
    return spins


def observed(x: np.ndarray) -> np.ndarray:
    """Σ s and Σ s s' of an image."""
    s = x.astype(np.int64)
    return np.array([s.sum(), (s[1:] * s[:-1]).sum() + (s[:, 1:] * s[:, :-1]).sum()])


def beside(side: int, at: np.ndarray, observed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The estimate by a Newton step from ``at`` = (h, K), and Fisher's sd there with the prior's variance of 1."""
    h, K = at
    spins = image(side, K, h, 7)
    sums = swendsen_wang(spins, K, h, STATES.get(side, 20_000), 8)
    precision = np.cov(sums.T) + np.eye(2)
    return at + np.linalg.solve(precision, observed - sums.mean(axis=0) - at), np.sqrt(
        np.diag(np.linalg.inv(precision))
    )


@numba.njit(cache=True)
def swendsen_wang(spins: np.ndarray, K: float, h: float, updates: int, seed: int) -> np.ndarray:
    """Σ s and Σ s s' after each update, (updates, 2)."""
    np.random.seed(seed)  # noqa: NPY002, Numba's own generator
    rows, columns = spins.shape
    n, bond = rows * columns, 1.0 - np.exp(-2.0 * K)
    parent, pull, turn = np.empty(n, np.int32), np.empty(n), np.empty(n, np.bool_)
    sums = np.empty((updates, 2))
    for t in range(updates):
        for i in range(n):
            parent[i], pull[i] = i, 0.0
        for i in range(n):
            r, c = i // columns, i % columns
            for k in range(2):
                down = k == 1
                if (down and r + 1 == rows) or (not down and c + 1 == columns):
                    continue
                other = i + columns if down else i + 1
                if spins[r, c] == spins[other // columns, other % columns] and np.random.random() < bond:  # noqa: NPY002
                    a, b = _root(parent, i), _root(parent, other)
                    parent[max(a, b)] = min(a, b)
        for i in range(n):
            parent[i] = parent[parent[i]]
            pull[parent[i]] += h * spins[i // columns, i % columns]
        for i in range(n):
            if parent[i] == i:
                turn[i] = np.random.random() * (1.0 + np.exp(-2.0 * pull[i])) >= 1.0  # noqa: NPY002
        one, two = 0, 0
        for i in range(n):
            r, c = i // columns, i % columns
            if turn[parent[i]]:
                spins[r, c] = -spins[r, c]
            one += spins[r, c]
            if r > 0:
                two += spins[r, c] * spins[r - 1, c]
            if c > 0:
                two += spins[r, c] * spins[r, c - 1]
        sums[t] = one, two
    return sums


@numba.njit(cache=True)
def _root(parent: np.ndarray, i: int) -> int:
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


def _one(side: int, K: float, h: float) -> None:
    """A fit in this process; what it found as JSON."""
    import bayesfield as bf

    warnings.simplefilter("ignore")
    for warm in ((40, 0.3), (40, 0.44)):
        bf.LatticeField(verbose=False).fit(image(*warm, 0.0, 0)[None])
    x = image(side, K, h, 1)
    begun = time.process_time()
    posterior = bf.LatticeField(verbose=False).fit(x[None]).posterior_
    seconds = time.process_time() - begun
    found = {
        "seconds": seconds,
        "peak": _peak(),
        "mean": posterior.mean.tolist(),
        "sd": posterior.sd.tolist(),
        "observed": observed(x).tolist(),
        "verdict": posterior.certificate.verdict,
    }
    print(json.dumps(found))


def _peak() -> float:
    """Bytes that this process held at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * float(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


if __name__ == "__main__":
    _one(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
