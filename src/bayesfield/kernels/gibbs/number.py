"""Chains of hidden Potts labels with Gaussian emissions whose number of labels is fixed or moves.

Of y (n,), standardised, with labels z: p(z|β, K) = e^{β S(z)} / Z_K(β), S the equal pairs; y_i | z_i = k ~
N(μ_k, σ_k²); σ_k² ~ IG(a, b), μ_k | σ_k² ~ N(0, σ_k²/κ); β ~ half-normal with sd c on [0, highest]. A label's emission
integrates to m(n, Σy, Σy²).
Neighbours stand in one row: those of i from ptr[i] to ptr[i + 1].
"""

from math import lgamma
from typing import NamedTuple

import numpy as np

from bayesfield.kernels.gibbs.general import uniform
from bayesfield.kernels.gibbs.labels import equal_pairs
from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, IntArray

_LOG_TAU = 1.8378770664093453
_TINY = 1e-300


class Image(NamedTuple):
    """What is observed, and the model. hyper: κ, a, b, c. log_z: (most + 1, G), log Z_K(β) from β = 0 to highest."""

    ptr: IntArray
    neighbour: np.ndarray
    y: FloatArray
    hyper: FloatArray
    log_z: FloatArray
    highest: float


@jit
def normal(seed: np.ndarray) -> float:
    """Box & Muller (1958)."""
    return np.sqrt(-2.0 * np.log(1.0 - uniform(seed))) * np.cos(2.0 * np.pi * uniform(seed))


@jit
def gamma(shape: float, seed: np.ndarray) -> float:
    """Marsaglia & Tsang (2000), for shapes of at least 1."""
    d = shape - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    while True:
        x = normal(seed)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and np.log(1.0 - uniform(seed)) < 0.5 * x * x + d - d * v + d * np.log(v):
            return d * v


@jit
def log_marginal(count: float, first: float, second: float, hyper: FloatArray) -> float:
    """log m of so many observations with sums Σy and Σy²."""
    kappa, a, b = hyper[0], hyper[1], hyper[2]
    at, k = a + 0.5 * count, kappa + count
    scale = b + 0.5 * (second - first * first / k)
    level = 0.5 * np.log(kappa / k) + a * np.log(b) - at * np.log(scale)
    return level + lgamma(at) - lgamma(a) - 0.5 * count * _LOG_TAU


@jit
def log_partition(image: Image, K: int, beta: float) -> float:
    """log Z_K(β), between the table's points."""
    place = beta / image.highest * (image.log_z.shape[1] - 1)
    low = min(int(place), image.log_z.shape[1] - 2)
    share = place - low
    return (1.0 - share) * image.log_z[K, low] + share * image.log_z[K, low + 1]


@jit
def emissions(image: Image, K: int, z: np.ndarray, eta: FloatArray, seed: np.ndarray) -> None:
    """Draw μ and log σ² of every label, eta (2, K), given labels."""
    kappa, a, b = image.hyper[0], image.hyper[1], image.hyper[2]
    sums = np.zeros((K, 3))
    for i in range(len(z)):
        k = z[i]
        sums[k, 0] += 1.0
        sums[k, 1] += image.y[i]
        sums[k, 2] += image.y[i] * image.y[i]
    for k in range(K):
        count, first, second = sums[k, 0], sums[k, 1], sums[k, 2]
        scale = b + 0.5 * (second - first * first / (kappa + count))
        variance = scale / gamma(a + 0.5 * count, seed)
        eta[0, k] = first / (kappa + count) + np.sqrt(variance / (kappa + count)) * normal(seed)
        eta[1, k] = np.log(variance)


@jit
def labels_given(image: Image, K: int, beta: float, eta: FloatArray, z: np.ndarray, seed: np.ndarray) -> None:
    """Draw every label once."""
    w, log_p = np.empty(K), np.empty(K)
    inverse = np.exp(-eta[1])
    power = np.exp(beta * np.arange(16.0))
    for i in range(len(z)):
        top = -np.inf
        for k in range(K):
            away = image.y[i] - eta[0, k]
            log_p[k] = -0.5 * (away * away * inverse[k] + eta[1, k] + _LOG_TAU)
            top = max(top, log_p[k])
            w[k] = 0.0
        for e in range(image.ptr[i], image.ptr[i + 1]):
            w[z[image.neighbour[e]]] += 1.0
        total = 0.0
        for k in range(K):
            w[k] = power[int(w[k])] * np.exp(log_p[k] - top)
            total += w[k]
        left, label = uniform(seed) * total, 0
        while label < K - 1 and left >= w[label]:
            left -= w[label]
            label += 1
        z[i] = label


@jit
def coupling(image: Image, K: int, beta: float, z: np.ndarray, step: float, seed: np.ndarray) -> float:
    """β moved by Metropolis, reflected at the ends of its range, some times."""
    same = equal_pairs(image.ptr, image.neighbour, z)
    for _ in range(3):
        there = abs(beta + step * normal(seed))
        there = 2.0 * image.highest - there if there > image.highest else there
        gain = (there - beta) * same - 0.5 * (there * there - beta * beta) / image.hyper[3] ** 2
        gain -= log_partition(image, K, there) - log_partition(image, K, beta)
        if there >= 0.0 and np.log(uniform(seed) + _TINY) < gain:
            beta = there
    return beta


@jit
def mixtures(image: Image, heats: FloatArray, eta: FloatArray, seeds: np.ndarray, likelihood: FloatArray) -> None:
    """Replicas of the emissions of labels without coupling, eta (R, 2, K), at the powers ``heats`` of the likelihood
    log p(y|η) = Σ_i log (1/K) Σ_k N(y_i; μ_k, σ_k²), labels summed over, which change places. The first, of heat 0, is
    drawn from the prior. likelihood: (T, R), at every heat after each of T rounds."""
    R, K, n = eta.shape[0], eta.shape[2], len(image.y)
    each, total = np.empty((R, K, n)), np.empty((R, n))
    fresh, here = np.empty(n), np.empty(R)
    for r in range(R):
        _from_prior(image, eta[r], seeds[r])
        for k in range(K):
            _density(image.y, eta[r, 0, k], eta[r, 1, k], each[r, k])
        here[r] = _mixed(each[r], total[r])
    for t in range(len(likelihood)):
        for r in range(R):
            if heats[r] == 0.0:
                _from_prior(image, eta[r], seeds[r])
                for k in range(K):
                    _density(image.y, eta[r, 0, k], eta[r, 1, k], each[r, k])
                here[r] = _mixed(each[r], total[r])
            else:
                for k in range(K):
                    here[r] = _moved(image, k, heats[r], eta[r], each[r], total[r], fresh, here[r], seeds[r])
                here[r] = _mixed(each[r], total[r])  # anew, so that rounding does not add up
        for r in range(t % 2, R - 1, 2):
            gain = (heats[r + 1] - heats[r]) * (here[r] - here[r + 1])
            if np.log(uniform(seeds[r]) + _TINY) < gain:
                here[r], here[r + 1] = here[r + 1], here[r]
                _swap(eta[r].reshape(-1), eta[r + 1].reshape(-1))
                _swap(each[r].reshape(-1), each[r + 1].reshape(-1))
                _swap(total[r], total[r + 1])
        likelihood[t] = here


@jit
def _swap(one: FloatArray, other: FloatArray) -> None:
    for i in range(len(one)):
        one[i], other[i] = other[i], one[i]


@jit
def _from_prior(image: Image, eta: FloatArray, seed: np.ndarray) -> None:
    for k in range(eta.shape[1]):
        variance = image.hyper[2] / gamma(image.hyper[1], seed)
        eta[0, k] = np.sqrt(variance / image.hyper[0]) * normal(seed)
        eta[1, k] = np.log(variance)


@jit
def _density(y: FloatArray, mean: float, log_variance: float, out: FloatArray) -> None:
    scale, level = 0.5 * np.exp(-log_variance), np.exp(-0.5 * (log_variance + _LOG_TAU))
    for i in range(len(y)):
        away = y[i] - mean
        out[i] = level * np.exp(-away * away * scale)


@jit
def _mixed(each: FloatArray, total: FloatArray) -> float:
    """log p(y|η), and the sums over labels."""
    result = 0.0
    for i in range(len(total)):
        total[i] = 0.0
        for k in range(len(each)):
            total[i] += each[k, i]
        result += np.log(total[i] / len(each) + _TINY)
    return result


@jit
def _log_prior(image: Image, mean: float, log_variance: float) -> float:
    """Of μ and log σ²."""
    kappa, a, b = image.hyper[0], image.hyper[1], image.hyper[2]
    return -a * log_variance - 0.5 * log_variance - np.exp(-log_variance) * (b + 0.5 * kappa * mean * mean)


@jit
def _moved(
    image: Image,
    k: int,
    heat: float,
    eta: FloatArray,
    each: FloatArray,
    total: FloatArray,
    fresh: FloatArray,
    here: float,
    seed: np.ndarray,
) -> float:
    """One label's μ and log σ² by Metropolis, with a step of any size from 0.02 to 2. Gives log p(y|η) afterwards."""
    step = 2.0 * np.exp(-4.6 * uniform(seed))
    mean, log_variance = eta[0, k] + step * normal(seed), eta[1, k] + step * normal(seed)
    _density(image.y, mean, log_variance, fresh)
    there = 0.0
    for i in range(len(fresh)):
        there += np.log(max(total[i] - each[k, i] + fresh[i], 0.0) / len(each) + _TINY)
    gain = heat * (there - here) + _log_prior(image, mean, log_variance) - _log_prior(image, eta[0, k], eta[1, k])
    if not np.log(uniform(seed) + _TINY) < gain:
        return here
    eta[0, k], eta[1, k] = mean, log_variance
    for i in range(len(fresh)):
        total[i] += fresh[i] - each[k, i]
        each[k, i] = fresh[i]
    return there


@jit
def along(
    image: Image, K: int, betas: FloatArray, z: np.ndarray, eta: FloatArray, seeds: np.ndarray, same: FloatArray
) -> None:
    """Replicas of K labels given y at fixed couplings, which change places. same: (T, R), equal pairs at every coupling
    after each of T rounds."""
    R = len(betas)
    here = np.empty(R)
    for t in range(len(same)):
        for r in range(R):
            emissions(image, K, z[r], eta[r], seeds[r])
            labels_given(image, K, betas[r], eta[r], z[r], seeds[r])
            here[r] = equal_pairs(image.ptr, image.neighbour, z[r])
        for r in range(t % 2, R - 1, 2):
            gain = (betas[r + 1] - betas[r]) * (here[r] - here[r + 1])
            if np.log(uniform(seeds[r]) + _TINY) < gain:
                here[r], here[r + 1] = here[r + 1], here[r]
                _exchanged(z, eta, r)
        same[t] = here


@jit
def _exchanged(z: np.ndarray, eta: FloatArray, r: int) -> None:
    """Replicas r and r + 1 change places."""
    for i in range(z.shape[1]):
        z[r, i], z[r + 1, i] = z[r + 1, i], z[r, i]
    for k in range(eta.shape[2]):
        eta[r, 0, k], eta[r + 1, 0, k] = eta[r + 1, 0, k], eta[r, 0, k]
        eta[r, 1, k], eta[r + 1, 1, k] = eta[r + 1, 1, k], eta[r, 1, k]


@jit
def _sums(image: Image, z: np.ndarray, label: int, out: FloatArray) -> None:
    out[:] = 0.0
    for i in range(len(z)):
        if z[i] == label:
            out[0] += 1.0
            out[1] += image.y[i]
            out[2] += image.y[i] * image.y[i]


@jit
def _scan(
    image: Image,
    sites: IntArray,
    pair: IntArray,
    beta: float,
    z: np.ndarray,
    sums: FloatArray,
    forced: np.ndarray,
    seed: np.ndarray,
) -> float:
    """Each of the sites drawn once from one of a pair of labels given all others, emissions integrated out; forced:
    what they become instead, or none. Gives the log probability of that. sums: (2, 3) of both, kept up to date."""
    total = 0.0
    for place in range(len(sites)):
        i = sites[place]
        y = image.y[i]
        mine = 0 if z[i] == pair[0] else 1
        sums[mine, 0] -= 1.0
        sums[mine, 1] -= y
        sums[mine, 2] -= y * y
        odds = 0.0
        for e in range(image.ptr[i], image.ptr[i + 1]):
            other = z[image.neighbour[e]]
            odds += beta * ((other == pair[1]) - (other == pair[0]))
        for side in range(2):
            n, s, q = sums[side, 0], sums[side, 1], sums[side, 2]
            gain = log_marginal(n + 1.0, s + y, q + y * y, image.hyper) - log_marginal(n, s, q, image.hyper)
            odds += gain if side == 1 else -gain
        log_second = -np.log1p(np.exp(-odds)) if odds > 0 else odds - np.log1p(np.exp(odds))
        if len(forced):
            side = 0 if forced[i] == pair[0] else 1
        else:
            side = 1 if np.log(uniform(seed) + _TINY) < log_second else 0
        total += log_second if side == 1 else log_second - odds
        z[i] = pair[side]
        sums[side, 0] += 1.0
        sums[side, 1] += y
        sums[side, 2] += y * y
    return total


@jit
def _launched(
    image: Image,
    sites: IntArray,
    pair: IntArray,
    beta: float,
    z: np.ndarray,
    sums: FloatArray,
    scans: int,
    seed: np.ndarray,
) -> None:
    """The sites parted between two labels by two of them drawn, then by scans (Jain & Neal 2004): nothing here depends
    on how they are parted now."""
    if len(sites) == 0:
        sums[:] = 0.0
        return
    first = image.y[sites[min(int(uniform(seed) * len(sites)), len(sites) - 1)]]
    second = image.y[sites[min(int(uniform(seed) * len(sites)), len(sites) - 1)]]
    for place in range(len(sites)):
        i = sites[place]
        away, other = abs(image.y[i] - first), abs(image.y[i] - second)
        nearer = away < other or (away == other and uniform(seed) < 0.5)
        z[i] = pair[0] if nearer else pair[1]
    for side in range(2):
        _sums(image, z, pair[side], sums[side])
    nothing = np.empty(0, dtype=z.dtype)
    for _ in range(scans):
        _scan(image, sites, pair, beta, z, sums, nothing, seed)


@jit
def _members(z: np.ndarray, one: int, other: int) -> IntArray:
    count = 0
    for i in range(len(z)):
        count += z[i] == one or z[i] == other
    sites, count = np.empty(count, dtype=np.int64), 0
    for i in range(len(z)):
        if z[i] == one or z[i] == other:
            sites[count] = i
            count += 1
    return sites


@jit
def _joint(image: Image, K: int, beta: float, z: np.ndarray, one: int, other: int) -> float:
    """What of log p(z, y|K, β) changes when two labels are parted or joined (other < 0: there is one)."""
    sums = np.empty(3)
    total = beta * equal_pairs(image.ptr, image.neighbour, z) - log_partition(image, K, beta)
    _sums(image, z, one, sums)
    total += log_marginal(sums[0], sums[1], sums[2], image.hyper)
    if other >= 0:
        _sums(image, z, other, sums)
        total += log_marginal(sums[0], sums[1], sums[2], image.hyper)
    return total


@jit
def split(image: Image, K: int, most: int, beta: float, z: np.ndarray, scans: int, seed: np.ndarray) -> int:
    """Part a label in two; the new one is called K. Gives the number of labels afterwards. Which of the K + 1 numbers
    it has, and which pair a join takes, are as likely as one another, and cancel."""
    mine = min(int(uniform(seed) * K), K - 1)
    sites, pair, sums = _members(z, mine, mine), np.array([mine, K]), np.zeros((2, 3))
    there, nothing = z.copy(), np.empty(0, dtype=z.dtype)
    before = _joint(image, K, beta, z, mine, -1)
    _launched(image, sites, pair, beta, there, sums, scans, seed)
    proposed = _scan(image, sites, pair, beta, there, sums, nothing, seed)
    ratio = _joint(image, K + 1, beta, there, mine, K) - before - proposed
    ratio += (0.0 if most == K + 1 else np.log(0.5)) - (0.0 if K == 1 else np.log(0.5))
    if np.log(uniform(seed) + _TINY) < ratio:
        z[:] = there
        return K + 1
    return K


@jit
def join(image: Image, K: int, most: int, beta: float, z: np.ndarray, scans: int, seed: np.ndarray) -> int:
    """Join two labels; the last takes the number that becomes free. Gives the number of labels afterwards."""
    one = min(int(uniform(seed) * K), K - 1)
    other = min(int(uniform(seed) * (K - 1)), K - 2)
    other += other >= one
    sites, pair, sums = _members(z, one, other), np.array([one, other]), np.zeros((2, 3))
    before, there = _joint(image, K, beta, z, one, other), z.copy()
    _launched(image, sites, pair, beta, there, sums, scans, seed)
    proposed = _scan(image, sites, pair, beta, there, sums, z, seed)
    for i in sites:
        there[i] = one
    ratio = _joint(image, K - 1, beta, there, one, -1) - before + proposed
    ratio += (0.0 if K == 2 else np.log(0.5)) - (0.0 if most == K else np.log(0.5))
    if not np.log(uniform(seed) + _TINY) < ratio:
        return K
    z[:] = there
    for i in range(len(z)):
        if z[i] == K - 1:
            z[i] = other
    return K - 1


@jit
def jump(
    image: Image, most: int, K: int, beta: float, z: np.ndarray, scans: int, seed: np.ndarray, trace: FloatArray
) -> tuple[int, float]:
    """Rounds of a chain over K, z and β: a split or a join, then a sweep with emissions drawn, then β. trace: (T, 2), K
    and β after each. Gives both at the end."""
    eta = np.empty((2, most))
    for t in range(len(trace)):
        grows = K == 1 or (most > K and uniform(seed) < 0.5)
        K = split(image, K, most, beta, z, scans, seed) if grows else join(image, K, most, beta, z, scans, seed)
        emissions(image, K, z, eta, seed)
        labels_given(image, K, beta, eta[:, :K], z, seed)
        beta = coupling(image, K, beta, z, 0.15, seed)
        trace[t, 0], trace[t, 1] = K, beta
    return K, beta
