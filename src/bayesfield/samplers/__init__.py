"""Chains of the parameters: the posterior by sampling, exact where the sampler is, and the paper's approximations."""

from bayesfield.samplers.contract import Sampler
from bayesfield.samplers.draws import Draws, load_draws
from bayesfield.samplers.exchange import Exchange
from bayesfield.samplers.langevin import Langevin
from bayesfield.samplers.metropolis import Metropolis
from bayesfield.samplers.nuts import NUTS
from bayesfield.samplers.sample import sample_posterior, sample_sequences

__all__ = [
    "NUTS",
    "Draws",
    "Exchange",
    "Langevin",
    "Metropolis",
    "Sampler",
    "load_draws",
    "sample_posterior",
    "sample_sequences",
]
