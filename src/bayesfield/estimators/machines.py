"""Boltzmann machines: binary columns, and hidden variables behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bayesfield.estimators.columns import Columns, cut_states
from bayesfield.estimators.fields import FieldEstimator
from bayesfield.graph.compiled import compiled
from bayesfield.model.hidden import boltzmann, restricted_boltzmann
from bayesfield.prediction.layers import hidden_given_seen, layer_scores, too_large
from bayesfield.types import FloatArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.fitting.planning.request import Correction
    from bayesfield.inference.contract import Engine
    from bayesfield.model.field import RandomField
    from bayesfield.model.prior import Prior

_ANNEALED = 100  # draws of the parameters, each with a log Z by annealing


class _Machine(TransformerMixin, FieldEstimator):  # type: ignore[misc]
    """What both have."""

    def __init__(
        self,
        n_hidden: int = 2,
        *,
        binarize: float | Mapping[str, float] | None = None,
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
        self.n_hidden = n_hidden
        self.binarize = binarize

    def hidden_proba(self, X: Any) -> FloatArray:
        """P(h = 1 | x) of every hidden variable, (N, n_hidden), averaged over the posterior."""
        table = self._table(X)
        given = self._by_layer(table)
        if given is not None:
            return given
        found = self.posterior_.impute(self._values(table), self._draws(), 0, self.random_state)
        own = found.cells[:, 1] >= len(self._columns.names)
        result: FloatArray = found.probabilities[own][:, 1].reshape(len(table), -1)
        return result

    def score_samples(self, X: Any) -> FloatArray:
        """log p(x | data) of each case, (N,), in nats, averaged over the posterior; missing cells are summed over.

        Where both layers are too large for a sum, log Z is by annealed importance sampling at every draw, and cells
        must not be missing. Its error, some hundredths of a nat, is common to all cases; where annealing up and down
        disagree by more than a nat, a ``FitWarning`` says so.
        """
        field = compiled(self.field_)
        if not too_large(field):
            return super().score_samples(X)
        codes = self.field_.encode(self._values(self._table(X)), holes=True)
        points = self.posterior_.sample(self._draws(), self.random_state)
        found = layer_scores(field, codes, points, 0 if self.random_state is None else self.random_state)
        if found is None:
            raise InvalidInput("machines as large are scored on rows without missing cells: impute these first")
        return found.log_p

    def _draws(self) -> int:
        return _ANNEALED if self.n_draws is None and too_large(compiled(self.field_)) else super()._draws()

    def _by_layer(self, table: Any) -> FloatArray | None:
        """P(h = 1 | x) where the table has no holes and the machine is two layers."""
        codes = self.field_.encode(self._values(table), holes=True)
        points = self.posterior_.sample(self._draws(), self.random_state)
        return hidden_given_seen(compiled(self.field_), codes, points)

    def transform(self, X: Any) -> FloatArray:
        """``hidden_proba``: what a pipeline hands to its next step."""
        return self.hidden_proba(X)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """h0, h1, …"""
        check_is_fitted(self, "posterior_")
        return np.array([self.field_.names[i] for i in self.field_.hidden], dtype=object)

    def _labelled(self, machine: RandomField, columns: Columns) -> RandomField:
        """The machine with the columns' own states."""
        states = cut_states(columns, self.binarize)
        return machine.relabelled([*states, *machine.states[len(states) :]])


class RBM(_Machine):
    """A restricted Boltzmann machine: every hidden variable joined to every column, and to nothing else.

    n_hidden: hidden variables, h0, h1, …. binarize: a threshold above which a value is 1. The rest as in
    ``FieldEstimator``.
    """

    def _model(self, columns: Columns) -> RandomField:
        return self._labelled(restricted_boltzmann(len(columns.names), self.n_hidden, names=columns.names), columns)


class BoltzmannMachine(_Machine):
    """A Boltzmann machine: all pairs of columns and hidden variables joined.

    n_hidden: hidden variables, h0, h1, …. binarize: a threshold above which a value is 1. The rest as in
    ``FieldEstimator``.
    """

    def _model(self, columns: Columns) -> RandomField:
        return self._labelled(boltzmann(len(columns.names), self.n_hidden, names=columns.names), columns)
