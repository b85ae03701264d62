"""A CRF that goes on with five batches, against a refit of all sentences so far: F1, log loss, processor time.

    python -m benchmarks updates
    python -m benchmarks.updates [sentences of a batch] [test sentences] [variance]

benchmarks.corpus with the weights that were seen, so that new attributes, and new labels, come with every batch.
``BayesianCRF.partial_fit`` of a batch, with the reading of its features, against ``BayesianCRF.fit`` of all batches
until then; one core, processor seconds. Plug-in: predictor "map"; averaged: "marginal".
"""

import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import bayesfield as bf
from bayesfield import parallel
from benchmarks.corpus import Corpus, corpus, f1
from benchmarks.mean_field import log_loss
from benchmarks.timing import Report, Watch

BATCHES = 5
F1, LOSS, SHARE = 0.3, 0.01, 0.3  # of a refit's F1, log loss and time


def run(watch: Watch) -> list[Report]:
    sizes = (30, 60, 0.5) if watch.quick else (200, 1000, 0.5)
    rows: list[tuple[Any, ...]] = []
    for k, (update, refit, ours, theirs) in enumerate(steps(*sizes)):
        for what in ours:
            (loss, score), (other_loss, other_score) = ours[what], theirs[what]
            met = loss - other_loss <= LOSS and score - other_score >= -F1 and (k == 0 or update <= SHARE * refit)
            rows.append(
                (f"{(k + 1) * sizes[0]:,}: {what}", update, refit, update / refit, f"{loss - other_loss:+.4f}",
                 f"{score - other_score:+.2f}", met)
            )  # fmt: skip
    columns = ("sentences", "update s", "refit s", "ratio", "log loss against a refit's", "F1 against a refit's", "met")
    note = f"target: F1 within {F1}, log loss within {LOSS}, {SHARE} of its time from the second batch on"
    return [Report("A tagger that goes on with new sentences", columns, rows, (note,))]


def main(sentences: int = 200, test_sentences: int = 1000, variance: float = 0.5) -> None:
    total = np.zeros(2)
    for k, (update, refit, ours, theirs) in enumerate(steps(sentences, test_sentences, variance)):
        print(f"batch {k + 1}: {update:.2f} s, refit {refit:.2f} s ({update / refit:.2f} ×)")
        for what in ours:
            a, b = ours[what], theirs[what]
            print(
                f"    {what}: log loss {a[0]:.4f}, refit {b[0]:.4f} ({a[0] - b[0]:+.4f}); F1 {a[1]:.2f}, refit "
                f"{b[1]:.2f} ({a[1] - b[1]:+.2f})",
                flush=True,
            )
        total += (update, refit) if k else (0.0, 0.0)
    print(f"batches 2 to {BATCHES}: updates {total[0]:.1f} s, refits {total[1]:.1f} s, {total[0] / total[1]:.2f} ×")


Judged = dict[str, tuple[float, float]]


def steps(sentences: int, test_sentences: int, variance: float) -> Iterator[tuple[float, float, Judged, Judged]]:
    """After every batch: seconds of the update and of a refit, and how well both predict."""
    parallel.limit(1)
    text, test = corpus(BATCHES * sentences, 1), corpus(test_sentences, 2)
    X, y, held_out = text.features(), text.labels, test.features()
    warm = _crf(variance).fit(X[:20], y[:20]).partial_fit(X[20:40], y[20:40])
    _judged(warm, held_out[:20], Corpus(test.words[:20], test.tags[:20], test.labels[:20]))
    going = _crf(variance)
    for k in range(BATCHES):
        first, last = k * sentences, (k + 1) * sentences
        begun = time.process_time()
        going.partial_fit(X[first:last], y[first:last])
        update = time.process_time() - begun
        begun = time.process_time()
        again = _crf(variance).fit(X[:last], y[:last])
        refit = time.process_time() - begun
        yield update, refit, _judged(going, held_out, test), _judged(again, held_out, test)


def _crf(variance: float) -> Any:
    return bf.BayesianCRF(variance, possible="seen", verbose=False)


def _judged(crf: Any, X: Any, test: Corpus) -> dict[str, tuple[float, float]]:
    """Log loss in nats a token, and F1 of chunks; labels that training never showed are left out of the loss."""
    number = {label: k for k, label in enumerate(crf.classes_)}
    wanted = np.array([number.get(label, -1) for labels in test.labels for label in labels])
    result = {}
    for name, predictor in (("plug-in", "map"), ("averaged", "marginal")):
        crf.predictor = predictor
        prediction, data = crf._predicted(X)
        labels = np.array(crf.classes_, dtype=object)[prediction.labels]
        predicted = [labels[a:b].tolist() for a, b in zip(data.ptr[:-1], data.ptr[1:], strict=True)]
        result[name] = log_loss(prediction.probabilities, wanted), f1(test.labels, predicted)
    return result


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(*(int(word) for word in arguments[:2]), *(float(word) for word in arguments[2:]))
