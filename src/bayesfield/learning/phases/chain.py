"""The negative log posterior of a chain CRF: −Σ_n log p(y_n | x_n, λ) plus prior, its gradient and its curvature.

One union of all sequences stands for the free phase, with weight 1, and the data are one point of it:
L(λ) = Σ_n log Z_n(λ) − λᵀf(y, x) + ½ (λ − μ)ᵀ Λ⁻¹ (λ − μ),   ∇²L = Σ_n C_{x_n} + Λ⁻¹, equation (12).
Inputs times weights and back are sparse products; the design matrix (inputs ⊗ labels) is never formed.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from bayesfield import parallel
from bayesfield.graph.compiled import CompiledField, Design
from bayesfield.graph.structure import pair_graph
from bayesfield.inference.contract import Engine
from bayesfield.inference.trees.chain import ChainMarginals, chain_marginals, chain_tangent
from bayesfield.kernels.chains import inputs as kernel
from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.learning.objective import FieldObjective, Objective, Point, Pointwise, observed_objective
from bayesfield.learning.phases.chain_covariance import covariance_by_sequence, worth_it
from bayesfield.learning.phases.hidden import hidden_objective
from bayesfield.learning.precision.block import BlockPrecision
from bayesfield.learning.precision.forms import Precision
from bayesfield.model.conditional import CRF, Sequences
from bayesfield.model.graphs import Graphs
from bayesfield.model.prior import Prior
from bayesfield.response.base import Response, require_dense
from bayesfield.types import FloatArray, IndefiniteCurvature, IntArray, InvalidInput, Marginals

_PARTS = 8  # of the positions: fixed, so that sums come out the same on any number of cores
_NUMBERS = 20_000_000  # in the directions that are carried at a time
_WIDTH = 64  # directions, at most
_SLAB = 4096  # positions whose covariances are held at a time


@dataclass(frozen=True, eq=False)
class ChainObjective(Objective):
    """crf: what W and V are. data: the labelled sequences."""

    crf: CRF
    data: Sequences

    @property
    def chains(self) -> ChainArrays:
        return ChainArrays(self.data.ptr, self.data.which)

    @property
    def labelled(self) -> bool:
        """Whether all labels are known."""
        return self.data.allowed is None

    def at(self, parameters: FloatArray, start: Any = None) -> Point:
        found = chain_marginals(self.chains, *potentials(self.crf, self.data, parameters))
        mean = expectations(self.crf, self.data, found.marginal, found.transitions)
        tables = np.concatenate([found.marginal.ravel(), found.transitions.ravel()])
        marginals = Marginals(float(found.log_z.sum()), tables, found.status, found)
        return self.from_mean(parameters, np.empty(0), marginals, mean)

    def pointwise(self, points: FloatArray) -> Pointwise:
        values = np.array([self._each(here) for here in points]).reshape(len(points), len(self.data))
        return Pointwise(np.where(np.isfinite(values), values, np.nan), np.arange(len(self.data)))

    def _each(self, parameters: FloatArray) -> FloatArray:
        """log p(y_n | x_n, λ), (S,)."""
        node, edge = potentials(self.crf, self.data, parameters)
        return labels_energy(self.data, node, edge) - chain_marginals(self.chains, node, edge).log_z

    def response(self, point: Point) -> Response:
        if not point.marginals.status.converged:
            raise IndefiniteCurvature(str(point.marginals.status))
        return ChainResponse(self.crf, self.data, point.marginals.state)

    def rough_diagonal(self, tables: FloatArray) -> FloatArray:
        """As if positions and pairs of neighbours knew nothing of one another."""
        K, P = len(self.crf.labels), self.data.positions
        p, pairs = tables[: P * K].reshape(P, K), tables[P * K :].reshape(-1, K, K)
        B, T = self.crf.node_tables, self.crf.edge_tables.reshape(len(self.crf.edge_tables), -1)
        spread = p @ (B**2).T - (p @ B.T) ** 2  # (P, G)
        squares = self.data.inputs.power(2)
        node = squares.T @ spread
        share = pairs.reshape(len(pairs), -1)
        count = np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
        of_pairs = share @ (T**2).T - (share @ T.T) ** 2 / count
        edge = (self.data.edge_rows**2).T @ of_pairs
        prior = np.diag(self.precision) if self.precision.ndim == 2 else self.precision
        return np.concatenate([node.ravel(), edge.ravel()]) + prior

    def posterior_precision(self, point: Point) -> Precision:
        if self.form != "block":
            return super().posterior_precision(point)
        if self.precision.ndim == 2:
            raise InvalidInput('form="block" needs a prior with independent parameters')
        return self._block_precision(point.marginals.state)

    def near(self, point: Point) -> Precision | None:
        return None if self.precision.ndim == 2 else self._block_precision(point.marginals.state)

    def _block_precision(self, found: ChainMarginals) -> BlockPrecision:
        """P without what ties different inputs, different positions, or labels and transitions to one another."""
        G, n = len(self.crf.node_tables), self.crf.n_state
        blocks = label_covariances(self.crf, self.data, found.marginal).reshape(-1, G, G)
        blocks[:, np.arange(G), np.arange(G)] += self.precision[:n].reshape(-1, G)
        return BlockPrecision(blocks, pair_covariance(self.crf, self.data, found) + np.diag(self.precision[n:]))


class ChainResponse(Response):
    """Σ_n C_{x_n} by derivatives of the two passes, a few directions at a time."""

    def __init__(self, crf: CRF, data: Sequences, found: ChainMarginals) -> None:
        self._crf, self._data, self._found = crf, data, found

    @property
    def size(self) -> int:
        return self._crf.n_parameters

    def product(self, vectors: FloatArray) -> FloatArray:
        columns = vectors if vectors.ndim == 2 else vectors[:, None]
        out = np.empty((self.size, columns.shape[1]))
        carried = max(self._found.marginal.size + self._found.transitions.size, 1)
        step = int(np.clip(_NUMBERS // carried, 1, _WIDTH))
        for k in range(0, columns.shape[1], step):
            out[:, k : k + step] = self._some(columns[:, k : k + step])
        return out if vectors.ndim == 2 else out[:, 0]

    def covariance(self) -> FloatArray:
        if not worth_it(self._crf, self._data):
            return super().covariance()
        require_dense(self.size, "the full covariance")
        return covariance_by_sequence(self._crf, self._data, self._found)

    def _some(self, columns: FloatArray) -> FloatArray:
        crf, data, D = self._crf, self._data, columns.shape[1]
        P, K = self._found.marginal.shape
        Q = len(data.edge_rows)
        W = columns[: crf.n_state].reshape(len(crf.inputs), -1, D)
        V = columns[crf.n_state :].reshape(len(crf.edge_inputs), -1)
        if not crf.plain_nodes:
            W = np.einsum("dgc,gk->dkc", W, crf.node_tables)
        node = inputs_times(data, np.ascontiguousarray(W).reshape(len(crf.inputs), -1))
        edge = (data.edge_rows @ V).reshape(Q, -1, D)
        if not crf.plain_edges:
            edge = np.einsum("qhc,hs->qsc", edge, _flat(crf.edge_tables), optimize=True)
        chains = ChainArrays(data.ptr, data.which)
        along = np.ascontiguousarray(edge).reshape(Q, K, K, D)
        moved, pairs = chain_tangent(chains, self._found, node.reshape(P, K, D), along)
        of_node = inputs_transposed(data, moved.reshape(P, -1)).reshape(len(crf.inputs), K, D)
        if not crf.plain_nodes:
            of_node = np.einsum("dkc,gk->dgc", of_node, crf.node_tables)
        of_edge = (data.edge_rows.T @ pairs.reshape(Q, -1)).reshape(len(crf.edge_inputs), K * K, D)
        if not crf.plain_edges:
            of_edge = np.einsum("esc,hs->ehc", of_edge, _flat(crf.edge_tables), optimize=True)
        return np.concatenate([of_node.reshape(-1, D), of_edge.reshape(-1, D)])


def chain_objective(crf: CRF, data: Sequences, prior: Prior) -> ChainObjective:
    """The objective of labelled sequences."""
    if data.labels is None:
        raise InvalidInput("a CRF is fitted to labelled sequences: give y")
    if data.allowed is not None:
        raise InvalidInput("this needs all labels, and some are open")
    K, P = len(crf.labels), data.positions
    taken = np.zeros((P, K))
    taken[np.arange(P), data.labels] = 1.0
    pairs = np.zeros((len(data.edge_rows), K, K))
    t = pair_starts(data)
    np.add.at(pairs, (data.which[t], data.labels[t], data.labels[t + 1]), 1.0)
    return ChainObjective(
        statistic=expectations(crf, data, taken, pairs),
        offset=0.0,
        weight=1.0,
        precision=prior.precision(crf),
        location=prior.location(crf),
        form="dense",
        crf=crf,
        data=data,
    )


def graph_objective(crf: CRF, data: Graphs, prior: Prior, engine: Engine) -> FieldObjective:
    """The objective of labelled graphs: one field over all their labels, with tied parameters, seen once."""
    if data.labels is None:
        raise InvalidInput("a CRF is fitted to labelled graphs: give y")
    known, by_prior = compiled_graphs(crf, data), (prior.precision(crf), prior.location(crf))
    codes = data.labels[None, :]
    if (codes >= 0).all():
        return observed_objective(known, codes, *by_prior, engine)
    if (codes < 0).all():
        raise InvalidInput("there is nothing to learn from: no label is known")
    return hidden_objective(known, codes, *by_prior, engine)


class PairInputs(NamedTuple):
    """Every pair of nodes that edges join, once: pairs (m, 2) ascending; inputs of its edges, summed, (m, E): of those
    that are given along, and of those against, whose tables are transposed."""

    pairs: IntArray
    along: FloatArray
    against: FloatArray


def pair_inputs(data: Graphs) -> PairInputs:
    """Edges that are given twice share a table and add up."""
    turned = data.edges[:, 0] > data.edges[:, 1]
    pairs, table = np.unique(np.sort(data.edges, axis=1), axis=0, return_inverse=True)
    parts = [np.zeros((len(pairs), data.edge_inputs.shape[1])) for _ in range(2)]
    for part, some in zip(parts, (~turned, turned), strict=True):
        np.add.at(part, table.reshape(-1)[some], data.edge_inputs[some])
    return PairInputs(pairs, *parts)


def compiled_graphs(crf: CRF, data: Graphs) -> CompiledField:
    """The union of the graphs, and A = inputs ⊗ tables."""
    K, H, found = len(crf.labels), len(crf.edge_tables), pair_inputs(data)
    node = sparse.kron(data.inputs, crf.node_tables.T)
    edge = sparse.kron(sparse.csr_array(found.along), crf.edge_tables.reshape(H, -1).T)
    if found.against.any():
        turned = crf.edge_tables.transpose(0, 2, 1).reshape(H, -1)
        edge = edge + sparse.kron(sparse.csr_array(found.against), turned.T)
    matrix = sparse.csr_array(sparse.block_diag([node, edge]))
    design = Design(matrix, sparse.csr_array(matrix.T), np.zeros(matrix.shape[0]))
    return CompiledField(pair_graph(np.full(data.nodes, K), found.pairs), design, np.empty(0, dtype=np.int64))


def pair_starts(data: Sequences) -> IntArray:
    """The positions that have a next one in their sequence."""
    return np.flatnonzero(np.isin(np.arange(data.positions) + 1, data.ptr, invert=True))


def labels_energy(data: Sequences, node: FloatArray, edge: FloatArray) -> FloatArray:
    """θ of each sequence's labels, (S,), by node (P, K) and edge (Q, K, K) log-potentials."""
    y, t = data.labels, pair_starts(data)
    assert y is not None
    each = node[np.arange(data.positions), y]
    each[t] += edge[data.which[t], y[t], y[t + 1]]
    running = np.concatenate([[0.0], np.cumsum(each)])
    result: FloatArray = running[data.ptr[1:]] - running[data.ptr[:-1]]
    return result


def potentials(crf: CRF, data: Sequences, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
    """node (P, K) and edge (Q, K, K) log-potentials."""
    W, V = crf.split(parameters)
    K = len(crf.labels)
    node = inputs_times(data, np.ascontiguousarray(W if crf.plain_nodes else W @ crf.node_tables))
    edge = data.edge_rows @ (V if crf.plain_edges else V @ _flat(crf.edge_tables))
    return node, edge.reshape(-1, K, K)


def expectations(crf: CRF, data: Sequences, marginal: FloatArray, transitions: FloatArray) -> FloatArray:
    """Σ over positions and pairs of the features, (F,), from marginals (P, K) and transitions (Q, K, K)."""
    node = inputs_transposed(data, marginal)
    edge = data.edge_rows.T @ _flat(transitions)
    return np.concatenate(
        [
            (node if crf.plain_nodes else node @ crf.node_tables.T).ravel(),
            (edge if crf.plain_edges else edge @ _flat(crf.edge_tables).T).ravel(),
        ]
    )


def _flat(tables: FloatArray) -> FloatArray:
    """(…, K, K) as (…, K²)."""
    return tables.reshape(len(tables), -1)


def label_covariances(crf: CRF, data: Sequences, marginal: FloatArray) -> FloatArray:
    """Σ_t x_td² Cov(B(y_t)) for every input d, (D, G²)."""
    B, squares = crf.node_tables, replace(data, inputs=data.inputs.power(2))
    total = np.zeros((len(crf.inputs), len(B) ** 2))
    for first, last in parallel.spans([*range(0, data.positions, _SLAB), data.positions]):
        p = marginal[first:last]
        mean = p @ B.T
        rows = np.einsum("tk,gk,hk->tgh", p, B, B, optimize=True) - mean[:, :, None] * mean[:, None, :]
        some = replace(squares, inputs=squares.inputs[first:last], ptr=np.array([0, last - first]))
        total += inputs_transposed(some, rows.reshape(last - first, -1))
    return total


def pair_covariance(crf: CRF, data: Sequences, found: ChainMarginals) -> FloatArray:
    """Σ over pairs of neighbours of the covariance of their features, (E·H, E·H), each pair by itself."""
    T, m = crf.edge_tables.reshape(len(crf.edge_tables), -1), found.messages
    inside = np.einsum("qs,gs,hs->qgh", found.transitions.reshape(len(data.edge_rows), -1), T, T, optimize=True)
    size = len(crf.edge_inputs) * len(T)
    whole = np.einsum("qe,qf,qgh->egfh", data.edge_rows, data.edge_rows, inside, optimize=True)
    total: FloatArray = np.array(whole).reshape(size, size)
    pairs = pair_starts(data)
    for first, last in parallel.spans([*range(0, len(pairs), _SLAB), len(pairs)]):
        t = pairs[first:last]
        joint = m.a[t][:, :, None] * m.M[data.which[t]] * m.v[t + 1][:, None, :]
        means = np.einsum("te,th->teh", data.edge_rows[data.which[t]], joint.reshape(len(t), -1) @ T.T)
        total -= means.reshape(len(t), -1).T @ means.reshape(len(t), -1)
    return total


def inputs_times(data: Sequences, weights: FloatArray) -> FloatArray:
    """X · weights, (P, K)."""
    X, out = data.inputs, np.empty((data.positions, weights.shape[1]))

    def part(b: tuple[int, int]) -> None:
        kernel.times(X.indptr, X.indices, X.data, weights, *b, out)

    parallel.thread_map(part, _parts(data))
    return out


def inputs_transposed(data: Sequences, rows: FloatArray) -> FloatArray:
    """Xᵀ · rows, (D, K)."""
    X = data.inputs

    def part(b: tuple[int, int]) -> FloatArray:
        out = np.zeros((X.shape[1], rows.shape[1]))
        kernel.transposed(X.indptr, X.indices, X.data, rows, *b, out)
        return out

    result: FloatArray = np.sum(parallel.thread_map(part, _parts(data)), axis=0)
    return result


def _parts(data: Sequences) -> list[tuple[int, int]]:
    """Runs of positions; one where there is little to do."""
    count = _PARTS if data.inputs.nnz > 100_000 else 1
    ends = np.linspace(0, data.positions, count + 1).astype(np.int64)
    return parallel.spans(ends.tolist())
