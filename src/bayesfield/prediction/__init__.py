"""What a posterior foretells: labels of new inputs, averaged over the parameters; data like those it was fitted on."""

from bayesfield.prediction.chain import average_over, predict_sequences
from bayesfield.prediction.graph import predict_graphs
from bayesfield.prediction.leave_one_out import Loo, loo
from bayesfield.prediction.n_best import Labelling, n_best_sequences
from bayesfield.prediction.predictive_check import PredictiveCheck, predictive_check
from bayesfield.prediction.reliability import reliability
from bayesfield.prediction.tally import Prediction

__all__ = [
    "Labelling",
    "Loo",
    "Prediction",
    "PredictiveCheck",
    "average_over",
    "loo",
    "n_best_sequences",
    "predict_graphs",
    "predict_sequences",
    "predictive_check",
    "reliability",
]
