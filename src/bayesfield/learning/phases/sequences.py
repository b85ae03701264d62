"""Labelled sequences as an objective: all labels known, some open, latent states behind them; (12) and (20) to (22).

L(λ) = Σ_n log Z_n(λ) − Σ_n log Z_n(λ; what is known of y_n) + prior. The second sum is over the labellings that what is
known allows: a label given at some positions, one of a few at others, none at the rest; with latent states, all states
of the label that is given. Sequences with nothing open are one labelling: their features, in the statistic.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from bayesfield.learning.objective import GaussianPrior, Objective, Pointwise
from bayesfield.learning.phases.cases import Cases, Labelled, Terms, checked_weights, graph_cases, labelled_objective
from bayesfield.learning.phases.chain import ChainPhase, labels_energy
from bayesfield.learning.phases.crf_design import as_union, expectations, potentials
from bayesfield.model.conditional import CRF, Sequences
from bayesfield.types import FloatArray, IntArray


class LabelledSequences(Labelled):
    """Sequences with their labels."""

    @property
    def sequences(self) -> Sequences:
        result: Sequences = self.items
        return result

    @cached_property
    def union(self) -> Cases:
        return graph_cases(self.crf, as_union(self.sequences))

    def unseen(self) -> IntArray:
        """The parameters that no position shows without guessing: as ``Cases.unseen``, without forming the design."""
        crf, data = self.crf, self.sequences
        known = np.ones(data.positions, dtype=np.bool_) if data.allowed is None else data.allowed.sum(axis=1) == 1
        t = data.pair_starts()
        both = t[known[t] & known[t + 1]]
        node = np.asarray(np.abs(data.inputs[np.flatnonzero(known)]).sum(axis=0)).ravel() > 0
        edge = np.abs(data.edge_rows[data.which[both]]).sum(axis=0) > 0
        shown = [np.repeat(node, crf.n_node_tables), np.repeat(edge, crf.n_edge_tables)]
        return np.flatnonzero(~np.concatenate(shown)[crf.places])

    @property
    def propagates(self) -> bool:
        """Whether expectation propagation knows the model: chains with all weights, all of whose labels are known."""
        return self.sequences.allowed is None and self.crf.seen is None

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
                observed = labels_energy(data, data.labels, *self.potentials(here))
            else:
                observed = clamped.marginals(here).log_z
            values[s] = observed - free.marginals(here).log_z
        return Pointwise(np.where(np.isfinite(values), values, np.nan), np.arange(len(data)))


def sequence_objective(
    crf: CRF, data: Sequences, prior: GaussianPrior, weights: Any = None, learned: bool = True
) -> Objective:
    """The objective of sequences whose labels are known, or partly known. weights: what each sequence counts for.
    learned: as in ``labelled_objective``."""
    labelled = LabelledSequences(crf, data, checked_weights(weights, len(data.ptr) - 1))

    def terms(some: Sequences, weight: float) -> Terms:
        whole, partly = _split(some)
        clamped = [] if partly is None else [ChainPhase(crf, partly, -weight, partly.allowed)]
        return ChainPhase(crf, some, weight), labels_statistic(crf, whole), clamped

    return labelled_objective(labelled, prior, terms, learned)


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
