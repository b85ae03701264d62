"""Judges of samples: arrays in, numbers out. Chains are (chain, draw, parameter); judges give a number a parameter.

R-hat and effective sample sizes follow Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), "Rank-normalization,
folding, and localization"; autocorrelation sums are cut by Geyer's (1992) initial monotone sequence.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy import linalg, special

from bayesfield.types import FloatArray, InvalidInput


def cramer_von_mises(first: FloatArray, second: FloatArray) -> FloatArray:
    """Distance between two sets of samples, one number for each parameter: equation (23) of the paper.

    Σ over all points z of both sets of (F₁(z) − F₂(z))², with F the empirical distribution functions. Two sets of n
    exact samples score 2/3 on average, whatever the distribution; a shift of δ standard deviations adds about
    0.184 n δ².

    first, second: (draws, parameters); returns (parameters,).
    """
    first, second = np.atleast_2d(first), np.atleast_2d(second)
    if first.shape[1] != second.shape[1]:
        raise InvalidInput(
            f"both sets need the same parameters; got {first.shape[1]} and {second.shape[1]} columns: "
            "give each as (draws, parameters)"
        )
    return np.array([_column_distance(a, b) for a, b in zip(first.T, second.T, strict=True)])


def _column_distance(a: FloatArray, b: FloatArray) -> float:
    pooled = np.sort(np.concatenate([a, b]))
    below_a = np.searchsorted(np.sort(a), pooled, side="right") / len(a)
    below_b = np.searchsorted(np.sort(b), pooled, side="right") / len(b)
    return float(np.sum((below_a - below_b) ** 2))


def split_r_hat(chains: FloatArray) -> FloatArray:
    """Potential scale reduction of split chains (Gelman et al., BDA3, section 11.4).

    Values near 1 say that the chains agree with one another and with themselves.
    """
    return _scale_reduction(_halves(_chains(chains)))


def _scale_reduction(halves: FloatArray) -> FloatArray:
    n = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)  # B/n
    with np.errstate(invalid="ignore", divide="ignore"):
        result: FloatArray = np.sqrt((n - 1) / n + between / within)
    return result


def r_hat(chains: FloatArray) -> FloatArray:
    """Rank-normalised split R-hat: the larger of that of the draws (location) and of their folds (scale)."""
    halves = _halves(_chains(chains))
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    found = [_scale_reduction(_normal_ranks(h)) for h in (halves, folded)]
    result: FloatArray = np.maximum(*found)
    return result


def multivariate_r_hat(chains: FloatArray) -> float:
    """MPSRF (Brooks & Gelman 1998): (n−1)/n + (m+1)/m · the largest eigenvalue of W⁻¹B/n.

    It bounds the R-hat of every linear combination of the parameters. Infinite where the chains are too few or too
    short to tell (W singular).
    """
    chains = _chains(chains)
    m, n, size = chains.shape
    if m < 2 or m * (n - 1) < size:
        return float("inf")
    means = chains.mean(axis=1)
    centred = (chains - means[:, None]).reshape(m * n, size)
    within = centred.T @ centred / (m * (n - 1))
    between = np.atleast_2d(np.cov(means, rowvar=False))  # B/n
    try:
        largest = linalg.eigh(between, within, eigvals_only=True, subset_by_index=[size - 1, size - 1])[0]
    except linalg.LinAlgError:
        return float("inf")
    return float((n - 1) / n + (m + 1) / m * largest)


def autocorrelation_time(chains: FloatArray) -> FloatArray:
    """Integrated autocorrelation time τ = 1 + 2 Σ ρ_t: so many draws are worth one independent draw."""
    chains = _chains(chains)
    return np.array([_time(chains[:, :, k]) for k in range(chains.shape[2])])


def effective_size(chains: FloatArray) -> FloatArray:
    """Independent draws that would tell the mean as well: m n / τ, over split chains."""
    return _split_size(_chains(chains))


def bulk_size(chains: FloatArray) -> FloatArray:
    """effective_size of the normalised ranks: for the middle of the distribution, whatever its tails."""
    return _split_size(_chains(chains), _normal_ranks)


def tail_size(chains: FloatArray) -> FloatArray:
    """The smaller effective size of the 5 % and the 95 % quantile."""
    chains = _chains(chains)
    limits = np.quantile(chains, [0.05, 0.95], axis=(0, 1))
    result: FloatArray = np.min([_split_size((chains <= limit).astype(float)) for limit in limits], axis=0)
    return result


def thinned(chains: FloatArray, interval: int | None = None) -> FloatArray:
    """Every interval-th draw; by default ⌈the largest autocorrelation time⌉, so that what is left is independent."""
    chains = _chains(chains)
    if interval is None:
        interval = int(np.ceil(np.nanmax(autocorrelation_time(chains), initial=1.0)))
    result: FloatArray = chains[:, interval - 1 :: interval]
    return result


def _chains(chains: FloatArray) -> FloatArray:
    chains = np.asarray(chains, dtype=np.float64)
    if chains.ndim != 3 or chains.shape[1] < 4:
        raise InvalidInput(
            f"chains need the shape (chain, draw, parameter) and four draws or more; got {chains.shape}: one chain is "
            "draws[np.newaxis]"
        )
    return chains


def _halves(chains: FloatArray) -> FloatArray:
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, -half:]])


def _normal_ranks(chains: FloatArray) -> FloatArray:
    """Ranks over all chains, as quantiles of a standard normal (Blom's offsets)."""
    m, n, size = chains.shape
    ranks = pd.DataFrame(chains.reshape(m * n, size)).rank().to_numpy()
    result: FloatArray = special.ndtri((ranks - 0.375) / (m * n + 0.25)).reshape(chains.shape)
    return result


def _split_size(chains: FloatArray, change: Callable[[FloatArray], FloatArray] = lambda c: c) -> FloatArray:
    halves = change(_halves(chains))
    m, n, size = halves.shape
    return np.array([m * n / max(_time(halves[:, :, k]), 1.0 / np.log10(m * n)) for k in range(size)])


def _time(draws: FloatArray) -> float:
    """τ of one parameter, draws (m, n). Sums of neighbouring ρ are positive and fall: what does not is noise."""
    m, n = draws.shape
    covariance = _autocovariance(draws)  # (m, n)
    within = covariance[:, 0].mean() * n / (n - 1)
    variance = within * (n - 1) / n + (draws.mean(axis=1).var(ddof=1) if m > 1 else 0.0)
    if not variance > 0.0:
        return float("nan")
    rho = 1.0 - (within - covariance.mean(axis=0)) / variance
    rho[0] = 1.0
    pairs = rho[: n - n % 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0.0)
    end = max(int(negative[0]) if len(negative) else len(pairs) - 1, 1)
    falling = np.minimum.accumulate(pairs[:end])
    # the first even ρ beyond the cut still counts, where it is positive: it makes the estimate less biased
    rest = max(float(rho[2 * end]), 0.0) if 2 * end < n else 0.0
    return float(-1.0 + 2.0 * falling.sum() + rest)


def _autocovariance(draws: FloatArray) -> FloatArray:
    """(m, n): Σ_t x_t x_{t+k} / n of the centred chains, by FFT."""
    n = draws.shape[1]
    size = 1 << (2 * n - 1).bit_length()
    wave = np.fft.rfft(draws - draws.mean(axis=1, keepdims=True), n=size, axis=1)
    result: FloatArray = np.fft.irfft(wave * wave.conj(), n=size, axis=1)[:, :n] / n
    return result


def calibration_error(probabilities: FloatArray, truth: FloatArray, bins: int = 15) -> float:
    """Expected calibration error: |how often the likeliest label is right − its probability|, averaged over bins.

    probabilities: (n, K). truth: (n,) numbers of the labels. bins: of equal width, weighted by how many fall in each.
    """
    p, labels = np.asarray(probabilities, dtype=np.float64), np.asarray(truth)
    if p.ndim != 2 or labels.shape != p.shape[:1]:
        raise InvalidInput(f"give probabilities (n, K) and n labels; got {p.shape} and {labels.shape}")
    if not len(p):
        return float("nan")
    top, right = p.max(axis=1), p.argmax(axis=1) == labels
    place = np.minimum((top * bins).astype(np.int64), bins - 1)
    gap = np.bincount(place, right - top, minlength=bins)
    return float(np.abs(gap).sum() / len(p))


def arviz() -> Any:
    """The package, of any version, or an error that says how to get it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # version 0.23 announces version 1 at import
            import arviz
    except ImportError:
        raise InvalidInput('this needs the package arviz: pip install "bayesfield[samplers]"') from None
    return arviz
