"""bayesfield: Bayesian learning of discrete random fields.

import bayesfield as bf
field = bf.grid(8, 8)
posterior = bf.fit(field, X, prior=bf.Normal(variance=0.25))
posterior.summary()
"""

from bayesfield.formats.arviz import to_arviz
from bayesfield.inference import (
    Auto,
    Beliefs,
    Bethe,
    Engine,
    Enumeration,
    Evidence,
    Exact,
    Kikuchi,
    Sampled,
    covariance,
    infer,
    most_probable,
    preview,
    sample,
)
from bayesfield.learning import ContrastiveDivergence, IterativeScaling, PseudoLikelihood
from bayesfield.model import Factor, Normal, RandomField, Variable, chain, grid, grid_edges, pairwise, potts
from bayesfield.posterior import Check, FitRecord, Posterior, fit
from bayesfield.samplers import NUTS, Draws, Exchange, Langevin, Metropolis, Sampler, load_draws, sample_posterior
from bayesfield.types import BayesfieldError, FitWarning, IndefiniteCurvature, InvalidInput, Outcome, Status, TooLarge

__version__ = "0.1.0"

__all__ = [
    "NUTS",
    "Auto",
    "BayesfieldError",
    "Beliefs",
    "Bethe",
    "Check",
    "ContrastiveDivergence",
    "Draws",
    "Engine",
    "Enumeration",
    "Evidence",
    "Exact",
    "Exchange",
    "Factor",
    "FitRecord",
    "FitWarning",
    "IndefiniteCurvature",
    "InvalidInput",
    "IterativeScaling",
    "Kikuchi",
    "Langevin",
    "Metropolis",
    "Normal",
    "Outcome",
    "Posterior",
    "PseudoLikelihood",
    "RandomField",
    "Sampled",
    "Sampler",
    "Status",
    "TooLarge",
    "Variable",
    "chain",
    "covariance",
    "fit",
    "grid",
    "grid_edges",
    "infer",
    "load_draws",
    "most_probable",
    "pairwise",
    "potts",
    "preview",
    "sample",
    "sample_posterior",
    "to_arviz",
]
