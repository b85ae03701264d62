"""How hidden labels are distributed before anything is observed of them: a Markov chain, or a random field."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from bayesfield.model.field import FactorBlock, RandomField, as_states
from bayesfield.model.lattices import offsets_of, pairs_at
from bayesfield.types import BoolArray, FloatArray, IntArray, InvalidInput

_LEAVES, _WIDE = -1.0, 4.0  # prior of a log-odds to leave a label: mean and variance


class Law(ABC):
    """labels: K. Its parameters come first, those of the emission follow."""

    labels: int
    parameter_names: list[str]
    groups: list[str]

    @property
    def n_parameters(self) -> int:
        return len(self.parameter_names)

    @abstractmethod
    def prior(self) -> tuple[FloatArray, FloatArray]:
        """Location and variance of each parameter."""

    @abstractmethod
    def relabelled(self, order: IntArray) -> IntArray | None:
        """λ[these] has label order[k] as its label k; None where labels differ by what they are."""


@dataclass(frozen=True, eq=False)
class MarkovChain(Law):
    """p(z) = π(z_1) Π_t T(z_t, z_{t+1}) along every sequence.

    log T(i, j) = w_ij − log Σ_j' exp w_ij', w_ii = 0: w_ij is the log-odds of going to j against staying. π is uniform;
    or, with initial="free", for many sequences, a softmax of K log weights, whose common level only the prior holds.
    """

    labels: int
    initial: Literal["free", "uniform"] = "uniform"

    def __post_init__(self) -> None:
        if self.initial not in ("free", "uniform"):
            raise InvalidInput(f'initial is "free" or "uniform"; got {self.initial!r}')

    @property
    def n_initial(self) -> int:
        return self.labels if self.initial == "free" else 0

    @cached_property
    def parameter_names(self) -> list[str]:  # type: ignore[override]
        moves = [f"{i}->{j}" for i, j in zip(*self._pairs, strict=True)]
        return [f"initial[{k}]" for k in range(self.n_initial)] + moves

    @cached_property
    def groups(self) -> list[str]:  # type: ignore[override]
        return ["initial"] * self.n_initial + ["transitions"] * (self.labels * (self.labels - 1))

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray]:
        """i and j of every w_ij."""
        i, j = np.nonzero(~np.eye(self.labels, dtype=np.bool_))
        return i, j

    def prior(self) -> tuple[FloatArray, FloatArray]:
        leaves = self.n_parameters - self.n_initial
        location = np.concatenate([np.zeros(self.n_initial), np.full(leaves, _LEAVES)])
        return location, np.concatenate([np.ones(self.n_initial), np.full(leaves, _WIDE)])

    def relabelled(self, order: IntArray) -> IntArray:
        number = np.zeros((self.labels, self.labels), dtype=np.int64)
        number[self._pairs] = self.n_initial + np.arange(len(self._pairs[0]))
        first = order if self.n_initial else np.empty(0, dtype=np.int64)
        return np.concatenate([first, number[order[self._pairs[0]], order[self._pairs[1]]]])

    def tables(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """log π, (K,), and log T, (K, K)."""
        w = np.zeros((self.labels, self.labels))
        w[self._pairs] = parameters[self.n_initial :]
        first = parameters[: self.n_initial] if self.n_initial else np.zeros(self.labels)
        return first - np.logaddexp.reduce(first), w - np.logaddexp.reduce(w, axis=1)[:, None]

    def from_counts(self, first: FloatArray, moves: FloatArray) -> FloatArray:
        """The parameters that make expected starts (K,) and transitions (K, K) likeliest, half a one added to each."""
        log = np.log(moves + 0.5 / self.labels)
        w = (log - np.diag(log)[:, None])[self._pairs]
        level = np.log(first + 0.5 / self.labels)
        return np.concatenate([(level - level.mean())[: self.n_initial], w])

    def slopes(self, parameters: FloatArray, first: FloatArray, moves: FloatArray) -> FloatArray:
        """Σ_k first_k ∂log π_k + Σ_ij moves_ij ∂log T_ij."""
        log_first, log_moves = self.tables(parameters)
        start = first - first.sum() * np.exp(log_first)
        leave = moves - moves.sum(axis=1, keepdims=True) * np.exp(log_moves)
        return np.concatenate([start[: self.n_initial], leave[self._pairs]])

    def curvature(self, parameters: FloatArray, first: FloatArray, moves: FloatArray) -> FloatArray:
        """Σ_k first_k ∂²log π_k + Σ_ij moves_ij ∂²log T_ij: of a softmax −Σ (diag p − p pᵀ)."""
        log_first, log_moves = self.tables(parameters)
        size, m = self.n_parameters, self.n_initial
        total = np.zeros((size, size))
        p, T = np.exp(log_first), np.exp(log_moves)
        if m:
            total[:m, :m] = -first.sum() * (np.diag(p) - np.outer(p, p))
        i, j = self._pairs
        same = i[:, None] == i[None, :]
        spread = same * (np.diag(T[i, j]) - np.outer(T[i, j], T[i, j]))
        total[m:, m:] = -moves.sum(axis=1)[i][:, None] * spread
        return total

    def directions(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """∂log π, (K, m), and ∂log T, (K, K, K (K − 1))."""
        log_first, log_moves = self.tables(parameters)
        i, j = self._pairs
        first = (np.eye(self.labels) - np.exp(log_first)[None, :])[:, : self.n_initial]
        moves = np.zeros((self.labels, self.labels, len(i)))
        each = np.arange(len(i))
        moves[i, :, each] = -np.exp(log_moves)[i, j][:, None]
        moves[i, j, each] += 1.0
        return first, moves

    def draw(self, parameters: FloatArray, lengths: IntArray, rng: np.random.Generator) -> IntArray:
        """Labels of sequences of these lengths, end to end."""
        log_first, log_moves = self.tables(parameters)
        begin, ends = np.cumsum(np.exp(log_first)), np.cumsum(np.exp(log_moves), axis=1)
        labels = np.empty(int(lengths.sum()), dtype=np.int64)
        uniforms, at = rng.random(len(labels)), 0
        for length in lengths:
            for t in range(at, at + int(length)):
                row = begin if t == at else ends[labels[t - 1]]
                labels[t] = min(int(np.searchsorted(row, uniforms[t])), self.labels - 1)
            at += int(length)
        return labels


@dataclass(frozen=True, eq=False)
class FieldLaw(Law):
    """p(z) = exp(λᵀf(z)) / Z(λ) of a random field. exchangeable: whether labels may change places."""

    field: RandomField
    labels: int
    exchangeable: bool = False

    @property
    def parameter_names(self) -> list[str]:  # type: ignore[override]
        return list(self.field.parameter_names)

    @property
    def groups(self) -> list[str]:  # type: ignore[override]
        return list(self.field.groups)

    def prior(self) -> tuple[FloatArray, FloatArray]:
        return np.zeros(self.n_parameters), np.ones(self.n_parameters)

    def relabelled(self, order: IntArray) -> IntArray | None:
        return np.arange(self.n_parameters) if self.exchangeable else None


def potts_lattice(inside: Sequence[BoolArray], labels: int, neighbours: Any = 4) -> FieldLaw:
    """Labels on one or several images, p(z) ∝ exp(β Σ [z_i = z_j]) over neighbours, no label preferred. inside: of each
    image its sites, (rows, columns). neighbours: 4, 8, or offsets, as ``lattices.lattice`` has them."""
    edges = np.concatenate([pairs_at(inside, offset) for offset in offsets_of(neighbours)])
    return potts_law(sum(int(mask.sum()) for mask in inside), edges, labels)


def potts_law(n: int, edges: IntArray, labels: int) -> FieldLaw:
    """The same over any edges, (E, 2)."""
    states = as_states(labels, "the labels")
    shared = np.zeros((len(edges), 1), dtype=np.int64)
    blocks = [FactorBlock(edges, np.eye(len(states))[None], shared, None, (0, 1))]
    names = [f"z{i}" for i in range(n)]
    field = RandomField.from_blocks([states] * n, blocks, names, ["same"], ["edges"])
    return FieldLaw(field, len(states), exchangeable=True)


def as_law(structure: Any, labels: int) -> Law:
    """A structure as users state it: "chain", (rows, columns), edges as an (E, 2) array, or a field over the labels."""
    if isinstance(structure, Law):
        return structure
    if not isinstance(labels, int | np.integer) or labels < 2:
        raise InvalidInput(f"labels is a whole number of at least 2; got {labels!r}")
    if isinstance(structure, str) and structure == "chain":
        return MarkovChain(int(labels))
    if isinstance(structure, RandomField):
        if {len(s) for s in structure.states} != {labels} or structure.hidden:
            raise InvalidInput(f"every variable of the field is a hidden label: it needs {labels} states, none hidden")
        return FieldLaw(structure, int(labels))
    if isinstance(structure, tuple) and len(structure) == 2 and all(isinstance(k, int | np.integer) for k in structure):
        return potts_lattice([np.ones(structure, dtype=np.bool_)], int(labels))
    edges = np.asarray(structure)
    if edges.ndim == 2 and edges.shape[1] == 2 and edges.dtype.kind in "iu" and len(edges):
        return potts_law(int(edges.max()) + 1, np.sort(edges.astype(np.int64), axis=1), int(labels))
    raise InvalidInput(
        'structure is "chain", (rows, columns), an (E, 2) array of edges, or a bf.RandomField over the labels; '
        f"got {structure!r}"
    )
