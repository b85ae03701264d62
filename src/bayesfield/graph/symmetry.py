"""Which changes of the parameters leave all that is observed as it is: hidden variables and their states renamed.

Hidden variables of one kind may change places, and the states of each their names. Where that takes features to
features, f_k(g x) = s_k f_{σ(k)}(x) with signs s, the parameters λ'_{σ(k)} = s_k λ_k give the observed variables the
same probabilities; and where the prior is the same there, too, so is the posterior. All such (σ, s) are a group:
every mode has as many images as the group has members.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesfield.types import FloatArray, GraphArrays, IntArray

if TYPE_CHECKING:
    from bayesfield.graph.compiled import CompiledField

_MOST = 4096  # members of a group that are listed
_CELLS = 20_000_000  # of a design that is looked at
_ROWS = 4_000_000  # numbers of images that are held at a time


class Symmetries(NamedTuple):
    """order: (G, F) and sign: (G, F), so that λ[order] · sign are the images of λ; the first is λ itself."""

    order: IntArray
    sign: FloatArray

    def __len__(self) -> int:
        return len(self.order)

    def images(self, parameters: FloatArray) -> FloatArray:
        """(G, F) of one λ, or (S, G, F) of several, (S, F)."""
        return parameters[..., self.order] * self.sign

    def nearest(self, points: FloatArray, centre: FloatArray, scale: FloatArray) -> FloatArray:
        """Each of the points (…, F) as that image of itself which is nearest to a centre, in units of scale."""
        flat = points.reshape(-1, points.shape[-1])
        out = np.empty_like(flat)
        step = max(1, _ROWS // max(self.order.size, 1))
        for k in range(0, len(flat), step):
            images = self.images(flat[k : k + step])
            away = np.sum(((images - centre) / scale) ** 2, axis=2)
            out[k : k + step] = images[np.arange(len(images)), np.argmin(away, axis=1)]
        return out.reshape(points.shape)


def symmetries(
    field: CompiledField, hidden: Sequence[int], location: FloatArray, precision: FloatArray
) -> Symmetries | None:
    """Of renaming hidden variables and their states, under independent priors (F,); None where nothing but λ itself
    remains, or where the group is too large to be listed."""
    A = field.design.matrix
    if not len(hidden) or A.shape[0] * A.shape[1] > _CELLS:
        return None
    found = [_signed(field, entries, location, precision) for entries in _renamings(field.graph.arrays, hidden)]
    members = _generated([one for one in found if one is not None], A.shape[1])
    if members is None or len(members) == 1:
        return None
    order, sign = (np.array(part) for part in zip(*members, strict=True))
    return Symmetries(order, sign.astype(np.float64))


Member = tuple[tuple[int, ...], tuple[int, ...]]


def _generated(generators: list[Member], size: int) -> list[Member] | None:
    """All products of the generators; None where there are too many."""
    start: Member = (tuple(range(size)), (1,) * size)
    found, new = {start: None}, [start]
    moves = [(np.array(order), np.array(sign)) for order, sign in generators]
    while new:
        reached = []
        for order, sign in new:
            for o, s in moves:
                member = (tuple(np.array(order)[o].tolist()), tuple((np.array(sign)[o] * s).tolist()))
                if member not in found:
                    found[member] = None
                    reached.append(member)
        if len(found) > _MOST:
            return None
        new = reached
    return list(found)


def _signed(field: CompiledField, entries: IntArray, location: FloatArray, precision: FloatArray) -> Member | None:
    """The (σ, s) that a renaming of table entries is; None where it takes features, or the prior, to something else."""
    design = field.design
    if not np.array_equal(design.offset[entries], design.offset):
        return None
    before = np.ascontiguousarray(design.matrix.toarray().T)
    after = np.ascontiguousarray(before[:, entries])
    number = {row.tobytes(): (k, 1) for k, row in enumerate(before + 0.0)}
    number.update({row.tobytes(): (k, -1) for k, row in enumerate(0.0 - before) if row.tobytes() not in number})
    if len({k for k, _ in number.values()}) < len(before):
        return None  # features that are alike: which is which?
    order, sign = np.empty(len(before), dtype=np.int64), np.empty(len(before), dtype=np.int64)
    for k, row in enumerate(after + 0.0):
        to = number.get(row.tobytes())
        if to is None:
            return None
        order[k], sign[k] = to
    same = bool(np.allclose(location[order] * sign, location) and np.allclose(precision[order], precision))
    return (tuple(order.tolist()), tuple(sign.tolist())) if same and len(set(order.tolist())) == len(order) else None


def _renamings(g: GraphArrays, hidden: Sequence[int]) -> list[IntArray]:
    """(T,) each: the entry that takes an entry's place where two states of a hidden variable, or two such variables,
    change names; those that the graph does not allow are left out."""
    n, found = len(g.cardinality), []
    for place, i in enumerate(hidden):
        for state in range(int(g.cardinality[i]) - 1):
            states = np.arange(g.cardinality[i])
            states[[state, state + 1]] = states[[state + 1, state]]
            found.append(_entries(g, np.arange(n), {int(i): states}))
        for j in hidden[place + 1 :]:
            if g.cardinality[i] == g.cardinality[j]:
                names = np.arange(n)
                names[[i, j]] = names[[j, i]]
                found.append(_entries(g, names, {}))
    return [entries for entries in found if entries is not None]


def _entries(g: GraphArrays, names: IntArray, states: dict[int, IntArray]) -> IntArray | None:
    """Variables take the names given, and their states the order given."""
    n = len(g.cardinality)
    scopes = [tuple(g.scope[g.scope_ptr[a] : g.scope_ptr[a + 1]].tolist()) for a in range(len(g.table_ptr) - 1)]
    number = {scope: a for a, scope in enumerate(scopes)}
    out = np.empty(int(g.table_ptr[-1]), dtype=np.int64)
    tables: list[tuple[tuple[int, ...], int]] = [((i,), int(g.node_ptr[i])) for i in range(n)]
    tables += [(scope, int(g.table_ptr[a])) for a, scope in enumerate(scopes)]
    for scope, start in tables:
        named = [int(names[v]) for v in scope]
        to = tuple(sorted(named))
        if len(scope) > 1 and to not in number:
            return None
        first = int(g.node_ptr[to[0]]) if len(scope) == 1 else int(g.table_ptr[number[to]])
        shape = tuple(int(g.cardinality[v]) for v in to)
        table = first + np.arange(int(np.prod(shape))).reshape(shape)
        table = table.transpose([to.index(v) for v in named])
        for axis, v in enumerate(scope):
            if v in states:
                table = np.take(table, states[v], axis=axis)
        out[start : start + table.size] = table.ravel()
    return out
