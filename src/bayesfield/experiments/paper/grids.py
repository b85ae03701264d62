"""Figures 2 to 5: the paper's simulated grids."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from bayesfield.experiments.paper import cases
from bayesfield.experiments.paper.comparison import Comparison
from bayesfield.experiments.paper.methods import (
    SCALES,
    FieldProblem,
    Method,
    Problem,
    Scale,
    chained,
    few_steps,
    fitted,
)
from bayesfield.fitting.fields import fit
from bayesfield.inference.messages.belief_propagation import Bethe
from bayesfield.inference.messages.kikuchi import Kikuchi
from bayesfield.inference.queries import sample
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.learning.search.pseudo_likelihood import PseudoLikelihood
from bayesfield.model.builders import grid
from bayesfield.model.prior import Normal
from bayesfield.samplers.exchange import Exchange
from bayesfield.samplers.langevin import Langevin
from bayesfield.samplers.metropolis import Metropolis

PAPERS: dict[str, Method] = {
    "BL-MP": fitted(engine=Exact(), response=Bethe()),
    "BL-BP": fitted(engine=Bethe()),
    "LV-CD": chained(Langevin(), warmup=1000, guess=20),
    "MC-BP": chained(Metropolis(Bethe()), warmup=5000, guess=250),
}
OURS: dict[str, Method] = {
    "Kikuchi + correction": fitted(engine=Kikuchi(), correction="auto"),
    "Sampled": fitted(engine=Sampled()),
    "PL naive": fitted(method=PseudoLikelihood(covariance="naive")),
    "PL sandwich": fitted(method=PseudoLikelihood()),
    "exchange": few_steps(Exchange()),
}
METHODS = {**PAPERS, **OURS}
TITLES = {
    "fig2": "Distance to the true posterior by number of cases",
    "fig3": f"Worst and best marginals, {cases.SHOWN:,} cases",
    "fig4": f"Distance to the true posterior by edge strength, no fields, {cases.CASES:,} cases",
    "fig5": f"Distance to the true posterior by edge strength, fields of 1, {cases.CASES:,} cases",
}


class GridComparison(Comparison):
    """One of the figures 2 to 5."""

    scales: ClassVar[Mapping[str, Any]] = SCALES

    def __init__(self, name: str) -> None:
        self.name, self.title, self.axis = name, TITLES[name], cases.axis(name)
        self.axis_label = {"N": "cases N", "d": "edge strength: couplings ±[d, d + 0.1]/4"}[self.axis]
        self.histograms = ("worst", "best") if name == "fig3" else ()

    @property
    def source(self) -> dict[str, str]:
        if self.axis == "N":
            return {"couplings and fields": "N(0, 0.25)"}
        return {"couplings": "±U([d, d + 0.1]/4)", "fields": "1" if self.name == "fig5" else "0"}

    def compared(self) -> Mapping[str, Method]:
        return METHODS

    @property
    def baselines(self) -> Sequence[str]:
        return list(PAPERS)

    @property
    def parameter_names(self) -> Sequence[str]:
        return grid(cases.SIDE, cases.SIDE).parameter_names

    def tasks(self, scale: Scale) -> list[cases.Case]:
        return cases.cases(self.name, scale.models)

    def practice(self) -> Problem:
        field, prior = grid(3, 3), Normal(variance=1.0)
        X = sample(field, np.zeros(field.n_parameters), 20, 0)
        return FieldProblem(field, X, prior, fit(field, X, prior, Exact(), correction="none"))

    def problem(self, task: cases.Case, seed: int) -> Problem:
        field, X, prior = task.make(seed)
        return FieldProblem(field, X, prior, fit(field, X, prior, Exact(), correction="none"))
