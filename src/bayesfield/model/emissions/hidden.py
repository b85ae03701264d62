"""Fields of hidden labels with something observed of each: hidden Markov chains, hidden Potts fields, mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import factorial
from typing import Any

import numpy as np

from bayesfield.model.emissions.emitted import Emitted, emitted
from bayesfield.model.emissions.families import GaussianEmission
from bayesfield.model.emissions.laws import Law, as_law
from bayesfield.model.prior import Normal
from bayesfield.types import FloatArray, IntArray, InvalidInput


@dataclass(frozen=True, eq=False)
class HiddenField:
    """Hidden labels and what is observed of them; ``bf.fit_hidden`` fits it. emission: one for all columns of the
    observations, or a list with one for each."""

    law: Law
    emission: Any

    @property
    def labels(self) -> int:
        return self.law.labels

    def bound(self, y: FloatArray, names: Sequence[str] | None = None) -> HiddenModel:
        """With the columns of data, (n, D). names: of the columns."""
        return HiddenModel(self.law, emitted(self.emission, self.labels, y, names))


@dataclass(frozen=True, eq=False)
class HiddenModel:
    """A hidden field whose emission knows the data's columns: what a posterior is of. λ = (law, η)."""

    law: Law
    emitted: Emitted

    @property
    def n_parameters(self) -> int:
        return self.law.n_parameters + self.emitted.size

    @cached_property
    def parameter_names(self) -> list[str]:
        return [*self.law.parameter_names, *self.emitted.parameter_names]

    @cached_property
    def groups(self) -> list[str]:
        return [*self.law.groups, *self.emitted.groups]

    def split(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of the law, and η."""
        m = self.law.n_parameters
        return parameters[..., :m], parameters[..., m:]

    @property
    def equivalent_modes(self) -> int:
        """Orders of the labels, each of which is a mode like any other; 1 where labels differ by what they are."""
        return factorial(self.law.labels) if self.law.relabelled(np.arange(self.law.labels)) is not None else 1

    def default_prior(self, y: FloatArray) -> Normal:
        """Weak, at the scale of the data (n, D); each family says how."""
        of_law, of_emission = self.law.prior(), self.emitted.prior(y)
        location, variance = (np.concatenate([a, b]) for a, b in zip(of_law, of_emission, strict=True))
        return Normal(variance=variance, mean=location)

    def ordered(self, parameters: FloatArray) -> FloatArray:
        """The same with labels in the order of their means, where labels may change places."""
        law, eta = self.split(parameters)
        order = self.emitted.order(eta)
        moved = self.law.relabelled(order)
        return parameters if moved is None else np.concatenate([law[moved], eta[self.emitted.relabelled(order)]])


def hidden_field(structure: Any, labels: int, emission: Any = None) -> HiddenField:
    """Hidden labels on a structure, each with observations of its own: hidden Markov chains, hidden Potts fields.

    structure: "chain", (rows, columns) of a lattice with one coupling of equal neighbours, an (E, 2) array of edges
    with one coupling, or a ``bf.RandomField`` whose variables are the labels. labels: how many. emission:
    ``bf.GaussianEmission()`` by default, ``bf.StudentEmission()``, ``bf.PoissonEmission()``,
    ``bf.CategoricalEmission()``, or a list with one for each column of the observations, which are independent given
    the label.
    """
    return HiddenField(as_law(structure, labels), GaussianEmission() if emission is None else emission)


def as_observations(y: Any) -> FloatArray:
    """(n, D) from (n,) or (n, D), NaN where missing."""
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("observations are numbers, NaN where they are missing") from None
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or not values.size:
        raise InvalidInput(f"observations are (n,) or (n, D); got shape {values.shape}")
    if np.isnan(values).all(axis=0).any():
        raise InvalidInput("a column of the observations has nothing but missing cells")
    return values


def as_ends(lengths: Any, n: int) -> IntArray:
    """Where sequences of these lengths begin and end, (S + 1,); one sequence by default."""
    if lengths is None:
        return np.array([0, n], dtype=np.int64)
    given = np.asarray(lengths)
    if given.ndim != 1 or given.dtype.kind not in "iu" or (given < 1).any() or int(given.sum()) != n:
        raise InvalidInput(f"lengths are whole numbers above zero that sum to the {n} observations")
    return np.concatenate([[0], np.cumsum(given)]).astype(np.int64)
