"""Chains of labels given inputs: what a user states, and the sequences that it is fitted to.

θ_t(y) = Σ_d Σ_g x_td W_dg B_g(y),   θ_t(y, y') = Σ_e Σ_h z_te V_eh T_h(y, y'),   λ = (W, V)

Inputs x_t of every position and z_t of every pair of neighbours (by default the constant 1), times tables over labels:
by default an indicator of every label and of every pair, so that W is (inputs × labels) and V (labels × labels).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import sparse

from bayesfield import memory
from bayesfield.model.field import as_states
from bayesfield.tabular import as_table, has_names, in_order
from bayesfield.types import LARGEST, BoolArray, Cost, FloatArray, IntArray, InvalidInput

_FEW = 3  # labels of an input up to which each is added by itself
OTHERS, TRANSITIONS = "others", "transition"  # templates of inputs whose names tell none, and of transitions
_TEMPLATE = re.compile(r"((?:[+-]?\d+:)?+(?:\[[^]]*\]|[^=:[])+)[=:]")


class Seen(NamedTuple):
    """The weights that a model has, where it has not all of them: label (n,), the labels of each input, those of input
    d from ptr[d] to ptr[d+1]; pair (m,), the transitions, i K + j from label i to label j."""

    ptr: IntArray
    label: IntArray
    pair: IntArray


class CRF:
    """A conditional random field on chains: ``CRF(labels, inputs)``.

    labels: the states of every position. inputs: names of the inputs of a position, or how many there are.
    edge_inputs: the same for pairs of neighbours; by default one, always 1. node_tables: (G, K) numbers of every label
    that multiply the inputs; by default an indicator of each label. edge_tables: (H, K, K), by default an indicator of
    each pair. For two labels coded −1 and 1, ``node_tables=[[-1, 1]], edge_tables=[[[1, -1], [-1, 1]]]``.
    symmetric: one table for each pair of labels in either order, for edges without direction.

    latent: how many states stand behind each label, none of them observed: ``labels`` are then (label, number), each
    with weights of its own, ``visible`` the labels that were given, and ``owner`` the visible label of each state.

    seen: the weights that the model has, where not all (``seen_weights``); the others are zero.
    """

    def __init__(
        self,
        labels: int | Sequence[Hashable],
        inputs: int | Sequence[str],
        edge_inputs: int | Sequence[str] | None = None,
        node_tables: ArrayLike | None = None,
        edge_tables: ArrayLike | None = None,
        symmetric: bool = False,
        latent: int = 1,
        seen: Seen | None = None,
    ) -> None:
        if not isinstance(latent, int | np.integer) or latent < 1:
            raise InvalidInput(f"latent is the number of states behind each label, 1 or more; got {latent!r}")
        self.visible = as_states(labels, "the labels")
        self.owner = np.repeat(np.arange(len(self.visible)), latent)
        hidden = tuple((label, k) for label in self.visible for k in range(latent))
        self.labels = self.visible if latent == 1 else hidden
        K = len(self.labels)
        self.inputs = _names(inputs, "input")
        self.constant_edges = edge_inputs is None
        self.plain_nodes = node_tables is None  # tables are the identity
        self.plain_edges = edge_tables is None and not symmetric
        self.symmetric = bool(symmetric)
        self.edge_inputs = ("1",) if edge_inputs is None else _names(edge_inputs, "edge input")
        if symmetric and edge_tables is not None:
            raise InvalidInput("give edge_tables, or symmetric=True for the usual ones, but not both")
        self.n_node_tables, self.n_edge_tables = K, K * (K + 1) // 2 if symmetric else K * K
        if node_tables is not None:
            self.node_tables = _tables(node_tables, (K,), "node_tables")
            self.n_node_tables = len(self.node_tables)
        if edge_tables is not None:
            self.edge_tables = _tables(edge_tables, (K, K), "edge_tables")
            self.n_edge_tables = len(self.edge_tables)
        self.n_state = len(self.inputs) * self.n_node_tables  # parameters of W; those of V follow
        self.n_parameters = self.n_state + len(self.edge_inputs) * self.n_edge_tables
        self.seen = seen
        if seen is not None:
            self._check_seen(seen)
            self.n_state, self.n_parameters = len(seen.label), len(seen.label) + len(seen.pair)

    def _require_plain(self) -> None:
        if not (self.plain_nodes and self.plain_edges and self.constant_edges and self.labels == self.visible):
            raise InvalidInput("weights that were seen are for plain chains: without tables, edge inputs or latent")

    def _check_seen(self, seen: Seen) -> None:
        K = len(self.labels)
        if not (self.plain_nodes and self.plain_edges and self.constant_edges and len(self.visible) == K):
            raise InvalidInput("weights that were seen are for plain chains: without tables, edge inputs or latent")
        fits = len(seen.ptr) == len(self.inputs) + 1 and seen.ptr[0] == 0 and seen.ptr[-1] == len(seen.label)
        known = all(((part >= 0) & (part < most)).all() for part, most in ((seen.label, K), (seen.pair, K * K)))
        if not fits or (np.diff(seen.ptr) < 0).any() or not known:
            raise InvalidInput(f"the weights that were seen do not go with {len(self.inputs)} inputs and {K} labels")

    @cached_property
    def wide_rows(self) -> IntArray:
        """The number of each input with more than a few labels among its like, −1 for the others, (D,)."""
        assert self.seen is not None
        wide = np.diff(self.seen.ptr) > _FEW
        return np.where(wide, np.cumsum(wide) - 1, -1)

    @property
    def n_wide(self) -> int:
        """How many inputs have more than a few labels."""
        return int(self.wide_rows.max(initial=-1)) + 1

    def with_seen(self, seen: Seen) -> CRF:
        """The same model with these weights only."""
        self._require_plain()
        return CRF(self.visible, self.inputs, seen=seen)

    @cached_property
    def places(self) -> IntArray:
        """Where each parameter stands among those of the model with all weights, (F,)."""
        if self.seen is None:
            return np.arange(self.n_parameters)
        K = len(self.labels)
        owner = np.repeat(np.arange(len(self.inputs)), np.diff(self.seen.ptr))
        return np.concatenate([owner * K + self.seen.label, len(self.inputs) * K + self.seen.pair])

    @cached_property
    def node_tables(self) -> FloatArray:
        """(G, K)."""
        return np.eye(len(self.labels))

    @cached_property
    def edge_tables(self) -> FloatArray:
        """(H, K, K); of plain transitions an identity of K⁴ entries, which only small models need."""
        K, H = len(self.labels), self.n_edge_tables
        entries = float(H) * K * K
        memory.require(
            Cost(entries, 8 * entries, f"{H:,} tables of {K:,} × {K:,} labels"), "this", "Put labels together."
        )
        return _pair_tables(K, *self._pairs())

    @property
    def sparse_edge_tables(self) -> Any:
        """(H, K²), sparse: of plain transitions an identity."""
        if self.plain_edges:
            return sparse.eye_array(self.n_edge_tables, format="csr")
        return sparse.csr_array(self.edge_tables.reshape(self.n_edge_tables, -1))

    @cached_property
    def edge_labels(self) -> list[tuple[Hashable, Hashable]]:
        """The pairs of labels that the default tables stand for."""
        return [(self.labels[i], self.labels[j]) for i, j in zip(*self._pairs(), strict=True)]

    def _pairs(self) -> tuple[IntArray, IntArray]:
        K = len(self.labels)
        first, second = np.triu_indices(K) if self.symmetric else np.indices((K, K)).reshape(2, -1)
        return first, second

    @property
    def _node_names(self) -> list[str]:
        return [str(y) for y in self.labels] if self.plain_nodes else _numbered(self.node_tables)

    @cached_property
    def _edge_names(self) -> list[str]:
        if not (self.plain_edges or self.symmetric):
            return _numbered(self.edge_tables)
        return [f"{a}{'–' if self.symmetric else '→'}{b}" for a, b in self.edge_labels]

    @property
    def parameter_names(self) -> list[str]:
        of_nodes = self._node_names
        if self.seen is not None:
            owner = np.repeat(np.arange(len(self.inputs)), np.diff(self.seen.ptr)).tolist()
            own = [f"{self.inputs[d]}:{of_nodes[k]}" for d, k in zip(owner, self.seen.label.tolist(), strict=True)]
            return own + [self._edge_names[h] for h in self.seen.pair.tolist()]
        node = [f"{d}:{g}" if g else d for d in self.inputs for g in of_nodes]
        prefix = [""] if self.constant_edges else [f"{e}:" if self._edge_names[0] else e for e in self.edge_inputs]
        return node + [f"{e}{h}" if e or h else "transition" for e in prefix for h in self._edge_names]

    @property
    def groups(self) -> list[str]:
        return ["state"] * self.n_state + ["transition"] * (self.n_parameters - self.n_state)

    @property
    def input_of(self) -> list[str]:
        """The input that every parameter belongs to; those of edges by a name of their own."""
        if self.seen is not None:
            each = [
                name for name, n in zip(self.inputs, np.diff(self.seen.ptr).tolist(), strict=True) for _ in range(n)
            ]
            return each + [f"edge:{self.edge_inputs[0]}"] * len(self.seen.pair)
        node = [name for name in self.inputs for _ in range(self.n_node_tables)]
        edge = [f"edge:{name}" for name in self.edge_inputs for _ in range(self.n_edge_tables)]
        return node + edge

    @property
    def template_of(self) -> list[str]:
        """The template (``template_name``) that every parameter belongs to; transitions have one of their own."""
        templates = [template_name(name) for name in self.inputs]
        each = [self.n_node_tables] * len(templates) if self.seen is None else np.diff(self.seen.ptr).tolist()
        node = [name for name, count in zip(templates, each, strict=True) for _ in range(count)]
        return node + [TRANSITIONS] * (self.n_parameters - self.n_state)

    def split(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """W as (D, G) and V as (E, H); zeros for weights that were not seen."""
        if self.seen is not None:
            K = len(self.labels)
            full = np.zeros(len(self.inputs) * K + K * K)
            full[self.places] = parameters
            return full[: -K * K].reshape(-1, K), full[-K * K :].reshape(1, -1)
        W, V = parameters[: self.n_state], parameters[self.n_state :]
        return W.reshape(len(self.inputs), -1), V.reshape(len(self.edge_inputs), -1)

    def __repr__(self) -> str:
        return f"CRF({len(self.labels)} labels, {len(self.inputs)} inputs, {self.n_parameters} parameters)"


def template_name(name: str) -> str:
    """What an input's name has before the first "=" or ":": "w[-1]" of "w[-1]=the".

    Neither an offset in front ("-1:word:the", of "-1:word") nor what stands in brackets ("word[-3:]:ing") ends it.
    Names with neither sign, such as "bias", belong to one template together, "others": each by itself would be a
    variance of its own for a handful of weights.
    """
    found = _TEMPLATE.match(name)
    return OTHERS if found is None else found.group(1)


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences end to end: P positions of S sequences.

    ptr: (S+1,) where each begins. inputs: x, (P, D) sparse by rows. edge_rows: the distinct z, (Q, E); which: (P,) the
    row of each pair of neighbours, under its first. labels: (P,) numbers of the visible labels, −1 where one is not
    known, or None. allowed: (P, K) the states that what is known allows, where that is not one at every position.
    """

    ptr: IntArray
    inputs: sparse.csr_array[Any, tuple[int, int]]
    edge_rows: FloatArray
    which: IntArray
    labels: IntArray | None = None
    allowed: BoolArray | None = None

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def chosen(self, which: BoolArray) -> Sequences:
        """The sequences that are marked."""
        lengths = np.diff(self.ptr)
        rows = np.flatnonzero(np.repeat(which, lengths))
        return Sequences(
            np.concatenate([[0], np.cumsum(lengths[which])]).astype(np.int64),
            self.inputs[rows],
            self.edge_rows,
            self.which[rows],
            None if self.labels is None else self.labels[rows],
            None if self.allowed is None else self.allowed[rows],
        )

    def run(self, first: int, last: int) -> Sequences:
        """The sequences first … last − 1; nothing is copied."""
        begin, end = int(self.ptr[first]), int(self.ptr[last])
        return Sequences(
            self.ptr[first : last + 1] - begin,
            self.inputs[begin:end],
            self.edge_rows,
            self.which[begin:end],
            None if self.labels is None else self.labels[begin:end],
            None if self.allowed is None else self.allowed[begin:end],
        )

    def with_labels(self, labels: IntArray) -> Sequences:
        """The same, all labels known."""
        return replace(self, labels=labels, allowed=None)

    @property
    def positions(self) -> int:
        return int(self.ptr[-1])

    @cached_property
    def indicators(self) -> bool:
        """Whether all inputs are 1, so that they need neither be stored twice nor multiplied by."""
        return bool((self.inputs.data == 1.0).all())

    @cached_property
    def squared(self) -> Sequences:
        """The same with every input squared; itself where all are 1."""
        return self if self.indicators else replace(self, inputs=self.inputs.power(2))

    @cached_property
    def columns(self) -> tuple[IntArray, IntArray, FloatArray]:
        """The inputs by columns: where each begins, its positions, and its values; none of these where all are 1."""
        turned = sparse.csr_array(self.inputs.T, copy=False) if not self.indicators else _turned(self.inputs)
        turned.sort_indices()
        return turned.indptr, turned.indices, np.empty(0) if self.indicators else turned.data

    def pair_starts(self) -> IntArray:
        """The positions that have a next one in their sequence."""
        return np.flatnonzero(np.isin(np.arange(self.positions) + 1, self.ptr, invert=True))


def as_sequences(
    crf: CRF, X: Sequence[Any], y: Sequence[Any] | None = None, Z: Sequence[ArrayLike] | None = None
) -> Sequences:
    """X: a (T, D) array, dense or sparse, or a table whose columns have the inputs' names, for each sequence. y: its
    labels. Z: (T − 1, E) inputs of the pairs.

    A label may be None, NaN or pd.NA (not known), or a set of labels (one of them).
    """
    return from_rows(crf, *stacked_inputs(X, crf.inputs, "sequence"), y, Z)


def from_rows(
    crf: CRF, inputs: Any, lengths: IntArray, y: Sequence[Any] | None = None, Z: Sequence[ArrayLike] | None = None
) -> Sequences:
    """``as_sequences`` of inputs that are end to end already, sparse by rows; lengths: positions of each sequence."""
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows, which = edge_rows(crf, ptr, Z)
    known = (None, None) if y is None else label_codes(crf, y, lengths)
    return Sequences(ptr, inputs, rows, which, *known)


def _turned(inputs: Any) -> Any:
    """The pattern of the transpose; values, which nobody reads, a byte each."""
    light = sparse.csr_array((np.ones(len(inputs.data), dtype=np.int8), inputs.indices, inputs.indptr), inputs.shape)
    return sparse.csr_array(light.T)


def seen_weights(crf: CRF, data: Sequences, min_frequency: float = 1) -> Seen:
    """The weights of labels that inputs, and of labels that labels, were seen with; min_frequency: so often at least,
    inputs that are no indicators counting by their size."""
    if data.labels is None:
        raise InvalidInput("what was seen is told by labels: give y")
    K, P = len(crf.labels), data.positions
    known = np.flatnonzero(data.labels >= 0)
    taken = sparse.csr_array((np.ones(len(known)), (data.labels[known], known)), shape=(K, P))
    counts = sparse.csr_array((taken @ abs(data.inputs)).T)
    counts.sort_indices()
    counts.data[counts.data < min_frequency] = 0.0
    counts.eliminate_zeros()
    t = data.pair_starts()
    t = t[(data.labels[t] >= 0) & (data.labels[t + 1] >= 0)]
    pairs = np.bincount(data.labels[t] * K + data.labels[t + 1], minlength=K * K)
    pair = np.flatnonzero(pairs >= max(min_frequency, 1))
    return Seen(counts.indptr.astype(np.int64), counts.indices.astype(np.int64), pair)


def edge_rows(crf: CRF, ptr: IntArray, Z: Sequence[ArrayLike] | None) -> tuple[FloatArray, IntArray]:
    """The distinct edge inputs, (Q, E), and which of them every pair of neighbours has, (P,)."""
    positions, E = int(ptr[-1]), len(crf.edge_inputs)
    if Z is None:
        if not crf.constant_edges:
            raise InvalidInput(f"this model has {E} edge inputs: give Z, a (T − 1, {E}) array for each sequence")
        return np.ones((1, 1)), np.zeros(positions, dtype=np.int64)
    full = np.zeros((positions, E))
    for k, z in enumerate(Z):
        rows, wanted = np.asarray(z, dtype=np.float64), max(int(ptr[k + 1] - ptr[k]) - 1, 0)
        if rows.size == 0:
            rows = rows.reshape(0, E)
        if rows.shape != (wanted, E):
            raise InvalidInput(f"sequence {k}: the edge inputs need shape {(wanted, E)}; got {rows.shape}")
        full[ptr[k] : ptr[k] + wanted] = rows
    if not (np.abs(full) <= LARGEST).all():
        raise InvalidInput(f"edge inputs must be finite numbers within ±{LARGEST:g}; scale them to about 1")
    distinct, which = np.unique(full, axis=0, return_inverse=True)
    return distinct.reshape(-1, E), which.reshape(-1).astype(np.int64)


def label_codes(crf: CRF, y: Sequence[Any], lengths: IntArray) -> tuple[IntArray, BoolArray | None]:
    """Labels as numbers, end to end, −1 for one that is not known; and the states (P, K) that they allow.

    The second is None where each position allows one.
    """
    if len(y) != len(lengths):
        raise InvalidInput(f"there are {len(lengths)} sequences of inputs and {len(y)} of labels")
    number = {label: k for k, label in enumerate(crf.visible)}
    codes = np.empty(int(lengths.sum()), dtype=np.int64)
    candidates: dict[int, list[int]] = {}
    at = 0
    for k, (own, length) in enumerate(zip(y, lengths, strict=True)):
        values = own.tolist() if isinstance(own, np.ndarray) else list(own)
        if len(values) != length:
            raise InvalidInput(f"sequence {k} has {length} positions and {len(values)} labels")
        for value in values:
            if is_open(value):
                codes[at], candidates[at] = -1, [number[v] for v in candidates_in(value, number, k)]
            elif value not in number:
                raise _strange(value, number, k)
            else:
                codes[at] = number[value]
            at += 1
    if not candidates and len(crf.labels) == len(crf.visible):
        return codes, None
    allowed = codes[:, None] == crf.owner
    for place, some in candidates.items():
        allowed[place] = np.isin(crf.owner, some)
    return codes, allowed


def is_open(value: Any) -> bool:
    """Whether a label is not known: None, NaN, pd.NA, or a set of candidates."""
    return value is None or value is pd.NA or isinstance(value, set | frozenset) or _is_nan(value)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


def candidates_in(value: Any, known: Iterable[Any], k: int) -> list[Any]:
    """The labels that an open one may be."""
    if not isinstance(value, set | frozenset):
        return list(known)
    for one in value:
        if one not in known:
            raise _strange(one, known, k)
    if not value:
        raise InvalidInput(f"sequence {k} has an empty set of labels; for a label that is not known give None")
    return list(value)


def _strange(value: Any, known: Iterable[Any], k: int) -> InvalidInput:
    return InvalidInput(f"sequence {k} has the label {value!r}, which is none of {list(known)}")


def stacked_inputs(X: Sequence[Any], names: Sequence[str], what: str) -> tuple[Any, IntArray]:
    """The inputs of all instances end to end, sparse by rows, and how many rows each has. Dense ones are stacked first:
    a conversion for each of thousands of short sequences takes longer than all the rest."""
    width = len(names)
    parts = [x if sparse.issparse(x) else _dense(x, names, f"{what} {k}") for k, x in enumerate(X)]
    lengths = np.array([p.shape[0] for p in parts], dtype=np.int64)
    if parts and all(isinstance(p, np.ndarray) and p.shape[1] == width for p in parts):
        return input_matrix(np.concatenate(parts), names, f"some {what}"), lengths
    rows = [input_matrix(p, names, f"{what} {k}") for k, p in enumerate(parts)]
    empty = sparse.csr_array((0, width))
    return sparse.csr_array(sparse.vstack([empty, *rows], format="csr")), lengths


def input_matrix(x: Any, names: Sequence[str], what: str) -> Any:
    """(T, D) numbers, dense or sparse, or a table with columns of these names, as sparse rows."""
    width = len(names)
    matrix = sparse.csr_array(x if sparse.issparse(x) else _dense(x, names, what))
    if matrix.shape[1] != width:
        raise InvalidInput(f"{what}: inputs need {width} columns; got shape {matrix.shape}")
    if not (np.abs(matrix.data) <= LARGEST).all():
        raise InvalidInput(f"{what}: inputs must be finite numbers within ±{LARGEST:g}; scale them to about 1")
    return matrix


def _dense(x: Any, names: Sequence[str], what: str) -> Any:
    width = len(names)
    if type(x) is not np.ndarray and has_names(x):
        x = in_order(as_table(x), names, f"the table of {what}")
    try:
        array = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{what}: inputs must be numbers, a row for each position") from None
    if array.size == 0:
        array = array.reshape(0, width)
    if array.ndim != 2:
        raise InvalidInput(f"{what}: inputs need a row for each position; got shape {array.shape}")
    return array


def _pair_tables(K: int, first: IntArray, second: IntArray) -> FloatArray:
    """An indicator of each pair of labels; of both orders where only one is listed."""
    tables = np.zeros((len(first), K, K))
    tables[np.arange(len(first)), first, second] = 1.0
    if len(first) < K * K:
        tables[np.arange(len(first)), second, first] = 1.0
    return tables


def _names(given: int | Sequence[str], what: str) -> tuple[str, ...]:
    if isinstance(given, int | np.integer):
        return tuple(f"{what.replace(' ', '_')}{k}" for k in range(int(given)))
    names = tuple(str(name) for name in given)
    if len(set(names)) != len(names):
        raise InvalidInput(f"{what} names must differ from one another")
    return names


def _tables(given: ArrayLike, shape: tuple[int, ...], what: str) -> FloatArray:
    tables = np.ascontiguousarray(given, dtype=np.float64)
    wrong = tables.ndim != len(shape) + 1 or tables.shape[1:] != shape or not len(tables)
    if wrong or not (np.abs(tables) <= LARGEST).all():
        raise InvalidInput(
            f"{what} need shape (…, {', '.join(map(str, shape))}) and finite numbers within ±{LARGEST:g}; got "
            f"{tables.shape}"
        )
    return tables


def _numbered(tables: FloatArray) -> list[str]:
    return [""] if len(tables) == 1 else [f"table{k}" for k in range(len(tables))]
