"""One point of the parameters: a field at parameters that are given, or at a posterior's mean."""

from typing import Any

from bayesfield.graph.compiled import as_parameters
from bayesfield.model.field import RandomField
from bayesfield.posterior.posterior import Posterior
from bayesfield.types import FloatArray, InvalidInput


def at_point(given: RandomField | Posterior, parameters: Any = None) -> tuple[RandomField, FloatArray]:
    """A field and its parameters. parameters: by default the mean of a posterior, or none for a field that has none."""
    field = given.field if isinstance(given, Posterior) else given
    if not isinstance(field, RandomField):
        raise InvalidInput(f"this takes a bf.RandomField, or a posterior of one; got {field!r}")
    if parameters is None:
        if not isinstance(given, Posterior) and field.n_parameters:
            raise InvalidInput(f"the field has {field.n_parameters} parameters: give their values, or its posterior")
        parameters = given.mean if isinstance(given, Posterior) else ()
    return field, as_parameters(field, parameters)
