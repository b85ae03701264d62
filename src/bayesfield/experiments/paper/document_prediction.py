"""``reproduce faq``: every predictor on labelled lines; 20 files to learn from, 30 to label, ten splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from bayesfield import plots
from bayesfield.experiments.contract import Experiment, cell
from bayesfield.experiments.paper import predictors
from bayesfield.experiments.paper.documents import (
    PRIOR_VARIANCE,
    data_folder,
    labelled_files,
    line_crf,
    line_sequences,
    source_of,
)
from bayesfield.experiments.paper.predictors import Predictor, predicted, score_table, scores
from bayesfield.fitting.sequences import fit_sequences
from bayesfield.learning.baselines.max_margin import max_margin
from bayesfield.model.prior import Normal

if TYPE_CHECKING:
    from bayesfield.experiments.store import Store

PREDICTORS: dict[str, Predictor] = {
    **predictors.PREDICTORS,
    "quadratic, distance 3": ("corrected", {"predictor": "quadratic", "distance": 3}),
    "EP": ("EP", {"predictor": "marginal"}),
}


@dataclass(frozen=True)
class SplitScale:
    """splits: of the files into those to learn from and those to label. lines: of a file."""

    name: str
    splits: int
    lines: int
    train: int = 20
    test: int = 30


@dataclass(frozen=True)
class Split:
    number: int

    @property
    def name(self) -> str:
        return f"split{self.number}"


class DocumentPrediction(Experiment):
    """folder: of the data sets."""

    name = "faq"
    scales: ClassVar[Mapping[str, Any]] = {
        "quick": SplitScale("quick", 2, 200),
        "paper": SplitScale("paper", 10, 500),
    }

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = data_folder(folder)
        self.title = f"Labels of lines, 20 files to learn from ({source_of(self.folder)})"

    @property
    def source(self) -> dict[str, str]:
        return {"data": source_of(self.folder)}

    def tasks(self, scale: SplitScale) -> Sequence[Split]:
        return [Split(k) for k in range(scale.splits)]

    def methods(self, task: Split) -> Sequence[str]:
        return list(PREDICTORS)

    def run(self, task: Split, scale: SplitScale, store: Store, seed: int) -> None:
        files = labelled_files(self.folder, scale.lines)
        order = np.random.default_rng(seed + task.number).permutation(len(files))
        crf, prior = line_crf(files), Normal(variance=PRIOR_VARIANCE)
        train = line_sequences(crf, [files[k] for k in order[: scale.train]])
        test = line_sequences(crf, [files[k] for k in order[scale.train :][: scale.test]])
        assert test.labels is not None
        posteriors = {
            "Laplace": cache(lambda: fit_sequences(crf, train, prior=prior, correction="none")),
            "corrected": cache(lambda: fit_sequences(crf, train, prior=prior, correction="variational")),
            "EP": cache(lambda: fit_sequences(crf, train, prior=prior, method="ep")),
            "max margin": cache(lambda: max_margin(crf, train, variance=PRIOR_VARIANCE)),
        }
        for name, predictor in PREDICTORS.items():
            if store.has(cell(task, name)):
                continue
            found, seconds = predicted(posteriors, predictor, test)
            row = {"method": name, "split": task.number, **scores(found, test.labels), **seconds}
            store.put(cell(task, name), [{**row, "status": str(found.status)}])

    def draw(self, table: pd.DataFrame, store: Store) -> plots.Figure:
        return plots.predictor_scores(table, {"error": "error", "log_loss": "log loss, nats"})

    def shown(self, table: pd.DataFrame) -> pd.DataFrame:
        columns = {"error": ".2%", "log_loss": ".4f", "calibration": ".4f", "unsettled": ".4f", "seconds": ".2f"}
        found = score_table(table, ["method"], columns)
        found.attrs["title"] = f"means over {table['split'].nunique()} splits"
        return found
