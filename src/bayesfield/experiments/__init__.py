"""The paper's experiments, one command each: ``bayesfield reproduce fig2 --out fig2``."""

from bayesfield.experiments.figures import EXPERIMENTS, experiment, reproduce
from bayesfield.experiments.methods import Scale

__all__ = ["EXPERIMENTS", "Scale", "experiment", "reproduce"]
