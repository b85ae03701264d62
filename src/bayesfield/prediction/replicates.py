"""Data that a posterior would give: for each draw of the parameters, as many cases, with the same holes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfield.graph.compiled import CompiledField, compiled
from bayesfield.inference.by_name import as_engine
from bayesfield.inference.sampling.gibbs_chains import fresh, run
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.model.field import RandomField
from bayesfield.types import FloatArray, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.inference.trees.junction_tree import Exact
    from bayesfield.posterior.posterior import Posterior

_CELLS = 20_000_000  # of chains' states, or entries of their tables, that are held at a time


def replicates(
    compiled_field: CompiledField,
    codes: IntArray,
    points: FloatArray,
    engine: Exact | Sampled,
    rng: np.random.Generator,
) -> Iterator[IntArray]:
    """For each of the parameters, points (S, F), one data set (N, n): positions in the states, −1 where codes has."""
    holes = codes < 0
    drawn = _exact if engine.traits.exact else _sampled
    for states in drawn(compiled_field, len(codes), points, engine, rng):
        states[holes] = -1
        yield states


def new_cases(posterior: Posterior, n: int, n_draws: int, rng: np.random.Generator) -> IntArray:
    """(n, variables) positions in the states, from the posterior predictive: each draw of the parameters its share."""
    if not isinstance(posterior.field, RandomField):
        raise InvalidInput("new cases are drawn of fields; labels are drawn given inputs")
    compiled_field = compiled(posterior.field)
    points = posterior.sample(min(n_draws, n), rng)
    shape = np.zeros((-(-n // len(points)), posterior.field.n_variables), dtype=np.int64)
    drawn = np.concatenate(list(replicates(compiled_field, shape, points, simulator(compiled_field, "auto"), rng)))
    result: IntArray = rng.permutation(drawn)[:n]
    return result


def simulator(compiled_field: CompiledField, engine: Any) -> Exact | Sampled:
    """What draws cases: exact where that is affordable, else Gibbs chains; or what a user asks for."""
    chosen: Any = as_engine(engine)
    if chosen.traits.chooses:
        chosen, _ = chosen.choose(compiled_field.graph)
        return chosen if chosen.traits.exact else Sampled()
    if not chosen.traits.exact and chosen.traits.has_log_z:
        raise InvalidInput(f"cases are drawn by bf.Exact() or bf.Sampled(); got {engine!r}")
    return chosen  # type: ignore[no-any-return]


def _exact(
    compiled_field: CompiledField, n: int, points: FloatArray, engine: Any, rng: np.random.Generator
) -> Iterator[IntArray]:
    """The junction tree is kept with the graph, and filled anew for each draw."""
    for here in points:
        yield engine.sample(compiled_field.graph, compiled_field.design.potentials(here), n, rng)


def _sampled(
    compiled_field: CompiledField, n: int, points: FloatArray, engine: Any, rng: np.random.Generator
) -> Iterator[IntArray]:
    """The ends of n chains at each draw, those of many draws side by side."""
    g = compiled_field.graph.arrays
    together = int(np.clip(_CELLS // max(n * len(g.cardinality), compiled_field.graph.n_entries, 1), 1, len(points)))
    for k in range(0, len(points), together):
        some = points[k : k + together]
        states, seeds = fresh(g, n * len(some), int(rng.integers(2**31)))
        thetas = np.array([compiled_field.design.potentials(here) for here in some])
        run(compiled_field.graph, thetas, states, seeds, engine.burn_in + engine.sweeps, count=False)
        yield from states.reshape(len(some), n, -1).astype(np.int64)
