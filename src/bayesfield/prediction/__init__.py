"""Labels of new inputs, averaged over the posterior of the parameters."""

from bayesfield.prediction.chain import average_over, predict_sequences
from bayesfield.prediction.graph import predict_graphs
from bayesfield.prediction.n_best import Labelling, n_best_sequences
from bayesfield.prediction.tally import Prediction

__all__ = ["Labelling", "Prediction", "average_over", "n_best_sequences", "predict_graphs", "predict_sequences"]
