"""Taggers at corpus size beside python-crfsuite: training, posteriors, averages, spans.

    python -m benchmarks taggers

On a synthetic corpus, and where ``python -m benchmarks.real_data`` has fetched it, on newswire, with its chunks and
its entities. Weights that were seen, c2 = 1, which is a variance of 0.5, and variances of templates by evidence. Every
row of the first three tables has a process of its own, so that the largest memory is its own. The temperature of
averages is chosen as ``BayesianCRF`` does, on a quarter of the sequences, left out once. ``--only`` takes part of a
table's title.
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

from benchmarks import chunking, real_data
from benchmarks.corpus import SENTENCES, TEST, corpus, f1
from benchmarks.timing import Report, Watch, best

VARIANCE = chunking.VARIANCE
FULL, QUICK, REAL = (500, 2000, SENTENCES), (60, 120), (500, 2000)
SHARE, CLOCK, MEMORY, ALIKE = 0.5, 0.35, 2.0, 1e-3  # of crfsuite's processor time, clock on two cores, memory; weights
AFTER, GIGABYTES = 3.0, 2.0  # times the search for the mode; of a posterior
MANY = 2000  # sentences, beyond which crfsuite runs at its default alone
WORSE, LOWER, SLOWER = 0.002, 0.1, 10.0  # an average's log loss and F1 against the plug-in's, and its time
SPANS = 0.02  # calibration error
_HERE = Path(__file__).resolve().parent.parent


def run(watch: Watch) -> list[Report]:
    sizes, tests = (QUICK, 100) if watch.quick else (FULL, TEST)
    found: list[Report] = []
    if watch.wants(_title_of_training(sizes[-1])):
        watch.tell("taggers, training")
        found.append(_training(sizes[-1]))
    texts = ["", *(real_data.TEXTS if real_data.has_text() and not watch.quick else ())]
    for text in texts:
        own = REAL if text else sizes
        titles = _POSTERIORS + _name(text), _AVERAGES + _name(text)
        if any(watch.wants(title) for title in titles):
            each = []
            for sentences in own:
                watch.tell(f"taggers, {sentences:,} sentences {text}")
                each.append((sentences, _alone("posterior", sentences, tests, text)))
            found += [_posteriors(titles[0], each), _averages(titles[1], each)]
        if watch.wants(_SPANS + _name(text)):
            watch.tell(f"taggers, spans {text}")
            found.append(_spans(_SPANS + _name(text), own[1], tests, text))
    return found


_POSTERIORS, _AVERAGES = "Mean-field posteriors of taggers, corrected", "Predictions of held-out sentences"
_SPANS = "Entities as wholes"


def _name(text: str) -> str:
    return f", newswire with its {text}" if text else ""


def _title_of_training(sentences: int) -> str:
    return f"Training a tagger on {sentences:,} sentences"


def _training(sentences: int) -> Report:
    theirs = chunking._alone("crfsuite", sentences, 1, 0.0)
    ours, both = (chunking._alone("bayesfield", sentences, cores, theirs["loss"]) for cores in (1, 2))
    apart = _alone("weights", min(sentences, 1000), 0)
    columns = ("training", "processor s", "clock s", "iterations", "loss", "peak memory, MB", "F1", "weights")
    rows: list[tuple[Any, ...]] = [
        (
            who,
            r["processor"],
            r["clock"],
            int(r["iterations"]),
            round(r["loss"], 2),
            int(r["megabytes"]),
            round(r["f1"], 2),
            int(r["weights"]),
        )
        for who, r in (
            ("python-crfsuite", theirs),
            ("bayesfield, to its loss, one core", ours),
            ("bayesfield, to its loss, two cores", both),
        )
    ]
    time_share, memory_share = ours["processor"] / theirs["processor"], ours["megabytes"] / theirs["megabytes"]
    notes = (
        f"of crfsuite's: processor time {time_share:.2f} (target {SHARE}), memory {memory_share:.2f} ({MEMORY:g}), "
        f"clock on two cores {both['clock'] / theirs['clock']:.2f} ({CLOCK}; on a quiet machine)",
        f"run to the end on {apart['sentences']:,.0f} sentences, {apart['weights']:,.0f} weights differ by "
        f"{apart['largest']:.1e} at most (target {ALIKE:g})",
    )
    return Report(_title_of_training(sentences), columns, rows, notes)


def _posteriors(title: str, each: list[tuple[int, dict[str, Any]]]) -> Report:
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
        title,
        columns,
        rows,
        (f"target: {AFTER:g} times the mode's time, {GIGABYTES:g} GB",),
    )


def _averages(title: str, each: list[tuple[int, dict[str, Any]]]) -> Report:
    rows: list[tuple[Any, ...]] = []
    notes = [f"target: log loss within {WORSE:g} of the plug-in's, F1 within {LOWER:g}, {SLOWER:g} times its time"]
    for n, r in each:
        plug_in, averaged = r["predictions"][0], {}
        for name, loss, gap, score, seconds in r["predictions"]:
            met = None
            plug_in = (name, loss, gap, score, seconds) if "plug-in" in name else plug_in
            if "as BayesianCRF" in name:
                averaged[name] = loss
                good = loss <= plug_in[1] + WORSE and score >= plug_in[3] - LOWER
                met = good and seconds <= SLOWER * plug_in[4]
            share = None if "crfsuite" in name else seconds / plug_in[4]
            rows.append((f"{n:,}: {name}", f"{loss:.4f}", gap, f"{score:.2f}", share, met))
        theirs = next(loss for name, loss, *_ in r["predictions"] if name == "python-crfsuite")
        told = ", ".join(f"{name} {loss - theirs:+.4f}" for name, loss in averaged.items())
        notes.append(f"{n:,} sentences, log loss against crfsuite's at its default, c2 = 1: {told}")
    columns = ("sentences: predictor", "log loss", "calibration error", "F1", "× the plug-in's time", "met")
    return Report(title, columns, rows, tuple(notes))


def _spans(title: str, sentences: int, tests: int, text: str) -> Report:
    columns = ("spans", "F1", "calibration error", "AUROC of wrong ones", "met")
    found = _alone("spans", sentences, tests, text)
    rows = [
        (name, f"{score:.2f}", gap, area, gap <= SPANS if name == "averaged: labels, whole" else None)
        for name, score, gap, area in found["rows"]
    ]
    notes = (
        f"{sentences:,} sentences to learn from; target: calibration error {SPANS:g} at the chosen temperature, "
        f"{found['temperature']:g}; 'averaged' is at that",
    )
    return Report(title, columns, rows, notes)


# --- in a process of its own ------------------------------------------------------------------------------------------


def _alone(which: str, sentences: int, tests: int, text: str = "") -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.taggers", which, str(sentences), str(tests)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "BAYESFIELD_TEXT": text}
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
    predictions = _predictions(fitted, temperature, known, tests)
    by_template = bf.fit_sequences(crf, data, prior=bf.Templates(), form="mean-field", verbose=False)
    own = by_template.prior_in_force().scaled(1.0)  # type: ignore[union-attr]
    warm = bf.cross_validated_temperature(crf, data, prior=own, splits=1).temperature
    predictions += [(f"templates, {name}", *rest) for name, *rest in _predictions(by_template, warm, known, tests)]
    penalties = (1.0, 0.5, 0.25) if sentences <= MANY else (1.0,)
    predictions += [_of_crfsuite(text, tests, c2) for c2 in penalties]
    return {
        "weights": crf.n_parameters,
        "mode": searched - begun,
        "posterior": corrected - searched,
        "choice": chosen - corrected,
        "temperature": temperature,
        "gigabytes": gigabytes,
        "predictions": predictions,
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


def _of_crfsuite(text: Any, tests: int, c2: float) -> tuple[str, float, None, float, None]:
    import pycrfsuite

    trainer, test = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False), corpus(tests, 2)
    trainer.set_params({"c1": 0.0, "c2": c2})
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
    name = "python-crfsuite" if c2 == 1.0 else f"python-crfsuite, c2 = {c2:g}"
    return name, float(-np.log(np.maximum(right, 1e-300)).mean()), None, f1(test.labels, predicted), None


def _numbers(labels: Any, text: Any) -> np.ndarray:
    number = {label: k for k, label in enumerate(labels)}
    return np.array([number.get(label, -1) for own in text.labels for label in own])


def spans(sentences: int, tests: int) -> dict[str, Any]:
    from benchmarks.spans import compared, fitted

    found = fitted(sentences)
    return {"rows": compared(*found, corpus(tests, 2)), "temperature": found[0].temperature}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    kinds = {"weights": weights, "posterior": posterior, "spans": spans}
    print(json.dumps(kinds[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))))
