"""The prior variance of a chain CRF by cross-validation: the one whose modes label sequences left out best."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesfield.inference.trees.chain import chain_marginals
from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.learning.phases.chain import potentials
from bayesfield.learning.phases.hidden_chain import sequence_objective
from bayesfield.learning.search.minimise import lbfgs
from bayesfield.model.conditional import CRF, Sequences, as_sequences
from bayesfield.model.prior import Normal
from bayesfield.types import FloatArray, InvalidInput

VARIANCES = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 2.0, 3.0, 10.0)
_TOLERANCE = 1e-3  # of a mode, in posterior sd: what is left of it does not show in a score
_ITERATIONS = 300


@dataclass(frozen=True, eq=False)
class VarianceChoice:
    """variance: the best. candidates and log_loss: (V,) mean −log p of a label left out, in nats."""

    variance: float
    candidates: tuple[float, ...]
    log_loss: FloatArray


def cross_validated_variance(
    crf: CRF,
    X: Sequence[Any] | Sequences,
    y: Sequence[Any] | None = None,
    candidates: Sequence[float] = VARIANCES,
    folds: int = 5,
    *,
    Z: Sequence[Any] | None = None,
    rng: np.random.Generator | int | None = 0,
) -> VarianceChoice:
    """The prior variance whose modes have the smallest log loss on sequences left out.

    X, y, Z: as in ``bf.fit_sequences``. candidates: to try; each starts from the mode of the one before. folds: parts
    of the data, each left out once; rng: who is in which.
    """
    data = X if isinstance(X, Sequences) else as_sequences(crf, X, y, Z)
    if data.labels is None or len(data) < 2 or folds < 2:
        raise InvalidInput("cross-validation needs at least two labelled sequences and two folds")
    if not candidates or not all(v > 0 for v in candidates):
        raise InvalidInput(f"candidate variances are above zero; got {list(candidates)}")
    tried = tuple(sorted(float(v) for v in candidates))
    fold = np.arange(len(data)) % min(folds, len(data))
    fold = np.random.default_rng(rng).permutation(fold)
    losses = np.zeros(len(tried))
    for k in range(fold.max() + 1):
        train, test = data.chosen(fold != k), data.chosen(fold == k)
        start = np.zeros(crf.n_parameters)
        for v, variance in enumerate(tried):
            objective = sequence_objective(crf, train, Normal(variance=variance))
            start = lbfgs(objective, start, _TOLERANCE, _ITERATIONS, None).parameters
            losses[v] += _loss(crf, test, start)
    mean = losses / max(int((data.labels >= 0).sum()), 1)
    return VarianceChoice(tried[int(np.argmin(mean))], tried, mean)


def _loss(crf: CRF, test: Sequences, parameters: FloatArray) -> float:
    found = chain_marginals(ChainArrays(test.ptr, test.which), *potentials(crf, test, parameters))
    assert test.labels is not None
    known = np.flatnonzero(test.labels >= 0)
    right = np.sum(found.marginal[known] * (crf.owner == test.labels[known][:, None]), axis=1)
    return float(-np.log(np.maximum(right, 1e-300)).sum())
