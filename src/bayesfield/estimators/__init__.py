"""Estimators with scikit-learn's contract: store, cast, call the library, set attributes. No mathematics."""

from bayesfield.estimators.checks import expected_failed_checks
from bayesfield.estimators.crf import BayesianCRF, GraphCRF
from bayesfield.estimators.lattices import LatticeField
from bayesfield.estimators.machines import RBM, BoltzmannMachine
from bayesfield.estimators.networks import IsingNetwork, OrdinalNetwork, PottsNetwork

__all__ = [
    "RBM",
    "BayesianCRF",
    "BoltzmannMachine",
    "GraphCRF",
    "IsingNetwork",
    "LatticeField",
    "OrdinalNetwork",
    "PottsNetwork",
    "expected_failed_checks",
]
