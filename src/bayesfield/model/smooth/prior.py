"""A prior for inputs that lie near one another: pixels, ordered bins, words with embeddings, nodes of a graph.

The weights of one label are a Gaussian process over the inputs, W[:, label] ~ N(0, v · C), C = (1 − n) k + n I, with
correlations k: exp(−d² / 2ℓ²) at distances d between coordinates; of a graph with the Laplacian L, exp(−ℓ²L / 2)
("diffusion") or (I + ℓ²L)⁻¹ ("laplacian"), scaled to a diagonal of 1. On a line of nodes a length means about the same
in all of them. Weights of inputs that lie nowhere, and those of transitions, are independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from bayesfield import memory
from bayesfield.model.conditional import CRF
from bayesfield.model.prior import EVIDENCE, Parametrised, Prior, Shared, as_numbers, refuse_variances
from bayesfield.model.smooth.coupling import Coupling
from bayesfield.model.smooth.near import Near, Numbers, by_distance, by_graph
from bayesfield.types import Cost, FloatArray, InvalidInput

_KERNELS = ("gaussian", "diffusion", "laplacian")
_LEAST_NUGGET = 1e-6  # below it correlations of near inputs are singular to rounding
_NUMBERS = ("length", "variance", "nugget", "others", "transitions")


@dataclass(frozen=True, eq=False)
class Smooth(Prior):
    """Weights that vary smoothly over the inputs of a conditional field: ``BayesianCRF(prior=bf.Smooth(coordinates))``.

    coordinates: where inputs lie, a row for each (NaN for one that lies nowhere), or a mapping from names of inputs to
    numbers or vectors; names that the model does not have are passed over, inputs that are not named lie nowhere.
    graph: instead of coordinates, weights of edges between inputs, (D, D) and symmetric, dense or sparse, or pairs of
    names; inputs without an edge lie nowhere. kernel: "gaussian" for coordinates; for a graph "diffusion" or
    "laplacian".

    length: how far correlations reach, in units of the coordinates, or in edges. variance: of every weight. nugget: the
    share of it that is each weight's own, 1e-6 to 1. others: variance of the weights of inputs that lie nowhere;
    transitions: of pairs of labels. "evidence" lets the data choose, all together (form="dense").
    """

    coordinates: ArrayLike | Mapping[str, ArrayLike] | None = None
    graph: Any = None
    kernel: str | None = None
    length: float | str = EVIDENCE
    variance: float | str = EVIDENCE
    nugget: float | str = EVIDENCE
    others: float | str = EVIDENCE
    transitions: float | str = EVIDENCE

    def __post_init__(self) -> None:
        if (self.coordinates is None) == (self.graph is None):
            raise InvalidInput("a smooth prior takes coordinates of the inputs, or a graph of them: give one of both")
        possible = _KERNELS[:1] if self.graph is None else _KERNELS[1:]
        if self.kernel is not None and self.kernel not in possible:
            names = " or ".join(f'"{name}"' for name in possible)
            raise InvalidInput(
                f"the kernel of {'coordinates' if self.graph is None else 'a graph'} is {names}; got {self.kernel!r}"
            )
        if sparse.issparse(self.graph):
            object.__setattr__(self, "graph", self.graph.toarray())
        for name in _NUMBERS:
            self._check_number(name, getattr(self, name))

    def _check_number(self, name: str, value: Any) -> None:
        if isinstance(value, str):
            if value != EVIDENCE:
                raise InvalidInput(f'{name} is a number, or "{EVIDENCE}"; got {value!r}')
            return
        number = as_numbers(value, name)
        if number.shape != ():
            raise InvalidInput(f"{name} is one number; got {value!r}")
        if name == "nugget":
            if not _LEAST_NUGGET <= number <= 1.0:
                raise InvalidInput(f"nugget, the share of each weight's own variance, is 1e-6 to 1; got {value!r}")
        elif name == "length":
            if not 0.0 < number < np.inf:
                raise InvalidInput(f"length is finite and above zero; got {value!r}")
        else:
            refuse_variances(number, value)

    def location(self, field: Parametrised) -> FloatArray:
        return np.zeros(field.n_parameters)

    def precision(self, field: Parametrised) -> FloatArray:
        """Λ⁻¹, (F, F); fits take its ``coupling`` instead."""
        F = field.n_parameters
        memory.require(Cost(F * F, 16.0 * F * F, f"a dense {F:,} × {F:,} matrix"), "this precision", "Take `coupling`.")
        coupling = self.coupling(field)
        return coupling.add_to(np.diag(coupling.apart))

    def coupling(self, field: Parametrised) -> Coupling:
        """What ties the weights of each label; where the data are to choose, as the search begins."""
        return self.near(field).coupling(self.begun(field))

    def learned(self, field: Parametrised) -> tuple[Shared, ...]:
        near = self.near(field)
        inner = any(isinstance(getattr(self, name), str) for name in _NUMBERS[:3])
        parts = [
            ("smooth", near.members.ravel(), inner),
            ("others", near.others, isinstance(self.others, str)),
            ("transitions", near.transitions, isinstance(self.transitions, str)),
        ]
        return tuple(Shared(name, some) for name, some, is_open in parts if is_open and len(some))

    def begun(self, field: Parametrised) -> Numbers:
        """The numbers as stated, and where a search for the others begins."""
        begin = Numbers(self.near(field).spacing, 1.0, 0.1, 1.0, 1.0)
        stated = {name: float(getattr(self, name)) for name in _NUMBERS if not isinstance(getattr(self, name), str)}
        return begin._replace(**stated)

    def open(self, field: Parametrised) -> tuple[str, ...]:
        """The numbers that the data are to choose."""
        near = self.near(field)
        empty = {"others": not len(near.others), "transitions": not len(near.transitions)}
        return tuple(n for n in _NUMBERS if isinstance(getattr(self, n), str) and not empty.get(n, False))

    def chosen(self, numbers: Numbers) -> Smooth:
        """The same with these numbers."""
        return replace(self, **numbers._asdict())

    def near(self, field: Parametrised) -> Near:
        """Which parameters are tied, and by what."""
        if not isinstance(field, CRF):
            raise InvalidInput(
                "bf.Smooth is for conditional fields, whose weights belong to inputs; other fields take "
                "bf.Normal(covariance=...)"
            )
        if field.seen is not None:
            raise InvalidInput(
                'bf.Smooth ties the weights of an input to those of its neighbours, and possible="seen" leaves some '
                'out: take possible="all"'
            )
        if self.graph is None:
            which, between = by_distance(self.coordinates, field.inputs)
        else:
            which, between = by_graph(self.graph, field.inputs)
        G = field.n_node_tables
        members = np.flatnonzero(which)[:, None] * G + np.arange(G)
        others = (np.flatnonzero(~which)[:, None] * G + np.arange(G)).ravel()
        kernel = self.kernel or ("gaussian" if self.graph is None else "diffusion")
        return Near(members, others, np.arange(field.n_state, field.n_parameters), kernel, between)
