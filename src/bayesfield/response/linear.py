"""Linear response by one sparse system over what blocks of variables share; equation (10) in general.

For the Bethe approximation the blocks are the factors, and they share the states of variables. With s_a the indicators
of factor a's members, V_a = Cov_{b_a}(s_a), V_i = Cov_{b_i}(s_i), f_a the features on a,
R_a = Cov_{b_a}(f_a, s_a) V_a⁻¹ and B_a = Cov_{b_a}(f_a) − R_a V_a R_aᵀ:

    Ω = Σ_a embed(V_a⁻¹) − Σ_i (d_i − 1) V_i⁻¹        as sparse as the model's own graph
    C = blockdiag(B) + R Ω⁻¹ Rᵀ

For Kikuchi regions see response.regions: the same formula with other blocks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse

from bayesfield.response.base import Response, require_dense
from bayesfield.response.factors.cholesky import factorise
from bayesfield.response.indicators import Indicators, Sparse, indicators
from bayesfield.types import FloatArray, GraphArrays, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.graph.compiled import Design
    from bayesfield.graph.structure import Graph
    from bayesfield.response.factors.factor import Factor

_FEW = 1200  # coordinates up to which the covariance is not worth a look at the parts of the graph
_SMALL = 60  # coordinates of the connected parts of Ω up to which its inverse counts as sparse
_NUMBERS = 4_000_000  # in the tables that are moved along directions at a time
_PART = 200  # parameters of factors that overlap in parameters, at most, in the sparse form
_SINGULAR = 1e-11  # smallest pivot of a factor's correlation matrix that is trusted


class SingularFactor(ArithmeticError):  # noqa: N818
    """A factor's table ties its members' states to one another, so that V_a has no inverse."""


class Blocks(NamedTuple):
    """Tables that come in blocks (factors, or outer regions), and the indicators that they share with other blocks."""

    features: Sparse  # (F, T_b): Aᵀ on the blocks' tables
    beliefs: FloatArray  # (T_b,)
    owner: Sparse  # (T_b, blocks): which block an entry belongs to
    members: Sparse  # (T_b, n_local): which of the block's shared indicators are on in an entry
    local_ptr: IntArray  # (blocks+1,) indicators of each block
    embed: Sparse  # (n_local, n_states): where each stands among all


class Moments(NamedTuple):
    """Covariances within the blocks."""

    features: Sparse  # Σ_a Cov_{b_a}(f_a), (F, F)
    cross: Sparse  # Cov_{b_a}(f_a, s_a), (F, n_local)
    members: Sparse  # blockdiag(V_a), (n_local, n_local)


class NotSparse(InvalidInput):
    """The parameters are tied in a way that leaves no sparse system; the matrix-free form takes them."""


@dataclass(frozen=True, eq=False)
class System:
    """P = N C + Λ⁻¹ by a sparse system: P⁻¹ = M⁻¹ − W S⁻¹ Wᵀ with M = N B + Λ⁻¹ and S = Ω/N + Rᵀ M⁻¹ R.

    own: M⁻¹, (F, F). shares: W = M⁻¹ R, (F, n_states). joint: of S. forms: gives diag(W S⁻¹ Wᵀ), (F,).
    """

    own: Sparse
    shares: Sparse
    joint: Factor
    forms: Callable[[], FloatArray]

    @cached_property
    def own_factor(self) -> Factor:
        """Of M⁻¹, whose connected parts are small."""
        return factorise(self.own.tocsc())


class LinearResponse(Response):
    """C = blockdiag(B) + R Ω⁻¹ Rᵀ. private: blockdiag(B), (F, F). slopes: R, (F, n_states).

    Refused where Ω, and with it C, is not positive definite.
    """

    def __init__(self, design: Design, private: Sparse, slopes: Sparse) -> None:
        super().__init__(design)
        self.private, self.slopes = private, slopes

    @property
    @abstractmethod
    def factor(self) -> Factor:
        """Of Ω."""

    @property
    @abstractmethod
    def omega(self) -> Sparse:
        """Ω, (n_states, n_states)."""

    @abstractmethod
    def system(self, weight: float, ridge: FloatArray) -> System:
        """For P = weight · C + diag(ridge)."""

    def product(self, vectors: FloatArray) -> FloatArray:
        result: FloatArray = self.private @ vectors + self.slopes @ self.factor.solve(self.slopes.T @ vectors)
        return result

    def covariance(self) -> FloatArray:
        """C, dense. On a union of many small graphs by Ω⁻¹ itself, which is then sparse."""
        if self.slopes.shape[1] <= _FEW:
            require_dense(self.size, "the full covariance")
            R = self.slopes.toarray()
            dense: FloatArray = self.private.toarray() + R @ self.factor.solve(R.T)
            return (dense + dense.T) / 2
        if largest_part(self.omega) > _SMALL:
            return super().covariance()
        require_dense(self.size, "the full covariance")
        result: FloatArray = (self.private + self.slopes @ parts_inverse(self.omega) @ self.slopes.T).toarray()
        return (result + result.T) / 2


class BlockResponse(LinearResponse):
    """From blocks of any kind, by sparse products."""

    def __init__(self, design: Design, private: Sparse, slopes: Sparse, omega: Sparse) -> None:
        super().__init__(design, private, slopes)
        self._omega, self._factor = omega, factorise(omega)

    @property
    def factor(self) -> Factor:
        return self._factor

    @property
    def omega(self) -> Sparse:
        return self._omega

    def system(self, weight: float, ridge: FloatArray) -> System:
        own = (weight * self.private + sparse.diags_array(ridge)).tocsr()
        largest = largest_part(own)
        if largest > _PART:
            raise NotSparse(f"{largest} parameters share factors directly; a sparse precision takes up to {_PART}")
        inverse = parts_inverse(own)
        shares = (inverse @ self.slopes).tocsr()
        joint = factorise((self.omega / weight + self.slopes.T @ shares).tocsc())
        return System(inverse, shares, joint, lambda: joint.inverse_forms(shares))


class Pieces(NamedTuple):
    """What blocks share: variables, or inner regions. inverse: blockdiag(V_β⁻¹). weights: c_β of each coordinate."""

    blocks: Blocks
    inverse: Sparse
    weights: FloatArray


class CurvedResponse(BlockResponse):
    """With second derivatives of the means, by the third moments of every block.

    Along t the block's log-table moves by φ̇ = t·f + μ̇·s with μ̇ = V⁻¹ u̇ − Rᵀt, and a piece's by η̇ = V⁻¹ u̇, where
    Ω u̇ = Rᵀt. With third central moments T(·) = E[(· − mean)(φ̇ − mean)²], differentiating the fixed point twice gives

        Ω ü = Σ_a V_a⁻¹ T(s_a) + Σ_β c_β V_β⁻¹ T(s_β),    d²E[f] = T(f) − R_own T(s) + R ü.
    """

    def __init__(
        self,
        design: Design,
        matrices: tuple[Sparse, Sparse, Sparse],
        blocks: Blocks,
        own: Sparse,
        inverse: Sparse,
        pieces: Pieces,
    ) -> None:
        """matrices: private, slopes and Ω. own: R by block, (F, n_local). inverse: blockdiag(V_a⁻¹)."""
        super().__init__(design, *matrices)
        self._blocks, self._own, self._inverse, self._pieces = blocks, own, inverse, pieces

    def second_derivatives(self, directions: FloatArray) -> FloatArray:
        step = max(1, _NUMBERS // max(len(self._blocks.beliefs), 1))
        slabs = [directions[:, k : k + step] for k in range(0, directions.shape[1], step)]
        return (
            np.concatenate([self._second_derivatives(slab) for slab in slabs], axis=1)
            if slabs
            else np.zeros_like(directions)
        )

    def _second_derivatives(self, directions: FloatArray) -> FloatArray:
        a, p = self._blocks, self._pieces.blocks
        moved = self.factor.solve(self.slopes.T @ directions)  # u̇
        messages = self._inverse @ (a.embed @ moved) - self._own.T @ directions
        weighted = _third_weights(a, a.features.T @ directions + a.members @ messages)
        third = a.members.T @ weighted
        of_pieces = p.members.T @ _third_weights(p, p.members @ (self._pieces.inverse @ (p.embed @ moved)))
        of_pieces = self._pieces.weights[:, None] * (self._pieces.inverse @ of_pieces)
        turned = self.factor.solve(a.embed.T @ (self._inverse @ third) + p.embed.T @ of_pieces)  # ü
        result: FloatArray = a.features @ weighted - self._own @ third + self.slopes @ turned
        return result


def _third_weights(blocks: Blocks, along: FloatArray) -> FloatArray:
    """b (φ² − E φ²) with φ centred in its block, so that Σ_x g(x) of it is E[(g − mean) φ²]."""
    b = blocks.beliefs[:, None]
    centred = along - blocks.owner @ (blocks.owner.T @ (b * along))
    square = centred**2
    result: FloatArray = b * (square - blocks.owner @ (blocks.owner.T @ (b * square)))
    return result


def moments(blocks: Blocks) -> Moments:
    weighted = blocks.features @ sparse.diags_array(blocks.beliefs)
    means = weighted @ blocks.owner  # (F, blocks): E[f] by block
    member_weighted = sparse.diags_array(blocks.beliefs) @ blocks.members
    member_means = blocks.owner.T @ member_weighted  # (blocks, n_local)
    return Moments(
        weighted @ blocks.features.T - means @ means.T,
        weighted @ blocks.members - means @ member_means,
        blocks.members.T @ member_weighted - member_means.T @ member_means,
    )


def assemble(
    design: Design,
    blocks: Blocks,
    m: Moments,
    inverse: Sparse,
    shared: Sparse,
    slopes: Sparse | None = None,
    basis: Sparse | None = None,
    pieces: Pieces | None = None,
) -> BlockResponse:
    """inverse: blockdiag(V_a⁻¹). shared: what Ω has beside it; slopes: what R has beside the blocks'.

    pieces: for second derivatives. basis: columns that span the changes of the shared indicators' means which can
    occur; by default all can.
    """
    own = m.cross @ inverse  # R by block
    reach = own @ blocks.embed if slopes is None else own @ blocks.embed + slopes
    omega = blocks.embed.T @ inverse @ blocks.embed + shared
    if basis is not None:
        reach, omega = reach @ basis, basis.T @ omega @ basis
    matrices = (m.features - own @ m.cross.T).tocsr(), reach.tocsr(), omega.tocsc()
    if pieces is None or basis is not None:
        return BlockResponse(design, *matrices)
    return CurvedResponse(design, matrices, blocks, own, inverse, pieces)


def bethe_response(graph: Graph, design: Design, beliefs: FloatArray) -> LinearResponse:
    """Factors as blocks, and −Σ_i (d_i − 1) V_i⁻¹ shared; the variables' own tables add to the slopes."""
    g = graph.arrays
    n_node = int(g.node_ptr[-1])
    q, b = beliefs[:n_node], beliefs[n_node:]
    s = indicators(g, q)
    blocks = Blocks(design.transpose[:, n_node:], b, s.factor_tables, s.members, s.local_ptr, s.embed)
    m = moments(blocks)
    inverse = block_inverses(s.local_ptr, m.members)
    slopes, shared = design.transpose[:, :n_node] @ s.nodes, _variables_share(g, s, q)
    return assemble(design, blocks, m, inverse, shared, slopes, pieces=_variables(g, s, q))


def _variables(g: GraphArrays, s: Indicators, q: FloatArray) -> Pieces:
    """The variables as pieces, counted 1 − d_i times."""
    on = s.nodes.copy()
    on.data = np.where(on.data > 0.0, 1.0, 0.0)
    free = np.bincount(np.repeat(np.arange(len(g.cardinality)), g.cardinality), weights=on.sum(axis=1))
    ptr = np.concatenate([[0], np.cumsum(free)]).astype(np.int64)
    none, size = sparse.csr_array((0, len(q))), on.shape[1]
    blocks = Blocks(none, q, s.node_tables, on.tocsr(), ptr, sparse.eye_array(size, format="csr"))
    weights = np.repeat(1.0 - np.diff(g.slot_ptr), free.astype(np.int64))
    return Pieces(blocks, block_inverses(ptr, moments(blocks).members), weights)


def block_inverses(local_ptr: IntArray, covariance: Sparse) -> Sparse:
    """blockdiag(V_a⁻¹), (n_local, n_local), from blockdiag(V_a); all blocks of one size at once."""
    blocks = covariance.tocoo()
    size = np.diff(local_ptr)
    factor = np.repeat(np.arange(len(size)), size)
    of = factor[blocks.row]
    start = np.concatenate([[0], np.cumsum(size**2)])
    flat = np.zeros(int(start[-1]))
    flat[start[of] + (blocks.row - local_ptr[of]) * size[of] + blocks.col - local_ptr[of]] = blocks.data
    for d in np.unique(size[size > 0]):
        where = start[:-1][size == d, None] + np.arange(d * d)
        flat[where] = _inverses(flat[where].reshape(-1, d, d)).reshape(-1, d * d)
    owner = np.repeat(np.arange(len(size)), size**2)
    within = np.arange(len(flat)) - start[owner]
    rows, columns = local_ptr[owner] + within // size[owner], local_ptr[owner] + within % size[owner]
    return sparse.csr_array((flat, (rows, columns)), shape=(len(factor), len(factor)))


def largest_part(matrix: Sparse) -> int:
    """Rows in the largest connected part of a symmetric matrix."""
    _, part = sparse.csgraph.connected_components(matrix, directed=False)
    return int(np.bincount(part, minlength=1).max())


def parts_inverse(matrix: Sparse) -> Sparse:
    """The inverse of a positive definite matrix whose connected parts are small: as sparse as they are."""
    count, part = sparse.csgraph.connected_components(matrix, directed=False)
    sizes = np.bincount(part, minlength=count)
    order = np.argsort(part, kind="stable")
    back = np.argsort(order)
    sorted_rows = matrix.tocsr()[order][:, order]
    inverse = block_inverses(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), sorted_rows)
    return inverse[back][:, back]


def _inverses(blocks: FloatArray) -> FloatArray:
    """Inverses of covariance matrices, scaled to correlations first; refuses singular ones."""
    variances = np.einsum("kii->ki", blocks)
    if not (variances > 0.0).all():
        raise SingularFactor
    scale = 1.0 / np.sqrt(variances)
    correlation = blocks * scale[:, :, None] * scale[:, None, :]
    try:
        pivots = np.einsum("kii->ki", np.linalg.cholesky(correlation)) ** 2
    except np.linalg.LinAlgError:
        raise SingularFactor from None
    if pivots.min() < _SINGULAR:
        raise SingularFactor
    result: FloatArray = np.linalg.inv(correlation) * scale[:, :, None] * scale[:, None, :]
    return result


def _variables_share(g: GraphArrays, s: Indicators, q: FloatArray) -> Sparse:
    """−Σ_i (d_i − 1) V_i⁻¹. V_i⁻¹ has a closed form: 1/q on the diagonal, and 1/q of the reference state everywhere."""
    weights = np.zeros_like(q)
    np.divide(1.0, q, out=weights, where=q > 0.0)
    surplus = np.repeat(np.diff(g.slot_ptr) - 1.0, g.cardinality)
    return -(s.nodes.T @ sparse.diags_array(weights * surplus) @ s.nodes)
