"""Loopy belief propagation: message updates in a second on one core.

An update is one new message from one variable to another, so a sweep makes two for every edge. Only sweeps count: a
run of many minus a run of one, at potentials so strong that messages never settle. The peers pass the same messages,
all of them at once: PGMax in a compiled loop, pyAgrum on a Bayesian network in which every edge is an observed child
of its two ends.
"""

import os
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import numpy as np

import bayesfield as bf
from benchmarks.problems import Problem, grid, random_graph, tables
from benchmarks.timing import Report, Watch, best, installed, ratio, require_same, several_cores

NEVER_SETTLES = 14.0  # factor on the log-potentials while ours is timed: a run ends where its messages settle
SAME = 1e-4  # PGMax computes with single precision unless told otherwise; pyAgrum stops at changes of 1e-8
PGMAX_LARGEST = 1_000_000  # variables: that many take 7 GB, as it builds its graph in Python objects
PYAGRUM_LARGEST = 10_000

CASES: tuple[tuple[Callable[[], Problem], int, float], ...] = (  # problem, sweeps, target in million updates a second
    (partial(grid, 100, 100), 1000, 100.0),
    (partial(grid, 1000, 1000), 60, 100.0),
    (partial(random_graph, 10_000, 30_000), 1000, 100.0),
    (partial(tables, 50, 10, "table"), 400, 7.0),
    (partial(tables, 50, 10, "equal"), 400, 20.0),
)
QUICK = (0, 4)
LIBDAI, TIMES = 1.8, {1: 55.0, 2: 110.0}  # million updates a second of its SEQFIX; and how many times that, by cores


def run(watch: Watch) -> list[Report]:
    rows = []
    for number, (make, sweeps, target) in enumerate(CASES):
        if watch.quick and number not in QUICK:
            continue
        problem = make()
        watch.tell(f"messages, {problem.name}")
        done, ours = our_rate(problem, sweeps, watch)
        row = [problem.name, done, ours]
        for peer in PEERS if watch.peers else ():
            watch.tell(f"messages, {problem.name}: {peer.__name__}")
            theirs = peer(problem, watch)
            row += [theirs, None if theirs is None else ratio(ours, theirs)]
        rows.append((*row, target, ours >= target))
    names = [name for p in PEERS if watch.peers for name in (p.__name__, f"ours ÷ {p.__name__}")]
    columns = ("model", "sweeps", "ours", *names, "target", "met")
    title = "Loopy belief propagation, million message updates a second, one core"
    return [Report(title, columns, rows), _on_cores(watch)]


def _on_cores(watch: Watch) -> Report:
    """A large lattice on one core and on two, against libDAI's sequential schedule on one, as measured elsewhere."""
    side = 300 if watch.quick else 1000
    problem, rows = grid(side, side), []
    for cores in (1, 2) if (os.cpu_count() or 1) > 1 else (1,):
        watch.tell(f"messages, {problem.name}, {cores} core(s)")
        with several_cores(cores):
            _, ours = our_rate(problem, 60, watch, cores)
        rows.append((cores, ours, ours / LIBDAI, TIMES[cores], ours / LIBDAI >= TIMES[cores]))
    columns = ("cores", "million updates a second", "times libDAI's 1.8", "target", "met")
    return Report(f"Loopy belief propagation on a {problem.name}", columns, rows)


def our_rate(problem: Problem, sweeps: int, watch: Watch, cores: int = 1) -> tuple[int, float]:
    """Sweeps done, and million updates a second."""

    theta = NEVER_SETTLES * problem.theta

    def run_for(budget: int) -> int:
        engine = bf.Bethe(tolerance=1e-300, max_direct=0, max_sweeps=budget)
        return engine.infer(problem.graph, theta).status.iterations

    done = run_for(sweeps)
    many, few = (best(partial(run_for, count), watch.seconds, cores=cores) for count in (sweeps, 1))
    seconds = many - few
    return done, _million(problem, done - 1, seconds)


def pgmax(problem: Problem, watch: Watch) -> float | None:
    if not installed("pgmax") or len(problem.unary) > PGMAX_LARGEST:
        return None
    import jax
    from jax.extend import backend

    if not hasattr(jax.lib, "xla_bridge"):  # PGMax 0.6 asks for it; newer versions of JAX moved it
        jax.lib.xla_bridge = SimpleNamespace(get_backend=backend.get_backend)
    from pgmax import fgraph, fgroup, infer, vgroup

    n, states = problem.unary.shape
    variables = vgroup.NDVarArray(num_states=states, shape=(n,))
    graph = fgraph.FactorGraph(variables)
    scopes = [[variables[int(i)], variables[int(j)]] for i, j in problem.edges]
    graph.add_factors(fgroup.PairwiseFactorGroup(variables_for_factors=scopes, log_potential_matrix=problem.pair))
    engine = infer.BP(graph.bp_state, temperature=1.0)
    start = engine.init(evidence_updates={variables: problem.unary})

    def runner(iterations: int) -> Callable[[], object]:
        loop = jax.jit(lambda a: engine.run(a, num_iters=iterations, damping=0.0, temperature=1.0))
        return lambda: jax.block_until_ready(loop(start))

    few, many = runner(1), runner(101)
    found = infer.get_marginals(engine.get_beliefs(many()))[variables]
    _check("PGMax", problem, np.asarray(found))
    return _million(problem, 100, best(many, watch.seconds) - best(few, watch.seconds))


def pyagrum(problem: Problem, watch: Watch) -> float | None:
    if not installed("pyagrum") or len(problem.unary) > PYAGRUM_LARGEST:
        return None
    import pyagrum as gum

    gum.setNumberOfThreads(1)
    n, states = problem.unary.shape
    network = gum.BayesNet()
    network.beginTopologyTransformation()
    for i in range(n):
        network.add(gum.LabelizedVariable(f"x{i}", "", states), i)
    for k, (i, j) in enumerate(problem.edges.tolist()):
        network.add(gum.LabelizedVariable(f"e{k}", "", 2), n + k)
        network.addArc(i, n + k)
        network.addArc(j, n + k)
    network.endTopologyTransformation()
    for i, logs in enumerate(problem.unary):
        weights = np.exp(logs - logs.max())
        network.cpt(i)[:] = weights / weights.sum()
    for k, logs in enumerate(problem.pair):
        seen = np.exp(logs - logs.max()).T  # axes: second end, first end, the child
        network.cpt(n + k)[:] = np.ascontiguousarray(np.stack([1.0 - seen, seen], axis=-1))
    observed = {n + k: 1 for k in range(len(problem.edges))}

    def after(iterations: int) -> tuple[object, float]:
        engine = gum.LoopyBeliefPropagation(network)
        engine.setEvidence(observed)
        engine.setEpsilon(1e-8)
        engine.setMinEpsilonRate(1e-300)
        engine.setMaxIter(iterations)
        engine.setPeriodSize(1)
        return engine, best(engine.makeInference, 0.0, warm_up=False)

    engine, many = after(60)
    _check("pyAgrum", problem, np.array([engine.posterior(i).toarray() for i in range(n)]))
    return _million(problem, engine.nbrIterations() - 1, many - after(1)[1])


def _check(peer: str, problem: Problem, found: np.ndarray) -> None:
    ours = bf.Bethe().infer(problem.graph, problem.theta).tables[: problem.unary.size]
    require_same(peer, ours, found.ravel(), SAME)


def _million(problem: Problem, sweeps: int, seconds: float) -> float:
    return 2e-6 * len(problem.edges) * sweeps / seconds


PEERS: tuple[Callable[[Problem, Watch], float | None], ...] = (pgmax, pyagrum)
