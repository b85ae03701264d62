"""Hidden labels and missing observations, averaged over the posterior of a hidden field's parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from bayesfield.learning.phases.markov import MarkovPhase
from bayesfield.model.emissions.hidden import HiddenModel, as_ends
from bayesfield.posterior.posterior import Posterior
from bayesfield.types import FloatArray, IntArray, InvalidInput


def observations_for(model: HiddenModel, y: Any) -> FloatArray:
    """(n, D), with the columns that the model knows; a column may be missing altogether."""
    values = np.asarray(y, dtype=np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or values.shape[1] != len(model.emitted.families):
        raise InvalidInput(f"observations need {len(model.emitted.families)} columns; got shape {values.shape}")
    return values


def chain_probabilities(
    posterior: Posterior, y: Any, lengths: Any = None, n_draws: int = 20, rng: Any = 0
) -> FloatArray:
    """p(z_t = k | y), (n, K), of every label of hidden Markov chains, averaged over draws of the parameters."""
    phase = _chains(posterior, y, lengths)
    total: Any = 0.0
    for here in posterior.sample_predictive(n_draws, rng):
        total = total + phase.marginals(here).marginal
    result: FloatArray = total / total.sum(axis=1, keepdims=True)
    return result


def chain_log_predictive(
    posterior: Posterior, y: Any, lengths: Any = None, n_draws: int = 20, rng: Any = 0
) -> FloatArray:
    """log p(y_t | y_1 … y_{t−1}, data) of every row, (n,): their sum is log p(y | data).

    Averaged over draws of the parameters, each weighted by how well it has predicted so far.
    """
    phase = _chains(posterior, y, lengths)
    each = np.array([phase.log_predictive(here) for here in posterior.sample_predictive(n_draws, rng)])
    so_far: FloatArray = special.logsumexp(np.cumsum(each, axis=1), axis=0) - np.log(len(each))
    return np.diff(so_far, prepend=0.0)


def imputed(posterior: Posterior, y: Any, probabilities: FloatArray) -> FloatArray:
    """y with what is expected in its holes, given the labels' probabilities; of categories the likeliest one."""
    model: Any = posterior.field
    filled = observations_for(model, y).copy()
    local = model.emitted.local(model.split(posterior.mean)[1])
    for d, family in enumerate(model.emitted.families):
        holes = np.isnan(filled[:, d])
        filled[holes, d] = family.expected(local[d], probabilities[holes])
    return filled


def new_chains(posterior: Posterior, lengths: IntArray, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Observations (n, D) and labels of new sequences, by one draw of the parameters."""
    model: Any = posterior.field
    law, eta = model.split(posterior.sample_predictive(1, rng)[0])
    labels = model.law.draw(law, lengths, rng)
    return model.emitted.draw(eta, labels, rng), labels


def _chains(posterior: Posterior, y: Any, lengths: Any) -> MarkovPhase:
    model: Any = posterior.field
    values = observations_for(model, y)
    return MarkovPhase(model, model.emitted.views(values), as_ends(lengths, len(values)))
