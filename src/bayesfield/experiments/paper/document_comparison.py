"""Figures 6 to 8: the posterior of a chain CRF on lines of files, by number of files; worst and best marginals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bayesfield.experiments.paper.comparison import Comparison
from bayesfield.experiments.paper.documents import (
    PRIOR_VARIANCE,
    data_folder,
    labelled_files,
    line_crf,
    line_sequences,
    source_of,
)
from bayesfield.experiments.paper.methods import (
    PAPER,
    QUICK,
    ChainProblem,
    Method,
    Problem,
    Scale,
    chained,
    exact_chains,
    fitted,
)
from bayesfield.fitting.sequences import fit_sequences
from bayesfield.model.prior import Normal
from bayesfield.samplers.exchange import Exchange
from bayesfield.samplers.langevin import Langevin
from bayesfield.samplers.metropolis import Metropolis
from bayesfield.samplers.moller import Moller

LINES = 100  # of a file
SIZES = (10, 20, 30, 40, 48)
SHOWN = {"fig7": 10, "fig8": 48}  # files behind the figures of marginals
PAPERS: dict[str, Method] = {
    "BL-MP": fitted(correction="none"),
    "LV-CD": chained(Langevin(), warmup=1000, guess=20),
    "Metropolis": exact_chains(Metropolis(), thin=200),
}
OURS: dict[str, Method] = {
    "BL-MP + correction": fitted(correction="variational"),
    "EP": fitted(method="ep"),
    "exchange": exact_chains(Exchange(), thin=250),
    "Møller": exact_chains(Moller(), thin=150, share=0.25),
}
METHODS = {**PAPERS, **OURS}
TITLES = {
    "fig6": f"Distance to the true posterior by number of files of {LINES} lines",
    **{name: f"Worst and best marginals, {files} files" for name, files in SHOWN.items()},
}


@dataclass(frozen=True)
class FileCase:
    """N files, drawn without replacement; model: which draw."""

    x: float
    model: int

    @property
    def name(self) -> str:
        return f"N{self.x:g}-model{self.model}"

    def seed(self, purpose: int, seed: int) -> np.random.SeedSequence:
        return np.random.SeedSequence([seed, 6, int(self.x), self.model, purpose])


class DocumentComparison(Comparison):
    """One of the figures 6 to 8. folder: of the data sets. There is one corpus: one draw of files for each N."""

    scales: ClassVar[Mapping[str, Any]] = {"quick": QUICK, "paper": replace(PAPER, models=1)}
    axis_label = "files N"

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self.name, self.folder = name, data_folder(folder)
        self.title = f"{TITLES[name]} ({source_of(self.folder)})"
        self.histograms = ("worst", "best") if name in SHOWN else ()

    @property
    def source(self) -> dict[str, str]:
        return {"data": source_of(self.folder), "features of a pair": "of its first line"}

    def compared(self) -> Mapping[str, Method]:
        return METHODS

    @property
    def baselines(self) -> Sequence[str]:
        return list(PAPERS)

    @property
    def parameter_names(self) -> Sequence[str]:
        return line_crf(labelled_files(self.folder, LINES)).parameter_names

    def tasks(self, scale: Scale) -> list[FileCase]:
        if self.histograms:
            return [FileCase(float(SHOWN[self.name]), 0)]
        return [FileCase(float(n), model) for n in reversed(SIZES) for model in range(scale.models)]

    def practice(self) -> Problem:
        return self._of([0])

    def problem(self, task: FileCase, seed: int) -> Problem:
        found = len(labelled_files(self.folder, LINES))
        return self._of(np.random.default_rng(task.seed(0, seed)).permutation(found)[: int(task.x)])

    def _of(self, chosen: Iterable[int]) -> Problem:
        files = labelled_files(self.folder, LINES)
        crf, prior = line_crf(files), Normal(variance=PRIOR_VARIANCE)
        data = line_sequences(crf, [files[k] for k in chosen], of_pair="first")
        return ChainProblem(crf, data, prior, fit_sequences(crf, data, prior=prior, correction="none"))
