"""bayesfield: Bayesian learning of discrete random fields.

import bayesfield as bf
field = bf.grid(8, 8)
posterior = bf.fit(field, X, prior=bf.Normal(variance=0.25))
posterior.summary()
"""

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
from bayesfield.types import BayesfieldError, FitWarning, IndefiniteCurvature, InvalidInput, Outcome, Status, TooLarge

__version__ = "0.1.0"

__all__ = [
    "Auto",
    "BayesfieldError",
    "Beliefs",
    "Bethe",
    "Check",
    "ContrastiveDivergence",
    "Engine",
    "Enumeration",
    "Evidence",
    "Exact",
    "Factor",
    "FitRecord",
    "FitWarning",
    "IndefiniteCurvature",
    "InvalidInput",
    "IterativeScaling",
    "Kikuchi",
    "Normal",
    "Outcome",
    "Posterior",
    "PseudoLikelihood",
    "RandomField",
    "Sampled",
    "Status",
    "TooLarge",
    "Variable",
    "chain",
    "covariance",
    "fit",
    "grid",
    "grid_edges",
    "infer",
    "most_probable",
    "pairwise",
    "potts",
    "preview",
    "sample",
]
