"""Fields people fit most: pairwise on any graph, lattices, chains, Potts."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeVar, overload

import numpy as np

from bayesfield import memory
from bayesfield.model.field import FactorBlock, RandomField, States, as_states, positions
from bayesfield.model.states import state_values
from bayesfield.types import Cost, FloatArray, IntArray, InvalidInput

Edges = Iterable[tuple[int, int]] | IntArray
_FEWER = 'Put states together, or take interaction="equal", one parameter for each edge.'
Kind = TypeVar("Kind", bound=Hashable)


def pairwise(
    n: int,
    edges: Edges,
    states: int | Sequence[Hashable] = (0, 1),
    *,
    names: Sequence[str] | None = None,
    tied: bool = False,
) -> RandomField:
    """A field with features x_i for every variable and x_i·x_j for every edge; one parameter each.

    states: labels, the same for all variables; the features use them when they are numbers, else their positions
    0, 1, …. tied: one parameter for all variables and one for all edges instead.
    """
    labels = as_states(states, "the field")
    values = state_values(labels)
    pairs = edge_array(n, edges)
    with np.errstate(over="ignore"):  # states of 1e200, which are refused with the other features
        products = np.multiply.outer(values, values)
    return _two_blocks(
        labels,
        pairs,
        variable_names(names, n),
        tied,
        values[None, :],
        products[None],
        ("",),
        ("*",),
    )


def grid(rows: int, columns: int, states: int | Sequence[Hashable] = (-1, 1), *, tied: bool = False) -> RandomField:
    """``pairwise`` on a lattice, each site joined to the one below and the one to the right; sites in row order."""
    edges = grid_edges(rows, columns)
    names = _LazyNames(rows * columns, lambda i: f"x[{i // columns},{i % columns}]")
    return pairwise(rows * columns, edges, states, names=names, tied=tied)


def chain(n: int, states: int | Sequence[Hashable] = (-1, 1), *, tied: bool = False) -> RandomField:
    """``pairwise`` on a line of n variables."""
    line = np.arange(max(n - 1, 0), dtype=np.int64)
    return pairwise(n, np.stack([line, line + 1], axis=1), states, tied=tied)


def potts(
    n: int,
    edges: Edges,
    states: int | Sequence[Hashable] | Sequence[Sequence[Hashable]] = 3,
    *,
    names: Sequence[str] | None = None,
    interaction: Literal["equal", "table"] = "equal",
    tied: bool = False,
) -> RandomField:
    """A field of unordered states: for every variable an indicator of each state but the first, and for every edge

    interaction="equal": one feature, 1 when both ends are in the same state;
    interaction="table": an indicator of each pair of states, none the first: (K−1)² parameters an edge.

    states: labels, the same for all variables, or a list of labels for each; lists that differ need "table".
    """
    if interaction not in ("equal", "table"):
        raise InvalidInput(f'interaction is "equal" or "table"; got {interaction!r}')
    each = states_of_each(n, states)
    if len(set(each)) > 1:
        if interaction == "equal" or tied:
            raise InvalidInput('variables whose states differ need interaction="table", and tied=False')
        return _mixed_potts(each, edge_array(n, edges), variable_names(names, n))
    labels = each[0] if each else as_states(states, "the field")
    k = len(labels)
    entries = float(k) ** (4 if interaction == "table" else 2)
    needed = Cost(entries, 16 * entries, f"tables of {entries:.3g} entries for variables of {k:,} states")
    memory.require(needed, f'potts(interaction="{interaction}")', _FEWER)
    nodes = np.eye(k)[1:]
    node_marks = tuple(f"={s}" for s in labels[1:])
    if interaction == "equal":
        couplings = np.eye(k)[None]
        edge_marks: tuple[str, ...] = ("==",)
    else:
        couplings = np.einsum("ac,bd->abcd", nodes, nodes).reshape(-1, k, k)
        edge_marks = tuple(f"={s}&={t}" for s in labels[1:] for t in labels[1:])
    return _two_blocks(
        labels, edge_array(n, edges), variable_names(names, n), tied, nodes, couplings, node_marks, edge_marks
    )


def _mixed_potts(each: Sequence[States], pairs: IntArray, names: Sequence[str]) -> RandomField:
    """Indicators of states and of pairs of states, where variables have lists of their own."""
    sizes = np.array([len(s) - 1 for s in each], dtype=np.int64)
    many = sizes[pairs[:, 0]] * sizes[pairs[:, 1]]
    first = np.concatenate([[0], np.cumsum(np.concatenate([sizes, many]))])
    blocks = []
    for count, members in grouped(sizes.tolist()).items():
        parameters = first[members][:, None] + np.arange(count, dtype=np.int64)
        blocks.append(FactorBlock(members[:, None], np.eye(count + 1)[1:], parameters, None, (0,)))
    for (a, b), members in grouped([(int(sizes[i]), int(sizes[j])) for i, j in pairs]).items():
        tables = np.einsum("ac,bd->abcd", np.eye(a + 1)[1:], np.eye(b + 1)[1:]).reshape(a * b, a + 1, b + 1)
        parameters = first[len(each) + members][:, None] + np.arange(a * b, dtype=np.int64)
        blocks.append(FactorBlock(pairs[members], tables, parameters, None, (0, 1)))
    nodes = [f"{name}={s}" for name, states in zip(names, each, strict=True) for s in states[1:]]
    edges = [f"{names[i]}={s},{names[j]}={t}" for i, j in pairs for s in each[i][1:] for t in each[j][1:]]
    groups = ["nodes"] * len(nodes) + ["edges"] * len(edges)
    return RandomField.from_blocks(each, blocks, names, nodes + edges, groups)


def states_of_each(n: int, states: Any) -> list[States]:
    """A list of states for each variable; labels that are no lists are those of all."""
    count = isinstance(states, int | np.integer)
    if not count and not isinstance(states, Sequence | np.ndarray):
        raise InvalidInput(f"states are labels in order, or a list of labels for each item; got {states!r}")
    lists = [] if count else [s for s in states if isinstance(s, list | tuple | range | np.ndarray)]
    if not lists or len(lists) < len(states):
        return [as_states(states, "the field")] * n
    if len(states) != n:
        raise InvalidInput(f"states needs one list for each of the {n} items, or one for all; got {len(states)} lists")
    return [as_states(s.tolist() if isinstance(s, np.ndarray) else s, f"item {i}") for i, s in enumerate(states)]


def grouped(kinds: Sequence[Kind]) -> dict[Kind, IntArray]:
    """Where each kind stands, in the order of first appearance."""
    found: dict[Kind, list[int]] = {}
    for i, kind in enumerate(kinds):
        found.setdefault(kind, []).append(i)
    return {kind: np.array(where, dtype=np.int64) for kind, where in found.items()}


def grid_edges(rows: int, columns: int) -> IntArray:
    """Edges of a lattice with sites numbered in row order, as an (E, 2) array."""
    if not all(isinstance(k, int | np.integer) and k >= 0 for k in (rows, columns)):
        raise InvalidInput(f"a grid needs whole numbers of rows and columns; got {rows!r} × {columns!r}")
    site = np.arange(rows * columns, dtype=np.int64).reshape(rows, columns)
    right = np.stack([site[:, :-1].ravel(), site[:, 1:].ravel()], axis=1)
    down = np.stack([site[:-1].ravel(), site[1:].ravel()], axis=1)
    both = np.concatenate([right, down])
    return both[np.lexsort((both[:, 1], both[:, 0]))]


def _two_blocks(
    labels: tuple[Hashable, ...],
    pairs: IntArray,
    names: Sequence[str],
    tied: bool,
    node_tables: FloatArray,
    edge_tables: FloatArray,
    node_marks: tuple[str, ...],
    edge_marks: tuple[str, ...],
) -> RandomField:
    """A block of unary factors and a block of pair factors; parameters run over factors, then over features."""
    n, k, c = len(names), len(node_tables), len(edge_tables)
    sites = 1 if tied else n
    bonds = (1 if tied else len(pairs)) if len(pairs) else 0
    node_parameters = np.arange(sites * k, dtype=np.int64).reshape(sites, k)
    edge_parameters = sites * k + np.arange(bonds * c, dtype=np.int64).reshape(bonds, c)

    def name(p: int) -> str:
        if p < sites * k:
            who = "x" if tied else names[p // k]
            return who + node_marks[p % k]
        i, j = ("x", "x'") if tied else (names[v] for v in pairs[(p - sites * k) // c])
        mark = edge_marks[(p - sites * k) % c]
        left, amp, right = mark.partition("&")
        return f"{i}{left},{j}{right}" if amp else f"{i}{mark}{j}"

    blocks = [
        FactorBlock(
            np.arange(n, dtype=np.int64)[:, None],
            node_tables,
            np.ascontiguousarray(np.broadcast_to(node_parameters, (n, k))),
            None,
            (0,),
        ),
        FactorBlock(
            pairs,
            edge_tables,
            np.ascontiguousarray(np.broadcast_to(edge_parameters, (len(pairs), c))),
            None,
            (0, 1),
        ),
    ]
    total = sites * k + bonds * c
    return RandomField.from_blocks(
        [labels] * n,
        blocks,
        names,
        _LazyNames(total, name),
        _LazyNames(total, lambda p: "nodes" if p < sites * k else "edges"),
    )


def edge_array(n: int, edges: Edges) -> IntArray:
    """Edges as a sorted (E, 2) array of distinct pairs i < j."""
    if not isinstance(n, int | np.integer) or n < 0:
        raise InvalidInput(f"a field needs a whole number n ≥ 0 of variables; got {n!r}")
    try:
        given = np.asarray(edges if isinstance(edges, np.ndarray) else list(edges))
    except (TypeError, ValueError):
        raise InvalidInput(f"edges are pairs of variable numbers (i, j); got {edges!r}") from None
    if given.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu":
        raise InvalidInput(
            f"edges are pairs of variable numbers (i, j); got an array of shape {given.shape}, type {given.dtype}"
        )
    if given.min() < 0 or given.max() >= n:
        worst = given[(given < 0).any(axis=1) | (given >= n).any(axis=1)][0]
        raise InvalidInput(f"edge {tuple(worst.tolist())} leaves the variables 0 to {n - 1}")
    if (given[:, 0] == given[:, 1]).any():
        i = int(given[given[:, 0] == given[:, 1]][0, 0])
        raise InvalidInput(f"edge ({i}, {i}) joins a variable to itself; edges join two variables")
    keys = given.min(axis=1).astype(np.int64) * n + given.max(axis=1)
    if not (np.diff(keys) > 0).all():
        keys = np.unique(keys)
    return np.stack([keys // n, keys % n], axis=1)


def variable_names(names: Sequence[str] | None, n: int) -> Sequence[str]:
    """The user's names, one for each variable, or x0, x1, …"""
    if names is None:
        return _LazyNames(n, lambda i: f"x{i}")
    if len(names) != n:
        raise InvalidInput(f"names needs one name for each of the {n} variables; got {len(names)}")
    if not isinstance(names, _LazyNames):
        positions(names)
    return names


class _LazyNames(Sequence[str]):
    """Names made when asked for: a lattice of a million sites should not pay for three million strings."""

    def __init__(self, size: int, name: Callable[[int], str]) -> None:
        self._size, self._name = size, name

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self._name(i) for i in range(*index.indices(self._size))]
        if not 0 <= index < self._size:
            raise IndexError(index)
        return self._name(index)

    def __iter__(self) -> Iterator[str]:
        return map(self._name, range(self._size))

    def __reduce__(self) -> tuple[type[list[str]], tuple[list[str]]]:
        return list, (list(self),)  # a pickled field carries plain names
