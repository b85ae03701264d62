"""Newton's method for the fixed points of belief propagation: the last steps where descent is slow.

With F one round of message passing, solve m = F(m) by m ← m + (I − J)⁻¹ (F(m) − m), J the derivative of F, which is
the very matrix that linear response iterates. Steps are halved until the residual falls. It is stable where message
passing is not, but has to start near: the double loop takes it there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from bayesfield.kernels.messages import sum_product as messages
from bayesfield.response.indicators import Indicators, indicators
from bayesfield.response.susceptibility import message_jacobian
from bayesfield.types import FloatArray, GraphArrays, IntArray

if TYPE_CHECKING:
    from bayesfield.graph.structure import Graph

_MAX_STEPS = 30
_HALVINGS = 8
_MAX_COORDINATES = 200_000  # beyond it a sparse factor of I − J costs more than many sweeps


def newton(graph: Graph, theta: FloatArray, inbox: FloatArray, tolerance: float) -> float:
    """Improve ``inbox`` in place while the residual falls; returns the residual reached."""
    g = graph.arrays
    if g.message_ptr[-1] > 2 * _MAX_COORDINATES:
        return np.inf
    updated, residual = _round(g, theta, inbox)
    for _ in range(_MAX_STEPS):
        if not np.isfinite(residual) or residual <= tolerance:
            break
        step = _step(g, theta, inbox, updated)
        if step is None:
            break
        own, change = step
        for halving in range(_HALVINGS):
            trial = updated.copy()
            trial[own] = inbox[own] + change / 2.0**halving
            _normalise(g, trial)
            trial_updated, trial_residual = _round(g, theta, trial)
            if trial_residual < residual:
                break
        else:
            break
        inbox[:], updated, residual = trial, trial_updated, trial_residual
    return float(residual)


def _round(g: GraphArrays, theta: FloatArray, inbox: FloatArray) -> tuple[FloatArray, float]:
    """F(m) by flooding, and the largest |F(m) − m|."""
    updated = inbox.copy()
    history = np.zeros(1)
    _, residual = messages.run_sweeps(g, theta, updated, True, 0.0, 0.0, history, False)
    return updated, float(residual)


def _step(
    g: GraphArrays, theta: FloatArray, inbox: FloatArray, updated: FloatArray
) -> tuple[IntArray, FloatArray] | None:
    """Which messages to move relative to their reference state, and by how much; None where I − J is singular."""
    beliefs = np.empty(int(g.table_ptr[-1]))
    cavity, _ = messages.cavities(g, theta, inbox)
    messages.beliefs(g, theta, inbox, cavity, beliefs)
    n_node = int(g.node_ptr[-1])
    if not np.isfinite(beliefs).all():
        return None
    s: Indicators = indicators(g, beliefs[:n_node])
    finite = np.isfinite(inbox[s.own]) & np.isfinite(updated[s.own])
    finite &= np.isfinite(inbox[s.reference]) & np.isfinite(updated[s.reference])
    gap = np.zeros(len(s.own))
    own, reference = s.own[finite], s.reference[finite]
    gap[finite] = updated[own] - updated[reference] - inbox[own] + inbox[reference]
    jacobian = message_jacobian(g, s, beliefs[n_node:])[2]
    try:
        change = sparse.linalg.splu((sparse.eye_array(len(gap)) - jacobian).tocsc()).solve(gap)
    except RuntimeError:
        return None
    # F(m) supplies the reference's new value; the others keep their distance to it
    shift = updated[reference] - inbox[reference]
    return own, change[finite] + shift


def _normalise(g: GraphArrays, inbox: FloatArray) -> None:
    """Every message's maximum to zero."""
    if len(inbox):
        inbox -= np.repeat(np.maximum.reduceat(inbox, g.message_ptr[:-1]), np.diff(g.message_ptr))
