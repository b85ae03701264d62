"""An emission of K labels and D columns: its parameters in one vector η, and what the columns say together.

Columns are independent given the label: U_ik = Σ_d U_ikd. Each column has the local parameters of its family for every
label; those that labels share stand once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayesfield.model.emissions.families import Emission, Under, View
from bayesfield.types import FloatArray, IntArray, InvalidInput


@dataclass(frozen=True, eq=False)
class Emitted:
    """families: of each of the D columns. names: of the columns. labels: K."""

    families: tuple[Emission, ...]
    names: tuple[str, ...]
    labels: int

    @cached_property
    def index(self) -> tuple[IntArray, ...]:
        """For every column where its local parameters stand in η, (K, p)."""
        found, first = [], 0
        for family in self.families:
            own = np.empty((self.labels, len(family.marks)), dtype=np.int64)
            for j, one in enumerate(family.shared):
                count = 1 if one else self.labels
                own[:, j] = first + (0 if one else np.arange(count))
                first += count
            found.append(own)
        return tuple(found)

    @cached_property
    def size(self) -> int:
        """R, of η."""
        return 1 + max(int(own.max(initial=-1)) for own in self.index)

    @cached_property
    def parameter_names(self) -> list[str]:
        return [f"{mark}[{where}]" if where else mark for mark, _, where in self._each()]

    @cached_property
    def groups(self) -> list[str]:
        return [group for _, group, _ in self._each()]

    def _each(self) -> list[tuple[str, str, str]]:
        rows = []
        for family, name in zip(self.families, self.names, strict=True):
            of = name if len(self.families) > 1 else ""
            for mark, group, one in zip(family.marks, family.groups, family.shared, strict=True):
                for k in [""] if one else [str(k) for k in range(self.labels)]:
                    rows.append((mark, group, ",".join(part for part in (k, of) if part)))
        return rows

    def local(self, eta: FloatArray) -> list[FloatArray]:
        """(K, p) of every column."""
        return [eta[own] for own in self.index]

    def joined(self, local: Sequence[FloatArray]) -> FloatArray:
        """η from the local parameters of every column."""
        eta = np.empty(self.size)
        for own, values in zip(self.index, local, strict=True):
            eta[own] = values
        return eta

    def prior(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Location and variance, (R,) each."""
        location, variance = np.empty(self.size), np.empty(self.size)
        for d, (family, own) in enumerate(zip(self.families, self.index, strict=True)):
            location[own], variance[own] = family.prior(y[:, d])
        return location, variance

    def order(self, eta: FloatArray) -> IntArray:
        """Labels by their means in the first column, ascending."""
        return np.argsort(self.families[0].level(self.local(eta)[0]), kind="stable")

    def relabelled(self, order: IntArray) -> IntArray:
        """η[these] has label order[k] as its label k."""
        result = np.arange(self.size)
        for own in self.index:
            result[own] = own[order]
        return result

    def means(self, eta: FloatArray) -> FloatArray:
        """E[y | k], (K, D)."""
        return np.column_stack([f.level(local) for f, local in zip(self.families, self.local(eta), strict=True)])

    def draw(self, eta: FloatArray, labels: IntArray, rng: np.random.Generator) -> FloatArray:
        """Observations of labels (n,), (n, D)."""
        columns = [f.draw(local, labels, rng) for f, local in zip(self.families, self.local(eta), strict=True)]
        return np.column_stack(columns)

    def views(self, y: FloatArray) -> Views:
        return Views(self, [family.view(y[:, d]) for d, family in enumerate(self.families)])


class Views:
    """All columns of some observations (n, D)."""

    def __init__(self, emitted: Emitted, each: Sequence[View]) -> None:
        self.emitted = emitted
        self.each = each

    def tables(self, eta: FloatArray) -> FloatArray:
        """U, (n, K)."""
        first, *others = zip(self.each, self.emitted.local(eta), strict=True)
        total = first[0].tables(first[1])
        for view, local in others:
            total = total + view.tables(local)
        return total

    def under(self, weights: FloatArray) -> Sums:
        """Sums under weights b, (n, K), once for many η."""
        return Sums(self.emitted, [view.under(weights) for view in self.each])

    def slopes_many(self, eta: FloatArray, weights: FloatArray) -> FloatArray:
        """Σ_ik b_ik ∂U_ik/∂η under many weights (n, K, D), (R, D)."""
        total = np.zeros((self.emitted.size, weights.shape[2]))
        for view, local, own in zip(self.each, self.emitted.local(eta), self.emitted.index, strict=True):
            np.add.at(total, own, view.slopes_many(local, weights))
        return total

    def along(self, eta: FloatArray, which: IntArray) -> FloatArray:
        """∂U/∂η_r of some r, (n, K, len(which))."""
        place = np.full(self.emitted.size, -1)
        place[which] = np.arange(len(which))
        result: FloatArray | None = None
        for view, local, own in zip(self.each, self.emitted.local(eta), self.emitted.index, strict=True):
            each = view.directions(local)
            if result is None:
                result = np.zeros((*each.shape[:2], len(which)))
            for k, j in zip(*np.nonzero(place[own] >= 0), strict=True):
                result[:, k, place[own[k, j]]] += each[:, k, j]
        assert result is not None
        return result

    def maximised(self, weights: FloatArray, eta: FloatArray | None) -> FloatArray:
        """η with the largest Σ b U, or nearer to it."""
        local = [None] * len(self.each) if eta is None else self.emitted.local(eta)
        return self.emitted.joined([v.maximised(weights, own) for v, own in zip(self.each, local, strict=True)])


class Sums:
    """Of all columns under weights b: what U amounts to, and its derivatives."""

    def __init__(self, emitted: Emitted, each: Sequence[Under]) -> None:
        self.emitted = emitted
        self.each = each

    def total(self, eta: FloatArray) -> float:
        """Σ_ik b_ik U_ik."""
        return sum(one.total(local) for one, local in zip(self.each, self.emitted.local(eta), strict=True))

    def slopes(self, eta: FloatArray) -> FloatArray:
        """Σ_ik b_ik ∂U_ik/∂η, (R,)."""
        total = np.zeros(self.emitted.size)
        for one, local, own in zip(self.each, self.emitted.local(eta), self.emitted.index, strict=True):
            np.add.at(total, own, one.slopes(local))
        return total

    def curvature(self, eta: FloatArray) -> FloatArray:
        """Σ_ik b_ik ∂²U_ik/∂η∂ηᵀ, (R, R)."""
        total = np.zeros((self.emitted.size, self.emitted.size))
        for one, local, own in zip(self.each, self.emitted.local(eta), self.emitted.index, strict=True):
            np.add.at(total, (own[:, :, None], own[:, None, :]), one.curvature(local))
        return total


def emitted(emission: Any, labels: int, y: FloatArray, names: Sequence[str] | None = None) -> Emitted:
    """An emission of these labels for columns (n, D). emission: one for all columns, or one for each."""
    several = isinstance(emission, list | tuple)
    given = list(emission) if several else [emission] * y.shape[1]
    if len(given) != y.shape[1]:
        raise InvalidInput(f"emission is one for all columns, or one for each of {y.shape[1]}; got {len(given)}")
    for one in given:
        if not isinstance(one, Emission):
            raise InvalidInput(
                "an emission is bf.GaussianEmission(), bf.StudentEmission(), bf.PoissonEmission() or "
                f"bf.CategoricalEmission(); got {one!r}"
            )
    bound = tuple(one.bound(y[:, d]) for d, one in enumerate(given))
    own = tuple(f"y{d}" for d in range(y.shape[1])) if names is None else tuple(str(name) for name in names)
    return Emitted(bound, own, labels)
