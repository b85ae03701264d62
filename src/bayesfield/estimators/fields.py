"""What all estimators of fields share: a table in, a posterior behind, and answers in the table's own terms."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from scipy import special
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from bayesfield import parallel
from bayesfield.analysis.validation.cross_validation import cross_validated_variance
from bayesfield.estimators.columns import Columns, binarized, columns_of, require_own_names, warn_of_columns
from bayesfield.fitting.fields import fit
from bayesfield.graph.compiled import compiled
from bayesfield.inference.auto import Auto
from bayesfield.inference.by_name import as_engine
from bayesfield.learning.phases.cases import field_objective, free_log_z
from bayesfield.model.adaptive_prior import prior_from
from bayesfield.model.prior import Normal, Prior
from bayesfield.prediction.given_others import each_given_others
from bayesfield.prediction.replicates import new_cases
from bayesfield.tabular import as_table, backend_of, in_order
from bayesfield.types import FloatArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.fitting.planning.request import Correction
    from bayesfield.inference.contract import Engine
    from bayesfield.model.field import RandomField
    from bayesfield.posterior.imputation import Imputation
    from bayesfield.posterior.posterior import Posterior

_ENTRIES = 2e7  # of tables, that all draws for as many cases as were fitted together fill
_HELD = 20_000_000  # probabilities of cases at draws that are held at a time
_FEW_DRAWS, _MANY_DRAWS = 100, 2000


class FieldEstimator(BaseEstimator):  # type: ignore[misc]
    """The contract of scikit-learn over ``bf.fit``. A kind of field says which one a table asks for.

    prior: a variance, "evidence" for the one that the data make likeliest, "cv" for the best by cross-validation,
    "ard", or a prior such as ``bf.Normal(…)``. engine, method, correction, time_limit: as in ``bf.fit``. n_draws: of
    the parameters, that answers average over; by default 100 for large fields and up to 2,000 for small ones, where
    more cost nothing. random_state: an int, the seed of all draws, so that the same question has the same answer.
    verbose: whether ``fit`` shows its steps; by default where it takes long and there is a terminal or a notebook.
    client: a dask.distributed.Client, or the address of its scheduler, whose workers keep the cases during the fit.

    X: a table of any library (pandas, polars, pyarrow, modin, xarray, NumPy's structured arrays) or an array. Columns
    of category dtype, polars' Enum among them, keep their states, also those that do not occur. New tables are matched
    by their columns' names, in whatever order these stand; missing cells are summed over. After ``fit``: posterior_
    (bf.Posterior), field_, states_, n_features_in_, feature_names_in_. A pickle leaves the training data out.
    """

    def __init__(
        self,
        *,
        prior: Prior | float | str | None = 1.0,
        engine: Engine | str = "auto",
        method: str = "auto",
        correction: Correction = "auto",
        n_draws: int | None = None,
        random_state: int | None = 0,
        time_limit: float | None = None,
        verbose: bool | None = None,
        client: Any = None,
    ) -> None:
        self.prior = prior
        self.engine = engine
        self.method = method
        self.correction = correction
        self.n_draws = n_draws
        self.random_state = random_state
        self.time_limit = time_limit
        self.verbose = verbose
        self.client = client

    @abstractmethod
    def _model(self, columns: Columns) -> RandomField:
        """The field of a table."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """The posterior of the parameters. y: not used."""
        table = self._table(X, reset=True)
        self._columns = replace(columns_of(table), backend=backend_of(X))
        self.field_: RandomField = self._model(self._columns)
        self._look_at(self._columns)
        values = self._values(table)
        with parallel.connected(self.client) as client:
            self.posterior_: Posterior = fit(
                self.field_,
                values,
                self._prior_given(values),
                self.engine,
                method=self.method,
                correction=self.correction,
                rng=self.random_state,
                time_limit=self.time_limit,
                verbose=self.verbose,
                client=client,
            )
        if client is not self.client:  # what the workers kept went with the connection
            self.posterior_ = self.posterior_.without_data()
        self.n_iter_ = max(len(self.posterior_.record.iterations), 1)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """The posterior with further cases: that of a fit of all of them (``posterior.update``). y: not used.

        The first call is ``fit``, which learns columns and states: a column of category dtype has also those that are
        still to come. A prior by "cv" keeps its variance; "evidence" and "ard" choose anew.
        """
        if not hasattr(self, "posterior_"):
            return self.fit(X, y)
        values = self._values(self._table(X))
        self.posterior_ = self.posterior_.update(
            values, correction=self.correction, time_limit=self.time_limit, verbose=self.verbose
        )
        self._columns = replace(self._columns, cases=self._columns.cases + len(values))
        self.n_iter_ = max(len(self.posterior_.record.iterations), 1)
        return self

    def _look_at(self, columns: Columns) -> None:
        """Warn of what a user should know before the parameters are looked at."""
        warn_of_columns(columns)

    def _prior_given(self, values: Any) -> Prior:
        """A variance, "evidence", "cv", "ard" or a prior, as a prior."""

        def best() -> float:
            engine, rng = self.engine, self.random_state
            return cross_validated_variance(self.field_, values, engine=engine, rng=rng).variance

        return prior_from(self.prior, best)

    def field_for(self, X: Any) -> RandomField:
        """The field that ``fit`` would make of a table; nothing is fitted."""
        return self._model(columns_of(self._table(X, reset=True)))

    @property
    def states_(self) -> dict[str, tuple[Any, ...]]:
        """The states of every column, in the order of ``predict_proba``; of two the first is the lower one."""
        check_is_fitted(self, "posterior_")
        return {name: self.field_.states[i] for name, i in zip(self._columns.names, self._seen(), strict=True)}

    def predict_proba(self, X: Any, column: str | int | None = None) -> FloatArray:
        """The probability of each state of a column, given the others, (N, K), averaged over the posterior.

        The column's own cells are not looked at, and it may be absent from a DataFrame. column: its name or number; by
        default all, side by side. states_: the order of the states. The average is over p(λ | data): what the other
        cells of a case would tell of λ is not counted, which is little where the training data are many.
        """
        return np.hstack(self._given_others(self._codes(self._with_column(X, column)), column))

    def predict(self, X: Any, column: str | int | None = None) -> Any:
        """The likeliest state of a column given the others, (N,); by default of every column, a table."""
        found = self._given_others(self._codes(self._with_column(X, column)), column)
        best = np.stack([p.argmax(axis=1) for p in found], axis=1)
        if column is not None:
            return np.array([self.field_.states[self._number(column)][k] for k in best[:, 0]])
        return self._back(self._decoded(best), X)

    def score_samples(self, X: Any) -> FloatArray:
        """log p(x | data) of each case, (N,), in nats, averaged over the posterior; missing cells are summed over.

        The average is over ``n_draws`` draws, which leaves an error of about sd(p)/√n_draws in p; 0 where a case has
        nothing but missing cells.
        """
        values = self._values(self._table(X))
        result, known = np.zeros(len(values)), np.flatnonzero(~pd.isna(values).all(axis=1))
        points = self.posterior_.sample(self._draws(), self.random_state)
        free: FloatArray | None = None
        step = max(1, _HELD // len(points))
        for some in (known[k : k + step] for k in range(0, len(known), step)):
            engine = self._with_log_z()
            objective = field_objective(self.field_, values[some], Normal(variance=1.0), engine, learned=False)
            free = free_log_z(objective, points) if free is None else free
            distinct, which = np.unique(objective.data.codes, axis=0, return_inverse=True)
            log_p = objective.data.case_log_z(distinct, points, engine) - free[:, None]
            if not np.isfinite(log_p).all():
                raise InvalidInput("the engine found no log Z at some draws: take bf.Exact(), or a narrower prior")
            each = special.logsumexp(log_p, axis=0) - np.log(len(log_p))
            result[some] = each[which.reshape(-1)]
        return result

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of ``score_samples``."""
        return float(np.mean(self.score_samples(X)))

    def sample(self, n_samples: int = 1, random_state: int | None = None) -> Any:
        """New cases from the posterior predictive distribution: each draw of the parameters gives its share.

        random_state: a seed of its own; by default the estimator's, so that the same call gives the same cases.
        """
        check_is_fitted(self, "posterior_")
        if not isinstance(n_samples, int | np.integer) or n_samples < 1:
            raise InvalidInput(f"n_samples is a whole number of at least 1; got {n_samples!r}")
        rng = np.random.default_rng(self.random_state if random_state is None else random_state)
        drawn = new_cases(self.posterior_, int(n_samples), self._draws(), rng)
        return self._back(self._decoded(drawn[:, self._seen()]))

    def impute(self, X: Any) -> Any:
        """X with the likeliest state in every missing cell, given the others of its row."""
        codes = self._codes(X)
        found = self.imputation(X)
        for (row, column), p in zip(found.cells, found.probabilities, strict=True):
            if column < codes.shape[1]:
                codes[row, column] = int(p.argmax())
        return self._back(self._decoded(codes), X)

    def imputation(self, X: Any, completions: int = 10) -> Imputation:
        """Probabilities of what stands in every missing cell, and completed data: ``posterior.impute``."""
        table = self._table(X)
        return self.posterior_.impute(self._values(table), self._draws(), completions, self.random_state)

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """A row for each parameter: mean, sd, interval, P(> 0)."""
        check_is_fitted(self, "posterior_")
        return self.posterior_.summary(level)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if not isinstance(state.get("client"), str):
            state["client"] = None  # a connection is of this process
        if "posterior_" in state:
            state["posterior_"] = state["posterior_"].without_data()
        return state

    # --- a table and its codes ----------------------------------------------------------------------------------

    def _table(self, X: Any, reset: bool = False) -> Any:
        """X checked: a table as pandas has it, its columns in the order of the fit, by name; else an array of two
        dimensions."""
        if not reset:
            check_is_fitted(self, "posterior_")
        X = as_table(X)
        if isinstance(X, pd.DataFrame):
            require_own_names(X)
            X = X if reset or not self._columns.labels else in_order(X, self._columns.labels)
            validate_data(self, X, reset=reset, skip_check_array=True)
            if not len(X) or not len(X.columns):
                check_array(np.empty(X.shape))  # says what is wrong
            return self._cut(X)
        return self._cut(validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False))

    def _cut(self, table: Any) -> Any:
        """The table, its numbers cut in two where a kind of field has ``binarize``."""
        threshold = getattr(self, "binarize", None)
        return table if threshold is None else binarized(table, threshold)

    def _back(self, values: Any, X: Any = None) -> Any:
        """(N, n) states as a table like X, or like the one that was fitted."""
        return self._columns.back(values, X)

    def _values(self, table: Any) -> Any:
        """What ``bf.fit`` reads: by position, for names that are not text are text in the field."""
        return table.to_numpy(dtype=object) if isinstance(table, pd.DataFrame) else table

    def _codes(self, X: Any) -> Any:
        """Positions of the states, −1 where missing; of the observed variables."""
        table = self._table(X)
        codes = self.field_.encode(self._values(table), holes=True)
        return codes[:, self._seen()]

    def _decoded(self, codes: Any) -> Any:
        if self._columns.kinds is None:
            return _states_array(codes, self.field_.states)
        result = np.empty(codes.shape, dtype=object)
        for j in range(codes.shape[1]):
            result[:, j] = [self.field_.states[j][k] for k in codes[:, j]]
        return result

    def _number(self, column: str | int) -> int:
        place = self._columns.number(column)
        if place is None:
            raise InvalidInput(f"there is no column {column!r}; there are {self._columns.names[:12]}")
        return place

    # --- answers ------------------------------------------------------------------------------------------------

    def _draws(self) -> int:
        """n_draws, or as many as make some seconds of inference for as many cases as were fitted."""
        if self.n_draws is not None:
            if not isinstance(self.n_draws, int | np.integer) or self.n_draws < 1:
                raise InvalidInput(f"n_draws is a whole number of at least 1, or None; got {self.n_draws!r}")
            return int(self.n_draws)
        entries = self._with_log_z().preview(compiled(self.field_).graph).entries * max(self._columns.cases, 1)
        return int(np.clip(_ENTRIES / max(entries, 1.0), _FEW_DRAWS, _MANY_DRAWS))

    def _with_log_z(self) -> Engine:
        """The user's engine where it gives log Z."""
        chosen: Any = as_engine(self.engine)
        if not chosen.traits.has_log_z:
            chosen = Auto()
        engine: Engine = chosen.choose(compiled(self.field_).graph)[0] if chosen.traits.chooses else chosen
        return engine

    def _given_others(self, codes: Any, column: str | int | None) -> list[FloatArray]:
        """(N, K) of a column, or of every one."""
        seen = self._seen()
        whole = np.full((len(codes), self.field_.n_variables), -1)
        whole[:, seen] = codes
        asked = seen if column is None else [seen[self._number(column)]]
        return each_given_others(self.posterior_, whole, asked, self._draws(), self.random_state)

    def _with_column(self, X: Any, column: str | int | None) -> Any:
        """X, a column that is asked for added in its place where a DataFrame does not have it."""
        check_is_fitted(self, "posterior_")
        labels, X = self._columns.labels, as_table(X)
        if not isinstance(X, pd.DataFrame) or column is None or not labels:
            return X
        label = labels[self._number(column)]
        if str(label) in map(str, X.columns):
            return X
        added = X.copy()
        added[label] = np.nan
        return added

    def _seen(self) -> list[int]:
        """The variables that are columns of the table."""
        hidden = set(self.field_.hidden)
        return [i for i in range(self.field_.n_variables) if i not in hidden]


def _states_array(codes: Any, states: Any) -> Any:
    """Codes of observed variables as values of one array."""
    kinds = [np.array(list(states[j])) for j in range(codes.shape[1])]
    numeric = all(kind.dtype.kind in "biuf" for kind in kinds)
    result = np.empty(codes.shape, dtype=np.result_type(*kinds) if numeric and kinds else object)
    for j, kind in enumerate(kinds):
        result[:, j] = kind[codes[:, j]]
    return result
