"""Where a search among hidden labels begins: some steps of EM from labels by the observations' quantiles.

EM climbs quickly at first and crawls at the end, where Newton's steps take over. Labels are put in the order of their
means, so that the mode found is the one whose parameters have names that mean something.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesfield.learning.objective import Objective
from bayesfield.types import FloatArray, IntArray

_STEPS = 40  # of EM, at most
_SLOW = 1.0  # nats a step below which Newton is faster
_OTHERS = 0.1  # probability that a first label is another one: none begins with nothing


def hidden_start(objective: Objective, rng: Any = 0) -> FloatArray:
    """Parameters near a mode, by EM."""
    phase: Any = objective.phases[-1]
    data = objective.data
    if not data.chains:
        return _quantiles(objective)
    model, K = data.model, data.model.law.labels
    labels = first_labels(data.y, K, np.random.default_rng(rng))
    soft = np.full((len(labels), K), _OTHERS / K)
    soft[np.arange(len(labels)), labels] += 1.0 - _OTHERS
    moves = np.zeros((K, K))
    inside = np.ones(len(labels) - 1, dtype=np.bool_)
    inside[data.ptr[1:-1] - 1] = False
    np.add.at(moves, (labels[:-1][inside], labels[1:][inside]), 1.0)
    law = model.law.from_counts(np.ones(K), moves + len(labels) * _OTHERS / K**2)
    here = model.ordered(np.concatenate([law, phase.views.maximised(soft, None)]))
    before = -np.inf
    for _ in range(_STEPS):
        found = phase.means(here)
        value = float(found.log_z.sum())
        if not found.finite or value - before < _SLOW:
            break
        before, counts = value, phase.expected(found)
        _, eta = model.split(here)
        law = model.law.from_counts(counts.first, counts.moves)
        here = np.concatenate([law, phase.views.maximised(counts.labels, eta)])
    result: FloatArray = model.ordered(here)
    return result


def _quantiles(objective: Objective) -> FloatArray:
    """The emission of labels by quantiles, the law's parameters where their prior has them."""
    phase: Any = objective.phases[-1]
    model, K = objective.data.model, objective.data.model.law.labels
    labels = first_labels(objective.data.y, K, np.random.default_rng(0))
    soft = np.full((len(labels), K), _OTHERS / K)
    soft[np.arange(len(labels)), labels] += 1.0 - _OTHERS
    law = objective.prior.location[: model.law.n_parameters]
    result: FloatArray = model.ordered(np.concatenate([law, phase.views.maximised(soft, None)]))
    return result


def first_labels(y: FloatArray, K: int, rng: np.random.Generator) -> IntArray:
    """Labels (n,) of observations (n, D): by quantiles along the direction in which they vary most."""
    filled = np.where(np.isnan(y), np.nanmean(y, axis=0), y)
    away = (filled - filled.mean(axis=0)) / np.maximum(filled.std(axis=0), 1e-300)
    along = away[:, 0]
    if y.shape[1] > 1:
        axis = np.linalg.eigh(np.atleast_2d(np.cov(away.T)))[1][:, -1]
        along = away @ (axis * np.sign(axis[np.argmax(np.abs(axis))]))
    along = along + 1e-9 * rng.standard_normal(len(along))  # counts and categories have ties
    result: IntArray = np.searchsorted(np.quantile(along, np.arange(1, K) / K), along).astype(np.int64)
    return result
