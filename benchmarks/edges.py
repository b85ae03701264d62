"""Are edges judged right? Inclusion probabilities against all structures of five variables, calibration on ten.

By the posterior of the likelihood and by the pseudo-likelihood's, side by side; and the time for real questionnaires.
"""

import itertools
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import special

import bayesfield as bf
from benchmarks.timing import Report, Watch

PRIOR = bf.Normal(variance=1.0)
METHODS = {"likelihood": {}, "pseudo-likelihood": {"method": "pseudo_likelihood"}}
BINS = 5


def run(watch: Watch) -> list[Report]:
    return [_all_structures(watch), *_calibration(watch), *_questionnaires(watch)]


def _simulated(n: int, cases: int, seed: int) -> tuple[bf.RandomField, np.ndarray, np.ndarray]:
    """A field of all pairs, who of them is there (each with probability ½, effect N(0, 1)), and cases."""
    rng = np.random.default_rng([seed, n, cases])
    field = bf.pairwise(n, list(itertools.combinations(range(n), 2)))
    there = rng.random(field.n_parameters - n) < 0.5
    truth = np.concatenate([rng.normal(size=n) - 0.5, np.where(there, rng.normal(size=len(there)), 0.0)])
    return field, there, bf.sample(field, truth, cases, rng)


def _all_structures(watch: Watch) -> Report:
    """Every structure's own log evidence, by importance sampling with exact likelihoods, against the search."""
    rows = []
    for cases in (200, 1000):
        off = {name: [] for name in METHODS}
        for seed in range(1 if watch.quick else 10):
            watch.tell(f"all structures of five variables, {cases} cases, field {seed}")
            field, _, X = _simulated(5, cases, seed)
            wanted = every_structure(X)
            for name, options in METHODS.items():
                found = bf.search_structure(bf.fit(field, X, PRIOR, **options)).table["inclusion"].to_numpy()
                off[name].append(np.abs(found - wanted))
        for name, each in off.items():
            rows.append((cases, name, len(each), np.mean(each), np.max(each)))
    columns = ("cases", "posterior", "fields", "mean difference", "largest")
    notes = ("of inclusion probabilities; mean to reach: 0.05",)
    return Report("Five variables: the search against all 1,024 structures", columns, rows, notes)


def every_structure(X: np.ndarray, draws: int = 400) -> np.ndarray:
    """Inclusion probabilities, (10,), by the evidence of each structure, written out over the 32 states."""
    n, rng = X.shape[1], np.random.default_rng(0)
    pairs = np.array(list(itertools.combinations(range(n), 2)))
    states = np.array(list(itertools.product((0, 1), repeat=n)), dtype=float)

    def features(x: np.ndarray) -> np.ndarray:
        return np.concatenate([x, x[:, pairs[:, 0]] * x[:, pairs[:, 1]]], axis=1)

    table, total = features(states), features(X.astype(float)).sum(axis=0)
    structures = np.array(list(itertools.product((False, True), repeat=len(pairs))))
    value = np.empty(len(structures))
    for k, there in enumerate(structures):
        own = np.concatenate([np.ones(n, dtype=bool), there])
        value[k] = _evidence(table[:, own], total[own], len(X), draws, rng)
    result: np.ndarray = special.softmax(value) @ structures
    return result


def _evidence(f: np.ndarray, total: np.ndarray, cases: int, draws: int, rng: np.random.Generator) -> float:
    """log ∫ exp(λᵀΣf − N log Z(λ)) N(λ; 0, 1) dλ, by draws from a Gaussian at the mode, a tenth wider."""
    mode = np.zeros(f.shape[1])
    for _ in range(50):
        p = special.softmax(f @ mode)
        mean = p @ f
        precision = cases * ((f * p[:, None]).T @ f - np.outer(mean, mean)) + np.eye(len(mode))
        step = np.linalg.solve(precision, cases * mean - total + mode)
        mode = mode - step
        if np.abs(step).max() < 1e-10:
            break
    root = 1.1 * np.linalg.cholesky(np.linalg.inv(precision))
    z = rng.standard_normal((draws, len(mode)))
    points = np.concatenate([mode + z @ root.T, mode - z @ root.T])
    joint = points @ total - cases * special.logsumexp(points @ f.T, axis=1) - 0.5 * (points**2).sum(axis=1)
    proposed = -0.5 * (z**2).sum(axis=1) - np.log(np.diag(root)).sum()
    return float(special.logsumexp(joint - np.concatenate([proposed, proposed])))


def _calibration(watch: Watch) -> list[Report]:
    """Ten variables drawn from the prior: of the edges with inclusion probability about p, a share p is there."""
    rows, summary = [], []
    for cases in (200, 1000):
        for name, options in METHODS.items():
            found, real = [], []
            for seed in range(4 if watch.quick else 150):
                watch.tell(f"calibration, {cases} cases, {name}, field {seed}")
                field, there, X = _simulated(10, cases, seed)
                posterior = bf.fit(field, X, PRIOR, correction="none", **options)
                found.append(bf.search_structure(posterior, sweeps=400).table["inclusion"].to_numpy())
                real.append(there)
            p, t = np.concatenate(found), np.concatenate(real)
            part = np.minimum((BINS * p).astype(int), BINS - 1)
            bins = [
                (p[part == b].mean(), t[part == b].mean(), int((part == b).sum())) for b in sorted(set(part.tolist()))
            ]
            rows += [(cases, name, *one) for one in bins]
            off = np.array([abs(a - b) for a, b, _ in bins])
            share = np.array([c for *_, c in bins]) / len(p)
            summary.append((cases, name, float(off @ share), off.max(), -np.mean(np.where(t, np.log(p), np.log1p(-p)))))
    curve = Report("Ten variables: calibration", ("cases", "posterior", "said", "real", "edges"), rows, ())
    notes = ("mean: over edges; to reach: 0.05. log loss: of edges there or not, 0.693 by guessing",)
    columns = ("cases", "posterior", "mean distance", "largest", "log loss")
    return [curve, Report("Ten variables: distance of the curve from the diagonal", columns, summary, notes)]


def _questionnaires(watch: Watch) -> list[Report]:
    """Fit, edges and structures of real questionnaires, where the data are."""
    folder = Path(os.environ.get("BAYESFIELD_DATA", "../shared/data")) / "questionnaires"
    if not folder.is_dir() or watch.quick:
        return []
    rows = []
    for name in ("adhd_symptoms", "wenchuan_ptsd", "boredom"):
        watch.tell(f"questionnaire {name}")
        items = pd.read_csv(folder / f"{name}.csv").drop(columns=["group", "language"], errors="ignore")
        begun = time.perf_counter()
        posterior = bf.fit(questionnaire(items), items, bf.Normal(variance={"nodes": 25.0, "edges": 1.0}))
        found = bf.search_structure(posterior)
        verdicts = found.table["at_10"].value_counts()
        took = time.perf_counter() - begun
        counts = [int(verdicts.get(v, 0)) for v in ("included", "inconclusive", "excluded")]
        rows.append((name, *items.shape, posterior.record.engine.partition("(")[0], *counts, took))
    columns = ("data", "cases", "items", "engine", "included", "inconclusive", "excluded", "seconds")
    return [Report("Edges of questionnaires", columns, rows, ("to reach: 30 s on two quiet cores",))]


def questionnaire(items: pd.DataFrame) -> bf.RandomField:
    """All pairs of items: binary ones by x_i and x_i·x_j, others as ordinal."""
    n, names = items.shape[1], list(items.columns)
    pairs = list(itertools.combinations(range(n), 2))
    states = [sorted({int(x) for x in items[c].dropna()}) for c in names]
    if all(s == [0, 1] for s in states):
        return bf.pairwise(n, pairs, names=names)
    return bf.ordinal(n, pairs, states, names=names)
