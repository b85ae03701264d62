"""Hidden labels of numbers, along sequences and on images, after scikit-learn's contract (and hmmlearn's shapes)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
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
from bayesfield.model.emissions.hidden import HiddenField, HiddenModel
from bayesfield.model.emissions.laws import FieldLaw, MarkovChain, potts_lattice
from bayesfield.prediction.hidden import (
    chain_log_predictive,
    chain_probabilities,
    field_log_likelihood,
    field_probabilities,
    imputed,
    new_chains,
    new_field,
)
from bayesfield.tabular import as_table, in_order
from bayesfield.types import BoolArray, FloatArray, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.fitting.planning.request import Correction
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
        """X as numbers (T, D); the columns of a table by name."""
        if not reset:
            check_is_fitted(self, "posterior_")
        X = as_table(X)
        if isinstance(X, pd.DataFrame) and not reset and hasattr(self, "feature_names_in_"):
            X = in_order(X, self.feature_names_in_.tolist())
        if isinstance(X, np.ndarray) and X.ndim == 1 and (reset or self.n_features_in_ == 1):
            X = X[:, None]
        values: FloatArray = validate_data(
            self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2 if reset else 1
        )
        return values


class HiddenLattice(HiddenEstimator):
    """Hidden labels of an image's sites, neighbours of which tend to be alike, and the posterior of it all.

    p(z) ∝ exp(β Σ [z_i = z_j]) over neighbours (a Potts field), and each site's value depends on its label alone. X:
    one image (rows, columns), or several of one shape (N, rows, columns); NaN where a value is missing (it is summed
    over). With channels=True there is one axis more, the last: (rows, columns, channels), such as red, green and blue.

    n_labels: how many. emission: "gaussian" (of each label a mean and an sd), "student", "poisson", "categorical", an
    object with options such as bf.GaussianEmission(shared_sd=True), or a list with one for each channel; channels are
    independent given the label. channels: whether X has several values a site. neighbours: 4, 8, or a list of offsets
    (rows, columns). mask: (rows, columns), True at the sites that are part of the field; others have label −1. prior:
    None, which is weak, at the scale of the data; a variance; or a prior over all parameters. correction, time_limit:
    as in ``bf.fit``. n_draws: of the parameters, that answers average over. random_state: an int, the seed of all
    draws. verbose: whether ``fit`` shows its steps.

    After ``fit``: posterior_ (bf.Posterior) of all parameters, labels in the order of their means; means_, n_iter_. A
    pickle leaves the training data out.
    """

    def __init__(
        self,
        n_labels: int = 2,
        *,
        emission: Any = "gaussian",
        neighbours: Any = 4,
        mask: Any = None,
        channels: bool = False,
        prior: Prior | float | None = None,
        correction: Correction = "auto",
        n_draws: int = 20,
        random_state: int | None = 0,
        time_limit: float | None = None,
        verbose: bool | None = None,
    ) -> None:
        self.n_labels = n_labels
        self.emission = emission
        self.neighbours = neighbours
        self.mask = mask
        self.channels = channels
        self.prior = prior
        self.correction = correction
        self.n_draws = n_draws
        self.random_state = random_state
        self.time_limit = time_limit
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """The posterior of all parameters. y: not used."""
        if not isinstance(self.n_labels, int | np.integer) or self.n_labels < 2:
            raise InvalidInput(f"n_labels is a whole number of at least 2; got {self.n_labels!r}")
        images = _images(X, self.channels)
        field = HiddenField(self._law(images), as_emission(self.emission))
        self._shape = images.shape
        self.posterior_ = fit_hidden(
            field,
            self._rows(images),
            self._prior_given(self.prior),
            correction=self.correction,
            rng=self.random_state,
            time_limit=self.time_limit,
            verbose=self.verbose,
        )
        self.n_iter_ = max(len(self.posterior_.record.iterations), 1)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """p(label | image), (…, n_labels) for the sites of X, averaged over the posterior; NaN outside the mask."""
        images, model = self._asked(X)
        p = field_probabilities(model, self._points(), self._rows(images), self._seed)
        return self._back(p, images, np.nan).reshape(*self._sites(X), -1)

    def predict(self, X: Any) -> IntArray:
        """The likeliest label of every site of X, so that as few as possible are wrong; −1 outside the mask."""
        p = self.predict_proba(X)
        return np.where(np.isnan(p[..., 0]), -1, p.argmax(axis=-1))

    def doubt(self, X: Any) -> FloatArray:
        """1 − p of the likeliest label of every site of X."""
        result: FloatArray = 1.0 - self.predict_proba(X).max(axis=-1)
        return result

    def impute(self, X: Any) -> FloatArray:
        """X with what is expected in every missing value, given the others."""
        images, model = self._asked(X)
        rows = self._rows(images)
        p = field_probabilities(model, self._points(), rows, self._seed)
        filled = imputed(self.posterior_, rows, p)
        return self._back(filled, images, np.nan).reshape(np.shape(X))

    def score_samples(self, X: Any) -> FloatArray:
        """log p(image | the posterior's mean), (N,), in nats; of large images by chains, within about a nat."""
        check_is_fitted(self, "posterior_")
        (images, _), here = self._asked(X), self.posterior_.mean
        models = [(one[None], self._model(one[None])) for one in images]
        return np.array([field_log_likelihood(m, here, self._rows(one), self._seed) for one, m in models])

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of ``score_samples``."""
        return float(np.mean(self.score_samples(X)))

    def sample(self, shape: tuple[int, int], random_state: int | None = None) -> tuple[FloatArray, IntArray]:
        """A new image of that shape and its labels, by one draw of the parameters."""
        check_is_fitted(self, "posterior_")
        rng = np.random.default_rng(self.random_state if random_state is None else random_state)
        here = self.posterior_.sample_predictive(1, rng)[0]
        law = potts_lattice([np.ones(shape, dtype=np.bool_)], int(self.n_labels), self.neighbours)
        y, labels = new_field(HiddenModel(law, self._fitted.emitted), here, rng)
        values = y.reshape(*shape, -1)
        return values if self.channels else values[:, :, 0], labels.reshape(shape)

    def plot(self, X: Any) -> Any:
        """A picture of one image (rows, columns): its values (of several channels their mean), its labels, and how far
        they are in doubt."""
        from bayesfield.plots.images import labels_and_doubt

        if len(self._sites(X)) != 2:
            raise InvalidInput(f"a picture is of one image, (rows, columns); got shape {np.shape(X)}")
        p = self.predict_proba(X)
        labels = np.where(np.isnan(p[..., 0]), np.nan, p.argmax(axis=-1))
        values = np.asarray(X, dtype=np.float64)
        shown = values.mean(axis=-1) if self.channels else values
        return labels_and_doubt(shown, labels, 1.0 - p.max(axis=-1))

    # --- images and their sites ---------------------------------------------------------------------------------

    @property
    def _fitted(self) -> HiddenModel:
        check_is_fitted(self, "posterior_")
        model: HiddenModel = self.posterior_.field  # type: ignore[assignment]
        return model

    @property
    def _seed(self) -> int:
        return int(np.random.default_rng(self.random_state).integers(2**31))

    def _points(self) -> FloatArray:
        check_is_fitted(self, "posterior_")
        return self.posterior_.sample_predictive(self.n_draws, self.random_state)

    def _asked(self, X: Any) -> tuple[FloatArray, HiddenModel]:
        check_is_fitted(self, "posterior_")
        images = _images(X, self.channels)
        if images.shape[3] != self._shape[3]:
            raise InvalidInput(f"the images learnt from have {self._shape[3]} channels, these have {images.shape[3]}")
        return images, self._model(images)

    def _sites(self, X: Any) -> tuple[int, ...]:
        shape: tuple[int, ...] = np.shape(X)
        return shape[:-1] if self.channels else shape

    def _model(self, images: FloatArray) -> HiddenModel:
        """The fitted one for these images."""
        fitted: HiddenModel = self._fitted
        if self._shape[:3] == images.shape[:3]:
            return fitted
        return HiddenModel(self._law(images), fitted.emitted)

    def _law(self, images: FloatArray) -> FieldLaw:
        return potts_lattice([self._inside(images)] * len(images), int(self.n_labels), self.neighbours)

    def _inside(self, images: FloatArray) -> BoolArray:
        if self.mask is None:
            return np.ones(images.shape[1:3], dtype=np.bool_)
        mask = np.asarray(self.mask)
        if mask.dtype.kind != "b" or mask.shape != images.shape[1:3] or not mask.any():
            raise InvalidInput(f"mask is True and False of the images' shape {images.shape[1:3]}, with some True")
        return mask

    def _rows(self, images: FloatArray) -> FloatArray:
        """The sites' values, (n, channels)."""
        return images[:, self._inside(images)].reshape(-1, images.shape[3])

    def _back(self, values: FloatArray, images: FloatArray, outside: float) -> FloatArray:
        """(n, …) as (N, rows, columns, …)."""
        result = np.full((*images.shape[:3], values.shape[1]), outside)
        result[:, self._inside(images)] = values.reshape(len(images), -1, values.shape[1])
        return result


def _images(X: Any, channels: bool) -> FloatArray:
    """(N, rows, columns, channels) of numbers."""
    try:
        values = np.asarray(as_table(X), dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("an image is an array of numbers, NaN where they are missing") from None
    own = values if channels else values[..., None]
    own = own[None] if own.ndim == 3 else own
    if own.ndim != 4 or min(own.shape) < 1 or own[0, :, :, 0].size < 2:
        wanted = "(rows, columns, channels) or several (N, rows, columns, channels)"
        if not channels:
            wanted = "(rows, columns) or several (N, rows, columns); channels=True is for several values a site"
        raise InvalidInput(f"X is one image {wanted}; got shape {values.shape}")
    return own
