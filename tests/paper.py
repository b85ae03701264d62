"""The paper's comparison: CVM (23) of fitted posteriors against long HMC runs with exact gradients."""

import numpy as np

import bayesfield as bf
from bayesfield.diagnostics import cramer_von_mises, split_r_hat
from bayesfield.learning.phases.cases import field_objective

from reference_hmc import hmc

DRAWS = 10_000


def scores(field, X, prior, settings, rng):
    """CVM summed over the parameters: floor (HMC against HMC), then a fit with each of the settings; and the fits."""
    objective = field_objective(field, X, prior, bf.Exact())
    exact = bf.fit(field, X, prior, bf.Exact())
    chains = [hmc(objective, exact.mean, exact.precision, DRAWS, child) for child in rng.spawn(2)]
    assert min(accepted for _, accepted in chains) > 0.6
    draws = [samples for samples, _ in chains]
    assert split_r_hat(np.stack(draws)).max() < 1.01
    fits = [bf.fit(field, X, prior, **options) for options in settings]
    rivals = [draws[1], *(f.sample(DRAWS, rng) for f in fits)]
    return [cramer_von_mises(draws[0], other).sum() for other in rivals], fits
