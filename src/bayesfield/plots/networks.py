"""Pictures of networks: which edges are there, how strong, how sure; and which variables are central."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayesfield.plots.circle import circle, ends, key, line, thinner
from bayesfield.plots.style import DIVERGING, NEGATIVE, POSITIVE, UNCLEAR, axes_of, headline, panels, short
from bayesfield.types import InvalidInput

_MEASURES = {
    "strength": "sum of |couplings|",
    "expected_influence": "sum of couplings",
    "closeness": "1 / mean distance to the others",
    "betweenness": "share of shortest paths through it",
}


def network(table: pd.DataFrame, ax: Axes | None = None, threshold: float = 0.5, *, most: int = 200) -> Axes:
    """Edges that are more likely there than a threshold: width by the effect, colour by its sign, shade by certainty.

    table: of ``posterior.edges()`` or of ``bf.search_structure(...)``. Edges of several parameters have no sign: their
    width is by the log Bayes factor. most: edges beyond which those that are inconclusive at a Bayes factor of 10 are
    left out, which the legend says.
    """
    effect_column = "mean" if "mean" in getattr(table, "columns", ()) else "log_bayes_factor"
    _need(table, "first", "second", "inclusion", effect_column)
    axes, places = circle(table, ax)
    there = table[table["inclusion"] >= threshold]
    shown = there[there["at_10"] == "included"] if len(there) > most and "at_10" in there else there
    signed, effect = effect_column == "mean", shown[effect_column]
    strongest = max(float(effect.abs().max()), 1e-300) if len(shown) else 1.0
    for row, size in zip(_rows(shown), effect, strict=True):
        colour = UNCLEAR if not signed else POSITIVE if size > 0 else NEGATIVE
        width = (0.5 + 5.0 * abs(size) / strongest) * thinner(len(shown))
        sure = (row.inclusion - threshold) / max(1.0 - threshold, 1e-9)
        line(axes, places, row, color=colour, linewidth=width, alpha=0.25 + 0.75 * sure)
    what = "effect" if signed else "log Bayes factor"
    axes.set_title(
        f"{len(there):,} of {len(table):,} edges with inclusion above {threshold:g}\nwidth: {what}; faint: unsure",
        fontsize=9,
    )
    left_out = len(there) - len(shown)
    notes = {f"{left_out:,} inconclusive at a Bayes factor of 10: not drawn": ""} if left_out else {}
    if signed or notes:
        key(axes, ({"positive": POSITIVE, "negative": NEGATIVE} if signed else {}) | notes)
    return axes


def edge_evidence(table: pd.DataFrame, ax: Axes | None = None, threshold: int = 10, *, most: int = 200) -> Axes:
    """What the data say of every edge: there, not there, or not enough to tell, at a Bayes factor of 10 or 3.

    most: how many inconclusive or excluded edges are drawn; where there are more, the legend just counts them.
    """
    _need(table, "first", "second", f"at_{threshold}")
    axes, places = circle(table, ax)
    colours = {"included": POSITIVE, "inconclusive": UNCLEAR, "excluded": NEGATIVE}
    verdict = table[f"at_{threshold}"]
    count = {name: int((verdict == name).sum()) for name in colours}
    drawn = [name for name in ("inconclusive", "excluded", "included") if name == "included" or count[name] <= most]
    for name in drawn:
        width = thinner(count[name]) * (1.0 if name == "inconclusive" else 2.2)
        for row in _rows(table[verdict == name]):
            line(axes, places, row, color=colours[name], linewidth=width, alpha=0.8)
    axes.set_title(f"evidence for each of {len(table):,} edges at a Bayes factor of {threshold}", fontsize=9)
    told = {name: f"{name} ({count[name]:,}{'' if name in drawn else ', not drawn'})" for name in colours}
    key(axes, {told[name]: colour for name, colour in colours.items()})
    return axes


def inclusion(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """The inclusion probability of every edge as a matrix; hatched where there is no edge to judge."""
    _need(table, "first", "second", "inclusion")
    names = ends(table)
    at = {name: k for k, name in enumerate(names)}
    matrix = np.full((len(names), len(names)), np.nan)
    for row in _rows(table):
        i, j = at[str(row.first)], at[str(row.second)]
        matrix[i, j] = matrix[j, i] = row.inclusion
    side = len(names) * float(np.clip(6.0 / max(len(names), 1), 0.15, 0.3))
    axes = axes_of(ax, (max(4.2, 2.2 + side), max(3.4, 1.4 + side)))
    axes.patch.set(facecolor="#dddddd", edgecolor="#999999", hatch="/////")
    image = axes.imshow(matrix, vmin=0.0, vmax=1.0, cmap=DIVERGING)
    labels = [short(name) for name in names]
    axes.set_xticks(range(len(names)), labels, rotation=90, fontsize=7)
    axes.set_yticks(range(len(names)), labels, fontsize=7)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.8)
    bar.set_label("probability that the edge is there", fontsize=8)
    axes.set_title(f"inclusion of {len(table):,} edges; hatched: no edge", fontsize=9)
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
    axes.set_title(f"size of {len(structures):,} visited structures", fontsize=9)
    return axes


def centrality(table: pd.DataFrame) -> Figure:
    """A panel for each measure: every variable's mean and interval, the most central on top.

    table: of ``bf.centrality``.
    """
    _need(table, "variable", "measure", "mean", "lower", "upper")
    parts = list(table.groupby("measure", sort=False))
    count = table["variable"].nunique()
    figure, grid = panels(len(parts), (3.2, 1.4 + 0.2 * count), columns=4)
    for axes, (name, own) in zip(grid, parts, strict=True):
        ordered = own.sort_values("mean")
        height = np.arange(len(ordered))
        axes.hlines(height, ordered["lower"], ordered["upper"], color=POSITIVE, linewidth=2, alpha=0.6)
        axes.scatter(ordered["mean"], height, color=POSITIVE, s=14, zorder=3)
        axes.set_yticks(height, [short(str(v)) for v in ordered["variable"]], fontsize=7)
        axes.set_ylim(-1, len(ordered))
        axes.set_title(str(name).replace("_", " "), fontsize=9)
        axes.set_xlabel(_MEASURES.get(str(name), "mean and interval"), fontsize=8)
        axes.tick_params(axis="x", labelsize=7)
    headline(figure, f"how central each of {count:,} variables is:", "mean and interval over draws")
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
