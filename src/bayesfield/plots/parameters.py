"""Pictures of parameters: intervals, densities, lattices, and how they move with the prior."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from bayesfield.model import RandomField
from bayesfield.plots.style import CYCLE, DIVERGING, NEGATIVE, POSITIVE, UNCLEAR, axes_of, panels
from bayesfield.posterior import Posterior
from bayesfield.posterior.skewness import log_density
from bayesfield.types import InvalidInput

_MOST = 40  # parameters of one picture, where all would be too many to read
_FEW = 12  # the same for panels and curves


def forest(
    posterior: Posterior, parameters: Sequence[str] | None = None, level: float = 0.95, ax: Axes | None = None
) -> Axes:
    """Mean and central interval of each parameter; those that exclude zero in colour.

    parameters: which to show, by name; by default all, or the 40 that are farthest from zero in standard deviations.
    """
    table = posterior.summary(level)
    if parameters is not None:
        table = table.loc[_known(posterior, parameters)]
    else:
        table = table.loc[_surest(table, _MOST)]
    axes = axes_of(ax, (6.4, 1.0 + 0.19 * len(table)))
    height = np.arange(len(table))[::-1]
    colours = np.where(table["lower"] > 0, POSITIVE, np.where(table["upper"] < 0, NEGATIVE, UNCLEAR))
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
    axes = axes_of(ax, (1.6 + 0.75 * columns, 1.0 + 0.72 * rows))
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
    axes.figure.colorbar(bonds, ax=axes, label="posterior mean: couplings (bonds), fields (sites)", shrink=0.8)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.set_axis_off()
    return axes


def marginals(
    posterior: Posterior, parameters: Sequence[str] | None = None, level: float = 0.95, bins: int = 60
) -> Figure:
    """The posterior density of each parameter, its central interval shaded, and its mode.

    parameters: which to show, by name; by default all, or the 12 that are farthest from zero in standard deviations.
    bins: points of a curve.
    """
    table = posterior.summary(level)
    chosen = _surest(table, _FEW) if parameters is None else _known(posterior, parameters)
    figure, grid = panels(len(chosen), (2.6, 2.1), columns=4)
    number = {name: k for k, name in enumerate(posterior.field.parameter_names)}
    for axes, name in zip(grid, chosen, strict=True):
        k = number[name]
        mean, sd, low, high = table.loc[name, ["mean", "sd", "lower", "upper"]].to_numpy(dtype=np.float64)
        z = np.linspace(-4.0, 4.0, bins)
        density = np.exp(log_density(z, np.full(bins, posterior.skewness[k]))) / sd
        x = mean + sd * z
        colour = POSITIVE if low > 0 else NEGATIVE if high < 0 else UNCLEAR
        axes.plot(x, density, color=colour, linewidth=1.5)
        axes.fill_between(x, density, where=(x >= low) & (x <= high), color=colour, alpha=0.25, linewidth=0)
        axes.axvline(0.0, color="black", linewidth=0.8)
        axes.axvline(posterior.mode[k], color=colour, linewidth=0.8, linestyle=":")
        axes.set_title(name, fontsize=8)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.tick_params(labelsize=7)
    return figure


def sensitivity(table: pd.DataFrame, parameters: Sequence[str] | None = None, ax: Axes | None = None) -> Axes:
    """How means and intervals move as the prior's variance is multiplied: a curve for each parameter.

    table: of ``bf.prior_sensitivity``. parameters: by default all, or the 12 that move the most in standard deviations.
    """
    axes = axes_of(ax, (7.0, 4.2))
    known = list(dict.fromkeys(table["parameter"]))
    absent = [name for name in parameters or () if name not in known]
    if absent:
        raise InvalidInput(f"there is no parameter {absent[0]!r} in the table")
    by_name = table.groupby("parameter")
    moves = (by_name["mean"].max() - by_name["mean"].min()) / by_name["sd"].mean()
    chosen = list(parameters) if parameters is not None else [n for n in known if n in set(moves.nlargest(_FEW).index)]
    for k, name in enumerate(chosen):
        own, colour = table[table["parameter"] == name].sort_values("factor"), CYCLE[k % len(CYCLE)]
        axes.plot(own["factor"], own["mean"], "o-", color=colour, label=name, markersize=3, linewidth=1.4)
        axes.fill_between(own["factor"], own["lower"], own["upper"], color=colour, alpha=0.08, linewidth=0)
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.axvline(1.0, color="black", linewidth=0.8, linestyle=":")
    factors = sorted(set(table["factor"]))
    axes.set_xscale("log", base=2)
    axes.set_xticks(factors, [f"{f:g}" for f in factors])
    axes.set_xlabel("the prior's variance, times")
    axes.set_ylabel("parameter (mean and interval)")
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return axes


def _surest(table: pd.DataFrame, most: int) -> list[str]:
    """All names, or those farthest from zero, in the table's order."""
    if len(table) <= most:
        return list(table.index)
    strongest = (table["mean"] / table["sd"]).abs().nlargest(most).index
    return list(table.index[table.index.isin(strongest)])


def _known(posterior: Posterior, parameters: Sequence[str]) -> list[str]:
    absent = [name for name in parameters if name not in set(posterior.field.parameter_names)]
    if absent:
        raise InvalidInput(f"there is no parameter {absent[0]!r}; posterior.summary() lists them")
    return list(parameters)
