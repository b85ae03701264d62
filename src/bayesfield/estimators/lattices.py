"""Images and spatial grids: sites in rows and columns, each joined to its neighbours."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayesfield.estimators.columns import Columns, listed
from bayesfield.estimators.fields import FieldEstimator
from bayesfield.model.builders import grid, grid_edges, potts
from bayesfield.types import FitWarning, InvalidInput

if TYPE_CHECKING:
    from bayesfield.fitting.plan import Correction
    from bayesfield.inference.contract import Engine
    from bayesfield.model.field import RandomField
    from bayesfield.model.prior import Prior


class LatticeField(FieldEstimator):
    """A field of images (N, rows, columns), or of their pixels in row order, (N, rows · columns), with ``shape``.

    shape: rows and columns; by default those of the images. A table of two dimensions without it is read as sites in
    one row, with a warning. tied: one parameter for all sites and one coupling for all neighbours, so that a single
    image, X[None], teaches something; else each its own. kind: "ising" for two states, coded −1 and +1; "potts" for
    any, with a coupling that counts when neighbours are alike; "auto" by the number of states. binarize: a threshold
    above which a value is 1. The rest as in ``FieldEstimator``.
    """

    def __init__(
        self,
        shape: tuple[int, int] | None = None,
        *,
        tied: bool = True,
        kind: Literal["auto", "ising", "potts"] = "auto",
        binarize: float | None = None,
        prior: Prior | float | str = 1.0,
        engine: Engine | str = "auto",
        method: str = "auto",
        correction: Correction = "auto",
        n_draws: int | None = None,
        random_state: int | None = 0,
        time_limit: float | None = None,
        verbose: bool | None = None,
        client: Any = None,
    ) -> None:
        super().__init__(
            prior=prior,
            engine=engine,
            method=method,
            correction=correction,
            n_draws=n_draws,
            random_state=random_state,
            time_limit=time_limit,
            verbose=verbose,
            client=client,
        )
        self.shape = shape
        self.tied = tied
        self.kind = kind
        self.binarize = binarize

    def _table(self, X: Any, reset: bool = False) -> Any:
        given = np.shape(X)
        if reset:
            self._read_shape(given)
        elif len(given) == 3 and given[1:] != tuple(self._sides or (1, given[2])):
            raise InvalidInput(f"the field is of images of {tuple(self._sides or ())}, and these have {given[1:]}")
        if len(given) == 3:
            X = np.reshape(np.asarray(X), (len(X), -1))
        return super()._table(X, reset)

    def _read_shape(self, given: tuple[int, ...]) -> None:
        """Rows and columns, of the images or as told."""
        self._images = len(given) == 3
        if self._images and self.shape is not None and given[1:] != tuple(self.shape):
            raise InvalidInput(f"shape is {tuple(self.shape)}, and the images have {given[1:]}")
        self._sides = given[1:] if self._images else self.shape
        if self._sides is None and len(given) == 2:
            warnings.warn(
                f"a table of {given[0]} × {given[1]} is read as {given[0]} cases of {given[1]} sites in one row; a "
                "single image is X[None], and images as flat pixels need shape=(rows, columns)",
                FitWarning,
                stacklevel=4,
            )

    def _model(self, columns: Columns) -> RandomField:
        rows, across = self._sides or (1, len(columns.names))
        if rows * across != len(columns.names):
            raise InvalidInput(f"shape {rows} × {across} has {rows * across} sites; X has {len(columns.names)} columns")
        states = _union(columns) if self.binarize is None else (0, 1)
        kind = self.kind
        if kind == "auto":
            kind = "ising" if len(states) <= 2 else "potts"
        if kind == "ising":
            if len(states) != 2:
                raise InvalidInput(
                    f"an Ising lattice has two states; these images have {len(states)}: {listed(states)}"
                )
            return grid(rows, across, (-1, 1), tied=self.tied).relabelled([states] * (rows * across))
        if kind != "potts":
            raise InvalidInput(f'kind is "auto", "ising" or "potts"; got {self.kind!r}')
        names = grid(rows, across).names
        return potts(rows * across, grid_edges(rows, across), states, names=names, tied=self.tied)

    def _look_at(self, columns: Columns) -> None:
        """A site of one colour, such as a picture's corner, is nothing to warn of."""

    def _back(self, values: Any, index: Any = None) -> Any:
        if self._images:
            return np.reshape(values, (len(values), *(self._sides or ())))
        return super()._back(values, index)


def _union(columns: Columns) -> tuple[Any, ...]:
    """All states that occur anywhere, in order."""
    found = {s for states in columns.states for s in states}
    try:
        return tuple(sorted(found))
    except TypeError:
        raise InvalidInput(f"sites mix kinds of values: {listed(list(found))}; recode them") from None
