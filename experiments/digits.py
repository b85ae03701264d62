"""The demo: a ±1 nearest-neighbour field on scikit-learn's 8×8 digits, and how sure we may be of its parameters.

64 variables, 112 edges, 176 parameters, 1,797 images; no data from outside.
"""

import argparse
import time
from pathlib import Path

import matplotlib as mpl
import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits

import bayesfield as bf

ROWS = COLUMNS = 8
INK = 7  # grey levels run from 0 to 16


def binary_digits() -> np.ndarray:
    """(1797, 64) of ±1: is there ink?"""
    return np.where(load_digits().data > INK, 1, -1)


def fits(images: np.ndarray, console: Console) -> dict[str, bf.Posterior]:
    """The exact fit, and the paper's two approximations beside it."""
    field = bf.grid(ROWS, COLUMNS)
    prior = bf.Normal(variance=0.25)
    settings = {
        "exact": {"engine": bf.Exact()},
        "BL-MP": {"engine": bf.Exact(), "response": bf.Bethe()},
        "BL-BP": {"engine": bf.Bethe()},
    }
    result = {}
    with console.status("compiling the kernels (first use only) and fitting …") as status:
        for name, options in settings.items():
            begun = time.perf_counter()
            result[name] = bf.fit(
                field,
                images,
                prior,
                **options,
                watch=lambda i, name=name: status.update(
                    f"{name}: step {i.number}, {i.distance:.2g} posterior sd from the optimum"
                ),
            )
            console.print(f"{name:6} {result[name].record.status}  [{time.perf_counter() - begun:.2f} s]")
    return result


def posterior_table(posterior: bf.Posterior, rows: int = 8) -> Table:
    """The surest parameters at either end."""
    summary = posterior.summary()
    order = (summary["mean"] / summary["sd"]).sort_values(ascending=False).index
    table = Table(title="posterior of the field (exact), surest parameters at either end")
    for column in ("parameter", "mean", "sd", "2.5 %", "97.5 %", "P(> 0)"):
        table.add_column(column, justify="left" if column == "parameter" else "right")
    for name in [*order[:rows], *order[-rows:]]:
        r = summary.loc[name]
        cells = [f"{r[c]:.3f}" for c in ("mean", "sd", "lower", "upper", "p_positive")]
        table.add_row(name.replace("[", "\\["), *cells)
    return table


def comparison_table(posteriors: dict[str, bf.Posterior]) -> Table:
    """How far the approximations are from the exact fit."""
    exact = posteriors["exact"]
    table = Table(title="the paper's approximations against the exact fit")
    for column in ("method", "shift of the mean in sd (rms)", "(largest)", "sd ratio (median)"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for name in ("BL-MP", "BL-BP"):
        other = posteriors[name]
        shift = np.abs(other.mean - exact.mean) / exact.sd
        ratio = float(np.median(other.sd / exact.sd))
        table.add_row(name, f"{np.sqrt(np.mean(shift**2)):.2f}", f"{shift.max():.2f}", f"{ratio:.3f}")
    return table


def draw(posterior: bf.Posterior, out: Path) -> list[Path]:
    """forest.png, lattice.png, convergence.png."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    from bayesfield import plots

    axes = {
        "forest": plots.forest(posterior),
        "lattice": plots.lattice(posterior, ROWS, COLUMNS),
        "convergence": plots.convergence(posterior.record),
    }
    written = []
    for name, ax in axes.items():
        written.append(out / f"{name}.png")
        ax.figure.savefig(written[-1], dpi=120)
        plt.close(ax.figure)
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    console = Console()
    posteriors = fits(binary_digits(), console)
    console.print(posterior_table(posteriors["exact"]))
    console.print(comparison_table(posteriors))
    posteriors["exact"].summary().to_csv(out / "posterior.csv")
    for path in [out / "posterior.csv", *draw(posteriors["exact"], out)]:
        console.print(f"wrote {path}")


if __name__ == "__main__":
    main()
