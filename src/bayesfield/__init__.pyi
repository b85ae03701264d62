"""The public names and where they live. ``__init__.py`` reads this file and imports each when it is asked for."""

from bayesfield.analysis.centrality import centrality
from bayesfield.analysis.compare import GroupComparison, compare, compare_groups
from bayesfield.analysis.contacts import contact_scores
from bayesfield.analysis.labels.image import NumberPrior
from bayesfield.analysis.labels.number import LabelNumber, label_evidence, label_jumps
from bayesfield.analysis.leave_one_out import Loo, loo
from bayesfield.analysis.predictive_check import PredictiveCheck, predictive_check
from bayesfield.analysis.query import query, query_scores
from bayesfield.analysis.reliability import reliability
from bayesfield.analysis.sensitivity import prior_sensitivity
from bayesfield.analysis.spans import SpanScores, span_reliability, span_scores
from bayesfield.analysis.structure import BernoulliEdges, BetaBinomialEdges, StructurePosterior, search_structure
from bayesfield.analysis.validation.cross_validation import VarianceChoice, cross_validated_variance
from bayesfield.analysis.validation.smooth_numbers import SmoothChoice, cross_validated_smooth
from bayesfield.analysis.validation.temperature import TemperatureChoice, cross_validated_temperature
from bayesfield.analysis.validation.template_variances import TemplateVariances, cross_validated_templates
from bayesfield.estimators.crf import BayesianCRF, GraphCRF
from bayesfield.estimators.hidden import HiddenChain, HiddenLattice
from bayesfield.estimators.lattices import LatticeField
from bayesfield.estimators.machines import RBM, BoltzmannMachine
from bayesfield.estimators.networks import IsingNetwork, OrdinalNetwork, PottsNetwork
from bayesfield.fitting.at_parameters import laplace
from bayesfield.fitting.fields import fit
from bayesfield.fitting.graphs import fit_graphs
from bayesfield.fitting.hidden import fit_hidden
from bayesfield.fitting.many import Bootstrap, Fits, fit_many
from bayesfield.fitting.preview import preview
from bayesfield.fitting.sequences import fit_sequences
from bayesfield.formats.arviz import to_arviz
from bayesfield.formats.conll import read_conll, write_conll
from bayesfield.formats.fasta import Alignment, read_fasta
from bayesfield.formats.handover import write_handover
from bayesfield.formats.manuscript import to_latex, to_markdown, to_word
from bayesfield.formats.models.networkx import from_networkx, to_networkx
from bayesfield.formats.models.pgmpy import from_pgmpy, to_pgmpy
from bayesfield.formats.models.pyagrum import from_pyagrum, to_pyagrum
from bayesfield.formats.posteriors.saved import load
from bayesfield.formats.xarray import to_xarray
from bayesfield.inference.auto import Auto
from bayesfield.inference.contract import Engine
from bayesfield.inference.enumeration import Enumeration
from bayesfield.inference.messages.belief_propagation import Bethe
from bayesfield.inference.messages.kikuchi import Kikuchi
from bayesfield.inference.messages.reweighted import Reweighted
from bayesfield.inference.queries import Beliefs, Evidence, covariance, infer, most_probable, sample
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.kernels.jit import CacheWarning
from bayesfield.learning.baselines.max_margin import MaxMargin, max_margin
from bayesfield.learning.layers.ascent import LayerChains
from bayesfield.learning.search.contrastive import ContrastiveDivergence
from bayesfield.learning.search.elastic.elastic_net import ElasticNet
from bayesfield.learning.search.iterative_scaling import IterativeScaling
from bayesfield.learning.search.moment_matching import PseudoMoments
from bayesfield.learning.search.pseudo_likelihood import PseudoLikelihood
from bayesfield.model.adaptive_prior import ARD, Cauchy, Templates
from bayesfield.model.builders import chain, grid, grid_edges, pairwise, potts
from bayesfield.model.conditional import CRF, as_sequences
from bayesfield.model.emissions.families import (
    CategoricalEmission,
    GaussianEmission,
    PoissonEmission,
    StudentEmission,
)
from bayesfield.model.emissions.hidden import hidden_field
from bayesfield.model.emissions.laws import MarkovChain
from bayesfield.model.field import Factor, RandomField, Variable
from bayesfield.model.graphs import as_graphs
from bayesfield.model.hidden import boltzmann, hidden_potts, mixture, restricted_boltzmann
from bayesfield.model.ordinal import ordinal
from bayesfield.model.partitions import CaseFiles, SequenceFiles
from bayesfield.model.prior import Normal
from bayesfield.model.scales import recoding
from bayesfield.model.smooth.prior import Smooth
from bayesfield.plots.style import save_figure
from bayesfield.posterior.evidence import LogEvidence
from bayesfield.posterior.imputation import Imputation
from bayesfield.posterior.posterior import Posterior
from bayesfield.posterior.recoded import recoded
from bayesfield.posterior.record import Certificate, Check, FitRecord, Plan
from bayesfield.prediction.chain import average_over, predict_sequences
from bayesfield.prediction.graph import predict_graphs
from bayesfield.prediction.n_best import Labelling, n_best_sequences
from bayesfield.prediction.predict import predict
from bayesfield.prediction.spans.predict import Span, predict_spans
from bayesfield.prediction.spans.table import span_table
from bayesfield.prediction.tally import Prediction
from bayesfield.samplers.contract import Sampler
from bayesfield.samplers.draws import Draws, load_draws
from bayesfield.samplers.exchange import Exchange
from bayesfield.samplers.langevin import Langevin
from bayesfield.samplers.metropolis import Metropolis
from bayesfield.samplers.moller import Moller
from bayesfield.samplers.nuts import NUTS
from bayesfield.samplers.sample import sample_graphs, sample_posterior, sample_sequences
from bayesfield.types import (
    BayesfieldError,
    FitWarning,
    IndefiniteCurvature,
    InvalidInput,
    Outcome,
    Status,
    TooLarge,
)

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
    "CacheWarning",
    "CaseFiles",
    "CategoricalEmission",
    "Cauchy",
    "Certificate",
    "Check",
    "ContrastiveDivergence",
    "Draws",
    "ElasticNet",
    "Engine",
    "Enumeration",
    "Evidence",
    "Exact",
    "Exchange",
    "Factor",
    "FitRecord",
    "FitWarning",
    "Fits",
    "GaussianEmission",
    "GraphCRF",
    "GroupComparison",
    "HiddenChain",
    "HiddenLattice",
    "Imputation",
    "IndefiniteCurvature",
    "InvalidInput",
    "IsingNetwork",
    "IterativeScaling",
    "Kikuchi",
    "LabelNumber",
    "Labelling",
    "Langevin",
    "LatticeField",
    "LayerChains",
    "LogEvidence",
    "Loo",
    "MarkovChain",
    "MaxMargin",
    "Metropolis",
    "Moller",
    "Normal",
    "NumberPrior",
    "OrdinalNetwork",
    "Outcome",
    "Plan",
    "PoissonEmission",
    "Posterior",
    "PottsNetwork",
    "Prediction",
    "PredictiveCheck",
    "PseudoLikelihood",
    "PseudoMoments",
    "RandomField",
    "Reweighted",
    "Sampled",
    "Sampler",
    "SequenceFiles",
    "Smooth",
    "SmoothChoice",
    "Span",
    "SpanScores",
    "Status",
    "StructurePosterior",
    "StudentEmission",
    "TemperatureChoice",
    "TemplateVariances",
    "Templates",
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
    "cross_validated_smooth",
    "cross_validated_temperature",
    "cross_validated_templates",
    "cross_validated_variance",
    "fit",
    "fit_graphs",
    "fit_hidden",
    "fit_many",
    "fit_sequences",
    "from_networkx",
    "from_pgmpy",
    "from_pyagrum",
    "grid",
    "grid_edges",
    "hidden_field",
    "hidden_potts",
    "infer",
    "label_evidence",
    "label_jumps",
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
    "predict",
    "predict_graphs",
    "predict_sequences",
    "predict_spans",
    "predictive_check",
    "preview",
    "prior_sensitivity",
    "query",
    "query_scores",
    "read_conll",
    "read_fasta",
    "recoded",
    "recoding",
    "reliability",
    "restricted_boltzmann",
    "sample",
    "sample_graphs",
    "sample_posterior",
    "sample_sequences",
    "save_figure",
    "search_structure",
    "span_reliability",
    "span_scores",
    "span_table",
    "to_arviz",
    "to_latex",
    "to_markdown",
    "to_networkx",
    "to_pgmpy",
    "to_pyagrum",
    "to_word",
    "to_xarray",
    "write_conll",
    "write_handover",
]
