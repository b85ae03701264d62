"""One distribution, two fields: the linear map from the parameters of one field to those of another.

Two fields over the same variables may differ in the scores of their states ({0, 1} or {−1, +1}), or in the features
that they give to a factor. Every feature of the first, as a table over its factor's states, is a sum of features of the
second in that scope or inside it, and a constant: f_k(x) = Σ_q T_qk f'_q(x) + c_k. Then λᵀf(x) = (Tλ)ᵀf'(x) + const.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from bayesfield import memory
from bayesfield.model.field import FactorBlock, RandomField, block_shape
from bayesfield.types import Cost, FloatArray, IntArray, InvalidInput

_EXACT = 1e-9  # largest rest of a table, relative to the table, that is rounding
_NOTHING = 1e-12  # a share of a table, relative to the table, that is zero

Scope = tuple[int, ...]


def recoding(old: RandomField, new: RandomField) -> FloatArray:
    """T, (F', F): at parameters Tλ ``new`` has the distribution that ``old`` has at λ, for every λ.

    Variables and states go by position: the k-th state of a variable is the same in both, whatever its label. A
    Gaussian N(m, S) of λ is N(Tm, TSTᵀ) of Tλ, and draws (…, F) go over as ``draws @ T.T``.
    """
    _require_alike(old, new)
    size = old.n_parameters * _slots(new)[-1]
    memory.require(Cost(size, 8 * size, f"{size:,} numbers"), "a recoding", "Recode a smaller field.")
    found = _shares(old, new)
    owner = np.concatenate([np.empty(0, dtype=np.int64), *(b.parameters.ravel() for b in new.blocks)])
    result = np.zeros((new.n_parameters, old.n_parameters))
    result[owner] = found
    apart = np.abs(found - result[owner]).max(axis=1, initial=0.0) > _EXACT * np.abs(found).max(initial=0.0)
    if apart.any():
        name = new.parameter_names[owner[np.argmax(apart)]]
        raise InvalidInput(
            f"the new field ties {name!r} over factors that need different values of it; recode to a field without ties"
        )
    return result


class _Part(NamedTuple):
    """Factors of the new field inside a factor of the old: the block, and which axes of the old scope it has."""

    block: int
    axes: tuple[int, ...]


def _shares(old: RandomField, new: RandomField) -> FloatArray:
    """(slots, F): how much of each old parameter goes to each slot, a feature of one factor of the new field."""
    slots, where = _slots(new), _factors_by_scope(new)
    result = np.zeros((slots[-1], old.n_parameters))
    for block in old.blocks:
        solved: dict[tuple[_Part, ...], FloatArray] = {}
        for scope, parameters in zip(block.scopes, block.parameters, strict=True):
            parts, rows = _inside(tuple(scope.tolist()), where, new, slots)
            if parts not in solved:
                solved[parts] = _solve(block, parts, new, [old.parameter_names[p] for p in parameters])
            np.add.at(result, (rows[:, None], parameters[None, :]), solved[parts])
    return result


def _slots(field: RandomField) -> IntArray:
    """Number of the first slot of each block, and of all slots."""
    return np.cumsum([0, *(block.parameters.size for block in field.blocks)])


def _factors_by_scope(field: RandomField) -> dict[Scope, list[tuple[int, int]]]:
    """Block and row of every factor."""
    found: dict[Scope, list[tuple[int, int]]] = {}
    for b, block in enumerate(field.blocks):
        for row, scope in enumerate(block.scopes.tolist()):
            found.setdefault(tuple(scope), []).append((b, row))
    return found


def _inside(
    scope: Scope, where: dict[Scope, list[tuple[int, int]]], new: RandomField, slots: IntArray
) -> tuple[tuple[_Part, ...], IntArray]:
    """The factors of the new field within a scope, and the slots of their features."""
    parts, rows = [], [np.empty(0, dtype=np.int64)]
    for d in range(1, len(scope) + 1):
        for axes in combinations(range(len(scope)), d):
            for b, row in where.get(tuple(scope[a] for a in axes), []):
                k = len(new.blocks[b].features)
                parts.append(_Part(b, axes))
                rows.append(slots[b] + row * k + np.arange(k, dtype=np.int64))
    return tuple(parts), np.concatenate(rows)


def _solve(block: FactorBlock, parts: tuple[_Part, ...], new: RandomField, names: list[str]) -> FloatArray:
    """(slots, k): the old block's tables as sums of the new ones. A constant goes to log Z."""
    shape = block_shape(block)
    columns = [np.ones((1, *shape))]
    for part in parts:
        wide = [size if a in part.axes else 1 for a, size in enumerate(shape)]
        tables = new.blocks[part.block].features
        columns.append(np.broadcast_to(tables.reshape(len(tables), *wide), (len(tables), *shape)))
    basis = np.concatenate(columns).reshape(-1, int(np.prod(shape))).T
    wanted = block.features.reshape(len(block.features), -1).T
    found: FloatArray = np.linalg.lstsq(basis, wanted, rcond=None)[0].astype(np.float64)
    size = np.linalg.norm(wanted, axis=0)
    rest = np.linalg.norm(basis @ found - wanted, axis=0) > _EXACT * size
    if rest.any():
        name = names[int(np.argmax(rest))]
        raise InvalidInput(
            f"the new field has no features that make up for {name!r}; it needs a factor for the same variables, whose "
            "features are the old ones in other scores or contain them"
        )
    found[np.linalg.norm(basis, axis=0)[:, None] * np.abs(found) <= _NOTHING * size] = 0.0
    return found[1:]


def _require_alike(old: RandomField, new: RandomField) -> None:
    if old.cardinalities.tolist() != new.cardinalities.tolist():
        raise InvalidInput(
            "recoding needs two fields of the same variables with as many states each; the old one has "
            f"{_sizes(old)}, the new one {_sizes(new)}"
        )
    if any(block.log_table is not None for field in (old, new) for block in field.blocks):
        raise InvalidInput("recoding is for fields without fixed terms (log_table): these have no parameters to recode")


def _sizes(field: RandomField) -> str:
    sizes = field.cardinalities.tolist()
    return f"{len(sizes)} variables with {sizes if len(sizes) <= 8 else [*sizes[:8], '…']} states"
