"""``bayesfield bench``: what this machine gives. Comparisons with other libraries are in ``benchmarks/``."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from bayesfield.fitting.fields import fit
from bayesfield.graph.compiled import compiled
from bayesfield.inference.messages.belief_propagation import Bethe
from bayesfield.inference.messages.kikuchi import Kikuchi
from bayesfield.inference.queries import infer, sample
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.learning.phases.cases import field_objective
from bayesfield.model.builders import grid, pairwise
from bayesfield.model.prior import Normal

if TYPE_CHECKING:
    from bayesfield.model.field import RandomField

Watch = Callable[[int, int], None]


class Speed(NamedTuple):
    """task: in words. seconds: the best of several runs. rate: how many of ``unit`` in a second."""

    task: str
    seconds: float
    rate: float
    unit: str


def speeds(watch: Watch, repeat: int = 5) -> pd.DataFrame:
    """A row for each task; kernels are compiled before the clock starts."""
    tasks = [_gradient, _messages, _regions, _gibbs, _dense_fit, _lattice_fit]
    rows = []
    for k, task in enumerate(tasks):
        watch(k, len(tasks))
        rows.append(task(repeat))
    watch(len(tasks), len(tasks))
    return pd.DataFrame(rows)


def in_words(table: pd.DataFrame) -> pd.DataFrame:
    """For people: times and rates in units that they read."""
    return pd.DataFrame(
        {
            "task": table["task"],
            "time": [_time(s) for s in table["seconds"]],
            "a second": [f"{_count(r)} {u}" for r, u in zip(table["rate"], table["unit"], strict=True)],
        }
    )


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:.3g} µs"
    return f"{1e3 * seconds:.3g} ms" if seconds < 1.0 else f"{seconds:.3g} s"


def _count(rate: float) -> str:
    return f"{rate / 1e6:.3g} million" if rate >= 1e6 else f"{rate:,.0f}"


def _gradient(repeat: int) -> Speed:
    field, parameters = _drawn(grid(5, 5))
    X = sample(field, parameters, 500, 0)
    objective = field_objective(field, X, Normal(variance=1.0), Exact())
    seconds = _best(lambda: objective.at(parameters), repeat, times=200)
    return Speed("exact gradient, 5×5 lattice", seconds, 1.0 / seconds, "gradients")


def _messages(repeat: int) -> Speed:
    field, parameters = _drawn(grid(200, 200))
    seconds, sweeps = _swept(field, parameters, Bethe(), repeat)
    return Speed("belief propagation, 200×200 lattice", seconds, 2 * len(field.edges) * sweeps / seconds, "messages")


def _regions(repeat: int) -> Speed:
    field, parameters = _drawn(grid(50, 50))
    seconds, sweeps = _swept(field, parameters, Kikuchi(), repeat)
    return Speed("plaquettes (Kikuchi), 50×50 lattice", seconds, 49 * 49 * sweeps / seconds, "plaquette updates")


def _gibbs(repeat: int) -> Speed:
    field, parameters = _drawn(grid(200, 200))
    engine = Sampled(chains=8, sweeps=50, burn_in=0)
    theta, graph = compiled(field).design.potentials(parameters), compiled(field).graph
    seconds = _best(lambda: engine.infer(graph, theta), repeat)
    return Speed("Gibbs sweeps, 200×200 lattice", seconds, 8 * 50 * field.n_variables / seconds, "site updates")


def _dense_fit(repeat: int) -> Speed:
    field, parameters = _drawn(pairwise(10, itertools.combinations(range(10), 2), (0, 1)))
    return _fitted("posterior of 10 items, all pairs, 500 cases", field, parameters, repeat)


def _lattice_fit(repeat: int) -> Speed:
    field, parameters = _drawn(grid(8, 8))
    return _fitted("posterior of an 8×8 lattice, 500 cases", field, parameters, min(repeat, 3))


def _fitted(task: str, field: RandomField, parameters: Any, repeat: int) -> Speed:
    X = sample(field, parameters, 500, 0)
    seconds = _best(lambda: fit(field, X, Normal(variance=0.25)), repeat)
    return Speed(task, seconds, field.n_parameters / seconds, "parameters")


def _swept(field: RandomField, parameters: Any, engine: Any, repeat: int) -> tuple[float, int]:
    sweeps = infer(field, parameters, engine=engine).status.iterations
    return _best(lambda: infer(field, parameters, engine=engine), repeat), sweeps


def _drawn(field: RandomField) -> tuple[RandomField, Any]:
    return field, 0.2 * np.random.default_rng(0).normal(size=field.n_parameters)


def _best(task: Callable[[], object], repeat: int, times: int = 1) -> float:
    """Seconds of one call: the least of ``repeat`` runs of ``times`` calls, after one that compiles."""
    task()
    found = []
    for _ in range(repeat):
        begun = time.perf_counter()
        for _ in range(times):
            task()
        found.append((time.perf_counter() - begun) / times)
    return min(found)
