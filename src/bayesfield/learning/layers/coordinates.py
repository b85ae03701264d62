"""The parameters of a field of two layers as (a, b, W), energies aᵀx + bᵀh + xᵀW h, and the prior in these.

φ = K λ + φ₀ with a sparse K, the identity for states 0 and 1. Steps are taken in centred coordinates (Montavon & Müller
2012), ã = a + W ⟨h⟩ and b̃ = b + Wᵀ⟨x⟩: there a weight is nearly independent of the fields at its ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import splu

from bayesfield.graph.layers import layer_products
from bayesfield.types import FloatArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.graph.layers import SeenLayer
    from bayesfield.learning.objective import GaussianPrior


class LayerParameters(NamedTuple):
    """seen: a, (V,). hidden: b, (H,). joint: W, (V, H), 0 where nothing joins the two."""

    seen: FloatArray
    hidden: FloatArray
    joint: FloatArray

    def plus(self, other: LayerParameters, factor: float = 1.0) -> LayerParameters:
        return LayerParameters(*(x + factor * y for x, y in zip(self, other, strict=True)))

    def centred(self, x: FloatArray, h: FloatArray) -> LayerParameters:
        """ã, b̃ and W about means ⟨x⟩ and ⟨h⟩."""
        return LayerParameters(self.seen + self.joint @ h, self.hidden + x @ self.joint, self.joint)

    def uncentred(self, x: FloatArray, h: FloatArray) -> LayerParameters:
        return LayerParameters(self.seen - self.joint @ h, self.hidden - x @ self.joint, self.joint)

    def slope_centred(self, x: FloatArray, h: FloatArray) -> LayerParameters:
        """A slope with respect to (a, b, W) as one with respect to (ã, b̃, W)."""
        joint = self.joint - np.multiply.outer(self.seen, h) - np.multiply.outer(x, self.hidden)
        return LayerParameters(self.seen, self.hidden, joint)


class Coordinates:
    """Between λ and (a, b, W). Only for fields whose parameters are as many as the numbers in these, and tied to none
    of them in common (``Coordinates.of`` says None for the others)."""

    def __init__(self, layer: SeenLayer, prior: GaussianPrior, matrix: Any) -> None:
        self._layer, self._prior, self._matrix = layer, prior, matrix
        self._offset = layer_products(layer.field.graph, layer.layers).T @ layer.field.design.offset
        alike = matrix.nnz == matrix.shape[0] and bool((matrix.data == 1.0).all())
        self._order = matrix.tocsr().indices if alike else None  # λ in the order of φ
        self._factor = None if alike else splu(matrix.tocsc())

    @classmethod
    def of(cls, layer: SeenLayer, prior: GaussianPrior) -> Coordinates | None:
        matrix = layer_products(layer.field.graph, layer.layers).T @ layer.field.design.matrix
        if matrix.shape[0] != matrix.shape[1] or not prior.independent:
            return None
        matrix = matrix.tocsr()
        matrix.eliminate_zeros()
        try:
            return cls(layer, prior, matrix)
        except RuntimeError:  # splu's word for a singular matrix
            return None

    def from_parameters(self, parameters: FloatArray) -> LayerParameters:
        t = self._layer.field.design
        products = layer_products(self._layer.field.graph, self._layer.layers).T @ (t.matrix @ parameters)
        return self._laid_out(products + self._offset)

    def to_parameters(self, at: LayerParameters) -> FloatArray:
        """λ, (F,)."""
        return self._solved(self._flat(at) - self._offset)

    def pull(self, at: LayerParameters) -> LayerParameters:
        """−∇ log p(λ) with respect to (a, b, W): K⁻ᵀ Λ⁻¹ (λ − μ)."""
        pull = self._prior.pull(self.to_parameters(at))
        if self._order is not None:
            return self._laid_out(pull[self._order])
        assert self._factor is not None
        return self._laid_out(self._factor.solve(pull, "T"))

    def curvature(self, diagonal: LayerParameters) -> FloatArray:
        """diag ∇²L with respect to λ, (F,), from that of the likelihood with respect to (a, b, W)."""
        products: FloatArray = self._matrix.power(2).T @ self._flat(diagonal)
        return products + self._prior.diagonal

    def _solved(self, products: FloatArray) -> FloatArray:
        if self._order is None:
            assert self._factor is not None
            return np.asarray(self._factor.solve(products))
        out = np.empty(len(products))
        out[self._order] = products
        return out

    def _laid_out(self, products: FloatArray) -> LayerParameters:
        layers, n = self._layer.layers, len(self._layer.field.graph.arrays.cardinality)
        joint = np.zeros((len(layers.large), len(layers.small)))
        joint[layers.row, layers.column] = products[n:]
        large, small = products[: len(layers.large)], products[len(layers.large) : n]
        return LayerParameters(small, large, joint.T) if self._layer.flipped else LayerParameters(large, small, joint)

    def _flat(self, at: LayerParameters) -> FloatArray:
        layers = self._layer.layers
        large, small, joint = at if not self._layer.flipped else (at.hidden, at.seen, at.joint.T)
        return np.concatenate([large, small, joint[layers.row, layers.column]]).astype(np.float64)


def coordinates(layer: SeenLayer, prior: GaussianPrior) -> Coordinates:
    """Refuses fields that have none."""
    found = Coordinates.of(layer, prior)
    if found is None:
        raise InvalidInput(
            "learning by layers takes a field each of whose fields and couplings has a parameter of its own, and a "
            'prior with independent parameters; take method="auto"'
        )
    return found
