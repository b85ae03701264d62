"""Dense networks by the likelihood, default fits: processor seconds against items, answers and cases.

On all cores, as a user's fit is; what is printed is processor time of all of them, and the targets are of that too.
"""

import os
import time
from dataclasses import dataclass

import numpy as np

import bayesfield as bf
from benchmarks import shapes
from benchmarks.timing import Report, Watch, exponents

SWEEPS = 60
COLUMNS = (
    *("items", "answers", "cases N", "parameters F", "processor s", "target s"),
    *("engine", "correction", "verdict", "z-scores' sd", "exponent"),
)
THRESHOLDS = 4.0  # the prior's variance of them; couplings are drawn from theirs


@dataclass(frozen=True)
class Problem:
    items: int
    answers: int
    cases: int
    target: float | None = None


EXACT = [Problem(10, 2, 500, 0.2), Problem(16, 2, 500, 0.7), Problem(20, 2, 500, 2.0), Problem(24, 2, 500, 20.0)]
ORDINAL_EXACT = [Problem(8, 6, 500, 3.0), Problem(10, 5, 500, 15.0)]
SAMPLED = [Problem(40, 2, 500, 8.0), Problem(60, 2, 500, 20.0), Problem(100, 2, 500, 60.0)]
CASES = [Problem(40, 2, 500, 8.0), Problem(40, 2, 20_000, 10.0), Problem(40, 2, 1_000_000, 20.0)]
WIDE = [Problem(100, 2, 20_000, 90.0), Problem(200, 2, 500, 600.0)]
ORDINAL = [Problem(p, 5, 1000, target) for p, target in ((10, 5.0), (20, 15.0), (30, 40.0), (50, 150.0))]
TABLES = {
    "Dense Ising networks, exact": EXACT,
    "Dense ordinal networks, exact": ORDINAL_EXACT,
    "Dense Ising networks, sampled, against items": SAMPLED,
    "Dense Ising networks, sampled, against cases": CASES,
    "Dense ordinal networks, default fit and edges()": ORDINAL,
    "Dense Ising networks, wide": WIDE,
}
SHAPES = "Dense fields as users bring them"
QUICK = {"exact": [Problem(8, 2, 200), Problem(10, 2, 200)], "sampled": [Problem(26, 2, 200)]}


def run(watch: Watch) -> list[Report]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        for warm in (Problem(4, 2, 50), Problem(3, 3, 50), Problem(26, 2, 50)):
            _row(warm)  # compiles
        if watch.quick:
            quick = [_report(watch, title, problems) for title, problems in QUICK.items()]
            return [*quick, _shapes(watch, shapes.QUICK)]
        found = [_report(watch, title, problems) for title, problems in TABLES.items() if watch.wants(title)]
        return [*found, _shapes(watch, shapes.SHAPES)] if watch.wants(SHAPES) else found
    finally:
        os.sched_setaffinity(0, before)


def _shapes(watch: Watch, some: list[shapes.Shape]) -> Report:
    shapes.graph(6, 5)  # compiles
    return Report(SHAPES, shapes.COLUMNS, shapes.rows(some, watch.tell))


def _report(watch: Watch, title: str, problems: list[Problem]) -> Report:
    rows = []
    for one in problems:
        watch.tell(f"{title}: {one.items} items, {one.cases} cases")
        rows.append(_row(one))
        print(title, rows[-1], flush=True)
    by_cases = len({one.items for one in problems}) == 1
    sizes = [one.cases if by_cases else one.items for one in problems]
    grown = exponents([float(size) for size in sizes], [row[4] for row in rows])
    return Report(title, COLUMNS, [(*row, p) for row, p in zip(rows, grown, strict=True)])


def _row(problem: Problem) -> tuple:
    X, truth, variance = network(problem)
    estimator = bf.IsingNetwork if problem.answers == 2 else bf.OrdinalNetwork
    begun = time.process_time()
    thresholds = problem.items * (problem.answers - 1)
    prior = bf.Normal(variance=np.repeat([THRESHOLDS, variance], [thresholds, len(truth)]))
    fitted = estimator(prior=prior, verbose=False).fit(X)
    if problem.answers > 2:
        fitted.posterior_.edges()
    seconds = time.process_time() - begun
    posterior = fitted.posterior_
    couplings = slice(-len(truth), None)
    z = (posterior.mean[couplings] - truth) / posterior.sd[couplings]
    record = posterior.record
    kind = record.correction.kind if record.correction else "none"
    return (
        problem.items,
        problem.answers,
        problem.cases,
        len(posterior.mean),
        seconds,
        problem.target,
        str(record.engine).partition("(")[0],
        kind,
        posterior.certificate.verdict if posterior.certificate else "-",
        float(np.sqrt(np.mean(z**2))),
    )


def network(problem: Problem) -> tuple[np.ndarray, np.ndarray, float]:
    """Cases of a complete network, its couplings, drawn from the prior, and the prior's variance.

    Couplings are N(0, 0.6²/p) times 16 / answers², so that a sum over the other items moves an answer by about as
    much whatever their number, thresholds balance them (items near their middle), and Gibbs sweeps from random
    states forget them in SWEEPS.
    """
    n, top = problem.items, problem.answers - 1
    rng = np.random.default_rng(0)
    variance = float((0.6 * 4 / top**2) ** 2 / n)
    B = np.triu(rng.normal(0.0, np.sqrt(variance), (n, n)), 1)
    couplings, B = B[np.triu_indices(n, 1)], B + B.T
    bias = -B.sum(1) * top / 2
    X = rng.integers(0, top + 1, (problem.cases, n)).astype(np.float32)
    answers = np.arange(top + 1)
    for _ in range(SWEEPS):
        for i in range(n):
            odds = X @ B[:, i].astype(np.float32) + np.float32(bias[i])
            if top == 1:
                X[:, i] = rng.random(problem.cases, dtype=np.float32) * (1 + np.exp(-odds)) < 1
                continue
            log_weights = np.outer(odds, answers)
            X[:, i] = (log_weights + rng.gumbel(size=log_weights.shape)).argmax(1)
    return X.astype(np.int64), couplings, variance
