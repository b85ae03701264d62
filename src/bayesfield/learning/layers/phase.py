"""The clamped phase of cases that show one layer of two: given it the hidden variables are independent.

log Z_n = c + aᵀx_n + Σ_j log(1 + exp(b_j + W_jᵀ x_n)), whatever the engine of the free phase: two matrix products
for all cases, where a union of graphs would have a table for each hidden variable of each case.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse, special

from bayesfield.inference.contract import Engine, Price, Traits
from bayesfield.learning.phases.base import Answer, Phase
from bayesfield.response.base import Response
from bayesfield.types import FloatArray, Outcome, Status

if TYPE_CHECKING:
    from bayesfield.graph.layers import SeenLayer
    from bayesfield.response.indicators import Sparse

_EXACT = Status(Outcome.EXACT)
# Seconds of one core: of a product of a case's cell with a weight, and of a logarithm
_PER_PRODUCT, _PER_UNIT = 4e-10, 4e-8
_ROWS = 2_000_000  # numbers of the hidden layer that are held at a time


@dataclass(frozen=True, eq=False)
class LayerPhase(Phase):
    """w Σ_n log Z_n(λ) of cases that show one layer."""

    layer: SeenLayer
    weight: float = -1.0
    contrasts = True
    traits = Traits(exact=True, linear_response=False)

    def choose(self, engine: Any) -> tuple[Engine, str]:
        chosen: tuple[Engine, str] = engine.choose(self.layer.field.graph)
        return chosen

    def price(self, size: int) -> Price:
        M, V = self.layer.x.shape
        H = len(self.layer.hidden)
        inference = 1e-4 + M * H * (2.0 * V * _PER_PRODUCT + _PER_UNIT)
        return Price(inference, inference + _PER_PRODUCT * M * H * float(V) ** 2)

    def bytes(self) -> float:
        return 8.0 * len(self.layer.x) * (len(self.layer.seen) + 3.0 * len(self.layer.hidden))

    def scaled(self, factor: float) -> LayerPhase:
        return replace(self, weight=factor * self.weight)

    def at(self, parameters: FloatArray, start: Any = None) -> Answer:
        layer = self.layer
        t = layer.potentials(parameters)
        x, often = layer.x, layer.often
        logits = x @ t.joint + t.small
        active = special.expit(logits)
        log_z = float(often.sum() * t.constant + (often @ x) @ t.large + often @ np.logaddexp(0.0, logits).sum(axis=1))
        tables = summed_tables(layer, active * often[:, None])
        return Answer(log_z, layer.field.design.expectations(tables), _EXACT, None, active)

    def response(self, answer: Answer) -> Response:
        return HiddenResponse(self.layer, answer.found)

    def variances(self, answer: Answer) -> FloatArray:
        return self.response(answer).diagonal()

    def log_z_along(self, points: FloatArray) -> FloatArray:
        return self.at_many(points).log_z


def hidden_log_z(layer: SeenLayer, points: FloatArray) -> FloatArray:
    """log Z_n of the distinct cases at each of the parameters (S, F), (S, M)."""
    out = np.empty((len(points), len(layer.x)))
    for s, here in enumerate(points):
        t = layer.potentials(here)
        out[s] = t.constant + layer.x @ t.large
        step = max(1, _ROWS // len(layer.hidden))
        for k in range(0, len(layer.x), step):
            logits = layer.x[k : k + step] @ t.joint + t.small
            out[s, k : k + step] += np.logaddexp(0.0, logits).sum(axis=1)
    return out


def hidden_means(layer: SeenLayer, points: FloatArray) -> FloatArray:
    """P(h_j = 1 | x) of the distinct cases, (M, H), averaged over parameters (S, F)."""
    total = np.zeros((len(layer.x), len(layer.hidden)))
    for here in points:
        t = layer.potentials(here)
        total += special.expit(layer.x @ t.joint + t.small)
    return total / len(points)


def summed_tables(layer: SeenLayer, active: FloatArray) -> FloatArray:
    """Σ_n w_n b_n, (T,), of tables with a hidden variable. active: (M, H), w_n P(h = 1 | x_n)."""
    g, layers = layer.field.graph.arrays, layer.layers
    n, total = len(g.cardinality), float(layer.often.sum())
    p = np.zeros(n)
    p[layer.seen], p[layer.hidden] = layer.often @ layer.x, active.sum(axis=0)
    joint = layer.x.T @ active
    both = (joint.T if layer.flipped else joint)[layers.row, layers.column]
    first, second = p[g.scope.reshape(-1, 2)].T
    result = np.zeros(layer.field.graph.n_entries)
    nodes = result[: 2 * n].reshape(n, 2)
    nodes[layer.hidden] = np.stack([total - p[layer.hidden], p[layer.hidden]], axis=1)
    result[2 * n :] = np.stack([total - first - second + both, second - both, first - both, both], axis=1).ravel()
    return result


class HiddenResponse(Response):
    """Σ_n Cov_n: with m = h_j (1, x_n) blocks Σ_n w p_nj (1 − p_nj) (1, x_n)(1, x_n)ᵀ, one for each hidden variable."""

    def __init__(self, layer: SeenLayer, active: FloatArray) -> None:
        super().__init__(layer.field.design)
        self._layer = layer
        spread = active * (1.0 - active) * layer.often[:, None]
        with_one = np.hstack([np.ones((len(layer.x), 1)), layer.x])
        blocks = [(with_one * s[:, None]).T @ with_one for s in spread.T]
        rows = hidden_products(layer, self.design.matrix)
        self._rows: Sparse = rows
        self._blocks: Sparse = sparse.block_diag(blocks, format="csr")

    def product(self, vectors: FloatArray) -> FloatArray:
        result: FloatArray = self._rows.T @ (self._blocks @ (self._rows @ vectors))
        return result

    def covariance(self) -> FloatArray:
        result: FloatArray = (self._rows.T @ (self._blocks @ self._rows)).toarray()
        return (result + result.T) / 2

    def diagonal(self) -> FloatArray:
        result: FloatArray = np.asarray((self._rows * (self._blocks @ self._rows)).sum(axis=0)).ravel()
        return result


def hidden_products(layer: SeenLayer, matrix: Sparse) -> Sparse:
    """(H (V + 1), F) how the features depend on h_j and on x_i h_j: hidden variable by hidden variable, h_j first."""
    g, layers = layer.field.graph.arrays, layer.layers
    n, H, V = len(g.cardinality), len(layer.hidden), len(layer.seen)
    hidden, seen = (layers.row, layers.column) if layer.flipped else (layers.column, layers.row)
    flipped = layers.flipped == (0 if layer.flipped else 1)  # whether a factor's first variable is the hidden one
    table = 2 * n + 4 * np.arange(len(hidden))
    alone, pair = hidden * (V + 1), hidden * (V + 1) + 1 + seen
    own = np.arange(H) * (V + 1)
    on, off = table + np.where(flipped, 2, 1), table + np.where(flipped, 1, 2)  # h alone is 1; x alone is 1
    parts = [(2 * layer.hidden, own, -1.0), (2 * layer.hidden + 1, own, 1.0), (table, alone, -1.0), (on, alone, 1.0)]
    parts += [(table, pair, 1.0), (table + 3, pair, 1.0), (on, pair, -1.0), (off, pair, -1.0)]
    rows, columns = (np.concatenate([p[k] for p in parts]) for k in (0, 1))
    values = np.concatenate([np.full(len(p[0]), p[2]) for p in parts])
    beliefs = sparse.csr_array((values, (rows, columns)), shape=(matrix.shape[0], H * (V + 1)))
    return (beliefs.T @ matrix).tocsr()
