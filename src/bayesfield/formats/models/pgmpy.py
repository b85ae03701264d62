"""Networks of pgmpy, as fields of fixed tables and back."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesfield.graph.potentials import potentials_of
from bayesfield.model.field import Factor, RandomField, Variable
from bayesfield.posterior.evaluation import at_point
from bayesfield.types import FloatArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.posterior.posterior import Posterior


def from_pgmpy(model: Any) -> RandomField:
    """A field without parameters, every factor or conditional table of the network a factor with a fixed table.

    model: a DiscreteMarkovNetwork, FactorGraph or DiscreteBayesianNetwork (MarkovNetwork and BayesianNetwork before
    pgmpy 1.0). Variables are named as there, by text; states have their names.
    """
    tables = [_table(f) for f in _factors(model)]
    states: dict[Hashable, list[Any]] = {}
    for table in tables:
        for variable in table.scope:
            if states.setdefault(variable, table.states[variable]) != table.states[variable]:
                raise InvalidInput(
                    f"the states of {variable!r} are {states[variable]} in one factor and {table.states[variable]} in "
                    "another; give them all in the same order (state_names)"
                )
    mixed = hasattr(model, "get_factor_nodes")  # a factor graph has its factors among its nodes
    nodes = [v for v in model.nodes() if not mixed or v in states]
    missing = [v for v in nodes if v not in states]
    if missing:
        raise InvalidInput(f"node {missing[0]!r} of the network has no factor or CPD, and so no states; add one")
    variables = [Variable(str(v), states[v]) for v in nodes]
    return RandomField(variables, [Factor.from_potential([str(v) for v in t.scope], t.values) for t in tables])


def to_pgmpy(field: RandomField | Posterior, parameters: Any = None) -> Any:
    """A DiscreteMarkovNetwork with the field's tables at given parameters, or at a posterior's mean."""
    own, values = at_point(field, parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pgmpy warns of its own modules when it is imported
        network, factor_class = _classes()
    network.add_nodes_from(own.names)
    tables = potentials_of(own, values)
    constant = float(np.prod([p.table for p in tables if not p.scope]))
    for k, (scope, table) in enumerate(p for p in tables if p.scope):
        names = [own.names[i] for i in scope]
        network.add_edges_from(itertools.combinations(names, 2))
        given = {own.names[i]: list(own.states[i]) for i in scope}
        network.add_factors(factor_class(names, list(table.shape), table * (constant if k == 0 else 1.0), given))
    return network


class _Table(NamedTuple):
    scope: tuple[Hashable, ...]
    states: dict[Hashable, list[Any]]
    values: FloatArray


def _factors(model: Any) -> Sequence[Any]:
    for get in ("get_cpds", "get_factors"):
        if hasattr(model, get):
            found: Sequence[Any] = getattr(model, get)()
            return found
    raise InvalidInput(f"this takes a Markov network, factor graph or Bayesian network of pgmpy; got {model!r}")


def _table(factor: Any) -> _Table:
    if not all(hasattr(factor, name) for name in ("values", "variables", "state_names", "cardinality")):
        raise InvalidInput(f"only discrete factors and tabular CPDs are read; got a {type(factor).__name__}")
    scope = tuple(factor.variables)
    values = np.asarray(factor.values, dtype=np.float64).reshape(tuple(int(k) for k in factor.cardinality))
    return _Table(scope, {v: list(factor.state_names[v]) for v in scope}, values)


def _classes() -> tuple[Any, Any]:
    """An empty network, and the class of its factors."""
    try:
        from pgmpy import models
        from pgmpy.factors.discrete import DiscreteFactor
    except ImportError:
        raise InvalidInput("to_pgmpy needs pgmpy: pip install pgmpy") from None
    network = getattr(models, "DiscreteMarkovNetwork", None) or models.MarkovNetwork
    return network(), DiscreteFactor
