"""Linear response by message passing (Welling & Teh 2004): derivatives travel along the same slots as the messages.

Perturb θ by θ̇. With every quantity taken relative to its variable's reference state, the derivatives of the log
messages obey, at the fixed point,

    η_i = θ̇_i + Σ_a ṁ_{a→i}                          the variable's log belief
    ċ_{i→a} = η_i − ṁ_{a→i}                           the cavity
    ṁ_{a→i}(x) = E[θ̇_a + Σ_{j≠i} ċ_{j→a} | x_i = x] − the same at the reference

No factor's covariance is inverted, so hard constraints are no obstacle. The iteration converges where belief
propagation itself is stable; elsewhere the same linear equations are solved directly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from bayesfield.response.base import TableResponse
from bayesfield.response.indicators import Indicators, Sparse, indicators, slot_states
from bayesfield.types import FloatArray, GraphArrays, IndefiniteCurvature, Outcome

if TYPE_CHECKING:
    from bayesfield.graph.compiled import Design
    from bayesfield.graph.structure import Graph

_TOLERANCE = 1e-13  # change of a derivative relative to the largest one
_MAX_SWEEPS = 1000
_BLOWN_UP = 1e12  # growth of the derivatives at which passing them along is given up


class SusceptibilityResponse(TableResponse):
    """Covariance of the features at a fixed point of belief propagation, direction by direction."""

    def __init__(self, graph: Graph, design: Design, beliefs: FloatArray) -> None:
        super().__init__(design)
        n_node = int(graph.arrays.node_ptr[-1])
        self._q, self._b = beliefs[:n_node, None], beliefs[n_node:, None]
        s = self._s = indicators(graph.arrays, beliefs[:n_node])
        self._conditional, self._transfer, self._jacobian = message_jacobian(graph.arrays, s, beliefs[n_node:])
        self._direct: Callable[[FloatArray], FloatArray] | None = None

    def table_product(self, directions: FloatArray) -> FloatArray:
        s = self._s
        on_nodes, on_factors = directions[: len(self._q)], directions[len(self._q) :]
        local_field = s.nodes.T @ on_nodes
        source = self._conditional @ on_factors + self._transfer @ (s.embed @ local_field)
        message = self._settle(source)
        eta = local_field + s.embed.T @ message
        moved_nodes = s.nodes.maximum(0) @ eta
        moved_factors = on_factors + s.members @ (s.embed @ eta - message)
        moved: FloatArray = np.concatenate(
            [
                self._q * (moved_nodes - s.node_tables @ (s.node_tables.T @ (self._q * moved_nodes))),
                self._b * (moved_factors - s.factor_tables @ (s.factor_tables.T @ (self._b * moved_factors))),
            ]
        )
        return moved

    def _settle(self, source: FloatArray) -> FloatArray:
        """The messages' derivatives: by passing them along, or directly where that does not settle."""
        if self._direct is None:
            message = source
            for _ in range(_MAX_SWEEPS):
                new: FloatArray = self._jacobian @ message + source
                gap, size = np.abs(new - message).max(initial=0.0), np.abs(new).max(initial=0.0)
                message = new
                if gap <= _TOLERANCE * size:
                    return message
                if not size < _BLOWN_UP * np.abs(source).max(initial=0.0):
                    break
            self._direct = self._factorise()
        return self._direct(source)

    def _factorise(self) -> Callable[[FloatArray], FloatArray]:
        identity = sparse.eye_array(self._jacobian.shape[0])
        try:
            factor = sparse.linalg.splu((identity - self._jacobian).tocsc())
        except RuntimeError:
            raise IndefiniteCurvature(Outcome.INDEFINITE.value) from None
        solve: Callable[[FloatArray], FloatArray] = factor.solve
        return solve


def message_jacobian(g: GraphArrays, s: Indicators, factor_beliefs: FloatArray) -> tuple[Sparse, Sparse, Sparse]:
    """The derivative of one round of messages, and its parts: from θ̇_a, from ċ, and from the last round's ṁ."""
    conditional = _conditional_differences(g, s, factor_beliefs)
    own = sparse.eye_array(s.members.shape[1])  # a member's own indicator is no message to itself
    transfer = (conditional @ s.members - own).tocsr()
    return conditional, transfer, (transfer @ (s.embed @ s.embed.T - own)).tocsr()


def _conditional_differences(g: GraphArrays, s: Indicators, b: FloatArray) -> Sparse:
    """(n_local, T_f): E[· | x_i = x] − E[· | x_i = reference] over a factor's table, for every local coordinate."""
    states = slot_states(g)
    marginal = states.T @ b
    inverse = np.zeros_like(marginal)
    np.divide(1.0, marginal, out=inverse, where=marginal > 1e-300)
    conditional = (sparse.diags_array(inverse) @ states.T @ sparse.diags_array(b)).tocsr()
    return conditional[s.own] - conditional[s.reference]
