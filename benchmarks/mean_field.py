"""Mean-field posteriors of chain CRFs: against NUTS on letters, and averaged predictions at corpus size.

    python -m benchmarks mean_field
    python -m benchmarks.mean_field letters [words …]
    python -m benchmarks.mean_field corpus [sentences …]

Letters: 200 words of other folds; log loss in nats a letter; total variation is between averaged marginals, its noise
between the two chains of NUTS, and between two sets of our draws. Corpus: benchmarks.corpus, weights that were seen.
"""

import resource
import sys
import time
from collections.abc import Iterator
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
from benchmarks.timing import Report, Watch

VARIANCES = (1.0, 0.3, 0.1)
DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"


APART, VARIATION, SECONDS = 0.05, 0.05, 20.0  # nats from NUTS; total variation beyond the noise; of the fit


def run(watch: Watch) -> list[Report]:
    if not DATA.exists():
        return []
    rows: list[tuple[Any, ...]] = []
    for f in compared([8] if watch.quick else [30, 100]):
        noise = max(f["chains"], f["draws"])
        good = f["ours"] - f["nuts"] <= APART and f["variation"] - noise <= VARIATION and f["seconds"] <= SECONDS
        losses = (f"{f[key]:.3f}" for key in ("plug_in", "ours", "nuts"))
        each = (f["variation"], f["chains"], f["draws"], f["seconds"], f["of_nuts"], good)
        rows.append((f"{f['words']} words, variance {f['variance']:g}", *losses, *each))
    columns = ("letters", "log loss plug-in", "mean-field", "NUTS", "total variation", "its noise, chains",
               "its noise, draws", "s", "NUTS s", "met")  # fmt: skip
    note = (
        f"target: log loss at most {APART} above that of NUTS, total variation at most {VARIATION} beyond the larger "
        f"noise, {SECONDS:g} s"
    )
    return [Report("Mean-field posteriors of letters against NUTS", columns, rows, (note,))]


def letters(counts: list[int]) -> None:
    for f in compared(counts):
        print(
            f"{f['words']} words, variance {f['variance']:g}: log loss plug-in {f['plug_in']:.3f}, mean-field "
            f"{f['ours']:.3f}, NUTS {f['nuts']:.3f}; total variation {f['variation']:.3f} (noise: chains "
            f"{f['chains']:.3f}, draws {f['draws']:.3f}); {f['seconds']:.1f} s, NUTS {f['of_nuts']:.0f} s",
            flush=True,
        )


def compared(counts: list[int]) -> Iterator[dict[str, Any]]:
    words = Words(DATA)
    rng = np.random.default_rng(0)
    test = words.sequences(rng.choice(words.others, 200, replace=False))
    for count in counts:
        train = words.sequences(rng.choice(words.first, count, replace=False))
        for variance in VARIANCES:
            yield {"words": count, "variance": variance, **_letters(words.crf, train, test, variance)}


def _letters(crf: Any, train: Sequences, test: Sequences, variance: float) -> dict[str, float]:
    prior, begun = bf.Normal(variance=variance), time.process_time()
    posterior = bf.fit_sequences(crf, train, prior=prior, form="mean-field", verbose=False)
    seconds = time.process_time() - begun
    usual, chain.POTENTIAL_DRAWS = chain.POTENTIAL_DRAWS, 400
    ours, again = (bf.predict_sequences(posterior, test, n_draws=400, rng=k).probabilities for k in (0, 1))
    chain.POTENTIAL_DRAWS = usual
    plug_in, begun = bf.predict_sequences(posterior, test, "map").probabilities, time.process_time()
    draws = bf.sample_sequences(crf, train, prior=prior, n_draws=200, chains=2, warmup=300, rng=0)
    halves = [bf.average_over(crf, own, test).probabilities for own in draws.values]
    truth = (halves[0] + halves[1]) / 2
    losses = [log_loss(p, test.labels) for p in (plug_in, ours, truth)]
    return {
        **dict(zip(("plug_in", "ours", "nuts"), losses, strict=True)),
        "variation": total_variation(ours, truth),
        "chains": total_variation(*halves),
        "draws": total_variation(ours, again),
        "seconds": seconds,
        "of_nuts": time.process_time() - begun,
    }


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
