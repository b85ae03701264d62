"""Labels of new inputs, averaged over the posterior of the parameters."""

from bayesfield.prediction.chain import Prediction, predict_sequences

__all__ = ["Prediction", "predict_sequences"]
