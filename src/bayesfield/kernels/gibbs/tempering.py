"""Swaps of chains between temperatures, and the energies that decide them."""

import numpy as np

from bayesfield.kernels.gibbs.general import uniform
from bayesfield.kernels.gibbs.pairs import WIDTH, PairOdds
from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, GraphArrays


@jit
def swap_chains(
    step: float,
    low: np.ndarray,
    high: np.ndarray,
    low_energy: FloatArray,
    high_energy: FloatArray,
    seeds: np.ndarray,
) -> float:
    """Exchange the states, (chains, n), of chains at two temperatures with probability min(1, a), in place.

    log a = (β_high − β_low)(θ(x_low) − θ(x_high)); step: β_high − β_low. The energies θ(x), (chains,), are exchanged
    along. seeds: (chains, 2), the generators of one of both. Returns Σ min(1, a): what swaps are expected.
    """
    total = 0.0
    for c in range(len(seeds)):
        a = np.exp(min(0.0, step * (low_energy[c] - high_energy[c])))
        total += a
        if uniform(seeds[c]) < a:
            low_energy[c], high_energy[c] = high_energy[c], low_energy[c]
            for i in range(low.shape[1]):
                low[c, i], high[c, i] = high[c, i], low[c, i]
    return total


@jit
def pair_energies(g: GraphArrays, o: PairOdds, states: np.ndarray, out: FloatArray) -> None:
    """θ(x) − θ(0), (chains,), of a binary pairwise field, WIDTH chains side by side. states: (chains, n)."""
    n = len(o.field)
    x, total, inner = np.zeros((n, WIDTH)), np.empty(WIDTH), np.empty(WIDTH)
    for start in range(0, len(states), WIDTH):
        width = min(WIDTH, len(states) - start)
        for c in range(width):
            for i in range(n):
                x[i, c] = states[start + c, i]
        total[:] = 0.0
        for i in range(n):
            # a factor stands with both its variables: from the later one only its earlier neighbours count
            inner[:] = 0.0
            for k in range(g.slot_ptr[i], g.slot_ptr[i + 1]):
                if o.neighbour[k] < i:
                    w, other = o.weight[k], x[o.neighbour[k]]
                    for c in range(WIDTH):
                        inner[c] += w * other[c]
            own = x[i]
            for c in range(WIDTH):
                total[c] += own[c] * (o.field[i] + inner[c])
        out[start : start + width] = total[:width]
