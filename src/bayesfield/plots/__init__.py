"""Pictures of what has been computed: axes in, axes out. Nothing here computes."""

from bayesfield.plots.curves import sensitivity
from bayesfield.plots.fits import convergence, messages, predictive, reliability
from bayesfield.plots.networks import centrality, edge_evidence, inclusion, network, structure_sizes
from bayesfield.plots.parameters import forest, lattice, marginals
from bayesfield.plots.studies import (
    extreme_errors,
    marginal_histograms,
    predictor_curves,
    predictor_scores,
    rank_histograms,
    score_curves,
)
from bayesfield.plots.style import Figure, close, rendered

__all__ = [
    "Figure",
    "centrality",
    "close",
    "convergence",
    "edge_evidence",
    "extreme_errors",
    "forest",
    "inclusion",
    "lattice",
    "marginal_histograms",
    "marginals",
    "messages",
    "network",
    "predictive",
    "predictor_curves",
    "predictor_scores",
    "rank_histograms",
    "reliability",
    "rendered",
    "score_curves",
    "sensitivity",
    "structure_sizes",
]
