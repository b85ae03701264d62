"""The negative log posterior of data that is spread over the workers of a cluster.

L(λ) = Σ_s L_s(λ) + prior, where a shard's L_s is the objective of its own cases under a flat prior. Shards stay where
they are; λ goes out, and values, gradients and curvatures come back and are added in the shards' order, so that the
numbers do not depend on who was quicker. A shard that is lost with its worker is made again from its recipe.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bayesfield.learning.objective import Objective, Point, Pointwise
from bayesfield.learning.phases.chain import ChainObjective, label_covariances, pair_covariance
from bayesfield.learning.phases.hidden_chain import sequence_objective
from bayesfield.learning.precision.block import BlockPrecision
from bayesfield.learning.precision.forms import Precision
from bayesfield.model.conditional import CRF, Sequences
from bayesfield.model.partitions import SequenceFiles
from bayesfield.model.prior import Normal, Prior
from bayesfield.parallel import Cluster, spans
from bayesfield.response.base import Response
from bayesfield.types import FloatArray, IndefiniteCurvature, InvalidInput, Marginals, Status

_SHARDS = 4  # for each of the workers' threads, so that none waits long for another
_WIDTH = 64  # directions that are sent at a time


class Shard(NamedTuple):
    """What a worker keeps. cases: how many it has; open: whether some labels are not known."""

    objective: ChainObjective
    cases: int
    open: bool


class Answer(NamedTuple):
    """A shard at one λ."""

    value: float
    gradient: FloatArray
    status: Status


@dataclass(frozen=True, eq=False)
class ShardedObjective(Objective):
    """crf: the model. cluster, shards: who keeps the data. cases: in each. labelled: whether all labels are known.

    Marginals hold λ in the place of tables: workers that are asked for curvature find theirs from it.
    """

    crf: CRF
    cluster: Cluster
    shards: Sequence[Any]
    cases: tuple[int, ...]
    labelled: bool

    def at(self, parameters: FloatArray, start: Any = None) -> Point:
        answers = self.cluster.each(_answer, self.shards, parameters)
        bad = [a.status for a in answers if not a.status.converged]
        value = sum(a.value for a in answers) - self.log_prior(parameters)
        gradient = np.sum([a.gradient for a in answers], axis=0) + self._times_precision(parameters - self.location)
        status = bad[0] if bad else answers[0].status
        marginals = Marginals(float("nan"), parameters, status)
        return Point(parameters, np.empty(0), np.inf if bad else float(value), gradient, marginals)

    def log_likelihood(self, point: Point) -> float:
        return -(point.value + self.log_prior(point.parameters))

    def response(self, point: Point) -> Response:
        if not point.marginals.status.converged:
            raise IndefiniteCurvature(str(point.marginals.status))
        return ShardedResponse(self, point.parameters)

    def rough_diagonal(self, tables: FloatArray) -> FloatArray:
        prior = np.diag(self.precision) if self.precision.ndim == 2 else self.precision
        return self.total(_rough, tables) + prior

    def pointwise(self, points: FloatArray) -> Pointwise:
        found = self.cluster.each(_pointwise, self.shards, points)
        return Pointwise(np.concatenate(found, axis=1), np.arange(sum(self.cases)))

    def posterior_precision(self, point: Point) -> Precision:
        if self.form != "block":
            return super().posterior_precision(point)
        found = self.near(point)
        if found is None:
            raise InvalidInput('form="block" needs all labels and a prior with independent parameters')
        return found

    def near(self, point: Point) -> Precision | None:
        if self.precision.ndim == 2 or not self.labelled:
            return None
        G, n = len(self.crf.node_tables), self.crf.n_state
        found = self.cluster.each(_blocks, self.shards, point.parameters)
        blocks, pairs = (np.sum(parts, axis=0) for parts in zip(*found, strict=True))
        blocks[:, np.arange(G), np.arange(G)] += self.precision[:n].reshape(-1, G)
        return BlockPrecision(blocks, pairs + np.diag(self.precision[n:]))

    def total(self, call: Callable[..., FloatArray], *arguments: Any) -> FloatArray:
        """The sum over the shards of what a call returns."""
        result: FloatArray = np.sum(self.cluster.each(call, self.shards, *arguments), axis=0)
        return result


class ShardedResponse(Response):
    """Σ_s C_s at one λ."""

    def __init__(self, objective: ShardedObjective, parameters: FloatArray) -> None:
        self._objective, self._parameters = objective, parameters

    @property
    def size(self) -> int:
        return len(self._parameters)

    def product(self, vectors: FloatArray) -> FloatArray:
        columns = vectors if vectors.ndim == 2 else vectors[:, None]
        slabs = [columns[:, k : k + _WIDTH] for k in range(0, columns.shape[1], _WIDTH)]
        out = np.concatenate([self._objective.total(_product, self._parameters, slab) for slab in slabs], axis=1)
        return out if vectors.ndim == 2 else out[:, 0]

    def covariance(self) -> FloatArray:
        return self._objective.total(_covariance, self._parameters)


def sharded_objective(crf: CRF, data: Sequences | SequenceFiles, prior: Prior, client: Any) -> ShardedObjective:
    """The objective of sequences in memory, which are dealt out, or in files, which the workers read."""
    cluster = Cluster(client)
    if isinstance(data, SequenceFiles):
        shards = cluster.keep(_read, [data.one(k) for k in range(len(data))], crf)
    else:
        shards = cluster.keep(_shard, _dealt(data, _SHARDS * cluster.threads), crf)
    sizes = cluster.each(_size, shards)
    if not sum(cases for cases, _ in sizes):
        raise InvalidInput("there is nothing to learn from: no sequence")
    return ShardedObjective(
        statistic=np.zeros(crf.n_parameters),
        offset=0.0,
        weight=1.0,
        precision=prior.precision(crf),
        location=prior.location(crf),
        form="dense",
        crf=crf,
        cluster=cluster,
        shards=shards,
        cases=tuple(cases for cases, _ in sizes),
        labelled=not any(some for _, some in sizes),
    )


def _dealt(data: Sequences, count: int) -> list[Sequences]:
    """Runs of sequences with about as many positions each."""
    ends = np.unique(np.searchsorted(data.ptr, np.linspace(0, data.positions, count + 1)))
    ends[0], ends[-1] = 0, len(data)
    return [data.run(first, last) for first, last in spans(ends.tolist()) if first < last]


# --- on a worker ----------------------------------------------------------------------------------------------------


def _read(files: SequenceFiles, crf: CRF) -> Shard:
    return _shard(files.read(crf, 0), crf)


def _shard(data: Sequences, crf: CRF) -> Shard:
    cases, some_open, size = len(data), data.allowed is not None, crf.n_parameters
    if data.allowed is not None and data.allowed.all():  # nothing to learn from here; from others there may be
        data = replace(data.run(0, 0), allowed=None)
    flat = sequence_objective(crf, data, Normal(variance=1.0))
    objective = replace(flat, precision=np.zeros(size), location=np.zeros(size))
    return Shard(objective, cases, some_open)


def _size(shard: Shard) -> tuple[int, bool]:
    return shard.cases, shard.open


def _answer(shard: Shard, parameters: FloatArray) -> Answer:
    point = shard.objective.at(parameters)
    return Answer(point.value, point.gradient, point.marginals.status)


def _covariance(shard: Shard, parameters: FloatArray) -> FloatArray:
    return shard.objective.response(shard.objective.at(parameters)).covariance()


def _product(shard: Shard, parameters: FloatArray, vectors: FloatArray) -> FloatArray:
    return shard.objective.response(shard.objective.at(parameters)).product(vectors)


def _rough(shard: Shard, parameters: FloatArray) -> FloatArray:
    return shard.objective.rough_diagonal(shard.objective.at(parameters).marginals.tables)


def _pointwise(shard: Shard, points: FloatArray) -> FloatArray:
    found = shard.objective.pointwise(points)
    return found.values[:, found.which]


def _blocks(shard: Shard, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
    o = shard.objective
    found, G = o.at(parameters).marginals.state, len(o.crf.node_tables)
    return label_covariances(o.crf, o.data, found.marginal).reshape(-1, G, G), pair_covariance(o.crf, o.data, found)
