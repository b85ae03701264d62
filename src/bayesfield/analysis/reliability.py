"""Do predicted probabilities come true? Every cell of the data, given the others of its case, against what is there.

A model that gives a state the probability 0.3 should be right three times out of ten.
"""

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from bayesfield.analysis.predictive_check import observed_cases
from bayesfield.posterior.posterior import Posterior, require_posterior
from bayesfield.prediction.given_others import given_others
from bayesfield.types import FloatArray, InvalidInput

_LEVEL = 0.95


def reliability(
    posterior: Posterior,
    X: Any = None,
    *,
    bins: int = 10,
    n_draws: int = 50,
    cases: int = 1000,
    rng: np.random.Generator | int | None = 0,
) -> pd.DataFrame:
    """A row for each bin of predicted probability: cells, predicted (mean), observed (share), lower and upper (95 %).

    X: cases, by default those of the fit; cases that the fit has not seen are a harder test. Every state of every cell
    counts once. n_draws: of the parameters, that predictions average over. cases: at most so many are looked at,
    taken at random.
    """
    require_posterior(posterior)
    if bins < 2 or n_draws < 1 or cases < 1:
        raise InvalidInput(f"bins are 2 or more, n_draws and cases 1 or more; got {bins}, {n_draws} and {cases}")
    field, codes = observed_cases(posterior, X)
    generator = np.random.default_rng(rng)
    if len(codes) > cases:
        codes = codes[generator.choice(len(codes), cases, replace=False)]
    seed = int(generator.integers(2**31))
    predicted, there = [], []
    for j in range(codes.shape[1]):
        known = np.flatnonzero(codes[:, j] >= 0)
        if not len(known) or len(field.states[j]) < 2:
            continue
        p = given_others(posterior, codes[known], j, n_draws, seed)
        predicted.append(p.ravel())
        there.append((np.arange(p.shape[1]) == codes[known, j][:, None]).ravel())
    if not predicted:
        raise InvalidInput("there is nothing to predict: no variable with two states is observed")
    return binned(np.concatenate(predicted), np.concatenate(there).astype(np.float64), bins)


def binned(predicted: FloatArray, there: FloatArray, bins: int) -> pd.DataFrame:
    """By bins of equal width; empty ones are left out. Intervals by Jeffreys' prior."""
    which = np.minimum((predicted * bins).astype(np.int64), bins - 1)
    count = np.bincount(which, minlength=bins)
    kept = count > 0
    hits = np.bincount(which, there, minlength=bins)[kept]
    mean = np.bincount(which, predicted, minlength=bins)[kept] / count[kept]
    tail = (1.0 - _LEVEL) / 2
    band = stats.beta(hits + 0.5, count[kept] - hits + 0.5)
    return pd.DataFrame(
        {
            "cells": count[kept],
            "predicted": mean,
            "observed": hits / count[kept],
            "lower": band.ppf(tail),
            "upper": band.ppf(1.0 - tail),
        }
    )
