"""Certificates against the truth: is a fit that is called good right, and is one that is right called good?

Random fields of 5 to 25 variables (lattices, random sparse graphs, dense graphs, Potts chains), few to many cases,
prior variances from 0.1 to 30. The truth is NUTS with exact gradients (nutpie), whose means are some 0.02 sd off by
chance. A fit is *wrong* where a mean is off by more than 0.2 sd or an sd by more than 15 % (0.05 sd and 4 % are granted
to NUTS's own error), and *right* where it is within half of that. Once with the variational Gaussian as it is, whose
certificate must tell, and once as "auto" leaves it.
"""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import bayesfield as bf
from benchmarks.timing import Report, Watch

FIELDS, QUICK = 200, 12
MEAN, WIDTH = 0.2, 0.15
NOISE_MEAN, NOISE_WIDTH = 0.05, 0.04


class Problem(NamedTuple):
    field: bf.RandomField
    X: Any
    prior: bf.Normal


def problem(seed: int) -> Problem:
    """A random field, data and a prior."""
    rng = np.random.default_rng([seed, 22])
    kind = ("lattice", "sparse", "dense", "potts")[seed % 4]
    n = int(rng.integers(5, 26))
    if kind == "lattice":
        rows = int(rng.integers(2, 6))
        field = bf.grid(rows, max(2, min(n // rows, 5)))
    elif kind == "sparse":
        edges = [(i, int(rng.integers(i))) for i in range(1, n)]
        edges += [tuple(rng.choice(n, 2, replace=False).tolist()) for _ in range(n // 4)]
        field = bf.pairwise(n, sorted({(min(e), max(e)) for e in edges}))
    elif kind == "dense":
        n = 5 + n % 5
        field = bf.pairwise(n, [(i, j) for i in range(n) for j in range(i)])
    else:
        n = 5 + n % 6
        field = bf.potts(n, [(i, i + 1) for i in range(n - 1)], 3)
    parameters = rng.choice([0.3, 0.6]) * rng.normal(size=field.n_parameters)
    cases = int(np.exp(rng.uniform(np.log(8), np.log(2000))))
    variance = float(np.exp(rng.uniform(np.log(0.1), np.log(30.0))))
    return Problem(field, bf.sample(field, parameters, cases, rng=rng), bf.Normal(variance=variance))


class Verdict(NamedTuple):
    """shift, width: largest true distance of a mean (sd) and of a log sd. verdict, k: of the certificate."""

    seed: int
    kind: str
    shift: float
    width: float
    verdict: str
    k: float

    @property
    def wrong(self) -> bool:
        return self.shift > MEAN + NOISE_MEAN or self.width > WIDTH + NOISE_WIDTH

    @property
    def right(self) -> bool:
        return self.shift < MEAN / 2 and self.width < WIDTH / 2


def judge(seed: int) -> list[Verdict]:
    """Of the variational Gaussian, and of "auto"."""
    p, found = problem(seed), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bf.FitWarning)
        fits = {kind: bf.fit(*p, correction=kind) for kind in ("variational", "auto")}
    draws = bf.sample_posterior(*p, n_draws=2500, shape=fits["auto"], rng=seed).values
    mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    for kind, fit in fits.items():
        shift, width = np.abs(fit.mean - mean) / sd, np.abs(np.log(fit.sd / sd))
        judged = fit.certificate
        found.append(Verdict(seed, kind, float(shift.max()), float(width.max()), judged.verdict, judged.pareto_k))
    return found


def run(watch: Watch) -> list[Report]:
    verdicts = []
    for seed in range(QUICK if watch.quick else FIELDS):
        watch.tell(f"certificates, field {seed}")
        verdicts += judge(seed)
    rows = [_row(kind, [v for v in verdicts if v.kind == kind]) for kind in ("variational", "auto")]
    columns = (
        "fits",
        "fields",
        "good",
        "fair",
        "poor",
        "good but wrong",
        "right but not good",
        "right but poor",
        "worst good",
    )
    notes = tuple(str(v) for v in verdicts if v.verdict == "good" and v.wrong)
    return [Report("Certificates against NUTS, 5 to 25 variables", columns, rows, notes=notes)]


def _row(kind: str, verdicts: Sequence[Verdict]) -> tuple[Any, ...]:
    counts = [sum(v.verdict == name for v in verdicts) for name in ("good", "fair", "poor")]
    right = [v for v in verdicts if v.right]
    good = [v for v in verdicts if v.verdict == "good"]
    worst = (
        f"{max((v.shift for v in good), default=0.0):.2f} sd, {np.expm1(max((v.width for v in good), default=0.0)):.0%}"
    )
    alarms = [sum(v.verdict in names for v in right) / max(len(right), 1) for names in (("fair", "poor"), ("poor",))]
    return (kind, len(verdicts), *counts, sum(v.wrong for v in good), f"{alarms[0]:.1%}", f"{alarms[1]:.1%}", worst)
