"""Hamiltonian Monte Carlo with exact gradients, whitened by a Laplace fit: the reference of the slow tests."""

import numpy as np
from scipy import linalg

STEP, LEAPS = 0.3, 6  # a quarter turn of a standard normal: nearly independent draws


def hmc(objective, centre, precision, draws, rng, warmup=200):
    """(draws, F) samples of exp(−objective), and the share of proposals accepted."""
    # λ = centre + L⁻ᵀz with P = LLᵀ: in z the Laplace posterior is a standard normal
    factor = linalg.cholesky(precision, lower=True)

    def at(z):
        point = objective.at(centre + linalg.solve_triangular(factor, z, lower=True, trans="T"))
        return point.value, linalg.solve_triangular(factor, point.gradient, lower=True), point.parameters

    z = rng.normal(size=len(centre))
    value, slope, parameters = at(z)
    kept, accepted = np.empty((draws, len(centre))), 0
    for k in range(-warmup, draws):
        p = rng.normal(size=len(z))
        energy = value + 0.5 * p @ p
        step = STEP * rng.uniform(0.8, 1.2)
        new_z, new = z, (value, slope, parameters)
        p = p - 0.5 * step * slope
        for leap in range(LEAPS):
            new_z = new_z + step * p
            new = at(new_z)
            p = p - (1.0 if leap < LEAPS - 1 else 0.5) * step * new[1]
        if np.log(rng.uniform()) < energy - new[0] - 0.5 * p @ p:
            z, (value, slope, parameters) = new_z, new
            accepted += k >= 0
        if k >= 0:
            kept[k] = parameters
    return kept, accepted / draws
