"""Running an experiment's tasks on several processes, with progress, safe to interrupt."""

import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from bayesfield import parallel
from bayesfield.experiments.contract import Experiment, Task, cell
from bayesfield.experiments.store import Store

_TICK = 0.5  # seconds between two looks at what is finished

Watch = Callable[[int, int], None]  # cells finished, cells in all


def run_experiment(experiment: Experiment, scale: Any, out: Path, jobs: int, seed: int, watch: Watch) -> pd.DataFrame:
    """All cells of an experiment, those that the folder has not yet; then their table."""
    store = Store(out)
    settings = {"figure": experiment.name, "seed": seed, "scale": asdict(scale), **experiment.source}
    store.open(settings)
    tasks = experiment.tasks(scale)
    cells = {task.name: [cell(task, method) for method in experiment.methods(task)] for task in tasks}
    total = sum(len(own) for own in cells.values())
    left = [task for task in tasks if not all(store.has(name) for name in cells[task.name])]
    watch(store.count(), total)
    if jobs <= 1:
        for task in left:
            experiment.run(task, scale, store, seed)
            watch(store.count(), total)
    else:
        _in_parallel(experiment, left, scale, store, jobs, seed, lambda: watch(store.count(), total))
    table = pd.DataFrame([row for own in cells.values() for name in own for row in store.rows(name)])
    store.close(settings)
    return table


def _in_parallel(
    experiment: Experiment,
    left: list[Task],
    scale: Any,
    store: Store,
    jobs: int,
    seed: int,
    tick: Callable[[], None],
) -> None:
    context = multiprocessing.get_context("spawn")  # threads and forks do not go together
    threads = max(1, parallel.cores() // jobs)
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(threads,))
    try:
        pending = {pool.submit(experiment.run, task, scale, store, seed) for task in left}
        while pending:
            done, pending = wait(pending, timeout=_TICK, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
            tick()
    except BaseException:
        for process in list((pool._processes or {}).values()):  # what runs now is not finished, and so not kept
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _begin(threads: int) -> None:
    """In every worker: keep to its threads, and end with the run that started it, however that ends."""
    parallel.limit(threads)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
