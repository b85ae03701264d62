"""Cases that show one layer of two, at draws of the parameters: their probability, and what they say of the other.

log p(x) = log Z(x) − log Z. The first is two matrix products for all cases. The second is a sum over the smaller layer,
or, where that is too large, annealed importance sampling at every draw.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy import special

from bayesfield import parallel
from bayesfield.graph.cases import case_energies
from bayesfield.graph.compiled import CompiledField
from bayesfield.graph.layers import LayerPotentials, layer_potentials, layers_of, seen_layer
from bayesfield.inference.sampling.annealing import annealed, layer_pass
from bayesfield.inference.trees.small_layer import SmallLayer, sum_over_layer
from bayesfield.learning.layers.phase import hidden_log_z, hidden_means
from bayesfield.types import FitWarning, FloatArray, IntArray

_CHAINS, _STEPS = 100, 400  # of annealing at one draw of the parameters
_PASSES = 100  # of chains, for the odds that annealing starts at
_FAR = 1.0  # nats: difference of the ways up and down beyond which log Z is not known


class LayerScores(NamedTuple):
    """log_p: (N,) of each case, averaged over the draws. error: standard error of log Z, at the median draw; 0 for
    sums. gap: by how much annealing up and down disagree there."""

    log_p: FloatArray
    error: float
    gap: float


def too_large(field: CompiledField) -> bool:
    """Whether a field is two layers, both too large for a sum."""
    return layers_of(field.graph) is not None and not SmallLayer().fits(field.graph)


def layer_scores(field: CompiledField, codes: IntArray, points: FloatArray, seed: int) -> LayerScores | None:
    """codes: (N, n), −1 in the hidden layer; None where they show something else."""
    layer = seen_layer(field, codes, None)
    if layer is None:
        return None
    rng = np.random.default_rng(seed)
    with parallel.single_blas():
        log_z = [_log_z(field, here, rng) for here in points]
        log_p = hidden_log_z(layer, points)[:, layer.which] + case_energies(field, codes, points)
    values, errors, gaps = np.array(log_z).T
    if float(np.median(np.abs(gaps))) > _FAR:
        warnings.warn(
            f"log Z is not known well: annealing up and down differ by {np.median(gaps):.1f} nats. Probabilities of "
            "cases are too high by up to as much",
            FitWarning,
            stacklevel=3,
        )
    each = special.logsumexp(log_p - values[:, None], axis=0) - np.log(len(points))
    return LayerScores(each, float(np.median(errors)), float(np.median(gaps)))


def hidden_given_seen(field: CompiledField, codes: IntArray, points: FloatArray) -> FloatArray | None:
    """P(h = 1 | x) of each case, (N, H), averaged over draws; None where cases show something else than one layer."""
    layer = seen_layer(field, codes, None)
    return None if layer is None else hidden_means(layer, points)[layer.which]


def _log_z(field: CompiledField, parameters: FloatArray, rng: np.random.Generator) -> tuple[float, float, float]:
    """log Z, its standard error, and the gap."""
    layers = layers_of(field.graph)
    assert layers is not None
    t = layer_potentials(field.graph, layers, field.design.potentials(parameters))
    if SmallLayer().fits(field.graph):
        return sum_over_layer(t).log_z, 0.0, 0.0
    found = annealed(t, _odds(t, rng), rng, _CHAINS, _STEPS)
    return found.log_z, found.error, found.gap


def _odds(t: LayerPotentials, rng: np.random.Generator) -> FloatArray:
    """About the log odds of the larger layer's variables, by short chains."""
    a, b, W = (np.ascontiguousarray(part, dtype=np.float32) for part in (t.large, t.small, t.joint))
    x = np.zeros((_CHAINS, len(a)), dtype=np.float32)
    total = np.zeros(len(a))
    for k in range(_PASSES):
        x = layer_pass(x, a, b, W, rng)
        total += x.mean(axis=0) if 2 * k >= _PASSES else 0.0
    share = (total + 0.5) / (_PASSES / 2 + 1.0)
    return np.log(share / (1.0 - share))
