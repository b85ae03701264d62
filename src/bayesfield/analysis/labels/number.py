"""The posterior probability of each number of labels behind an image, by two ways that share nothing but the model.

``label_evidence``: p(y|K) of each K by itself, along two paths. Without coupling the labels are those of a mixture, and
replicas at powers t of its likelihood, which change places, give log p(y|K, β = 0) = Σ_r log E_{t_r}[p(y|η)^{Δt}]
(stepping stones: Xie et al. 2011). From there log p(y|K, β) grows by ∫ (E[S|y, β'] − E[S|β']) dβ', with replicas at
fixed couplings; and p(y|K) is its mean over the prior of β.

``label_jumps``: one chain over K, labels and coupling (reversible jump: Green 1995; hidden Potts fields: Green &
Richardson 2002), whose share of time at K is P(K|y). Emissions are integrated out where K moves, so that a jump is a
split of a label's sites in two, or a join, by restricted Gibbs scans (Jain & Neal 2004).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import logsumexp

from bayesfield import parallel
from bayesfield.analysis.labels.image import NumberPrior, Observed, observed
from bayesfield.kernels.gibbs import number as kernel
from bayesfield.model.lattices import Offset
from bayesfield.types import FloatArray, InvalidInput

_REPLICAS, _POWER = 40, 3.0  # heats of the likelihood without coupling: (r/(R − 1))^3
_COUPLINGS = 31  # at which labels are drawn given y
_BURN = 0.2  # of rounds that do not count
_BATCHES = 10
_SCANS = 4  # restricted Gibbs scans before a jump's own


@dataclass(frozen=True, eq=False)
class LabelNumber:
    """P(K|y) for K = 1, 2, …, all equally likely beforehand.

    probabilities: (most,). error: (most,) Monte-Carlo, of one standard deviation. log_evidence: log p(y|K) of
    standardised observations, and None where chains jump. r_hat: of the number of labels between chains that began with
    few and with many, NaN where nothing jumps. jumps: share of splits and joins that were accepted. log_z_error: of the
    log partition functions of free fields, which both ways share.
    """

    probabilities: FloatArray
    error: FloatArray
    log_evidence: FloatArray | None
    r_hat: float
    jumps: float
    log_z_error: FloatArray

    @property
    def likeliest(self) -> int:
        return int(np.argmax(self.probabilities)) + 1

    def __repr__(self) -> str:
        each = zip(self.probabilities, self.error, strict=True)
        rows = [f"{k:4d}  {p:.3f} ± {e:.3f}" for k, (p, e) in enumerate(each, 1)]
        return "\n".join(["labels  probability", *rows])


def label_evidence(
    image: Any,
    most: int = 6,
    *,
    neighbours: int | Sequence[Offset] = 4,
    prior: NumberPrior | None = None,
    rounds: int = 3000,
    free_updates: int = 4000,
    rng: np.random.Generator | int | None = 0,
) -> LabelNumber:
    """P(K|y) by the evidence of each number of labels.

    image: (rows, columns), NaN at sites that are left out. most: labels, at most. rounds: of all replicas, for each
    number; free_updates: of free fields, at each of 30 couplings, for log Z.
    """
    seeds, seen = _begun(image, most, neighbours, prior, free_updates, rounds, rng)
    found = [_evidence(seen, K, rounds, int(seeds[K])) for K in range(1, most + 1)]
    log_evidence, error = (np.array(column) for column in zip(*found, strict=True))
    p = np.exp(log_evidence - logsumexp(log_evidence))
    spread = p * np.sqrt(error**2 * (1.0 - 2.0 * p) + np.sum((p * error) ** 2))  # of a softmax, to first order
    return LabelNumber(p, spread, log_evidence, float("nan"), float("nan"), seen.log_z_error[1:])


def label_jumps(
    image: Any,
    most: int = 6,
    *,
    neighbours: int | Sequence[Offset] = 4,
    prior: NumberPrior | None = None,
    rounds: int = 20_000,
    chains: int = 4,
    free_updates: int = 4000,
    rng: np.random.Generator | int | None = 0,
) -> LabelNumber:
    """P(K|y) by chains that jump between numbers of labels. rounds: of each chain, half of which begin with one label.
    The rest as in ``label_evidence``."""
    if chains < 2:
        raise InvalidInput(f"chains that began apart tell whether they have met: at least 2; got {chains}")
    seeds, seen = _begun(image, most, neighbours, prior, free_updates, rounds, rng)
    words = parallel.chain_seeds(int(seeds[0]), chains)
    numbers = np.empty((chains, rounds))
    generator = np.random.default_rng(int(seeds[0]))
    for c in range(chains):
        K = 1 if c % 2 == 0 else most
        z = generator.integers(0, K, seen.graph.n).astype(np.int8)
        trace = np.empty((rounds, 2))
        kernel.jump(seen.image, most, K, 0.5 * seen.image.highest, z, _SCANS, words[c], trace)
        numbers[c] = trace[:, 0]
    kept = numbers[:, int(_BURN * rounds) :]
    shares = np.array([[(chain == K).mean() for K in range(1, most + 1)] for chain in kept])
    batches = np.array(
        [[(part == K).mean() for K in range(1, most + 1)] for chain in kept for part in np.array_split(chain, _BATCHES)]
    )
    moved = float(np.mean(np.diff(kept, axis=1) != 0.0))
    error = np.maximum(
        batches.std(axis=0, ddof=1) / np.sqrt(len(batches)), shares.std(axis=0, ddof=1) / np.sqrt(chains)
    )
    return LabelNumber(shares.mean(axis=0), error, None, _r_hat(kept), moved, seen.log_z_error[1:])


def _begun(
    image: Any, most: int, neighbours: int | Sequence[Offset], prior: NumberPrior | None, updates: int, rounds: int,
    rng: np.random.Generator | int | None,
) -> tuple[np.ndarray, Observed]:  # fmt: skip
    if most < 2 or rounds < 100 or updates < 100:
        raise InvalidInput(f"most is at least 2, rounds and free_updates at least 100; got {most}, {rounds}, {updates}")
    seeds = np.random.default_rng(rng).integers(2**31, size=most + 1)
    joined = neighbours if isinstance(neighbours, int) else list(neighbours)
    values = np.asarray(image, dtype=np.float64)
    return seeds, observed(values, most, joined, prior or NumberPrior(), updates)


def _evidence(seen: Observed, K: int, rounds: int, seed: int) -> tuple[float, float]:
    """log p(y|K) and its Monte-Carlo error."""
    image, n = seen.image, seen.graph.n
    if K == 1:
        return float(kernel.log_marginal(n, image.y.sum(), (image.y**2).sum(), image.hyper)), 0.0
    first, second = np.random.SeedSequence(seed).generate_state(2)
    gains, same = _uncoupled(image, K, rounds, int(first)), _coupled(image, K, rounds, int(second))
    total = _assembled(image, K, gains, same)
    parts = [_assembled(image, K, *part) for part in zip(_parts(gains), _parts(same), strict=True)]
    return total, float(np.std(parts, ddof=1) / np.sqrt(_BATCHES))


def _parts(series: FloatArray) -> list[FloatArray]:
    return np.array_split(series, _BATCHES)


def _uncoupled(image: kernel.Image, K: int, rounds: int, seed: int) -> FloatArray:
    """log p(y|η) times the step to the next heat, (rounds, R − 1)."""
    heats = np.linspace(0.0, 1.0, _REPLICAS) ** _POWER
    eta, likelihood = np.zeros((_REPLICAS, 2, K)), np.empty((rounds, _REPLICAS))
    kernel.mixtures(image, heats, eta, parallel.chain_seeds(seed, _REPLICAS), likelihood)
    result: FloatArray = likelihood[int(_BURN * rounds) :, :-1] * np.diff(heats)
    return result


def _coupled(image: kernel.Image, K: int, rounds: int, seed: int) -> FloatArray:
    """Equal pairs given y, (rounds, _COUPLINGS)."""
    z = np.random.default_rng(seed).integers(0, K, (_COUPLINGS, len(image.y))).astype(np.int8)
    eta = np.zeros((_COUPLINGS, 2, K))
    same, betas = np.empty((rounds, _COUPLINGS)), np.linspace(0.0, image.highest, _COUPLINGS)
    kernel.along(image, K, betas, z, eta, parallel.chain_seeds(seed, _COUPLINGS), same)
    return same[int(_BURN * rounds) :]


def _assembled(image: kernel.Image, K: int, gains: FloatArray, same: FloatArray) -> float:
    """log p(y|K) from both paths: log ∫ p(β) p(y|K, β) dβ."""
    at_zero = float(np.sum(logsumexp(gains, axis=0) - np.log(len(gains))))
    beta = np.linspace(0.0, image.highest, image.log_z.shape[1])
    given = CubicSpline(np.linspace(0.0, image.highest, _COUPLINGS), same.mean(axis=0)).antiderivative()(beta)
    free = image.log_z[K] - image.log_z[K, 0]
    prior = -0.5 * (beta / image.hyper[3]) ** 2
    return at_zero + float(logsumexp(prior + given - free) - logsumexp(prior))


def _r_hat(numbers: FloatArray) -> float:
    """Of the numbers of labels, (chains, rounds): plain, of split chains."""
    half = numbers.shape[1] // 2
    parts = np.concatenate([numbers[:, :half], numbers[:, half : 2 * half]])
    within, between = parts.var(axis=1, ddof=1).mean(), parts.mean(axis=1).var(ddof=1)
    if within == 0.0:
        return 1.0 if between == 0.0 else float("inf")
    return float(np.sqrt((half - 1) / half + between / within))
