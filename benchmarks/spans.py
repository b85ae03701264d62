"""Entities as wholes: do their probabilities come true, do they find what is wrong, and does expected F1 help?

    python -m benchmarks.spans [training sentences] [test sentences]

benchmarks.corpus, weights that were seen, prior variance 0.5, python-crfsuite on the same features with c2 = 1 beside
it. Then sentences of another domain: does "unsettled", the part of the doubt that is due to the weights, know them?
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import bayesfield as bf
from bayesfield.analysis.spans import found_spans
from bayesfield.estimators.shapes import unseen_attributes
from bayesfield.prediction.chain import predict_with_unseen
from bayesfield.prediction.spans.predict import best_spans, spans_of_labels
from bayesfield.prediction.spans.schemes import Scheme
from benchmarks.chunking import VARIANCE, problem, sequences_of
from benchmarks.corpus import Corpus, corpus
from benchmarks.mean_field import log_loss

BINS = 15

_Row = tuple[str, float, float, float]  # name, F1, calibration error, AUROC of what is wrong


def main(sentences: int, tests: int) -> None:
    begun = time.process_time()
    posterior, crf, known, text = fitted(sentences)
    held_out = corpus(tests, 2)
    inputs = sequences_of(crf, known, held_out.features())
    print(
        f"{sentences:,} training sentences, {crf.n_parameters:,} weights, temperature {posterior.temperature:g}, in "
        f"{time.process_time() - begun:.0f} s of processor time"
    )
    print(f"{tests:,} test sentences, {inputs.positions:,} tokens\n")
    print("spans, probabilities                    |  F1    | calibration error | AUROC of wrong spans")
    for name, score, gap, area in compared(posterior, crf, known, text, held_out):
        print(f"{name:39} | {score:6.2f} | {gap:17.4f} | {area:20.4f}", flush=True)
    begun = time.process_time()
    best = bf.n_best_sequences(posterior, inputs, 5)
    first = [(own[0].probability, own[0].labels) for own in best]
    there = [[crf.labels[k] for k in labels] == list(y) for (_, labels), y in zip(first, held_out.labels, strict=True)]
    gap = _gap(np.array([p for p, _ in first]), np.array(there))
    print(
        f"\nfive best labellings of each sentence: {time.process_time() - begun:.1f} s; the likeliest is right for "
        f"{np.mean(there):.1%} of the sentences, calibration error {gap:.3f}"
    )
    _other_domains(posterior, crf, known, held_out, tests)


def fitted(sentences: int) -> tuple[bf.Posterior, Any, Any, Any]:
    """With the temperature that BayesianCRF would choose; its model, the attributes' numbers, the text."""
    (crf, data), known, text = problem(sentences)
    prior = bf.Normal(variance=VARIANCE)
    posterior = bf.fit_sequences(crf, data, prior=prior, form="mean-field", verbose=False)
    chosen = bf.cross_validated_temperature(crf, data, prior=prior, splits=1)
    return posterior.at_temperature(chosen.temperature), crf, known, text


def compared(posterior: bf.Posterior, crf: Any, known: Any, text: Any, held_out: Corpus) -> list[_Row]:
    """Of the mode, of averages at the posterior's temperature and at 1, and of crfsuite."""
    inputs, rows = sequences_of(crf, known, held_out.features()), []
    for name, at, predictor in (
        ("mode", posterior, "map"),
        ("averaged", posterior, "auto"),
        ("averaged at temperature 1", posterior.at_temperature(1.0), "auto"),
    ):
        draws = 0 if predictor == "map" else 100
        found = bf.predict_sequences(at, inputs, predictor)
        of_labels = spans_of_labels(at, inputs, found.labels, draws)
        rows.append(_row(f"{name}: labels, whole", of_labels, held_out))
        rows.append(_row(f"{name}: labels, product", _by_tokens(of_labels, found, inputs, np.prod), held_out))
        rows.append(_row(f"{name}: labels, minimum", _by_tokens(of_labels, found, inputs, np.min), held_out))
        rows.append(_row(f"{name}: expected F1, whole", best_spans(at, inputs, draws), held_out))
    return [*rows, *_crfsuite(text, held_out)]


def _row(name: str, spans: list[list[bf.Span]], text: Any) -> _Row:
    p, right = _judged(spans, text)
    return name, 100 * bf.span_scores(spans, text.labels).f1, _gap(p, right), _auroc(1 - p, ~right)


def _judged(spans: list[list[bf.Span]], text: Any) -> tuple[np.ndarray, np.ndarray]:
    return np.array([s.probability for own in spans for s in own]), found_spans(spans, text.labels)


def _gap(p: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error: mean distance of predicted and observed over bins, by their counts."""
    which = np.minimum((p * BINS).astype(int), BINS - 1)
    gaps = [abs(p[which == b].sum() - right[which == b].sum()) for b in range(BINS)]
    return float(sum(gaps) / max(len(p), 1))


def _auroc(score: np.ndarray, positive: np.ndarray) -> float:
    """The probability that a positive has the larger score."""
    n, m = positive.sum(), (~positive).sum()
    ranks = stats.rankdata(score)
    return float((ranks[positive].sum() - n * (n + 1) / 2) / max(n * m, 1))


def _by_tokens(spans: list[list[bf.Span]], found: bf.Prediction, inputs: Any, joined: Any) -> list[list[bf.Span]]:
    """The same spans with a probability made of their tokens' marginals."""
    each = found.probabilities[np.arange(len(found.labels)), found.labels]
    return [
        [span._replace(probability=float(joined(each[begin + span.first : begin + span.end]))) for span in own]
        for begin, own in zip(inputs.ptr[:-1].tolist(), spans, strict=True)
    ]


def _crfsuite(text: Any, held_out: Any) -> list[_Row]:
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params({"c1": 0.0, "c2": 1.0 / (2.0 * VARIANCE)})
    for items, labels in zip(text.features(), text.labels, strict=True):
        trainer.append(items, labels)
    scheme = Scheme({label for labels in (*text.labels, *held_out.labels) for label in labels})
    least, product = [], []
    with tempfile.TemporaryDirectory() as folder:
        path, tagger = str(Path(folder) / "model"), pycrfsuite.Tagger()
        trainer.train(path)
        tagger.open(path)
        for items in held_out.features():
            tagger.set(items)
            labels = tagger.tag()
            each = [tagger.marginal(label, t) for t, label in enumerate(labels)]
            marked = scheme.spans(labels)
            least.append([bf.Span(*span, min(each[span.first : span.end])) for span in marked])
            product.append([bf.Span(*span, float(np.prod(each[span.first : span.end]))) for span in marked])
    return [_row("crfsuite: labels, minimum", least, held_out), _row("crfsuite: labels, product", product, held_out)]


def _other_domains(posterior: bf.Posterior, crf: Any, known: Any, inside: Corpus, tests: int) -> None:
    """Means over each sentence, ranked: sentences from elsewhere should have the larger ones."""
    near = corpus(tests, 3)
    new_words = near._replace(words=[[f"new{word}" for word in words] for words in near.words])
    here = _doubts(posterior, crf, known, inside)
    _log_losses(posterior, crf, known, inside)
    print("\nAUROC of sentences from elsewhere, by the mean over their tokens of")
    print("                          | " + " | ".join(here))
    for name, text in (
        ("another domain", corpus(tests, 2, language=1)),
        ("tags and labels of this one, new words", new_words),
        ("this domain (chance)", near),
    ):
        there = _doubts(posterior, crf, known, text)
        other = np.repeat([False, True], [len(inside.words), len(text.words)])
        each = [_auroc(np.concatenate([here[what], there[what]]), other) for what in here]
        print(f"{name:38} | " + " | ".join(f"{v:.4f}".rjust(len(w)) for v, w in zip(each, here, strict=True)))


def _log_losses(posterior: bf.Posterior, crf: Any, known: Any, text: Corpus) -> None:
    X = text.features()
    data, unseen = sequences_of(crf, known, X), unseen_attributes(crf, X, known, VARIANCE)
    number = {label: k for k, label in enumerate(crf.labels)}
    wanted = np.array([number.get(label, -1) for labels in text.labels for label in labels])
    every = {how: bf.predict_sequences(posterior, data, how) for how in ("map", "marginal")}
    if unseen is not None:
        every["unseen counted"] = predict_with_unseen(posterior, data, unseen)
    losses = [f"{name} {log_loss(found.probabilities, wanted):.4f}" for name, found in every.items()]
    print("\nlog loss of labels, held-out sentences: " + ", ".join(losses))


def _doubts(posterior: bf.Posterior, crf: Any, known: Any, text: Corpus) -> dict[str, np.ndarray]:
    """By name, the mean over every sentence."""
    X = text.features()
    data = sequences_of(crf, known, X)
    unseen = unseen_attributes(crf, X, known, VARIANCE)
    mode, averaged = (bf.predict_sequences(posterior, data, how) for how in ("map", "marginal"))
    with_unseen = predict_with_unseen(posterior, data, unseen) if unseen else averaged
    return {
        name: np.add.reduceat(values, data.ptr[:-1]) / np.diff(data.ptr)
        for name, values in (
            ("entropy at the mode", mode.entropy),
            ("averaged entropy", averaged.entropy),
            ("unsettled", averaged.unsettled),
            ("entropy, unseen counted", with_unseen.entropy),
            ("unsettled, unseen counted", with_unseen.unsettled),
        )
    }


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    main(*(numbers + [1000, 500][len(numbers) :]))
