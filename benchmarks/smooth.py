"""A prior that is smooth over the pixels, by evidence: letters of all words outside fold 0, learnt from fold 0.

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

ROWS, COLUMNS = 16, 8  # pixels of a letter


def letters(count: int | None) -> None:
    words, rng = Words(DATA), np.random.default_rng(0)
    chosen = words.first if count is None else rng.choice(words.first, count, replace=False)
    train, test = words.sequences(chosen), words.sequences(words.others)
    print(f"{len(train)} words of fold 0; {len(test):,} words of the others, {test.positions:,} letters", flush=True)
    begun = time.process_time()
    variance = bf.cross_validated_variance(words.crf, train).variance
    _print(f"independent, variance {variance:g} by cross-validation", words, train, test, bf.Normal(variance), begun)
    places = np.indices((ROWS, COLUMNS)).reshape(2, -1).T.astype(np.float64)
    smooth = bf.Smooth(np.vstack([places, [[np.nan, np.nan]]]))  # the constant lies nowhere
    _print("smooth, all by evidence", words, train, test, smooth, time.process_time())


def _print(name: str, words: Words, train: Sequences, test: Sequences, prior: Any, begun: float) -> None:
    posterior = bf.fit_sequences(words.crf, train, prior=prior, form="dense", correction="none", verbose=False)
    seconds = time.process_time() - begun
    found = bf.predict_sequences(posterior, test, "map")
    right = float((found.labels == test.labels).mean())
    print(
        f"{name}: letter accuracy {right:.4f}, log loss {log_loss(found.probabilities, test.labels):.3f} at the mode; "
        f"{seconds:.0f} s",
        flush=True,
    )
    if posterior.record.prior is not None:
        print(f"    {posterior.record.prior}", flush=True)


if __name__ == "__main__":
    letters(int(sys.argv[1]) if len(sys.argv) > 1 else None)
