"""Fields with hidden variables that people fit most: Boltzmann machines, hidden Potts fields, mixtures.

Hidden variables of one kind may change places, and their states names, without any change to what is observed: such
fields have several equivalent modes, and a fit describes one of them.
"""

from collections.abc import Hashable, Sequence

import numpy as np

from bayesfield.model.builders import Edges, grid_edges, pairwise
from bayesfield.model.field import FactorBlock, RandomField, as_states
from bayesfield.types import FloatArray, IntArray, InvalidInput


def restricted_boltzmann(
    visible: int, hidden: int, states: int | Sequence[Hashable] = (0, 1), *, names: Sequence[str] | None = None
) -> RandomField:
    """A restricted Boltzmann machine: hidden variables h0, h1, …, each joined to every visible one.

    names: of the visible ones, by default v0, v1, ….
    """
    edges = [(i, visible + j) for i in range(_count(visible, "visible")) for j in range(_count(hidden, "hidden"))]
    return _machine(visible, hidden, edges, states, names)


def boltzmann(
    visible: int,
    hidden: int,
    states: int | Sequence[Hashable] = (0, 1),
    *,
    edges: Edges | None = None,
    names: Sequence[str] | None = None,
) -> RandomField:
    """A Boltzmann machine with hidden variables: by default all pairs are joined.

    edges: instead, between numbers of variables; the hidden ones come after the visible ones. names: of the visible
    ones, by default v0, v1, ….
    """
    n = _count(visible, "visible") + _count(hidden, "hidden")
    joined = [(i, j) for j in range(n) for i in range(j)] if edges is None else edges
    return _machine(visible, hidden, joined, states, names)


def hidden_potts(
    rows: int, columns: int, labels: int | Sequence[Hashable], observations: int | Sequence[Hashable]
) -> RandomField:
    """An image as a noisy view of a field of labels: a hidden label at each site, and what is observed there.

    Parameters: ``same``, the coupling of neighbouring labels that are equal; one for each label but the first; and for
    each label one for each observation but the first: log p(observation | label), up to a constant. An image is one
    case, its observations (bins of grey values, say) in row order.
    """
    hidden, seen = as_states(labels, "the labels"), as_states(observations, "the observations")
    n, K, B = rows * columns, len(hidden), len(seen)
    site = np.arange(n)
    emission = np.zeros((K, B - 1, K, B))
    emission[np.arange(K)[:, None], np.arange(B - 1), np.arange(K)[:, None], np.arange(1, B)] = 1.0
    names = ["same", *(f"label={v}" for v in hidden[1:]), *(f"{v}:{s}" for v in hidden for s in seen[1:])]
    blocks = [
        _block(site[:, None], np.eye(K)[1:], np.arange(1, K)),
        _block(grid_edges(rows, columns), np.eye(K)[None], np.zeros(1, dtype=np.int64)),
        _block(np.stack([site, n + site], axis=1), emission.reshape(-1, K, B), K + np.arange(K * (B - 1))),
    ]
    where = [f"[{i // columns},{i % columns}]" for i in range(n)]
    variables = [f"label{w}" for w in where] + [f"pixel{w}" for w in where]
    groups = ["edges", *["nodes"] * (K - 1), *["observations"] * (K * (B - 1))]
    field = RandomField.from_blocks([hidden] * n + [seen] * n, blocks, variables, names, groups)
    return field.with_hidden(range(n))


def mixture(
    n: int, components: int, states: int | Sequence[Hashable] = (0, 1), *, names: Sequence[str] | None = None
) -> RandomField:
    """A mixture of independent variables: a hidden root, ``component``, and n variables that depend on it alone.

    Parameters: one for each component but the first, and for each variable one for each component and each state but
    the first: log-odds against the first state, in that component.
    """
    labels, K = as_states(states, "the variables"), _count(components, "components")
    S = len(labels)
    own = [f"x{i}" for i in range(n)] if names is None else [str(name) for name in names]
    if len(own) != n:
        raise InvalidInput(f"names needs one name for each of the {n} variables; got {len(own)}")
    tables = np.zeros((K, S - 1, K, S))
    tables[np.arange(K)[:, None], np.arange(S - 1), np.arange(K)[:, None], np.arange(1, S)] = 1.0
    items = np.arange(1, n + 1)
    each = K - 1 + np.arange(n * K * (S - 1)).reshape(n, -1)
    pairs = np.stack([np.zeros(n, dtype=np.int64), items], axis=1)
    blocks = [
        _block(np.zeros((1, 1), dtype=np.int64), np.eye(K)[1:], np.arange(K - 1)),
        FactorBlock(pairs, tables.reshape(-1, K, S), each, None, (0, 1)),
    ]
    parameters = [f"component={k}" for k in range(1, K)]
    parameters += [f"{name}={s}|{k}" for name in own for k in range(K) for s in labels[1:]]
    groups = ["components"] * (K - 1) + ["variables"] * (n * K * (S - 1))
    roots = tuple(range(K))
    return RandomField.from_blocks([roots, *[labels] * n], blocks, ["component", *own], parameters, groups).with_hidden(
        ["component"]
    )


def _machine(
    visible: int, hidden: int, edges: Edges, states: int | Sequence[Hashable], names: Sequence[str] | None
) -> RandomField:
    seen = [f"v{i}" for i in range(visible)] if names is None else list(names)
    if len(seen) != visible:
        raise InvalidInput(f"names needs one name for each of the {visible} visible variables; got {len(seen)}")
    prefix = "h"
    while any(f"{prefix}{j}" in seen for j in range(hidden)):  # machines on top of machines
        prefix += "h"
    field = pairwise(visible + hidden, edges, states, names=[*seen, *(f"{prefix}{j}" for j in range(hidden))])
    return field.with_hidden(range(visible, visible + hidden))


def _block(scopes: IntArray, tables: FloatArray, parameters: IntArray) -> FactorBlock:
    """Factors that all share their parameters."""
    shared = np.ascontiguousarray(np.broadcast_to(parameters, (len(scopes), len(parameters))))
    return FactorBlock(scopes, tables, shared, None, tuple(range(scopes.shape[1])))


def _count(number: int, what: str) -> int:
    if not isinstance(number, int | np.integer) or number < 1:
        raise InvalidInput(f"{what} is a whole number above zero; got {number!r}")
    return int(number)
