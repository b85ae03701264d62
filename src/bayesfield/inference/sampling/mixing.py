"""Whether chains have forgotten where they began, asked of the states that they leave behind anyway.

Chains begin apart, an equal share in each of two or three ways: at random states, at low temperature (random states,
annealed), and at the data's cases where there are any. Thousands of independent chains then tell three things without a
further sweep:

* *memory*: the correlation, over chains, of a chain's state with its own state ``lag`` sweeps before, lag about the
  burn-in. A mode with relaxation time τ keeps e^(−lag/τ). It is measured for every variable, for the energy, and along
  the slowest direction v: the leading eigenvector of the lagged covariance of half of the chains, judged by the other
  half (time-lagged independent components: Pérez-Hernández et al. 2013), so that choosing v adds no bias. Chains in the
  two states of a magnet remember these for ever, though their mean is that of the field by symmetry.
* *apart*: the difference of the groups' means, for every variable, for v and for the energy, in standard errors from
  the scatter of whole chains, which therefore know of autocorrelation.

Limits. A mode of correlation r after the burn-in leaves about r/3 of its initial distance in the means; 4,096 chains
have a noise of 0.02 or so, and more than 16,384 are not asked. Beyond the noise of the figure itself (four standard
errors along v and for the energy; for the largest of many one in 10,000) r may be 0.05 along v and 0.1 for single
variables. Differences of groups: one in 1,000 by chance among all. Together a false alarm comes about once in 1,000.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special

from bayesfield.kernels import tables as kernel
from bayesfield.types import FloatArray

if TYPE_CHECKING:
    from bayesfield.graph.structure import Graph

FEWEST = 16  # chains that can tell …
_ENOUGH = 16_384  # … and that tell all that is asked: their noise is below what is allowed
WAYS = ("at random", "at low temperature", "at the data")
_SQUARE = 1000  # variables whose square is a trifle
_ALONG, _SINGLE = 0.05, 0.1  # correlations allowed, along v and for one variable
_NOISE = 4.0  # standard errors of a correlation
_ONE_OF_MANY, _BY_CHANCE = 1e-4, 1e-3  # probability of the largest correlation, and of the largest difference
_RARE = 16.0  # chains: what so few do is no evidence, so that one coincidence of rare states raises no alarm
_POWER = 8  # iterations for the leading eigenvector
_LOOKS = 4  # snapshots that differences are averaged over
_RIDGE = 1e-6  # on correlations: figures may be sums of others, or not vary
_FORBIDDEN = -100.0  # nats: what −inf counts for in an energy

States = NDArray[np.int32]


class Mixing(NamedTuple):
    """How far chains are from having mixed. memory and apart are in units of their limits: 1 is the most allowed.

    memory: correlation of states with those ``lag`` sweeps before; kept: the largest such correlation itself. apart:
    difference of chains that began in different ways. groups: in how many ways.
    """

    memory: float
    apart: float
    kept: float
    lag: int
    groups: int

    @property
    def figure(self) -> float:
        """The larger of both; above 1 the chains have not mixed."""
        return max(self.memory, self.apart)

    @property
    def mixed(self) -> bool:
        return self.figure <= 1.0

    def __str__(self) -> str:
        where = " and ".join(WAYS[: self.groups])
        if self.mixed:
            return f"chains begun {where} have met ({self.figure:.2g} of what chance may do)"
        memory = f"after {self.lag} sweeps chains still remember where they were ({self.memory:.2g} times the limit)"
        apart = f"chains begun {where} differ ({self.apart:.2g} times the limit)"
        return "; ".join(text for text, value in ((memory, self.memory), (apart, self.apart)) if value > 1.0)


def judge(
    graph: Graph, thetas: FloatArray, before: States, kept: States, groups: int, lag: int, parts: int
) -> Mixing | None:
    """before: (chains, n) states ``lag`` sweeps before the last of kept, (snapshots, chains, n).

    groups: chain c began in way c mod groups. parts: batches of chains with potentials of their own; thetas
    (batches, T). None where the chains are too few to tell.
    """
    if parts == 1 and len(before) > _ENOUGH:
        before, kept = before[:_ENOUGH], kept[:, :_ENOUGH]
    chains, n = before.shape
    if chains < FEWEST or chains < 4 * parts or n == 0:
        return None
    batch = _Batches(chains, parts)
    scores = _scores(int(graph.arrays.cardinality.max()))
    x, y = (batch.centred(scores[s]) for s in (before, kept[-1]))
    direction, along = _slowest(x, y, groups)
    at = [energies(graph, thetas, s) for s in (before, *_some(kept))]
    first, last = (batch.centred(e[:, None])[:, 0] for e in (at[0], at[-1]))
    of_energy, single = _correlation(first, last), _largest_overlap(before, kept[-1], len(scores), batch)
    noise, largest = _NOISE / np.sqrt(chains), -special.ndtri(_ONE_OF_MANY / n) / np.sqrt(chains)
    memory = float(max(along / max(_ALONG, noise), of_energy / max(_SINGLE, noise), single / max(_SINGLE, largest)))
    means = np.mean([scores[s] for s in _some(kept)], axis=0, dtype=np.float32)
    figures = np.column_stack([means, means @ direction, np.mean(at[1:], axis=0)])
    most = float(np.clip(max(along, of_energy, single), 0.0, 1.0))
    return Mixing(max(memory, 0.0), _apart(batch.centred(figures), groups), most, lag, groups)


def unmixed_error(mixing: Mixing, variance: FloatArray, chain_means: FloatArray) -> FloatArray:
    """What chains leave unknown of the means of figures, a standard error, (F,): nothing where they have mixed.

    variance: of the figures over all chains. chain_means: (chains, F), to within a constant. Chains that keep a share r
    of where they were are worth 1/r independent draws, however many they are: the weights of states that they do not
    cross are those of the starts. To this comes the spread of the groups' means. *Measured* on 60 lattices of 3×3 to
    8×8 with couplings from 0.8 to 2 of one and of both signs: the true error is within twice this in 99.9 % of the
    means; with what each figure keeps by itself, instead of its variance, it was in 95 %.
    """
    if mixing.mixed:
        return np.zeros_like(variance)
    by_group = np.array([chain_means[g :: mixing.groups].mean(axis=0) for g in range(mixing.groups)])
    result: FloatArray = np.sqrt(mixing.kept * variance + by_group.var(axis=0))
    return result


def group_gap(chain_means: FloatArray, groups: int, factor: tuple[FloatArray, bool]) -> float:
    """√(dᵀP⁻¹d / F), of the largest difference d of a group's mean from the others'; 0 where chance makes it.

    chain_means: (chains, F). factor: Cholesky's, of P. Over all directions and not figure by figure: what chains do
    not cross is stiff, and moves each a little only. Chance is Hotelling's T², once in 1,000; with too few chains for
    the number of figures it cannot be told, and nothing is said.
    """
    chains, F = chain_means.shape
    if chains < 2 * F + groups or not F:
        return 0.0
    own = [chain_means[g::groups] for g in range(groups)]
    centred = np.concatenate([part - part.mean(axis=0) for part in own])
    free = chains - groups
    scale = np.maximum(centred.std(axis=0), 1e-9)
    centred /= scale
    covariance = linalg.cho_factor(centred.T @ centred / free + _RIDGE * np.eye(F))
    total, worst = chain_means.sum(axis=0), 0.0
    for part in own:
        d = part.mean(axis=0) - (total - part.sum(axis=0)) / (chains - len(part))
        size = 1.0 / len(part) + 1.0 / (chains - len(part))
        t_squared = float(d / scale @ linalg.cho_solve(covariance, d / scale)) / size
        if special.fdtrc(F, free - F + 1, t_squared * (free - F + 1) / (F * free)) < _BY_CHANCE / groups:
            worst = max(worst, float(np.sqrt(d @ linalg.cho_solve(factor, d) / F)))
    return worst


class _Batches:
    """Chains in contiguous batches, and what is centred within each."""

    def __init__(self, chains: int, parts: int) -> None:
        edges = chains * np.arange(parts + 1) // parts
        self.starts, self.sizes = edges[:-1], np.diff(edges)

    def sums(self, values: NDArray[np.float32]) -> FloatArray:
        """(parts, ·)"""
        result: FloatArray = np.add.reduceat(values, self.starts, axis=0, dtype=np.float64)
        return result

    def centred(self, values: NDArray[np.float32] | FloatArray) -> NDArray[np.float32]:
        means = np.add.reduceat(values, self.starts, axis=0, dtype=np.float64) / self.sizes[:, None]
        result: NDArray[np.float32] = (values - np.repeat(means, self.sizes, axis=0)).astype(np.float32)
        return result


def _scores(states: int) -> NDArray[np.float32]:
    """A number for every state, no three equally spaced: 0 and 1 for two states."""
    return np.concatenate([[0.0, 1.0], np.random.default_rng(0).uniform(-2.0, 3.0, max(states - 2, 0))]).astype(
        np.float32
    )


def _some(kept: States) -> list[States]:
    """A few snapshots, evenly spaced; the last is one."""
    where = np.unique(np.linspace(len(kept) - 1, 0, _LOOKS).astype(int))
    return [kept[k] for k in where]


def _correlation(x: NDArray[np.float32], y: NDArray[np.float32]) -> float:
    """Of two centred columns; none where one does not vary."""
    scale = float(np.sqrt(np.dot(x, x) * np.dot(y, y)))
    return float(np.dot(x, y)) / scale if scale > 0.0 else 0.0


def _slowest(x: NDArray[np.float32], y: NDArray[np.float32], groups: int) -> tuple[NDArray[np.float32], float]:
    """v, and the correlation of x·v with y·v on chains that did not choose it. Each half has all groups."""
    odd = (np.arange(len(x)) // groups) % 2 == 1
    halves = [(x[h], y[h]) for h in (odd, ~odd)]
    directions = [_leading(*half) for half in halves]
    judged = [_correlation(a @ v, b @ v) for (a, b), v in zip(halves[::-1], directions, strict=True)]
    return directions[int(np.argmax(judged))], float(np.mean(judged))


def _leading(x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.float32]:
    """The leading eigenvector of xᵀy + yᵀx, by powers."""
    v: NDArray[np.float32] = np.random.default_rng(1).standard_normal((x.shape[1],), dtype=np.float32)
    for _ in range(_POWER):
        w = x.T @ (y @ v) + y.T @ (x @ v)
        size = np.linalg.norm(w)
        if not size > 0.0:
            break
        v = w / size
    return v


def _largest_overlap(before: States, after: States, states: int, batch: _Batches) -> float:
    """The largest correlation of a variable's indicators of its states, all states together.

    (P(x = x') − Σ_s p_s p'_s) / √((1 − Σ p_s²)(1 − Σ p'_s²)), within batches of chains.
    """
    sizes = batch.sizes[:, None]
    covariance = batch.sums((before == after).astype(np.float32))
    first = last = np.broadcast_to(sizes, covariance.shape)
    for s in range(states):
        p, q = (batch.sums((x == s).astype(np.float32)) for x in (before, after))
        covariance, first, last = covariance - p * q / sizes, first - p * p / sizes, last - q * q / sizes
    scale = np.sqrt((first.sum(axis=0) + 2.0 * _RARE) * (last.sum(axis=0) + 2.0 * _RARE))
    return float(np.max(covariance.sum(axis=0) / scale))


def _apart(figures: NDArray[np.float32], groups: int) -> float:
    """Over its limit, the largest difference of a group's mean from that of the others, in standard errors."""
    chains, columns = figures.shape
    own = [figures[g::groups] for g in range(groups)]
    within = sum(np.var(part, axis=0, dtype=np.float64) * len(part) for part in own) / chains
    rare = np.full(columns, _RARE / chains)
    rare[-2:] = 1e-12  # v and the energy are sums over variables
    total = figures.sum(axis=0, dtype=np.float64)
    worst = 0.0
    for part in own:
        here = part.sum(axis=0, dtype=np.float64)
        gap = here / len(part) - (total - here) / (chains - len(part))
        error = np.sqrt((within + rare) * (1.0 / len(part) + 1.0 / (chains - len(part))))
        worst = max(worst, float(np.max(np.abs(gap) / error)))
    return worst / float(-special.stdtrit(chains - groups, _BY_CHANCE / (2 * columns * groups)))


def energies(graph: Graph, thetas: FloatArray, states: States) -> FloatArray:
    """θ(x) of every chain, by its batch's potentials."""
    result = np.empty(len(states))
    square = graph.binary_pairs and len(graph.arrays.cardinality) <= _SQUARE
    for b, theta in enumerate(thetas):
        first, last = (len(states) * k // len(thetas) for k in (b, b + 1))
        finite = np.where(np.isfinite(theta), theta, _FORBIDDEN)
        if square:
            result[first:last] = quadratic(graph, finite, states[first:last])
        else:
            kernel.energies(graph.arrays, finite, states[first:last], result[first:last])
    return result


def quadratic(graph: Graph, theta: FloatArray, states: States) -> FloatArray:
    """The same but for the energy of the state 0, where all is binary: hᵀx + xᵀJx, by products of matrices. On 40
    variables with all pairs it takes a twentieth of the time of looking up entries."""
    g, n = graph.arrays, len(graph.arrays.cardinality)
    h = theta[g.node_ptr[:-1] + 1] - theta[g.node_ptr[:-1]]
    tables, pairs = theta[g.table_ptr[0] :].reshape(-1, 4), g.scope.reshape(-1, 2)
    J = np.zeros((n, n))
    J[pairs[:, 0], pairs[:, 1]] = tables[:, 3] - tables[:, 2] - tables[:, 1] + tables[:, 0]
    for side, entry in ((0, 2), (1, 1)):
        h += np.bincount(pairs[:, side], tables[:, entry] - tables[:, 0], n)
    x = states.astype(np.float64)
    result: FloatArray = np.einsum("cn,cn->c", x @ J + h, x)
    return result
