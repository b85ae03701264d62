"""Which positions of a sequence touch: a score for every pair, from the table that couples the two.

In the gauge where every row and column of a coupling table sums to zero, its Frobenius norm F_ij is the smallest; the
average-product correction takes off what i and j have with all positions: F_ij − F_i· F_·j / F_·· (Dunn, Wahl & Gloor
2008; Ekeberg et al. 2013).
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayesfield.model.builders import grouped
from bayesfield.model.field import RandomField
from bayesfield.posterior.edges import edges_of
from bayesfield.posterior.posterior import Posterior
from bayesfield.types import BoolArray, FloatArray, IntArray, InvalidInput


def contact_scores(
    couplings: Posterior | Any,
    gap: Hashable | None = "-",
    n_draws: int = 0,
    best: int | None = None,
    apart: int = 1,
    rng: np.random.Generator | int | None = 0,
) -> pd.DataFrame:
    """A row for each pair of variables, best first: first, second, the norm of their coupling, and the score.

    couplings: a posterior of a field with factors over two variables, or an (L, L, q, q) array. gap: the state (of an
    array: its number) that the norm leaves out; one that is not there leaves out nothing. n_draws: of the parameters,
    to add the mean and sd of their scores (drawn, sd; a norm is not linear, so drawn is not the score at the mean) and,
    with best, the share of them in which a pair is among so many best (p_best). apart: how far in sequence a pair must
    be; those nearer count in the correction, and are left out.
    """
    if not isinstance(couplings, Posterior):
        tables = _of_array(couplings)
        return _frame(tables, _norms(tables, [None if isinstance(gap, str) else gap] * tables.variables), {}, apart)
    if n_draws < 0 or (best is not None and (best < 1 or not n_draws)):
        raise InvalidInput(f"n_draws must not be negative, and best is 1 or more of them; got {n_draws} and {best}")
    field = couplings.field
    known = _of_posterior(couplings, couplings.mean)
    assert isinstance(field, RandomField)
    gaps = [s.index(gap) if gap in s else None for s in field.states]
    norms = _norms(known, gaps)
    if not n_draws:
        return _frame(known, norms, {}, apart, field.names)
    points = couplings.sample(n_draws, rng)
    scores = np.array([_corrected(known, _norms(_of_posterior(couplings, p), gaps)) for p in points])
    told = {"drawn": scores.mean(axis=0), "sd": scores.std(axis=0)}
    if best is not None:
        ranked = np.where(_far(known, apart), scores, -np.inf)
        told["p_best"] = (np.argsort(np.argsort(-ranked, axis=1), axis=1) < best).mean(axis=0)
    return _frame(known, norms, told, apart, field.names)


class _Tables(NamedTuple):
    """Pairs of variables, (E, 2), and the coupling of each, a table."""

    variables: int
    pairs: IntArray
    couplings: list[FloatArray]


def _of_posterior(posterior: Posterior, parameters: FloatArray) -> _Tables:
    """Σ_k λ_k f_k of the factors over each pair."""
    field = posterior.field
    pairs = [(e.first, e.second) for e in edges_of(field)]
    assert isinstance(field, RandomField)
    place = {pair: e for e, pair in enumerate(pairs)}
    sizes = field.cardinalities
    found = [np.zeros((sizes[i], sizes[j])) for i, j in pairs]
    for block in field.blocks:
        if block.scopes.shape[1] == 2 and len(block.features):
            tables = np.tensordot(parameters[block.parameters], block.features, 1)
            for (i, j), table in zip(block.scopes.tolist(), tables, strict=True):
                found[place[i, j]] += table
    return _Tables(field.n_variables, np.array(pairs, dtype=np.int64), found)


def _of_array(couplings: Any) -> _Tables:
    try:
        J = np.asarray(couplings, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"couplings are a posterior or an (L, L, q, q) array; got {type(couplings).__name__}"
        ) from None
    if J.ndim != 4 or J.shape[0] != J.shape[1] or J.shape[2] != J.shape[3] or len(J) < 2:
        raise InvalidInput(f"couplings are an (L, L, q, q) array, L ≥ 2; got shape {J.shape}")
    first, second = np.triu_indices(len(J), 1)
    return _Tables(len(J), np.stack([first, second], axis=1), list(J[first, second]))


def _norms(tables: _Tables, gaps: Sequence[Any]) -> FloatArray:
    """(E,) Frobenius norms in the zero-sum gauge, without the gap's row and column."""
    result = np.empty(len(tables.pairs))
    kinds = [(J.shape, gaps[i], gaps[j]) for (i, j), J in zip(tables.pairs.tolist(), tables.couplings, strict=True)]
    for ((a, b), gap, other), members in grouped(kinds).items():
        J = np.stack([tables.couplings[e] for e in members])
        J = J - J.mean(axis=1, keepdims=True) - J.mean(axis=2, keepdims=True) + J.mean(axis=(1, 2), keepdims=True)
        J = J[:, _others(a, gap)][:, :, _others(b, other)]
        result[members] = np.sqrt((J**2).sum(axis=(1, 2)))
    return result


def _others(size: int, gap: int | None) -> IntArray:
    states = np.arange(size, dtype=np.int64)
    return states if gap is None else states[states != gap]


def _corrected(tables: _Tables, norms: FloatArray) -> FloatArray:
    """F_ij − F_i· F_·j / F_··, means over the pairs that there are."""
    i, j = tables.pairs.T
    n = tables.variables
    total = np.bincount(i, norms, n) + np.bincount(j, norms, n)
    mean = total / np.maximum(np.bincount(i, minlength=n) + np.bincount(j, minlength=n), 1)
    overall = norms.mean()
    return norms - (mean[i] * mean[j] / overall if overall > 0.0 else 0.0)


def _far(tables: _Tables, apart: int) -> BoolArray:
    result: BoolArray = np.abs(tables.pairs[:, 1] - tables.pairs[:, 0]) >= apart
    return result


def _frame(
    tables: _Tables,
    norms: FloatArray,
    told: dict[str, FloatArray],
    apart: int,
    names: Sequence[str] | None = None,
) -> pd.DataFrame:
    i, j = tables.pairs.T
    labels = np.array(names, dtype=object) if names is not None else np.arange(tables.variables)
    columns = {"first": labels[i], "second": labels[j], "norm": norms, "score": _corrected(tables, norms)}
    table = pd.DataFrame(columns | told)[_far(tables, apart)]
    return table.sort_values("score", ascending=False, kind="stable", ignore_index=True)
