"""From tables to marginals and log Z: engines behind one contract, and the questions users ask of them."""

from bayesfield.inference.ask import (
    Beliefs,
    Evidence,
    covariance,
    infer,
    inference_cost,
    most_probable,
    most_probable_codes,
    sample,
)
from bayesfield.inference.auto import Auto
from bayesfield.inference.belief_propagation import Bethe
from bayesfield.inference.by_name import as_engine
from bayesfield.inference.contract import Engine
from bayesfield.inference.enumeration import Enumeration
from bayesfield.inference.junction_tree import Exact
from bayesfield.inference.kikuchi import Kikuchi
from bayesfield.inference.sampled import Sampled

__all__ = [
    "Auto",
    "Beliefs",
    "Bethe",
    "Engine",
    "Enumeration",
    "Evidence",
    "Exact",
    "Kikuchi",
    "Sampled",
    "as_engine",
    "covariance",
    "infer",
    "inference_cost",
    "most_probable",
    "most_probable_codes",
    "sample",
]
