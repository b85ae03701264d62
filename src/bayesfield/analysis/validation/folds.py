"""Sequences that are left out: the model that the others alone would have had, and how well it predicts them."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import sparse

from bayesfield.learning.objective import GaussianPrior, gaussian
from bayesfield.model.conditional import CRF, Seen, Sequences, seen_weights
from bayesfield.model.prior import Normal, Prior
from bayesfield.types import BoolArray, FloatArray, IntArray


class Fold(NamedTuple):
    """The model of some sequences. parameters: its own among those of the whole model. shown: (F,) whether they show
    the weight's input; new sequences come without inputs that training has not shown, so that such weights are zero."""

    crf: CRF
    parameters: IntArray
    shown: BoolArray

    def prior(self, whole: GaussianPrior) -> GaussianPrior:
        """That of the weights that the fold has."""
        location, precision, some = whole.location, whole.precision, self.parameters
        if len(some) == len(location):
            return GaussianPrior(location, precision)
        return GaussianPrior(location[some], precision[some] if whole.independent else precision[np.ix_(some, some)])

    def stated(self, prior: Prior, whole: CRF) -> Prior:
        """The same as a user would state it. whole: the model that the prior is of."""
        if self.crf is whole:
            return prior
        own = self.prior(gaussian(prior, whole))
        if own.independent:
            return Normal(variance=1.0 / own.precision, mean=own.location)
        return Normal(covariance=np.linalg.inv(own.precision), mean=own.location)

    def known(self, test: Sequences) -> Sequences:
        """Sequences to predict, without their labels and without inputs that the fold does not show."""
        inputs = test.inputs
        if self.crf.seen is None and not self.shown.all():
            there = self.shown[: self.crf.n_state : self.crf.n_node_tables]
            inputs = sparse.csr_array(inputs @ sparse.diags_array(there.astype(np.float64)))
            inputs.eliminate_zeros()
        return replace(test, inputs=inputs, labels=None, allowed=None)


def fold_of(crf: CRF, data: Sequences) -> Fold:
    """The model with the weights that these sequences show, where it has but those that were seen: which labels an
    input of the others was seen with would tell their labels."""
    if crf.seen is None:
        inputs = np.bincount(data.inputs.indices, minlength=len(crf.inputs)) > 0
        edges = np.ones(crf.n_parameters - crf.n_state, dtype=np.bool_)
        shown = np.concatenate([np.repeat(inputs, crf.n_node_tables), edges])
        return Fold(crf, np.arange(crf.n_parameters), shown)
    here = crf.with_seen(seen_weights(crf, data, 1e-300)).places
    keep = np.isin(crf.places, here)
    states, owner = keep[: crf.n_state], np.repeat(np.arange(len(crf.inputs)), np.diff(crf.seen.ptr))
    ptr = np.concatenate([[0], np.cumsum(np.bincount(owner[states], minlength=len(crf.inputs)))])
    seen = Seen(ptr.astype(np.int64), crf.seen.label[states], crf.seen.pair[keep[crf.n_state :]])
    smaller = crf.with_seen(seen)
    return Fold(smaller, np.flatnonzero(keep), np.ones(smaller.n_parameters, dtype=np.bool_))


def label_loss(crf: CRF, labels: IntArray | None, marginal: FloatArray) -> float:
    """Σ −log p of the labels that are known, in nats. marginal: (P, K) of the states."""
    assert labels is not None
    known = np.flatnonzero(labels >= 0)
    right = np.sum(marginal[known] * (crf.owner == labels[known][:, None]), axis=1)
    return float(-np.log(np.maximum(right, 1e-300)).sum())
