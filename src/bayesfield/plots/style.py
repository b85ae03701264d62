"""Colours, axes and files of all pictures."""

import io
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Figure
from matplotlib.text import Text

from bayesfield.outputs import write_bytes
from bayesfield.types import InvalidInput

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


_WIDTHS = {"single": 85.0, "middle": 114.0, "double": 174.0}  # mm, of a journal's columns
_VECTOR, _PIXELS = ("pdf", "svg", "eps"), ("png", "tif", "tiff")


def save_figure(
    what: Figure | Axes, path: str | Path, width: str | float = "single", height: float | None = None
) -> None:
    """A figure, or the one of axes, at a journal's size: PDF, SVG or EPS with text as text; PNG or TIFF at 600 dpi.

    width: "single" (85 mm), "middle" (114 mm), "double" (174 mm), or millimetres. height: in mm; by default in the
    proportion that it has. Text is 8 points high, whatever the width.
    """
    figure = what if isinstance(what, Figure) else what.get_figure()
    suffix = Path(path).suffix.lower().removeprefix(".")
    if not isinstance(figure, Figure):
        raise InvalidInput(f"give a figure or its axes, such as posterior.plot_network(); got {type(what).__name__}")
    if suffix not in (*_VECTOR, *_PIXELS):
        raise InvalidInput(f"a figure's file ends in .{', .'.join((*_VECTOR, *_PIXELS))}; got {str(path)!r}")
    if isinstance(width, str) and width not in _WIDTHS:
        raise InvalidInput(f"width is one of {', '.join(_WIDTHS)}, or millimetres; got {width!r}")
    across = _WIDTHS[width] if isinstance(width, str) else float(width)
    before = float(figure.get_figwidth()), float(figure.get_figheight())
    sizes = {text: text.get_fontsize() for text in figure.findobj(Text)}
    down = across * before[1] / before[0] if height is None else height
    if not across > 0 or not down > 0:
        raise InvalidInput(f"width and height are above zero, in millimetres; got {across} and {down}")
    try:
        figure.set_size_inches(across / 25.4, down / 25.4)
        for text in sizes:
            text.set_fontsize(8)
        content = io.BytesIO()
        with mpl.rc_context({"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "none"}):
            figure.savefig(content, format=suffix, dpi=600)
    finally:
        figure.set_size_inches(before)
        for text, size in sizes.items():
            text.set_fontsize(size)
    write_bytes(path, content.getvalue())


def close(figure: Figure) -> None:
    plt.close(figure)


def axes_of(ax: Axes | None, size: tuple[float, float]) -> Axes:
    if ax is not None:
        return ax
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False}):
        _, axes = plt.subplots(figsize=size, layout="constrained")
    return axes
