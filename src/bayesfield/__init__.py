"""bayesfield: Bayesian learning of discrete random fields.

import bayesfield as bf
field = bf.grid(8, 8)
posterior = bf.fit(field, X, prior=bf.Normal(variance=0.25))
posterior.summary()
"""

from typing import TYPE_CHECKING, Any

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
from bayesfield.learning.max_margin import MaxMargin, max_margin
from bayesfield.model import (
    ARD,
    Cauchy,
    Factor,
    Normal,
    RandomField,
    Variable,
    boltzmann,
    chain,
    grid,
    grid_edges,
    hidden_potts,
    mixture,
    ordinal,
    pairwise,
    potts,
    recoding,
    restricted_boltzmann,
)
from bayesfield.model.conditional import CRF, as_sequences
from bayesfield.model.graphs import as_graphs
from bayesfield.model.partitions import CaseFiles, SequenceFiles
from bayesfield.posterior import Check, FitRecord, Imputation, Posterior, fit, recoded
from bayesfield.posterior.compare import GroupComparison, compare, compare_groups
from bayesfield.posterior.conditional import fit_graphs, fit_sequences
from bayesfield.posterior.cross_validation import VarianceChoice, cross_validated_variance
from bayesfield.posterior.evidence import LogEvidence
from bayesfield.posterior.given import laplace
from bayesfield.posterior.many import Bootstrap, Fits, fit_many
from bayesfield.posterior.structure import BernoulliEdges, BetaBinomialEdges, StructurePosterior, search_structure
from bayesfield.prediction import (
    Labelling,
    Loo,
    Prediction,
    PredictiveCheck,
    average_over,
    loo,
    n_best_sequences,
    predict_graphs,
    predict_sequences,
    predictive_check,
)
from bayesfield.samplers import (
    NUTS,
    Draws,
    Exchange,
    Langevin,
    Metropolis,
    Sampler,
    load_draws,
    sample_posterior,
    sample_sequences,
)
from bayesfield.types import BayesfieldError, FitWarning, IndefiniteCurvature, InvalidInput, Outcome, Status, TooLarge

if TYPE_CHECKING:
    from bayesfield.estimators import BayesianCRF

__version__ = "0.1.0"

__all__ = [
    "ARD",
    "CRF",
    "NUTS",
    "Auto",
    "BayesfieldError",
    "BayesianCRF",
    "Beliefs",
    "BernoulliEdges",
    "BetaBinomialEdges",
    "Bethe",
    "Bootstrap",
    "CaseFiles",
    "Cauchy",
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
    "Fits",
    "GroupComparison",
    "Imputation",
    "IndefiniteCurvature",
    "InvalidInput",
    "IterativeScaling",
    "Kikuchi",
    "Labelling",
    "Langevin",
    "LogEvidence",
    "Loo",
    "MaxMargin",
    "Metropolis",
    "Normal",
    "Outcome",
    "Posterior",
    "Prediction",
    "PredictiveCheck",
    "PseudoLikelihood",
    "RandomField",
    "Sampled",
    "Sampler",
    "SequenceFiles",
    "Status",
    "StructurePosterior",
    "TooLarge",
    "Variable",
    "VarianceChoice",
    "as_graphs",
    "as_sequences",
    "average_over",
    "boltzmann",
    "chain",
    "compare",
    "compare_groups",
    "covariance",
    "cross_validated_variance",
    "fit",
    "fit_graphs",
    "fit_many",
    "fit_sequences",
    "grid",
    "grid_edges",
    "hidden_potts",
    "infer",
    "laplace",
    "load_draws",
    "loo",
    "max_margin",
    "mixture",
    "most_probable",
    "n_best_sequences",
    "ordinal",
    "pairwise",
    "potts",
    "predict_graphs",
    "predict_sequences",
    "predictive_check",
    "preview",
    "recoded",
    "recoding",
    "restricted_boltzmann",
    "sample",
    "sample_posterior",
    "sample_sequences",
    "search_structure",
    "to_arviz",
]


def __getattr__(name: str) -> Any:
    """Estimators when they are asked for: scikit-learn takes half a second to import."""
    if name == "BayesianCRF":
        from bayesfield.estimators import BayesianCRF

        return BayesianCRF
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
