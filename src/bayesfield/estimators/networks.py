"""Networks of items: every pair of columns, or those that are named, with a coupling of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from bayesfield.estimators.columns import Columns, cut_states, named_edges, require_order, shown, warn_of_order
from bayesfield.estimators.fields import FieldEstimator
from bayesfield.model.builders import pairwise, potts
from bayesfield.model.ordinal import ordinal
from bayesfield.model.prior import Normal, Prior
from bayesfield.types import InvalidInput

if TYPE_CHECKING:
    from bayesfield.fitting.planning.request import Correction
    from bayesfield.inference.contract import Engine
    from bayesfield.model.field import RandomField

_THRESHOLDS = 25.0  # five answers with scores 1 … 5 need thresholds down to −13 (Wenchuan), measured


class Network(FieldEstimator):
    """A field with a coupling, or a table of them, for each edge."""

    @property
    def edges_(self) -> pd.DataFrame:
        """A row for each edge: is it there? ``posterior.edges()``, with the ends' names."""
        check_is_fitted(self, "posterior_")
        if self.field_.groups.count("edges") == 0:
            return pd.DataFrame(columns=["first", "second", "mean", "sd"])
        return self.posterior_.edges()

    @property
    def couplings_(self) -> pd.DataFrame:
        """Posterior means of the couplings, (n, n), zero where there is no edge."""
        return self._matrix("mean")

    @property
    def couplings_sd_(self) -> pd.DataFrame:
        """Their posterior standard deviations."""
        return self._matrix("sd")

    def _matrix(self, which: str) -> pd.DataFrame:
        table, names = self.edges_, self._columns.names
        if which not in table:
            raise InvalidInput("an edge of this model has several parameters; see summary()")
        result = pd.DataFrame(np.zeros((len(names), len(names))), index=names, columns=names)
        for row in table.itertuples():
            result.loc[row.first, row.second] = result.loc[row.second, row.first] = getattr(row, which)
        return result


class IsingNetwork(Network):
    """A network of binary items: p(x) ∝ exp(Σ_i τ_i s_i + Σ_{i<j} σ_ij s_i s_j).

    edges: pairs of columns, by name or number, or a networkx graph; by default all. coding: what s is, "binary" for 0
    and 1 (as IsingFit and bgms have it), "spin" for −1 and +1; of a column's two states the first, in order, is the
    lower one (states_; words are in alphabetical order, or in that of an ordered category). binarize: a threshold above
    which a value is 1 and up to which it is 0, in all columns; or a dict of thresholds for some of them, by name.
    The rest as in ``FieldEstimator``.
    """

    def __init__(
        self,
        edges: Any = None,
        *,
        coding: Literal["binary", "spin"] = "binary",
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
        self.edges = edges
        self.coding = coding
        self.binarize = binarize

    def _model(self, columns: Columns) -> RandomField:
        if self.coding not in ("binary", "spin"):
            raise InvalidInput(f'coding is "binary" (0, 1) or "spin" (−1, +1); got {self.coding!r}')
        states = cut_states(columns, self.binarize)
        warn_of_order(columns)
        scores = (0, 1) if self.coding == "binary" else (-1, 1)
        joined = named_edges(self.edges, columns)
        return pairwise(len(states), joined, scores, names=columns.names).relabelled(states)


class PottsNetwork(Network):
    """A network of unordered states: an indicator of each state of an item, and for every edge a coupling.

    interaction: "equal", one coupling that counts when both ends are in the same state, for items that share their
    states; "table", one for each pair of states (none the first), for any; "auto" takes "equal" where that is possible.
    edges: as in ``IsingNetwork``. The rest as in ``FieldEstimator``.
    """

    def __init__(
        self,
        edges: Any = None,
        *,
        interaction: Literal["auto", "equal", "table"] = "auto",
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
        self.edges = edges
        self.interaction = interaction

    def _model(self, columns: Columns) -> RandomField:
        joined = named_edges(self.edges, columns)
        kind = self.interaction
        if kind == "auto":
            kind = "equal" if len(set(columns.states)) == 1 else "table"
        return potts(len(columns.names), joined, columns.states, names=columns.names, interaction=kind)


class OrdinalNetwork(Network):
    """A network of ordered states (answers on a scale): thresholds of each item, and one slope for every edge.

    The scores of states are their own values where these are numbers, else 0, 1, … in the order of a category's list;
    words need one, ``pd.Categorical(column, [lowest, …, highest], ordered=True)``.
    blume_capel: a reference score, for items whose middle is where people start from. interaction: "product" is
    x_i·x_j; "association" is 2·x_i·x_j, the scale of bgms from 0.2.0 on. edges: as in ``IsingNetwork``. prior:
    by default N(0, 25) for thresholds, which balance products of scores and so are large, and N(0, 1) for slopes. The
    rest as in ``FieldEstimator``.
    """

    def __init__(
        self,
        edges: Any = None,
        *,
        blume_capel: float | None = None,
        interaction: Literal["product", "association"] = "product",
        prior: Prior | float | str | None = None,
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
        self.edges = edges
        self.blume_capel = blume_capel
        self.interaction = interaction

    def _model(self, columns: Columns) -> RandomField:
        require_order(columns)
        joined = named_edges(self.edges, columns)
        return ordinal(
            len(columns.names),
            joined,
            shown(columns).states,
            names=columns.names,
            blume_capel=self.blume_capel,
            interaction=self.interaction,
        )

    def _prior_given(self, values: Any) -> Prior:
        return threshold_prior(self.field_) if self.prior is None else super()._prior_given(values)


def threshold_prior(field: RandomField) -> Normal:
    """N(0, 25) for the thresholds of ordinal items, N(0, 1) for slopes."""
    return Normal(variance=[_THRESHOLDS if group == "nodes" else 1.0 for group in field.groups])
