"""How cost grows: exact inference with treewidth, Bethe and its linear response with variables, fits with N and F.

Each table gives the exponent p of cost ∝ size^p from the row before.
"""

from functools import partial

import numpy as np

import bayesfield as bf
from bayesfield.graph.compiled import compiled
from benchmarks.problems import Problem, grid
from benchmarks.timing import Report, Watch, best, exponents

LENGTH = 20  # of the strips whose width is varied


def run(watch: Watch) -> list[Report]:
    return [_exact(watch), _bethe(watch), _fit_cases(watch), _fit_parameters(watch)]


def _exact(watch: Watch) -> Report:
    """Strips of growing width: the tables grow as 2^width, and the time should follow them."""
    entries, plans, times, rows = [], [], [], []
    _plan(bf.Exact(), grid(2, 2))  # compiles, so that the first row's first call does not
    for width in (2, 4, 6, 8) if watch.quick else (2, 4, 6, 8, 10, 12, 14, 16):
        watch.tell(f"growth, exact inference, width {width}")
        engine, problem = bf.Exact(), grid(width, LENGTH)
        plans.append(best(partial(_plan, engine, problem), 0.0, warm_up=False))
        times.append(best(partial(engine.infer, problem.graph, problem.theta), watch.seconds / 3))
        entries.append(engine.preview(problem.graph).entries)
        rows.append((f"{width}×{LENGTH}", entries[-1], 1e3 * plans[-1], 1e3 * times[-1], 1e9 * times[-1] / entries[-1]))
    rows = [(*row, p) for row, p in zip(rows, exponents(entries, times), strict=True)]
    columns = ("grid", "table entries", "first call ms", "infer ms", "ns an entry", "exponent in entries")
    return Report("Exact inference against treewidth", columns, rows)


def _plan(engine: bf.Exact, problem: Problem) -> None:
    """The first call: the elimination order and the layout of the tree, and one inference."""
    problem.graph.plans.clear()
    engine.infer(problem.graph, problem.theta)


def _bethe(watch: Watch) -> Report:
    rows, sizes, infers, prepares = [], [], [], []
    for side in (10, 20, 40) if watch.quick else (10, 20, 40, 80, 160, 320):
        watch.tell(f"growth, Bethe, {side}×{side}")
        engine, problem = bf.Bethe(), grid(side, side, 0.2)
        marginals = engine.infer(problem.graph, problem.theta)
        design = compiled(problem.field).design
        arguments = problem.graph, design, problem.theta, marginals
        response = engine.response(*arguments)
        vector = np.ones((problem.field.n_parameters, 1))
        sizes.append(side * side)
        infers.append(best(partial(engine.infer, problem.graph, problem.theta), watch.seconds / 3))
        prepares.append(best(partial(engine.response, *arguments), watch.seconds / 3))
        product = best(partial(response.product, vector), watch.seconds / 3)
        sweeps = marginals.status.iterations
        rows.append((f"{side}×{side}", sizes[-1], sweeps, 1e3 * infers[-1], 1e3 * prepares[-1], 1e3 * product))
    joined = zip(rows, exponents(sizes, infers), exponents(sizes, prepares), strict=True)
    columns = ("grid", "variables", "sweeps", "infer ms", "prepare ms", "one product ms", "infer p", "prepare p")
    title = "Bethe and linear response against the number of variables"
    return Report(title, columns, [(*row, p, q) for row, p, q in joined])


def _fit_cases(watch: Watch) -> Report:
    problem = grid(5, 5)
    cases = (100, 1000, 10_000) if watch.quick else (100, 1000, 10_000, 100_000, 1_000_000)
    data = bf.sample(problem.field, problem.parameters, cases[-1], 0)
    columns = ("cases N", "Exact ms", "Newton steps", "exponent")
    rows, times = [], []
    for count in cases:
        watch.tell(f"growth, fit to {count} cases")
        seconds, steps = _fit(problem.field, data[:count], bf.Exact(), watch)
        times.append(seconds)
        rows.append((count, 1e3 * seconds, steps))
    rows = [(*row, p) for row, p in zip(rows, exponents(list(cases), times), strict=True)]
    return Report("Fit of a 5×5 grid against N", columns, rows)


def _fit_parameters(watch: Watch) -> Report:
    rows, sizes, times = [], [], []
    for side in (4, 8) if watch.quick else (4, 6, 8, 12, 16, 24):
        watch.tell(f"growth, fit of a {side}×{side} grid")
        problem = grid(side, side, 0.2)
        data = bf.sample(problem.field, problem.parameters, 1000, 0) if side <= 16 else _independent(side)
        sizes.append(problem.field.n_parameters)
        seconds, steps = _fit(problem.field, data, bf.Bethe(), watch)
        exact = _fit(problem.field, data, bf.Exact(), watch)[0] if side <= 8 else None
        times.append(seconds)
        rows.append((sizes[-1], 1e3 * seconds, steps, None if exact is None else 1e3 * exact))
    rows = [(*row, p) for row, p in zip(rows, exponents(sizes, times), strict=True)]
    columns = ("parameters F", "Bethe ms", "Newton steps", "Exact ms", "exponent, Bethe")
    return Report("Fit of square grids to 1,000 cases against F", columns, rows)


def _fit(field: bf.RandomField, data: np.ndarray, engine: bf.Engine, watch: Watch) -> tuple[float, int]:
    def call() -> bf.Posterior:
        return bf.fit(field, data, prior=bf.Normal(variance=0.25), engine=engine)

    return best(call, watch.seconds / 3), len(call().record.iterations)


def _independent(side: int) -> np.ndarray:
    """Cases of a grid too wide to be sampled exactly: every site on its own."""
    return np.random.default_rng(0).choice([-1, 1], size=(1000, side * side), p=[0.45, 0.55])
