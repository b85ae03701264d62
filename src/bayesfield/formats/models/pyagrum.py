"""Networks of pyAgrum, as fields of fixed tables and back."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfield.graph.potentials import potentials_of
from bayesfield.model.field import Factor, RandomField, Variable
from bayesfield.posterior.evaluation import at_point
from bayesfield.types import InvalidInput

if TYPE_CHECKING:
    from bayesfield.posterior.posterior import Posterior


def from_pyagrum(model: Any) -> RandomField:
    """A field without parameters, every factor or conditional table of the network a factor with a fixed table.

    model: a pyagrum.MarkovRandomField or pyagrum.BayesNet. States are the variables' labels; of integer, range and
    numerical variables the numbers that they stand for.
    """
    library = _library()
    if isinstance(model, library.BayesNet):
        tensors = [model.cpt(node) for node in sorted(model.nodes())]
    elif isinstance(model, library.MarkovRandomField):
        tensors = [model.factor(scope) for scope in model.factors()]
    else:
        raise InvalidInput(f"this takes a pyagrum.MarkovRandomField or BayesNet; got a {type(model).__name__}")
    found = [model.variable(node) for node in sorted(model.nodes())]
    return RandomField([Variable(v.name(), _states(v, library)) for v in found], [_factor(t) for t in tensors])


def to_pyagrum(field: RandomField | Posterior, parameters: Any = None) -> Any:
    """A MarkovRandomField with the field's tables at given parameters, or at a posterior's mean.

    States that are ascending numbers stay numbers; others become labels, by text.
    """
    own, values = at_point(field, parameters)
    library = _library()
    network = library.MarkovRandomField()
    for name, states in zip(own.names, own.states, strict=True):
        network.add(_variable(name, states, library))
    tables = potentials_of(own, values)
    constant = float(np.prod([p.table for p in tables if not p.scope]))
    for k, (scope, table) in enumerate(p for p in tables if p.scope):
        tensor = library.Tensor()
        for i in scope:
            tensor.add(network.variable(own.names[i]))
        scaled = table * (constant if k == 0 else 1.0)
        network.addFactor(tensor.fillWith(scaled.ravel(order="F").tolist()))  # the first variable runs fastest
    return network


def _library() -> Any:
    for name in ("pyagrum", "pyAgrum"):  # the second before version 2
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # as errors they crash its extension modules while these are loaded
                library = import_module(name)
                library.MarkovRandomField()
                return library
        except ImportError:
            continue
    raise InvalidInput("this needs pyAgrum: pip install pyagrum")


def _factor(tensor: Any) -> Factor:
    names = [v.name() for v in tensor.variablesSequence()]
    return Factor.from_potential(names, np.asarray(tensor.toarray(), dtype=np.float64).transpose())


def _states(variable: Any, library: Any) -> Sequence[Hashable]:
    kind = variable.varType()
    labels = list(variable.labels())
    if kind in (library.VarType_RANGE, library.VarType_INTEGER):
        return [int(label) for label in labels]
    return [float(label) for label in labels] if kind == library.VarType_NUMERICAL else labels


def _variable(name: str, states: Sequence[Hashable], library: Any) -> Any:
    numbers = [s for s in states if isinstance(s, int | float | np.number) and not isinstance(s, bool)]
    if len(numbers) == len(states) > 1 and (np.diff(np.array(numbers, dtype=np.float64)) > 0).all():
        if all(isinstance(s, int | np.integer) for s in numbers):
            return library.IntegerVariable(name, name, [int(s) for s in numbers])
        return library.NumericalDiscreteVariable(name, name, [float(s) for s in numbers])
    labels = [str(s) for s in states]
    if len(set(labels)) != len(labels):
        raise InvalidInput(f"the states of {name!r} must differ as text; got {list(states)[:8]}")
    return library.LabelizedVariable(name, name, labels)
