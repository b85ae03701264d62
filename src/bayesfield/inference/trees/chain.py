"""Exact inference on chains of labels: marginals, derivatives, samples, best labellings, on all cores.

The sequences are cut into a fixed number of parts, so that sums come out the same on any number of cores.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.special import logsumexp

from bayesfield import parallel
from bayesfield.kernels.chains import gradient, shared
from bayesfield.kernels.chains import passes as kernel
from bayesfield.kernels.chains.passes import ChainArrays, Messages
from bayesfield.types import FloatArray, IntArray

T = TypeVar("T")
_PARTS = 8
_SMALL = 1_000_000  # numbers in all messages below which threads, and their sums, take longer than they save


@dataclass(frozen=True, eq=False)
class ChainMarginals:
    """log_z: (S,). marginal: (P, K). transitions: (Q, K, K) expected number of each pair of labels, by edge table.

    finite: whether plain numbers were enough. They are not where potentials differ by more than e^700 along a sequence,
    or where no labelling is possible.
    """

    log_z: FloatArray
    marginal: FloatArray
    transitions: FloatArray
    messages: Messages
    finite: bool = True


def chain_marginals(chains: ChainArrays, node: FloatArray, edge: FloatArray) -> ChainMarginals:
    """node (P, K) and edge (Q, K, K) log-potentials."""
    messages = _messages(node, edge)
    log_z, marginal, count = np.empty(len(chains.ptr) - 1), np.zeros(node.shape), len(chains.ptr) - 1
    kernel.exponentials(edge, messages.M, messages.top)
    if node.size < _SMALL:
        sums = np.zeros(edge.shape)
        kernel.forward(chains, node, messages, 0, count, log_z)
        kernel.backward(chains, messages, 0, count, log_z, marginal, sums)
        with np.errstate(invalid="ignore"):  # infinity times zero, where potentials differ too much: ``finite`` tells
            transitions = sums * messages.M
        finite = bool(np.isfinite(log_z).all() and np.isfinite(transitions).all())
        return ChainMarginals(log_z, marginal, transitions, messages, finite)

    def part(bounds: tuple[int, int]) -> FloatArray:
        kernel.forward(chains, node, messages, *bounds, log_z)
        sums = np.zeros_like(edge)
        kernel.backward(chains, messages, *bounds, log_z, marginal, sums)
        return sums

    with np.errstate(invalid="ignore"):
        transitions = _on_parts(chains, node, part) * messages.M
    finite = bool(np.isfinite(log_z).all() and np.isfinite(transitions).all())
    return ChainMarginals(log_z, marginal, transitions, messages, finite)


def shared_marginals(ptr: IntArray, node: FloatArray, edge: FloatArray) -> ChainMarginals:
    """The same of chains with one edge table (K, K), in a fifth of the time; node (P, K) is overwritten."""
    top, psi, highest, M = _scaled(node, edge)
    a, v, b = np.empty((3, *node.shape))
    c, log_z = np.empty(len(node)), np.empty(len(ptr) - 1)
    shared.forward(ptr, psi, M, a, c, log_z)
    messages = Messages(psi, M[None], np.array([highest]), a, v, b, c)
    if not np.isfinite(log_z).all():
        return ChainMarginals(log_z, np.zeros_like(node), np.zeros((1, *edge.shape)), messages, False)
    shared.backward(ptr, psi, M, c, b, v)
    log_z += np.add.reduceat(top, ptr[:-1]) + highest * (np.diff(ptr) - 1)
    later = v[1:].copy()
    later[ptr[1:-1] - 1] = 0.0  # no transition leads from one sequence to the next
    transitions = (a[:-1].T @ later) * M
    return ChainMarginals(log_z, a * b, transitions[None], messages, bool(np.isfinite(transitions).all()))


class SharedMeans(NamedTuple):
    """log_z: (S,). marginal: (P, K). transitions: (1, K, K), their sum. finite: whether plain numbers sufficed."""

    log_z: FloatArray
    marginal: FloatArray
    transitions: FloatArray
    finite: bool


def shared_means(ptr: IntArray, node: FloatArray, edge: FloatArray) -> SharedMeans:
    """``shared_marginals`` without messages, in half of the time and a quarter of the memory."""
    top, psi, highest, M = _scaled(node, edge)
    a, c, log_z = np.empty(node.shape), np.empty(len(node)), np.empty(len(ptr) - 1)
    shared.forward(ptr, psi, M, a, c, log_z)
    moves = np.zeros(edge.shape)
    if not np.isfinite(log_z).all():
        return SharedMeans(log_z, psi, moves[None], False)
    shared.expected(ptr, psi, M, a, c, moves)
    log_z += np.add.reduceat(top, ptr[:-1]) + highest * (np.diff(ptr) - 1)
    moves *= M
    return SharedMeans(log_z, psi, moves[None], bool(np.isfinite(moves).all()))


def _scaled(node: FloatArray, edge: FloatArray) -> tuple[FloatArray, FloatArray, float, FloatArray]:
    """Scales and exponentials: of positions, (P,) and (P, K) in the place of node; of the edge table."""
    top = node[:, 0].copy()
    for k in range(1, node.shape[1]):
        np.maximum(top, node[:, k], out=top)
    node -= top[:, None]
    highest = float(edge.max())
    return top, np.exp(node, out=node), highest, np.exp(edge - highest)


@dataclass(frozen=True, eq=False)
class ChainMeans:
    """``ChainMarginals`` without messages: of one edge table, and summed over several passes where there are any.
    spread: (P, K) sums of p (1 − p), or (0, K); squares: (R, K, K) sums of squared probabilities of pairs.
    parameters: where they were taken, for those that need messages yet."""

    log_z: FloatArray
    marginal: FloatArray
    transitions: FloatArray
    spread: FloatArray
    squares: FloatArray
    finite: bool = True
    parameters: FloatArray | None = None


def chain_means(
    chains: ChainArrays,
    node: FloatArray,
    edges: FloatArray,
    noise: FloatArray | None = None,
    signs: tuple[float, ...] = (1.0,),
    spread: bool = False,
) -> ChainMeans:
    """Marginals and transitions alone, of node (P, K) and edges (R, K, K): for each of R passes that share the nodes.

    Pass r has edge table r, and signs[r] times the noise (P, K) added to the nodes. All but log_z, (R, S), are sums
    over the passes.
    """
    K, R, S = node.shape[1], len(edges), len(chains.ptr) - 1
    M, top, log_z = np.empty(edges.shape), np.empty(R), np.empty((R, S))
    kernel.exponentials(edges, M, top)
    marginal, none = np.zeros(node.shape), np.zeros((0, K))
    spreads = np.zeros(node.shape) if spread else none
    shaken = none if noise is None else noise

    def part(bounds: tuple[int, int]) -> FloatArray:
        sums = np.zeros((2, *edges.shape))
        for r in range(R):
            gradient.add_marginals(
                chains, node, shaken, signs[r], M[r : r + 1], top[r : r + 1], gradient.POWERS, *bounds, log_z[r],
                marginal, spreads, sums[0, r], sums[1, r],
            )  # fmt: skip
        return sums

    with np.errstate(invalid="ignore"):
        transitions, squares = _on_parts(chains, node, part) * np.stack([M, M**2])
    finite = bool(np.isfinite(log_z).all() and np.isfinite(transitions).all())
    return ChainMeans(log_z[0] if R == 1 else log_z, marginal, transitions, spreads, squares, finite)


def chain_tangent(
    chains: ChainArrays, marginals: ChainMarginals, node: FloatArray, edge: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """How marginals (P, K, D) and transitions (Q, K, K, D) move along D directions, laid out alike."""
    moved = np.zeros(node.shape)
    if node.size < _SMALL:
        pairs = np.zeros(edge.shape)
        kernel.tangent(chains, marginals.messages, 0, len(chains.ptr) - 1, node, edge, moved, pairs)
        return moved, pairs

    def part(bounds: tuple[int, int]) -> FloatArray:
        pair = np.zeros_like(edge)
        kernel.tangent(chains, marginals.messages, *bounds, node, edge, moved, pair)
        return pair

    return moved, _on_parts(chains, node, part)


def forward_log_z(chains: ChainArrays, node: FloatArray, edge: FloatArray) -> FloatArray:
    """log Z of every sequence, (S,), by the forward pass alone; NaN where plain numbers underflow."""
    M, top, log_z = np.empty(edge.shape), np.empty(len(edge)), np.empty(len(chains.ptr) - 1)
    kernel.exponentials(edge, M, top)

    def part(bounds: tuple[int, int]) -> None:
        a, v, b, psi = np.empty((4, 2, node.shape[1]))
        kernel.forward(chains, node, Messages(psi, M, top, a, v, b, np.empty(2)), *bounds, log_z)

    if node.size < _SMALL:
        part((0, len(log_z)))
    else:
        _each_part(chains, part)
    return log_z


def chain_log_z(chains: ChainArrays, node: FloatArray, edge: FloatArray) -> FloatArray:
    """log Z of every sequence, (S,), in logs where plain numbers underflow."""
    log_z = forward_log_z(chains, node, edge)
    for s in np.flatnonzero(~np.isfinite(log_z)):
        begin, end = int(chains.ptr[s]), int(chains.ptr[s + 1])
        a = node[begin]
        for t in range(begin + 1, end):
            a = logsumexp(a[:, None] + edge[chains.which[t - 1]], axis=0) + node[t]
        log_z[s] = logsumexp(a)
    return log_z


def _messages(node: FloatArray, edge: FloatArray) -> Messages:
    """Room for them."""
    a, v, b, psi = np.empty((4, *node.shape))
    return Messages(psi, np.empty(edge.shape), np.empty(len(edge)), a, v, b, np.empty(len(node)))


def chain_draws(chains: ChainArrays, marginals: ChainMarginals, n: int, rng: np.random.Generator) -> IntArray:
    """n labellings of all sequences, exactly from their distribution, (n, P)."""
    labels = np.zeros((n, len(marginals.marginal)), dtype=np.int64)
    kernel.draw(chains, marginals.messages, rng.random(labels.shape), labels)
    return labels


def chain_drawn(chains: ChainArrays, node: FloatArray, edge: FloatArray, rng: np.random.Generator) -> IntArray | None:
    """One labelling of all sequences, exactly from their distribution, (P,), by forward passes alone; None where plain
    numbers were not enough."""
    messages = _messages(node, edge)
    log_z, labels = np.empty(len(chains.ptr) - 1), np.zeros((1, len(node)), dtype=np.int64)
    kernel.exponentials(edge, messages.M, messages.top)
    kernel.forward(chains, node, messages, 0, len(log_z), log_z)
    if not np.isfinite(log_z).all():
        return None
    kernel.draw(chains, messages, rng.random(labels.shape), labels)
    drawn: IntArray = labels[0]
    return drawn


def best_labellings(
    chains: ChainArrays, node: FloatArray, edge: FloatArray, count: int = 1
) -> tuple[IntArray, FloatArray]:
    """The best labellings, labels (count, P), and their unnormalised log-probabilities, (S, count), best first."""
    labels = np.zeros((count, len(node)), dtype=np.int64)
    scores = np.empty((len(chains.ptr) - 1, count))
    if count == 1:
        kernel.best_one(chains, node, edge, labels[0], scores[:, 0])
        return labels, scores
    kernel.best(chains, node, edge, count, labels, scores)
    return labels, scores


def _on_parts(chains: ChainArrays, node: FloatArray, part: Callable[[tuple[int, int]], FloatArray]) -> FloatArray:
    """The sum of part((first, last)) over runs of sequences with about as many positions each."""
    results = _each_part(chains, part)
    return results[0] if len(results) == 1 else np.asarray(np.sum(results, axis=0))


def _each_part(chains: ChainArrays, part: Callable[[tuple[int, int]], T]) -> list[T]:
    ends = np.searchsorted(chains.ptr, np.linspace(0, chains.ptr[-1], _PARTS + 1))
    ends[0], ends[-1] = 0, len(chains.ptr) - 1
    return parallel.thread_map(part, [span for span in parallel.spans(ends.tolist()) if span[0] < span[1]])
