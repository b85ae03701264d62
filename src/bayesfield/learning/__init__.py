"""From data to the most probable parameters λ_MP: one objective for all engines, and ways to minimise it."""

from bayesfield.learning.composite import Composite, PseudoLikelihood, composite, composite_map, pseudo_likelihood_map
from bayesfield.learning.contrastive import ContrastiveDivergence, contrastive_divergence
from bayesfield.learning.hidden import HiddenObjective, hidden_objective, mrf_objective
from bayesfield.learning.iterative_scaling import IterativeScaling, iterative_scaling
from bayesfield.learning.moment_matching import PseudoMoments, matched_moments, pseudo_moments
from bayesfield.learning.objective import FieldObjective, MeanPrecision, Objective, Point, Pointwise
from bayesfield.learning.optimise import Iteration, Optimum, lbfgs, newton
from bayesfield.learning.stochastic import enough_chains, sampled_newton

__all__ = [
    "Composite",
    "ContrastiveDivergence",
    "FieldObjective",
    "HiddenObjective",
    "Iteration",
    "IterativeScaling",
    "MeanPrecision",
    "Objective",
    "Optimum",
    "Point",
    "Pointwise",
    "PseudoLikelihood",
    "PseudoMoments",
    "composite",
    "composite_map",
    "contrastive_divergence",
    "enough_chains",
    "hidden_objective",
    "iterative_scaling",
    "lbfgs",
    "matched_moments",
    "mrf_objective",
    "newton",
    "pseudo_likelihood_map",
    "pseudo_moments",
    "sampled_newton",
]
