"""A conditional field that has grown: new labels, new inputs, new weights; and where the old weights stand in it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from bayesfield.model.conditional import CRF, Seen, Sequences, seen_weights
from bayesfield.types import IntArray, InvalidInput


def grown(crf: CRF, labels: Sequence[Hashable], inputs: Sequence[str]) -> CRF:
    """The same model with these labels and inputs, the old ones among them; all of its weights."""
    if tuple(labels) == crf.visible and tuple(inputs) == crf.inputs:
        return whole(crf)
    if not crf.plain_nodes or not (crf.plain_edges or crf.symmetric):
        raise InvalidInput(
            "a CRF with node_tables or edge_tables keeps its labels and inputs: they have no place there"
        )
    latent = len(crf.labels) // max(len(crf.visible), 1)
    edges = None if crf.constant_edges else crf.edge_inputs
    return CRF(labels, inputs, edges, symmetric=crf.symmetric, latent=latent)


def whole(crf: CRF) -> CRF:
    """The same model with all of its weights."""
    return crf if crf.seen is None else CRF(crf.visible, crf.inputs)


def with_weights_of(crf: CRF, old: CRF, data: Sequences, min_frequency: float = 1) -> CRF:
    """The model with the old one's weights, and those that new sequences show, so often at least."""
    also = seen_weights(crf, data, min_frequency)
    if old.seen is not None:
        here = np.union1d(crf.with_seen(also).places, full_places(old, crf))
        also = _seen_at(here, len(crf.inputs), len(crf.labels))
    return crf.with_seen(also)


def places_in(new: CRF, old: CRF) -> IntArray:
    """The number of every old weight among those of the grown model, (F,)."""
    there = full_places(old, new)
    if new.seen is None:
        return there
    order = np.argsort(new.places)
    found = order[np.minimum(np.searchsorted(new.places[order], there), new.n_parameters - 1)]
    if not np.array_equal(new.places[found], there):
        raise InvalidInput("the new model lacks weights of the old one: take bf.CRF(…) with all of these and more")
    return found


def full_places(old: CRF, new: CRF) -> IntArray:
    """The same among those of the new model with all weights."""
    node, edge = _numbers(old, new)
    D, G, H = len(new.inputs), new.n_node_tables, new.n_edge_tables
    inputs = input_places(new, old)
    edges = _among(new.edge_inputs, old.edge_inputs, "edge input")
    state = inputs[:, None] * G + node
    transition = D * G + edges[:, None] * H + edge
    result: IntArray = np.concatenate([state.ravel(), transition.ravel()])
    return result if old.seen is None else result[old.places]


def input_places(new: CRF, old: CRF) -> IntArray:
    """The number of every old input in the new model."""
    return _among(new.inputs, old.inputs, "input")


def _numbers(old: CRF, new: CRF) -> tuple[IntArray, IntArray]:
    """The number of every old table of labels, and of pairs of labels, in the new model."""
    same = all(getattr(old, name) == getattr(new, name) for name in ("plain_nodes", "plain_edges", "symmetric"))
    if not same or old.constant_edges != new.constant_edges:
        raise InvalidInput("the new model is of another kind than the old one: give one that differs in names alone")
    labels = _among(new.labels, old.labels, "label")
    K = len(new.labels)
    node = labels if new.plain_nodes else _same_tables(old.node_tables, new.node_tables)
    if not (new.plain_edges or new.symmetric):
        return node, _same_tables(old.edge_tables, new.edge_tables)
    size = len(old.labels)
    first, second = np.triu_indices(size) if old.symmetric else np.indices((size, size)).reshape(2, -1)
    i, j = labels[first], labels[second]
    if not new.symmetric:
        return node, i * K + j
    low, high = np.minimum(i, j), np.maximum(i, j)
    return node, low * K - low * (low - 1) // 2 + high - low


def _same_tables(old: Any, new: Any) -> IntArray:
    if old.shape != new.shape or not np.array_equal(old, new):
        raise InvalidInput("the new model has other tables than the old one")
    return np.arange(len(old))


def _among(names: Sequence[Hashable], some: Sequence[Hashable], what: str) -> IntArray:
    if tuple(names) == tuple(some):
        return np.arange(len(some))
    number = {name: k for k, name in enumerate(names)}
    lost = [name for name in some if name not in number]
    if lost:
        raise InvalidInput(f"a model grows: the new one has no {what} {lost[0]!r}, which the old one has")
    return np.array([number[name] for name in some], dtype=np.int64)


def _seen_at(places: IntArray, D: int, K: int) -> Seen:
    """The weights at these places of the model with all, in order."""
    state, pair = places[places < D * K], places[places >= D * K] - D * K
    ptr = np.concatenate([[0], np.cumsum(np.bincount(state // K, minlength=D))]).astype(np.int64)
    return Seen(ptr, state % K, pair)
