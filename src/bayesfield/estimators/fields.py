"""What all estimators of fields share: a table in, a posterior behind, and answers in the table's own terms."""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import special
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from bayesfield.estimators.columns import Columns, binarized, columns_of
from bayesfield.inference import Auto, Engine, Sampled, as_engine
from bayesfield.learning import mrf_objective
from bayesfield.model import ARD, Normal, Prior, RandomField
from bayesfield.posterior import Imputation, Posterior, fit
from bayesfield.posterior.fitting import Correction
from bayesfield.prediction.given_others import given_others
from bayesfield.prediction.replicates import new_cases
from bayesfield.types import FloatArray, InvalidInput


class FieldEstimator(BaseEstimator):  # type: ignore[misc]
    """The contract of scikit-learn over ``bf.fit``. A kind of field says which one a table asks for.

    prior: a variance, "evidence" for the one that the data make likeliest, "ard", or a prior such as ``bf.Normal(…)``.
    engine, method, correction: as in ``bf.fit``. draws: of the parameters, that answers average over. random_state: an
    int, the seed of all draws.

    X: a DataFrame (columns of category dtype keep their states, also those that do not occur) or an array; missing
    cells are summed over. After ``fit``: posterior_ (bf.Posterior), field_, n_features_in_, feature_names_in_. A pickle
    leaves the training data out.
    """

    def __init__(
        self,
        *,
        prior: Prior | float | str | None = 1.0,
        engine: Engine | str | None = "auto",
        method: str = "auto",
        correction: Correction = "auto",
        draws: int = 100,
        random_state: int | None = 0,
    ) -> None:
        self.prior = prior
        self.engine = engine
        self.method = method
        self.correction = correction
        self.draws = draws
        self.random_state = random_state

    @abstractmethod
    def _model(self, columns: Columns) -> RandomField:
        """The field of a table."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """The posterior of the parameters. y: not used."""
        table = self._table(X, reset=True)
        self._columns = columns_of(table)
        self.field_: RandomField = self._model(self._columns)
        self.posterior_: Posterior = fit(
            self.field_,
            self._values(table),
            self._prior_given(),
            None if self.engine == "auto" else self.engine,
            method=self.method,
            correction=self.correction,
            rng=self.random_state,
        )
        self.n_iter_ = max(len(self.posterior_.record.iterations), 1)
        return self

    def _prior_given(self) -> Prior:
        """A variance, "evidence", "ard" or a prior, as a prior."""
        return _prior(self.prior)

    def field_for(self, X: Any) -> RandomField:
        """The field that ``fit`` would make of a table; nothing is fitted."""
        return self._model(columns_of(self._table(X, reset=True)))

    def predict_proba(self, X: Any, column: str | int | None = None) -> FloatArray:
        """The probability of each state of a column, given the others, (N, K), averaged over the posterior.

        The column's own cells are not looked at. column: its name or number; by default all, side by side.
        """
        codes = self._codes(X)
        if column is not None:
            return self._given_others(codes, self._number(column))
        return np.hstack([self._given_others(codes, j) for j in range(codes.shape[1])])

    def predict(self, X: Any, column: str | int | None = None) -> Any:
        """The likeliest state of a column given the others, (N,); by default of every column, a table."""
        codes = self._codes(X)
        if column is not None:
            j = self._number(column)
            best = self._given_others(codes, j).argmax(axis=1)
            return np.array([self.field_.states[j][k] for k in best])
        best = np.stack([self._given_others(codes, j).argmax(axis=1) for j in range(codes.shape[1])], axis=1)
        return self._back(self._decoded(best), getattr(X, "index", None))

    def score_samples(self, X: Any) -> FloatArray:
        """log p(x | data) of each case, (N,), in nats, averaged over the posterior; missing cells are summed over."""
        table = self._table(X)
        objective = mrf_objective(self.field_, self._values(table), Normal(variance=1.0), self._with_log_z())
        found = objective.pointwise(self._points())
        if not np.isfinite(found.values).all():
            raise InvalidInput("the engine found no log Z at some draws: take engine=bf.Exact(), or a narrower prior")
        each = special.logsumexp(found.values, axis=0) - np.log(len(found.values))
        return np.asarray(each[found.which])

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of ``score_samples``."""
        return float(np.mean(self.score_samples(X)))

    def sample(self, n_samples: int = 1, random_state: int | None = None) -> Any:
        """New cases from the posterior predictive distribution: each draw of the parameters gives its share."""
        check_is_fitted(self, "posterior_")
        if n_samples < 1:
            raise InvalidInput(f"n_samples is at least 1; got {n_samples}")
        rng = np.random.default_rng(self.random_state if random_state is None else random_state)
        drawn = new_cases(self.posterior_, n_samples, self.draws, rng)
        return self._back(self._decoded(drawn[:, self._seen()]))

    def impute(self, X: Any) -> Any:
        """X with the likeliest state in every missing cell, given the others of its row."""
        codes = self._codes(X)
        found = self.imputation(X)
        for (row, column), p in zip(found.cells, found.probabilities, strict=True):
            if column < codes.shape[1]:
                codes[row, column] = int(p.argmax())
        return self._back(self._decoded(codes), getattr(X, "index", None))

    def imputation(self, X: Any, completions: int = 10) -> Imputation:
        """Probabilities of what stands in every missing cell, and completed data: ``posterior.impute``."""
        table = self._table(X)
        return self.posterior_.impute(self._values(table), self.draws, completions, self.random_state)

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
        if "posterior_" in state:
            state["posterior_"] = state["posterior_"].without_data()
        return state

    # --- a table and its codes ----------------------------------------------------------------------------------

    def _table(self, X: Any, reset: bool = False) -> Any:
        """X checked: a DataFrame as it is, anything else as an array of two dimensions."""
        if not reset:
            check_is_fitted(self, "posterior_")
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if not len(X) or not len(X.columns):
                check_array(np.empty(X.shape))  # says what is wrong
            return self._cut(X)
        return self._cut(validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False))

    def _cut(self, table: Any) -> Any:
        """The table, its numbers cut in two where a kind of field has ``binarize``."""
        threshold = getattr(self, "binarize", None)
        return table if threshold is None else binarized(table, threshold)

    def _back(self, values: Any, index: Any = None) -> Any:
        """(N, n) states as a table like the one that was given."""
        return self._columns.back(values, index)

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
        names = self._columns.names
        if isinstance(column, str) and column in names:
            return names.index(column)
        if isinstance(column, int | np.integer) and -len(names) <= column < len(names):
            return int(column) % len(names)
        raise InvalidInput(f"there is no column {column!r}; there are {names[:12]}")

    # --- answers ------------------------------------------------------------------------------------------------

    def _points(self) -> FloatArray:
        return self.posterior_.sample(self.draws, self.random_state)

    def _with_log_z(self) -> Engine:
        """The user's engine where it gives log Z."""
        chosen = as_engine(None if self.engine == "auto" else self.engine)
        return Auto() if isinstance(chosen, Sampled) else chosen

    def _given_others(self, codes: Any, j: int) -> FloatArray:
        seen = self._seen()
        whole = np.full((len(codes), self.field_.n_variables), -1)
        whole[:, seen] = codes
        return given_others(self.posterior_, whole, seen[j], self.draws, self.random_state)

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


def _prior(given: Any) -> Prior:
    """A variance, "evidence", "ard" or a prior."""
    if given == "ard":
        return ARD()
    if isinstance(given, str | int | float):
        return Normal(variance=given)
    if isinstance(given, Prior):
        return given
    raise InvalidInput(f'prior is a variance, "evidence", "ard", or a prior such as bf.Normal(...); got {given!r}')
