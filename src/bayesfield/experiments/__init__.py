"""Studies, one command each: the paper's (``bayesfield reproduce fig2 --out fig2``), and calibration."""

from bayesfield.experiments.figures import EXPERIMENTS, calibrate, experiment, reproduce
from bayesfield.experiments.paper.methods import Scale

__all__ = ["EXPERIMENTS", "Scale", "calibrate", "experiment", "reproduce"]
