"""Hidden labels of numbers: Markov chains of them, after scikit-learn's contract and hmmlearn's shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from bayesfield.fitting.hidden import fit_hidden
from bayesfield.model.adaptive_prior import prior_from
from bayesfield.model.emissions.families import (
    CategoricalEmission,
    Emission,
    GaussianEmission,
    PoissonEmission,
    StudentEmission,
)
from bayesfield.model.emissions.hidden import HiddenField
from bayesfield.model.emissions.laws import MarkovChain
from bayesfield.prediction.hidden import chain_log_predictive, chain_probabilities, imputed, new_chains
from bayesfield.types import FloatArray, IntArray, InvalidInput

if TYPE_CHECKING:
    import pandas as pd

    from bayesfield.fitting.plan import Correction
    from bayesfield.model.prior import Prior
    from bayesfield.posterior.posterior import Posterior

_NAMED = {
    "gaussian": GaussianEmission,
    "student": StudentEmission,
    "poisson": PoissonEmission,
    "categorical": CategoricalEmission,
}


def as_emission(given: Any) -> Any:
    """An emission, a list of them, or the name of a family."""
    if isinstance(given, str):
        if given not in _NAMED:
            raise InvalidInput(f"emission is one of {', '.join(map(repr, _NAMED))} or an object; got {given!r}")
        return _NAMED[given]()
    if isinstance(given, list | tuple):
        return [as_emission(one) for one in given]
    if not isinstance(given, Emission):
        raise InvalidInput(f"emission is a name, an object such as bf.GaussianEmission(), or a list; got {given!r}")
    return given


class HiddenEstimator(BaseEstimator):  # type: ignore[misc]
    """What estimators of hidden labels share."""

    posterior_: Posterior

    def _prior_given(self, prior: Any) -> Prior | None:
        """None, a variance, or a prior."""

        def refused() -> float:
            raise InvalidInput('prior="cv" is for tables of cases: give a variance, a prior, or None')

        return None if prior is None else prior_from(prior, refused)

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """A row for each parameter: mean, sd, interval, P(> 0); labels in the order of their means."""
        check_is_fitted(self, "posterior_")
        return self.posterior_.summary(level)

    @property
    def means_(self) -> FloatArray:
        """E[y | label], (labels, columns), at the posterior's mean; ascending in the first column."""
        check_is_fitted(self, "posterior_")
        model: Any = self.posterior_.field
        result: FloatArray = model.emitted.means(model.split(self.posterior_.mean)[1])
        return result

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "posterior_" in state:
            state["posterior_"] = state["posterior_"].without_data()
        return state


class HiddenChain(HiddenEstimator):
    """A hidden Markov chain: labels along a sequence, each with observations of its own, and the posterior of it all.

    X: (T, D) or (T,), a row for each time step, NaN where an observation is missing (it is summed over); lengths: of
    the sequences, where X has several end to end, as in hmmlearn.

    n_labels: how many. emission: "gaussian" (of each label a mean and an sd), "student", "poisson", "categorical", an
    object with options such as bf.GaussianEmission(shared_sd=True), or a list with one for each column; columns are
    independent given the label. initial: "uniform", or "free" for many sequences, whose first labels are then learnt.
    prior: None, which is weak, at the scale of the data; a variance; or a prior over all parameters. correction,
    time_limit: as in ``bf.fit``. n_draws: of the parameters, that answers average over. random_state: an int, the seed
    of all draws. verbose: whether ``fit`` shows its steps.

    After ``fit``: posterior_ (bf.Posterior) of all parameters, labels in the order of their means; means_,
    transmat_, n_iter_. A pickle leaves the training data out.
    """

    def __init__(
        self,
        n_labels: int = 2,
        *,
        emission: Any = "gaussian",
        initial: Any = "uniform",
        prior: Prior | float | None = None,
        correction: Correction = "auto",
        n_draws: int = 20,
        random_state: int | None = 0,
        time_limit: float | None = None,
        verbose: bool | None = None,
    ) -> None:
        self.n_labels = n_labels
        self.emission = emission
        self.initial = initial
        self.prior = prior
        self.correction = correction
        self.n_draws = n_draws
        self.random_state = random_state
        self.time_limit = time_limit
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, lengths: Any = None) -> Self:
        """The posterior of all parameters. y: not used."""
        values = self._values(X, reset=True)
        if not isinstance(self.n_labels, int | np.integer) or self.n_labels < 2:
            raise InvalidInput(f"n_labels is a whole number of at least 2; got {self.n_labels!r}")
        field = HiddenField(MarkovChain(int(self.n_labels), self.initial), as_emission(self.emission))
        self.posterior_ = fit_hidden(
            field,
            values,
            self._prior_given(self.prior),
            lengths=lengths,
            correction=self.correction,
            rng=self.random_state,
            time_limit=self.time_limit,
            verbose=self.verbose,
        )
        self.n_iter_ = max(len(self.posterior_.record.iterations), 1)
        return self

    @property
    def transmat_(self) -> FloatArray:
        """T(i, j), the probability of going from label i to j, at the posterior's mean."""
        check_is_fitted(self, "posterior_")
        model: Any = self.posterior_.field
        result: FloatArray = np.exp(model.law.tables(model.split(self.posterior_.mean)[0])[1])
        return result

    def predict_proba(self, X: Any, lengths: Any = None) -> FloatArray:
        """p(label | all observations of its sequence), (T, n_labels), averaged over the posterior."""
        values = self._values(X)
        return chain_probabilities(self.posterior_, values, lengths, self.n_draws, self.random_state)

    def predict(self, X: Any, lengths: Any = None) -> IntArray:
        """The likeliest label of every row, (T,): as few wrong ones as possible are expected."""
        return np.asarray(self.predict_proba(X, lengths).argmax(axis=1))

    def score_samples(self, X: Any, lengths: Any = None) -> FloatArray:
        """log p(row | rows before it in its sequence, training data), (T,), in nats; averaged over the posterior."""
        values = self._values(X)
        return chain_log_predictive(self.posterior_, values, lengths, self.n_draws, self.random_state)

    def score(self, X: Any, y: Any = None, lengths: Any = None) -> float:
        """The mean of ``score_samples``."""
        return float(np.mean(self.score_samples(X, lengths)))

    def impute(self, X: Any, lengths: Any = None) -> FloatArray:
        """X with what is expected in every missing cell, given all of its sequence."""
        values = self._values(X)
        return imputed(self.posterior_, values, self.predict_proba(X, lengths))

    def sample(self, n_samples: int = 1, random_state: int | None = None) -> tuple[FloatArray, IntArray]:
        """A new sequence of that length and its labels, by one draw of the parameters."""
        check_is_fitted(self, "posterior_")
        if not isinstance(n_samples, int | np.integer) or n_samples < 1:
            raise InvalidInput(f"n_samples is a whole number of at least 1; got {n_samples!r}")
        rng = np.random.default_rng(self.random_state if random_state is None else random_state)
        return new_chains(self.posterior_, np.array([n_samples], dtype=np.int64), rng)

    def _values(self, X: Any, reset: bool = False) -> FloatArray:
        """X as numbers (T, D)."""
        if not reset:
            check_is_fitted(self, "posterior_")
        X = X[:, None] if isinstance(X, np.ndarray) and X.ndim == 1 else X
        values: FloatArray = validate_data(
            self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2 if reset else 1
        )
        return values
