"""Colours, axes and files of all pictures."""

import io
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Figure

POSITIVE, NEGATIVE, UNCLEAR = "#0072b2", "#d55e00", "#8c8c8c"  # Okabe & Ito: told apart by all eyes
CYCLE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c8c", "#7a5c00")
DIVERGING = "PuOr_r"
_COLUMNS = 5  # of small pictures side by side
_LONGEST = 24  # characters of a name


def short(name: str, most: int = _LONGEST) -> str:
    """A name of at most so many characters, head and tail of a longer one; of a coupling's name, each of its parts."""
    if len(name) <= most:
        return name
    parts = name.split("*")
    if len(parts) > 1:
        return "*".join(short(part, most) for part in parts)
    tail = max(most // 3, 1)
    return f"{name[: most - 1 - tail].rstrip()}…{name[-tail:].lstrip()}"


def panels(count: int, size: tuple[float, float], columns: int = _COLUMNS, **options: Any) -> tuple[Figure, Any]:
    """A figure with ``count`` panels of a size (inches) in rows, and their axes, flat; those left over are hidden."""
    across = min(max(count, 1), columns)
    down = -(-max(count, 1) // across)
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False}):
        figure, grid = plt.subplots(
            down, across, figsize=(size[0] * across, size[1] * down), layout="constrained", squeeze=False, **options
        )
    for empty in grid.flat[count:]:
        empty.set_visible(False)
    return figure, grid.ravel()[:count]


def headline(figure: Figure, *parts: str) -> None:
    """A title over all panels; on narrow figures a line for each part."""
    figure.suptitle((" " if figure.get_figwidth() > 6.0 else "\n").join(parts), fontsize=9)


def rendered(figure: Figure, suffix: str) -> bytes:
    """The figure as a file's content: "png" or "svg"."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=suffix, dpi=150)
    return buffer.getvalue()


def close(figure: Figure) -> None:
    plt.close(figure)


def axes_of(ax: Axes | None, size: tuple[float, float]) -> Axes:
    if ax is not None:
        return ax
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False}):
        _, axes = plt.subplots(figsize=size, layout="constrained")
    return axes
