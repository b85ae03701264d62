"""The paper's experiments, one command each: ``bayesfield reproduce fig2 --out fig2``."""

from bayesfield.experiments.figures import FIGURES, reproduce
from bayesfield.experiments.methods import SCALES, Scale

__all__ = ["FIGURES", "SCALES", "Scale", "reproduce"]
