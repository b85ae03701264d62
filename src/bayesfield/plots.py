"""Pictures of what has been computed: axes in, axes out. Nothing here computes."""

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure as Figure
from matplotlib.ticker import MaxNLocator

from bayesfield.model import RandomField
from bayesfield.posterior import FitRecord, Posterior
from bayesfield.prediction import PredictiveCheck
from bayesfield.prediction.statistics import SUM_SCORE
from bayesfield.types import InvalidInput

_POSITIVE, _NEGATIVE, _UNCLEAR = "#0072b2", "#d55e00", "#8c8c8c"  # Okabe & Ito: told apart by all eyes
_CYCLE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c8c", "#7a5c00")
_COLUMNS = 5  # of small pictures side by side
_DIVERGING = "PuOr_r"


def forest(
    posterior: Posterior, parameters: Sequence[str] | None = None, level: float = 0.95, ax: Axes | None = None
) -> Axes:
    """Mean and central interval of each parameter; those that exclude zero in colour.

    parameters: which to show, by name; by default all, or the 40 that are farthest from zero in standard deviations.
    """
    table = posterior.summary(level)
    if parameters is not None:
        table = table.loc[list(parameters)]
    elif len(table) > 40:
        strongest = (table["mean"] / table["sd"]).abs().nlargest(40).index
        table = table.loc[table.index.isin(strongest)]
    axes = _axes(ax, (6.4, 1.0 + 0.19 * len(table)))
    height = np.arange(len(table))[::-1]
    colours = np.where(table["lower"] > 0, _POSITIVE, np.where(table["upper"] < 0, _NEGATIVE, _UNCLEAR))
    axes.hlines(height, table["lower"], table["upper"], colors=colours.tolist(), linewidth=2)
    axes.scatter(table["mean"], height, c=colours, s=14, zorder=3)
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set_yticks(height, list(table.index), fontsize=7)
    axes.set_ylim(-1, len(table))
    axes.set_xlabel(f"parameter (mean and {level:.0%} interval)")
    return axes


def lattice(posterior: Posterior, rows: int, columns: int, ax: Axes | None = None) -> Axes:
    """A lattice's parameters in place: couplings as bonds, fields as sites; width grows with |mean| / sd."""
    field = posterior.field
    n = rows * columns
    if not isinstance(field, RandomField):
        raise InvalidInput(f"a lattice is a bf.RandomField; got {field!r}")
    edges = np.array(field.edges, dtype=np.int64).reshape(-1, 2)
    if field.n_variables != n or field.n_parameters != n + len(edges):
        raise InvalidInput(f"a {rows} × {columns} lattice has {n} sites with one parameter each; got {field!r}")
    axes = _axes(ax, (1.6 + 0.75 * columns, 1.0 + 0.72 * rows))
    place = np.stack([np.arange(n) % columns, np.arange(n) // columns], axis=1)
    mean, certainty = posterior.mean, np.abs(posterior.mean) / posterior.sd
    limit = np.abs(mean).max(initial=1e-9)
    norm = TwoSlopeNorm(0.0, -limit, limit)
    bonds = LineCollection(
        list(place[edges]),
        array=mean[n:],
        cmap=_DIVERGING,
        norm=norm,
        linewidths=1.0 + 5.0 * np.clip(certainty[n:] / 10.0, 0, 1),
        zorder=1,
    )
    axes.add_collection(bonds)
    sites = axes.scatter(place[:, 0], place[:, 1], c=mean[:n], s=130, zorder=2, cmap=_DIVERGING, norm=norm)
    sites.set_edgecolor("black")
    axes.figure.colorbar(bonds, ax=axes, label="posterior mean: couplings (bonds), fields (sites)", shrink=0.8)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.set_axis_off()
    return axes


def convergence(record: FitRecord, ax: Axes | None = None) -> Axes:
    """The optimiser's gradient and distance to the optimum, step by step, on a log scale."""
    axes = _axes(ax, (5.4, 3.6))
    steps = [i.number for i in record.iterations]
    gradient = np.array([i.gradient for i in record.iterations])
    distance = np.array([i.distance for i in record.iterations])
    axes.semilogy(steps, np.maximum(gradient, 1e-16), "o-", color=_POSITIVE, label="largest gradient entry")
    if np.isfinite(distance).any():
        axes.semilogy(steps, np.maximum(distance, 1e-16), "s--", color=_NEGATIVE, label="distance in posterior sd")
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False)
    return axes


def network(table: pd.DataFrame, ax: Axes | None = None, threshold: float = 0.5) -> Axes:
    """Edges that are more likely there than a threshold: width by the effect, colour by its sign, shade by certainty.

    table: of ``posterior.edges()`` or of ``bf.search_structure(...)``.
    """
    _need(table, "first", "second", "inclusion", "mean")
    axes, places = _circle(table, ax)
    there = table[table["inclusion"] >= threshold]
    strongest = max(float(there["mean"].abs().max()), 1e-300) if len(there) else 1.0
    for row in _rows(there):
        colour = _POSITIVE if row.mean > 0 else _NEGATIVE
        width = 0.5 + 5.0 * abs(row.mean) / strongest
        sure = (row.inclusion - threshold) / (1.0 - threshold)
        _line(axes, places, row, color=colour, linewidth=width, alpha=0.25 + 0.75 * sure)
    axes.set_title(f"{len(there)} of {len(table)} edges with inclusion above {threshold:g}", fontsize=9)
    _key(axes, {"positive": _POSITIVE, "negative": _NEGATIVE})
    return axes


def edge_evidence(table: pd.DataFrame, ax: Axes | None = None, threshold: int = 10) -> Axes:
    """What the data say of every edge: there, not there, or not enough to tell, at a Bayes factor of 10 or 3."""
    _need(table, "first", "second", f"at_{threshold}")
    axes, places = _circle(table, ax)
    colours = {"included": _POSITIVE, "inconclusive": _UNCLEAR, "excluded": _NEGATIVE}
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
    axes = _axes(ax, (1.5 + 0.3 * len(names), 1.0 + 0.3 * len(names)))
    image = axes.imshow(matrix, vmin=0.0, vmax=1.0, cmap=_DIVERGING)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.figure.colorbar(image, ax=axes, label="probability that the edge is there", shrink=0.8)
    return axes


def structure_sizes(structures: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """How many edges the visited structures have. structures: of ``bf.search_structure(...)``."""
    _need(structures, "share")
    axes = _axes(ax, (5.6, 3.2))
    edges = structures.drop(columns="share").sum(axis=1)
    share = structures["share"].groupby(edges).sum() / structures["share"].sum()
    axes.bar(share.index, share.to_numpy(), color=_POSITIVE)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("edges")
    axes.set_ylabel("posterior probability")
    return axes


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
    axes = _axes(ax, (6.0, 6.0))
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


def predictive(check: PredictiveCheck) -> Figure:
    """A panel for each statistic: observed against replicated values, with their 95 % intervals; outside in orange.

    Sum scores are a histogram, with the replicated band behind it.
    """
    parts = list(check.table.groupby("statistic", sort=False))
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False}):
        columns = min(len(parts), 3)
        rows = -(-len(parts) // columns)
        figure, grid = plt.subplots(
            rows, columns, figsize=(3.5 * columns, 3.2 * rows), layout="constrained", squeeze=False
        )
    for axes, (name, table) in zip(grid.flat, parts, strict=False):
        (_sum_score_band if name == SUM_SCORE else _observed_against)(axes, table)
        axes.set_title(str(name), fontsize=9)
        axes.tick_params(labelsize=7)
    for empty in grid.flat[len(parts) :]:
        empty.set_visible(False)
    return figure


def _observed_against(axes: Axes, table: pd.DataFrame) -> None:
    known = table.dropna()
    outside = (known["observed"] < known["lower"]) | (known["observed"] > known["upper"])
    for some, colour, marker in ((known[~outside], _POSITIVE, "o"), (known[outside], _NEGATIVE, "D")):
        axes.vlines(some["observed"], some["lower"], some["upper"], color=colour, linewidth=1.0, alpha=0.5)
        axes.scatter(some["observed"], some["mean"], color=colour, marker=marker, s=12, zorder=3)
    ends = known[["observed", "lower", "upper"]].to_numpy()
    if len(ends):
        axes.plot([ends.min(), ends.max()], [ends.min(), ends.max()], color="black", linewidth=0.8, zorder=1)
    axes.set_xlabel("observed", fontsize=8)
    axes.set_ylabel("replicated, 95 %", fontsize=8)


def _sum_score_band(axes: Axes, table: pd.DataFrame) -> None:
    place = np.arange(len(table))
    axes.bar(place, table["upper"] - table["lower"], bottom=table["lower"], color="#bbbbbb", width=0.9)
    axes.plot(place, table["observed"], "o-", color=_POSITIVE, markersize=4, linewidth=1.0)
    step = -(-len(table) // 8)
    axes.set_xticks(place[::step], list(table["item"])[::step], rotation=45, ha="right")
    axes.set_ylabel("share of cases; grey: replicated, 95 %", fontsize=8)


def score_curves(table: pd.DataFrame, x: str, label: str, floor: str, baselines: Sequence[str]) -> Figure:
    """CVM against N or d, a curve for each method: mean over models and sets, bars from model to model.

    table: columns method, x, model, cvm, converged. floor: the method that shows what chance leaves. baselines: methods
    drawn with dashes. Points where some run did not converge are hollow.
    """
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False}):
        figure, axes = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
    names = [name for name in dict.fromkeys(table["method"]) if name != floor]
    for k, name in enumerate(names):
        own = table[table["method"] == name]
        by_model = own.groupby([x, "model"])["cvm"].mean().unstack()
        mean, low, high = by_model.mean(axis=1), by_model.min(axis=1), by_model.max(axis=1)
        colour = _CYCLE[k % len(_CYCLE)]
        style = "--" if name in baselines else "-"
        axes.plot(mean.index, mean, style, color=colour, label=name, linewidth=1.6)
        axes.vlines(mean.index, low, high, color=colour, alpha=0.4)
        well = own.groupby(x)["converged"].all().reindex(mean.index)
        axes.scatter(mean.index, mean, color=np.where(well, colour, "white"), edgecolor=colour, zorder=3, s=26)
    chance = table[table["method"] == floor].groupby(x)["cvm"].mean()
    axes.plot(chance.index, chance, color="black", linewidth=1.0, linestyle=":", label="two exact sets")
    axes.set_yscale("log")
    if table[x].max() / max(table[x].min(), 1e-9) > 50:
        axes.set_xscale("log")
    axes.set_xlabel(label)
    axes.set_ylabel("Cramér-von Mises distance, all parameters")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def marginal_histograms(
    shown: Mapping[str, Mapping[str, Any]], names: Sequence[str], kinds: Sequence[str] = ("worst", "best")
) -> Figure:
    """For each method the marginal farthest from the truth and the one nearest to it, over the truth in grey.

    shown: by method, histograms worst_… and best_…: edges, method, truth, parameter (a number in ``names``), cvm.
    """
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False}):
        columns = min(max(len(shown), 1), _COLUMNS)
        rows = len(kinds) * max(1, -(-len(shown) // columns))
        figure, grid = plt.subplots(
            rows, columns, figsize=(2.3 * columns, 2.2 * rows), layout="constrained", squeeze=False
        )
    for empty in grid.flat:
        empty.set_visible(False)
    for number, (method, arrays) in enumerate(shown.items()):
        for below, kind in enumerate(kinds):
            axes, edges = grid[len(kinds) * (number // columns) + below, number % columns], arrays[f"{kind}_edges"]
            axes.set_visible(True)
            axes.stairs(arrays[f"{kind}_truth"], edges, fill=True, color="#bbbbbb", label="exact")
            axes.stairs(arrays[f"{kind}_method"], edges, color=_POSITIVE, linewidth=1.3, label="method")
            axes.set_yticks([])
            axes.tick_params(labelsize=7)
            name = names[int(arrays[f"{kind}_parameter"])]
            axes.set_title(f"{method}\n{kind}: {name}, CVM {float(arrays[f'{kind}_cvm']):.2g}", fontsize=7)
    if shown:
        grid[0, 0].legend(frameon=False, fontsize=7)
    return figure


def predictor_scores(table: pd.DataFrame, columns: Mapping[str, str]) -> Figure:
    """A row for each method, a panel for each score: mean over splits, bars of one standard error."""
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False}):
        names = list(dict.fromkeys(table["method"]))
        size = (3.4 * len(columns) + 1.0, 0.32 * len(names) + 1.0)
        figure, grid = plt.subplots(1, len(columns), figsize=size, layout="constrained", sharey=True, squeeze=False)
    for axes, (column, label) in zip(grid[0], columns.items(), strict=True):
        found = table.groupby("method", sort=False)[column]
        mean, error = found.mean(), found.sem().fillna(0.0)
        axes.errorbar(mean, np.arange(len(names)), xerr=error, fmt="o", color=_POSITIVE, markersize=4, linewidth=1.2)
        axes.set_yticks(np.arange(len(names)), names, fontsize=8)
        axes.set_xlabel(label)
    grid[0, 0].invert_yaxis()
    return figure


def predictor_curves(table: pd.DataFrame, x: str, columns: Mapping[str, str]) -> Figure:
    """A panel for each score, a curve for each method, by x on a logarithmic axis."""
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False}):
        figure, grid = plt.subplots(
            1, len(columns), figsize=(3.2 * len(columns) + 1.8, 3.4), layout="constrained", squeeze=False
        )
    for axes, (column, label) in zip(grid[0], columns.items(), strict=True):
        for k, (name, own) in enumerate(table.groupby("method", sort=False)):
            mean = own.groupby(x)[column].mean()
            axes.plot(mean.index, mean, "o-", color=_CYCLE[k % len(_CYCLE)], label=str(name), markersize=4)
        axes.set_xscale("log")
        axes.set_xlabel(x)
        axes.set_ylabel(label)
    grid[0, -1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def rendered(figure: Figure, suffix: str) -> bytes:
    """The figure as a file's content: "png" or "svg"."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=suffix, dpi=150)
    return buffer.getvalue()


def close(figure: Figure) -> None:
    plt.close(figure)


def _axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    if ax is not None:
        return ax
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False}):
        _, axes = plt.subplots(figsize=size, layout="constrained")
    return axes
