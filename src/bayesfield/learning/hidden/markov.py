"""Hidden Markov chains with emissions: log p(y|λ) by forward and backward passes, with its observed information.

The law of the labels is normalised for every λ, so that there is no free phase: the objective is −log Z of the clamped
one, the tables of which depend on λ in their own way. With s = Σ_tables ∂θ of a labelling

    ∇ log Z = E[s],    ∇² log Z = Cov(s) + E[∂s]                                           (Louis 1982)

both over labellings given y. Cov(s) comes from how marginals move along the directions ∂θ/∂λ_r.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from bayesfield.inference.contract import Engine, Price, Traits
from bayesfield.inference.trees.chain import ChainMarginals, SharedMeans, chain_tangent, shared_marginals, shared_means
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.learning.phases.base import Answer, Answers, Phase
from bayesfield.model.emissions.emitted import Views
from bayesfield.model.emissions.hidden import HiddenModel
from bayesfield.model.emissions.laws import MarkovChain
from bayesfield.response.base import MatrixResponse, Response
from bayesfield.types import FloatArray, IntArray, Outcome, Status

_EXACT = Status(Outcome.EXACT)
# In the directions of all positions that are carried at a time: 20 directions of 10⁵ positions and 4 labels take 0.23 s
# all at once, and 0.14 s five at a time
_NUMBERS = 2_000_000


class Expected(NamedTuple):
    """Expected sufficient statistics given y: starts (K,), moves (K, K), labels (n, K)."""

    first: FloatArray
    moves: FloatArray
    labels: FloatArray


@dataclass(frozen=True, eq=False)
class MarkovPhase(Phase):
    """w log Σ_z p(y, z|λ). ptr: (S + 1,) where sequences begin and end."""

    model: HiddenModel
    views: Views
    ptr: IntArray
    weight: float = -1.0

    @property
    def law(self) -> MarkovChain:
        assert isinstance(self.model.law, MarkovChain)
        return self.model.law

    @property
    def engine(self) -> Engine:
        """What stands in records for passes along chains: they are exact."""
        return Exact()

    @property
    def traits(self) -> Traits:
        return Traits(exact=True)

    @property
    def contrasts(self) -> bool:
        return True

    @property
    def cases(self) -> float:
        return float(len(self.ptr) - 1)

    def choose(self, engine: Any) -> tuple[Engine, str]:
        return self.engine, f"exact inference was chosen: {len(self.ptr) - 1:,} chains of {self.ptr[-1]:,} labels"

    def price(self, size: int) -> Price:
        K, n = self.law.labels, float(self.ptr[-1])
        return Price(5e-4 + n * (1e-9 * K * K + 2.5e-8 * K), 1e-3 + 1.5e-9 * n * K * (K + 3) * size)

    def bytes(self) -> float:
        return 8.0 * float(self.ptr[-1]) * self.law.labels * 10 + 3 * 8.0 * _NUMBERS

    @cached_property
    def chains(self) -> ChainArrays:
        return ChainArrays(self.ptr, np.zeros(int(self.ptr[-1]), dtype=np.int64))

    def tables(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log-potentials of the labels (n, K), the starts' among them, and of the moves (K, K)."""
        law, eta = self.model.split(parameters)
        first, moves = self.law.tables(law)
        node = self.views.tables(eta)
        node[self.ptr[:-1]] += first
        return node, moves

    def marginals(self, parameters: FloatArray) -> ChainMarginals:
        node, moves = self.tables(parameters)
        return shared_marginals(self.ptr, node, moves)

    def means(self, parameters: FloatArray) -> SharedMeans:
        """``marginals`` without messages."""
        node, moves = self.tables(parameters)
        return shared_means(self.ptr, node, moves)

    def log_predictive(self, parameters: FloatArray) -> FloatArray:
        """log p(y_t | y_1 … y_{t−1}) within every sequence, (n,)."""
        node, moves = self.tables(parameters)
        top = node.max(axis=1)
        found = shared_marginals(self.ptr, node, moves)
        result: FloatArray = np.log(found.messages.c) + top + float(found.messages.top[0])
        result[self.ptr[:-1]] -= float(found.messages.top[0])
        return result

    def expected(self, found: ChainMarginals | SharedMeans) -> Expected:
        return Expected(found.marginal[self.ptr[:-1]].sum(axis=0), found.transitions[0], found.marginal)

    def at(self, parameters: FloatArray, start: Any = None) -> Answer:
        found = self.marginals(parameters)
        if not found.finite:  # a step so far away that all probabilities underflow: the search shortens it
            return Answer(-np.inf, np.zeros(len(parameters)), Status(Outcome.NOT_CONVERGED))
        mean = self._slopes(parameters, self.expected(found))
        return Answer(float(found.log_z.sum()), mean, _EXACT, None, _Passed(self, parameters, found))

    def at_many(self, points: FloatArray, starts: Sequence[Any] | None = None) -> Answers:
        """One after the other, keeping no messages: those of 40 points fill a gigabyte, which takes longer to touch
        than to compute."""
        log_z, means = np.full(len(points), -np.inf), np.zeros(points.shape)
        for s, here in enumerate(points):
            found = self.means(here)
            if found.finite:
                log_z[s], means[s] = found.log_z.sum(), self._slopes(here, self.expected(found))
        return Answers(log_z, means, np.isfinite(log_z), None)

    def _slopes(self, parameters: FloatArray, counts: Expected) -> FloatArray:
        law, eta = self.model.split(parameters)
        return np.concatenate(
            [self.law.slopes(law, counts.first, counts.moves), self.views.under(counts.labels).slopes(eta)]
        )

    def response(self, answer: Answer) -> Response:
        passed: _Passed = answer.found
        return passed.response

    def variances(self, answer: Answer) -> FloatArray:
        return -np.diag(self.second(answer.found.parameters, answer.found.marginals)).copy()

    def second(self, parameters: FloatArray, found: ChainMarginals) -> FloatArray:
        """E[∂s], (F, F)."""
        law, eta = self.model.split(parameters)
        counts, m = self.expected(found), len(law)
        total = np.zeros((len(parameters), len(parameters)))
        total[:m, :m] = self.law.curvature(law, counts.first, counts.moves)
        total[m:, m:] = self.views.under(counts.labels).curvature(eta)
        return total

    def covariance(self, parameters: FloatArray, found: ChainMarginals) -> FloatArray:
        """Cov(s), some directions at a time: column r has how E[s] moves when θ moves along ∂θ/∂λ_r."""
        law, eta = self.model.split(parameters)
        m, (n, K) = len(law), found.marginal.shape
        starts, moves = self.law.directions(law)
        a = self.law.n_initial
        step = max(1, _NUMBERS // (n * K))
        columns = []
        for first in range(0, len(parameters), step):
            which = np.arange(first, min(first + step, len(parameters)))
            node, edge = np.zeros((n, K, len(which))), np.zeros((1, K, K, len(which)))
            for d, r in enumerate(which):
                if r < a:
                    node[self.ptr[:-1], :, d] = starts[:, r]
                elif r < m:
                    edge[0, :, :, d] = moves[:, :, r - a]
            inner = which[which >= m]
            if len(inner):
                node[:, :, len(which) - len(inner) :] += self.views.along(eta, inner - m)
            moved, pairs = chain_tangent(self.chains, found, node, edge)
            columns.append(self._gathered(parameters, moved, pairs[0]))
        result = np.concatenate(columns, axis=1)
        return (result + result.T) / 2

    def _gathered(self, parameters: FloatArray, moved: FloatArray, pairs: FloatArray) -> FloatArray:
        """(F, D): Σ_tables ∂θ times how beliefs move, (n, K, D) and (K, K, D)."""
        law, eta = self.model.split(parameters)
        first = moved[self.ptr[:-1]].sum(axis=0)
        own = [self.law.slopes(law, first[:, d], pairs[:, :, d]) for d in range(moved.shape[2])]
        return np.concatenate([np.array(own).T, self.views.slopes_many(eta, moved)])


@dataclass(frozen=True, eq=False)
class _Passed:
    """What passes at λ have found, and the curvature there, once: a search ends where the posterior's is wanted."""

    phase: MarkovPhase
    parameters: FloatArray
    marginals: ChainMarginals

    @cached_property
    def response(self) -> Response:
        phase, there = self.phase, (self.parameters, self.marginals)
        return MatrixResponse(phase.covariance(*there) + phase.second(*there))
