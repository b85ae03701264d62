"""Draws of what is hidden in cases, all holes of a case together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayesfield.inference.auto import Auto
from bayesfield.inference.sampling.gibbs_chains import gibbs_draws
from bayesfield.types import FloatArray, IntArray

if TYPE_CHECKING:
    from bayesfield.graph.clamp import Clamped, Phase

_SWEEPS = 200  # of Gibbs chains, where exact draws do not fit


def completed(codes: IntArray, clamped: Clamped, parameters: FloatArray, rng: np.random.Generator) -> IntArray:
    """One draw of all holes of codes (N, n), where they are −1; each of the cases that are alike has its own."""
    result, turn = codes.copy(), _turns(clamped.first)
    for phase in clamped.phases:
        drawn = _drawn(phase, phase.design.potentials(parameters), rng)  # (weight, n)
        number = np.full(codes.shape, -1, dtype=np.int64)
        number[phase.cells[:, 0], phase.cells[:, 1]] = np.arange(len(phase.cells))
        # of the cases alike, the phases of less weight serve the first ones: the lower bits of how often they occur
        own = turn - (clamped.often & (int(phase.weight) - 1))
        served = (own >= 0) & (own < phase.weight)
        row, column = np.nonzero(served[:, None] & (codes < 0) & (number[clamped.first] >= 0))
        result[row, column] = drawn[own[row], number[clamped.first[row], column]]
    return result


def _turns(first: IntArray) -> IntArray:
    """For every case how many before it are alike."""
    order = np.argsort(first, kind="stable")
    begins = np.flatnonzero(np.diff(first[order], prepend=-1))
    sizes = np.diff(np.append(begins, len(first)))
    result = np.empty(len(first), dtype=np.int64)
    result[order] = np.arange(len(first)) - np.repeat(begins, sizes)
    return result


def _drawn(phase: Phase, theta: FloatArray, rng: np.random.Generator) -> IntArray:
    """As many joint states of a phase as cases stand behind it: exact, or the ends of Gibbs chains."""
    engine, count = Auto().choose(phase.graph)[0], int(phase.weight)
    if engine.traits.exact:
        return engine.sample(phase.graph, theta, count, rng)  # type: ignore[union-attr]
    return gibbs_draws(phase.graph, theta, count, _SWEEPS, int(rng.integers(2**31)))
