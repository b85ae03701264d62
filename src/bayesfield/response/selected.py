"""Entries of S⁻¹ that marginal variances need, from a sparse factor of S and without solving for columns."""

from typing import Any

import numpy as np
from scipy import sparse

from bayesfield.kernels import selected
from bayesfield.types import FloatArray

_TRIED = 8  # rows that are solved for
_SAME = 1e-8


def inverse_forms(lu: Any, rows: "sparse.csr_array[Any, tuple[int, int]]") -> FloatArray | None:
    """w S⁻¹ wᵀ for every row w, whose entries meet where S has entries. lu: SuperLU's factor of a symmetric S.

    None where the factor is not symmetric, or where a few rows that are solved for do not agree: SuperLU leaves out
    entries that are zero, which are those that underflow, unless S has zeros of a kind that cancel.
    """
    if not np.array_equal(lu.perm_r, lu.perm_c):
        return None
    lower = sparse.tril(lu.L, k=-1, format="csc")
    lower.sort_indices()
    off, diagonal = np.zeros(lower.nnz), np.zeros(lower.shape[0])
    selected.selected_inverse(lower.indptr, lower.indices, lower.data, lu.U.diagonal(), off, diagonal)
    out = np.empty(rows.shape[0])
    selected.quadratic_forms(
        lower.indptr, lower.indices, off, diagonal, lu.perm_c, rows.indptr, rows.indices, rows.data, out
    )
    k = np.unique(np.linspace(0, max(len(out) - 1, 0), _TRIED).astype(np.int64))[: len(out)]
    some = rows[k].toarray()
    solved = np.einsum("kn,nk->k", some, lu.solve(np.ascontiguousarray(some.T)))
    return out if np.allclose(out[k], solved, rtol=_SAME, atol=0.0) else None
