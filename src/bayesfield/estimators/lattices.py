"""Images and spatial grids: sites in rows and columns, each joined to its neighbours."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from bayesfield.estimators.columns import Columns, listed, require_own_names
from bayesfield.estimators.fields import FieldEstimator
from bayesfield.graph.compiled import compiled
from bayesfield.learning.search.tied import CRITICAL
from bayesfield.model.builders import grid, grid_edges, potts
from bayesfield.model.lattices import lattice
from bayesfield.prediction.given_others import each_given_others
from bayesfield.tabular import as_table, in_order, like
from bayesfield.types import FitWarning, FloatArray, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bayesfield.fitting.planning.request import Correction
    from bayesfield.inference.contract import Engine
    from bayesfield.model.field import RandomField
    from bayesfield.model.prior import Prior

_LEVELS = 16  # states of a site at most
_ENTRIES = 2e7  # of tables, that all draws of a map fill
_COMPLETIONS = 8  # of images with missing pixels, that a map is averaged over


class LatticeField(FieldEstimator):
    """A field of images (N, rows, columns), or of their pixels in row order, (N, rows · columns), with ``shape``.

    shape: rows and columns; by default those of the images. A table of two dimensions without it is read as sites in
    one row, with a warning. Images of several sizes are a list of arrays; they share their parameters, and answers are
    lists like it. A missing pixel (NaN) is summed over.

    mask: (rows, columns), True at the sites that are part of the field; others are not variables at all, whatever
    stands there, and join nothing. A list of such for a list of images. tied: one parameter for all sites and one
    coupling for all neighbours, so that a single image, X[None], teaches something; "directions" has a coupling for
    each direction; with False each site and each pair has its own. neighbours: 4, 8, or a list of offsets
    (rows, columns) such as [(0, 1), (1, 0), (0, 2)]. kind: "ising" for two states, coded −1 and +1; "potts" for any,
    with a coupling that counts when neighbours are alike; "ordinal" for states in order, with a coupling that
    multiplies the product of their scores; "auto" is "ising" or "potts" by the number of states. binarize: a threshold
    above which a value is 1. The rest as in ``FieldEstimator``.
    """

    def __init__(
        self,
        shape: tuple[int, int] | None = None,
        *,
        mask: Any = None,
        tied: bool | Literal["directions"] = True,
        neighbours: int | Sequence[tuple[int, int]] = 4,
        kind: Literal["auto", "ising", "potts", "ordinal"] = "auto",
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
        self.mask = mask
        self.tied = tied
        self.neighbours = neighbours
        self.kind = kind
        self.binarize = binarize

    def fit(self, X: Any, y: Any = None, covariates: Any = None) -> Self:
        """The posterior of the parameters. y: not used.

        covariates: (rows, columns) or (rows, columns, C), external fields that all images share: each multiplies the
        sites' states (of Potts, each indicator) and has one parameter. For a list of images a list of such. Sites with
        equal covariates are swept together, so that rounding them to some hundred values makes large fits fast.
        """
        self._covariates = covariates
        super().fit(X, y)
        self._covariates = None  # the field has them
        self._warn_of_critical()
        return self

    def _warn_of_critical(self) -> None:
        inference = self.posterior_.record.inference
        if inference.converged and CRITICAL in inference.detail:
            warnings.warn(f"{CRITICAL}; the posterior is as good as its certificate says", FitWarning, stacklevel=4)

    def site_probabilities(self, X: Any) -> Any:
        """p(site | all other sites), averaged over the posterior: a map for each image, like X.

        With two states the probability of the second; with more (…, K), in the order of ``states_``. NaN outside the
        mask. Missing pixels are filled by draws first, over which the map is averaged.
        """
        codes = self._codes(X)
        draws = int(np.clip(_ENTRIES / compiled(self.field_).graph.n_entries, 4, self.n_draws or 100))
        if (codes < 0).any():
            values = self._values(self._table(X))
            filled = self.posterior_.impute(values, draws, _COMPLETIONS, self.random_state).completions
            cases = [self.field_.encode(one) for one in filled]
        else:
            cases = [codes]
        every = range(self.field_.n_variables)
        maps = [each_given_others(self.posterior_, one, every, draws, self.random_state) for one in cases]
        p = np.mean([np.stack(found, axis=1) for found in maps], axis=0)  # (N, sites, K)
        found = p[..., 1] if p.shape[2] == 2 else p
        return self._back(found) if self._images else self._named(found)

    def _named(self, p: FloatArray) -> Any:
        """Probabilities of a table's sites under its columns' names."""
        labels = self._columns.labels
        return p if p.ndim > 2 or not labels else like(self._columns.backend, pd.DataFrame(p, columns=list(labels)))

    def plot(self, X: Any, image: int = 0, simulated: int = 3, random_state: int | None = None) -> Any:
        """A picture of the fit: an image, its map p(site | rest), and images that the fit would give. image: which."""
        from bayesfield.plots.images import image_fit

        check_is_fitted(self, "posterior_")
        maps, drawn = self.site_probabilities(X), self.sample(simulated, random_state)
        if self._several:
            return image_fit(X[image], maps[image], [one[image] for one in drawn])
        whole = np.reshape(np.array(X, dtype=object), (len(X), *self._shapes[0]))
        whole[:, ~self._inside[0]] = None
        pictures = [
            np.reshape(a, (len(a), *self._shapes[0], *np.shape(a)[2 if np.ndim(a) == 2 else 3 :]))
            for a in (maps, drawn)
        ]
        return image_fit(whole[image], pictures[0][image], list(pictures[1]))

    # --- images and their sites ---------------------------------------------------------------------------------

    def _table(self, X: Any, reset: bool = False) -> Any:
        X = as_table(X)
        if isinstance(X, pd.DataFrame):  # before sites outside the mask are left out, by place
            if reset:
                require_own_names(X)
            X = X if reset or self._given is None else in_order(X, self._given)
        if reset:
            self._given: list[Any] | None = list(X.columns) if isinstance(X, pd.DataFrame) else None
            self._read_shape(X)
        if self._several:
            X = self._one_row(X)
        else:
            given = np.shape(X)
            sides = self._shapes[0] if self._shapes else None
            if not reset and len(given) == 3 and sides is not None and given[1:] != sides:
                raise InvalidInput(f"the field is of images of {sides}, and these have {given[1:]}")
            if len(given) == 3:
                X = np.reshape(np.asarray(X), (len(X), -1))
            if self._inside and not self._inside[0].all():
                chosen = self._inside[0].ravel()
                if np.shape(X)[1] != len(chosen):
                    raise InvalidInput(f"shape {sides} has {len(chosen)} sites; X has {np.shape(X)[1]} columns")
                X = X.loc[:, chosen] if isinstance(X, pd.DataFrame) else np.asarray(X)[:, chosen]
        if reset and self.binarize is None:
            _require_levels(X)
        return super()._table(X, reset)

    def _read_shape(self, X: Any) -> None:
        """Rows and columns, of the images or as told; and which sites are part of the field."""
        self._several = _is_several(X, self.mask, getattr(self, "_covariates", None))
        if self._several:
            self._images, self._shapes = True, [np.shape(x) for x in X]
            if any(len(shape) != 2 for shape in self._shapes):
                raise InvalidInput(f"a list of images has arrays of two dimensions; got shapes {self._shapes[:6]}")
        else:
            given = np.shape(X)
            self._images = len(given) == 3
            if self._images and self.shape is not None and given[1:] != tuple(self.shape):
                raise InvalidInput(f"shape is {tuple(self.shape)}, and the images have {given[1:]}")
            sides = given[1:] if self._images else self.shape
            self._shapes = [] if sides is None else [tuple(sides)]
            if sides is None and len(given) == 2:
                warnings.warn(
                    f"a table of {given[0]} × {given[1]} is read as {given[0]} cases of {given[1]} sites in one row; a "
                    "single image is X[None], and images as flat pixels need shape=(rows, columns)",
                    FitWarning,
                    stacklevel=5,
                )
        self._inside = [np.ones(shape, dtype=np.bool_) for shape in self._shapes]
        if self.mask is not None:
            masks = list(self.mask) if self._several else [self.mask]
            self._inside = [_mask(m, shape) for m, shape in zip(masks, self._shapes, strict=True)]

    def _one_row(self, X: Any) -> Any:
        """The sites of all images, side by side, as one case."""
        shapes = [np.shape(x) for x in X]
        if shapes != self._shapes:
            raise InvalidInput(f"the field is of images of {self._shapes[:6]}, and these have {shapes[:6]}")
        return np.concatenate([np.asarray(x)[m] for x, m in zip(X, self._inside, strict=True)])[None]

    def _model(self, columns: Columns) -> RandomField:
        shapes = self._shapes or [(1, len(columns.names))]
        inside = self._inside or [np.ones(shapes[0], dtype=np.bool_)]
        sites = sum(int(m.sum()) for m in inside)
        if sites != len(columns.names):
            rows, across = shapes[0]
            raise InvalidInput(f"shape {rows} × {across} has {sites} sites; X has {len(columns.names)} columns")
        states = _union(columns) if self.binarize is None else (0, 1)
        kind: Any = self.kind
        if kind == "auto":
            kind = "ising" if len(states) <= 2 else "potts"
        if kind == "ising" and len(states) != 2:
            raise InvalidInput(f"an Ising lattice has two states; these images have {len(states)}: {listed(states)}")
        covariates = getattr(self, "_covariates", None)
        plain = len(inside) == 1 and inside[0].all() and isinstance(self.neighbours, int) and self.neighbours == 4
        if plain and covariates is None and isinstance(self.tied, bool) and kind in ("ising", "potts"):
            rows, across = shapes[0]  # names are made when asked for: a million sites pay for none
            if kind == "ising":
                return grid(rows, across, (-1, 1), tied=self.tied).relabelled([states] * sites)
            names = grid(rows, across).names
            return potts(sites, grid_edges(rows, across), states, names=names, tied=self.tied)
        own = None if covariates is None else list(covariates) if self._several else [covariates]
        return lattice(inside, states, kind, neighbours=self.neighbours, tied=self.tied, covariates=own)

    def _look_at(self, columns: Columns) -> None:
        """A site of one colour, such as a picture's corner, is nothing to warn of."""

    def _back(self, values: Any, X: Any = None) -> Any:
        if not self._images:
            return super()._back(values, X) if np.ndim(values) == 2 else values
        if self._several:
            ends = np.cumsum([m.sum() for m in self._inside])[:-1]
            rows = [
                [_whole(part[None], m)[0] for part, m in zip(np.split(row, ends), self._inside, strict=True)]
                for row in np.asarray(values)
            ]
            return rows[0] if len(rows) == 1 else rows
        return _whole(np.asarray(values), self._inside[0])

    def sample(self, n_samples: int = 1, random_state: int | None = None) -> Any:
        """New images from the posterior predictive distribution, (n_samples, rows, columns); of a list of images a
        list of n_samples lists like it. NaN outside the mask."""
        drawn = super().sample(n_samples, random_state)
        return [drawn] if self._several and n_samples == 1 else drawn


def _whole(values: Any, mask: Any) -> Any:
    """Values of the sites, (N, sites, …), as images (N, rows, columns, …); outside the mask NaN, or None of words."""
    shape = (len(values), *mask.shape, *values.shape[2:])
    if mask.all():
        return values.reshape(shape)
    numeric = values.dtype.kind in "biuf"
    result = np.full(shape, np.nan if numeric else None, dtype=np.float64 if numeric else object)
    result[:, mask] = values
    return result


def _is_several(X: Any, mask: Any, covariates: Any) -> bool:
    """Whether X is a list of images, each of which has a shape, a mask or covariates of its own."""
    if not isinstance(X, list | tuple) or not all(isinstance(x, np.ndarray) and x.ndim == 2 for x in X):
        return False
    apart = isinstance(mask, list | tuple) or isinstance(covariates, list | tuple)
    return apart or len({x.shape for x in X}) > 1


def _mask(given: Any, shape: tuple[int, ...]) -> Any:
    mask = np.asarray(given)
    if mask.dtype.kind != "b" or mask.shape != tuple(shape):
        raise InvalidInput(
            f"mask is an array of True and False of the images' shape {tuple(shape)}; got {mask.dtype} {mask.shape}"
        )
    if not mask.any():
        raise InvalidInput("mask leaves no site inside: True marks the sites of the field")
    return mask


def _require_levels(X: Any) -> None:
    """Refuse grey levels: a site has few states."""
    values = X.to_numpy() if isinstance(X, pd.DataFrame) else np.asarray(X)
    if values.dtype.kind not in "iuf" or not values.size:
        return
    levels = np.unique(values[~np.isnan(values)] if values.dtype.kind == "f" else values)
    if len(levels) > _LEVELS:
        raise InvalidInput(
            f"a lattice's sites have few states, up to {_LEVELS}; these images have {len(levels)} levels, from "
            f"{levels[0]:g} to {levels[-1]:g}: bf.HiddenLattice has labels behind grey levels. Or cut them in two by "
            "binarize=, or put them into some bins, such as np.digitize(X, np.quantile(X, [0.25, 0.5, 0.75]))"
        )


def _union(columns: Columns) -> tuple[Any, ...]:
    """All states that occur anywhere, in order."""
    found = {s for states in columns.states for s in states}
    try:
        return tuple(sorted(found))
    except TypeError:
        raise InvalidInput(f"sites mix kinds of values: {listed(list(found))}; recode them") from None
