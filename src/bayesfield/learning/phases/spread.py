"""The objective of a field whose cases are spread over the workers of a cluster.

What the data say of complete cases is their counts, which the workers add up once. Holes are filled on the workers at
every λ: the clamped phases run there, the free phase here (see learning.hidden). Some cases come along, for chains and
stochastic learners to start from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayesfield.graph.clamp import Clamped
from bayesfield.graph.compiled import compiled
from bayesfield.inference.contract import Engine
from bayesfield.learning.objective import FieldObjective, Pointwise, fixed_energy, observed_objective
from bayesfield.learning.phases.hidden import Completed, HiddenObjective, hidden_objective, require_seen
from bayesfield.model.field import RandomField
from bayesfield.model.partitions import CaseFiles
from bayesfield.model.prior import Prior
from bayesfield.parallel import Cluster, spans
from bayesfield.response.base import Response
from bayesfield.types import FloatArray, IntArray, Marginals, Status

_SHARDS = 4  # for each of the workers' threads
_STARTS = 4096  # cases that come along


class CaseShard(NamedTuple):
    """What a worker keeps: the objective of its cases under a flat prior. seen: (n,) how often each is observed."""

    objective: FieldObjective
    seen: IntArray
    holes: bool


class Summary(NamedTuple):
    """What is told of a shard."""

    counts: FloatArray
    cases: int
    seen: IntArray
    holes: bool
    some: IntArray


class Filled(NamedTuple):
    """A shard's clamped phases at one λ, summed."""

    statistic: FloatArray
    log_z: float
    status: Status | None


@dataclass(frozen=True, eq=False)
class SpreadObjective(FieldObjective):
    """Complete cases on workers. codes: some of them."""

    cluster: Cluster
    shards: Sequence[Any]

    def pointwise(self, points: FloatArray) -> Pointwise:
        return _pointwise(self.cluster, self.shards, self.free_log_z(points), points)


@dataclass(frozen=True, eq=False)
class SpreadHiddenObjective(HiddenObjective):
    """Cases with holes on workers. codes: some of them; of the clamped phases the counts alone are here."""

    cluster: Cluster
    shards: Sequence[Any]

    def completed(self, parameters: FloatArray, start: Completed | None = None) -> Completed:
        found = self.cluster.each(_filled, self.shards, parameters)
        statistic = np.sum([f.statistic for f in found], axis=0)
        status = next((f.status for f in found if f.status is not None), None)
        unsettled = () if status is None else ((parameters, Marginals(float("nan"), np.empty(0), status)),)
        log_z = sum(f.log_z for f in found)
        return SpreadCompleted(statistic / max(self.weight, 1.0), log_z, unsettled, parameters)

    def _responses(self, done: Completed) -> list[tuple[float, Response]]:
        assert isinstance(done, SpreadCompleted)
        return [(1.0 / max(self.weight, 1.0), SpreadResponse(self.cluster, self.shards, done.parameters))]

    def pointwise(self, points: FloatArray) -> Pointwise:
        return _pointwise(self.cluster, self.shards, self.free_log_z(points), points)


class SpreadCompleted(Completed):
    """With the λ at which the workers find the rest."""

    parameters: FloatArray

    def __new__(cls, statistic: FloatArray, log_z: float, phases: Any, parameters: FloatArray) -> "SpreadCompleted":
        made = super().__new__(cls, statistic, log_z, phases)
        made.parameters = parameters
        return made


class SpreadResponse(Response):
    """Σ_n C_n of all clamped cases."""

    def __init__(self, cluster: Cluster, shards: Sequence[Any], parameters: FloatArray) -> None:
        self._cluster, self._shards, self._parameters = cluster, shards, parameters

    @property
    def size(self) -> int:
        return len(self._parameters)

    def product(self, vectors: FloatArray) -> FloatArray:
        result: FloatArray = np.sum(self._cluster.each(_product, self._shards, self._parameters, vectors), axis=0)
        return result

    def covariance(self) -> FloatArray:
        total = np.zeros((self.size, self.size))
        for part in self._cluster.each(_covariance, self._shards, self._parameters):
            total += part
        return total


def spread_objective(field: RandomField, X: Any, prior: Prior, engine: Engine, client: Any) -> FieldObjective:
    """The objective of cases in memory, which are dealt out, or in bf.CaseFiles, which the workers read."""
    cluster = Cluster(client)
    if isinstance(X, CaseFiles):
        shards = cluster.keep(_read, [X.one(k) for k in range(len(X))], field, engine)
    else:
        shards = cluster.keep(_shard, _dealt(X, _SHARDS * cluster.threads), field, engine)
    found = cluster.each(_summary, shards, max(1, _STARTS // len(shards)))
    known = compiled(field)
    counts = np.sum([f.counts for f in found], axis=0)
    cases, some = sum(f.cases for f in found), np.concatenate([f.some for f in found])
    holes = any(f.holes for f in found)
    if holes:
        require_seen(field, np.sum([f.seen for f in found], axis=0))
    n = max(cases, 1)
    parts: dict[str, Any] = {
        "field": known,
        "engine": engine,
        "codes": some,
        "counts": counts,
        "statistic": known.design.expectations(counts) / n,
        "offset": fixed_energy(known, counts) / n,
        "weight": float(cases),
        "precision": prior.precision(field),
        "location": prior.location(field),
        "form": "dense",
        "cluster": cluster,
        "shards": shards,
    }
    if not holes:
        return SpreadObjective(**parts)
    none = np.empty(0, dtype=np.int64)
    return SpreadHiddenObjective(**parts, clamped=Clamped(counts, (), none, none))


def _dealt(X: Any, count: int) -> list[Any]:
    """Runs of cases."""
    rows = X if isinstance(X, pd.DataFrame | np.ndarray) else np.array(X, dtype=object)
    ends = np.unique(np.linspace(0, len(rows), count + 1).astype(np.int64))
    return [rows[first:last] for first, last in spans(ends.tolist())] or [rows]


def _pointwise(cluster: Cluster, shards: Sequence[Any], free: FloatArray, points: FloatArray) -> Pointwise:
    found = cluster.each(_case_log_z, shards, points)
    values = np.concatenate(found, axis=1) - free[:, None]
    return Pointwise(values, np.arange(values.shape[1]))


# --- on a worker ----------------------------------------------------------------------------------------------------


def _read(files: CaseFiles, field: RandomField, engine: Engine) -> CaseShard:
    hidden = set(field.hidden)
    columns = [name for i, name in enumerate(field.names) if i not in hidden]
    return _shard(files.read(columns, 0), field, engine)


def _shard(X: Any, field: RandomField, engine: Engine) -> CaseShard:
    codes, known, size = field.encode(X, holes=True), compiled(field), field.n_parameters
    seen, holes = (codes >= 0).sum(axis=0), bool((codes < 0).any())
    make = hidden_objective if holes else observed_objective
    return CaseShard(make(known, codes, np.zeros(size), np.zeros(size), engine), seen, holes)


def _summary(shard: CaseShard, most: int) -> Summary:
    o = shard.objective
    step = max(1, -(-len(o.codes) // most))
    return Summary(o.counts, int(o.weight), shard.seen, shard.holes, o.codes[::step])


def _filled(shard: CaseShard, parameters: FloatArray) -> Filled:
    o = shard.objective
    if not isinstance(o, HiddenObjective):
        statistic = o.weight * o.statistic
        return Filled(statistic, float(statistic @ parameters) + o.weight * o.offset, None)
    done = o.completed(parameters)
    status = next((m.status for _, m in done.phases if not m.status.converged), None)
    return Filled(o.weight * done.statistic, done.log_z, status)


def _covariance(shard: CaseShard, parameters: FloatArray) -> FloatArray | float:
    return shard.objective.weight * shard.objective.data_covariance(parameters)


def _product(shard: CaseShard, parameters: FloatArray, vectors: FloatArray) -> FloatArray:
    o = shard.objective
    if not isinstance(o, HiddenObjective):
        return np.zeros_like(vectors)
    parts = o.clamped_responses(parameters)
    result: FloatArray = np.sum([o.weight * share * r.product(vectors) for share, r in parts], axis=0)
    return result


def _case_log_z(shard: CaseShard, points: FloatArray) -> FloatArray:
    distinct, which = np.unique(shard.objective.codes, axis=0, return_inverse=True)
    return shard.objective.case_log_z(distinct, points)[:, which.reshape(-1)]
