"""Boltzmann machines: binary columns, and hidden variables behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bayesfield.estimators.columns import Columns, cut_states
from bayesfield.estimators.fields import FieldEstimator
from bayesfield.model.hidden import boltzmann, restricted_boltzmann
from bayesfield.types import FloatArray

if TYPE_CHECKING:
    from bayesfield.fitting.plan import Correction
    from bayesfield.inference.contract import Engine
    from bayesfield.model.field import RandomField
    from bayesfield.model.prior import Prior


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
        found = self.posterior_.impute(self._values(table), self._draws(), 0, self.random_state)
        own = found.cells[:, 1] >= len(self._columns.names)
        result: FloatArray = found.probabilities[own][:, 1].reshape(len(table), -1)
        return result

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
