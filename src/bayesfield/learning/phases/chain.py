"""A phase of label chains, exact by forward and backward passes: Σ_n log Z_n of a chain CRF, equations (12) and (20).

Inputs times weights and back are sparse products; the design matrix (inputs ⊗ labels) is never formed. Where plain
numbers underflow, the junction tree of the same chains, which falls back to logs, takes over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayesfield.inference.contract import Engine, Price, Traits
from bayesfield.inference.trees.chain import (
    ChainMarginals,
    ChainMeans,
    chain_drawn,
    chain_marginals,
    chain_means,
    chain_tangent,
    forward_log_z,
)
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.learning.phases.base import DRAWN, Answer, Answers, Phase
from bayesfield.learning.phases.chain_covariance import (
    covariance_by_sequence,
    label_covariances,
    pair_covariance,
    squared_means,
)
from bayesfield.learning.phases.crf_design import (
    as_union,
    compiled_graphs,
    edge_noise,
    expectations,
    flat_tables,
    inputs_times,
    inputs_transposed,
    node_noise,
    potentials,
    restricted,
    state_sums,
    widened,
)
from bayesfield.learning.phases.graph import GraphPhase
from bayesfield.model.conditional import CRF, Sequences
from bayesfield.response.base import Response, fits_dense, require_dense
from bayesfield.types import BoolArray, FloatArray, IntArray, Outcome, Status

_NUMBERS = 20_000_000  # in the directions that are carried at a time
_WIDTH = 64  # directions, at most
_LEAN = 1_000_000  # potentials beyond which a gradient keeps no messages
_SMALL_BLOCK = 1000  # parameters whose square is a trifle
_TOGETHER = 400_000  # potentials of all chains at all points that are evaluated in one pass
_EXACT = Status(Outcome.EXACT)


@dataclass(frozen=True, eq=False)
class ChainPhase(Phase):
    """w Σ_n log Z_n(λ) of sequences. allowed: (P, K) the states that are summed over; None for all. pairs: antithetic
    draws of the potentials, to average over; None for as many as so many positions need."""

    crf: CRF
    data: Sequences
    weight: float = 1.0
    allowed: BoolArray | None = None
    pairs: int | None = None

    @property
    def engine(self) -> Engine:
        """What stands in records for passes along chains: they are exact."""
        return Exact()

    @property
    def traits(self) -> Traits:
        return Traits(exact=True, batched=True)

    @property
    def contrasts(self) -> bool:
        return self.allowed is not None

    @property
    def cases(self) -> float:
        return 1.0

    def with_engine(self, engine: Engine) -> ChainPhase:
        return self

    def with_pairs(self, pairs: int) -> ChainPhase:
        return replace(self, pairs=pairs)

    def prepare(self) -> None:
        """Nothing: chains need no junction tree."""

    def choose(self, engine: Any) -> tuple[Engine, str]:
        return self.engine, f"exact inference was chosen: {len(self.data.ptr) - 1:,} chains of labels"

    def price(self, size: int) -> Price:
        """An inference goes once over all pairs of labels and twice over all inputs; a direction of the covariance
        costs about three of them, or a sequence's own indicators all directions at once."""
        K, P = len(self.crf.labels), int(self.data.ptr[-1])
        labels = K if self.crf.seen is None else self.crf.n_state / max(len(self.crf.inputs), 1)
        work = float(P * K * K + 2 * self.data.inputs.nnz * labels + P * K)
        covariance = 1.2e-8 * work * size
        if worth_it(self.crf, self.data):
            lengths = np.diff(self.data.ptr).astype(np.float64)
            covariance = min(covariance, 2e-10 * float(P) * (size + float(lengths.max(initial=1.0)) * K * K) * size)
        return Price(5e-5 + 4e-9 * work, 3e-4 + covariance, 1e-6 + 4.5e-9 * work)

    def bytes(self) -> float:
        """Messages and marginals of all positions, and the inputs."""
        data, labels = self.data, len(self.crf.labels)
        held = data.inputs.data.nbytes + data.inputs.indices.nbytes + 8.0 * data.positions * (8 * labels + 4)
        return float(held + 8.0 * 6 * len(data.edge_rows) * labels**2)

    @property
    def chains(self) -> ChainArrays:
        return ChainArrays(self.data.ptr, self.data.which)

    @cached_property
    def by_tree(self) -> GraphPhase:
        """The same by a junction tree."""
        field = compiled_graphs(self.crf, as_union(self.data))
        design = field.design if self.allowed is None else restricted(field.design, self.allowed)
        return GraphPhase(field.graph, design, Exact(), self.weight, self.contrasts)

    def marginals(self, parameters: FloatArray) -> ChainMarginals:
        """By forward and backward passes; log Z_n is NaN where plain numbers underflow."""
        return chain_marginals(self.chains, *self.potentials(parameters))

    def potentials(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """node (P, K) and edge (Q, K, K) log-potentials, −∞ where a state is not allowed."""
        node, edge = potentials(self.crf, self.data, parameters)
        return (node if self.allowed is None else np.where(self.allowed, node, -np.inf)), edge

    @property
    def lean(self) -> bool:
        """Whether messages of all positions are too many to be kept for a gradient."""
        K = len(self.crf.labels)
        return len(self.data.edge_rows) == 1 and K > 2 and self.data.positions * K > _LEAN

    def at(self, parameters: FloatArray, start: Any = None) -> Answer:
        node, edge = self.potentials(parameters)
        found: ChainMeans | ChainMarginals
        if self.lean:
            found = replace(chain_means(self.chains, node, edge), parameters=parameters)
        else:
            found = chain_marginals(self.chains, node, edge)
        if not found.finite:
            other = self.by_tree.at(parameters)
            return other._replace(state=None, found=other)
        mean = expectations(self.crf, self.data, found.marginal, found.transitions)
        return Answer(float(found.log_z.sum()), mean, _EXACT, None, found)

    def at_many(self, points: FloatArray, starts: Sequence[Any] | None = None) -> Answers:
        """Copies of the sequences side by side, one for each point, as far as they are small."""
        step = self._copies_at_once
        if step < 2:
            return super().at_many(points, starts)
        log_z, means = np.empty(len(points)), np.empty(points.shape)
        for k in range(0, len(points), step):
            log_z[k : k + step], means[k : k + step] = self._together(points[k : k + step])
        good = np.isfinite(log_z)
        for s in np.flatnonzero(~good):
            answer = self.by_tree.at(points[s])
            log_z[s], means[s], good[s] = answer.log_z, answer.mean, answer.status.converged
        return Answers(log_z, means, good)

    def log_z_many(self, points: FloatArray) -> FloatArray:
        """By forward passes alone."""
        log_z, step = np.empty(len(points)), max(self._copies_at_once, 1)
        for k in range(0, len(points), step):
            some = points[k : k + step]
            chains = self.copies(some) if step > 1 else (self.chains, *self.potentials(some[0]))
            log_z[k : k + step] = forward_log_z(*chains).reshape(len(some), -1).sum(axis=1)
        for s in np.flatnonzero(~np.isfinite(log_z)):
            log_z[s] = self.by_tree.log_z_many(points[s : s + 1])[0]
        return log_z

    @property
    def _copies_at_once(self) -> int:
        K, P, Q = len(self.crf.labels), int(self.data.ptr[-1]), len(self.data.edge_rows)
        return _TOGETHER // max(P * K + Q * K * K, 1)

    def _together(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        crf, data, S = self.crf, self.data, len(points)
        copies, node, edge = self.copies(points)
        found = chain_marginals(copies, node, edge)
        K, P, Q = len(crf.labels), int(data.ptr[-1]), len(data.edge_rows)
        by_input = found.marginal.reshape(S, P, K).transpose(1, 0, 2).reshape(P, S * K)
        of_node = inputs_transposed(data, np.ascontiguousarray(by_input)).reshape(-1, S, K).transpose(1, 0, 2)
        of_edge = np.einsum("qe,sqk->sek", data.edge_rows, found.transitions.reshape(S, Q, K * K), optimize=True)
        if not crf.plain_nodes:
            of_node = of_node @ crf.node_tables.T
        if not crf.plain_edges:
            of_edge = of_edge @ flat_tables(crf.edge_tables).T
        means = np.concatenate([of_node.reshape(S, -1), of_edge.reshape(S, -1)], axis=1)
        means = means if crf.seen is None else means[:, crf.places]
        log_z = found.log_z.reshape(S, -1).sum(axis=1)
        return np.where(np.isfinite(means).all(axis=1), log_z, np.nan), means

    def copies(self, points: FloatArray) -> tuple[ChainArrays, FloatArray, FloatArray]:
        """The sequences once for each point, end to end: their structure, node and edge log-potentials."""
        crf, data, S = self.crf, self.data, len(points)
        K, P, Q = len(crf.labels), int(data.ptr[-1]), len(data.edge_rows)
        points = points if crf.seen is None else widened(crf, points.T).T
        W, V = np.split(points, [len(crf.inputs) * crf.n_node_tables], axis=1)
        W, V = W.reshape(S, len(crf.inputs), -1), V.reshape(S, len(crf.edge_inputs), -1)
        W = W if crf.plain_nodes else W @ crf.node_tables
        V = V if crf.plain_edges else V @ flat_tables(crf.edge_tables)
        by_input = inputs_times(data, np.ascontiguousarray(W.transpose(1, 0, 2)).reshape(-1, S * K))
        node = np.ascontiguousarray(by_input.reshape(P, S, K).transpose(1, 0, 2)).reshape(S * P, K)
        if self.allowed is not None:
            node = np.where(np.tile(self.allowed, (S, 1)), node, -np.inf)
        edge = np.einsum("qe,sek->sqk", data.edge_rows, V, optimize=True).reshape(S * Q, K, K)
        shift = np.arange(S)[:, None]
        ptr = np.concatenate([[0], (data.ptr[1:] + P * shift).ravel()])
        chains = ChainArrays(ptr, (data.which + Q * shift).ravel())
        return chains, node, np.ascontiguousarray(edge)

    def prepare_drawn(self, engine: Any) -> None:
        """Nothing: labels are drawn backwards along the chains, exactly."""

    def drawn(self, parameters: FloatArray, engine: Any, rng: np.random.Generator) -> FloatArray:
        labels = chain_drawn(self.chains, *self.potentials(parameters), rng)
        if labels is None:
            return self.by_tree.drawn(parameters, Exact(), rng)
        K, (Q, _) = len(self.crf.labels), self.data.edge_rows.shape
        marginal = np.zeros((len(labels), K))
        marginal[np.arange(len(labels)), labels] = 1.0
        first = self._pair_starts
        code = (self.data.which[first] * K + labels[first]) * K + labels[first + 1]
        transitions = np.bincount(code, minlength=Q * K * K).astype(np.float64).reshape(Q, K, K)
        return expectations(self.crf, self.data, marginal, transitions)

    @cached_property
    def _pair_starts(self) -> IntArray:
        return self.data.pair_starts()

    @property
    def draws_potentials(self) -> bool:
        """Whether potentials can be drawn without drawing weights: plain chains, one table of transitions."""
        crf = self.crf
        plain = crf.plain_nodes and crf.plain_edges and crf.constant_edges and crf.labels == crf.visible
        return plain and len(self.data.edge_rows) == 1

    @property
    def has_noise(self) -> bool:
        """Whether ``noisy`` knows the model: such chains, all of their states allowed."""
        return self.draws_potentials and self.allowed is None

    def noisy(self, sd: FloatArray, seed: int, numbers: int = DRAWN) -> NoisyChains:
        return NoisyChains(self, sd, seed, numbers)

    def response(self, answer: Answer) -> Response:
        if isinstance(answer.found, Answer):
            return self.by_tree.response(answer.found)
        return ChainResponse(self.crf, self.data, self._complete(answer.found))

    def _complete(self, found: ChainMeans | ChainMarginals) -> ChainMarginals:
        """With the messages, made anew where the gradient did without."""
        if isinstance(found, ChainMarginals):
            return found
        assert found.parameters is not None
        return self.marginals(found.parameters)

    def covariances(self, points: FloatArray) -> FloatArray:
        """By copies of the sequences side by side, one for each point, as far as they are small."""
        crf, data, size = self.crf, self.data, points.shape[1]
        K, P, Q = len(crf.labels), int(data.ptr[-1]), len(data.edge_rows)
        step = _TOGETHER // max((P * K + Q * K * K) * size, 1)
        if step < 2 or worth_it(crf, data):
            return super().covariances(points)
        total = np.zeros((size, size))
        for k in range(0, len(points), step):
            some = points[k : k + step]
            chains, node, edge = self.copies(some)
            found = chain_marginals(chains, node, edge)
            if found.finite:
                total += ChainResponse(crf, data, found, chains).covariance()
            else:
                total += super().covariances(some)
        return total

    def variances(self, answer: Answer) -> FloatArray:
        """As if positions and pairs of neighbours knew nothing of one another."""
        if isinstance(answer.found, Answer):
            return self.by_tree.variances(answer.found)
        crf, found = self.crf, answer.found
        if isinstance(found, ChainMeans) and crf.plain_nodes and crf.plain_edges:
            assert found.parameters is not None
            means = chain_means(self.chains, *self.potentials(found.parameters), spread=True)
            spread, of_pairs = means.spread, flat_tables(means.transitions - means.squares)
        else:
            B, T, p = crf.node_tables, crf.sparse_edge_tables, found.marginal
            spread = p * (1.0 - p) if crf.plain_nodes else p @ (B**2).T - (p @ B.T) ** 2  # (P, G)
            squares = squared_means(crf, self.data, self._complete(found))
            of_pairs = (T.power(2) @ flat_tables(found.transitions).T).T - squares
        node = state_sums(crf, self.data.squared, spread)
        edge = ((self.data.edge_rows**2).T @ np.maximum(of_pairs, 0.0)).ravel()
        return np.concatenate([node, edge if crf.seen is None else edge[crf.seen.pair]])

    def blocks(self, answer: Answer) -> tuple[FloatArray, FloatArray] | None:
        pairs = len(self.crf.edge_inputs) * self.crf.n_edge_tables
        small = pairs <= _SMALL_BLOCK or fits_dense(pairs)
        if isinstance(answer.found, Answer) or self.crf.seen is not None or not small:
            return None
        G, found = self.crf.n_node_tables, self._complete(answer.found)
        labels = label_covariances(self.crf, self.data, found.marginal).reshape(-1, G, G)
        return labels, pair_covariance(self.crf, self.data, found)


class NoisyChains:
    """Σ_n log Z_n averaged over independent normal weights of these widths, (F,), about a mean that may move.

    Pairs of antithetic draws are fixed: their noise of the nodes, for each sequence its own, and of the transitions.
    """

    def __init__(self, phase: ChainPhase, sd: FloatArray, seed: int, numbers: int = DRAWN) -> None:
        crf, data = phase.crf, phase.data
        self._phase = phase
        self.pairs = phase.pairs or noise_pairs(data.positions, numbers)
        self._nodes = [node_noise(crf, data, sd, seed + r) for r in range(self.pairs)]
        rng = np.random.default_rng(seed)
        self._edges = [edge_noise(crf, sd, rng) for _ in range(self.pairs)]

    def answer(self, mean: FloatArray) -> Answer:
        """The averages of log Z and E[f]."""
        phase, (marginal, transitions, log_z, _, _, finite) = self._phase, self._sums(mean, False)
        if not finite:
            return Answer(np.inf, np.zeros(len(mean)), Status(Outcome.NOT_CONVERGED))
        return Answer(log_z, expectations(phase.crf, phase.data, marginal, transitions), _EXACT)

    def marginals(self, mean: FloatArray) -> FloatArray:
        """The averages of the labels' marginals, (P, K)."""
        return self._sums(mean, False)[0]

    def variances(self, mean: FloatArray) -> FloatArray:
        """The average of diag Σ_n C_n, as if positions and pairs of neighbours knew nothing of one another, (F,)."""
        phase, (_, transitions, _, spread, squares, _) = self._phase, self._sums(mean, True)
        edge = (transitions - squares).ravel()
        node = state_sums(phase.crf, phase.data.squared, spread)
        return np.concatenate([node, edge if phase.crf.seen is None else edge[phase.crf.seen.pair]])

    def _sums(
        self, mean: FloatArray, spread: bool
    ) -> tuple[FloatArray, FloatArray, float, FloatArray, FloatArray, bool]:
        (node, edge), phase = self._phase.potentials(mean), self._phase
        K, draws = node.shape[1], 2 * self.pairs
        marginal, transitions, squares = np.zeros(node.shape), np.zeros((1, K, K)), np.zeros((1, K, K))
        spreads, log_z, finite = np.zeros(node.shape if spread else (0, K)), 0.0, True
        for noise, of_edges in zip(self._nodes, self._edges, strict=True):
            both = np.stack([edge[0] + of_edges, edge[0] - of_edges])
            found = chain_means(phase.chains, node, both, noise, (1.0, -1.0), spread)
            marginal += found.marginal / draws
            transitions += found.transitions.sum(axis=0) / draws
            squares += found.squares.sum(axis=0) / draws
            spreads += found.spread / draws
            log_z += float(found.log_z.sum()) / draws
            finite = finite and found.finite
        return marginal, transitions, log_z, spreads, squares, finite


def noise_pairs(positions: int, numbers: int = DRAWN) -> int:
    """Antithetic pairs of draws: each sequence has its own, so that a corpus needs few. numbers: positions of all."""
    return int(np.clip(numbers // max(positions, 1), 4, 128))


class ChainResponse(Response):
    """Σ_n C_{x_n} by derivatives of the two passes, a few directions at a time. chains: of several copies of the data,
    whose covariances are summed; by default of one."""

    def __init__(self, crf: CRF, data: Sequences, found: ChainMarginals, chains: ChainArrays | None = None) -> None:
        self._crf, self._data, self._found = crf, data, found
        self._chains = ChainArrays(data.ptr, data.which) if chains is None else chains

    @property
    def size(self) -> int:
        return self._crf.n_parameters

    def product(self, vectors: FloatArray) -> FloatArray:
        columns = vectors if vectors.ndim == 2 else vectors[:, None]
        out = np.empty(columns.shape)
        carried = max(self._found.marginal.size + self._found.transitions.size, 1)
        step = int(np.clip(_NUMBERS // carried, 1, _WIDTH))
        for k in range(0, columns.shape[1], step):
            out[:, k : k + step] = self._some(columns[:, k : k + step])
        return out if vectors.ndim == 2 else out[:, 0]

    def covariance(self) -> FloatArray:
        size = self._crf.n_parameters
        if size <= _WIDTH:
            small = self._some(np.eye(size))
            return (small + small.T) / 2
        one = len(self._found.marginal) == self._data.positions
        if not one or not worth_it(self._crf, self._data):
            return super().covariance()
        require_dense(size, "the full covariance")
        return covariance_by_sequence(self._crf, self._data, self._found)

    def _some(self, columns: FloatArray) -> FloatArray:
        crf, data, D = self._crf, self._data, columns.shape[1]
        K, P, Q = self._found.marginal.shape[1], data.ptr[-1], len(data.edge_rows)
        S = len(self._found.transitions) // Q  # copies
        columns = columns if crf.seen is None else widened(crf, columns)
        W, V = np.split(columns, [len(crf.inputs) * crf.n_node_tables])
        W, V = W.reshape(len(crf.inputs), -1, D), V.reshape(len(crf.edge_inputs), -1)
        if not crf.plain_nodes:
            W = np.einsum("dgc,gk->dkc", W, crf.node_tables)
        node = inputs_times(data, np.ascontiguousarray(W).reshape(len(crf.inputs), -1)).reshape(P, K, D)
        edge = (data.edge_rows @ V).reshape(Q, -1, D)
        if not crf.plain_edges:
            edge = np.einsum("qhc,hs->qsc", edge, flat_tables(crf.edge_tables), optimize=True)
        along = np.ascontiguousarray(edge).reshape(Q, K, K, D)
        if S > 1:
            node, along = np.tile(node, (S, 1, 1)), np.tile(along, (S, 1, 1, 1))
        moved, pairs = chain_tangent(self._chains, self._found, node, along)
        if S > 1:
            moved, pairs = moved.reshape(S, P, K, D).sum(axis=0), pairs.reshape(S, Q, K, K, D).sum(axis=0)
        of_node = inputs_transposed(data, moved.reshape(P, -1)).reshape(len(crf.inputs), K, D)
        if not crf.plain_nodes:
            of_node = np.einsum("dkc,gk->dgc", of_node, crf.node_tables)
        of_edge = (data.edge_rows.T @ pairs.reshape(Q, -1)).reshape(len(crf.edge_inputs), K * K, D)
        if not crf.plain_edges:
            of_edge = np.einsum("esc,hs->ehc", of_edge, flat_tables(crf.edge_tables), optimize=True)
        both = np.concatenate([of_node.reshape(-1, D), of_edge.reshape(-1, D)])
        return both if crf.seen is None else both[crf.places]


def worth_it(crf: CRF, data: Sequences) -> bool:
    """Whether a sequence has fewer indicators than there are parameters, by half at least, so that covariances go by
    those of each sequence's own labels (learning.phases.chain_covariance)."""
    if crf.seen is not None:
        return False
    K, longest = len(crf.labels), int((data.ptr[1:] - data.ptr[:-1]).max(initial=0))
    tables = min(len(data.edge_rows), max(longest - 1, 0))
    return 2 * (longest * K + tables * K * K) < crf.n_parameters


def labels_energy(data: Sequences, labels: Any, node: FloatArray, edge: FloatArray) -> FloatArray:
    """θ of each sequence's labels (P,), (S,), by node (P, K) and edge (Q, K, K) log-potentials."""
    t = data.pair_starts()
    each = node[np.arange(data.positions), labels]
    each[t] += edge[data.which[t], labels[t], labels[t + 1]]
    running = np.concatenate([[0.0], np.cumsum(each)])
    result: FloatArray = running[data.ptr[1:]] - running[data.ptr[:-1]]
    return result
