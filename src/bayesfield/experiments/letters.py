"""``reproduce ocr``: handwritten words, 26 letters, 16×8 pixels and a constant, 4,030 parameters.

Three kinds of task. *predictors*: n words of fold 0 to learn from, the prior variance by cross-validation, every
predictor on words of the other folds. *sampled*: the same with a given variance, against the average over a long NUTS
run on the same exact density. *fold*: all of fold 0, and all words of the other nine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from bayesfield import plots
from bayesfield.analysis.validation.cross_validation import cross_validated_variance
from bayesfield.experiments.contract import Experiment, cell
from bayesfield.experiments.paper.documents import data_folder
from bayesfield.experiments.paper.predictors import (
    PREDICTORS,
    Predictor,
    predicted,
    score_table,
    scores,
    total_variation,
)
from bayesfield.fitting.sequences import fit_sequences
from bayesfield.learning.baselines.max_margin import max_margin
from bayesfield.model.conditional import CRF, Sequences, as_sequences
from bayesfield.model.prior import Normal
from bayesfield.prediction.chain import average_over, predict_sequences
from bayesfield.samplers.sample import sample_sequences
from bayesfield.types import InvalidInput

if TYPE_CHECKING:
    from bayesfield.experiments.store import Store
    from bayesfield.prediction.tally import Prediction

LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MANY = 4000  # draws: with 500 most of the distance is their own noise
AGAINST: dict[str, Predictor] = {
    "NUTS": ("", {}),
    "MAP": ("Laplace", {"predictor": "map"}),
    "marginal, Laplace": ("Laplace", {"predictor": "marginal", "n_draws": _MANY}),
    "marginal": ("corrected", {"predictor": "marginal", "n_draws": _MANY}),
}
Posteriors = dict[str, Callable[[], Any]]


@dataclass(frozen=True)
class LetterScale:
    """words: to learn from, for the predictors. sampled, variances: for the comparison with NUTS. test: words."""

    name: str
    words: tuple[int, ...]
    sampled: tuple[int, ...]
    variances: tuple[float, ...]
    test: int
    draws: int  # of each of two NUTS chains


@dataclass(frozen=True)
class LetterTask:
    """kind: "predictors", "sampled" or "fold"."""

    kind: str
    words: int
    variance: float | None = None

    @property
    def name(self) -> str:
        given = "" if self.variance is None else f"-variance{self.variance:g}"
        return f"{self.kind}-words{self.words}{given}"


class LetterPrediction(Experiment):
    """folder: of the data sets."""

    name = "ocr"
    title = "Letters of handwritten words"
    scales: ClassVar[Mapping[str, Any]] = {
        "quick": LetterScale("quick", (10,), (), (), 100, 0),
        "paper": LetterScale("paper", (10, 30, 100, 300), (30, 100), (1.0, 0.3, 0.1), 300, _MANY // 2),
    }

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = data_folder(folder)
        if self.folder is None or not _file(self.folder).exists():
            raise InvalidInput(
                "the letters are not here: give --data, or set BAYESFIELD_DATA, to the folder that holds "
                "ocr_letters/ocr_letters.npz"
            )

    def tasks(self, scale: LetterScale) -> Sequence[LetterTask]:
        against = [LetterTask("sampled", n, v) for n in reversed(scale.sampled) for v in scale.variances]
        return [LetterTask("fold", 0), *against, *(LetterTask("predictors", n) for n in reversed(scale.words))]

    def methods(self, task: LetterTask) -> Sequence[str]:
        return {"predictors": list(PREDICTORS), "sampled": list(AGAINST), "fold": ["MAP"]}[task.kind]

    def run(self, task: LetterTask, scale: LetterScale, store: Store, seed: int) -> None:
        words = Words(self.folder)
        rng = np.random.default_rng([seed, task.words])
        chosen = rng.permutation(words.first)[: task.words or None]
        others = rng.permutation(words.others)[: scale.test if task.words else None]
        train, test = words.sequences(chosen), words.sequences(others)
        begun = time.process_time()
        variance = task.variance or cross_validated_variance(words.crf, train).variance
        about = {"task": task.kind, "words": len(train), "variance": variance}
        posteriors = _posteriors(words.crf, train, variance)
        if task.kind == "fold":
            found = predict_sequences(posteriors["MAP"](), test, "map")
            self._keep(store, task, "MAP", about, found, test, {"seconds": round(time.process_time() - begun, 2)})
        elif task.kind == "predictors":
            for name, predictor in PREDICTORS.items():
                if not store.has(cell(task, name)):
                    found, seconds = predicted(posteriors, predictor, test)
                    self._keep(store, task, name, about, found, test, seconds)
        else:
            self._against(store, task, scale, words.crf, (train, test), posteriors, about, seed)

    def _against(
        self,
        store: Store,
        task: LetterTask,
        scale: LetterScale,
        crf: CRF,
        data: tuple[Sequences, Sequences],
        posteriors: Posteriors,
        about: dict[str, Any],
        seed: int,
    ) -> None:
        """NUTS's average first, and then how far the others are from it; NUTS itself: its chains from one another."""
        (train, test), begun = data, time.process_time()
        draws = sample_sequences(
            crf,
            train,
            prior=Normal(variance=about["variance"]),
            n_draws=scale.draws,
            chains=2,
            warmup=500,
            rng=seed,
        )
        truth = average_over(crf, draws.flat, test)
        halves = [average_over(crf, own, test).probabilities for own in draws.values]
        about = {**about, "nuts_mpsrf": float(np.nanmax(draws.summary()["r_hat"]))}
        seconds = {"seconds": 0.0, "fit_seconds": round(time.process_time() - begun, 2)}
        self._keep(store, task, "NUTS", {**about, "distance": total_variation(*halves)}, truth, test, seconds)
        for name, predictor in AGAINST.items():
            if name != "NUTS" and not store.has(cell(task, name)):
                found, seconds = predicted(posteriors, predictor, test)
                far = total_variation(found.probabilities, truth.probabilities)
                self._keep(store, task, name, {**about, "distance": far}, found, test, seconds)

    def _keep(
        self,
        store: Store,
        task: LetterTask,
        name: str,
        about: dict[str, Any],
        prediction: Prediction,
        test: Sequences,
        seconds: dict[str, Any],
    ) -> None:
        assert test.labels is not None
        row = {"method": name, **about, **scores(prediction, test.labels), **seconds}
        store.put(cell(task, name), [{**row, "status": str(prediction.status)}])

    def draw(self, table: pd.DataFrame, store: Store) -> plots.Figure:
        shown = table[table["task"] == "predictors"]
        return plots.predictor_curves(
            shown, "words", {"error": "error", "log_loss": "log loss, nats", "calibration": "calibration error"}
        )

    def shown(self, table: pd.DataFrame) -> pd.DataFrame:
        columns = {"variance": "g", "error": ".1%", "log_loss": ".3f", "calibration": ".3f", "seconds": ".1f"}
        if "distance" in table:
            columns["distance"] = ".3f"
        found = score_table(table, ["task", "words", "variance", "method"], columns).drop(columns="variance")
        found.attrs["title"] = "words of the other folds; distance: mean total variation from NUTS; NUTS: its chains"
        return found


class Words:
    """All words. first: those of fold 0; others: of the rest."""

    def __init__(self, folder: Path | None) -> None:
        assert folder is not None
        with np.load(_file(folder), allow_pickle=False) as file:
            pixels = np.unpackbits(file["pixels_packed"], axis=1).astype(np.float64)
            self._labels, folds = file["labels"], file["folds"]
            self._ptr = np.concatenate([[0], np.cumsum(file["lengths"].astype(np.int64))])
        self._inputs = np.concatenate([pixels, np.ones((len(pixels), 1))], axis=1)
        self.first, self.others = np.flatnonzero(folds == 0), np.flatnonzero(folds != 0)
        self.crf = CRF(LETTERS, [*(f"pixel{k}" for k in range(pixels.shape[1])), "constant"])

    def sequences(self, words: np.ndarray) -> Sequences:
        spans = [slice(self._ptr[k], self._ptr[k + 1]) for k in words]
        labels = [[LETTERS[c] for c in self._labels[own]] for own in spans]
        return as_sequences(self.crf, [self._inputs[own] for own in spans], labels)


def _posteriors(crf: CRF, train: Sequences, variance: float) -> Posteriors:
    prior = Normal(variance=variance)
    return {
        "Laplace": cache(lambda: fit_sequences(crf, train, prior=prior, correction="none")),
        "corrected": cache(lambda: fit_sequences(crf, train, prior=prior, correction="variational")),
        "max margin": cache(lambda: max_margin(crf, train, variance=variance)),
        "MAP": cache(lambda: fit_sequences(crf, train, prior=prior, form="block")),
    }


def _file(folder: Path) -> Path:
    return folder / "ocr_letters" / "ocr_letters.npz"
