"""The picture of what the prior does: a curve for each parameter, named where it ends."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from bayesfield.plots.choice import holding
from bayesfield.plots.style import CYCLE, axes_of, short
from bayesfield.types import FloatArray, InvalidInput

_FEW = 12  # curves, where all would be too many to read
_STYLES = ("-", (0, (4, 1.5)), (0, (1, 1.2)))  # of curves with the same colour
_LINE = 0.14  # inches of a name's line


def sensitivity(table: pd.DataFrame, parameters: Sequence[str] | str | None = None, ax: Axes | None = None) -> Axes:
    """How means and intervals move as the prior's variance is multiplied: a curve for each parameter.

    table: of ``bf.prior_sensitivity``. parameters: a list of names, or a text that is in the names; by default all, or
    the 12 that move the most in standard deviations.
    """
    names, words = _chosen(table, parameters)
    axes = axes_of(ax, (7.0, max(4.2, 1.2 + _LINE * len(names))))
    for k, name in enumerate(names):
        own, look = table[table["parameter"] == name].sort_values("factor"), _look(k)
        axes.plot(own["factor"], own["mean"], marker="o", label=name, markersize=3, linewidth=1.4, **look)
        axes.fill_between(own["factor"], own["lower"], own["upper"], color=look["color"], alpha=0.08, linewidth=0)
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.axvline(1.0, color="black", linewidth=0.8, linestyle=":")
    factors = sorted(set(table["factor"]))
    axes.set_xscale("log", base=2)
    axes.set_xticks(factors, [f"{f:g}" for f in factors])
    axes.set_xlabel("the prior's variance, times")
    axes.set_ylabel("parameter (mean and interval)")
    axes.set_title(words, fontsize=9)
    _name_ends(axes, table, names)
    return axes


def _chosen(table: pd.DataFrame, parameters: Sequence[str] | str | None) -> tuple[list[str], str]:
    """Names of the curves, and what they are in words."""
    known = list(dict.fromkeys(table["parameter"]))
    if parameters is not None and not isinstance(parameters, str):
        absent = [name for name in parameters if name not in known]
        if absent:
            raise InvalidInput(
                f"there is no parameter {absent[0]!r} in the table, which has {len(known)}, such as {known[:3]}"
            )
        return list(parameters), f"{len(parameters):,} of {len(known):,} parameters"
    pool = known if parameters is None else holding(known, parameters)
    what = "parameters" if parameters is None else f"parameters with {parameters!r}"
    if len(pool) <= _FEW:
        return pool, f"all {len(pool):,} {what}" if len(pool) > 1 else what
    by_name = table.groupby("parameter")
    moves = ((by_name["mean"].max() - by_name["mean"].min()) / by_name["sd"].mean())[pool]
    most = set(moves.nlargest(_FEW).index)
    return [name for name in pool if name in most], f"the {_FEW} of {len(pool):,} {what} that move most, in sd"


def _look(k: int) -> dict[str, Any]:
    """Colour and line of curve k: no two alike among the first 27."""
    return {"color": CYCLE[k % len(CYCLE)], "linestyle": _STYLES[k // len(CYCLE) % len(_STYLES)]}


def _name_ends(axes: Axes, table: pd.DataFrame, names: Sequence[str]) -> None:
    """Each curve's name at its right end, moved apart where they would overlap, with a line from the end to it."""
    last = table[table["factor"] == table["factor"].max()].set_index("parameter")["mean"]
    ends = last.loc[list(names)].to_numpy(dtype=np.float64)
    low, high = axes.get_ylim()
    tall = axes.get_window_extent().height / axes.figure.dpi
    for k, place in enumerate(_apart((ends - low) / (high - low), _LINE / max(tall, _LINE))):
        axes.annotate(
            short(names[k]),
            (float(table["factor"].max()), float(ends[k])),
            xytext=(1.04, place),
            textcoords="axes fraction",
            va="center",
            fontsize=7,
            arrowprops={"arrowstyle": "-", "linewidth": 0.9, "shrinkA": 1, "shrinkB": 2, **_look(k)},
        )


def _apart(wanted: FloatArray, gap: float) -> FloatArray:
    """Heights near the wanted ones, in their order, with a gap between any two; about the same middle."""
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(wanted))
    groups: list[list[float]] = []  # of wanted heights less their steps: neighbours that overlap share their mean
    for value in wanted[order] - steps:
        groups.append([float(value)])
        while len(groups) > 1 and np.mean(groups[-2]) > np.mean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    result = np.empty(len(wanted))
    result[order] = np.concatenate([np.full(len(g), np.mean(g)) for g in groups]) + steps if groups else []
    return result
