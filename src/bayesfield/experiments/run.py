"""Running an experiment's tasks on several processes, with progress, safe to interrupt."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from bayesfield import parallel
from bayesfield.experiments.contract import Experiment, Task, cell
from bayesfield.experiments.store import Store

Watch = Callable[[int, int], None]  # cells finished, cells in all


def run_experiment(
    experiment: Experiment, scale: Any, out: Path, jobs: int, seed: int, watch: Watch, client: Any = None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """All cells of an experiment, those that the folder has not yet; then their table, whose attrs say who made it,
    and the settings, which the manifest will have once figures and table are written (``Store.close``).

    jobs: processes. client: a Dask client instead, whose workers see the folder too.
    """
    store = Store(out)
    settings = settings_of(experiment, scale, seed)
    store.open(settings)
    tasks = experiment.tasks(scale)
    cells = {task.name: [cell(task, method) for method in experiment.methods(task)] for task in tasks}
    names = [name for own in cells.values() for name in own]
    left = [task for task in tasks if not all(store.has(name) for name in cells[task.name])]

    def tell(_: int) -> None:
        watch(store.count(names), len(names))

    tell(0)
    one = partial(_run, experiment, scale, store, seed)
    if client is not None:
        parallel.Cluster(client).map(one, left, tell)
    else:
        parallel.process_map(one, left, jobs, tell)
    table = pd.DataFrame([row for name in names for row in store.rows(name)])
    table.attrs["made_by"] = store.makers(names)
    return table, settings


def settings_of(experiment: Experiment, scale: Any, seed: int) -> dict[str, Any]:
    """What a run's cells depend on."""
    return {"figure": experiment.name, "seed": seed, "scale": asdict(scale), **experiment.source}


def _run(experiment: Experiment, scale: Any, store: Store, seed: int, task: Task) -> None:
    """By one thread of BLAS: sums in another order would send chains along other paths, with other numbers of jobs."""
    with parallel.single_blas():
        experiment.run(task, scale, store, seed)
