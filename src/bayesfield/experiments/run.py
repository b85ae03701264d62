"""Running a figure's cells on several processes, with progress, safe to interrupt."""

import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayesfield import parallel
from bayesfield.diagnostics import cramer_von_mises
from bayesfield.experiments.cases import Case, axis, cases
from bayesfield.experiments.methods import METHODS, Outcome, Problem, Scale, reference
from bayesfield.experiments.store import Store
from bayesfield.inference import Exact
from bayesfield.posterior import fit
from bayesfield.types import FloatArray

REFERENCE = "HMC"
_BINS = 60
_TICK = 0.5  # seconds between two looks at what is finished

Watch = Callable[[int, int], None]  # cells finished, cells in all


def run_figure(figure: str, scale: Scale, out: Path, jobs: int, seed: int, watch: Watch) -> pd.DataFrame:
    """All cells of a figure, those that the folder has not yet; then their table."""
    store = Store(out)
    settings = {"figure": figure, "seed": seed, "scale": asdict(scale)}
    store.open(settings)
    todo = cases(figure, scale.models)
    names = [REFERENCE, *METHODS]
    total = len(todo) * len(names)
    left = [case for case in todo if not all(store.has(_cell(case, name)) for name in names)]
    watch(store.count(), total)
    if jobs <= 1:
        for case in left:
            run_case(case, scale, out, seed)
            watch(store.count(), total)
    else:
        _in_parallel(left, scale, store, jobs, seed, lambda: watch(store.count(), total))
    table = pd.DataFrame([row for case in todo for name in names for row in store.rows(_cell(case, name))])
    store.close(settings)
    return table


def _in_parallel(left: list[Case], scale: Scale, store: Store, jobs: int, seed: int, tick: Callable[[], None]) -> None:
    context = multiprocessing.get_context("spawn")  # threads and forks do not go together
    threads = max(1, parallel.cores() // jobs)
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(threads,))
    try:
        pending = {pool.submit(run_case, case, scale, store.folder, seed) for case in left}
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


def run_case(case: Case, scale: Scale, out: Path, seed: int) -> None:
    """Every method on one data set, against NUTS; each is written when it is finished."""
    store = Store(out)
    field, X, prior = case.make(seed)
    shape = fit(field, X, prior, Exact(), correction="none")
    problem = Problem(field, X, prior, shape)
    truth = reference(problem, scale, case.seed(1, seed))
    assert truth.draws is not None
    floors = [float(cramer_von_mises(truth.draws[s], truth.draws[s + 1]).sum()) for s in range(scale.sets)]
    keep = case.figure == "fig3"
    if not store.has(_cell(case, REFERENCE)):
        rows = [_row(case, REFERENCE, s, floors[s], floors[s], truth, scale.draws) for s in range(scale.sets)]
        store.put(_cell(case, REFERENCE), rows)
    for number, (name, method) in enumerate(METHODS.items()):
        if store.has(_cell(case, name)):
            continue
        found = method(problem, scale, case.seed(2 + number, seed))
        scores = _scores(truth.draws, found)
        rows = [_row(case, name, s, v.sum(), floors[s], found, n) for s, (v, n) in enumerate(scores)]
        if not scores:
            rows = [_row(case, name, 0, float("nan"), floors[0], found, 0)]
        arrays = _histograms(truth.draws[0], found, scores[0][0]) if keep and scores else None
        store.put(_cell(case, name), rows, arrays)


def _scores(truth: FloatArray, found: Outcome) -> list[tuple[FloatArray, int]]:
    """CVM of each parameter for each set, against as many draws of the reference; and how many draws that are."""
    if found.draws is None:
        return []
    n = min(truth.shape[1], found.draws.shape[1])
    return [(cramer_von_mises(truth[s][:n], own[:n]), n) for s, own in enumerate(found.draws)]


def _row(case: Case, method: str, s: int, cvm: float, floor: float, found: Outcome, draws: int) -> dict[str, Any]:
    return {
        "method": method,
        axis(case.figure): case.x,
        "model": case.model,
        "set": s,
        "cvm": float(cvm),
        "floor": floor,
        "seconds": round(found.seconds, 3),
        "converged": found.converged,
        "mpsrf": found.mpsrf,
        "draws": draws,
        "note": found.note,
    }


def _histograms(truth: FloatArray, found: Outcome, scores: FloatArray) -> dict[str, FloatArray]:
    """Of the parameters with the largest and the smallest distance: densities of the method and of the reference."""
    assert found.draws is not None
    arrays = {}
    for kind, k in (("worst", int(np.argmax(scores))), ("best", int(np.argmin(scores)))):
        both = np.concatenate([truth[:, k], found.draws[0, :, k]])
        bins = int(np.clip(np.sqrt(found.draws.shape[1]), 10, _BINS))
        edges = np.linspace(np.quantile(both, 0.0005), np.quantile(both, 0.9995), bins + 1)
        arrays[f"{kind}_parameter"] = np.array(k)
        arrays[f"{kind}_cvm"] = np.array(scores[k])
        arrays[f"{kind}_edges"] = edges
        arrays[f"{kind}_method"] = np.histogram(found.draws[0, :, k], edges, density=True)[0]
        arrays[f"{kind}_truth"] = np.histogram(truth[:, k], edges, density=True)[0]
    return arrays


def _cell(case: Case, method: str) -> str:
    return f"{case.name}-{method}"


def histograms(figure: str, out: Path) -> dict[str, dict[str, Any]]:
    """What figure 3 shows, by method."""
    store, case = Store(out), cases(figure, 1)[0]
    return {name: arrays for name in METHODS if (arrays := store.arrays(_cell(case, name)))}
