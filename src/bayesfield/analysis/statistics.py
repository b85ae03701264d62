"""What a data set is judged by: functions from cases (N, n), −1 in the holes, to one number for each item."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from bayesfield.types import FloatArray, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.model.field import RandomField

SUM_SCORE = "sum score"
_PAIRS = 2000  # of variables, up to which all are looked at; beyond, as many of the edges …
_OTHERS = 500  # … and some other pairs
_BINS = 20  # of the sum scores, more or less
_FEW = 100  # by how much a matrix of all pairs is faster, pair for pair, than picking columns (measured: 60 to 570)
_SPARSE = 4  # edges a variable up to which clusters along them are looked at
_SITES = 2_000_000  # sites and edges whose clusters are found together


class Statistic(NamedTuple):
    """A name, a name for each item, and the function."""

    name: str
    items: Sequence[str]
    compute: Callable[[IntArray], FloatArray]


def default_statistics(
    field: RandomField, codes: IntArray, pilot: IntArray, rng: np.random.Generator
) -> list[Statistic]:
    """Those that make sense for this field. pilot: one replicated data set, which with codes gives the sums' range."""
    seen = np.flatnonzero((codes >= 0).any(axis=0))
    is_number = np.array([_is_numeric(states) for states in field.states], dtype=np.bool_)[seen]
    numeric, named = seen[is_number], seen[~is_number]
    score = scores(field)
    pairs = _pairs(field, seen, rng)
    same = np.array([field.states[i] == field.states[j] for i, j in pairs.tolist()], dtype=np.bool_)
    alike = np.isin(pairs[:, 0], named) & same
    found = [
        _means(field, numeric, score),
        _shares(field, named),
        _correlations(field, pairs[np.isin(pairs, numeric).all(axis=1)], score),
        _agreement(field, pairs[alike]),
    ]
    if len(numeric) > 1:
        found.append(_sum_scores(numeric, score, codes, pilot))
    if len({field.states[i] for i in seen.tolist()}) == 1:
        found.append(_clusters(field, seen))
    return [one for one in found if len(one.items)]


def own_statistics(field: RandomField, codes: IntArray, given: Mapping[str, Callable[[Any], Any]]) -> list[Statistic]:
    """A user's: functions of the cases in the states' own values, NaN or None in the holes."""
    if not isinstance(given, Mapping) or not given or not all(callable(f) for f in given.values()):
        raise InvalidInput(
            f"statistics map names to functions of an (N, n) array, such as {{'pairs': f}}; got {given!r}"
        )
    return [_own(field, str(name), function, codes) for name, function in given.items()]


def scores(field: RandomField) -> Callable[[IntArray], FloatArray]:
    """From cases (N, n) to the numbers that are their states, NaN in the holes and where states are no numbers."""
    table = np.full((field.n_variables, int(field.cardinalities.max(initial=0)) + 1), np.nan)  # hole −1: the last
    for i, states in enumerate(field.states):
        if _is_numeric(states):
            table[i, : len(states)] = states
    each = np.arange(field.n_variables)
    return lambda codes: table[each, codes]


# --- one variable --------------------------------------------------------------------------------------------------


def _means(field: RandomField, numeric: IntArray, score: Callable[[IntArray], FloatArray]) -> Statistic:
    names = [field.names[i] for i in numeric]
    return Statistic("mean", names, lambda codes: np.nanmean(score(codes)[:, numeric], axis=0))


def _shares(field: RandomField, named: IntArray) -> Statistic:
    """Of each state; of two states, of the second."""
    cells = [(i, k) for i in named for k in range(1 if len(field.states[i]) == 2 else 0, len(field.states[i]))]
    column = np.array([i for i, _ in cells], dtype=np.int64)
    state = np.array([k for _, k in cells], dtype=np.int64)

    def compute(codes: IntArray) -> FloatArray:
        result: FloatArray = (codes[:, column] == state).sum(axis=0) / (codes[:, column] >= 0).sum(axis=0)
        return result

    return Statistic("share", [f"{field.names[i]}={field.states[i][k]}" for i, k in cells], compute)


# --- two -----------------------------------------------------------------------------------------------------------


def _correlations(field: RandomField, pairs: IntArray, score: Callable[[IntArray], FloatArray]) -> Statistic:
    """Over the cases that observe both."""
    i, j = pairs.T
    few = _FEW * len(pairs) < field.n_variables**2

    def cross(a: FloatArray, b: FloatArray) -> FloatArray:
        """Σ_n a_ni b_nj of every pair."""
        result: FloatArray = np.einsum("np,np->p", a[:, i], b[:, j]) if few else (a.T @ b)[i, j]
        return result

    def compute(codes: IntArray) -> FloatArray:
        x = score(codes)
        seen = np.isfinite(x).astype(np.float64)
        x = np.where(seen > 0.0, x, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            n = cross(seen, seen)
            mean_i, mean_j = cross(x, seen) / n, cross(seen, x) / n
            spread = (cross(x**2, seen) / n - mean_i**2) * (cross(seen, x**2) / n - mean_j**2)
            result: FloatArray = (cross(x, x) / n - mean_i * mean_j) / np.sqrt(np.where(spread > 1e-14, spread, np.nan))
        return result

    return Statistic("correlation", _pair_names(field, pairs), compute)


def _agreement(field: RandomField, pairs: IntArray) -> Statistic:
    """Of pairs of unordered variables with the same states: the share of cases that have them equal."""
    i, j = pairs.T

    def compute(codes: IntArray) -> FloatArray:
        a, b = codes[:, i], codes[:, j]
        both = (a >= 0) & (b >= 0)
        with np.errstate(invalid="ignore"):
            result: FloatArray = ((a == b) & both).sum(axis=0) / both.sum(axis=0)
        return result

    return Statistic("agreement", _pair_names(field, pairs), compute)


def _pairs(field: RandomField, seen: IntArray, rng: np.random.Generator) -> IntArray:
    """(m, 2) all pairs of these variables; of very many, the edges (or as many of them) and some others at random."""
    if _all_pairs(len(seen)) <= _PAIRS:
        i, j = np.triu_indices(len(seen), 1)
        return np.stack([seen[i], seen[j]], axis=1)
    edges = np.array(field.edges, dtype=np.int64).reshape(-1, 2)
    edges = edges[np.isin(edges, seen).all(axis=1)]
    if len(edges) > _PAIRS:
        edges = edges[np.sort(rng.choice(len(edges), _PAIRS, replace=False))]
    others = np.sort(rng.choice(seen, (_OTHERS, 2)), axis=1)
    others = others[others[:, 0] < others[:, 1]]
    return np.unique(np.concatenate([edges, others]), axis=0)


def _all_pairs(n: int) -> int:
    return n * (n - 1) // 2


def _pair_names(field: RandomField, pairs: IntArray) -> list[str]:
    return [f"{field.names[i]}, {field.names[j]}" for i, j in pairs]


# --- all -----------------------------------------------------------------------------------------------------------


def _sum_scores(
    numeric: IntArray, score: Callable[[IntArray], FloatArray], codes: IntArray, pilot: IntArray
) -> Statistic:
    """The share of cases with each sum, or with sums in each of some bins; the first and the last are open."""

    def sums(cases: IntArray) -> FloatArray:
        result: FloatArray = np.nansum(score(cases)[:, numeric], axis=1)
        return result

    values = np.unique(np.concatenate([sums(codes), sums(pilot)]))
    cuts = (values[1:] + values[:-1]) / 2
    labels = [f"{v:g}" for v in values]
    if len(values) > _BINS:
        cuts = np.linspace(values[0], values[-1], _BINS + 1)[1:-1]
        labels = [f"below {cuts[0]:.4g}", *(f"from {c:.4g}" for c in cuts)]

    def compute(cases: IntArray) -> FloatArray:
        place = np.searchsorted(cuts, sums(cases), side="right")
        result: FloatArray = np.bincount(place, minlength=len(labels)) / max(len(cases), 1)
        return result

    return Statistic(SUM_SCORE, labels if len(labels) > 1 else [], compute)


def _clusters(field: RandomField, seen: IntArray) -> Statistic:
    """Sets of variables that hang together by edges between equal states: their mean size, and the largest's (mean
    over the cases). On dense fields they say little, and are left out."""
    edges = np.array(field.edges, dtype=np.int64).reshape(-1, 2)
    edges = edges[np.isin(edges, seen).all(axis=1)]
    items = ["mean size", "largest"] if 0 < len(edges) <= _SPARSE * len(seen) else []
    step = max(1, _SITES // (field.n_variables + len(edges)))

    def compute(codes: IntArray) -> FloatArray:
        sites = clusters = largest = 0
        for k in range(0, len(codes), step):
            label, size = _labelled(codes[k : k + step], edges)
            sites, clusters = sites + size.sum(), clusters + len(size)
            largest += np.maximum.reduceat(size[label], _first_seen(codes[k : k + step])).sum()
        return np.array([sites / max(clusters, 1), largest / max(len(codes), 1)])

    return Statistic("cluster", items, compute)


def _labelled(codes: IntArray, edges: IntArray) -> tuple[IntArray, IntArray]:
    """The cluster of each cell that is observed, case by case, and the size of each cluster."""
    n, seen = codes.shape[1], (codes >= 0).ravel()
    a, b = codes[:, edges[:, 0]], codes[:, edges[:, 1]]
    case, edge = np.nonzero((a == b) & (a >= 0))
    ends = n * case[:, None] + edges[edge]
    graph = sparse.coo_array((np.ones(len(ends), dtype=np.int8), (ends[:, 0], ends[:, 1])), shape=(len(seen),) * 2)
    _, label = connected_components(graph, directed=False)
    own = np.unique(label[seen], return_inverse=True)[1].reshape(-1)
    return own, np.bincount(own)


def _first_seen(codes: IntArray) -> IntArray:
    """Where the observed cells of each case begin, among all; cases without any are left out."""
    count = (codes >= 0).sum(axis=1)
    result: IntArray = (np.cumsum(count) - count)[count > 0]
    return result


# --- a user's own --------------------------------------------------------------------------------------------------


def _own(field: RandomField, name: str, function: Callable[[Any], Any], codes: IntArray) -> Statistic:
    def compute(cases: IntArray) -> FloatArray:
        try:
            found = np.atleast_1d(np.asarray(function(_values(field, cases)), dtype=np.float64)).ravel()
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"statistic {name!r} gave no number or list of numbers: {error}") from None
        if len(found) != size:
            raise InvalidInput(f"statistic {name!r} gave {size} numbers once and {len(found)} then; it must be as many")
        return found

    size = np.size(function(_values(field, codes)))
    if not size:
        raise InvalidInput(f"statistic {name!r} gave nothing for the data")
    return Statistic(name, [""] if size == 1 else [str(k) for k in range(size)], compute)


def _values(field: RandomField, codes: IntArray) -> Any:
    """The states' own values, NaN in holes where all are numbers, else None."""
    values, holes = field.decode(np.maximum(codes, 0)), codes < 0
    if not holes.any():
        return values
    values = values.astype(object if values.dtype == object else np.float64)
    values[holes] = None if values.dtype == object else np.nan
    return values


def _is_numeric(states: Sequence[Any]) -> bool:
    return all(isinstance(s, Real) for s in states)
