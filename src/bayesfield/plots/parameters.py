"""Pictures of parameters: intervals, densities, and lattices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from bayesfield.correction.marginals import DrawnMarginals
from bayesfield.model.field import RandomField
from bayesfield.plots.choice import chosen
from bayesfield.plots.style import DIVERGING, NEGATIVE, POSITIVE, UNCLEAR, axes_of, headline, panels, short
from bayesfield.posterior.views import require_untied
from bayesfield.types import FloatArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.posterior.posterior import Posterior

_MOST = 40  # parameters of one picture, where all would be too many to read
_FEW = 12  # the same for panels
_FAR = 3.3  # sd of a normal that has a thousandth beyond
_SITE = re.compile(r".*\[(\d+),\s*(\d+)\]")


def forest(
    posterior: Posterior, parameters: Sequence[str] | str | None = None, level: float = 0.95, ax: Axes | None = None
) -> Axes:
    """Mean and central interval of each parameter; those that exclude zero in colour.

    parameters: a list of names, "couplings", "thresholds", or a text that is in the names. By default all; where these
    are more than 40, the couplings, and of many the 40 that are farthest from zero in standard deviations.
    """
    table = posterior.summary(level)
    choice = chosen(posterior, table, parameters, _MOST)
    table = table.loc[choice.names]
    axes = axes_of(ax, (6.4, 1.2 + 0.19 * len(table)))
    height = np.arange(len(table))[::-1]
    colours = np.where(table["lower"] > 0, POSITIVE, np.where(table["upper"] < 0, NEGATIVE, UNCLEAR))
    axes.hlines(height, table["lower"], table["upper"], colors=colours.tolist(), linewidth=2)
    axes.scatter(table["mean"], height, c=colours, s=14, zorder=3)
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set_yticks(height, [short(str(name)) for name in table.index], fontsize=7)
    axes.set_ylim(-1, len(table))
    axes.set_xlabel(f"parameter (mean and {level:.0%} interval)")
    axes.set_title(f"{choice.words}\ngrey: the interval holds zero", fontsize=9)
    return axes


def marginals(
    posterior: Posterior, parameters: Sequence[str] | str | None = None, level: float = 0.95, bins: int = 60
) -> Figure:
    """The posterior density of each parameter, its central interval shaded, and its mode.

    parameters: as in ``forest``, but up to 12 by default. bins: points of a curve, or columns of a histogram where the
    posterior is made of draws.
    """
    table = posterior.summary(level)
    choice = chosen(posterior, table, parameters, _FEW)
    figure, grid = panels(len(choice.names), (2.6, 2.1), columns=4)
    number = {name: k for k, name in enumerate(posterior.field.parameter_names)}
    for axes, name in zip(grid, choice.names, strict=True):
        summary = table.loc[name, ["mean", "sd", "lower", "upper"]].to_numpy(dtype=np.float64)
        _density(axes, posterior, number[name], summary, bins)
        axes.set_title(short(name, 20), fontsize=8)
    headline(figure, f"{choice.words}:", "posterior density;", f"dotted: the mode; shaded: {level:.0%}")
    return figure


def _density(axes: Axes, posterior: Posterior, k: int, summary: FloatArray, bins: int) -> None:
    """summary: mean, sd and interval of parameter k, (4,)."""
    mean, sd, low, high = summary
    marginal = posterior.marginals.only(np.array([k]))
    if isinstance(marginal, DrawnMarginals):
        x, density = _histogram(marginal, bins)
    else:
        x = mean + sd * np.linspace(-4.0, 4.0, bins)
        density = np.exp(marginal.log_density(x[:, None])[:, 0])
    colour = POSITIVE if low > 0 else NEGATIVE if high < 0 else UNCLEAR
    axes.plot(x, density, color=colour, linewidth=1.5)
    axes.fill_between(x, density, where=(x >= low) & (x <= high), color=colour, alpha=0.25, linewidth=0)
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.axvline(posterior.mode[k], color=colour, linewidth=0.8, linestyle=":")
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.tick_params(labelsize=7)


def _histogram(marginal: DrawnMarginals, bins: int) -> tuple[FloatArray, FloatArray]:
    """The outline of a histogram of one parameter's draws, which smooths no edge and invents no tail."""
    points = marginal.points[:, 0]
    ends = marginal.from_normal(np.array([[-_FAR], [_FAR]]))[:, 0]
    heights, edges = np.histogram(points, bins, (ends[0], ends[1]), density=True, weights=marginal.weights)
    return np.repeat(edges, 2), np.concatenate([[0.0], np.repeat(heights, 2), [0.0]])


def lattice(posterior: Posterior, rows: int | None = None, columns: int | None = None, ax: Axes | None = None) -> Axes:
    """A lattice's parameters in place: couplings as bonds, fields as sites; width grows with |mean| / sd.

    rows, columns: by default those that names such as x[2,3] tell, which ``bf.grid`` gives.
    """
    field, rows, columns = _lattice_of(posterior, rows, columns)
    n, edges = rows * columns, np.array(field.edges, dtype=np.int64).reshape(-1, 2)
    axes = axes_of(ax, (max(3.6, 1.6 + 0.75 * columns), max(2.6, 1.2 + 0.72 * rows)))
    place = np.stack([np.arange(n) % columns, np.arange(n) // columns], axis=1)
    mean, certainty = posterior.mean, np.abs(posterior.mean) / posterior.sd
    limit = np.abs(mean).max(initial=1e-9)
    norm = TwoSlopeNorm(0.0, -limit, limit)
    bonds = LineCollection(
        list(place[edges]),
        array=mean[n:],
        cmap=DIVERGING,
        norm=norm,
        linewidths=1.0 + 5.0 * np.clip(certainty[n:] / 10.0, 0, 1),
        zorder=1,
    )
    axes.add_collection(bonds)
    sites = axes.scatter(place[:, 0], place[:, 1], c=mean[:n], s=130, zorder=2, cmap=DIVERGING, norm=norm)
    sites.set_edgecolor("black")
    axes.figure.colorbar(bonds, ax=axes, label="posterior mean", shrink=0.8)
    axes.set_title("couplings (bonds; wide: sure)\nand fields (sites)", fontsize=9)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.set_axis_off()
    return axes


def _lattice_of(posterior: Posterior, rows: int | None, columns: int | None) -> tuple[RandomField, int, int]:
    """The field with its rows and columns, if it is a lattice with a parameter for each site and each coupling."""
    field = posterior.field
    if not isinstance(field, RandomField):
        raise InvalidInput(f"a lattice is a bf.RandomField; got {field!r}")
    rows, columns = _sides(field, rows, columns)
    n, m = rows * columns, len(field.edges)
    if field.n_variables != n:
        raise InvalidInput(f"a {rows} × {columns} lattice has {n} sites; this field has {field.n_variables} variables")
    if m:
        require_untied(field)
    if field.n_parameters != n + m:
        raise InvalidInput(
            f"a {rows} × {columns} lattice has {n} sites with one parameter each, and one for each of {m} couplings; "
            f"this field has {field.n_parameters} parameters: posterior.plot_forest() shows them"
        )
    return field, rows, columns


def _sides(field: RandomField, rows: int | None, columns: int | None) -> tuple[int, int]:
    """What is not given is from the names, x[i,j] in row order, or from the number of variables."""
    n = field.n_variables
    if rows is not None or columns is not None:
        across = columns if columns is not None else n // max(rows or 1, 1)
        return (rows if rows is not None else n // max(across, 1)), across
    sites = [_SITE.fullmatch(name) for name in field.names]
    places = [(int(site[1]), int(site[2])) for site in sites if site]
    if places and len(places) == n:
        across = max(j for _, j in places) + 1
        if places == [divmod(k, across) for k in range(n)] and n % across == 0:
            return n // across, across
    raise InvalidInput(
        f"the names of these {n} variables do not tell rows and columns, as x[0,0], x[0,1], … of bf.grid do; "
        "say them: plot_lattice(rows, columns), with the variables row by row"
    )
