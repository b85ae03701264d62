"""The phase of a composite likelihood: Σ_n Σ_B log p(x_B | rest) of blocks of variables, table by table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfield import parallel
from bayesfield.inference.contract import Engine, Price, Traits
from bayesfield.kernels.likelihood import composite as kernel
from bayesfield.learning.phases.base import Answer, Phase
from bayesfield.response.base import Response, require_dense
from bayesfield.types import FloatArray, IntArray, Outcome, Status

if TYPE_CHECKING:
    from bayesfield.graph.compiled import CompiledField

_CASES = 512  # that one thread takes at a time
_KEPT = 1e8  # entries of blocks' curvatures that are kept between products
_COLUMNS = 256  # sums of scores that are made together
CONDITIONALS = Status(Outcome.EXACT, detail="of every block given the rest")


@dataclass(frozen=True, eq=False)
class CompositePhase(Phase):
    """−Σ_n Σ_B log p(x_B | rest). distinct: the cases, (M, n); counts: how often each occurs, (M,)."""

    field: CompiledField
    blocks_of: kernel.Blocks
    distinct: IntArray
    counts: FloatArray
    weight: float = 1.0

    @property
    def cases(self) -> float:
        return float(self.counts.sum())

    @property
    def traits(self) -> Traits:
        return Traits()

    def choose(self, engine: Any) -> tuple[Engine, str]:
        raise TypeError("conditionals are small tables: there is no engine to choose")

    def price(self, size: int) -> Price:
        M, own = float(len(self.distinct)), np.diff(self.blocks_of.local_ptr).astype(np.float64)
        return Price(1e-4 + 1e-8 * M * own.sum(), 1e-3 + 1e-9 * M * (own * own).sum())

    def bytes(self) -> float:
        return float(self.distinct.nbytes + 16 * self.field.graph.n_entries)

    def at(self, parameters: FloatArray, start: Any = None) -> Answer:
        theta = self.field.design.potentials(parameters)
        g = self.field.graph.arrays

        def part(rows: slice) -> tuple[float, FloatArray]:
            slope = np.zeros(len(theta))
            value = kernel.value_and_slope(g, self.blocks_of, theta, self.distinct[rows], self.counts[rows], slope)
            return value, slope

        parts = parallel.thread_map(part, self.parts()) or [(0.0, np.zeros(len(theta)))]
        mean = self.field.design.expectations(np.sum([s for _, s in parts], axis=0))
        return Answer(float(sum(v for v, _ in parts)), mean, CONDITIONALS, None, theta)

    def response(self, answer: Answer) -> Response:
        return CompositeResponse(self, answer.found)

    def variances(self, answer: Answer) -> FloatArray:
        total = np.zeros(self.field.design.matrix.shape[1])
        for local, gram in CompositeResponse(self, answer.found).grams():
            np.add.at(total, local, np.diag(gram))
        return total

    def scores(self, theta: FloatArray, rows: slice = slice(None)) -> FloatArray:
        """s_n of the distinct cases, (M, F)."""
        out = np.zeros((len(self.distinct[rows]), self.field.design.matrix.shape[1]))
        kernel.scores(self.field.graph.arrays, self.blocks_of, self.design_rows(), theta, self.distinct[rows], out)
        return out

    def gram(self, theta: FloatArray, b: int) -> FloatArray:
        """Σ_n Cov(f | rest) of one block, over its own parameters."""
        size = int(self.blocks_of.local_ptr[b + 1] - self.blocks_of.local_ptr[b])
        gram, where = np.zeros((size, size)), np.zeros(self.field.design.matrix.shape[1], dtype=np.int64)
        g = self.field.graph.arrays
        rows = self.design_rows()
        kernel.curvature(g, self.blocks_of, rows, theta, self.distinct, self.counts, b, where, gram)
        whole: FloatArray = np.tril(gram) + np.tril(gram, -1).T  # the kernel fills the lower triangle
        return whole

    def design_rows(self) -> kernel.Rows:
        A = self.field.design.matrix
        return kernel.Rows(A.indptr.astype(np.int64), A.indices.astype(np.int64), A.data)

    def parts(self, share: int = _CASES) -> list[slice]:
        """The cases in shares that threads take."""
        return [slice(k, k + share) for k in range(0, len(self.distinct), share)]

    def site_grams(self, theta: FloatArray, every: int = 1) -> list[tuple[IntArray, FloatArray]]:
        """Parameters and H of every block; by one distinct case of ``every``, which stand for all."""
        some = replace(self, distinct=np.ascontiguousarray(self.distinct[::every]), counts=self._thinned(every))
        return list(CompositeResponse(some, theta).grams())

    def _thinned(self, every: int) -> FloatArray:
        """What one distinct case of ``every`` counts for, so that their sum is that of all."""
        counts = self.counts[::every]
        return counts if every == 1 else counts * (self.cases / max(float(counts.sum()), 1e-300))

    def score_product(self, theta: FloatArray, mean: FloatArray, vectors: FloatArray) -> FloatArray:
        """Σ_n (s_n − s̄)(s_n − s̄)ᵀ · vectors (F, D)."""
        total = np.zeros(vectors.shape)
        for rows in self.parts():
            centred = self.scores(theta, rows) - mean
            total += centred.T @ (self.counts[rows][:, None] * (centred @ vectors))
        return total

    def grouped_scores(self, theta: FloatArray, signs: FloatArray, groups: int) -> Iterator[FloatArray]:
        """Σ_{n in group} signs_n s_n as columns (F, some groups), case n in group n modulo ``groups``."""

        def one(g: int) -> FloatArray:
            some = replace(self, distinct=np.ascontiguousarray(self.distinct[g::groups]), counts=signs[g::groups])
            return signs[g::groups] @ some.scores(theta)

        for first in range(0, groups, _COLUMNS):
            found = parallel.thread_map(one, range(first, min(first + _COLUMNS, groups)))
            yield np.stack(found, axis=1)


class CompositeResponse(Response):
    """H at one θ."""

    def __init__(self, phase: CompositePhase, theta: FloatArray) -> None:
        super().__init__(phase.field.design)
        self._phase, self._theta = phase, theta
        self._kept: dict[int, list[FloatArray]] = {}

    def product(self, vectors: FloatArray) -> FloatArray:
        out = np.zeros(vectors.shape)
        for local, gram in self.grams():
            out[local] += gram @ vectors[local]
        return out

    def covariance(self) -> FloatArray:
        """H, (F, F)."""
        require_dense(self.size, "a composite likelihood's curvature", "Give an engine for it: response=bf.Bethe().")
        return assembled(self.grams(), self.size)

    def grams(self) -> Iterator[tuple[IntArray, FloatArray]]:
        """The parameters of each block and H over them; kept for the next product where there is room."""
        b, step = self._phase.blocks_of, 4 * parallel.cores()
        room = (np.diff(b.local_ptr).astype(np.float64) ** 2).sum() <= _KEPT
        for first in range(0, len(b.states), step):
            some = range(first, min(first + step, len(b.states)))
            grams = self._kept.get(first) or parallel.thread_map(lambda k: self._phase.gram(self._theta, k), some)
            if room:
                self._kept[first] = grams
            for k, gram in zip(some, grams, strict=True):
                yield b.local[b.local_ptr[k] : b.local_ptr[k + 1]], gram


def assembled(blocks: Iterable[tuple[IntArray, FloatArray]], size: int) -> FloatArray:
    """The sum of blocks over some parameters each, (F, F)."""
    total = np.zeros((size, size))
    for local, gram in blocks:
        kernel.scatter(gram, local, total)
    return total


def curvature_work(phase: CompositePhase) -> float:
    """Multiplications of one curvature: Σ_B L_B² for every distinct case, L_B the parameters of block B."""
    return float(len(phase.distinct)) * float((np.diff(phase.blocks_of.local_ptr).astype(np.float64) ** 2).sum())
