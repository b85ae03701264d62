"""The posterior precision of an objective: at a point, or averaged over points, in the form that is asked for."""

from __future__ import annotations

import numpy as np

from bayesfield.learning.objective import Objective, Point
from bayesfield.learning.precision.base import Precision
from bayesfield.learning.precision.block import BlockPrecision
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.learning.precision.matrix_free import MatrixFree
from bayesfield.learning.precision.mean_field import DiagonalPrecision
from bayesfield.learning.precision.sparse import Origin, SparsePrecision
from bayesfield.response.base import Response, WeightedResponse
from bayesfield.response.linear import LinearResponse, NotSparse
from bayesfield.types import FloatArray, InvalidInput


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
    if form == "mean-field":
        if not objective.prior.independent and objective.prior.coupling is None:
            raise InvalidInput('form="mean-field" needs a prior with independent parameters; take form="matrix-free"')
        return DiagonalPrecision(objective.variances(point))
    if form == "dense":
        return DensePrecision(objective.curvature(point))
    return averaged(objective, form, [objective.response(point)], [point])


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


def averaged(objective: Objective, form: str, responses: list[Response], points: list[Point]) -> Precision:
    """The mean of P over points with these responses. The sparse form is for one point: of more it is matrix-free."""

    def scale() -> FloatArray:
        """About √diag(P)."""
        result: FloatArray = np.sqrt(np.mean([objective.variances(p) for p in points], axis=0))
        return result

    if form == "matrix-free":
        return MatrixFree(responses, objective.prior, scale())
    parts = responses[0].parts if isinstance(responses[0], WeightedResponse) else ()
    linear = parts[0][1] if len(parts) == 1 else None
    if not isinstance(linear, LinearResponse) or not objective.prior.independent:
        raise NotSparse("a sparse precision needs linear response (bf.Bethe(), bf.Kikuchi()) and a diagonal prior")
    origin = Origin(objective.free.engine, points[0].parameters)
    near = SparsePrecision(linear, parts[0][0], objective.prior.diagonal, scale, origin)
    return near if len(points) == 1 else MatrixFree(responses, objective.prior, scale(), near)
