"""A phase whose data are spread over the workers of a cluster.

Every worker keeps shards: objectives of its own cases under no prior. Shards stay where they are; λ goes out, and
values, gradients and curvatures come back and are added in the shards' order, so that the numbers do not depend on who
was faster. A shard that is lost with its worker is made again from its recipe. Of what is observed of the cases of a
field only the counts are needed, which the workers add up once; with holes the clamped phases run there, and the free
one here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayesfield.graph.compiled import compiled
from bayesfield.inference.contract import Engine, Price, Traits
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.learning.objective import GaussianPrior, Objective, Pointwise, flat
from bayesfield.learning.phases.base import Answer, Answers, Phase
from bayesfield.learning.phases.cases import (
    Cases,
    checked_weights,
    clamped_phases,
    fixed_energy,
    free_log_z,
    read_cases,
    require_seen,
)
from bayesfield.learning.phases.graph import GraphPhase
from bayesfield.learning.phases.graphs import graph_objective
from bayesfield.learning.phases.sequences import sequence_objective
from bayesfield.model.conditional import CRF, Sequences
from bayesfield.model.field import RandomField
from bayesfield.model.graphs import Graphs
from bayesfield.model.partitions import CaseFiles, SequenceFiles
from bayesfield.parallel import Cluster, spans
from bayesfield.response.base import Response
from bayesfield.types import FloatArray, IntArray, InvalidInput, Outcome, Status

_SHARDS = 4  # for each of the workers' threads, so that none waits long for another
_WIDTH = 64  # directions that are sent at a time
_EXACT = Status(Outcome.EXACT)
_STARTS = 4096  # cases of a field that come along, for chains and learners to start from


class Summary(NamedTuple):
    """What is told of a shard. counts, codes, seen: of cases of a field."""

    cases: int
    weight: float
    contrasts: bool
    price: Price
    counts: FloatArray
    codes: IntArray
    seen: IntArray
    unseen: IntArray


@dataclass(frozen=True, eq=False)
class RemotePhase(Phase):
    """Σ_s L_s(λ): what the workers' cases add to the objective.

    engine: of graphs; None for sequences, whose inference is exact. told: of every shard.
    """

    cluster: Cluster
    shards: Sequence[Any]
    told: Sequence[Summary]
    engine_there: Engine | None
    weight: float = 1.0

    @property
    def engine(self) -> Engine:
        return Exact() if self.engine_there is None else self.engine_there

    @property
    def traits(self) -> Traits:
        return Traits(exact=True) if self.engine_there is None else self.engine_there.traits

    @property
    def contrasts(self) -> bool:
        return any(one.contrasts for one in self.told)

    def with_engine(self, engine: Engine) -> RemotePhase:
        return self if self.engine_there is None else replace(self, engine_there=engine)

    def choose(self, engine: Any) -> tuple[Engine, str]:
        """That of the shard that finds exact inference hardest."""
        if self.engine_there is None:
            return self.engine, f"exact inference was chosen: {sum(one.cases for one in self.told):,} chains of labels"
        answers = self.cluster.each(_choose, self.shards, engine)
        return next((one for one in answers if not one[0].traits.exact), answers[0])

    def price(self, size: int) -> Price:
        """Workers share the work."""
        total = [sum(p) for p in zip(*(one.price for one in self.told), strict=True)]
        return Price(*(t / self.cluster.threads for t in total))

    def bytes(self) -> float:
        """Here, nearly nothing: the data are there."""
        return 0.0

    def at(self, parameters: FloatArray, start: Any = None) -> Answer:
        values, gradients, statuses = self._all(parameters[None])
        bad = [status for status in statuses if not status.converged]
        return Answer(float(values[0]), gradients[0], bad[0] if bad else statuses[0], None, parameters)

    def at_many(self, points: FloatArray, starts: Sequence[Any] | None = None) -> Answers:
        values, gradients, _ = self._all(points)
        return Answers(values, gradients, np.isfinite(values))

    def _all(self, points: FloatArray) -> tuple[FloatArray, FloatArray, list[Status]]:
        answers = self.cluster.each(_evaluated, self.shards, points, self.engine_there)
        values, gradients, statuses = zip(*answers, strict=True)
        return np.sum(values, axis=0), np.sum(gradients, axis=0), list(statuses)

    def response(self, answer: Answer) -> Response:
        return RemoteResponse(self, answer.found)

    def variances(self, answer: Answer) -> FloatArray:
        return self.total(_variances, answer.found)

    def blocks(self, answer: Answer) -> tuple[FloatArray, FloatArray] | None:
        answers = self.cluster.each(_blocks, self.shards, answer.found)
        if any(one is None for one in answers):
            return None
        blocks, rest = (np.sum(parts, axis=0) for parts in zip(*answers, strict=True))
        return blocks, rest

    def total(self, call: Callable[..., FloatArray], parameters: FloatArray, *more: Any) -> FloatArray:
        """The sum over the shards of what a call returns."""
        answers = self.cluster.each(call, self.shards, parameters, self.engine_there, *more)
        result: FloatArray = np.sum(answers, axis=0)
        return result


class RemoteResponse(Response):
    """Σ_s ∇²L_s at one λ."""

    def __init__(self, phase: RemotePhase, parameters: FloatArray) -> None:
        self._phase, self._parameters = phase, parameters

    @property
    def size(self) -> int:
        return len(self._parameters)

    def product(self, vectors: FloatArray) -> FloatArray:
        columns = vectors if vectors.ndim == 2 else vectors[:, None]
        slabs = [columns[:, k : k + _WIDTH] for k in range(0, columns.shape[1], _WIDTH)]
        out = np.concatenate([self._phase.total(_response, self._parameters, slab) for slab in slabs], axis=1)
        return out if vectors.ndim == 2 else out[:, 0]

    def covariance(self) -> FloatArray:
        return self._phase.total(_response, self._parameters)


@dataclass(frozen=True, eq=False)
class RemoteData:
    """Data on workers. n_cases: how many. some: cases of a field that came along; None for sequences and graphs."""

    cluster: Cluster
    shards: Sequence[Any]
    n_cases: int
    some: Cases | None
    unseen_parameters: IntArray
    here = False
    weights = None

    @property
    def cases(self) -> Cases:
        if self.some is None:
            raise InvalidInput('this learner needs the data here; with client= take method="newton" or "lbfgs"')
        return self.some

    @property
    def matches_moments(self) -> bool:
        return self.some is not None

    def unseen(self) -> IntArray:
        return self.unseen_parameters

    def pointwise(self, objective: Objective, points: FloatArray) -> Pointwise:
        """log p of every case at each of the parameters, points (S, F)."""
        free = None if self.some is None else free_log_z(objective, points)[:, None]
        answers = self.cluster.each(_pointwise, self.shards, points, objective.free.engine if self.some else None)
        values = np.concatenate(answers, axis=1) - (0.0 if free is None else free)
        return Pointwise(values, np.arange(values.shape[1]))


def remote_cases(field: RandomField, X: Any, prior: GaussianPrior, engine: Engine, client: Any) -> Objective:
    """The objective of cases in memory, which are dealt out, or in bf.CaseFiles, which the workers read."""
    cluster = Cluster(client)
    if isinstance(X, CaseFiles):
        shards = cluster.keep(_read_cases, [X.one(k) for k in range(len(X))], field)
    else:
        rows = X if isinstance(X, pd.DataFrame | np.ndarray) else np.array(X, dtype=object)
        ends = np.unique(np.linspace(0, len(rows), _SHARDS * cluster.threads + 1).astype(np.int64))
        shards = cluster.keep(_case_shard, [rows[a:b] for a, b in spans(ends.tolist())] or [rows], field)
    told = cluster.each(_summary, shards, max(1, _STARTS // len(shards)))
    known, counts = compiled(field), np.sum([one.counts for one in told], axis=0)
    weight = float(sum(one.weight for one in told))
    free = GraphPhase(known.graph, known.design, engine, weight)
    complete = not any(one.contrasts for one in told)
    codes = np.concatenate([one.codes for one in told])
    some = Cases(known, codes, counts, weight, None, None if complete else read_cases(known, codes).clamped, here=False)
    data = RemoteData(cluster, shards, round(weight), some, some.unseen())
    phases: tuple[Phase, ...] = (free,)
    if not complete:
        require_seen(field, np.sum([one.seen for one in told], axis=0))
        holes = [k for k, one in enumerate(told) if one.contrasts]
        phases = (free, RemotePhase(cluster, [shards[k] for k in holes], [told[k] for k in holes], engine))
    return Objective(prior, phases, known.design.expectations(counts), fixed_energy(known, counts), data)


def remote_sequences(
    crf: CRF, data: Sequences | SequenceFiles, prior: GaussianPrior, client: Any, weights: Any = None
) -> Objective:
    """The objective of sequences in memory, which are dealt out, or in files, which the workers read."""
    cluster = Cluster(client)
    if not isinstance(data, SequenceFiles):
        return _labelled(cluster, _dealt(cluster, _sequence_shard, crf, data, weights), prior, None)
    if weights is not None:
        raise InvalidInput("weights are for sequences in memory, not for those in files")
    return _labelled(cluster, cluster.keep(_read_sequences, [data.one(k) for k in range(len(data))], crf), prior, None)


def remote_graphs(
    crf: CRF, data: Graphs, prior: GaussianPrior, engine: Engine, client: Any, weights: Any = None
) -> Objective:
    """The objective of labelled graphs, dealt out."""
    cluster = Cluster(client)
    return _labelled(cluster, _dealt(cluster, _graph_shard, crf, data, weights), prior, engine)


def _dealt(cluster: Cluster, shard: Callable[..., Objective], crf: CRF, data: Any, weights: Any) -> list[Any]:
    """Runs of sequences or graphs with about as many positions each, and their weights."""
    numbers = checked_weights(weights, len(data))
    ends = np.unique(np.searchsorted(data.ptr, np.linspace(0, data.ptr[-1], _SHARDS * cluster.threads + 1)))
    ends[0], ends[-1] = 0, len(data)
    runs = [(first, last) for first, last in spans(ends.tolist()) if first < last]
    return cluster.keep(shard, [(data.run(a, b), None if numbers is None else numbers[a:b]) for a, b in runs], crf)


def _labelled(cluster: Cluster, shards: list[Any], prior: GaussianPrior, engine: Engine | None) -> Objective:
    told = cluster.each(_summary, shards, 0)
    cases = sum(one.cases for one in told)
    if not cases:
        raise InvalidInput("there is nothing to learn from: no sequence or graph")
    phase = RemotePhase(cluster, shards, told, engine)
    never = set(range(prior.size)).intersection(*(one.unseen.tolist() for one in told))
    data = RemoteData(cluster, shards, cases, None, np.array(sorted(never), dtype=np.int64))
    return Objective(prior, (phase,), np.zeros(prior.size), 0.0, data)


# --- on a worker ----------------------------------------------------------------------------------------------------


def _read_cases(files: CaseFiles, field: RandomField) -> Objective:
    hidden = set(field.hidden)
    columns = [name for i, name in enumerate(field.names) if i not in hidden]
    return _case_shard(files.read(columns, 0), field)


def _case_shard(X: Any, field: RandomField) -> Objective:
    """The clamped phases: −Σ_n log Z_n. The free phase, and what is observed, are not here."""
    cases = read_cases(compiled(field), field.encode(X, holes=True))
    size = field.n_parameters
    return Objective(flat(size), clamped_phases(cases, Exact()), np.zeros(size), 0.0, cases)


def _read_sequences(files: SequenceFiles, crf: CRF) -> Objective:
    return _sequence_shard((files.read(crf, 0), None), crf)


def _sequence_shard(part: tuple[Sequences, FloatArray | None], crf: CRF) -> Objective:
    return sequence_objective(crf, part[0], flat(crf.n_parameters), part[1], learned=False)


def _graph_shard(part: tuple[Graphs, FloatArray | None], crf: CRF) -> Objective:
    return graph_objective(crf, part[0], flat(crf.n_parameters), Exact(), part[1], learned=False)


def _summary(shard: Objective, most: int) -> Summary:
    empty = np.empty(0, dtype=np.int64)
    price = shard.price() if shard.phases else Price(0.0, 0.0)
    if not most:
        unseen: IntArray = shard.data.unseen()
        return Summary(shard.data.n_cases, 1.0, shard.hidden, price, np.empty(0), empty, empty, unseen)
    cases: Cases = shard.data
    codes = cases.codes[:: max(1, -(-len(cases.codes) // most))]
    seen = (cases.codes >= 0).sum(axis=0)
    return Summary(cases.n_cases, cases.weight, shard.hidden, price, cases.counts, codes, seen, empty)


def _choose(shard: Objective, engine: Any) -> tuple[Engine, str]:
    chosen: tuple[Engine, str] = shard.free.choose(engine)
    return chosen


def _evaluated(shard: Objective, points: FloatArray, engine: Engine | None) -> tuple[FloatArray, FloatArray, Status]:
    shard = _by(shard, engine)
    if len(points) > 1:
        many = shard.at_many(points)
        return many.values, many.gradients, _EXACT
    point = shard.at(points[0])
    return np.array([point.value]), point.gradient[None], point.status


def _response(
    shard: Objective, parameters: FloatArray, engine: Engine | None, vectors: FloatArray | None = None
) -> FloatArray:
    """The covariance, or its product with vectors."""
    shard = _by(shard, engine)
    response = shard.response(shard.at(parameters))
    return response.covariance() if vectors is None else response.product(vectors)


def _variances(shard: Objective, parameters: FloatArray, engine: Engine | None) -> FloatArray:
    shard = _by(shard, engine)
    return shard.variances(shard.at(parameters))


def _blocks(shard: Objective, parameters: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Σ over the shard's own free phases."""
    return shard.blocks(shard.at(parameters))


def _by(shard: Objective, engine: Engine | None) -> Objective:
    return shard if engine is None else shard.with_engine(engine)


def _pointwise(shard: Objective, points: FloatArray, engine: Engine | None) -> FloatArray:
    if engine is None:
        each = shard.data.pointwise(shard, points)
        return np.asarray(each.values[:, each.which])
    cases: Cases = shard.data
    distinct, which = np.unique(cases.codes, axis=0, return_inverse=True)
    return cases.case_log_z(distinct, points, engine)[:, which.reshape(-1)]
