"""Estimators with scikit-learn's contract: store, cast, call the library, set attributes. No mathematics."""

from bayesfield.estimators.crf import BayesianCRF

__all__ = ["BayesianCRF"]
