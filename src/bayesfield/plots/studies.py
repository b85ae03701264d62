"""Pictures of studies: posteriors against the truth, predictors against one another, ranks of true values."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from bayesfield.plots.style import CYCLE, POSITIVE, panels

_COLUMNS = 5  # of small pictures side by side


def score_curves(table: pd.DataFrame, x: str, label: str, floor: str, baselines: Sequence[str]) -> Figure:
    """CVM against N or d, a curve for each method: mean over models and sets, bars from model to model, or, where
    there is one model, from set to set.

    table: columns method, x, model, set, cvm, converged. floor: the method that shows what chance leaves. baselines:
    methods drawn with dashes. Points where some run did not converge are hollow.
    """
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False}):
        figure, axes = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
    names = [name for name in dict.fromkeys(table["method"]) if name != floor]
    for k, name in enumerate(names):
        own = table[table["method"] == name]
        part = "model" if own["model"].nunique() > 1 else "set"
        by_part = own.groupby([x, part])["cvm"].mean().unstack()
        mean, low, high = by_part.mean(axis=1), by_part.min(axis=1), by_part.max(axis=1)
        colour = CYCLE[k % len(CYCLE)]
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
            axes.stairs(arrays[f"{kind}_method"], edges, color=POSITIVE, linewidth=1.3, label="method")
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
        axes.errorbar(mean, np.arange(len(names)), xerr=error, fmt="o", color=POSITIVE, markersize=4, linewidth=1.2)
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
            axes.plot(mean.index, mean, "o-", color=CYCLE[k % len(CYCLE)], label=str(name), markersize=4)
        axes.set_xscale("log")
        axes.set_xlabel(x)
        axes.set_ylabel(label)
    grid[0, -1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def rank_histograms(table: pd.DataFrame, level: float) -> Figure:
    """A panel for each problem: shares of ranks by bin, and the band within which uniform ones stay (99 %).

    table: a row for each simulation: problem, covered, rank_0, rank_1, … The band's width is from simulation to
    simulation.
    """
    parts = list(table.groupby("problem", sort=False))
    figure, grid = panels(len(parts), (3.0, 2.2), columns=4, sharey=True)
    columns, highest = [c for c in table.columns if c.startswith("rank_")], 0.0
    for axes, (name, own) in zip(grid, parts, strict=True):
        shares = own[columns].to_numpy()
        wide = 2.576 * shares.std(axis=0, ddof=1) / np.sqrt(len(shares))
        even, place = 1.0 / len(columns), np.arange(len(columns))
        axes.bar(place, 2 * wide, bottom=even - wide, color="#bbbbbb", width=1.0)
        axes.step(place, shares.mean(axis=0), where="mid", color=POSITIVE, linewidth=1.5)
        axes.axhline(even, color="black", linewidth=0.8)
        axes.set_title(f"{name}: {level:.0%} intervals hold {own['covered'].mean():.1%}", fontsize=8)
        axes.set_xticks([])
        axes.tick_params(labelsize=7)
        axes.set_xlabel("rank of the true value", fontsize=7)
        highest = max(highest, float(shares.mean(axis=0).max()), float((even + wide).max()))
    grid[0].set_ylim(0.0, 1.05 * highest)  # of all panels: they share it
    return figure


def extreme_errors(table: pd.DataFrame) -> Figure:
    """Errors of mean, sd, intervals and P(λ > 0) of every model against the prior variance; hollow: with a warning.

    table: a row for each model, the largest errors over its parameters (experiments.extreme.judge).
    """
    figure, grid = panels(4, (3.4, 2.6), columns=2)
    columns = {
        "mean_error": "mean, off by (sd)",
        "sd_error": "sd, off by (share)",
        "held_least": "95 % interval holds, least",
        "p_error": "P(λ > 0), off by",
    }
    for axes, (column, label) in zip(grid, columns.items(), strict=True):
        colours = np.where(table["warned"], "none", POSITIVE)
        heights = table[column] if column == "held_least" else np.maximum(table[column], 1e-4)
        axes.scatter(table["variance"], heights, s=10, color=colours, edgecolor=POSITIVE, linewidth=0.7)
        axes.set_xscale("log")
        if column != "held_least":
            axes.set_yscale("log")
        axes.set_xlabel("prior variance", fontsize=8)
        axes.set_ylabel(label, fontsize=8)
        axes.tick_params(labelsize=7)
    return figure
