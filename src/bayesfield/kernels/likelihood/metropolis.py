"""Random-walk Metropolis on the parameters, a lane for each chain, with exact or Bethe log Z in the acceptance."""

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.kernels.likelihood.density import Target, Work, energies
from bayesfield.kernels.messages.bethe_lanes import WIDTH
from bayesfield.types import FloatArray


@jit
def walk(
    target: Target,
    work: Work,
    noise: FloatArray,
    log_uniform: FloatArray,
    active: int,
    position: FloatArray,
    energy: FloatArray,
    kept: FloatArray,
    trace: FloatArray,
) -> None:
    """Steps along noise (steps, F, WIDTH), each accepted if log_uniform (steps, WIDTH) allows. In place.

    kept (draws, F, WIDTH): positions after every steps/draws steps. trace (draws, 3, WIDTH): the energy there, the
    share of moves accepted since the last, and the share that had no log Z (which are refused).
    """
    F, thin = len(position), len(noise) // len(kept)
    proposal, new = np.zeros((F, WIDTH)), np.zeros(WIDTH)
    trace[:] = 0.0
    for step in range(len(noise)):
        for f in range(F):
            for c in range(WIDTH):
                proposal[f, c] = position[f, c] + noise[step, f, c]
        energies(target, proposal, active, work, new)
        draw = step // thin
        for c in range(active):
            if np.isnan(new[c]):
                trace[draw, 2, c] += 1.0 / thin
            elif log_uniform[step, c] < energy[c] - new[c]:
                trace[draw, 1, c] += 1.0 / thin
                energy[c] = new[c]
                for f in range(F):
                    position[f, c] = proposal[f, c]
        if (step + 1) % thin == 0:
            kept[draw] = position
            trace[draw, 0] = energy
