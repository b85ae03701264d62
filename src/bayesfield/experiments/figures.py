"""From a figure's name to its picture, its table and its manifest."""

from pathlib import Path

import pandas as pd

from bayesfield import plots
from bayesfield.experiments.cases import CASES, SHOWN, axis
from bayesfield.experiments.methods import PAPERS, SCALES, Scale
from bayesfield.experiments.run import REFERENCE, Watch, histograms, run_figure
from bayesfield.files import write_bytes, write_text
from bayesfield.model import grid
from bayesfield.types import InvalidInput

FIGURES = {
    "fig2": "Distance to the true posterior by number of cases",
    "fig3": f"Worst and best marginals, {SHOWN:,} cases",
    "fig4": f"Distance to the true posterior by edge strength, no fields, {CASES:,} cases",
    "fig5": f"Distance to the true posterior by edge strength, fields of 1, {CASES:,} cases",
}


def reproduce(
    figure: str, out: str | Path, scale: str | Scale = "quick", jobs: int = 1, seed: int = 0, watch: Watch | None = None
) -> pd.DataFrame:
    """Run one of the paper's experiments, or go on with it, and write figure, table and manifest to ``out``.

    figure: "fig2" … "fig5". scale: "quick" or "paper". jobs: processes. watch: called with cells finished and cells in
    all. Returns the table: a row for each method, case and set of draws.
    """
    if figure not in FIGURES:
        raise InvalidInput(f"figure is one of {', '.join(FIGURES)}; got {figure!r}")
    if isinstance(scale, str) and scale not in SCALES:
        raise InvalidInput(f"scale is one of {', '.join(SCALES)}; got {scale!r}")
    size = SCALES[scale] if isinstance(scale, str) else scale
    folder = Path(out)
    table = run_figure(figure, size, folder, jobs, seed, watch or (lambda done, total: None))
    write_text(folder / f"{figure}.csv", table.drop(columns="note").to_csv(index=False))
    _draw(figure, table, folder)
    return table


def _draw(figure: str, table: pd.DataFrame, folder: Path) -> None:
    if figure == "fig3":
        drawn = plots.marginal_histograms(histograms(figure, folder), grid(5, 5).parameter_names)
    else:
        labels = {"N": "cases N", "d": "edge strength d (couplings d/4)"}
        drawn = plots.score_curves(table, axis(figure), labels[axis(figure)], REFERENCE, list(PAPERS))
    drawn.suptitle(FIGURES[figure], fontsize=11)
    for suffix in ("png", "svg"):
        write_bytes(folder / f"{figure}.{suffix}", plots.rendered(drawn, suffix))
    plots.close(drawn)
