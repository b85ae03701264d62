"""What to label next: which sequences of a pool would teach a conditional field the most.

*unsettled*: the mutual information between a label and the weights, H(E_λ[p(y_t | x, λ)]) − E_λ[H(p(y_t | x, λ))]: what
more training data would settle, without what they leave open (Houlsby et al. 2011, "BALD"). *entropy*: the first
term, both together. *least_confidence*: 1 − p(y* | x), y* the best labelling, at the mode (Culotta & McCallum 2005).
*diverse*: unsettled, taken greedily, each sequence discounted by how much its inputs are like those chosen before it,
so that a batch does not ask the same thing twice.

Labels cost by the position, so that scores are by the position too: the mean over a sequence, and 1 − p(y* | x)^(1/T).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from scipy import sparse

from bayesfield.inference.trees.chain import best_labellings
from bayesfield.learning.phases.chain import ChainPhase
from bayesfield.model.conditional import Sequences, as_sequences
from bayesfield.prediction.chain import predict_sequences
from bayesfield.prediction.tally import checked
from bayesfield.types import FloatArray, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.posterior.posterior import Posterior

Strategy = Literal["unsettled", "entropy", "least_confidence", "diverse"]
STRATEGIES = ("unsettled", "entropy", "least_confidence", "diverse")


def query(
    posterior: Posterior,
    X: Sequence[Any] | Sequences,
    n: int = 10,
    strategy: Strategy = "unsettled",
    *,
    per: Literal["position", "sequence"] = "position",
    n_draws: int = 100,
    rng: np.random.Generator | int | None = 0,
) -> IntArray:
    """The numbers of the n sequences of a pool X to label next, the most telling first; all of a smaller pool.

    X: as in ``bf.fit_sequences``. strategy: "unsettled", "entropy", "least_confidence" or "diverse" (analysis.query).
    per: "position" for scores by the position, since labels cost by the position; "sequence" for sums, which prefer
    long sequences. n_draws: of the weights.
    """
    if strategy not in STRATEGIES:
        raise InvalidInput(f"strategy is one of {', '.join(STRATEGIES)}; got {strategy!r}")
    if not isinstance(n, int | np.integer) or n < 1:
        raise InvalidInput(f"n is how many sequences to choose, 1 or more; got {n!r}")
    data = _pool(posterior, X)
    scores = query_scores(posterior, data, per=per, n_draws=n_draws, rng=rng)
    column = "unsettled" if strategy == "diverse" else strategy
    worth, lengths = scores[column].to_numpy(), scores["positions"].to_numpy()
    if strategy == "diverse":
        return greedy(worth, _directions(data), min(int(n), int((lengths > 0).sum())))
    order = np.argsort(-worth, kind="stable")
    result: IntArray = order[lengths[order] > 0][:n]
    return result


def query_scores(
    posterior: Posterior,
    X: Sequence[Any] | Sequences,
    *,
    per: Literal["position", "sequence"] = "position",
    n_draws: int = 100,
    rng: np.random.Generator | int | None = 0,
) -> pd.DataFrame:
    """A row for each sequence of a pool: positions, and what each strategy goes by. The rest as in ``bf.query``."""
    if per not in ("position", "sequence"):
        raise InvalidInput(f'per is "position" or "sequence"; got {per!r}')
    data = _pool(posterior, X)
    found = predict_sequences(posterior, data, "marginal", n_draws, rng)
    lengths = np.diff(data.ptr)
    share = 1.0 / np.maximum(lengths, 1) if per == "position" else np.ones(len(lengths))
    return pd.DataFrame(
        {
            "positions": lengths,
            "unsettled": share * _sums(found.unsettled, data),
            "entropy": share * _sums(found.entropy, data),
            "least_confidence": -np.expm1(share * _best_log_p(posterior, data)),
        },
        index=pd.RangeIndex(len(data), name="sequence"),
    )


def greedy(worth: FloatArray, directions: Any, n: int) -> IntArray:
    """n rows, each the one with the largest worth × (1 − its largest cosine with a row chosen before). directions:
    (S, D) sparse, of length one; rows of zeros are like nothing, and come where their worth is."""
    left, nearest = np.where(np.diff(directions.indptr) >= 0, worth, -np.inf), np.zeros(len(worth))
    chosen: list[int] = []
    for _ in range(n):
        best = int(np.argmax(np.where(np.isfinite(left), worth * (1.0 - nearest), -np.inf)))
        chosen.append(best)
        left[best] = -np.inf
        cosines = np.asarray((directions @ directions[[best]].T).todense()).ravel()
        nearest = np.maximum(nearest, np.clip(cosines, 0.0, 1.0))
    return np.array(chosen, dtype=np.int64)


def _pool(posterior: Posterior, X: Any) -> Sequences:
    crf: Any = checked(posterior, "marginal", 1).field
    if isinstance(X, Sequences):
        return X
    if len(X) and isinstance(X[0], tuple):
        raise InvalidInput("what to label next is asked of sequences, not of graphs")
    return as_sequences(crf, X)


def _sums(each: FloatArray, data: Sequences) -> FloatArray:
    """Over the positions of every sequence."""
    total = np.concatenate([[0.0], np.cumsum(each)])
    result: FloatArray = total[data.ptr[1:]] - total[data.ptr[:-1]]
    return result


def _best_log_p(posterior: Posterior, data: Sequences) -> FloatArray:
    """log p(y* | x) of every sequence's best labelling, at the mode, (S,)."""
    crf: Any = posterior.field
    phase = ChainPhase(crf, data)
    node, edge = phase.potentials(posterior.mode)
    scores = best_labellings(phase.chains, node, edge)[1][:, 0]
    log_z = phase.marginals(posterior.mode).log_z
    if not np.isfinite(log_z).all():
        raise InvalidInput("the weights are so large that log Z is lost: take a narrower prior")
    return np.minimum(np.where(np.diff(data.ptr) > 0, scores - log_z, 0.0), 0.0)


def _directions(data: Sequences) -> Any:
    """The inputs of every sequence summed over its positions, each by how rare it is in the pool, of length one."""
    S, P = len(data), data.positions
    owner = sparse.csr_array((np.ones(P), np.arange(P), data.ptr), shape=(S, P))
    sums = sparse.csr_array(owner @ abs(data.inputs))
    often = np.bincount(sums.indices, minlength=sums.shape[1])
    rare = sparse.csr_array(sums * np.log(max(S, 1) / np.maximum(often, 1.0))[None, :])
    length = np.sqrt(np.asarray(rare.power(2).sum(axis=1)).ravel())
    return sparse.csr_array(sparse.diags_array(1.0 / np.maximum(length, 1e-300)) @ rare)
