"""Lattices: sites of images, each joined to those at some offsets; several images, sites left out, covariates."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from bayesfield.model.builders import edge_array
from bayesfield.model.field import FactorBlock, RandomField, as_states
from bayesfield.model.states import state_values
from bayesfield.types import BoolArray, FloatArray, IntArray, InvalidInput

Offset = tuple[int, int]
Kind = Literal["ising", "potts", "ordinal"]
NEAREST: dict[int, tuple[Offset, ...]] = {4: ((0, 1), (1, 0)), 8: ((0, 1), (1, 0), (1, 1), (1, -1))}


class _Tables(NamedTuple):
    """Features of a site, of a site for each covariate, and of a pair; with what their names end in."""

    site: FloatArray  # (k, K)
    covariate: FloatArray  # (c, K)
    pair: FloatArray  # (1, K, K)
    site_marks: tuple[str, ...]
    covariate_marks: tuple[str, ...]
    joined: str


def lattice(
    inside: Sequence[BoolArray],
    states: int | Sequence[Hashable],
    kind: Kind = "ising",
    *,
    neighbours: int | Sequence[Offset] = 4,
    tied: bool | str = True,
    covariates: Sequence[FloatArray] | None = None,
) -> RandomField:
    """A field over the sites of one or several images.

    inside: for each image which of its sites (rows, columns) are part of the field; these are the variables, in row
    order, image after image. kind: "ising" has features s_i and s_i·s_j with s = −1, +1 for two states; "potts" an
    indicator of each state but the first and [x_i = x_j]; "ordinal" such indicators and the product of scores, which
    are the states where these are numbers, else their positions. neighbours: 4, 8, or offsets (rows, columns) to join
    every site with. tied: True has one coupling for all pairs, "directions" one for each offset; with False each site
    and each pair has parameters of its own. covariates: (rows, columns, C) for each image; a site's covariate times
    s_i (ising), each indicator (potts) or the score (ordinal), with parameters that all sites share.
    """
    labels = as_states(states, "the lattice")
    tables = _tables(labels, kind)
    offsets = offsets_of(neighbours)
    if tied not in (True, False, "directions"):
        raise InvalidInput(f'tied is True, False or "directions"; got {tied!r}')
    places = np.concatenate([np.column_stack([np.full(m.sum(), k), *np.nonzero(m)]) for k, m in enumerate(inside)])
    n, k = len(places), len(tables.site)
    names = [f"x{'' if len(inside) == 1 else image}[{r},{c}]" for image, r, c in places.tolist()]
    own = n if tied is False else 1
    blocks = [_block(np.arange(n)[:, None], tables.site, np.arange(own * k).reshape(own, k))]
    parameters = [who + mark for who in (names if tied is False else ["x"]) for mark in tables.site_marks]
    groups = ["nodes"] * len(parameters)
    if covariates is not None:
        values = _values(covariates, inside)
        blocks += _covariate_blocks(values, tables.covariate, len(parameters))
        parameters += [f"z{j}*x{mark}" for j in range(values.shape[1]) for mark in tables.covariate_marks]
        groups += ["covariates"] * (len(parameters) - len(groups))
    pairs = [pairs_at(inside, offset) for offset in offsets]
    for edges, offset in zip(pairs, offsets, strict=True):
        many = len(edges) if tied is False else 1
        shared = tied is True and offset != offsets[0]
        first = len(parameters) - 1 if shared else len(parameters)
        blocks.append(_block(edges, tables.pair, first + np.arange(many)[:, None]))
        if not shared:
            parameters += _pair_names(names, edges, offset, tied, tables.joined)
            groups += ["edges"] * many
    return RandomField.from_blocks([labels] * n, blocks, names, parameters, groups)


def offsets_of(neighbours: int | Sequence[Offset]) -> tuple[Offset, ...]:
    """Offsets (rows, columns), each direction once: (0, −1) is (0, 1)."""
    if isinstance(neighbours, int | np.integer):
        if int(neighbours) not in NEAREST:
            raise InvalidInput(f"neighbours is 4, 8, or a list of offsets (rows, columns); got {neighbours}")
        return NEAREST[int(neighbours)]
    found: list[Offset] = []
    for given in neighbours:
        try:
            down, right = (int(v) for v in given)
        except (TypeError, ValueError):
            raise InvalidInput(f"an offset is two whole numbers, (rows, columns); got {given!r}") from None
        if (down, right) == (0, 0):
            raise InvalidInput("the offset (0, 0) joins a site to itself; leave it out")
        offset = (down, right) if (down, right) > (0, 0) else (-down, -right)
        found += [] if offset in found else [offset]
    if not found:
        raise InvalidInput("neighbours has no offset: give 4, 8, or a list such as [(0, 1), (1, 0), (0, 2)]")
    return tuple(found)


def _tables(labels: tuple[Hashable, ...], kind: str) -> _Tables:
    indicators, marks = np.eye(len(labels))[1:], tuple(f"={s}" for s in labels[1:])
    if kind == "ising":
        if len(labels) != 2:
            raise InvalidInput(f"an Ising lattice has two states; got {len(labels)}")
        spin = np.array([[-1.0, 1.0]])
        return _Tables(spin, spin, np.einsum("ia,ib->iab", spin, spin), ("",), ("",), "*")
    if kind == "potts":
        return _Tables(indicators, indicators, np.eye(len(labels))[None], marks, marks, "==")
    if kind == "ordinal":
        score = state_values(labels)[None]
        return _Tables(indicators, score, np.einsum("ia,ib->iab", score, score), marks, ("",), "*")
    raise InvalidInput(f'kind is "auto", "ising", "potts" or "ordinal"; got {kind!r}')


def _block(scopes: IntArray, tables: FloatArray, parameters: IntArray) -> FactorBlock:
    whole = np.ascontiguousarray(np.broadcast_to(parameters, (len(scopes), len(tables))))
    return FactorBlock(scopes, tables, whole, None, tuple(range(scopes.shape[1])))


def pairs_at(inside: Sequence[BoolArray], offset: Offset) -> IntArray:
    """Sites that are so far apart, both inside, (E, 2)."""
    down, right = offset
    found, first = [], 0
    for mask in inside:
        number = np.full(mask.shape, -1, dtype=np.int64)
        number[mask] = first + np.arange(mask.sum())
        first += int(mask.sum())
        rows, columns = mask.shape
        here = number[: max(rows - down, 0), max(-right, 0) : max(columns - max(right, 0), 0)]
        there = number[down:, max(right, 0) : max(columns + min(right, 0), 0)]
        both = np.column_stack([here.ravel(), there.ravel()])
        found.append(both[(both >= 0).all(axis=1)])
    return edge_array(first, np.concatenate(found))


def _pair_names(names: list[str], edges: IntArray, offset: Offset, tied: bool | str, joined: str) -> list[str]:
    if tied is False:
        return [f"{names[i]}{joined}{names[j]}" for i, j in edges]
    return ["x" + joined + "x'" if tied is True else f"x{joined}x({offset[0]},{offset[1]})"]


def _values(covariates: Sequence[FloatArray], inside: Sequence[BoolArray]) -> FloatArray:
    """Covariates of the sites, (n, C)."""
    if len(covariates) != len(inside):
        raise InvalidInput(f"covariates are one array for each of the {len(inside)} images; got {len(covariates)}")
    found = []
    for given, mask in zip(covariates, inside, strict=True):
        array = np.asarray(given, dtype=np.float64)
        array = array[..., None] if array.ndim == 2 else array
        if array.ndim != 3 or array.shape[:2] != mask.shape:
            raise InvalidInput(
                f"covariates are (rows, columns) or (rows, columns, C) like the image, {mask.shape}; got {array.shape}"
            )
        found.append(array[mask])
    if len({v.shape[1] for v in found}) > 1:
        raise InvalidInput("all images need as many covariates")
    values = np.concatenate(found)
    if not np.isfinite(values).all():
        raise InvalidInput("covariates are finite numbers at every site of the field; leave others out by mask=")
    return values


def _covariate_blocks(values: FloatArray, tables: FloatArray, first: int) -> list[FactorBlock]:
    """A block for every distinct row of covariates: sites that are alike share their tables."""
    distinct, which = np.unique(values, axis=0, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(which.reshape(-1)))
    parameters = first + np.arange(distinct.shape[1] * len(tables))[None]
    blocks = []
    for row, some in zip(distinct, np.split(order, ends[:-1]), strict=True):
        own = (row[:, None, None] * tables).reshape(-1, tables.shape[1])
        blocks.append(_block(np.sort(some)[:, None], own, parameters))
    return blocks
