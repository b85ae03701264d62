"""Variables on a circle with lines between them: the ground of the pictures of networks."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from bayesfield.plots.style import axes_of, short

_LEVEL = 12  # variables up to which names are level; of more they stand along the radius
_SMALLEST = 0.62  # of the width, that the circle takes at least, however long the names are
_EM = 0.6  # width of a character over its height

Places = Mapping[str, tuple[float, float]]


def ends(table: pd.DataFrame) -> list[str]:
    """The variables of a table of edges."""
    return [str(name) for name in dict.fromkeys([*table["first"], *table["second"]])]


def circle(table: pd.DataFrame, ax: Axes | None) -> tuple[Axes, Places]:
    """Axes with the variables on a circle, and where each of them is; the more variables, the larger."""
    names = ends(table)
    n, level = len(names), len(names) <= _LEVEL
    side = float(np.clip(6.0 + 0.08 * (n - 15), 6.0, 14.0))
    axes = axes_of(ax, (side, side + 0.3))
    across = side if ax is None else axes.get_window_extent().width / axes.figure.dpi
    size = float(np.clip(0.6 * 72 * np.pi * across / (1.4 * max(n, 1)), 2.0, 8.0))  # points of a letter
    shown = {name: short(name, 24 if level else 18) for name in names}
    room = 2 * _EM * size / 72 * max(map(len, shown.values()), default=1) / across  # of the width, for names
    limit = 1.08 / max(1.0 - room, 1.08 * _SMALLEST)
    turn = np.pi / 2 - 2 * np.pi * np.arange(n) / max(n, 1)
    places = {name: (float(np.cos(t)), float(np.sin(t))) for name, t in zip(names, turn, strict=True)}
    for name, (x, y) in places.items():
        axes.plot(x, y, "o", color="black", markersize=5 if n <= 30 else 3.5, zorder=3)
        _name(axes, shown[name], (x, y), size, level)
    axes.set_xlim(-limit, limit)
    axes.set_ylim(*(-1.2, 1.2) if level else (-limit, limit))
    axes.set_aspect("equal")
    axes.axis("off")
    return axes, places


def _name(axes: Axes, name: str, place: tuple[float, float], size: float, level: bool) -> None:
    x, y = place
    if level:
        side = "left" if x > 0.1 else "right" if x < -0.1 else "center"
        axes.text(1.08 * x, 1.08 * y, name, ha=side, va="center", fontsize=size)
        return
    left = x < -1e-9
    angle = np.degrees(np.arctan2(y, x)) + (180.0 if left else 0.0)  # never upside down
    options: dict[str, Any] = {"rotation": angle, "rotation_mode": "anchor", "va": "center", "fontsize": size}
    axes.text(1.04 * x, 1.04 * y, name, ha="right" if left else "left", **options)


def line(axes: Axes, places: Places, row: Any, **style: Any) -> None:
    (x, y), (u, v) = places[str(row.first)], places[str(row.second)]
    axes.plot([x, u], [y, v], solid_capstyle="round", **style)


def thinner(count: int) -> float:
    """What widths are multiplied with where lines are many."""
    return float(np.clip(np.sqrt(60 / max(count, 1)), 0.3, 1.0))


def key(axes: Axes, colours: Mapping[str, str]) -> None:
    """The legend, below; without a colour an entry is a remark."""
    handles = [Line2D([], [], color=colour or "none", linewidth=2.2, label=name) for name, colour in colours.items()]
    axes.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncol=2 if len(colours) > 3 else len(colours),
        frameon=False,
        fontsize=8,
    )
