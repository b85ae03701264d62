"""Boltzmann machines: binary columns, and hidden variables behind them."""

from typing import Any

from bayesfield.estimators.columns import Columns, two_states
from bayesfield.estimators.fields import FieldEstimator
from bayesfield.inference import Engine
from bayesfield.model import Prior, RandomField, boltzmann, restricted_boltzmann
from bayesfield.posterior.fitting import Correction
from bayesfield.types import FloatArray


class _Machine(FieldEstimator):
    """What both have."""

    def __init__(
        self,
        n_hidden: int = 2,
        *,
        binarize: float | None = None,
        prior: Prior | float | str = 1.0,
        engine: Engine | str | None = "auto",
        method: str = "auto",
        correction: Correction = "auto",
        draws: int = 100,
        random_state: int | None = 0,
    ) -> None:
        super().__init__(
            prior=prior, engine=engine, method=method, correction=correction, draws=draws, random_state=random_state
        )
        self.n_hidden = n_hidden
        self.binarize = binarize

    def hidden_proba(self, X: Any) -> FloatArray:
        """P(h = 1 | x) of every hidden variable, (N, n_hidden), averaged over the posterior."""
        table = self._table(X)
        found = self.posterior_.impute(self._values(table), self.draws, 0, self.random_state)
        own = found.cells[:, 1] >= len(self._columns.names)
        result: FloatArray = found.probabilities[own][:, 1].reshape(len(table), -1)
        return result

    def _labelled(self, machine: RandomField, columns: Columns) -> RandomField:
        """The machine with the columns' own states."""
        states = two_states(columns) if self.binarize is None else [(0, 1)] * len(columns.names)
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
