"""Pictures of networks: which edges are there, how strong, how sure; and which variables are central."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayesfield.plots.style import DIVERGING, NEGATIVE, POSITIVE, UNCLEAR, axes_of, panels
from bayesfield.types import InvalidInput


def network(table: pd.DataFrame, ax: Axes | None = None, threshold: float = 0.5) -> Axes:
    """Edges that are more likely there than a threshold: width by the effect, colour by its sign, shade by certainty.

    table: of ``posterior.edges()`` or of ``bf.search_structure(...)``. Edges of several parameters have no sign: their
    width is by the log Bayes factor.
    """
    effect_column = "mean" if "mean" in getattr(table, "columns", ()) else "log_bayes_factor"
    _need(table, "first", "second", "inclusion", effect_column)
    axes, places = _circle(table, ax)
    there = table[table["inclusion"] >= threshold]
    signed, effect = effect_column == "mean", there[effect_column]
    strongest = max(float(effect.abs().max()), 1e-300) if len(there) else 1.0
    for row, size in zip(_rows(there), effect, strict=True):
        colour = UNCLEAR if not signed else POSITIVE if size > 0 else NEGATIVE
        width = 0.5 + 5.0 * abs(size) / strongest
        sure = (row.inclusion - threshold) / (1.0 - threshold)
        _line(axes, places, row, color=colour, linewidth=width, alpha=0.25 + 0.75 * sure)
    axes.set_title(f"{len(there)} of {len(table)} edges with inclusion above {threshold:g}", fontsize=9)
    if signed:
        _key(axes, {"positive": POSITIVE, "negative": NEGATIVE})
    return axes


def edge_evidence(table: pd.DataFrame, ax: Axes | None = None, threshold: int = 10) -> Axes:
    """What the data say of every edge: there, not there, or not enough to tell, at a Bayes factor of 10 or 3."""
    _need(table, "first", "second", f"at_{threshold}")
    axes, places = _circle(table, ax)
    colours = {"included": POSITIVE, "inconclusive": UNCLEAR, "excluded": NEGATIVE}
    verdict = table[f"at_{threshold}"]
    for name in ("inconclusive", "excluded", "included"):
        for row in _rows(table[verdict == name]):
            _line(axes, places, row, color=colours[name], linewidth=1.0 if name == "inconclusive" else 2.2, alpha=0.8)
    axes.set_title(f"evidence at a Bayes factor of {threshold}", fontsize=9)
    _key(axes, {f"{name} ({int((verdict == name).sum())})": colour for name, colour in colours.items()})
    return axes


def inclusion(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """The inclusion probability of every edge as a matrix."""
    _need(table, "first", "second", "inclusion")
    names = _ends(table)
    at = {name: k for k, name in enumerate(names)}
    matrix = np.full((len(names), len(names)), np.nan)
    for row in _rows(table):
        i, j = at[str(row.first)], at[str(row.second)]
        matrix[i, j] = matrix[j, i] = row.inclusion
    axes = axes_of(ax, (1.5 + 0.3 * len(names), 1.0 + 0.3 * len(names)))
    image = axes.imshow(matrix, vmin=0.0, vmax=1.0, cmap=DIVERGING)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.figure.colorbar(image, ax=axes, label="probability that the edge is there", shrink=0.8)
    return axes


def structure_sizes(structures: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """How many edges the visited structures have. structures: of ``bf.search_structure(...)``."""
    _need(structures, "share")
    axes = axes_of(ax, (5.6, 3.2))
    edges = structures.drop(columns="share").sum(axis=1)
    share = structures["share"].groupby(edges).sum() / structures["share"].sum()
    axes.bar(share.index, share.to_numpy(), color=POSITIVE)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("edges")
    axes.set_ylabel("posterior probability")
    return axes


def centrality(table: pd.DataFrame) -> Figure:
    """A panel for each measure: every variable's mean and interval, the most central on top.

    table: of ``bf.centrality``.
    """
    _need(table, "variable", "measure", "mean", "lower", "upper")
    parts = list(table.groupby("measure", sort=False))
    count = table["variable"].nunique()
    figure, grid = panels(len(parts), (3.2, 1.0 + 0.2 * count), columns=4)
    for axes, (name, own) in zip(grid, parts, strict=True):
        ordered = own.sort_values("mean")
        height = np.arange(len(ordered))
        axes.hlines(height, ordered["lower"], ordered["upper"], color=POSITIVE, linewidth=2, alpha=0.6)
        axes.scatter(ordered["mean"], height, color=POSITIVE, s=14, zorder=3)
        axes.set_yticks(height, list(ordered["variable"]), fontsize=7)
        axes.set_title(str(name).replace("_", " "), fontsize=9)
        axes.tick_params(axis="x", labelsize=7)
    return figure


def _rows(table: pd.DataFrame) -> Iterator[Any]:
    """Edges one by one, by the names of their columns."""
    return table.itertuples()


def _need(table: Any, *columns: str) -> None:
    missing = [c for c in columns if not isinstance(table, pd.DataFrame) or c not in table]
    if missing:
        raise InvalidInput(
            f"this picture is of a table with the columns {', '.join(columns)}: posterior.edges(), or .table or "
            f".structures of bf.search_structure(…); {missing[0]!r} is missing"
        )


def _ends(table: pd.DataFrame) -> list[str]:
    return [str(name) for name in dict.fromkeys([*table["first"], *table["second"]])]


def _circle(table: pd.DataFrame, ax: Axes | None) -> tuple[Axes, dict[str, tuple[float, float]]]:
    """Axes with the variables on a circle, and where each of them is."""
    names = _ends(table)
    axes = axes_of(ax, (6.0, 6.0))
    turn = np.pi / 2 - 2 * np.pi * np.arange(len(names)) / max(len(names), 1)
    places = {name: (float(np.cos(t)), float(np.sin(t))) for name, t in zip(names, turn, strict=True)}
    for name, (x, y) in places.items():
        axes.plot(x, y, "o", color="black", markersize=5, zorder=3)
        side = "left" if x > 0.1 else "right" if x < -0.1 else "center"
        axes.text(1.08 * x, 1.08 * y, name, ha=side, va="center", fontsize=8)
    axes.set_xlim(-1.45, 1.45)
    axes.set_ylim(-1.3, 1.3)
    axes.set_aspect("equal")
    axes.axis("off")
    return axes, places


def _line(axes: Axes, places: Mapping[str, tuple[float, float]], row: Any, **style: Any) -> None:
    (x, y), (u, v) = places[str(row.first)], places[str(row.second)]
    axes.plot([x, u], [y, v], solid_capstyle="round", **style)


def _key(axes: Axes, colours: Mapping[str, str]) -> None:
    handles = [axes.plot([], [], color=colour, linewidth=2.2, label=name)[0] for name, colour in colours.items()]
    axes.legend(handles=handles, loc="lower center", ncol=len(colours), frameon=False, fontsize=8)
