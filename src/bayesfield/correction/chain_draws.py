"""What Markov chains of the parameters have drawn, and what it is worth."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bayesfield.types import FloatArray

_DRIFT = 4.5  # standard errors between the halves: a false alarm in 150,000 for each figure

Fold = Callable[[FloatArray], FloatArray]


class ChainDraws(NamedTuple):
    """points: (S, F). effective: how many independent draws they are worth, of the worst parameter's mean. error:
    Monte-Carlo error of the means, root mean square in sd. drift: largest difference of the halves' means or spreads
    in standard errors. settled: whether that is small. evaluations: of the objective."""

    points: FloatArray
    effective: float
    error: float
    drift: float
    settled: bool
    evaluations: int


def judge_draws(kept: FloatArray, spent: int, widths: bool = False) -> ChainDraws:
    """kept: (moves, chains, F). widths: whether sds count, too: as many independent draws of a Gaussian as have the
    error of the worst sd, where those are fewer."""
    moves, chains, size = kept.shape
    flat = kept.reshape(-1, size)
    mean, variance = flat.mean(axis=0), np.maximum(flat.var(axis=0), 1e-300)
    error = kept.mean(axis=0).std(axis=0, ddof=1) / np.sqrt(chains)  # chains are independent
    half, drifts = moves // 2, []
    squares = (kept - mean) ** 2
    for figure in (kept, squares):
        change = figure[:half].mean(axis=0) - figure[half:].mean(axis=0)
        drifts.append(np.abs(change.mean(axis=0)) / np.maximum(change.std(axis=0, ddof=1) / np.sqrt(chains), 1e-300))
    drift = float(np.max(drifts, initial=0.0))
    effective = float(np.min(variance / np.maximum(error**2, 1e-300), initial=float(len(flat))))
    if widths:
        uncertain = squares.mean(axis=0).std(axis=0, ddof=1) / np.sqrt(chains) / variance
        effective = min(effective, float(np.min(2.0 / np.maximum(uncertain**2, 1e-300), initial=effective)))
    rms = float(np.sqrt(np.mean(error**2 / variance))) if size else 0.0
    return ChainDraws(flat, min(effective, float(len(flat))), rms, drift, drift < _DRIFT, spent)
