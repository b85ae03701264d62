"""Mean-field posteriors of chain CRFs: against NUTS on letters, and averaged predictions at corpus size.

    python -m benchmarks.mean_field letters [words …]
    python -m benchmarks.mean_field corpus [sentences …]

Letters: 200 words of other folds; log loss in nats a letter; total variation is between averaged marginals, its noise
between the two chains of NUTS, and between two sets of our draws. Corpus: benchmarks.corpus, weights that were seen.
"""

import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import bayesfield as bf
from bayesfield.experiments.letters import Words
from bayesfield.experiments.paper.predictors import total_variation
from bayesfield.model.conditional import Sequences
from bayesfield.prediction import chain
from benchmarks.chunking import problem, sequences_of
from benchmarks.corpus import SENTENCES, TEST, corpus, f1

VARIANCES = (1.0, 0.3, 0.1)
DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"


def letters(counts: list[int]) -> None:
    words = Words(DATA)
    rng = np.random.default_rng(0)
    test = words.sequences(rng.choice(words.others, 200, replace=False))
    for count in counts:
        train = words.sequences(rng.choice(words.first, count, replace=False))
        for variance in VARIANCES:
            _letters(words.crf, train, test, variance, count)


def _letters(crf: Any, train: Sequences, test: Sequences, variance: float, count: int) -> None:
    prior, begun = bf.Normal(variance=variance), time.process_time()
    posterior = bf.fit_sequences(crf, train, prior=prior, form="mean-field", verbose=False)
    seconds = time.process_time() - begun
    chain.POTENTIAL_DRAWS = 400
    ours, again = (bf.predict_sequences(posterior, test, n_draws=400, rng=k).probabilities for k in (0, 1))
    plug_in, begun = bf.predict_sequences(posterior, test, "map").probabilities, time.process_time()
    draws = bf.sample_sequences(crf, train, prior=prior, n_draws=200, chains=2, warmup=300, rng=0)
    halves = [bf.average_over(crf, own, test).probabilities for own in draws.values]
    truth = (halves[0] + halves[1]) / 2
    losses = [log_loss(p, test.labels) for p in (plug_in, ours, truth)]
    print(
        f"{count} words, variance {variance:g}: log loss plug-in {losses[0]:.3f}, mean-field {losses[1]:.3f}, NUTS "
        f"{losses[2]:.3f}; total variation {total_variation(ours, truth):.3f} (noise: chains "
        f"{total_variation(*halves):.3f}, draws {total_variation(ours, again):.3f}); norm of the mean "
        f"{np.linalg.norm(posterior.mean):.1f}, NUTS {np.linalg.norm(draws.flat.mean(axis=0)):.1f}; {seconds:.1f} s, "
        f"NUTS {time.process_time() - begun:.0f} s",
        flush=True,
    )


def text(counts: list[int], variance: float = 0.5) -> None:
    for sentences in counts:
        (crf, data), known, _ = problem(sentences)
        test = corpus(TEST, 2)
        inputs = sequences_of(crf, known, test.features(), None)
        number = {label: k for k, label in enumerate(crf.labels)}
        wanted = np.array([number.get(label, -1) for labels in test.labels for label in labels])
        begun, prior = time.process_time(), bf.Normal(variance=variance)
        mode = bf.fit_sequences(crf, data, prior=prior, correction="none", verbose=False)
        searched = time.process_time() - begun
        posterior = bf.fit_sequences(crf, data, prior=prior, start=mode.mode, verbose=False)
        corrected = time.process_time() - begun - searched
        for predictor in ("map", "marginal"):
            begun = time.process_time()
            found = bf.predict_sequences(posterior, inputs, predictor)
            seconds = time.process_time() - begun
            names = np.array(crf.labels)[found.labels]
            predicted = [names[a:b].tolist() for a, b in zip(inputs.ptr[:-1], inputs.ptr[1:], strict=True)]
            print(
                f"{sentences:,} sentences, {crf.n_parameters:,} weights, {predictor}: log loss "
                f"{log_loss(found.probabilities, wanted):.4f}, calibration error "
                f"{calibration_error(found.probabilities, wanted):.4f}, F1 {f1(test.labels, predicted):.2f}; "
                f"{seconds:.1f} s",
                flush=True,
            )
        print(
            f"    mode {searched:.0f} s, correction after it {corrected:.0f} s ({corrected / searched:.1f} ×), "
            f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB; {posterior.record.correction}",
            flush=True,
        )


def log_loss(p: np.ndarray, labels: np.ndarray) -> float:
    """Labels that training never showed are left out."""
    known = labels >= 0
    return float(-np.log(np.maximum(p[known, labels[known]], 1e-300)).mean())


def calibration_error(p: np.ndarray, labels: np.ndarray, bins: int = 15) -> float:
    """Of the likeliest label: mean distance of its probability and its share of being right, by bins."""
    top, right = p.max(axis=1), p.argmax(axis=1) == labels
    which = np.minimum((top * bins).astype(int), bins - 1)
    gaps = [abs(top[which == b].sum() - right[which == b].sum()) for b in range(bins)]
    return float(sum(gaps) / len(top))


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[2:]]
    if sys.argv[1] == "letters":
        letters(numbers or [30, 100])
    else:
        text(numbers or [500, 2000, SENTENCES])
