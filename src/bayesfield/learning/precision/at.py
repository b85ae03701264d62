"""The posterior precision of an objective: at a point, or averaged over points, in the form that is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayesfield.learning.objective import Objective, Point, Points
from bayesfield.learning.precision.base import Precision
from bayesfield.learning.precision.block import BlockPrecision
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.learning.precision.matrix_free import MatrixFree
from bayesfield.learning.precision.sparse import Origin, SparsePrecision
from bayesfield.response.base import Response, WeightedResponse
from bayesfield.response.linear import LinearResponse, NotSparse
from bayesfield.types import BoolArray, FloatArray, IndefiniteCurvature, InvalidInput


def precision_at(objective: Objective, point: Point, form: str) -> Precision:
    """P = Σ_k w_k C_k + Λ⁻¹ at a point, equation (7)."""
    if form == "block":
        blocks = None if objective.hidden else block_precision(objective, point)
        if blocks is None:
            raise InvalidInput(
                'form="block" needs sequences, all of their labels, and a prior with independent parameters; take '
                'form="matrix-free"'
            )
        return blocks
    average = Average(objective, form)
    average.add([point])
    return average.precision()


def by_products(objective: Objective, point: Point) -> MatrixFree:
    """P at a point, known by its products with vectors."""
    scale = np.sqrt(objective.variances(point))
    return MatrixFree([objective.response(point)], objective.prior, scale, block_precision(objective, point))


def block_precision(objective: Objective, point: Point) -> BlockPrecision | None:
    """P without what ties different inputs, or labels and transitions, to one another, where phases know it."""
    parts = objective.blocks(point) if objective.prior.independent else None
    if parts is None:
        return None
    (blocks, rest), ridge = parts, objective.prior.diagonal
    G = blocks.shape[1]
    split = len(blocks) * G
    blocks[:, np.arange(G), np.arange(G)] += ridge[:split].reshape(-1, G)
    return BlockPrecision(blocks, rest + np.diag(ridge[split:]))


class Average:
    """The mean of P over points, in one form. The sparse form is for one point: of more it is matrix-free."""

    def __init__(self, objective: Objective, form: str) -> None:
        self._objective, self._form = objective, form
        self.count = 0
        self._dense = np.zeros(())
        self._responses: list[Response] = []
        self._points: list[Point] = []

    def add(self, points: Sequence[Point]) -> None:
        """All of the points, or none where the curvature of one is not positive definite."""
        if self._form == "dense":
            total = np.zeros(())
            for point in points:
                total = total + self._objective.likelihood_curvature(point)
            self._dense = self._dense + total
        else:
            self._responses += [self._objective.response(point) for point in points]
            self._points += points
        self.count += len(points)

    def add_pairs(self, points: FloatArray, found: Points | None, good: BoolArray, most: int) -> None:
        """The curvatures of pairs of draws, points (2·pairs, F), of as many good pairs as give ``most`` of them; a pair
        one of which has none is no longer good. found: whose inference to continue."""
        count, phases = len(good), self._objective.phases
        if self._form == "dense" and all(phase.traits.batched for phase in phases):
            some = np.flatnonzero(good)[: (most + 1) // 2]
            draws = points[np.concatenate([some, count + some])]
            for phase in phases:
                self._dense = self._dense + phase.weight * phase.covariances(draws)
            self.count += len(draws)
            return
        for k in np.flatnonzero(good).tolist():
            if self.count >= most:
                return
            pair = []
            for at in (k, count + k):
                pair.append(self._objective.at(points[at], None if found is None else found.state(at)))
            try:
                good[k] = np.isfinite(pair[0].value) and np.isfinite(pair[1].value)
                if good[k]:
                    self.add(pair)
            except IndefiniteCurvature:
                good[k] = False

    def mixed(self, old: Precision, rate: float) -> Precision | None:
        """``precision`` mixed with the old one; None where nothing was added, or where it is not positive definite."""
        try:
            return self.precision(old, rate) if self.count else None
        except IndefiniteCurvature:
            return None

    def precision(self, old: Precision | None = None, rate: float = 1.0) -> Precision:
        """old: where that is dense, (1 − rate) old + rate mean; the other forms take the mean."""
        if self._form == "dense":
            mean = self._objective.prior.plus(self._dense / self.count)
            return old.mixed(mean, rate) if isinstance(old, DensePrecision) else DensePrecision(mean)
        if self._form == "matrix-free":
            return MatrixFree(self._responses, self._objective.prior, self._scale())
        near = self._sparse(self._responses[0])
        return near if self.count == 1 else MatrixFree(self._responses, self._objective.prior, self._scale(), near)

    def _sparse(self, response: Response) -> SparsePrecision:
        parts = response.parts if isinstance(response, WeightedResponse) else ()
        prior = self._objective.prior
        linear = parts[0][1] if len(parts) == 1 else None
        if not isinstance(linear, LinearResponse) or not prior.independent:
            raise NotSparse("a sparse precision needs linear response (bf.Bethe(), bf.Kikuchi()) and a diagonal prior")
        weight, point = parts[0][0], self._points[0]
        origin = Origin(self._objective.free.engine, point.parameters)
        return SparsePrecision(linear, weight, prior.diagonal, self._scale, origin)

    def _scale(self) -> FloatArray:
        """About √diag(P)."""
        result: FloatArray = np.sqrt(np.mean([self._objective.variances(p) for p in self._points], axis=0))
        return result
