"""Pictures of how a fit went, and how its model stands against data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayesfield.analysis.statistics import SUM_SCORE
from bayesfield.plots.style import NEGATIVE, POSITIVE, axes_of, headline, panels, short
from bayesfield.types import InvalidInput, Status

if TYPE_CHECKING:
    from bayesfield.analysis.predictive_check import PredictiveCheck
    from bayesfield.posterior.record import FitRecord

_NAMED = 3  # points of a panel that are named
_IN_WORDS = {
    "mean": "of each variable",
    "share": "of each state of each variable",
    "correlation": "of each pair of variables",
    "agreement": "how often each pair is in the same state",
    SUM_SCORE: "a case's states added up",
    "cluster": "size of sets of joined variables in the same state",
}


def convergence(record: FitRecord, ax: Axes | None = None) -> Axes:
    """The optimiser's gradient and distance to the optimum, step by step, on a log scale."""
    axes = axes_of(ax, (5.4, 3.6))
    steps = [i.number for i in record.iterations]
    gradient = np.array([i.gradient for i in record.iterations])
    distance = np.array([i.distance for i in record.iterations])
    axes.semilogy(steps, np.maximum(gradient, 1e-16), "o-", color=POSITIVE, label="largest gradient entry")
    if np.isfinite(distance).any():
        axes.semilogy(steps, np.maximum(distance, 1e-16), "s--", color=NEGATIVE, label="distance in posterior sd")
    axes.set_xlabel("step")
    axes.set_ylabel("how far from the mode")
    axes.set_title("the search for the mode", fontsize=9)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False)
    return axes


def messages(status: Status, ax: Axes | None = None) -> Axes:
    """How messages of belief propagation, or of generalized belief propagation, settled: the largest change, by sweep.

    status: of ``bf.infer(…)``, or ``posterior.record.inference``.
    """
    if not len(status.history):
        raise InvalidInput(f"there are no messages to show: {status}. Sweeps are told by bf.Bethe() and bf.Kikuchi()")
    axes = axes_of(ax, (5.4, 3.6))
    sweeps = np.arange(1, len(status.history) + 1)
    axes.semilogy(sweeps, np.maximum(status.history, 1e-16), color=POSITIVE, linewidth=1.4)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("sweep")
    axes.set_ylabel("largest change of a message")
    axes.set_title(f"messages at the mode: {status.outcome.value}", fontsize=9)
    return axes


def reliability(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Predicted probabilities against how often they came true; on the diagonal they are right.

    table: of ``bf.reliability``.
    """
    axes = axes_of(ax, (4.6, 4.6))
    axes.plot([0, 1], [0, 1], color="black", linewidth=0.8)
    axes.vlines(table["predicted"], table["lower"], table["upper"], color=POSITIVE, alpha=0.5)
    axes.scatter(
        table["predicted"], table["observed"], s=10 + 60 * table["cells"] / table["cells"].max(), color=POSITIVE
    )
    axes.set_xlabel("predicted, given the case's other cells")
    axes.set_ylabel("how often it came true, 95 %")
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_title(f"calibration over {int(table['cells'].sum()):,} predictions", fontsize=9)
    axes.set_aspect("equal")
    return axes


def predictive(check: PredictiveCheck) -> Figure:
    """A panel for each statistic: observed against replicated values, with their 95 % intervals; outside in orange.

    Sum scores are a histogram, with the replicated band behind it.
    """
    parts = list(check.table.groupby("statistic", sort=False))
    figure, grid = panels(len(parts), (3.5, 3.2), columns=3)
    for axes, (name, table) in zip(grid, parts, strict=True):
        (_sum_score_band if name == SUM_SCORE else _observed_against)(axes, table)
        axes.set_title(str(name), fontsize=9, pad=16 if name in _IN_WORDS else None)
        axes.text(0.5, 1.02, _IN_WORDS.get(str(name), ""), transform=axes.transAxes, ha="center", fontsize=7)
        axes.tick_params(labelsize=7)
    headline(figure, "the data against data that the model would give;", "orange: outside the 95 % interval")
    return figure


def _observed_against(axes: Axes, table: pd.DataFrame) -> None:
    known = table.dropna()
    outside = (known["observed"] < known["lower"]) | (known["observed"] > known["upper"])
    for some, colour, marker in ((known[~outside], POSITIVE, "o"), (known[outside], NEGATIVE, "D")):
        axes.vlines(some["observed"], some["lower"], some["upper"], color=colour, linewidth=1.0, alpha=0.5)
        axes.scatter(some["observed"], some["mean"], color=colour, marker=marker, s=12, zorder=3)
    ends = known[["observed", "lower", "upper"]].to_numpy()
    if len(ends):
        axes.plot([ends.min(), ends.max()], [ends.min(), ends.max()], color="black", linewidth=0.8, zorder=1)
    if len(known) <= _NAMED:
        for name, x, y in known[["item", "observed", "mean"]].itertuples(index=False):
            axes.annotate(short(str(name)), (x, y), (5, -8), textcoords="offset points", fontsize=7)
        axes.margins(x=0.25)
    axes.set_xlabel("observed", fontsize=8)
    axes.set_ylabel("replicated, 95 %", fontsize=8)


def _sum_score_band(axes: Axes, table: pd.DataFrame) -> None:
    place = np.arange(len(table))
    axes.bar(place, table["upper"] - table["lower"], bottom=table["lower"], color="#bbbbbb", width=0.9)
    axes.plot(place, table["observed"], "o-", color=POSITIVE, markersize=4, linewidth=1.0)
    step = -(-len(table) // 8)
    axes.set_xticks(place[::step], list(table["item"])[::step], rotation=45, ha="right")
    axes.set_ylabel("share of cases; grey: replicated, 95 %", fontsize=8)
