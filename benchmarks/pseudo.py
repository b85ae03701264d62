"""Pseudo-likelihood of dense binary networks with sandwich widths: seconds against items and cases.

Unlike the others, on all cores: the target is that of two.
"""

import itertools
import os
import time

import numpy as np

import bayesfield as bf
from benchmarks.timing import Report, Watch, exponents

TARGETS = {(200, 100_000): 30.0}  # seconds, on two cores
SWEEPS = 8


def run(watch: Watch) -> list[Report]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        _fit(*_network(5, 100))  # compiles
        return [_items(watch), _cases(watch)]
    finally:
        os.sched_setaffinity(0, before)


def _items(watch: Watch) -> Report:
    cases, sizes = (1000, (20, 50)) if watch.quick else (100_000, (50, 100, 200))
    return _report(watch, [(n, cases) for n in sizes], f"Pseudo-likelihood of {cases:,} cases against items", 0)


def _cases(watch: Watch) -> Report:
    every = [(20, 1000), (20, 10_000)] if watch.quick else [(40, 10**k) for k in (3, 4, 5, 6)]
    return _report(watch, every, f"Pseudo-likelihood of {every[0][0]} items against cases", 1)


def _report(watch: Watch, every: list[tuple[int, int]], title: str, axis: int) -> Report:
    rows, times = [], []
    for n, cases in every:
        watch.tell(f"pseudo, {n} items, {cases} cases")
        seconds, posterior = _fit(*_network(n, cases))
        times.append(seconds)
        error = 100.0 * posterior.form.sd_error
        rows.append((n, cases, posterior.field.n_parameters, seconds, TARGETS.get((n, cases)), error))
    grown = exponents([pair[axis] for pair in every], times)
    columns = ("items", "cases N", "parameters F", "fit, sd and edges s", "target s", "error of widths %", "exponent")
    return Report(title, columns, [(*row, p) for row, p in zip(rows, grown, strict=True)])


def _fit(field: bf.RandomField, X: np.ndarray) -> tuple[float, bf.Posterior]:
    begun = time.perf_counter()
    posterior = bf.fit(field, X, method="pseudo_likelihood")
    posterior.edges()
    return time.perf_counter() - begun, posterior


def _network(n: int, cases: int) -> tuple[bf.RandomField, np.ndarray]:
    """A complete field, and cases of a network with six edges an item, by Gibbs sweeps from random states."""
    rng = np.random.default_rng(0)
    B = np.triu(rng.normal(0, 0.5, (n, n)) * (rng.random((n, n)) < min(1.0, 6 / n)), 1).astype(np.float32)
    B, X = B + B.T, rng.integers(0, 2, (cases, n)).astype(np.float32)
    for _ in range(SWEEPS):
        for i in range(n):
            X[:, i] = rng.random(cases) < 1 / (1 + np.exp(0.5 - X @ B[:, i]))
    return bf.pairwise(n, itertools.combinations(range(n), 2)), X.astype(np.int64)
