"""Hidden labels and missing observations, averaged over the posterior of a hidden field's parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from bayesfield.graph.compiled import compiled
from bayesfield.inference.auto import Auto
from bayesfield.inference.queries import sample
from bayesfield.inference.sampling.labels import LabelChain, neighbours
from bayesfield.learning.hidden.emission import EmissionPhase
from bayesfield.learning.hidden.markov import MarkovPhase
from bayesfield.learning.phases.graph import GraphPhase
from bayesfield.model.emissions.hidden import HiddenModel, as_ends
from bayesfield.posterior.posterior import Posterior
from bayesfield.types import FloatArray, IntArray, InvalidInput

_EXACT = 0.3  # seconds of counted work of an exact inference, at most, with every draw
_DRAWN = 2e7  # labels that a chain draws in all, about
_FEWEST, _MOST = 10, 400  # sweeps at each draw of the parameters
_BURN, _SETTLE, _NEW = 60, 5, 300  # sweeps before the first draw counts, before each; updates of a new field
_NODES = 24  # of the integral over β


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


# --- fields ---------------------------------------------------------------------------------------------------------


def field_probabilities(model: HiddenModel, points: FloatArray, y: FloatArray, seed: int = 0) -> FloatArray:
    """p(z_i = k | y), (n, K), averaged over parameters (S, F): exact where that is affordable, else by a chain.

    The chain goes through the parameters in turn, some sweeps at each.
    """
    exact = _exact(model, y)
    if exact is not None:
        answers = [exact.beliefs(exact.at(here)) for here in points]
        return np.asarray(np.mean(answers, axis=0))
    views, chain = model.emitted.views(y), _chain(model, seed)
    chain.z = views.tables(points[0][1:]).argmax(axis=1).astype(np.int8)
    each = int(np.clip(_DRAWN / (len(y) * len(points)), _FEWEST, _MOST))
    total = np.zeros((len(y), model.law.labels))
    for s, here in enumerate(points):
        tables = views.tables(here[1:])
        chain.clamped(float(here[0]), tables, None, _BURN if s == 0 else _SETTLE)
        total += chain.clamped(float(here[0]), tables, None, each).beliefs
    result: FloatArray = total / total.sum(axis=1, keepdims=True)
    return result


def field_log_likelihood(model: HiddenModel, here: FloatArray, y: FloatArray, seed: int = 0) -> float:
    """log p(y | λ): exact where that is affordable, else by thermodynamic integration over β from 0, where all sites
    are independent: d log Z / dβ = E[equal pairs], with and without y."""
    exact = _exact(model, y)
    if exact is not None:
        law, graph = exact.inner.design, exact.inner.graph
        theta = law.potentials(exact.split(here)[0])
        return exact.at(here).log_z - exact.engine.infer(graph, theta).log_z
    tables = model.emitted.views(y).tables(here[1:])
    given, free = _chain(model, seed), _chain(model, seed + 1)
    given.z = tables.argmax(axis=1).astype(np.int8)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    sweeps = int(np.clip(_DRAWN / (len(y) * _NODES), 2 * _FEWEST, _MOST))
    value = float(special.logsumexp(tables, axis=1).sum()) - len(y) * float(np.log(model.law.labels))
    for node, weight in zip(0.5 * (nodes + 1.0) * here[0], 0.5 * weights * here[0], strict=True):
        given.clamped(float(node), tables, None, _SETTLE)
        free.free(float(node), _SETTLE)
        pairs = given.clamped(float(node), tables, None, sweeps).same.mean()
        value += float(weight * (pairs - free.free(float(node), sweeps)[:, 0].mean()))
    return value


def new_field(model: HiddenModel, here: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Observations (n, D) and labels (n,) of a new field."""
    law, eta = model.split(here)
    if model.law.exchangeable:  # type: ignore[attr-defined]
        chain = _chain(model, int(rng.integers(2**31)))
        chain.free(float(law[0]), _NEW)
        labels = chain.z.astype(np.int64)
    else:
        labels = sample(model.law.field, law, 1, rng)[0]  # type: ignore[attr-defined]
        labels = model.law.field.encode(labels[None], holes=False)[0]  # type: ignore[attr-defined]
    return model.emitted.draw(eta, labels, rng), labels


def _exact(model: HiddenModel, y: FloatArray) -> EmissionPhase | None:
    """The labels given y by exact inference, where one takes some tenths of a second at most; and by the engine that
    auto takes, where chains of labels cannot stand in."""
    law: Any = model.law
    field = compiled(law.field)
    engine, _ = Auto().choose(field.graph)
    if law.exchangeable and not (engine.traits.exact and engine.price(field.graph, 1).inference < _EXACT):
        return None
    return EmissionPhase(GraphPhase(field.graph, field.design, engine, -1.0, True), model.emitted.views(y))


def _chain(model: HiddenModel, seed: int) -> LabelChain:
    law: Any = model.law
    n, K = law.field.n_variables, law.labels
    scopes = compiled(law.field).graph.arrays.scope.reshape(-1, 2)
    return LabelChain(neighbours(n, scopes), K, np.random.default_rng(seed).integers(0, K, n), seed)
