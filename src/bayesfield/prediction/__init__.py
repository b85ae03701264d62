"""Labels of new inputs, averaged over the posterior of the parameters."""

from bayesfield.prediction.chain import predict_sequences
from bayesfield.prediction.graph import predict_graphs
from bayesfield.prediction.tally import Prediction

__all__ = ["Prediction", "predict_graphs", "predict_sequences"]
