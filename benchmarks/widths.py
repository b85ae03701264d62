"""All marginal widths of a lattice's posterior at given parameters, Gibbs updates of items of five states, and sample
covariances of all pairs of binary items.

The widths come from a sparse factor and its selected inverse; the updates from the kernel for pairs of few states,
against the general one in the same run; covariances from counts of bits, against products in the same run.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import bayesfield as bf
from bayesfield.graph.compiled import CompiledField, Design, compiled
from bayesfield.graph.structure import Graph
from bayesfield.inference.sampling import gibbs_chains as chains
from bayesfield.kernels.gibbs import general as gibbs
from bayesfield.kernels.gibbs import tables as gibbs_tables
from bayesfield.response.sampled import SampleResponse, within_covariance
from benchmarks.timing import Report, Watch

ITEMS, STATES = 17, 5


def run(watch: Watch) -> list[Report]:
    return [_widths(watch), _updates(watch), _covariances(watch)]


def _widths(watch: Watch) -> Report:
    rows = []
    for side in (30, 60) if watch.quick else (60, 100, 200, 300):
        watch.tell(f"widths, {side}×{side}")
        field = bf.grid(side, side)
        parameters = 0.25 * np.random.default_rng(0).normal(size=field.n_parameters)
        begun = time.perf_counter()
        posterior = bf.laplace(field, parameters, 1000, bf.Normal(variance=0.25), "bethe", form="sparse")
        made = time.perf_counter()
        widths = posterior.sd
        rows.append((f"{side}×{side}", field.n_parameters, made - begun, time.perf_counter() - made, widths.mean()))
    columns = ("lattice", "parameters", "precision s", "widths s", "mean sd")
    return Report("Widths of a sparse posterior, Bethe, N = 1000", columns, rows)


def _updates(watch: Watch) -> Report:
    watch.tell("Gibbs updates")
    rng = np.random.default_rng(0)
    field = bf.ordinal(ITEMS, [(i, j) for i in range(ITEMS) for j in range(i)], STATES)
    known = compiled(field)
    nodes = np.array(list(field.groups)) == "nodes"
    theta = known.design.potentials(np.where(nodes, 0.5, 0.05) * rng.normal(size=field.n_parameters))
    g, sweeps = known.graph.arrays, 5 if watch.quick else 20
    tables = gibbs_tables.pair_tables(g, theta)
    kernels = {
        "general": lambda x, seeds, sums: gibbs.sweep_chains(g, theta, x, seeds, sweeps, sums),
        "pairs of few states": lambda x, seeds, sums: gibbs_tables.sweep_chains(
            g, tables, x, seeds, sweeps, True, sums
        ),
    }
    taken = {}
    for name, sweep in kernels.items():
        best = np.inf
        for _ in range(3):  # the first compiles
            states, seeds = chains.fresh(g, 2000, 1)
            begun = time.perf_counter()
            sweep(states, seeds, np.zeros(len(theta)))
            best = min(best, time.perf_counter() - begun)
        taken[name] = 1e9 * best / (2000 * sweeps * ITEMS)
    rows = [(name, value, value / taken["general"]) for name, value in taken.items()]
    return Report(f"Gibbs updates, {ITEMS} items of {STATES} states, all pairs", ("kernel", "ns", "ratio"), rows)


def _covariances(watch: Watch) -> Report:
    """160,000 states, as many as one step of a sampled correction takes, in 320 batches; processor time."""
    rows = []
    for items in (12, 20) if watch.quick else (18, 30, 45):
        watch.tell(f"covariances, {items} items")
        known = compiled(bf.pairwise(items, [(i, j) for j in range(items) for i in range(j)], states=(0, 1)))
        states = np.random.default_rng(0).integers(0, 2, size=(4, 40_960, items)).astype(np.int32)
        F = int(known.design.matrix.shape[1])
        counted = _spent(within_covariance, known, states)
        summed = _spent(_by_products, known, states)
        rows.append((items, F, counted, summed, summed / counted))
    columns = ("items", "parameters", "bits s", "products s", "ratio")
    return Report("Sample covariance of 163,840 states of binary items, all pairs", columns, rows)


def _by_products(graph: Graph, design: Design, states: Any, batches: int) -> Any:
    return SampleResponse(graph, design, states, batches, pooled=False).covariance()


def _spent(covariance: Callable[..., Any], known: CompiledField, states: Any) -> float:
    """The least processor time of two calls: the first compiles."""
    best = np.inf
    for _ in range(2):
        begun = time.process_time()
        covariance(known.graph, known.design, states, 320)
        best = min(best, time.process_time() - begun)
    return best
