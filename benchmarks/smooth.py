"""A prior that is smooth over the pixels, by evidence: letters of all words outside fold 0, learnt from fold 0.

    python -m benchmarks smooth
    python -m benchmarks.smooth [words]

words: of fold 0 to learn from, by default all 626. The independent prior's variance is by cross-validation, and both
are used at their modes. About three minutes of one core with all words, nearly all of it for the numbers of the smooth
prior.
"""

import sys
import time
from typing import Any

import numpy as np

import bayesfield as bf
from bayesfield.experiments.letters import Words
from bayesfield.model.conditional import Sequences
from benchmarks.mean_field import DATA, log_loss
from benchmarks.timing import Report, Watch

ROWS, COLUMNS = 16, 8  # pixels of a letter


ACCURACY = 0.82
_CROSS_VALIDATED = 200  # words, beyond which that many modes take long


def run(watch: Watch) -> list[Report]:
    if not DATA.exists():
        return []
    rows = letters(40 if watch.quick else None)
    columns = ("prior", "letter accuracy", "log loss", "processor s", "numbers", "met")
    note = f"words of fold 0 to learn from, all others held out, at the modes; target {ACCURACY:.0%} by evidence"
    return [Report("A prior smooth over pixels", columns, rows, (note,))]


def letters(count: int | None) -> list[tuple[Any, ...]]:
    words, rng = Words(DATA), np.random.default_rng(0)
    chosen = words.first if count is None else rng.choice(words.first, count, replace=False)
    train, test = words.sequences(chosen), words.sequences(words.others)
    places = np.indices((ROWS, COLUMNS)).reshape(2, -1).T.astype(np.float64)
    smooth = bf.Smooth(np.vstack([places, [[np.nan, np.nan]]]))  # the constant lies nowhere
    found = [
        _row("independent, variance by cross-validation", words, train, test, _independent),
        _row("smooth, all by evidence", words, train, test, lambda *_: smooth),
    ]
    if len(train) > _CROSS_VALIDATED:
        return found
    return [
        *found,
        _row(
            "smooth, all by cross-validation",
            words,
            train,
            test,
            lambda crf, data: bf.cross_validated_smooth(crf, data, prior=smooth).prior,
        ),
    ]


def _independent(crf: Any, data: Sequences) -> Any:
    return bf.Normal(variance=bf.cross_validated_variance(crf, data).variance)


def _row(name: str, words: Words, train: Sequences, test: Sequences, prior_of: Any) -> tuple[Any, ...]:
    begun = time.process_time()
    prior = prior_of(words.crf, train)
    posterior = bf.fit_sequences(words.crf, train, prior=prior, form="dense", correction="none", verbose=False)
    seconds = time.process_time() - begun
    found = bf.predict_sequences(posterior, test, "map")
    right, told = float((found.labels == test.labels).mean()), posterior.prior
    numbers = f"variance {told.variance:.3g}"
    if isinstance(told, bf.Smooth):
        numbers = f"length {told.length:.3g}, {numbers}, nugget {told.nugget:.2g}"
    met = right >= ACCURACY if "evidence" in name else None
    return name, f"{right:.4f}", f"{log_loss(found.probabilities, test.labels):.3f}", seconds, numbers, met


if __name__ == "__main__":
    for line in letters(int(sys.argv[1]) if len(sys.argv) > 1 else None):
        print(*line, sep="; ")
