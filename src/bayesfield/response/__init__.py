"""Covariances of the features at given beliefs: prepare once, then the full matrix, products, solves, chosen entries.

This layer stands below ``inference``: it needs beliefs, not the engine that made them, and engines build on it.
"""

from bayesfield.response.base import Response, TableResponse
from bayesfield.response.contrast import ContrastResponse
from bayesfield.response.linear import LinearResponse, NotSparse, SingularFactor, bethe_response
from bayesfield.response.local import local_response
from bayesfield.response.regions import region_response
from bayesfield.response.susceptibility import SusceptibilityResponse

__all__ = [
    "ContrastResponse",
    "LinearResponse",
    "NotSparse",
    "Response",
    "SingularFactor",
    "SusceptibilityResponse",
    "TableResponse",
    "bethe_response",
    "local_response",
    "region_response",
]
