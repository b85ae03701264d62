"""The negative log posterior where variables are hidden, in all cases or in some: equations (17) to (19).

L(λ) = N log Z(λ) − Σ_n log Z_n(λ) + ½ (λ − μ)ᵀ Λ⁻¹ (λ − μ), with Z_n the sum over what is hidden in case n
∇L   = N E[f] − Σ_n E_n[f] + Λ⁻¹ (λ − μ)
∇²L  = N C − Σ_n C_n + Λ⁻¹, equation (18)

With an approximate engine both terms are its own: the contrastive free energy (19). It has several optima; at each of
them the curvature is positive semi-definite, and elsewhere it need not be.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bayesfield.graph.clamp import Clamped, clamp
from bayesfield.graph.compiled import CompiledField, compiled
from bayesfield.graph.structure import Graph
from bayesfield.inference.auto import Auto
from bayesfield.inference.contract import Engine
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.inference.trees.log_z_by_component import log_z_by_part
from bayesfield.learning.objective import FieldObjective, Point, fixed_energy, log_z_along, observed_objective
from bayesfield.model.field import RandomField
from bayesfield.model.prior import Prior, as_numbers
from bayesfield.response.base import Response
from bayesfield.response.contrast import ContrastResponse
from bayesfield.types import FloatArray, IndefiniteCurvature, IntArray, InvalidInput, Marginals, Outcome


class Completed(NamedTuple):
    """The clamped phases at one λ. statistic: Σ_n E_n[f] / N. log_z: Σ_n log Z_n. phases: θ and marginals of each."""

    statistic: FloatArray
    log_z: float
    phases: tuple[tuple[FloatArray, Marginals], ...]


class HiddenState(NamedTuple):
    """Where the engine stands: in the free phase, and in the clamped ones."""

    free: Any
    completed: Completed


@dataclass(frozen=True, eq=False)
class HiddenObjective(FieldObjective):
    """clamped: the cases. The statistic and the counts are those of what is observed; codes have −1 in the holes."""

    clamped: Clamped

    @property
    def graphs(self) -> list[Graph]:
        return [self.field.graph, *(phase.graph for phase in self.clamped.phases)]

    @property
    def data_engine(self) -> Engine:
        """The engine of the clamped phases: the same, but sampling gives way to one that knows log Z."""
        return Auto() if isinstance(self.engine, Sampled) else self.engine

    def at(self, parameters: FloatArray, start: Any = None) -> Point:
        theta = self.field.design.potentials(parameters)
        before = start if isinstance(start, HiddenState) else None
        free = self.engine.infer(self.field.graph, theta, None if before is None else before.free)
        return self.point(parameters, theta, free, None if before is None else before.completed)

    def point(
        self, parameters: FloatArray, theta: FloatArray, marginals: Marginals, start: Completed | None = None
    ) -> Point:
        done = self.completed(parameters, start)
        mean = self.field.design.expectations(marginals.tables)
        value = self.weight * marginals.log_z - done.log_z - self.log_prior(parameters)
        status = next((m.status for _, m in done.phases if not m.status.converged), marginals.status)
        if not status.converged or not marginals.status.converged:
            value = np.inf
        both = replace(marginals, status=status, state=HiddenState(marginals.state, done))
        return Point(parameters, theta, float(value), self.gradient(parameters, mean, done.statistic), both)

    def completed(self, parameters: FloatArray, start: Completed | None = None) -> Completed:
        """What the engine knows of the holes at these parameters."""
        statistic, phases = self.weight * self.statistic, []
        log_z = self.weight * self.offset + float(statistic @ parameters)
        for k, phase in enumerate(self.clamped.phases):
            theta = phase.design.potentials(parameters)
            before = None if start is None else start.phases[k][1].state
            found = self.data_engine.infer(phase.graph, theta, before)
            statistic = statistic + phase.weight * phase.design.expectations(found.tables)
            log_z += phase.weight * found.log_z
            phases.append((theta, found))
        return Completed(statistic / max(self.weight, 1.0), log_z, tuple(phases))

    def statistic_at(self, parameters: FloatArray) -> FloatArray:
        return self.completed(parameters).statistic

    def log_likelihood(self, point: Point) -> float:
        return float(point.marginals.state.completed.log_z - self.weight * point.marginals.log_z)

    def response(self, point: Point) -> Response:
        if point.marginals.status.outcome is Outcome.IMPOSSIBLE:
            raise IndefiniteCurvature(Outcome.IMPOSSIBLE.value)
        state: HiddenState = point.marginals.state
        marginals = replace(point.marginals, state=state.free)
        free = self.engine.response(self.field.graph, self.field.design, point.theta, marginals)
        return ContrastResponse(free, self._responses(state.completed))

    def clamped_responses(self, parameters: FloatArray) -> list[tuple[float, Response]]:
        """C of every clamped phase at a λ, and the share of its cases."""
        return self._responses(self.completed(parameters))

    def data_covariance(self, parameters: FloatArray) -> FloatArray | float:
        found = self.clamped_responses(parameters)
        return sum((share * response.covariance() for share, response in found), start=0.0)

    def _responses(self, done: Completed) -> list[tuple[float, Response]]:
        """C of every clamped phase, and the share of its cases."""
        engine = self.data_engine
        return [
            (phase.weight / self.weight, engine.response(phase.graph, phase.design, theta, found))
            for phase, (theta, found) in zip(self.clamped.phases, done.phases, strict=True)
        ]

    def case_log_z(self, codes: IntArray, points: FloatArray) -> FloatArray:
        """What each case observes whole, and the log Z of its holes."""
        result = super().case_log_z(codes, points)
        holes = np.flatnonzero((codes < 0).any(axis=1))
        if len(holes):
            result[:, holes] += self._holes_log_z(codes[holes], points)
        return result

    def _holes_log_z(self, codes: IntArray, points: FloatArray) -> FloatArray:
        """(S, N): by one union of all cases where inference in it is exact, else case by case."""
        (union,) = clamp(self.field, codes).phases  # the cases are distinct
        engine = self.data_engine
        if isinstance(engine, Auto):
            engine = engine.choose(union.graph)[0]
        if isinstance(engine, Exact):
            parts = union.cells[:, 0], len(codes)
            thetas = (union.design.potentials(here) for here in points)
            return np.array([log_z_by_part(engine, union.graph, theta, *parts) for theta in thetas])
        alone = [clamp(self.field, row[None]).phases[0] for row in codes]
        return np.stack([log_z_along(self.data_engine, p.graph, p.design, points) for p in alone], axis=1)

    def frequencies(self) -> FloatArray:
        """As for complete cases, but each table by the cases that observe it whole."""
        seen, size = self._seen()
        result: FloatArray = (self.counts + 1.0 / size) / (seen + 1.0)
        return result

    def unseen(self) -> IntArray:
        """The parameters that no case shows without guessing: those of tables that none observes whole."""
        return np.unique(self.field.design.matrix[self._seen()[0] == 0.0].indices).astype(np.int64)

    def _seen(self) -> tuple[FloatArray, FloatArray]:
        """For every entry how often its table is observed whole, and how many entries that table has."""
        g = self.field.graph.arrays
        sizes = np.concatenate([g.cardinality, np.diff(g.table_ptr)])
        owner = np.repeat(np.arange(len(sizes)), sizes)
        seen = np.zeros(len(sizes))
        np.add.at(seen, owner, self.counts)
        return seen[owner], sizes[owner].astype(np.float64)


def mrf_objective(
    random_field: RandomField, X: Any, prior: Prior, engine: Engine, weights: Any = None, learned: bool = True
) -> FieldObjective:
    """The objective for cases X, an (N, n) array or DataFrame in the states' own values, with or without holes.

    A case with nothing observed adds log Z − log Z, and so is left out. weights: what each case counts for. learned:
    whether X is to learn from, so that every variable must be seen in some case.
    """
    codes, known = random_field.encode(X, holes=True), compiled(random_field)
    by_prior = prior.precision(random_field), prior.location(random_field)
    if (codes >= 0).all():
        return observed_objective(known, codes, *by_prior, engine, _case_weights(weights, len(codes)))
    if weights is not None:
        raise InvalidInput("weights are for complete cases: these have missing cells or hidden variables")
    if learned:
        require_seen(random_field, (codes >= 0).sum(axis=0))
    return hidden_objective(known, codes, *by_prior, engine)


def _case_weights(weights: Any, cases: int) -> FloatArray | None:
    if weights is None:
        return None
    found = as_numbers(weights, "weights of cases")
    if found.shape != (cases,) or not np.isfinite(found).all() or (found < 0).any():
        raise InvalidInput(f"weights are {cases} finite numbers not below zero, one for each case; got {weights!r}")
    return found


def require_seen(random_field: RandomField, seen: IntArray) -> None:
    """Refuse a variable that no case observes and that is not hidden. seen: (n,) how many cases observe each."""
    empty = set(np.flatnonzero(seen == 0).tolist()) - set(random_field.hidden)
    if empty:
        name = random_field.names[min(empty)]
        raise InvalidInput(
            f"no case observes {name!r}; if it is a hidden variable say so, by bf.Variable({name!r}, …, hidden=True) "
            f"or field.with_hidden([{name!r}]), else drop it from the field"
        )


def hidden_objective(
    known: CompiledField, codes: IntArray, precision: FloatArray, location: FloatArray, engine: Engine
) -> HiddenObjective:
    """The objective of cases with holes, codes (N, n)."""
    rows = np.flatnonzero((codes >= 0).any(axis=1))
    clamped = clamp(known, codes[rows])
    fixed = fixed_energy(known, clamped.counts)
    if _impossible(known, clamped):
        row = rows[_first_impossible(known, codes[rows])]
        raise InvalidInput(
            f"what row {row} observes has probability zero, whatever stands in its holes: a factor's log_table "
            "forbids it (−inf); drop that case or lift the constraint"
        )
    n = max(len(rows), 1)
    return HiddenObjective(
        field=known,
        engine=engine,
        codes=codes[rows],
        counts=clamped.counts,
        statistic=known.design.expectations(clamped.counts) / n,
        offset=fixed / n,
        weight=float(len(rows)),
        precision=precision,
        location=location,
        form="dense",
        clamped=clamped,
    )


def _impossible(known: CompiledField, clamped: Clamped) -> bool:
    """Whether some case's observed part has probability zero, by its forbidden states alone."""
    if np.isfinite(known.design.offset).all():
        return False
    barred = [(p.graph, np.where(np.isfinite(p.design.offset), 0.0, -np.inf)) for p in clamped.phases]
    return any(Auto().infer(graph, theta).status.outcome is Outcome.IMPOSSIBLE for graph, theta in barred)


def _first_impossible(known: CompiledField, codes: IntArray) -> int:
    """By bisection."""
    low, high = 0, len(codes)  # cases before low are possible, not all before high
    while high - low > 1:
        middle = (low + high) // 2
        if _impossible(known, clamp(known, codes[:middle])):
            high = middle
        else:
            low = middle
    return low
