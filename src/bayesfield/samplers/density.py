"""An objective as the arrays that compiled samplers need."""

from dataclasses import replace

import numpy as np

from bayesfield.inference.contract import Engine
from bayesfield.inference.messages.belief_propagation import Bethe
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.kernels.likelihood.density import Packed, Target
from bayesfield.kernels.messages.pairs import PairArrays, pair_arrays
from bayesfield.kernels.trees.passes import TreeArrays
from bayesfield.learning.objective import FieldObjective, Objective
from bayesfield.learning.phases.hidden import HiddenObjective
from bayesfield.types import FloatArray, GraphArrays, IntArray, InvalidInput


def with_engine(objective: Objective, engine: Engine) -> Objective:
    """A field's objective with this engine; chains of labels have an exact one of their own."""
    return replace(objective, engine=engine) if isinstance(objective, FieldObjective) else objective


def of_field(objective: Objective) -> FieldObjective:
    """For samplers that move the field's own states."""
    if not isinstance(objective, FieldObjective):
        raise InvalidInput(
            "this sampler needs a random field; for chains of labels take bf.NUTS(), bf.Metropolis() or bf.Langevin()"
        )
    return objective


def fast_target(objective: Objective, engine: Engine) -> Target | None:
    """The posterior for compiled samplers: with Exact(), and with Bethe() as it comes on binary pairwise fields."""
    if not isinstance(objective, FieldObjective) or isinstance(objective, HiddenObjective):
        return None
    graph, design = objective.field.graph, objective.field.design
    exact = isinstance(engine, Exact)
    if not exact and not (engine == Bethe() and graph.binary_pairs and np.isfinite(design.offset).all()):
        return None
    full = objective.precision.ndim == 2
    size = len(objective.statistic)
    return Target(
        exact=exact,
        tree=engine.junction_tree(graph) if isinstance(engine, Exact) else _no_tree(),
        graph=graph.arrays if not exact else _no_graph(),
        pairs=graph.plan("pairs", pair_arrays) if not exact else _no_pairs(),
        row_ptr=design.matrix.indptr.astype(np.int64),
        column=design.matrix.indices.astype(np.int64),
        value=design.matrix.data,
        offset=design.offset,
        statistic=objective.statistic,
        weight=objective.weight,
        location=objective.location,
        diagonal=np.zeros(size) if full else objective.precision,
        matrix=objective.precision if full else np.empty((0, 0)),
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
