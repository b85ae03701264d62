"""The prior variance by cross-validation: the one whose modes predict best what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bayesfield.analysis.folds import Fold, fold_of, label_loss
from bayesfield.graph.compiled import CompiledField, compiled
from bayesfield.inference.by_name import as_engine
from bayesfield.learning.objective import GaussianPrior, Objective
from bayesfield.learning.phases.cases import case_objective
from bayesfield.learning.phases.chain import ChainPhase
from bayesfield.learning.phases.crf_design import compiled_graphs
from bayesfield.learning.phases.graphs import graph_objective
from bayesfield.learning.phases.sequences import sequence_objective
from bayesfield.learning.search.minimise import lbfgs
from bayesfield.model.conditional import CRF, Sequences, as_sequences
from bayesfield.model.field import RandomField
from bayesfield.model.graphs import Graphs, as_graphs
from bayesfield.types import BoolArray, FloatArray, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.inference.contract import Engine

VARIANCES = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 2.0, 3.0, 10.0)
_TOLERANCE = 1e-3  # of a mode, in posterior sd: what is left of it does not show in a score
_ITERATIONS = 300


@dataclass(frozen=True, eq=False)
class VarianceChoice:
    """variance: the best. candidates and log_loss: (V,) mean −log p of a label, or a cell, left out, in nats."""

    variance: float
    candidates: tuple[float, ...]
    log_loss: FloatArray


def cross_validated_variance(
    model: CRF | RandomField,
    X: Any,
    y: Sequence[Any] | None = None,
    candidates: Sequence[float] = VARIANCES,
    folds: int = 5,
    *,
    Z: Sequence[Any] | None = None,
    engine: Engine | str = "auto",
    rng: np.random.Generator | int | None = 0,
) -> VarianceChoice:
    """The prior variance whose modes have the smallest log loss on what was left out.

    X, y, Z: as in ``bf.fit``, ``bf.fit_sequences`` or ``bf.fit_graphs``. candidates: to try; each starts from the mode
    of the one before. folds: parts of the data, each left out once; rng: who is in which. engine: of fields and graphs.
    ``bf.cross_validated_temperature`` chooses it by averaged predictions, together with their temperature.
    """
    if not candidates or not all(v > 0 for v in candidates):
        raise InvalidInput(f"candidate variances are above zero; got {list(candidates)}")
    tried = tuple(sorted(float(v) for v in candidates))
    parts = _parts(model, X, y, Z, as_engine(engine))
    if not parts.known() or parts.count < 2 or folds < 2:
        raise InvalidInput("cross-validation needs at least two labelled sequences, graphs or cases, and two folds")
    fold = np.arange(parts.count) % min(folds, parts.count)
    fold = np.random.default_rng(rng).permutation(fold)
    losses, size = np.zeros(len(tried)), model.n_parameters
    for k in range(fold.max() + 1):
        start: FloatArray | None = None
        for v, variance in enumerate(tried):
            objective = parts.objective(fold != k, GaussianPrior(np.zeros(size), np.full(size, 1.0 / variance)))
            begin = objective.prior.location if start is None else start
            start = lbfgs(objective, begin, _TOLERANCE, _ITERATIONS).parameters
            losses[v] += parts.loss(fold == k, start)
    mean = losses / max(parts.known(), 1)
    return VarianceChoice(tried[int(np.argmin(mean))], tried, mean)


class _Parts(Protocol):
    """Data that falls into parts, each of which can be left out."""

    count: int

    def known(self) -> int:
        """How many labels or cells are known."""
        ...

    def objective(self, which: BoolArray, prior: GaussianPrior) -> Objective:
        """prior: of all parameters of the whole model."""
        ...

    def loss(self, which: BoolArray, parameters: FloatArray) -> float:
        """Σ −log p of what is known there."""
        ...


def _parts(model: Any, X: Any, y: Any, Z: Any, engine: Engine) -> _Parts:
    if isinstance(model, RandomField):
        return _Cases(compiled(model), model.encode(X, holes=True), engine)
    if isinstance(X, Graphs) or (isinstance(X, Sequence) and len(X) and isinstance(X[0], tuple)):
        return _Graphs(model, X if isinstance(X, Graphs) else as_graphs(model, X, y), engine)
    return _Sequences(model, X if isinstance(X, Sequences) else as_sequences(model, X, y, Z))


class _Sequences:
    """Each fold has a model of its own where weights are those that were seen: parameters are that model's."""

    def __init__(self, crf: CRF, data: Sequences) -> None:
        self.crf, self.data, self.count = crf, data, len(data)
        self._fold: tuple[BoolArray, Fold] | None = None

    def known(self) -> int:
        return 0 if self.data.labels is None else int((self.data.labels >= 0).sum())

    def objective(self, which: BoolArray, prior: GaussianPrior) -> Objective:
        fold = self._of(which)
        return sequence_objective(fold.crf, self.data.chosen(which), fold.prior(prior))

    def loss(self, which: BoolArray, parameters: FloatArray) -> float:
        test, crf = self.data.chosen(which), self._of(~which).crf
        return label_loss(crf, test.labels, ChainPhase(crf, test).marginals(parameters).marginal)

    def _of(self, which: BoolArray) -> Fold:
        if self._fold is None or not np.array_equal(self._fold[0], which):
            self._fold = which, fold_of(self.crf, self.data.chosen(which))
        return self._fold[1]


class _Graphs:
    def __init__(self, crf: CRF, data: Graphs, engine: Engine) -> None:
        self.crf, self.data, self.count, self.engine = crf, data, len(data), engine

    def known(self) -> int:
        return 0 if self.data.labels is None else int((self.data.labels >= 0).sum())

    def objective(self, which: BoolArray, prior: GaussianPrior) -> Objective:
        return graph_objective(self.crf, self.data.chosen(which), prior, self.engine)

    def loss(self, which: BoolArray, parameters: FloatArray) -> float:
        test = self.data.chosen(which)
        field, K = compiled_graphs(self.crf, test), len(self.crf.labels)
        tables = self.engine.infer(field.graph, field.design.potentials(parameters)).tables
        return label_loss(self.crf, test.labels, tables[: test.nodes * K].reshape(test.nodes, K))


class _Cases:
    def __init__(self, field: CompiledField, codes: IntArray, engine: Engine) -> None:
        self.field, self.codes, self.count, self.engine = field, codes, len(codes), engine

    def known(self) -> int:
        return int((self.codes >= 0).sum())

    def objective(self, which: BoolArray, prior: GaussianPrior) -> Objective:
        return case_objective(self.field, self.codes[which], prior, self.engine)

    def loss(self, which: BoolArray, parameters: FloatArray) -> float:
        size = len(parameters)
        test = self.objective(which, GaussianPrior(np.zeros(size), np.ones(size)))
        return -test.log_likelihood(test.at(parameters))
