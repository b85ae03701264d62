"""Cases of a field as an objective: complete, with holes, or weighted; equations (7) and (17) to (19).

With holes log p(observed part of x_n) = log Z_n(λ) − log Z(λ), Z_n the sum over what is hidden in case n. With an
approximate engine both terms are its own: the contrastive free energy (19), which may have several optima.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from bayesfield.graph.cases import case_energies
from bayesfield.graph.clamp import Clamped, clamp
from bayesfield.graph.compiled import CompiledField, compiled
from bayesfield.graph.layers import SeenLayer, seen_layer
from bayesfield.graph.structure import counts, weighted_counts
from bayesfield.inference.auto import Auto
from bayesfield.inference.contract import Engine
from bayesfield.inference.trees.log_z_by_component import log_z_by_component
from bayesfield.learning.layers.phase import LayerPhase, hidden_log_z
from bayesfield.learning.objective import GaussianPrior, Objective, Pointwise, gaussian
from bayesfield.learning.phases.base import Phase
from bayesfield.learning.phases.crf_design import compiled_graphs, restricted
from bayesfield.learning.phases.graph import GraphPhase
from bayesfield.model.conditional import CRF
from bayesfield.model.field import RandomField
from bayesfield.model.graphs import Graphs
from bayesfield.model.prior import Prior, as_numbers
from bayesfield.types import BoolArray, FloatArray, IntArray, InvalidInput, Outcome

_KEPT = 2**20  # table entries whose counts are kept without the cases


class CaseCounts(NamedTuple):
    """What complete cases show, without the cases: counts (T,) of how often tables take each entry, and N."""

    counts: FloatArray
    weight: float


@dataclass(frozen=True, eq=False)
class Cases:
    """Cases as positions in the states of a compiled field.

    codes: (N, n), −1 in the holes; some of the cases only where others keep them (``here`` False). counts: (T,) how
    often tables that are observed whole take each entry. weight: N, the sum of the weights (N,), which are None where
    each case counts once. clamped: the cases with holes, None where there are none. matches_moments: whether a search
    may begin at pseudo-moments: where tables stand for many cases. composites: the phases of their composite
    likelihoods, by the size of blocks, once made.
    """

    field: CompiledField
    codes: IntArray
    counts: FloatArray
    weight: float
    weights: FloatArray | None = None
    clamped: Clamped | SeenLayer | None = None
    here: bool = True
    composites: dict[int, Any] = dataclasses.field(default_factory=dict, init=False, repr=False)
    matches_moments = True

    @property
    def cases(self) -> Cases:
        """As cases of a field, for learners: itself."""
        return self

    @property
    def n_cases(self) -> int:
        return round(self.weight)

    @property
    def complete(self) -> bool:
        """Whether nothing is hidden in any."""
        return self.clamped is None

    @property
    def imputable(self) -> bool:
        """Whether every variable is seen in some case that is here, so that holes are cells and not variables."""
        return self.here and bool((self.codes >= 0).any(axis=0).all())

    def frequencies(self, pseudo_cases: float = 1.0) -> FloatArray:
        """How often the data take each table entry, (T,), by the cases that observe its table whole, with so many
        cases' worth of the uniform distribution added."""
        seen, size = self._seen()
        return (self.counts + pseudo_cases / size) / np.maximum(seen + pseudo_cases, 1e-300)

    def unseen(self) -> IntArray:
        """The parameters that no case shows without guessing: those of no table that some case observes whole."""
        shown = np.zeros(self.field.design.matrix.shape[1], dtype=np.bool_)
        shown[np.unique(self.field.design.matrix[self._seen()[0] > 0.0].indices)] = True
        return np.flatnonzero(~shown)

    def _seen(self) -> tuple[FloatArray, FloatArray]:
        """For every entry how often its table is observed whole, and how many entries that table has."""
        g = self.field.graph.arrays
        sizes = np.concatenate([g.cardinality, np.diff(g.table_ptr)])
        owner = np.repeat(np.arange(len(sizes)), sizes)
        seen: FloatArray = np.bincount(owner, self.counts, minlength=len(sizes)).astype(np.float64)
        return seen[owner], sizes[owner].astype(np.float64)

    def pointwise(self, objective: Objective, points: FloatArray) -> Pointwise:
        """log p of every case at each of the parameters, points (S, F)."""
        if self.weights is not None:
            raise InvalidInput("cases that count for more or less than one are not left out one by one")
        if not self.here:
            raise InvalidInput(
                "the cases are not here (they stayed on a cluster's workers, or their counts alone were kept): give X, "
                "the cases that were fitted"
            )
        free = free_log_z(objective, points)
        distinct, which = np.unique(self.codes, axis=0, return_inverse=True)
        return Pointwise(self.case_log_z(distinct, points, objective.free.engine) - free[:, None], which.reshape(-1))

    def case_log_z(self, codes: IntArray, points: FloatArray, engine: Engine) -> FloatArray:
        """(S, N) log Σ exp θ(x) over the states that agree with each of some distinct cases, codes (N, n)."""
        result = case_energies(self.field, codes, points)
        holes = np.flatnonzero((codes < 0).any(axis=1))
        if len(holes):
            result[:, holes] += self._holes_log_z(codes[holes], points, engine)
        return result

    def _holes_log_z(self, codes: IntArray, points: FloatArray, engine: Engine) -> FloatArray:
        """(S, N): by one union of all cases where inference in it is exact, else case by case."""
        layer = seen_layer(self.field, codes, None)
        if layer is not None:
            return hidden_log_z(layer, points)[:, layer.which]
        (union,) = clamp(self.field, codes).phases  # the cases are distinct
        phase = GraphPhase(union.graph, union.design, engine, -1.0, contrasts=True).with_engine(engine)
        if phase.engine.traits.batched:
            thetas = union.design.potentials_many(points)
            owner = union.cells[:, 0]
            return np.array(
                [log_z_by_component(phase.engine, union.graph, theta, owner, len(codes)) for theta in thetas]
            )
        alone = [clamp(self.field, row[None]).phases[0] for row in codes]
        return np.stack([GraphPhase(p.graph, p.design, phase.engine, -1.0).log_z_along(points) for p in alone], axis=1)


def free_log_z(objective: Objective, points: FloatArray) -> FloatArray:
    """(S,) log Z of the free phase at each of the parameters."""
    if not objective.free.traits.has_log_z:
        raise InvalidInput(
            "the probability of a case needs log Z, which sampling does not give: fit with bf.Exact(), bf.Kikuchi() or "
            "bf.Bethe()"
        )
    result: FloatArray = objective.free.log_z_along(points)
    return result


def field_objective(
    random_field: RandomField, X: Any, prior: Prior, engine: Engine, weights: Any = None, learned: bool = True
) -> Objective:
    """The objective for cases X, an (N, n) array or DataFrame in the states' own values, with or without holes.

    A case with nothing observed adds log Z − log Z, and so is left out. weights: what each case counts for. learned:
    whether X is to learn from, so that every variable must be seen in some case.
    """
    density = gaussian(prior, random_field)
    codes = random_field.encode(X, holes=True)
    objective = case_objective(compiled(random_field), codes, density, engine, checked_weights(weights, len(codes)))
    if learned and (codes < 0).any() and len(objective.data.unseen()):  # tied fields learn from other variables
        require_seen(random_field, (codes >= 0).sum(axis=0))
    return objective


def case_objective(
    field: CompiledField, codes: IntArray, prior: GaussianPrior, engine: Engine, weights: FloatArray | None = None
) -> Objective:
    """The objective of cases, codes (N, n), −1 in the holes. weights: (N,)."""
    return objective_of(read_cases(field, codes, weights), prior, engine)


def added_objective(
    before: CaseCounts,
    field: CompiledField,
    codes: IntArray,
    prior: GaussianPrior,
    engine: Engine,
    weights: FloatArray | None = None,
) -> Objective:
    """The objective of cases, and of complete ones before them that are known by their counts alone."""
    new = read_cases(field, codes, weights)
    both = replace(new, counts=before.counts + new.counts, weight=before.weight + new.weight, here=False)
    return objective_of(both, prior, engine)


def objective_of(cases: Cases, prior: GaussianPrior, engine: Engine) -> Objective:
    """Free phase, statistic and clamped phases of cases that have been read."""
    field = cases.field
    free = GraphPhase(field.graph, field.design, engine, cases.weight)
    statistic: FloatArray = field.design.transpose @ cases.counts
    clamped = () if cases.clamped is None else clamped_phases(cases, engine)
    return Objective(prior, (free, *clamped), statistic, fixed_energy(field, cases.counts), cases)


def counts_alone(data: Any) -> CaseCounts | None:
    """What is kept of complete cases where they are left out; None of others, and of tables too large to keep."""
    cases = data if isinstance(data, Cases) else getattr(data, "some", None)
    if cases is None or not cases.complete or len(cases.counts) > _KEPT:
        return None
    return CaseCounts(cases.counts, cases.weight)


def read_cases(field: CompiledField, codes: IntArray, weights: FloatArray | None = None, empty: bool = False) -> Cases:
    """What the cases show; those that cannot be are refused. empty: whether to keep those that show nothing."""
    if (codes >= 0).all():
        taken = counts(field.graph, codes) if weights is None else weighted_counts(field.graph, codes, weights)
        return Cases(field, codes, taken, float(len(codes) if weights is None else weights.sum()), weights)
    rows = np.flatnonzero((codes >= 0).any(axis=1) | empty)
    own = None if weights is None else weights[rows]
    layer = seen_layer(field, codes[rows], own)
    if layer is not None:
        return Cases(field, codes[rows], layer.counts, float(layer.often.sum()), own, layer)
    clamped = clamp(field, codes[rows], own)
    if _impossible(field, clamped):
        row = rows[_first_impossible(field, codes[rows])]
        raise InvalidInput(
            f"what row {row} observes has probability zero, whatever stands in its holes: a factor's log_table "
            "forbids it (−inf); drop that case or lift the constraint"
        )
    weight = float(len(rows) if own is None else own.sum())
    return Cases(field, codes[rows], clamped.counts, weight, own, clamped)


def clamped_phases(cases: Cases, engine: Engine) -> tuple[GraphPhase | LayerPhase, ...]:
    """A phase for every weight that cases with holes count for; one for all where they show one layer of two."""
    if isinstance(cases.clamped, SeenLayer):
        return (LayerPhase(cases.clamped),)
    parts = () if cases.clamped is None else cases.clamped.phases
    return tuple(GraphPhase(p.graph, p.design, engine, -p.weight, contrasts=True).with_engine(engine) for p in parts)


def fixed_energy(field: CompiledField, taken: FloatArray) -> float:
    """θ₀ summed over the entries that cases take; refuses cases that it forbids."""
    with np.errstate(invalid="ignore"):
        fixed = np.where(taken > 0, taken * field.design.offset, 0.0).sum()
    if fixed == -np.inf:
        raise InvalidInput(
            "the data hold a combination of states that a factor's log_table forbids (−inf); drop those cases or lift "
            "the constraint"
        )
    return float(fixed)


def require_seen(random_field: RandomField, seen: IntArray) -> None:
    """Refuse a variable that no case observes and that is not hidden. seen: (n,) how many cases observe each."""
    empty = set(np.flatnonzero(seen == 0).tolist()) - set(random_field.hidden)
    if empty:
        name = random_field.names[min(empty)]
        raise InvalidInput(
            f"no case observes {name!r}; if it is a hidden variable say so, by bf.Variable({name!r}, …, hidden=True) "
            f"or field.with_hidden([{name!r}]), else drop it from the field"
        )


def _impossible(field: CompiledField, clamped: Clamped) -> bool:
    """Whether some case's observed part has probability zero, by its forbidden states alone."""
    if np.isfinite(field.design.offset).all():
        return False
    barred = [(p.graph, np.where(np.isfinite(p.design.offset), 0.0, -np.inf)) for p in clamped.phases]
    return any(Auto().infer(graph, theta).status.outcome is Outcome.IMPOSSIBLE for graph, theta in barred)


def _first_impossible(field: CompiledField, codes: IntArray) -> int:
    """By bisection."""
    low, high = 0, len(codes)  # cases before low are possible, not all before high
    while high - low > 1:
        middle = (low + high) // 2
        if _impossible(field, clamp(field, codes[:middle])):
            high = middle
        else:
            low = middle
    return low


# --- labelled sequences and graphs ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Labelled:
    """Labelled sequences or graphs, ``items``, as data. weights: (S,), None where each counts once."""

    crf: CRF
    items: Any
    weights: FloatArray | None = None
    here = True
    matches_moments = False

    @property
    def n_cases(self) -> int:
        return len(self.items.ptr) - 1

    @cached_property
    def union(self) -> Cases:
        """One case of a field over all nodes."""
        return graph_cases(self.crf, self.items)

    @property
    def cases(self) -> Cases:
        """The same for learners that take cases; it has no place for weights."""
        if self.weights is not None:
            raise InvalidInput("this learner takes every sequence or graph once: leave weights out, or take newton")
        return self.union


# the free phase of some that count alike, their features summed, and their clamped phases
Terms = tuple["Phase", FloatArray, Sequence["Phase"]]


def labelled_objective(
    data: Labelled, prior: GaussianPrior, terms: Callable[[Any, float], Terms], learned: bool
) -> Objective:
    """The objective of labelled sequences or graphs; those that count alike share a phase.

    terms: of some of them and their weight. learned: whether they are to learn from, so that some label must be known.
    """
    items = data.items
    if items.labels is None:
        raise InvalidInput(f"a CRF is fitted to labelled {type(items).__name__.lower()}: give y")
    if learned and items.allowed is not None and items.allowed.size and items.allowed.all():
        raise InvalidInput("there is nothing to learn from: no label is known")
    free: list[Phase] = []
    clamped: list[Phase] = []
    statistic = np.zeros(data.crf.n_parameters)
    for weight, some in _weight_groups(data.weights, data.n_cases):
        phase, features, holes = terms(items if some is None else items.chosen(some), weight)
        free.append(phase)
        clamped += holes
        statistic += weight * features
    return Objective(prior, (*free, *clamped), statistic, 0.0, data)


def checked_weights(weights: Any, count: int) -> FloatArray | None:
    """What each case, sequence or graph counts for; None where each counts once."""
    if weights is None:
        return None
    numbers = as_numbers(weights, "weights")
    if numbers.shape != (count,) or not np.isfinite(numbers).all() or (numbers < 0).any():
        raise InvalidInput(f"weights are {count} finite numbers not below zero, one for each case; got {weights!r}")
    return numbers


def _weight_groups(weights: FloatArray | None, count: int) -> Iterator[tuple[float, BoolArray | None]]:
    """Every weight above zero, and which of them have it: a phase each. None for all."""
    if weights is None or not count:
        yield 1.0, None
        return
    distinct = np.unique(weights[weights > 0])
    if not len(distinct):
        raise InvalidInput("there is nothing to learn from: all weights are zero")
    for weight in distinct:
        yield float(weight), None if (weights == weight).all() else weights == weight


def graph_cases(crf: CRF, data: Graphs) -> Cases:
    """All nodes as one case of the union's field; where labels are sets, those are what is summed over."""
    codes, allowed = data.labels, data.allowed
    if allowed is not None:
        codes = np.where(allowed.sum(axis=1) == 1, allowed.argmax(axis=1), -1)
    assert codes is not None
    cases = read_cases(compiled_graphs(crf, data), codes[None, :], empty=True)
    return cases if allowed is None or cases.clamped is None else _with_sets(cases, allowed)


def _with_sets(cases: Cases, allowed: BoolArray) -> Cases:
    """States that labels do not allow are forbidden in the clamped phases."""
    assert cases.clamped is not None
    clamped = cases.clamped.union if isinstance(cases.clamped, SeenLayer) else cases.clamped
    phases = [replace(p, design=restricted(p.design, allowed[p.cells[:, 1]])) for p in clamped.phases]
    return replace(cases, clamped=replace(clamped, phases=tuple(phases)))
