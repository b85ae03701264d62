"""A prior as users of estimators write it: a variance, how to find one, or a prior."""

from collections.abc import Callable
from numbers import Real
from typing import Any

from bayesfield.model.adaptive_prior import ARD, Templates
from bayesfield.model.prior import Normal, Prior
from bayesfield.types import InvalidInput

_UNIT = Normal(variance=1.0)  # the default, made once


def prior_from(given: Any, by_cross_validation: Callable[[], float], groups: str | None = None) -> Prior:
    """A variance, "evidence", "cv", "ard", "templates" of a CRF, or a prior. groups: of ARD."""
    if isinstance(given, Prior):
        return given
    if isinstance(given, float) and given == 1.0:
        return _UNIT
    if given == "ard":
        return ARD(groups=groups)
    if isinstance(given, str) and given == "templates" and groups is not None:
        return Templates()
    if given == "cv":
        return Normal(variance=by_cross_validation())
    if given == "evidence" or isinstance(given, Real):
        return Normal(variance=given if isinstance(given, str) else float(given))
    more = '"templates", "templates-cv", ' if groups is not None else ""
    raise InvalidInput(
        f'prior is a variance, "evidence", "cv", "ard", {more}or a prior such as bf.Normal(...); got {given!r}'
    )
