"""The public names and where they live. ``__init__.py`` reads this file and imports each when it is asked for."""

from bayesfield.estimators import (
    RBM,
    BayesianCRF,
    BoltzmannMachine,
    GraphCRF,
    IsingNetwork,
    LatticeField,
    OrdinalNetwork,
    PottsNetwork,
)
from bayesfield.formats.arviz import to_arviz
from bayesfield.formats.conll import read_conll, write_conll
from bayesfield.formats.fasta import Alignment, read_fasta
from bayesfield.formats.handover import write_handover
from bayesfield.formats.networkx import from_networkx, to_networkx
from bayesfield.formats.pgmpy import from_pgmpy, to_pgmpy
from bayesfield.formats.pyagrum import from_pyagrum, to_pyagrum
from bayesfield.formats.saved import load
from bayesfield.formats.xarray import to_xarray
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
from bayesfield.posterior.centrality import centrality
from bayesfield.posterior.compare import GroupComparison, compare, compare_groups
from bayesfield.posterior.conditional import fit_graphs, fit_sequences
from bayesfield.posterior.contacts import contact_scores
from bayesfield.posterior.cross_validation import VarianceChoice, cross_validated_variance
from bayesfield.posterior.evidence import LogEvidence
from bayesfield.posterior.given import laplace
from bayesfield.posterior.many import Bootstrap, Fits, fit_many
from bayesfield.posterior.preview import preview
from bayesfield.posterior.sensitivity import prior_sensitivity
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
    reliability,
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

__version__: str

__all__ = [
    "ARD",
    "CRF",
    "NUTS",
    "RBM",
    "Alignment",
    "Auto",
    "BayesfieldError",
    "BayesianCRF",
    "Beliefs",
    "BernoulliEdges",
    "BetaBinomialEdges",
    "Bethe",
    "BoltzmannMachine",
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
    "GraphCRF",
    "GroupComparison",
    "Imputation",
    "IndefiniteCurvature",
    "InvalidInput",
    "IsingNetwork",
    "IterativeScaling",
    "Kikuchi",
    "Labelling",
    "Langevin",
    "LatticeField",
    "LogEvidence",
    "Loo",
    "MaxMargin",
    "Metropolis",
    "Normal",
    "OrdinalNetwork",
    "Outcome",
    "Posterior",
    "PottsNetwork",
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
    "centrality",
    "chain",
    "compare",
    "compare_groups",
    "contact_scores",
    "covariance",
    "cross_validated_variance",
    "fit",
    "fit_graphs",
    "fit_many",
    "fit_sequences",
    "from_networkx",
    "from_pgmpy",
    "from_pyagrum",
    "grid",
    "grid_edges",
    "hidden_potts",
    "infer",
    "laplace",
    "load",
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
    "prior_sensitivity",
    "read_conll",
    "read_fasta",
    "recoded",
    "recoding",
    "reliability",
    "restricted_boltzmann",
    "sample",
    "sample_posterior",
    "sample_sequences",
    "search_structure",
    "to_arviz",
    "to_networkx",
    "to_pgmpy",
    "to_pyagrum",
    "to_xarray",
    "write_conll",
    "write_handover",
]
