"""log Z by thermodynamic integration, for the sampled engine, which does not have it.

From a product of independent variables, potentials θ₀ with known Z₀, along θ_β = (1 − β) θ₀ + β θ:

    log Z = log Z₀ + ∫₀¹ (θ − θ₀)ᵀ b_β dβ,

with the Rao-Blackwellised tables b_β of chains that are carried from one β to the next. The integral is by Kronrod's
rule of 15 points, going up and coming down again: the two ways differ where chains mix slowly. That difference and the
one from Gauss's rule of 7 points are part of the error. Batches of chains tell the rest.

Where those chains do not mix, along a ladder of temperatures instead (sampling.tempering): log Z(0) is the number of
joint states, and each step up is a ratio by Bennett's method, whose states swap.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesfield.inference.sampling.tempering import Tempering, log_ratios
from bayesfield.types import FloatArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.graph.structure import Graph
    from bayesfield.inference.sampling.mixing import Mixing
    from bayesfield.inference.sampling.sampled import Sampled

# Kronrod's points in (0, 1] and their weights; every second point, from the second on, is Gauss's
_POINTS = (
    0.991455371120812639206854697526329, 0.949107912342758524526189684047851, 0.864864423359769072789712788640926,
    0.741531185599394439863864773280788, 0.586087235467691130294144691693314, 0.405845151377397166906606412076961,
    0.207784955007898467600689403773245, 0.0,
)  # fmt: skip
_KRONROD = (
    0.022935322010529224963732008058970, 0.063092092629978553290700663189204, 0.104790010322250183839876322541518,
    0.140653259715525918745189590510238, 0.169004726639267902826583426598550, 0.190350578064785409913256402421014,
    0.204432940075298892414161999234649, 0.209482141084727828012999174891714,
)  # fmt: skip
_GAUSS = (
    0.129484966168869693270611432679082, 0.279705391489276667901467771423780, 0.381830050505118944950369775488975,
    0.417959183673469387755102040816327,
)  # fmt: skip
_SETTLE = 10  # sweeps after each change of β that do not count
_MOST_SWEEPS = 2000  # that count, at each β


class LogPartition(NamedTuple):
    """log Z, and its standard error with what the rule may have missed.

    mixing: of the chains nearest to θ (Status.mixing): above 1 they did not mix, and the error does not cover log Z.
    """

    value: float
    error: float
    mixing: float | None


def log_partition(graph: Graph, theta: FloatArray, engine: Sampled, tables: FloatArray, goal: float) -> LogPartition:
    """log Z at θ. tables: beliefs there, whose marginals make the product. goal: the error to reach.

    By the engine's moves; "auto" takes a ladder where single sites do not mix.
    """
    if not np.isfinite(theta).all():
        raise InvalidInput(
            "log Z by sampling needs a field without forbidden states (−inf): no product of independent variables is "
            "near it; take bf.Exact(), bf.Kikuchi() or bf.Bethe()"
        )
    if engine.moves == "tempering":
        return _by_ladder(graph, theta, engine, goal)
    if engine.moves != "auto":
        return _integrated(graph, theta, engine, tables, goal)
    integrated = _integrated(graph, theta, replace(engine, moves="single"), tables, goal)
    if integrated.mixing is None or integrated.mixing <= 1.0:
        return integrated
    return _by_ladder(graph, theta, replace(engine, moves="tempering"), goal)


def _by_ladder(graph: Graph, theta: FloatArray, engine: Sampled, goal: float) -> LogPartition:
    """Runs of the ladder until the spread over batches of chains is as small as the goal."""
    run = replace(engine, snapshots=1)
    chains = run.begin(graph, theta)
    thetas = np.broadcast_to(theta, (run.batches, len(theta)))
    ladder: Tempering = chains.moves  # type: ignore[assignment]
    ladder.record = []
    means: list[FloatArray] = []
    while True:
        chains = run.spread(graph, thetas, chains, parts=1)
        ladder = chains.moves  # type: ignore[assignment]
        energies = np.transpose(np.array(ladder.record), (1, 2, 0))  # (R, chains, sweeps)
        parts = np.array_split(energies, run.batches, axis=1)
        means.append(np.array([log_ratios(ladder.betas, e.reshape(len(e), -1)).sum() for e in parts]))
        each = np.mean(means, axis=0)
        noise = float(each.std(ddof=1) / np.sqrt(len(each)))
        if noise <= goal or len(means) * run.sweeps >= _MOST_SWEEPS:
            states = float(np.log(graph.arrays.cardinality).sum())
            return LogPartition(
                states + float(each.mean()), noise, None if chains.mixing is None else chains.mixing.figure
            )


def _integrated(graph: Graph, theta: FloatArray, engine: Sampled, tables: FloatArray, goal: float) -> LogPartition:
    """Sweeps are doubled until the error is as small as the goal, up to some thousands."""
    nodes = graph.arrays.node_ptr[-1]
    product = np.zeros_like(theta)
    product[:nodes] = np.log(np.maximum(tables[:nodes], 1e-12))
    known = _log_z_of_nodes(graph, product[:nodes])
    sweeps, spent = engine.sweeps, 0
    found: list[FloatArray] = []
    while True:
        run = replace(engine, sweeps=sweeps, snapshots=1, seed=engine.seed + len(found))
        integrals, mixing = _integrals(graph, theta, product, run)
        found.append(integrals)
        spent += sweeps
        weights = engine.sweeps * 2.0 ** np.maximum(np.arange(len(found)) - 1, 0)
        up, down, gauss = np.average(found, axis=0, weights=weights)  # (batches,) each
        each = (up + down) / 2
        noise = float(each.std(ddof=1) / np.sqrt(len(each)))
        lag = abs(float(np.mean(up - down))) / 2
        error = float(np.sqrt(noise**2 + lag**2 + (each.mean() - gauss.mean()) ** 2))
        if noise <= goal or spent >= _MOST_SWEEPS:
            return LogPartition(known + float(each.mean()), error, None if mixing is None else mixing.figure)
        sweeps = spent


def _integrals(
    graph: Graph, theta: FloatArray, product: FloatArray, engine: Sampled
) -> tuple[FloatArray, Mixing | None]:
    """For each batch of chains, (3, batches): the integral on the way up, on the way down, and by Gauss's rule.

    And whether the chains mixed on the highest β, where they were last.
    """
    beta, kronrod, gauss = _rule()
    slopes: list[FloatArray] = []
    chains, top = None, None
    for b in (*beta, *beta[::-1]):
        here = np.broadcast_to((1.0 - b) * product + b * theta, (engine.batches, len(theta)))
        if chains is not None:
            chains = replace(engine, sweeps=_SETTLE).spread(graph, here, chains)
        chains = engine.spread(graph, here, chains)
        slopes.append(chains.batch_means @ (theta - product))
        top = chains.mixing if b == beta[-1] else top
    up, down = np.array(slopes[: len(beta)]), np.array(slopes[len(beta) :])[::-1]
    return np.array([kronrod @ up, kronrod @ down, gauss @ (up + down) / 2]), top


@cache
def _rule() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Points in (0, 1), ascending, with Kronrod's and Gauss's weights."""
    points = np.array([*(-p for p in _POINTS), *_POINTS[-2::-1]])
    kronrod = np.array([*_KRONROD, *_KRONROD[-2::-1]])
    gauss = np.zeros(len(points))
    gauss[1::2] = [*_GAUSS, *_GAUSS[-2::-1]]
    return (points + 1.0) / 2.0, kronrod / 2.0, gauss / 2.0


def _log_z_of_nodes(graph: Graph, log_nodes: FloatArray) -> float:
    starts = graph.arrays.node_ptr[:-1]
    return float(np.log(np.add.reduceat(np.exp(log_nodes), starts)).sum()) if len(starts) else 0.0
