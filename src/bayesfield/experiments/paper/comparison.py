"""Posteriors against long chains with exact gradients, in Cramér-von Mises distance (23): figures 2 to 8."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from bayesfield import plots
from bayesfield.diagnostics import cramer_von_mises
from bayesfield.experiments.contract import Experiment, cell
from bayesfield.experiments.paper.methods import PRACTICE, Method, Outcome, Problem, Scale, reference
from bayesfield.types import FloatArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.experiments.store import Store

REFERENCE = "HMC"
_BINS = 60
_PRACTISED: set[tuple[str, str]] = set()  # experiment and method


class Case(Protocol):
    """One data set. x: what the picture's horizontal axis shows; model: which of the repetitions."""

    @property
    def name(self) -> str: ...
    @property
    def x(self) -> float: ...
    @property
    def model(self) -> int: ...

    def seed(self, purpose: int, seed: int) -> np.random.SeedSequence:
        """For a purpose (data 0, reference 1, methods from 2) of a run that begins from ``seed``."""
        ...


class Comparison(Experiment):
    """axis: the column of x. axis_label: in words. histograms: which to draw, "worst", "best"; none: curves."""

    axis = "N"
    axis_label = "cases N"
    histograms: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()  # of the methods; none: all

    @abstractmethod
    def compared(self) -> Mapping[str, Method]:
        """What is compared with the reference."""

    @property
    @abstractmethod
    def baselines(self) -> Sequence[str]:
        """Those that are the paper's own."""

    @abstractmethod
    def problem(self, task: Any, seed: int) -> Problem:
        """The data and the prior, and the rough shape of the posterior."""

    @abstractmethod
    def practice(self) -> Problem:
        """A small one of the same kind: what is compiled on it does not count as a method's time."""

    @property
    @abstractmethod
    def parameter_names(self) -> Sequence[str]: ...

    def only(self, methods: Sequence[str]) -> None:
        unknown = [name for name in methods if name not in self.compared()]
        if unknown:
            raise InvalidInput(f"{self.name} compares {', '.join(self.compared())}; got {', '.join(unknown)}")
        self.wanted = tuple(methods)

    def methods(self, task: Any) -> list[str]:
        return [REFERENCE, *(name for name in self.compared() if not self.wanted or name in self.wanted)]

    def run(self, task: Any, scale: Scale, store: Store, seed: int) -> None:
        left = [name for name in self.methods(task) if not store.has(cell(task, name))]
        self._practise(left)
        problem = self.problem(task, seed)
        truth = _kept_reference(task, problem, scale, store, seed)
        assert truth.draws is not None
        floors = [float(cramer_von_mises(truth.draws[s], truth.draws[s + 1]).sum()) for s in range(scale.sets)]
        if REFERENCE in left:
            rows = [self._row(task, REFERENCE, s, floors[s], floors[s], truth, scale.draws) for s in range(scale.sets)]
            store.put(cell(task, REFERENCE), rows)
        for number, (name, method) in enumerate(self.compared().items()):
            if name not in left:
                continue
            found = method(problem, scale, task.seed(2 + number, seed))
            scores = _scores(truth.draws, found)
            rows = [self._row(task, name, s, v.sum(), floors[s], found, n) for s, (v, n) in enumerate(scores)]
            if not scores:
                rows = [self._row(task, name, 0, float("nan"), floors[0], found, 0)]
            store.put(cell(task, name), rows, _histograms(truth.draws[0], found, scores[0][0]) if scores else None)
        if all(store.has(cell(task, name)) for name in (REFERENCE, *self.compared())):
            store.release(cell(task, REFERENCE))

    def _practise(self, names: Sequence[str]) -> None:
        """Once in every process."""
        for name in names:
            if (self.name, name) not in _PRACTISED:
                _PRACTISED.add((self.name, name))
                method = reference if name == REFERENCE else self.compared()[name]
                method(self.practice(), PRACTICE, np.random.SeedSequence(0))

    def draw(self, table: pd.DataFrame, store: Store) -> plots.Figure:
        if not self.histograms:
            return plots.score_curves(table, self.axis, self.axis_label, REFERENCE, list(self.baselines))
        return plots.marginal_histograms(self.histograms_in(store), list(self.parameter_names), self.histograms)

    def histograms_in(self, store: Store) -> dict[str, dict[str, Any]]:
        """By method, of the one case that is shown. Cells of all figures have them, so that figures can share cells."""
        case = self.tasks(next(iter(self.scales.values())))[0]
        return {name: arrays for name in self.compared() if (arrays := store.arrays(cell(case, name)))}

    def shown(self, table: pd.DataFrame) -> pd.DataFrame:
        """Mean CVM for each N or d, a star where not all runs converged; and seconds of the processor."""
        rows = {}
        for name, own in table.groupby("method", sort=False):
            row = {}
            for x, here in own.groupby(self.axis):
                star = "" if here["converged"].all() else " *"
                row[f"{self.axis} = {x:g}"] = f"{here['cvm'].mean():,.0f}{star}"
            seconds = own.groupby([self.axis, "model"])["seconds"].first()
            rows[str(name)] = {**row, "seconds": f"{seconds.min():,.1f} to {seconds.max():,.1f}"}
        result = pd.DataFrame.from_dict(rows, orient="index")
        result.attrs["title"] = "mean CVM (two exact sets score the first row); * not all runs converged"
        return result

    def _row(
        self, task: Any, method: str, s: int, cvm: float, floor: float, outcome: Outcome, n: int
    ) -> dict[str, Any]:
        return {
            "method": method,
            self.axis: task.x,
            "model": task.model,
            "set": s,
            "cvm": float(cvm),
            "floor": floor,
            "seconds": round(outcome.seconds, 3),
            "converged": outcome.converged,
            "mpsrf": outcome.mpsrf,
            "draws": n,
            "note": outcome.note,
        }


def _kept_reference(task: Any, problem: Problem, scale: Scale, store: Store, seed: int) -> Outcome:
    """Its draws are kept until every method of the task has been run: they take as long as most of these."""
    name = cell(task, REFERENCE)
    kept = store.kept(name)
    if kept:
        return Outcome(kept["draws"], float(kept["seconds"]), bool(kept["converged"]), float(kept["mpsrf"]))
    truth = reference(problem, scale, task.seed(1, seed))
    assert truth.draws is not None
    store.keep(name, draws=truth.draws, seconds=truth.seconds, converged=truth.converged, mpsrf=truth.mpsrf)
    return truth


def _scores(truth: FloatArray, outcome: Outcome) -> list[tuple[FloatArray, int]]:
    """CVM of each parameter for each set, against as many draws of the reference; and how many draws that are."""
    if outcome.draws is None:
        return []
    n = min(truth.shape[1], outcome.draws.shape[1])
    return [(cramer_von_mises(truth[s][:n], own[:n]), n) for s, own in enumerate(outcome.draws)]


def _histograms(truth: FloatArray, outcome: Outcome, scores: FloatArray) -> dict[str, FloatArray]:
    """Of the parameters with the largest and the smallest distance: densities of the method and of the reference."""
    assert outcome.draws is not None
    arrays = {}
    for kind, k in (("worst", int(np.argmax(scores))), ("best", int(np.argmin(scores)))):
        both = np.concatenate([truth[:, k], outcome.draws[0, :, k]])
        bins = int(np.clip(np.sqrt(outcome.draws.shape[1]), 10, _BINS))
        edges = np.linspace(np.quantile(both, 0.0005), np.quantile(both, 0.9995), bins + 1)
        arrays[f"{kind}_parameter"] = np.array(k)
        arrays[f"{kind}_cvm"] = np.array(scores[k])
        arrays[f"{kind}_edges"] = edges
        arrays[f"{kind}_method"] = np.histogram(outcome.draws[0, :, k], edges, density=True)[0]
        arrays[f"{kind}_truth"] = np.histogram(truth[:, k], edges, density=True)[0]
    return arrays
