"""Chains that mix where single sites do not: torus energies, glasses and magnets against exact answers, and how fast
words of 64 chains are swept.

Energies: a mean over the edges of 64 × 64 tori by chains that begin at random, against Kaufman's finite sum (1949); the
error is of independent chains. Fits: ``bf.fit`` with the default moves against exact fits of the same 500 cases; log Z
along the ladder against exact log Z. Updates: single sites of a lattice of 1000 × 1000 spins, one core, beside what one
core can do of what such an update needs at least: BITS random words of 64 chains, made by the same generator.
"""

import itertools
import time

import numba
import numpy as np

import bayesfield as bf
from bayesfield import parallel
from bayesfield.graph.compiled import compiled
from bayesfield.inference.sampling.streams import streams
from bayesfield.kernels.gibbs import clusters
from benchmarks.timing import Cell, Report, Watch

COUPLINGS = (0.3, 0.44, 0.6)
CHAINS, UPDATES, BURN = 32, 400, 100
CASES = 500
TARGET = 500.0  # million updates a second


def run(watch: Watch) -> list[Report]:
    side = 32 if watch.quick else 64
    energies = [_energy(watch, side, K) for K in COUPLINGS]
    fields = [(f"ferromagnet {n}×{n}, 0.8", ferromagnet(n)) for n in ((5,) if watch.quick else (5, 7, 10))]
    if not watch.quick:
        fields += [("±J 12×12, 1.0", plus_minus(12)), ("SK 20, 1.2", sherrington())]
    fits = [_fit(watch, name, *field) for name, field in fields]
    speeds = [_speed(watch, n) for n in ((256,) if watch.quick else (256, 1000))]
    return [
        Report(
            "Energies of tori",
            ("sites", "K", "energy of an edge", "error", "Kaufman's", "errors apart", "within 3"),
            energies,
        ),
        Report(
            "Fits and log Z where single sites do not mix",
            ("field", "mode, rms sd", "widest sd, %", "mixed", "moves", "log Z − exact", "its error"),
            fits,
            ("wanted: 0.05 sd, 5 %, and 0.1 nat",),
        ),
        Report(
            "Single-site updates by words, one core",
            ("sites", "million updates a second", "target", "met", "random bits alone, million a second"),
            speeds,
        ),
    ]


# --- tori -----------------------------------------------------------------------------------------------------------


def log_z(L: int, K: float) -> float:
    """Of the L × L torus: ½ (2 sinh 2K)^{L²/2} times the sum of four products."""
    angles = np.pi * np.arange(2 * L) / L
    gamma = np.arccosh(np.maximum(np.cosh(2 * K) ** 2 / np.sinh(2 * K) - np.cos(angles), 1.0))
    gamma[0] = 2 * K + np.log(np.tanh(K))
    logs, signs = [], []
    for part in gamma[1::2], gamma[0::2]:
        half = L * np.abs(part) / 2
        logs += [np.sum(half + np.log1p(np.exp(-2 * half))), np.sum(half + np.log1p(-np.exp(-2 * half)))]
        signs += [1.0, np.prod(np.sign(part))]
    top = max(logs)
    total = top + np.log(np.sum(np.array(signs) * np.exp(np.array(logs) - top)))
    return float(-np.log(2.0) + L * L / 2 * np.log(2 * np.sinh(2 * K)) + total)


def _energy(watch: Watch, L: int, K: float) -> tuple[Cell, ...]:
    watch.tell(f"torus {L}×{L}, K = {K}")
    site = np.arange(L * L).reshape(L, L)
    ends = [np.stack([site.ravel(), np.roll(site, -1, axis).ravel()]) for axis in (0, 1)]
    first, second = np.concatenate(ends, axis=1).astype(np.int32)
    spins = clusters.spins(first, second, np.full(2 * L * L, K), np.zeros(L * L))
    means = []
    for chain in range(CHAINS):
        states = np.random.default_rng(chain).integers(0, 2, (1, L * L), dtype=np.int32)
        seeds, sites, pairs = parallel.chain_seeds(chain, 1), np.zeros(L * L), np.zeros(2 * L * L)
        clusters.update_chains(spins, states, seeds, BURN, False, sites, pairs)
        clusters.update_chains(spins, states, seeds, UPDATES, True, sites, pairs)
        means.append(pairs.mean() / UPDATES)
    mean, error = float(np.mean(means)), float(np.std(means, ddof=1) / np.sqrt(CHAINS))
    exact = (log_z(L, K + 1e-5) - log_z(L, K - 1e-5)) / 2e-5 / (2 * L * L)
    apart = (mean - exact) / error
    return f"{L}²", K, f"{mean:.5f}", f"{error:.5f}", f"{exact:.5f}", apart, abs(apart) < 3.0


# --- fits -----------------------------------------------------------------------------------------------------------


def ferromagnet(size: int) -> tuple[bf.RandomField, np.ndarray]:
    field = bf.grid(size, size)
    n = size * size
    return field, np.r_[np.zeros(n), np.full(field.n_parameters - n, 0.8)]


def plus_minus(size: int, seed: int = 1) -> tuple[bf.RandomField, np.ndarray]:
    field = bf.grid(size, size)
    n = size * size
    return field, np.r_[np.zeros(n), np.random.default_rng(seed).choice([-1.0, 1.0], field.n_parameters - n)]


def sherrington(seed: int = 3) -> tuple[bf.RandomField, np.ndarray]:
    field = bf.pairwise(20, itertools.combinations(range(20), 2), states=(-1, 1))
    return field, np.r_[np.zeros(20), 1.2 / np.sqrt(20) * np.random.default_rng(seed).normal(size=190)]


def _fit(watch: Watch, name: str, field: bf.RandomField, parameters: np.ndarray) -> tuple[Cell, ...]:
    watch.tell(name)
    X, prior = bf.sample(field, parameters, CASES, 0), bf.Normal(variance=1.0)
    exact = bf.fit(field, X, prior, engine="exact", correction="none")
    sampled = bf.fit(field, X, prior, engine=bf.Sampled(error=0.025), correction="none")
    distance = float(np.sqrt(np.mean(((sampled.mode - exact.mode) / exact.sd) ** 2)))
    widest = 100.0 * float(np.abs(sampled.sd / exact.sd - 1.0).max())
    status = sampled.record.status
    graph = compiled(field)
    engine = bf.Sampled(chains=512, moves="tempering")
    ladder = engine.log_partition(graph.graph, graph.design.potentials(parameters), 0.03)
    gap = ladder.value - bf.infer(field, parameters, bf.Exact()).log_z
    moves = next((word for word in ("clusters", "temperatures") if word in str(status)), "single sites")
    row = name, distance, widest, bool(status.mixing <= 1.0), moves, gap, ladder.error
    print(row, flush=True)
    return row


# --- speed ----------------------------------------------------------------------------------------------------------


@numba.njit(nogil=True)
def _bits(words: int, low: np.ndarray, high: np.ndarray) -> np.uint64:
    """So many words of random bits, sixteen generators side by side; the kernel takes log₂(64 · 16) + 1 for each."""
    total = np.uint64(0)
    for _ in range(words):
        for w in range(len(low)):
            s0, s1 = low[w], high[w]
            total ^= s0 + s1
            s1 ^= s0
            low[w] = ((s0 << np.uint64(49)) | (s0 >> np.uint64(15))) ^ s1 ^ (s1 << np.uint64(21))
            high[w] = (s1 << np.uint64(28)) | (s1 >> np.uint64(36))
    return total


def _speed(watch: Watch, side: int) -> tuple[Cell, ...]:
    watch.tell(f"updates of {side}×{side}")
    graph = compiled(bf.grid(side, side, (-1, 1), tied=True))
    chains = streams(graph.graph, graph.design, None, 0)
    points, sweeps = np.tile((0.0, 0.35), (64, 1)), max(1, 4_000_000 // side**2)
    chains.run(points, sweeps, sweeps)
    begun = time.process_time()
    chains.run(points, sweeps, sweeps)
    rate = 64 * side**2 * sweeps / (time.process_time() - begun) / 1e6
    low, high = (np.random.default_rng(k).integers(1, 2**63, 16).astype(np.uint64) for k in (0, 1))
    _bits(1, low, high)
    count = 2_000_000
    begun = time.process_time()
    _bits(count, low, high)
    bits = count * 16 * 64 / 11 / (time.process_time() - begun) / 1e6  # 11 words of 64 chains' bits an update
    return f"{side}²", rate, TARGET, rate >= TARGET, bits
