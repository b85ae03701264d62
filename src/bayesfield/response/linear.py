"""Linear response on the Bethe approximation by one sparse system over the variables; equation (10) in general.

With s_a the indicators of factor a's members, V_a = Cov_{b_a}(s_a), V_i = Cov_{b_i}(s_i), f_a the features on a,
R_a = Cov_{b_a}(f_a, s_a) V_a⁻¹ and B_a = Cov_{b_a}(f_a) − R_a V_a R_aᵀ:

    Ω = Σ_a embed(V_a⁻¹) − Σ_i (d_i − 1) V_i⁻¹        as sparse as the model's own graph
    C = blockdiag(B) + R Ω⁻¹ Rᵀ
"""

from collections.abc import Callable

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import splu

from bayesfield.graph import Design, Graph
from bayesfield.response.base import Response
from bayesfield.response.indicators import Indicators, Sparse, indicators
from bayesfield.types import FloatArray, GraphArrays, IndefiniteCurvature, Outcome

_DENSE = 1200  # coordinates up to which a dense Cholesky factor is faster than a sparse one
_SINGULAR = 1e-11  # smallest pivot of a factor's correlation matrix that is trusted


class SingularFactor(ArithmeticError):  # noqa: N818
    """A factor's table ties its members' states to one another, so that V_a has no inverse."""


class LinearResponse(Response):
    """Covariance of the features at beliefs that are a fixed point of belief propagation."""

    def __init__(self, graph: Graph, design: Design, beliefs: FloatArray) -> None:
        super().__init__(design)
        n_node = int(graph.arrays.node_ptr[-1])
        q, b = beliefs[:n_node], beliefs[n_node:]
        s = indicators(graph.arrays, q)
        on_nodes, on_factors = design.transpose[:, :n_node], design.transpose[:, n_node:]
        weighted = on_factors @ sparse.diags_array(b)
        means = weighted @ s.factor_tables  # (F, m): E[f] by factor
        member_weighted = sparse.diags_array(b) @ s.members
        member_means = s.factor_tables.T @ member_weighted  # (m, n_local)
        cross = weighted @ s.members - means @ member_means  # Cov_{b_a}(f_a, s_a), (F, n_local)
        inverse = _factor_inverses(s, s.members.T @ member_weighted - member_means.T @ member_means)
        slopes = cross @ inverse  # R by factor
        self._private = (weighted @ on_factors.T - means @ means.T - slopes @ cross.T).tocsr()  # blockdiag(B)
        self._slopes = (slopes @ s.embed + on_nodes @ s.nodes).tocsr()  # R, (F, n_states)
        self._solve_omega = _factorise(_omega(graph.arrays, s, q, inverse))

    def product(self, vectors: FloatArray) -> FloatArray:
        result: FloatArray = self._private @ vectors + self._slopes @ self._solve_omega(self._slopes.T @ vectors)
        return result


def _factor_inverses(s: Indicators, covariance: Sparse) -> Sparse:
    """blockdiag(V_a⁻¹), (n_local, n_local), from blockdiag(V_a); all factors of one size at once."""
    blocks = covariance.tocoo()
    size = np.diff(s.local_ptr)
    factor = np.repeat(np.arange(len(size)), size)
    of = factor[blocks.row]
    start = np.concatenate([[0], np.cumsum(size**2)])
    flat = np.zeros(int(start[-1]))
    flat[start[of] + (blocks.row - s.local_ptr[of]) * size[of] + blocks.col - s.local_ptr[of]] = blocks.data
    for d in np.unique(size[size > 0]):
        where = start[:-1][size == d, None] + np.arange(d * d)
        flat[where] = _inverses(flat[where].reshape(-1, d, d)).reshape(-1, d * d)
    owner = np.repeat(np.arange(len(size)), size**2)
    within = np.arange(len(flat)) - start[owner]
    rows, columns = s.local_ptr[owner] + within // size[owner], s.local_ptr[owner] + within % size[owner]
    return sparse.csr_array((flat, (rows, columns)), shape=(len(factor), len(factor)))


def _inverses(blocks: FloatArray) -> FloatArray:
    """Inverses of covariance matrices, scaled to correlations first; refuses singular ones."""
    scale = 1.0 / np.sqrt(np.einsum("kii->ki", blocks))
    correlation = blocks * scale[:, :, None] * scale[:, None, :]
    try:
        pivots = np.einsum("kii->ki", np.linalg.cholesky(correlation)) ** 2
    except np.linalg.LinAlgError:
        raise SingularFactor from None
    if pivots.min() < _SINGULAR:
        raise SingularFactor
    result: FloatArray = np.linalg.inv(correlation) * scale[:, :, None] * scale[:, None, :]
    return result


def _omega(g: GraphArrays, s: Indicators, q: FloatArray, inverse: Sparse) -> Sparse:
    """Ω. V_i⁻¹ has a closed form: 1/q on the diagonal, and 1/q of the reference state everywhere."""
    weights = np.zeros_like(q)
    np.divide(1.0, q, out=weights, where=q > 0.0)
    surplus = np.repeat(np.diff(g.slot_ptr) - 1.0, g.cardinality)
    nodes = s.nodes.T @ sparse.diags_array(weights * surplus) @ s.nodes
    return (s.embed.T @ inverse @ s.embed - nodes).tocsc()


def _factorise(omega: Sparse) -> Callable[[FloatArray], FloatArray]:
    """A function that solves with Ω; refuses an Ω that is not positive definite."""
    if omega.shape[0] == 0:
        return lambda right: np.zeros_like(right)
    if omega.shape[0] <= _DENSE:
        try:
            factor = linalg.cho_factor(omega.toarray())
        except (linalg.LinAlgError, ValueError):
            raise IndefiniteCurvature(Outcome.INDEFINITE.value) from None
        return lambda right: linalg.cho_solve(factor, right)
    symmetric = {"SymmetricMode": True}
    factors = splu(omega, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=symmetric)
    if not (factors.U.diagonal() > 0.0).all():
        raise IndefiniteCurvature(Outcome.INDEFINITE.value)
    solve: Callable[[FloatArray], FloatArray] = factors.solve
    return solve
