"""Labelled sequences as an objective: all labels known, some open, latent states behind them; (12) and (20) to (22).

L(λ) = Σ_n log Z_n(λ) − Σ_n log Z_n(λ; what is known of y_n) + prior. The second sum is over the labellings that what is
known allows: a label given at some positions, one of a few at others, none at the rest; with latent states, all states
of the label that is given. Sequences with nothing open are one labelling: their features, in the statistic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfield.learning.objective import GaussianPrior, Objective, Pointwise
from bayesfield.learning.phases.cases import counted_once, graph_cases
from bayesfield.learning.phases.chain import ChainPhase, expectations, labels_energy, potentials
from bayesfield.learning.phases.crf_design import as_union
from bayesfield.model.prior import as_numbers
from bayesfield.types import BoolArray, FloatArray, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.learning.phases.base import Phase
    from bayesfield.learning.phases.cases import Cases
    from bayesfield.model.conditional import CRF, Sequences


@dataclass(frozen=True, eq=False)
class LabelledSequences:
    """crf: the model. sequences: with their labels. weights: (S,), or None where each counts once."""

    crf: CRF
    sequences: Sequences
    weights: FloatArray | None = None

    @property
    def here(self) -> bool:
        return True

    @property
    def matches_moments(self) -> bool:
        return False

    @property
    def n_cases(self) -> int:
        return len(self.sequences.ptr) - 1

    @cached_property
    def cases(self) -> Cases:
        """One case of a field over all positions, for learners that take cases."""
        return counted_once(graph_cases(self.crf, as_union(self.sequences)), self.weights)

    def unseen(self) -> IntArray:
        """The parameters that no position shows without guessing: as ``Cases.unseen``, without forming the design."""
        crf, data = self.crf, self.sequences
        known = np.ones(data.positions, dtype=np.bool_) if data.allowed is None else data.allowed.sum(axis=1) == 1
        t = data.pair_starts()
        both = t[known[t] & known[t + 1]]
        node = np.asarray(np.abs(data.inputs[np.flatnonzero(known)]).sum(axis=0)).ravel() > 0
        edge = np.abs(data.edge_rows[data.which[both]]).sum(axis=0) > 0
        shown = [np.repeat(node, crf.n_node_tables), np.repeat(edge, crf.n_edge_tables)]
        return np.flatnonzero(~np.concatenate(shown))

    @property
    def propagates(self) -> bool:
        """Whether expectation propagation knows the model: chains all of whose labels are known."""
        return self.sequences.allowed is None

    def potentials(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """node (P, K) and edge (Q, K, K) log-potentials."""
        return potentials(self.crf, self.sequences, parameters)

    def pointwise(self, objective: Objective, points: FloatArray) -> Pointwise:
        """log p(y_n | x_n, λ) of every sequence at each of the parameters, points (S, F)."""
        data, crf = self.sequences, self.crf
        free, clamped = ChainPhase(crf, data), ChainPhase(crf, data, -1.0, data.allowed)
        values = np.empty((len(points), len(data)))
        for s, here in enumerate(points):
            if data.allowed is None:
                known = labels_energy(data, data.labels, *self.potentials(here))
            else:
                known = clamped.log_z_each(here)
            values[s] = known - free.log_z_each(here)
        return Pointwise(np.where(np.isfinite(values), values, np.nan), np.arange(len(data)))


def sequence_objective(
    crf: CRF, data: Sequences, prior: GaussianPrior, weights: Any = None, learned: bool = True
) -> Objective:
    """The objective of sequences whose labels are known, or partly known. weights: what each sequence counts for.

    learned: whether they are to learn from, so that some label must be known.
    """
    if data.labels is None:
        raise InvalidInput("a CRF is fitted to labelled sequences: give y")
    count = len(data.ptr) - 1
    if learned and data.allowed is not None and data.allowed.size and data.allowed.all():
        raise InvalidInput("there is nothing to learn from: no label is known")
    known = None if weights is None else checked_weights(weights, count)
    free: list[Phase] = []
    clamped: list[Phase] = []
    statistic = np.zeros(crf.n_parameters)
    for weight, some in weight_groups(known, count):
        part = data if some is None else data.chosen(some)
        free.append(ChainPhase(crf, part, weight))
        whole, partly = _split(part)
        statistic += weight * labels_statistic(crf, whole)
        if partly is not None:
            clamped.append(ChainPhase(crf, partly, -weight, partly.allowed))
    return Objective(prior, (*free, *clamped), statistic, 0.0, LabelledSequences(crf, data, known))


def labels_statistic(crf: CRF, data: Sequences) -> FloatArray:
    """f(y, x) summed over sequences all of whose labels are known, (F,)."""
    K, P = len(crf.labels), int(data.ptr[-1])
    assert data.labels is not None
    taken = np.zeros((P, K))
    taken[np.arange(P), data.labels] = 1.0
    pairs = np.zeros((len(data.edge_rows), K, K))
    t = data.pair_starts()
    np.add.at(pairs, (data.which[t], data.labels[t], data.labels[t + 1]), 1.0)
    return expectations(crf, data, taken, pairs)


def _split(data: Sequences) -> tuple[Sequences, Sequences | None]:
    """The sequences all of whose labels are known, and the others."""
    if data.allowed is None:
        return data, None
    doubts = np.concatenate([[0], np.cumsum(data.allowed.sum(axis=1) > 1)])
    some_open = doubts[data.ptr[1:]] > doubts[data.ptr[:-1]]
    whole = data.chosen(~some_open)
    assert whole.allowed is not None
    partly = data.chosen(some_open) if some_open.any() else None
    return whole.with_labels(whole.allowed.argmax(axis=1)), partly


def checked_weights(weights: Any, count: int) -> FloatArray | None:
    """What each sequence or graph counts for; None where each counts once."""
    if weights is None:
        return None
    numbers = as_numbers(weights, "weights")
    if numbers.shape != (count,) or not np.isfinite(numbers).all() or (numbers < 0).any():
        raise InvalidInput(f"weights are {count} finite numbers not below zero, one for each; got {weights!r}")
    return numbers


def weight_groups(weights: FloatArray | None, count: int) -> Iterator[tuple[float, BoolArray | None]]:
    """Every weight above zero, and which of them have it: a phase each. None for all."""
    if weights is None or not count:
        yield 1.0, None
        return
    distinct = np.unique(weights[weights > 0])
    if not len(distinct):
        raise InvalidInput("there is nothing to learn from: all weights are zero")
    for weight in distinct:
        yield float(weight), None if (weights == weight).all() else weights == weight
