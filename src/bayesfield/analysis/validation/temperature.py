"""The temperature of a CRF's predictions by cross-validation: how far to average over the posterior, if at all.

At a temperature T between 0 (the mode) and 1 (the posterior) predictions average over the power posterior
(posterior.tempered). A posterior that is right predicts best at T = 1; one of independent weights is not, where several
stand for the same thing, and a prior may be wrong. So T is chosen by the log loss of the averages themselves on what
was left out, with the mode among the candidates: averaging is never taken where it loses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfield.analysis.validation.folds import fold_of, label_loss
from bayesfield.correction.mean_field import settle
from bayesfield.fitting.graphs import fit_graphs
from bayesfield.fitting.plan import make_plan
from bayesfield.fitting.planning.request import request
from bayesfield.fitting.sequences import fit_sequences
from bayesfield.inference.by_name import as_engine
from bayesfield.learning.objective import GaussianPrior, Objective, gaussian
from bayesfield.learning.phases.chain import ChainPhase
from bayesfield.learning.phases.crf_design import compiled_graphs
from bayesfield.learning.phases.graphs import graph_objective
from bayesfield.learning.phases.sequences import sequence_objective
from bayesfield.learning.search.minimise import lbfgs
from bayesfield.model.conditional import CRF, Sequences, as_sequences
from bayesfield.model.graphs import Graphs, as_graphs
from bayesfield.model.prior import Normal, Prior, as_prior
from bayesfield.posterior.tempered import checked_temperature
from bayesfield.prediction.predict import predict
from bayesfield.types import BoolArray, FloatArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.inference.contract import Engine

TEMPERATURES = (0.0, 0.1, 0.25, 0.5, 1.0)
ALIKE = 2e-4  # nats a label: of temperatures as good as the best the warmest is taken
_LABELS = 60_000  # at most, of what is looked at: a temperature needs no more
_TOLERANCE, _ITERATIONS = 1e-3, 300  # of a mode, as when variances are chosen
_ROUNDS, _STEPS, _DRAWN = 2, 6, 5_000  # of means and widths at each temperature; positions in all draws together
_DRAWS = 50  # of posteriors that are not mean-field
_PAIRS = 4  # of draws of all weights of graphs, antithetic


@dataclass(frozen=True, eq=False)
class TemperatureChoice:
    """temperature: the warmest of those within 2e-4 nats of the best. candidates and log_loss: (T,) mean −log p of a
    label that was left out, averaged over the posterior at that temperature, in nats.

    variance: the best of variances, where there were several to choose from; log_loss is then (V, T).
    """

    temperature: float
    candidates: tuple[float, ...]
    log_loss: FloatArray
    variance: float | None = None
    variances: tuple[float, ...] = ()


def cross_validated_temperature(
    crf: CRF,
    X: Any,
    y: Sequence[Any] | None = None,
    prior: Prior | None = None,
    candidates: Sequence[float] = TEMPERATURES,
    folds: int = 4,
    *,
    variances: Sequence[float] | None = None,
    splits: int | None = None,
    Z: Sequence[Any] | None = None,
    engine: Engine | str = "auto",
    rng: np.random.Generator | int | None = 0,
) -> TemperatureChoice:
    """The temperature whose averaged predictions have the smallest log loss on what was left out.

    X, y, Z, prior: as in ``bf.fit_sequences``, or ``bf.fit_graphs``, with its engine. variances: in place of a prior,
    of all weights: the best is chosen together with the temperature, each fit begun where the last one ended. folds:
    parts of the data, each left out once; splits: how many of them are, by default all. Of a corpus some 60,000 labels
    are looked at. rng: which these are, and who is in which fold.
    """
    data = _data(crf, X, y, Z)
    tried = checked_candidates(candidates)
    if variances is not None:
        if prior is not None or not len(variances) or not all(v > 0 for v in variances):
            raise InvalidInput(f"give a prior, or candidate variances above zero; got {prior!r} and {variances!r}")
        wide = tuple(sorted(float(v) for v in variances))
        both = averaged_losses(crf, data, [Normal(variance=v) for v in wide], tried, folds, splits, rng, engine)
        best = int(np.argmin(both.min(axis=1)))
        return TemperatureChoice(warmest(tried, both[best]), tried, both, wide[best], wide)
    stated = as_prior(prior)
    if stated.learned(crf) or stated.tails(crf) is not None:
        raise InvalidInput("a temperature goes with a prior of fixed variances: take posterior.prior, after a fit")
    losses = averaged_losses(crf, data, [stated], tried, folds, splits, rng, engine)[0]
    return TemperatureChoice(warmest(tried, losses), tried, losses)


def warmest(tried: tuple[float, ...], losses: FloatArray) -> float:
    """Of those as good as the best."""
    return tried[int(np.flatnonzero(losses <= losses.min() + ALIKE)[-1])]


def checked_candidates(candidates: Sequence[float]) -> tuple[float, ...]:
    """In ascending order."""
    if not len(candidates):
        raise InvalidInput(f"candidates are temperatures from 0 to 1, such as {TEMPERATURES}; got {candidates!r}")
    return tuple(sorted({checked_temperature(t) for t in candidates}))


def _data(crf: CRF, X: Any, y: Sequence[Any] | None, Z: Sequence[Any] | None) -> Sequences | Graphs:
    if isinstance(X, Sequences | Graphs):
        return X
    graphs = isinstance(X, Sequence) and len(X) > 0 and isinstance(X[0], tuple)
    return as_graphs(crf, X, y) if graphs else as_sequences(crf, X, y, Z)


def averaged_losses(
    crf: CRF,
    data: Sequences | Graphs,
    priors: Sequence[Prior],
    temperatures: tuple[float, ...],
    folds: int,
    splits: int | None,
    rng: np.random.Generator | int | None,
    engine: Engine | str = "auto",
) -> FloatArray:
    """Mean −log p of the labels left out, under each prior at each temperature, (V, T)."""
    generator = np.random.default_rng(rng)
    labels = None if data.labels is None else data.labels >= 0
    if labels is None or not labels.any() or len(data) < 2 or folds < 2:
        raise InvalidInput("cross-validation needs at least two labelled sequences or graphs, and two folds")
    if splits is not None and not 1 <= splits <= folds:
        raise InvalidInput(f"splits goes from 1 to the number of folds, {folds}; got {splits!r}")
    data = _fewer(data, generator)
    fold = generator.permutation(np.arange(len(data)) % min(folds, len(data)))
    seed, total, count = int(generator.integers(2**31)), np.zeros((len(priors), len(temperatures))), 0
    losses = partial(_by_bound if _mean_field(crf, data, priors[0], engine) else _by_posteriors, engine=engine)
    for k in range(min(fold.max() + 1, splits or folds)):
        test = data.chosen(fold == k)
        assert test.labels is not None
        total += losses(crf, data.chosen(fold != k), test, priors, temperatures, seed)
        count += int((test.labels >= 0).sum())
    result: FloatArray = total / max(count, 1)
    return result


def _by_bound(
    crf: CRF,
    data: Any,
    test: Any,
    priors: Sequence[Prior],
    temperatures: tuple[float, ...],
    seed: int,
    engine: Engine | str,
) -> FloatArray:
    """Σ −log p under mean-field posteriors, each begun where the last one ended."""
    total = np.zeros((len(priors), len(temperatures)))
    held: _Held = (
        _HeldGraphs(crf, data, test, as_engine(engine)) if isinstance(data, Graphs) else _Held(crf, data, test)
    )
    start = np.zeros(held.crf.n_parameters)
    for row, prior in zip(total, priors, strict=True):
        objective = held.objective(gaussian(prior, crf))
        point = lbfgs(objective, start, _TOLERANCE, _ITERATIONS).point
        start = mean = point.parameters
        curvature = objective.variances(point)
        for k, T in enumerate(temperatures):
            if T == 0.0:
                marginal = held.marginals(mean)
            else:
                q = settle(objective, mean, curvature, seed, T, _ROUNDS, _STEPS, _DRAWN)
                if q is None:
                    row[k:] = np.inf
                    break
                mean, curvature = q.mean, q.curvature
                marginal = held.averaged(mean, np.sqrt(T / curvature), seed)
            row[k] = label_loss(crf, test.labels, marginal)
    return total


class _Held:
    """Sequences to fit, of the weights that these show, and sequences left out. Marginals of the latter, (P, K)."""

    def __init__(self, crf: CRF, data: Any, test: Any) -> None:
        self.data, self._fold = data, fold_of(crf, data)
        self.crf = self._fold.crf
        self._test = ChainPhase(self.crf, test)

    def objective(self, prior: GaussianPrior) -> Objective:
        return sequence_objective(self.crf, self.data, self._fold.prior(prior))

    def marginals(self, parameters: FloatArray) -> FloatArray:
        return self._test.marginals(parameters).marginal

    def averaged(self, mean: FloatArray, sd: FloatArray, seed: int) -> FloatArray:
        """Over independent normal weights."""
        shown = np.where(self._fold.shown, sd, 0.0)
        result: FloatArray = self._test.noisy(shown, seed, _DRAWN).marginals(mean)
        return result


class _HeldGraphs(_Held):
    """The same of graphs, whose weights are drawn, in antithetic pairs."""

    def __init__(self, crf: CRF, data: Any, test: Any, engine: Engine) -> None:
        self.crf, self.data, self._engine = crf, data, engine
        self._field, self._shape = compiled_graphs(crf, test), (test.nodes, len(crf.labels))

    def objective(self, prior: GaussianPrior) -> Objective:
        return graph_objective(self.crf, self.data, prior, self._engine)

    def marginals(self, parameters: FloatArray) -> FloatArray:
        tables = self._engine.infer(self._field.graph, self._field.design.potentials(parameters)).tables
        nodes, K = self._shape
        result: FloatArray = tables[: nodes * K].reshape(nodes, K)
        return result

    def averaged(self, mean: FloatArray, sd: FloatArray, seed: int) -> FloatArray:
        noise = sd * np.random.default_rng(seed).standard_normal((_PAIRS, len(sd)))
        each = [self.marginals(mean + sign * e) for e in noise for sign in (1.0, -1.0)]
        result: FloatArray = np.mean(each, axis=0)
        return result


def _by_posteriors(
    crf: CRF,
    data: Any,
    test: Any,
    priors: Sequence[Prior],
    temperatures: tuple[float, ...],
    seed: int,
    engine: Engine | str,
) -> FloatArray:
    """The same under posteriors of any form, of sequences or of graphs."""
    total = np.zeros((len(priors), len(temperatures)))
    fold = fold_of(crf, data) if isinstance(data, Sequences) else None
    unlabelled = replace(test, labels=None, allowed=None) if fold is None else fold.known(test)
    graphs: dict[str, Any] = {"engine": engine} if fold is None else {}
    for row, prior in zip(total, priors, strict=True):
        if fold is None:
            posterior = fit_graphs(crf, data, prior=prior, rng=seed, verbose=False, engine=engine)
        else:
            posterior = fit_sequences(fold.crf, data, prior=fold.stated(prior, crf), rng=seed, verbose=False)
        for k, T in enumerate(temperatures):
            cold = posterior.at_temperature(T)
            found = predict(cold, unlabelled, predictor="marginal", n_draws=_DRAWS, rng=seed, **graphs)
            known = np.flatnonzero(test.labels >= 0)
            right = found.probabilities[known, test.labels[known]]
            row[k] = -np.log(np.maximum(right, 1e-300)).sum()
    return total


def _mean_field(crf: CRF, data: Sequences | Graphs, prior: Prior, engine: Engine | str) -> bool:
    """Whether a fit would take that form, and potentials of sequences can be drawn."""
    own = gaussian(prior, crf)
    if isinstance(data, Graphs):
        asked = request(prior, engine)
        return make_plan(graph_objective(crf, data, own, asked.engine), asked).plan.form == "mean-field"
    objective = sequence_objective(crf, data, own)
    return objective.free.draws_potentials and make_plan(objective, request(prior)).plan.form == "mean-field"


def _fewer(data: Any, rng: np.random.Generator) -> Any:
    """Some of the sequences, where they have more labels than needed."""
    share = _LABELS / max(len(data.labels), 1)
    if share >= 1.0:
        return data
    which: BoolArray = np.zeros(len(data), dtype=np.bool_)
    which[rng.permutation(len(data))[: max(int(share * len(data)), 2)]] = True
    return data.chosen(which)
