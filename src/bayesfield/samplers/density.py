"""An objective as the arrays that compiled samplers need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayesfield.inference.messages.belief_propagation import Bethe
from bayesfield.kernels.likelihood.density import Packed, Target
from bayesfield.kernels.messages.pairs import PairArrays, pair_arrays
from bayesfield.kernels.trees.passes import TreeArrays
from bayesfield.types import FloatArray, GraphArrays, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.inference.contract import Engine
    from bayesfield.learning.objective import Objective


def require_graph(objective: Objective) -> None:
    """For samplers that move a field's own states."""
    if not objective.free.samples:
        raise InvalidInput(
            "this sampler needs a random field; for chains of labels take bf.NUTS(), bf.Metropolis() or bf.Langevin()"
        )


def fast_target(objective: Objective, engine: Engine) -> Target | None:
    """The posterior for compiled samplers: with Exact(), and with Bethe() as it comes on binary pairwise fields."""
    if not objective.free.samples or len(objective.phases) > 1:
        return None
    graph, design = objective.free.graph, objective.free.design
    exact = engine.traits.batched
    if not exact and not (engine == Bethe() and graph.binary_pairs and np.isfinite(design.offset).all()):
        return None
    prior, size = objective.prior, objective.size
    return Target(
        exact=exact,
        tree=engine.junction_tree(graph) if exact else _no_tree(),  # type: ignore[attr-defined]
        graph=graph.arrays if not exact else _no_graph(),
        pairs=graph.plan("pairs", pair_arrays) if not exact else _no_pairs(),
        row_ptr=design.matrix.indptr.astype(np.int64),
        column=design.matrix.indices.astype(np.int64),
        value=design.matrix.data,
        offset=design.offset,
        statistic=objective.statistic / max(objective.weight, 1.0),
        weight=objective.weight,
        location=prior.location,
        diagonal=prior.precision if prior.independent else np.zeros(size),
        matrix=np.empty((0, 0)) if prior.independent else prior.matrix(),
    )


def pack(target: Target, centre: FloatArray, factor: FloatArray) -> Packed:
    """A target with exact log Z, and the coordinates λ = centre + factor·z."""
    tree = [a for name, a in target.tree._asdict().items() if name != "buffer_size"]
    whole = [*tree, target.row_ptr, target.column]
    real = [target.value, target.offset, target.statistic, target.location, target.diagonal, target.matrix.ravel()]
    real += [centre, factor.ravel()]
    room = 2 * len(target.offset) + int(target.tree.table_ptr[-1]) + target.tree.buffer_size
    return Packed(
        np.concatenate(whole), _starts(whole), np.concatenate(real), _starts(real), np.empty(room),
        target.tree.buffer_size, target.weight,
    )  # fmt: skip


def _starts(arrays: list[np.ndarray]) -> IntArray:
    return np.cumsum([0] + [len(a) for a in arrays])


def _no_tree() -> TreeArrays:
    empty = np.zeros(1, dtype=np.int64)
    return TreeArrays(**{name: 0 if name == "buffer_size" else empty for name in TreeArrays._fields})  # type: ignore[arg-type]


def _no_graph() -> GraphArrays:
    return GraphArrays(*(np.zeros(0 if name in _EMPTY else 1, dtype=np.int64) for name in GraphArrays._fields))


def _no_pairs() -> PairArrays:
    return PairArrays(np.empty(0, dtype=np.int32), np.zeros(1, dtype=np.int64))


_EMPTY = ("cardinality", "scope", "stride", "slot_factor", "slots")
