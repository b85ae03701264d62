"""Pseudo-moment matching: the parameters at which belief propagation would return the data's moments.

A closed form: a start for the MAP, or a learner of its own.

At a fixed point with beliefs b the tables θ_i = log b_i and θ_a = log b_a − Σ_{i∈a} log b_i have those beliefs:
equations (8) and (9) for general tables. The parameters are then read off by least squares. Tables are defined only up
to functions of one variable that may be moved between a factor and its members, so both sides are first brought to
the form in which a factor's table has no such part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from bayesfield.learning.objective import Objective
from bayesfield.learning.search.learner import Learned, Learner, Request
from bayesfield.learning.search.optimum import Optimum
from bayesfield.response.indicators import slot_states
from bayesfield.types import FloatArray, GraphArrays, InvalidInput, Options, Outcome, Status

_RIDGE = 1e-6  # settles parameters that the tables leave open
_TIGHT, _STEPS = 1e-12, 1000  # of conjugate gradients


@dataclass(frozen=True, repr=False)
class PseudoMoments(Options, Learner):
    """Pseudo-moment matching as a learner. It knows no prior.

    pseudo_cases: of the uniform distribution, added to the data's frequencies, so that none is zero. The paper's (8)
    and (9) have none: 0, where every table takes each of its entries somewhere in the data.
    """

    pseudo_cases: float = 1.0

    name = "pseudo_moments"

    def __post_init__(self) -> None:
        if not 0.0 <= self.pseudo_cases < np.inf:
            raise InvalidInput(f"pseudo_cases is 0 or more; got {self.pseudo_cases}")

    def for_evidence(self) -> PseudoMoments:
        raise InvalidInput(
            'method="pseudo_moments" knows no prior, so the data cannot choose one by it; take another method, or '
            "bf.Normal(variance=…) with a number"
        )

    def learn(self, objective: Objective, request: Request) -> Learned:
        """The matching parameters, with value and gradient there by the objective's engine."""
        parameters, left = _matched(objective, self.pseudo_cases)
        outcome = Outcome.CLOSED_FORM if left == 0 else Outcome.NO_OPTIMUM
        detail = "" if left == 0 else f"least squares were not solved in {_STEPS} steps of conjugate gradients"
        return Learned(Optimum(objective.at(parameters), Status(outcome, detail=detail), ()))


def pseudo_moments(objective: Objective) -> FloatArray:
    """λ whose tables come closest to having the data's smoothed frequencies as beliefs; the prior mean without data."""
    return _matched(objective, 1.0)[0]


def _matched(objective: Objective, pseudo_cases: float) -> tuple[FloatArray, int]:
    """The same, and what conjugate gradients say: 0 where they ended."""
    cases = objective.data.cases
    compiled_field = cases.field
    if not cases.weight:
        return objective.prior.location, 0
    frequencies = cases.frequencies(pseudo_cases)
    if not (frequencies > 0.0).all():
        raise InvalidInput(
            f"{int(np.sum(frequencies <= 0.0))} table entries are taken by no case, and have no finite match without "
            "pseudo-cases; leave pseudo_cases at 1"
        )
    target = _matching_tables(compiled_field.graph.arrays, frequencies) - compiled_field.design.offset
    target[~np.isfinite(target)] = 0.0
    moves, A = _Moves(compiled_field.graph.arrays), compiled_field.design.matrix
    if not A.shape[1]:
        return np.empty(0), 0

    def normal(v: FloatArray) -> FloatArray:
        """(MA)ᵀMA v + ridge v; M itself is not formed: the square of a table's size is large where states are many."""
        result: FloatArray = A.T @ moves.transposed(moves.times(A @ v)) + _RIDGE * v
        return result

    right = A.T @ moves.transposed(moves.times(target))
    operator = LinearOperator((A.shape[1], A.shape[1]), matvec=normal, dtype=np.float64)
    diagonal = np.asarray(A.multiply(A).sum(axis=0)).ravel() + _RIDGE
    scale = LinearOperator(operator.shape, matvec=lambda v: v / diagonal, dtype=np.float64)
    result, left = cg(operator, right, rtol=_TIGHT, maxiter=_STEPS, M=scale)
    return np.asarray(result, dtype=np.float64), left


def _matching_tables(g: GraphArrays, frequencies: FloatArray) -> FloatArray:
    """θ from frequencies, none of which is zero."""
    log_belief = np.log(frequencies)
    n_node = int(g.node_ptr[-1])
    slot = np.repeat(np.arange(len(g.scope)), np.diff(g.message_ptr))
    entry = g.node_ptr[g.scope[slot]] + np.arange(len(slot)) - g.message_ptr[slot]
    log_belief[n_node:] -= slot_states(g) @ log_belief[entry]
    return log_belief


class _Moves:
    """The linear map M that moves each factor's functions of one variable to that variable, and centres every table."""

    def __init__(self, g: GraphArrays) -> None:
        n_node, n_factor, sizes = int(g.node_ptr[-1]), int(g.table_ptr[-1] - g.node_ptr[-1]), np.diff(g.table_ptr)
        self.n_node = n_node
        self.tables = _members(np.repeat(np.arange(len(sizes)), sizes), len(sizes))
        self.variables = _members(np.repeat(np.arange(len(g.cardinality)), g.cardinality), len(g.cardinality))
        self.states = slot_states(g)
        slot = np.repeat(np.arange(len(g.scope)), np.diff(g.message_ptr))
        self.share = g.cardinality[g.scope[slot]] / sizes[g.slot_factor[slot]]
        entry = g.node_ptr[g.scope[slot]] + np.arange(len(slot)) - g.message_ptr[slot]
        self.to_node = _members(entry, n_node).T.tocsr()
        assert self.tables.shape[0] == n_factor

    def times(self, theta: FloatArray) -> FloatArray:
        """M θ. The main effects of a factor, by slot, are the means of its centred table over the other variables."""
        node, factor = theta[: self.n_node], _centred(self.tables, theta[self.n_node :])
        single = self.share * (self.states.T @ factor)
        return np.concatenate([_centred(self.variables, node + self.to_node @ single), factor - self.states @ single])

    def transposed(self, tables: FloatArray) -> FloatArray:
        """Mᵀ."""
        node, factor = _centred(self.variables, tables[: self.n_node]), tables[self.n_node :]
        single = self.share * (self.to_node.T @ node - self.states.T @ factor)
        return np.concatenate([node, _centred(self.tables, factor + self.states @ single)])


def _members(owner: Any, count: int) -> Any:
    """(members, owners) indicators."""
    size = len(owner)
    return sparse.csr_array((np.ones(size), (np.arange(size), owner)), shape=(size, count))


def _centred(members: Any, values: FloatArray) -> FloatArray:
    """Values less the mean of those with the same owner."""
    sizes = np.asarray(members.sum(axis=0)).ravel()
    result: FloatArray = values - members @ ((members.T @ values) / np.maximum(sizes, 1.0))
    return result
