"""Max-margin Markov networks on chains (Taskar, Guestrin & Koller 2003): a baseline with a point estimate only.

½ |λ|² / σ² + Σ_n max_y [ Δ(y, y_n) + λᵀf(y, x_n) − λᵀf(y_n, x_n) ],   Δ the number of labels that differ,

by block-coordinate Frank-Wolfe (Lacoste-Julien, Jaggi, Schmidt & Pletscher 2013): one loss-augmented Viterbi for each
sequence, a step of closed-form length, and a duality gap that bounds how far the objective is from its minimum. It is
slow to close the gap to many digits; a thousandth is soon reached.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesfield import parallel
from bayesfield.inference.trees.chain import best_labellings
from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.learning.phases.crf_design import potentials
from bayesfield.learning.phases.sequences import labels_statistic
from bayesfield.model.conditional import CRF, Sequences, as_sequences
from bayesfield.types import FloatArray, InvalidInput, Outcome, Status


@dataclass(frozen=True, eq=False)
class MaxMargin:
    """field: the model. mode: (F,) the weights. objective: its value; gap: how far that may be above the least."""

    field: CRF
    mode: FloatArray
    objective: float
    gap: float
    status: Status


def max_margin(
    crf: CRF,
    X: Sequence[Any] | Sequences,
    y: Sequence[Any] | None = None,
    variance: float = 1.0,
    *,
    Z: Sequence[Any] | None = None,
    tolerance: float = 1e-3,
    epochs: int = 200,
    rng: np.random.Generator | int | None = 0,
) -> MaxMargin:
    """The max-margin weights of a chain CRF, for comparison: a point, with no width.

    X, y, Z: as in ``bf.fit_sequences``. variance: σ². tolerance: of the gap, relative to the objective. epochs: how
    often each sequence is visited, at most. rng: of their order.
    """
    data = X if isinstance(X, Sequences) else as_sequences(crf, X, y, Z)
    if data.labels is None:
        raise InvalidInput("a CRF is fitted to labelled sequences: give y")
    if data.allowed is not None:
        raise InvalidInput("max-margin training needs all labels, and some are open")
    parts = [_Sequence(crf, data, a, b) for a, b in parallel.spans(data.ptr.tolist()) if b > a]
    S, generator = len(parts), np.random.default_rng(rng)
    share, loss = np.zeros((S, crf.n_parameters)), np.zeros(S)  # of λ and of the dual's linear part, by sequence
    here = np.zeros(crf.n_parameters)
    value, gap, epoch = 0.0, float("inf"), 0
    while epoch < epochs and S:
        for n in generator.permutation(S):
            direction, worth, _ = parts[n].worst(here)
            away = share[n] - variance * direction
            length = float(away @ away)
            if length > 0.0:
                rise = float(away @ here) / variance - loss[n] + worth
                step = min(max(rise * variance / length, 0.0), 1.0)
                here = here - step * away
                share[n], loss[n] = share[n] - step * away, (1.0 - step) * loss[n] + step * worth
        epoch += 1
        value = 0.5 * float(here @ here) / variance + sum(part.worst(here)[2] for part in parts)
        gap = value - (float(loss.sum()) - 0.5 * float(here @ here) / variance)
        if gap <= tolerance * max(abs(value), 1e-12):
            break
    good = not S or gap <= tolerance * max(abs(value), 1e-12)
    status = Status(Outcome.OPTIMUM if good else Outcome.NO_OPTIMUM, epoch, gap if S else 0.0)
    return MaxMargin(crf, here, value, gap if S else 0.0, status)


class _Sequence:
    """One labelled sequence: its features, and the labelling that is worst for given parameters."""

    def __init__(self, crf: CRF, data: Sequences, begin: int, end: int) -> None:
        assert data.labels is not None
        self.crf, self.labels = crf, data.labels[begin:end]
        which = data.which[begin:end]
        self.data = Sequences(np.array([0, end - begin]), data.inputs[begin:end], data.edge_rows, which, self.labels)
        self.truth = labels_statistic(crf, self.data)

    def worst(self, parameters: FloatArray) -> tuple[FloatArray, float, float]:
        """f(y_n) − f(y*), Δ(y*) and the hinge, for the y* that maximises Δ(y) + λᵀf(y)."""
        node, edge = potentials(self.crf, self.data, parameters)
        node += np.arange(node.shape[1])[None, :] != self.labels[:, None]
        labels, scores = best_labellings(ChainArrays(self.data.ptr, self.data.which), node, edge)
        found = Sequences(self.data.ptr, self.data.inputs, self.data.edge_rows, self.data.which, labels[0])
        features = labels_statistic(self.crf, found)
        hinge = float(scores[0, 0] - parameters @ self.truth)
        return self.truth - features, float((labels[0] != self.labels).sum()), hinge
