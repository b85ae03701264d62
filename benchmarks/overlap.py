"""Posteriors whose equivalent modes overlap: 6 visible and 2 hidden spins with couplings N(0, 0.5²), 1,000 cases.

``bf.fit`` as it comes, beside parallel tempering that is written here, apart from the library's: log p(D|λ) from all
256 joint states listed by name, a fixed ladder of 14 temperatures, 64 ladders from the prior, 900 moves after 225 of
warm-up. Both are named alike: each draw as that image by symmetry which is nearest to the mode.
"""

import itertools
import time

import numpy as np

import bayesfield as bf
from benchmarks.timing import Cell, Report, Watch

VISIBLE, HIDDEN, CASES, SEEDS = 6, 2, 1000, 10
RUNGS, LADDERS, MOVES, LEAPS = 14, 64, 900, 12


def run(watch: Watch) -> list[Report]:
    rows = [_row(seed, watch) for seed in range(2 if watch.quick else SEEDS)]
    columns = (
        *("seed", "certificate", "worth draws", "processor s", "sd over reference: least", "most"),
        *("sds within 0.9 to 1.1", "largest (mean − reference)/sd", "reference: worst error of an sd"),
    )
    notes = ("reference: parallel tempering of its own, its errors by the scatter between 64 ladders",)
    return [Report("Overlapping modes: 6 visible and 2 hidden spins", columns, rows, notes)]


def problem(seed: int) -> tuple[bf.RandomField, np.ndarray]:
    field, rng = bf.restricted_boltzmann(VISIBLE, HIDDEN, (-1, 1)), np.random.default_rng(seed)
    return field, bf.sample(field, 0.5 * rng.normal(size=field.n_parameters), CASES, rng)[:, :VISIBLE]


def _row(seed: int, watch: Watch) -> tuple[Cell, ...]:
    watch.tell(f"seed {seed}")
    field, X = problem(seed)
    begun = time.process_time()
    posterior = bf.fit(field, X, bf.Normal(variance=1.0), verbose=False)
    seconds = time.process_time() - begun
    draws = reference(field, X, np.random.default_rng(10_000 + seed), MOVES // 4 if watch.quick else MOVES)
    folded = posterior.objective.symmetries.nearest(draws, posterior.mode, np.ones(field.n_parameters))
    mean, sd = folded.mean(axis=(0, 1)), folded.std(axis=(0, 1))
    squares = ((folded - mean) ** 2).mean(axis=0)  # of each ladder
    error = float((squares.std(axis=0, ddof=1) / np.sqrt(LADDERS) / (2.0 * sd**2)).max())
    ratio, away = posterior.sd / sd, np.abs(posterior.mean - mean) / sd
    row = (
        seed, posterior.certificate.verdict, round(posterior.record.correction.effective), round(seconds, 1),
        float(ratio.min()), float(ratio.max()), f"{int(((ratio > 0.9) & (ratio < 1.1)).sum())} of {len(ratio)}",
        float(away.max()), error,
    )  # fmt: skip
    print(row, flush=True)
    return row


def reference(field: bf.RandomField, X: np.ndarray, rng: np.random.Generator, moves: int) -> np.ndarray:
    """(moves, ladders, F) draws of the posterior under a prior N(0, 1)."""
    states = list(itertools.product((-1, 1), repeat=VISIBLE + HIDDEN))  # hidden ones change fastest
    features = np.asarray(field.features(np.array(states)), dtype=np.float64)
    number = {state: k for k, state in enumerate(itertools.product((-1, 1), repeat=VISIBLE))}
    seen = np.bincount([number[tuple(row)] for row in X.tolist()], minlength=2**VISIBLE).astype(np.float64)
    beta, size = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, RUNGS - 1)]), features.shape[1]

    def likelihood(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, slopes = np.empty(x.shape[:2]), np.empty(x.shape)
        for t in range(len(x)):  # a rung at a time, which stays in the cache
            energy = x[t] @ features.T
            weight = np.exp(energy - energy.max(axis=1, keepdims=True)).reshape(len(energy), 2**VISIBLE, -1)
            shown = weight.sum(axis=2)
            z = shown.sum(axis=1, keepdims=True)
            values[t] = np.log(shown / z) @ seen
            share = weight * (seen / shown - CASES / z)[:, :, None]
            slopes[t] = share.reshape(len(energy), -1) @ features
        return values, slopes

    x = rng.normal(size=(RUNGS, LADDERS, size))
    step, scale = np.full(RUNGS, 0.1), np.ones((RUNGS, 1, size))
    value, slope = likelihood(x)
    kept, heat = [], beta[:, None, None]
    for move in range(moves + moves // 4):
        p = rng.normal(size=x.shape)
        length = step[:, None, None] * rng.uniform(0.7, 1.3, (RUNGS, LADDERS, 1)) * scale
        y, v, g, q = x, value, slope, p
        for _ in range(int(rng.integers(LEAPS // 2, LEAPS * 3 // 2 + 1))):
            q = q + 0.5 * length * (heat * g - y)
            y = y + length * q
            v, g = likelihood(y)
            q = q + 0.5 * length * (heat * g - y)
        gain = beta[:, None] * (v - value) + 0.5 * (x**2 - y**2 + p**2 - q**2).sum(axis=2)
        goes = np.log(rng.random(gain.shape)) < gain
        x, slope = np.where(goes[:, :, None], y, x), np.where(goes[:, :, None], g, slope)
        value = np.where(goes, v, value)
        if move < moves // 4:
            step *= np.exp(0.2 * (goes.mean(axis=1) - 0.75))
            if move % 20 == 19:
                scale = 1.0 / np.sqrt(np.mean((heat * slope - x) ** 2, axis=1, keepdims=True))
                step = np.full(RUNGS, 0.5) if move < 40 else np.minimum(step, 1.0)
        else:
            kept.append(x[-1].copy())
        for low in range(RUNGS - 1):
            better = (beta[low + 1] - beta[low]) * (value[low] - value[low + 1])
            swap = np.log(rng.random(LADDERS)) < better
            for each in (x, slope, value):
                each[low, swap], each[low + 1, swap] = each[low + 1, swap].copy(), each[low, swap].copy()
    return np.array(kept)
