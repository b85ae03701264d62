"""What the library adds to its kernels: the public call, the import, the first call.

Kernels are timed inside compiled code, so that what crosses from Python into them counts as overhead.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial

import numba
import numpy as np

import bayesfield as bf
from bayesfield.graph.structure import Graph
from bayesfield.kernels.messages import odds, pairs
from bayesfield.kernels.messages import sum_product as messages
from bayesfield.kernels.trees import passes as trees
from benchmarks.problems import grid
from benchmarks.timing import Report, Watch, best

TARGET_MS = 0.2
REPEATS = 200


def run(watch: Watch) -> list[Report]:
    return [_calls(watch), _beginnings(watch)]


def _calls(watch: Watch) -> Report:
    problem = grid(5, 5)
    rows = []
    for engine, kernels in ((bf.Exact(), exact_kernels), (bf.Bethe(), bethe_kernels)):
        watch.tell(f"overhead, {type(engine).__name__}")
        public = 1e3 * best(partial(bf.infer, problem.field, problem.parameters, engine), watch.seconds)
        inner = 1e3 * best(partial(engine.infer, problem.graph, problem.theta), watch.seconds)
        kernel = 1e3 * best(kernels(engine, problem.graph, problem.theta), watch.seconds) / REPEATS
        over = public - kernel
        rows.append((type(engine).__name__, public, inner, kernel, over, TARGET_MS, over <= TARGET_MS))
    columns = ("5×5 grid", "bf.infer ms", "engine.infer ms", "kernels ms", "overhead ms", "target ms", "met")
    return Report("Overhead of bf.infer above its kernels", columns, rows)


def exact_kernels(engine: bf.Exact, graph: Graph, theta: np.ndarray) -> Callable[[], object]:
    """The kernels of Exact.infer, REPEATS times."""
    tree, tables, marginal = engine.infer(graph, theta).state
    work = tables.copy(), marginal.copy(), np.empty(graph.n_entries)
    return lambda: _exact_loop(tree, theta, *work, REPEATS)


@numba.njit
def _exact_loop(tree, theta, tables, buffer, beliefs, repeats):
    total = 0.0
    for _ in range(repeats):
        total += trees.collect(tree, theta, tables, buffer)[0]
        trees.distribute(tree, tables, buffer)
        trees.core_beliefs(tree, buffer, beliefs)
    return total


def bethe_kernels(engine: bf.Bethe, graph: Graph, theta: np.ndarray) -> Callable[[], object]:
    """The kernels of Bethe.infer for a binary pairwise field, REPEATS times, for as many sweeps as it took."""
    status = engine.infer(graph, theta).status
    order = pairs.pair_arrays(graph.arrays)
    history, tables = np.zeros(engine.max_sweeps), np.empty(graph.n_entries)
    tolerance = float(status.residual)
    return lambda: _bethe_loop(graph.arrays, order, theta, tolerance, history, tables, REPEATS)


@numba.njit
def _bethe_loop(g, order, theta, tolerance, history, tables, repeats):
    total = 0.0
    for _ in range(repeats):
        inbox = np.zeros(g.message_ptr[-1])
        node, coupling, field, _worst = odds.odds_form(g, theta)
        odds.run_odds(g, order, node, coupling, field, inbox, False, 0.0, tolerance, history)
        cavity, _ = messages.cavities(g, theta, inbox)
        total += messages.beliefs(g, theta, inbox, cavity, tables)
    return total


# A first call is timed with the import and the building of the field before it: modules are loaded when they are first
# asked for, and which of the three loads pandas or SciPy is no gain or loss to those who wait for the answer.
IMPORT = "import time; t = time.perf_counter(); import bayesfield as bf; print(time.perf_counter() - t)"
FIRST = """
import time, numpy as np
t = time.perf_counter()
import bayesfield as bf
field = bf.grid(5, 5)
bf.{call}
print(time.perf_counter() - t)
"""
CALLS = {
    "infer, Exact": "infer(field, np.zeros(65), bf.Exact())",
    "infer, Bethe": "infer(field, np.zeros(65), bf.Bethe())",
    "fit, Exact": "fit(field, np.ones((10, 25), dtype=int), engine=bf.Exact())",
}


def _beginnings(watch: Watch) -> Report:
    """Seconds in a fresh process, with nothing compiled yet and with the machine code on disk."""
    watch.tell("overhead, import")
    with tempfile.TemporaryDirectory() as cache:
        _in_new_process(IMPORT, cache)
        rows: list[tuple] = [("import bayesfield", None, min(_in_new_process(IMPORT, cache) for _ in range(5)))]
    for name, call in list(CALLS.items())[: 1 if watch.quick else None]:
        watch.tell(f"overhead, first call: {name}")
        with tempfile.TemporaryDirectory() as cache:
            script = FIRST.format(call=call)
            cold = _in_new_process(script, cache)
            rows.append(
                (f"import, grid and first call of {name}", cold, min(_in_new_process(script, cache) for _ in range(3)))
            )
    return Report("Beginnings, seconds in a new process", ("what", "nothing compiled", "compiled before"), rows)


def _in_new_process(script: str, cache: str) -> float:
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)
