"""Pseudo-moment matching: the parameters at which belief propagation would return the data's moments.

A closed form: a start for the MAP, or a learner of its own.

At a fixed point with beliefs b the tables θ_i = log b_i and θ_a = log b_a − Σ_{i∈a} log b_i have those beliefs:
equations (8) and (9) for general tables. The parameters are then read off by least squares. Tables are defined only up
to functions of one variable that may be moved between a factor and its members, so both sides are first brought to
the form in which a factor's table has no such part.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spsolve

from bayesfield.learning.objective import FieldObjective
from bayesfield.learning.optimise import Optimum
from bayesfield.response.indicators import slot_states
from bayesfield.types import FloatArray, GraphArrays, Options, Outcome, Status

_RIDGE = 1e-6  # settles parameters that the tables leave open


@dataclass(frozen=True, repr=False)
class PseudoMoments(Options):
    """Pseudo-moment matching as a learner. It knows no prior."""


def matched_moments(objective: FieldObjective) -> Optimum:
    """The matching parameters, with value and gradient there by the objective's engine."""
    point = objective.at(pseudo_moments(objective))
    return Optimum(point, Status(Outcome.CLOSED_FORM), ())


def pseudo_moments(objective: FieldObjective) -> FloatArray:
    """λ whose tables come closest to having the data's smoothed frequencies as beliefs; the prior mean without data."""
    known = objective.field
    if not objective.weight:
        return objective.location
    target = _matching_tables(known.graph.arrays, objective.frequencies()) - known.design.offset
    target[~np.isfinite(target)] = 0.0
    move = _without_single_parts(known.graph.arrays)
    left = (move @ known.design.matrix).tocsc()
    normal = (left.T @ left + _RIDGE * sparse.eye_array(left.shape[1])).tocsc()
    if not left.shape[1]:
        return np.empty(0)
    result: FloatArray = np.atleast_1d(spsolve(normal, left.T @ (move @ target)))
    return result


def _matching_tables(g: GraphArrays, frequencies: FloatArray) -> FloatArray:
    """θ from frequencies, none of which is zero."""
    log_belief = np.log(frequencies)
    n_node = int(g.node_ptr[-1])
    slot = np.repeat(np.arange(len(g.scope)), np.diff(g.message_ptr))
    entry = g.node_ptr[g.scope[slot]] + np.arange(len(slot)) - g.message_ptr[slot]
    log_belief[n_node:] -= slot_states(g) @ log_belief[entry]
    return log_belief


def _without_single_parts(g: GraphArrays) -> Any:
    """The linear map that moves each factor's functions of one variable to that variable, and centres every table."""
    n_node, n_factor = int(g.node_ptr[-1]), int(g.table_ptr[-1] - g.node_ptr[-1])
    sizes = np.diff(g.table_ptr)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    of_factor = sparse.csr_array((np.ones(n_factor), (np.arange(n_factor), owner)), shape=(n_factor, len(sizes)))
    centre = of_factor @ sparse.diags_array(1.0 / sizes) @ of_factor.T
    states = slot_states(g)
    share = np.repeat(g.cardinality[g.scope] / sizes[g.slot_factor], np.diff(g.message_ptr))
    single = sparse.diags_array(share) @ states.T @ (sparse.eye_array(n_factor) - centre)  # main effects by slot
    slot = np.repeat(np.arange(len(g.scope)), np.diff(g.message_ptr))
    entry = g.node_ptr[g.scope[slot]] + np.arange(len(slot)) - g.message_ptr[slot]
    to_node = sparse.csr_array((np.ones(len(entry)), (entry, np.arange(len(entry)))), shape=(n_node, len(entry)))
    variable = np.repeat(np.arange(len(g.cardinality)), g.cardinality)
    of_variable = sparse.csr_array((np.ones(n_node), (np.arange(n_node), variable)), shape=(n_node, len(g.cardinality)))
    node_centre = sparse.eye_array(n_node) - of_variable @ sparse.diags_array(1.0 / g.cardinality) @ of_variable.T
    rows = [
        [node_centre, node_centre @ to_node @ single],
        [None, sparse.eye_array(n_factor) - centre - states @ single],
    ]
    return sparse.block_array(rows, format="csr") if n_node else sparse.csr_array((0, 0))
