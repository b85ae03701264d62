"""What to label next: F1 by the number of labels, for sentences chosen by each strategy and at random.

    python -m benchmarks active
    python -m benchmarks.active [first] [last] [batch] [seeds] [test sentences] [pool sentences] [strategies …]

benchmarks.corpus: from ``first`` sentences that are labelled, always ``batch`` more of a pool of unlabelled ones until
``last``; a fit of all labelled ones each time (weights that were seen, variance 0.5, mean-field). Every seed has
sentences of its own; the test sentences are the same. Labels needed: at what number of tokens, and of sentences, a
strategy's F1, averaged over the seeds, first reaches that of random sentences at the end, between two batches by a
line. A strategy may be followed by what its scores are by, as in entropy:sequence. Newswire, where it was fetched
(benchmarks.real_data), and the synthetic corpus.
"""

import os
import sys
import time
from typing import Any

import numpy as np

import bayesfield as bf
from bayesfield import parallel
from bayesfield.formats.crfsuite import rows_of, vocabulary
from bayesfield.model.conditional import CRF, Sequences, from_rows, seen_weights
from benchmarks import real_data
from benchmarks.corpus import Corpus, corpus, f1
from benchmarks.timing import Report, Watch

STRATEGIES = ("random", "reduction", "unsettled", "entropy", "least_confidence", "diverse")
VARIANCE = 0.5


TARGET = 0.7  # of what random sentences need


def run(watch: Watch) -> list[Report]:
    """Five seeds; every strategy with the same sentences."""
    counts, seeds, tests, pool = ((50, 150, 50), 1, 100, 300) if watch.quick else ((50, 500, 50), 5, 1000, 1500)
    texts = {"a synthetic corpus": ""}
    if real_data.has_text() and not watch.quick:
        texts |= {f"newswire with its {name}": name for name in real_data.TEXTS}
    found, before = [], os.environ.get("BAYESFIELD_TEXT", "")
    for title, text in texts.items():
        if not watch.wants(title):
            continue
        os.environ["BAYESFIELD_TEXT"] = text
        watch.tell(f"active, {title}")
        curves = {name: _averaged(name, seeds, counts, corpus(tests, 2), pool) for name in ("random", *SHORT)}
        found.append(_report(title, curves, seeds))
    os.environ["BAYESFIELD_TEXT"] = before
    return found


SHORT = ("reduction", "unsettled", "least_confidence")


def _report(title: str, curves: dict[str, np.ndarray], seeds: int) -> Report:
    end = curves["random"][-1]
    rows: list[tuple[Any, ...]] = []
    for name, curve in curves.items():
        sentences, tokens = (_reached(curve[:, k], curve[:, 2], end[2]) / end[k] for k in (0, 1))
        met = None if name != "reduction" else bool(min(sentences, tokens) <= TARGET)
        rows.append((name, sentences, tokens, f"{curve[-1, 2]:.2f}", int(curve[-1, 1]), met))
    columns = ("strategy", "× the sentences", "× the tokens", "F1 at the end", "tokens at the end", "met")
    note = (
        f"to reach the F1 of {end[0]:.0f} random sentences, {end[2]:.2f}, with {end[1]:,.0f} tokens; mean of {seeds} "
        f'seeds; target {TARGET} for the default, "reduction", of sentences or of tokens'
    )
    return Report(f"What to label next, {title}", columns, rows, (note,))


def _averaged(name: str, seeds: int, counts: tuple[int, int, int], test: Corpus, pool: int) -> np.ndarray:
    """(rounds, 3): sentences, tokens, F1."""
    return np.array([_curve(name, seed, counts, test, pool) for seed in range(seeds)]).mean(axis=0)


def main(
    first: int = 50,
    last: int = 500,
    batch: int = 25,
    seeds: int = 5,
    tests: int = 1000,
    pool: int = 1500,
    strategies: tuple[str, ...] = STRATEGIES,
) -> None:
    parallel.limit(1)
    test = corpus(tests, 2)
    curves = {}
    for name in dict.fromkeys(("random", *strategies)):
        begun = time.process_time()
        curves[name] = _averaged(name, seeds, (first, last, batch), test, pool)
        points = ", ".join(f"{n:.0f}: {score:.2f}" for n, _, score in curves[name])
        print(f"{name}: F1 by sentences {points}; {time.process_time() - begun:.0f} s", flush=True)
    goal, end = curves["random"][-1, 2], curves["random"][-1]
    print(f"random sentences end at F1 {goal:.2f} with {end[0]:.0f} sentences, {end[1]:,.0f} tokens")
    for name, curve in curves.items():
        shares = [_reached(curve[:, k], curve[:, 2], goal) / end[k] for k in (0, 1)]
        print(
            f"{name}: {shares[0]:.2f} × the sentences, {shares[1]:.2f} × the tokens; ends at F1 {curve[-1, 2]:.2f} "
            f"with {curve[-1, 1]:,.0f} tokens"
        )


def _curve(strategy: str, seed: int, counts: tuple[int, int, int], test: Corpus, pool: int) -> list[tuple[float, ...]]:
    """(sentences, tokens, F1) after every batch."""
    first, last, batch = counts
    text = corpus(pool, 100 + seed)
    X = text.features()
    names = vocabulary(X)
    whole = CRF(sorted({label for labels in text.labels for label in labels}), list(names))
    data = from_rows(whole, *rows_of(X, names), text.labels)
    held_out = from_rows(whole, *rows_of(test.features(), names))
    rng = np.random.default_rng(seed)
    labelled = np.zeros(pool, dtype=bool)
    labelled[rng.choice(pool, first, replace=False)] = True
    result = []
    while True:
        chosen = data.chosen(labelled)
        crf = whole.with_seen(seen_weights(whole, chosen))
        prior = bf.Normal(variance=VARIANCE)
        posterior = bf.fit_sequences(crf, chosen, prior=prior, form="mean-field", verbose=False)
        result.append((float(labelled.sum()), float(chosen.positions), _f1(posterior, held_out, test)))
        left = np.flatnonzero(~labelled)
        count = min(batch, last - int(labelled.sum()))
        if count <= 0:
            return result
        if strategy == "random":
            new = rng.choice(len(left), count, replace=False)
        else:
            name, _, per = strategy.partition(":")
            options: Any = {"per": per} if per else {}
            new = bf.query(posterior, data.chosen(~labelled), count, name, **options)  # type: ignore[arg-type]
        labelled[left[new]] = True


def _f1(posterior: Any, inputs: Sequences, test: Corpus) -> float:
    found = bf.predict_sequences(posterior, inputs)
    labels = np.array(posterior.field.visible)[found.labels]
    return f1(test.labels, [labels[a:b].tolist() for a, b in zip(inputs.ptr[:-1], inputs.ptr[1:], strict=True)])


def _reached(count: np.ndarray, score: np.ndarray, goal: float) -> float:
    """The count at which the score first is at the goal; infinite where it never is."""
    over = np.flatnonzero(score >= goal)
    if not len(over):
        return float("inf")
    k = int(over[0])
    if k == 0:
        return float(count[0])
    share = (goal - score[k - 1]) / (score[k] - score[k - 1])
    return float(count[k - 1] + share * (count[k] - count[k - 1]))


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:7]]
    main(*numbers, **({"strategies": tuple(sys.argv[7:])} if sys.argv[7:] else {}))
