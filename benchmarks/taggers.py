"""Taggers at corpus size beside python-crfsuite, on a synthetic corpus: training, posteriors, averages, spans.

    python -m benchmarks taggers

Weights that were seen, c2 = 1, which is a variance of 0.5. Every row of the first three tables has a process of its
own, so that the largest memory is its own. The temperature of averages is chosen as ``BayesianCRF`` does, on a quarter
of the sequences, left out once.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import chunking
from benchmarks.corpus import SENTENCES, TEST, corpus, f1
from benchmarks.timing import Report, Watch, best

VARIANCE = chunking.VARIANCE
FULL, QUICK = (500, 2000, SENTENCES), (60, 120)
SHARE, MEMORY, ALIKE = 0.5, 2.0, 1e-3  # of crfsuite's processor time and memory; weights
AFTER, GIGABYTES = 3.0, 2.0  # times the search for the mode; of a posterior
WORSE, LOWER, SLOWER = 0.002, 0.1, 10.0  # an average's log loss and F1 against the plug-in's, and its time
SPANS = 0.02  # calibration error
_HERE = Path(__file__).resolve().parent.parent


def run(watch: Watch) -> list[Report]:
    sizes, tests = (QUICK, 100) if watch.quick else (FULL, TEST)
    watch.tell("taggers, training")
    reports = [_training(sizes[-1])]
    each = []
    for sentences in sizes:
        watch.tell(f"taggers, {sentences:,} sentences")
        each.append((sentences, _alone("posterior", sentences, tests)))
    reports += [_posteriors(each), _averages(each)]
    watch.tell("taggers, spans")
    return [*reports, _spans(sizes[1], tests)]


def _training(sentences: int) -> Report:
    theirs = chunking._alone("crfsuite", sentences, 1, 0.0)
    ours = chunking._alone("bayesfield", sentences, 1, theirs["loss"])
    apart = _alone("weights", min(sentences, 1000), 0)
    columns = ("training", "processor s", "iterations", "loss", "peak memory, MB", "F1", "weights")
    names = ("processor", "iterations", "loss", "megabytes", "f1", "weights")
    rows: list[tuple[Any, ...]] = [
        (
            who,
            *(
                round(r[name], 2) if name in ("loss", "f1") else int(r[name]) if name != "processor" else r[name]
                for name in names
            ),
        )
        for who, r in (("python-crfsuite", theirs), ("bayesfield, to its loss", ours))
    ]
    time_share, memory_share = ours["processor"] / theirs["processor"], ours["megabytes"] / theirs["megabytes"]
    notes = (
        f"of crfsuite's: processor time {time_share:.2f} (target {SHARE}), memory {memory_share:.2f} ({MEMORY:g})",
        f"run to the end on {apart['sentences']:,.0f} sentences, {apart['weights']:,.0f} weights differ by "
        f"{apart['largest']:.1e} at most (target {ALIKE:g})",
    )
    return Report(f"Training a tagger on {sentences:,} sentences", columns, rows, notes)


def _posteriors(each: list[tuple[int, dict[str, Any]]]) -> Report:
    columns = (
        "sentences",
        "weights",
        "mode s",
        "posterior after it s",
        "ratio",
        "temperature",
        "its choice s",
        "peak GB",
        "met",
    )
    rows = [
        (n, r["weights"], r["mode"], r["posterior"], r["posterior"] / r["mode"], str(r["temperature"]), r["choice"],
         r["gigabytes"], r["posterior"] <= AFTER * r["mode"] and r["gigabytes"] <= GIGABYTES)
        for n, r in each
    ]  # fmt: skip
    return Report(
        "Mean-field posteriors of taggers, corrected",
        columns,
        rows,
        (f"target: {AFTER:g} times the mode's time, {GIGABYTES:g} GB",),
    )


def _averages(each: list[tuple[int, dict[str, Any]]]) -> Report:
    rows: list[tuple[Any, ...]] = []
    for n, r in each:
        plug_in = r["predictions"][0]
        for name, loss, gap, score, seconds in r["predictions"]:
            met = None
            if name == "averaged, as BayesianCRF":
                good = loss <= plug_in[1] + WORSE and score >= plug_in[3] - LOWER
                met = good and seconds <= SLOWER * plug_in[4]
            share = None if name == "python-crfsuite" else seconds / plug_in[4]
            rows.append((f"{n:,}: {name}", f"{loss:.4f}", gap, f"{score:.2f}", share, met))
    columns = ("sentences: predictor", "log loss", "calibration error", "F1", "× the plug-in's time", "met")
    notes = (f"target: log loss within {WORSE:g} of the plug-in's, F1 within {LOWER:g}, {SLOWER:g} times its time",)
    return Report("Predictions of held-out sentences", columns, rows, notes)


def _spans(sentences: int, tests: int) -> Report:
    columns = ("spans", "F1", "calibration error", "AUROC of wrong ones", "met")
    rows = [
        (name, f"{score:.2f}", gap, area, gap <= SPANS if name == "averaged: labels, whole" else None)
        for name, score, gap, area in _alone("spans", sentences, tests)["rows"]
    ]
    notes = (f"target: calibration error {SPANS:g} at the chosen temperature; 'averaged' is at that",)
    return Report(f"Entities as wholes, {sentences:,} sentences to learn from", columns, rows, notes)


# --- in a process of its own ------------------------------------------------------------------------------------------


def _alone(which: str, sentences: int, tests: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.taggers", which, str(sentences), str(tests)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, cwd=_HERE, stdout=subprocess.PIPE, check=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def weights(sentences: int, _: int) -> dict[str, Any]:
    """Both run to the end: the largest difference of any weight."""
    import pycrfsuite

    import bayesfield as bf

    (crf, data), _known, text = chunking.problem(sentences)
    mode = bf.fit_sequences(crf, data, prior=bf.Normal(variance=VARIANCE), correction="none", verbose=False).mode
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params(
        {"c1": 0.0, "c2": 1.0 / (2.0 * VARIANCE), "epsilon": 1e-9, "delta": 1e-12, "max_iterations": 5000}
    )
    for items, labels in zip(text.features(), text.labels, strict=True):
        trainer.append(items, labels)
    with tempfile.TemporaryDirectory() as folder:
        path, tagger = str(Path(folder) / "model"), pycrfsuite.Tagger()
        trainer.train(path)
        tagger.open(path)
        told = tagger.info()
    names = [(crf.inputs[k // len(crf.labels)], crf.labels[k % len(crf.labels)]) for k in crf.places[: crf.n_state]]
    pairs = [crf.edge_labels[k] for k in crf.seen.pair]  # type: ignore[union-attr]
    theirs = [told.state_features.get(name, 0.0) for name in names] + [
        told.transitions.get(pair, 0.0) for pair in pairs
    ]
    return {"sentences": sentences, "weights": crf.n_parameters, "largest": float(np.abs(mode - theirs).max())}


def posterior(sentences: int, tests: int) -> dict[str, Any]:
    import bayesfield as bf

    _warm()
    (crf, data), known, text = chunking.problem(sentences)
    prior, begun = bf.Normal(variance=VARIANCE), time.process_time()
    mode = bf.fit_sequences(crf, data, prior=prior, correction="none", verbose=False)
    searched = time.process_time()
    fitted = bf.fit_sequences(crf, data, prior=prior, start=mode.mode, verbose=False)
    corrected, gigabytes = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    temperature = bf.cross_validated_temperature(crf, data, prior=prior, splits=1).temperature
    chosen = time.process_time()
    return {
        "weights": crf.n_parameters,
        "mode": searched - begun,
        "posterior": corrected - searched,
        "choice": chosen - corrected,
        "temperature": temperature,
        "gigabytes": gigabytes,
        "predictions": [*_predictions(fitted, temperature, known, tests), _of_crfsuite(text, tests)],
    }


def _warm() -> None:
    """Machine code is made or read."""
    import bayesfield as bf

    (crf, data), *_ = chunking.problem(20)
    fitted = bf.fit_sequences(crf, data, prior=bf.Normal(variance=VARIANCE), form="mean-field", verbose=False)
    for predictor in ("map", "marginal", "sequence"):
        bf.predict_sequences(fitted, data, predictor)


def _predictions(
    fitted: Any, temperature: float, known: Any, tests: int
) -> list[tuple[str, float, float, float, float]]:
    """Name, log loss, calibration error, F1 and seconds."""
    import bayesfield as bf
    from benchmarks.mean_field import calibration_error, log_loss

    test, crf = corpus(tests, 2), fitted.field
    inputs, wanted = chunking.sequences_of(crf, known, test.features()), _numbers(crf.labels, test)
    found = []
    for name, T, predictor in (
        ("plug-in", 1.0, "map"),
        ("averaged, as BayesianCRF", temperature, "auto"),
        ("averaged, label by label", temperature, "marginal"),
        ("averaged at temperature 1", 1.0, "auto"),
    ):
        cold = fitted.at_temperature(T)
        here = bf.predict_sequences(cold, inputs, predictor)
        seconds = best(partial(bf.predict_sequences, cold, inputs, predictor), 2.0, warm_up=False)
        names = np.array(crf.labels)[here.labels]
        labels = [names[a:b].tolist() for a, b in zip(inputs.ptr[:-1], inputs.ptr[1:], strict=True)]
        p = here.probabilities
        found.append((name, log_loss(p, wanted), calibration_error(p, wanted), f1(test.labels, labels), seconds))
    return found


def _of_crfsuite(text: Any, tests: int) -> tuple[str, float, None, float, None]:
    import pycrfsuite

    trainer, test = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False), corpus(tests, 2)
    trainer.set_params({"c1": 0.0, "c2": 1.0 / (2.0 * VARIANCE)})
    for items, labels in zip(text.features(), text.labels, strict=True):
        trainer.append(items, labels)
    predicted, right = [], []
    with tempfile.TemporaryDirectory() as folder:
        path, tagger = str(Path(folder) / "model"), pycrfsuite.Tagger()
        trainer.train(path)
        tagger.open(path)
        known = set(tagger.labels())
        for items, labels in zip(test.features(), test.labels, strict=True):
            tagger.set(items)
            predicted.append(tagger.tag())
            right += [tagger.marginal(label, t) for t, label in enumerate(labels) if label in known]
    return "python-crfsuite", float(-np.log(np.maximum(right, 1e-300)).mean()), None, f1(test.labels, predicted), None


def _numbers(labels: Any, text: Any) -> np.ndarray:
    number = {label: k for k, label in enumerate(labels)}
    return np.array([number.get(label, -1) for own in text.labels for label in own])


def spans(sentences: int, tests: int) -> dict[str, Any]:
    from benchmarks.spans import compared, fitted

    return {"rows": compared(*fitted(sentences), corpus(tests, 2))}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    kinds = {"weights": weights, "posterior": posterior, "spans": spans}
    print(json.dumps(kinds[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))))
