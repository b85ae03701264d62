"""What to label next: which sequences of a pool would teach a conditional field the most.

*unsettled*: the mutual information between a label and the weights, H(E_λ[p(y_t | x, λ)]) − E_λ[H(p(y_t | x, λ))]: what
more training data would settle, without what they leave open (Houlsby et al. 2011, "BALD"). *entropy*: the first
term, both together. *least_confidence*: 1 − p(y* | x), y* the best labelling, at the mode (Culotta & McCallum 2005).
*diverse*: unsettled, taken greedily, each sequence discounted by how much its inputs are like those chosen before it,
so that a batch does not ask the same thing twice.

*reduction* asks what labels are good for: how much narrower they would make the log-potentials of the whole pool, with
independent weights of variance v_dk. Position t has Σ_d x_td² v_dk q_tk of that variance, q_tk = p_tk (1 − p_tk)
where a label is still open, so that weight (d, k) counts M_dk = Σ_t x_td² q_tk times. A label at t adds x_td² q_tk to
its precision and takes M_dk v_dk² x_td² q_tk off. Chosen greedily, with the variances that the sequences chosen before
would leave: rare words that come once are worth little, and the same thing is not asked twice. Weights that the model
has not (of inputs that are new, of labels that an input was never seen with) are as wide as its widest. On a chunking
corpus it needs the fewest labels early, and about as few as *unsettled* later (python -m benchmarks.active).

All speak of the posterior itself, whatever the temperature of its predictions. Labels cost by the position, so that
scores are by the position too: the mean over a sequence, and 1 − p(y* | x)^(1/T).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from bayesfield.fitting.growth import input_places
from bayesfield.inference.trees.chain import best_labellings
from bayesfield.learning.phases.chain import ChainPhase
from bayesfield.model.conditional import CRF, Sequences, as_sequences
from bayesfield.prediction.chain import predict_sequences
from bayesfield.prediction.tally import checked
from bayesfield.types import FloatArray, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.posterior.posterior import Posterior
    from bayesfield.prediction.tally import Prediction

Strategy = Literal["reduction", "unsettled", "entropy", "least_confidence", "diverse"]
STRATEGIES = ("reduction", "unsettled", "entropy", "least_confidence", "diverse")


def query(
    posterior: Posterior,
    X: Sequence[Any] | Sequences,
    n: int = 10,
    strategy: Strategy = "reduction",
    *,
    crf: CRF | None = None,
    per: Literal["position", "sequence"] = "position",
    n_draws: int = 100,
    rng: np.random.Generator | int | None = 0,
) -> IntArray:
    """The numbers of the n sequences of a pool X to label next, the most telling first; all of a smaller pool.

    X: as in ``bf.fit_sequences``. strategy: "reduction", "unsettled", "entropy", "least_confidence" or "diverse"
    (analysis.query). crf: the model that X is of, where it has inputs that the posterior's has not. per: "position" for
    scores by the position, since labels cost by the position; "sequence" for sums, which prefer long sequences.
    n_draws: of the weights.
    """
    if strategy not in STRATEGIES:
        raise InvalidInput(f"strategy is one of {', '.join(STRATEGIES)}; got {strategy!r}")
    if not isinstance(n, int | np.integer) or n < 1:
        raise InvalidInput(f"n is how many sequences to choose, 1 or more; got {n!r}")
    posterior, pool = posterior.at_temperature(1.0), _pool(posterior, X, crf, per)
    found = predict_sequences(posterior, pool.known, "marginal", n_draws, rng)
    count = min(int(n), int((pool.lengths > 0).sum()))
    if strategy == "reduction":
        return _Reduction(posterior, pool, found).chosen(count)
    if strategy == "diverse":
        return greedy(pool.share * _sums(found.unsettled, pool.known), _directions(pool.whole), count)
    worth = _worth(posterior, pool, found, strategy)
    order = np.argsort(-worth, kind="stable")
    result: IntArray = order[pool.lengths[order] > 0][:count]
    return result


def query_scores(
    posterior: Posterior,
    X: Sequence[Any] | Sequences,
    *,
    crf: CRF | None = None,
    per: Literal["position", "sequence"] = "position",
    n_draws: int = 100,
    rng: np.random.Generator | int | None = 0,
) -> pd.DataFrame:
    """A row for each sequence of a pool: positions, and what each strategy goes by; of "reduction" for the first that
    is chosen. The rest as in ``bf.query``."""
    posterior, pool = posterior.at_temperature(1.0), _pool(posterior, X, crf, per)
    found = predict_sequences(posterior, pool.known, "marginal", n_draws, rng)
    columns: dict[str, Any] = {"positions": pool.lengths}
    if posterior.field.labels == posterior.field.visible:  # type: ignore[attr-defined]
        columns["reduction"] = _Reduction(posterior, pool, found).scores()
    for strategy in ("unsettled", "entropy", "least_confidence"):
        columns[strategy] = _worth(posterior, pool, found, strategy)
    return pd.DataFrame(columns, index=pd.RangeIndex(len(pool.known), name="sequence"))


class _Pool(NamedTuple):
    """whole: the sequences with all of their inputs, of model crf; known: with the posterior's. lengths: (S,); share:
    (S,) what a sum over positions is multiplied by."""

    crf: CRF
    whole: Sequences
    known: Sequences
    lengths: IntArray
    share: FloatArray


class _Reduction:
    """The pool's variance that labels take off, sequence by sequence.

    squares: x², (P, D). open: q, (P, G), how far each table of labels is open. weight: M, (D, G). variance: v, (D, G),
    with what has been chosen.
    """

    def __init__(self, posterior: Posterior, pool: _Pool, found: Prediction) -> None:
        old: Any = posterior.field
        if old.labels != old.visible:
            raise InvalidInput('"reduction" is for models without latent states: take "unsettled"')
        p, B = found.probabilities, old.node_tables
        self.pool = pool
        self.squares = pool.whole.squared.inputs
        self.open = p * (1.0 - p) if old.plain_nodes else p @ (B**2).T - (p @ B.T) ** 2
        self.weight = np.asarray(self.squares.T @ self.open)
        self.variance = np.full(self.weight.shape, float(posterior.sd.max()) ** 2)
        there = old.split(np.ones(old.n_parameters))[0] > 0.0
        at = input_places(pool.crf, old)
        self.variance[at] = np.where(there, old.split(posterior.sd**2)[0], self.variance[at])

    def scores(self) -> FloatArray:
        """Of each sequence alone, (S,)."""
        each = np.sum(self.open * (self.squares @ (self.weight * self.variance**2)), axis=1)
        return self.pool.share * _sums(each, self.pool.whole)

    def chosen(self, n: int) -> IntArray:
        """n sequences, greedily. Variances only shrink, and so do scores: one that was computed before is a bound, and
        only those that lead are computed anew."""
        leading = [(-score, k) for k, score in enumerate(self.scores().tolist()) if self.pool.lengths[k]]
        heapq.heapify(leading)
        result: list[int] = []
        while len(result) < n:
            _, k = heapq.heappop(leading)
            now = -self._score(k)
            if leading and now > leading[0][0]:
                heapq.heappush(leading, (now, k))
                continue
            result.append(k)
            inputs, precision = self._told(k)
            v = self.variance[inputs]
            self.variance[inputs] = v / (1.0 + v * precision)
        return np.array(result, dtype=np.int64)

    def _score(self, k: int) -> float:
        inputs, precision = self._told(k)
        gain = self.weight[inputs] * self.variance[inputs] ** 2
        return float(self.pool.share[k] * np.sum(gain * precision))

    def _told(self, k: int) -> tuple[IntArray, FloatArray]:
        """The inputs of a sequence, and what its labels would add to the precision of their weights."""
        first, last = self.pool.whole.ptr[k], self.pool.whole.ptr[k + 1]
        rows = self.squares[first:last]
        inputs, column = np.unique(rows.indices, return_inverse=True)
        narrow = sparse.csr_array((rows.data, column, rows.indptr), shape=(last - first, len(inputs)))
        return inputs, np.asarray(narrow.T @ self.open[first:last])


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


def _pool(posterior: Posterior, X: Any, crf: CRF | None, per: str) -> _Pool:
    old: Any = checked(posterior, "marginal", 1).field
    if per not in ("position", "sequence"):
        raise InvalidInput(f'per is "position" or "sequence"; got {per!r}')
    model = old if crf is None else crf
    if model.visible != old.visible:
        raise InvalidInput(f"crf has the labels {list(model.visible)[:12]}, and the posterior {list(old.visible)[:12]}")
    if not isinstance(X, Sequences):
        if len(X) and isinstance(X[0], tuple):
            raise InvalidInput("what to label next is asked of sequences, not of graphs")
        X = as_sequences(model, X)
    known = X if model.inputs == old.inputs else replace(X, inputs=X.inputs[:, input_places(model, old)])
    lengths = np.diff(X.ptr)
    share = 1.0 / np.maximum(lengths, 1) if per == "position" else np.ones(len(lengths))
    return _Pool(model, X, known, lengths, share)


def _worth(posterior: Posterior, pool: _Pool, found: Prediction, strategy: str) -> FloatArray:
    """Of every sequence by itself, (S,)."""
    if strategy == "least_confidence":
        result: FloatArray = -np.expm1(pool.share * _best_log_p(posterior, pool.known))
        return result
    return pool.share * _sums(found.unsettled if strategy == "unsettled" else found.entropy, pool.known)


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
