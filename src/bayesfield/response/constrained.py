"""Linear response where combinations of states have probability zero: covariances of blocks that have no inverse.

A null vector n of a block's V says that nᵀs is constant under its beliefs, so that no change of the means may move
along it: nᵀδμ = 0. On what is left, δμ = Zy with Z a basis of the complement of all null vectors, every generalised
inverse of V gives the same quadratic form, and K becomes ZᵀKZ.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg, sparse

from bayesfield.types import FloatArray, IndefiniteCurvature, IntArray

if TYPE_CHECKING:
    from bayesfield.response.indicators import Sparse

_CONSTANT = 1e-13  # variance below which an indicator counts as constant
_SINGULAR = 1e-9  # eigenvalue of a correlation matrix below which its vector counts as null
_MOST = 3000  # coordinates for which a dense basis is made


def generalised_inverses(local_ptr: IntArray, covariance: Sparse) -> tuple[Sparse, Sparse]:
    """blockdiag(V⁻), (n_local, n_local), and the null vectors of the blocks as columns, (n_local, k)."""
    inverses, nulls = [], []
    dense_rows = covariance.tocsr()
    for start, stop in itertools.pairwise(local_ptr):
        inverse, null = _split(dense_rows[start:stop, start:stop].toarray())
        inverses.append(inverse)
        nulls.append(null)
    return sparse.block_diag(inverses, format="csr"), sparse.block_diag(nulls, format="csr")


def _split(V: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A generalised inverse of one covariance, and its null vectors."""
    scale = np.sqrt(np.maximum(np.diag(V), 0.0))
    moving = scale**2 > _CONSTANT
    unit = np.where(moving, 1.0 / np.where(moving, scale, 1.0), 0.0)
    values, vectors = np.linalg.eigh(V * unit[:, None] * unit)
    good = values > _SINGULAR
    inverse = (vectors[:, good] / values[good]) @ vectors[:, good].T * unit[:, None] * unit
    rest = unit[:, None] * vectors[:, ~good]
    still = np.eye(len(V))[:, ~moving]
    null = np.concatenate([rest[:, np.abs(rest).max(axis=0, initial=0.0) > 1e-9], still], axis=1)
    return inverse, null / np.maximum(np.linalg.norm(null, axis=0), 1e-300)


def free_basis(constraints: Sparse) -> Sparse:
    """Z: an orthonormal basis, (n_states, free), of what is orthogonal to the constraints' columns."""
    if constraints.shape[0] > _MOST:
        raise IndefiniteCurvature(
            f"combinations of states have probability zero, and linear response on regions takes them up to {_MOST:,} "
            f"coordinates; there are {constraints.shape[0]:,}. Use bf.Bethe() or bf.Exact() for the curvature"
        )
    return sparse.csr_array(linalg.null_space(constraints.T.toarray(), rcond=1e-9))
