"""The negative log posterior of a chain CRF whose labels are not all known: equations (20) to (22).

L(λ) = Σ_n log Z_n(λ) − Σ_n log Z_n(λ; what is known of y_n) + prior, where the second sum is over the labellings that
what is known allows: a label given at some positions, one of a few at others, none at the rest; with latent states, all
states of the label that is given. Both sums are exact.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bayesfield.inference.trees.chain import ChainMarginals, chain_marginals
from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.learning.objective import Point
from bayesfield.learning.phases.chain import ChainObjective, ChainResponse, chain_objective, expectations, potentials
from bayesfield.learning.precision.forms import Precision
from bayesfield.model.conditional import CRF, Sequences
from bayesfield.model.prior import Prior
from bayesfield.response.base import Response
from bayesfield.response.contrast import ContrastResponse
from bayesfield.types import BoolArray, FloatArray, IndefiniteCurvature, InvalidInput, Marginals


class Phases(NamedTuple):
    """Marginals of all sequences, and of those with open labels given what is known."""

    free: ChainMarginals
    clamped: ChainMarginals


@dataclass(frozen=True, eq=False)
class HiddenChainObjective(ChainObjective):
    """partly: the sequences some of whose labels are open. The statistic is that of the others."""

    partly: Sequences

    def at(self, parameters: FloatArray, start: Any = None) -> Point:
        free = chain_marginals(self.chains, *potentials(self.crf, self.data, parameters))
        clamped = self._clamped(parameters)
        mean = expectations(self.crf, self.data, free.marginal, free.transitions)
        given = self.statistic + expectations(self.crf, self.partly, clamped.marginal, clamped.transitions)
        value = free.log_z.sum() - clamped.log_z.sum() - parameters @ self.statistic - self.log_prior(parameters)
        status = free.status if clamped.status.converged else clamped.status
        if not status.converged:
            value = np.inf
        tables = np.concatenate([free.marginal.ravel(), free.transitions.ravel()])
        marginals = Marginals(float(free.log_z.sum()), tables, status, Phases(free, clamped))
        return Point(parameters, np.empty(0), float(value), self.gradient(parameters, mean, given), marginals)

    def statistic_at(self, parameters: FloatArray) -> FloatArray:
        found = self._clamped(parameters)
        return self.statistic + expectations(self.crf, self.partly, found.marginal, found.transitions)

    def log_likelihood(self, point: Point) -> float:
        phases: Phases = point.marginals.state
        known = float(point.parameters @ self.statistic)
        return known + float(phases.clamped.log_z.sum() - phases.free.log_z.sum())

    def _each(self, parameters: FloatArray) -> FloatArray:
        node, edge = potentials(self.crf, self.data, parameters)
        assert self.data.allowed is not None
        given = chain_marginals(self.chains, masked(node, self.data.allowed), edge)
        return given.log_z - chain_marginals(self.chains, node, edge).log_z

    def response(self, point: Point) -> Response:
        if not point.marginals.status.converged:
            raise IndefiniteCurvature(str(point.marginals.status))
        phases: Phases = point.marginals.state
        free = ChainResponse(self.crf, self.data, phases.free)
        return ContrastResponse(free, [(1.0, ChainResponse(self.crf, self.partly, phases.clamped))])

    def posterior_precision(self, point: Point) -> Precision:
        if self.form == "block":
            raise InvalidInput('form="block" needs all labels; with open ones take form="matrix-free"')
        return super().posterior_precision(point)

    def near(self, point: Point) -> Precision | None:
        phases: Phases = point.marginals.state
        return None if self.precision.ndim == 2 else self._block_precision(phases.free)

    def _clamped(self, parameters: FloatArray) -> ChainMarginals:
        node, edge = potentials(self.crf, self.partly, parameters)
        assert self.partly.allowed is not None
        chains = ChainArrays(self.partly.ptr, self.partly.which)
        return chain_marginals(chains, masked(node, self.partly.allowed), edge)


def masked(node: FloatArray, allowed: BoolArray) -> FloatArray:
    """Log-potentials that forbid what is not allowed."""
    return np.where(allowed, node, -np.inf)


def sequence_objective(crf: CRF, data: Sequences, prior: Prior) -> ChainObjective:
    """The objective of sequences whose labels are known, or partly known."""
    if data.allowed is None:
        return chain_objective(crf, data, prior)
    if data.allowed.all():
        raise InvalidInput("there is nothing to learn from: no label is known")
    doubts = np.concatenate([[0], np.cumsum(data.allowed.sum(axis=1) > 1)])
    some_open = doubts[data.ptr[1:]] > doubts[data.ptr[:-1]]
    whole = data.chosen(~some_open)
    assert whole.allowed is not None
    known = chain_objective(crf, whole.with_labels(whole.allowed.argmax(axis=1)), prior)
    return HiddenChainObjective(
        statistic=known.statistic,
        offset=0.0,
        weight=1.0,
        precision=known.precision,
        location=known.location,
        form="dense",
        crf=crf,
        data=data,
        partly=data.chosen(some_open),
    )
