"""From an experiment's name to its picture, its table and its manifest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayesfield import plots
from bayesfield.experiments.calibration import Calibration, Simulations
from bayesfield.experiments.contract import cell
from bayesfield.experiments.extreme.judge import markdown, missed
from bayesfield.experiments.extreme.study import Extreme, Models
from bayesfield.experiments.letters import LetterPrediction
from bayesfield.experiments.paper.document_comparison import DocumentComparison
from bayesfield.experiments.paper.document_prediction import DocumentPrediction
from bayesfield.experiments.paper.grids import GridComparison
from bayesfield.experiments.run import Watch, run_experiment, settings_of
from bayesfield.experiments.store import Store
from bayesfield.outputs import as_one, write_bytes, write_text
from bayesfield.parallel import connected
from bayesfield.types import InvalidInput

if TYPE_CHECKING:
    from bayesfield.experiments.contract import Experiment

GRIDS, DOCUMENTS = ("fig2", "fig3", "fig4", "fig5"), ("fig6", "fig7", "fig8")
EXPERIMENTS = (*GRIDS, *DOCUMENTS, "faq", "ocr")
SHARING = {"fig3": "fig2", "fig7": "fig6", "fig8": "fig6"}  # figures that show some of another's cells more closely


def experiment(name: str, data: str | Path | None = None) -> Experiment:
    """By name. data: the folder of data sets, for those that need one."""
    if name not in EXPERIMENTS:
        raise InvalidInput(f"figure is one of {', '.join(EXPERIMENTS)}; got {name!r}")
    if name in GRIDS:
        return GridComparison(name)
    folder = None if data is None else Path(data)
    if name in DOCUMENTS:
        return DocumentComparison(name, folder)
    return DocumentPrediction(folder) if name == "faq" else LetterPrediction(folder)


def reproduce(
    figure: str,
    out: str | Path,
    scale: str | Any = "quick",
    jobs: int = 1,
    seed: int = 0,
    data: str | Path | None = None,
    watch: Watch | None = None,
    client: Any = None,
    methods: Sequence[str] = (),
) -> pd.DataFrame:
    """Run one of the paper's experiments, or go on with it, and write figure, table and manifest to ``out``.

    figure: "fig2" … "fig8", "faq" or "ocr". scale: "quick" or "paper". jobs: processes. data: the folder of data sets,
    for those that need one. watch: called with cells finished and cells in all. client: a dask.distributed.Client, or
    its scheduler's address, whose workers run the cells instead (and see the folder). methods: names of those that
    figures 2 to 8 compare, by default all; what is left out can be added later. Returns the table: a row for each
    method, case and set of draws, or for each predictor and split.
    """
    chosen = experiment(figure, data)
    chosen.only(methods)
    if isinstance(scale, str) and scale not in chosen.scales:
        raise InvalidInput(f"scale is one of {', '.join(chosen.scales)}; got {scale!r}")
    size = chosen.scales[scale] if isinstance(scale, str) else scale
    return _run_and_write(chosen, size, Path(out), jobs, seed, watch, client)


def reproduce_all(
    out: str | Path,
    scale: str = "quick",
    jobs: int = 1,
    seed: int = 0,
    data: str | Path | None = None,
    watch: Callable[[str, int, int], None] | None = None,
    client: Any = None,
) -> pd.DataFrame:
    """Figures 2 to 8, each in a folder of ``out``, or go on with them. Figures 3, 7 and 8 take cells of 2 and 6.

    watch: called with a figure's name, cells finished, and cells in all. The rest as in ``reproduce``. Returns, and
    writes to ``out/costs.csv``, a row for each figure: cells, hours of the processor that its own took, and how many
    versions of the code made them.
    """
    rows, root = [], Path(out)
    for name in (*GRIDS, *DOCUMENTS):
        _adopt(name, root, scale, seed, data)
        tell = None if watch is None else partial(watch, name)
        table = reproduce(name, root / name, scale, jobs, seed, data, tell, client)
        hours = 0.0 if name in SHARING else processor_seconds(table) / 3600
        rows.append(
            {"figure": name, "cells": len(_cells(table)), "hours": hours, "versions": len(table.attrs["made_by"])}
        )
    costs = pd.DataFrame(rows)
    write_text(root / "costs.csv", costs.to_csv(index=False))
    return costs


def processor_seconds(table: pd.DataFrame) -> float:
    """Of all cells of a comparison: fits, warm-up and draws of every method, the reference's among them."""
    return float(_cells(table)["seconds"].sum())


def _cells(table: pd.DataFrame) -> pd.DataFrame:
    """One row of each cell."""
    return table.drop_duplicates(["method", "N" if "N" in table else "d", "model"])


def _adopt(name: str, root: Path, scale: str, seed: int, data: str | Path | None) -> None:
    """A figure's cells from the figure that it shares them with. One that shares none makes its own."""
    source = SHARING.get(name)
    if source is None:
        return
    chosen, store = experiment(name, data), Store(root / name)
    size = chosen.scales[scale]
    store.open(settings_of(chosen, size, seed))
    for task in chosen.tasks(size):
        store.adopt(Store(root / source), [cell(task, method) for method in chosen.methods(task)])


def calibrate(
    out: str | Path,
    simulations: int = 200,
    problems: Sequence[str] = (),
    jobs: int = 1,
    seed: int = 0,
    watch: Watch | None = None,
    client: Any = None,
) -> pd.DataFrame:
    """Simulation-based calibration of posteriors (experiments.calibration): rank histograms, table and manifest.

    problems: names such as "grid-kikuchi"; by default all. The rest as in ``reproduce``. Returns a row for each
    simulation: what share of its 90 % intervals hold the truth, and the shares of the ranks by bin.
    """
    return _run_and_write(
        Calibration(), Simulations(simulations, tuple(problems)), Path(out), jobs, seed, watch, client
    )


def calibrate_extreme(
    out: str | Path,
    models: int = 1000,
    jobs: int = 1,
    seed: int = 0,
    references: str | Path | None = None,
    watch: Watch | None = None,
    client: Any = None,
) -> pd.DataFrame:
    """Default fits of tiny extreme models against exact integration (experiments.extreme): table, figure, manifest.

    models: those of the seeds seed, seed + 1, …. references: the folder where the true posteriors are kept, which
    several runs may share; by default ``out/references``. The rest as in ``reproduce``. Returns a row for each model;
    extreme.md has the verdicts, missed.txt the seeds that miss something.
    """
    study = Extreme(None if references is None else Path(references))
    table = _run_and_write(study, Models(models), Path(out), jobs, seed, watch, client)
    write_text(Path(out) / "extreme.md", markdown(table))
    write_text(Path(out) / "missed.txt", missed(table))
    return table


def _run_and_write(
    chosen: Experiment, size: Any, folder: Path, jobs: int, seed: int, watch: Watch | None, client: Any
) -> pd.DataFrame:
    with connected(client) as workers:
        table, settings = run_experiment(chosen, size, folder, jobs, seed, watch or (lambda done, total: None), workers)
    store = Store(folder)
    drawn = chosen.draw(table, store)
    drawn.suptitle(chosen.title, fontsize=11)
    with as_one():
        write_text(folder / f"{chosen.name}.csv", table.drop(columns="note", errors="ignore").to_csv(index=False))
        for suffix in ("png", "svg"):
            write_bytes(folder / f"{chosen.name}.{suffix}", plots.rendered(drawn, suffix))
        store.close(settings, table.attrs["made_by"])
    plots.close(drawn)
    return table
