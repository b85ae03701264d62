"""log Z of two layers of binary variables by annealed importance sampling (Neal 2001; Salakhutdinov & Murray 2008).

From independent variables x with odds e^r, whose Z is known, along p_β(x) ∝ e^{((1−β) r + β a)ᵀx} Π_j (1 + e^{β(b_j +
W_jᵀx)}): chains move by both layers at each β, and their weights w = Π p_β'(x) / p_β(x) have the mean Z / Z₀. Upwards
the logarithm of that mean is too low where chains are too few, downwards from states of the model it is too high: the
two ways together say how far to trust either.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bayesfield.graph.layers import LayerPotentials
from bayesfield.types import FloatArray

Single = NDArray[np.float32]
_SETTLE = 50  # passes at β = 1 before the way down, from where the way up has ended


class Annealed(NamedTuple):
    """log_z: by the way up. error: its Monte-Carlo standard error. down: by the way down."""

    log_z: float
    error: float
    down: float

    @property
    def gap(self) -> float:
        """By how much the two ways disagree; both hold where this is about the error."""
        return self.down - self.log_z


def annealed(
    t: LayerPotentials, start: FloatArray, rng: np.random.Generator, chains: int = 100, steps: int = 1000
) -> Annealed:
    """start: r, (L,), log odds of the larger layer's variables in the data, say; the closer the better."""
    a, b, W, r = (np.ascontiguousarray(part, dtype=np.float32) for part in (t.large, t.small, t.joint, start))
    x = _binary(np.broadcast_to(r, (chains, len(r))), rng)
    up, x = _way(x, a, b, W, r, np.linspace(0.0, 1.0, steps + 1), rng)
    for _ in range(_SETTLE):
        x = layer_pass(x, a, b, W, rng)
    back, _ = _way(x, a, b, W, r, np.linspace(1.0, 0.0, steps + 1), rng)
    base = t.constant + float(np.logaddexp(0.0, start).sum()) + len(b) * float(np.log(2.0))
    log_z = base + float(special.logsumexp(up)) - float(np.log(chains))
    w = np.exp(up - up.max())
    error = float(w.std(ddof=1) / w.mean() / np.sqrt(chains))
    return Annealed(log_z, error, base - (float(special.logsumexp(back)) - float(np.log(chains))))


def layer_pass(x: Single, a: Single, b: Single, W: Single, rng: np.random.Generator) -> Single:
    """The smaller layer given x, and x given that."""
    return _binary(a + _binary(b + x @ W, rng) @ W.T, rng)


def _way(
    x: Single, a: Single, b: Single, W: Single, r: Single, betas: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, Single]:
    """Log weights of the chains, (chains,), and where they end."""
    log_w, away = np.zeros(len(x)), a - r
    for before, beta in zip(betas[:-1].astype(np.float32), betas[1:].astype(np.float32), strict=True):
        logits = x @ W + b
        change = softplus(beta * logits) - softplus(before * logits)
        log_w += (beta - before) * (x @ away).astype(np.float64) + change.sum(axis=1, dtype=np.float64)
        x = _binary(r + beta * (away + _binary(beta * logits, rng) @ W.T), rng)
    return log_w, x


def softplus(logits: Single) -> Single:
    """log(1 + e^x), four times as fast as ``logaddexp``."""
    result: Single = np.maximum(logits, 0.0) + np.log1p(np.exp(-np.abs(logits)))
    return result


def _binary(logits: Single, rng: np.random.Generator) -> Single:
    """Independent draws of 0 and 1."""
    with np.errstate(over="ignore"):  # odds below e^-88 are none
        odds = 1.0 + np.exp(-logits)
    result: Single = (rng.random(logits.shape, dtype=np.float32) * odds < 1.0).astype(np.float32)
    return result
