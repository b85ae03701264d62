"""Priors by templates and the temperature of predictions, on the synthetic chunking corpus.

    python -m benchmarks templates
    python -m benchmarks.templates variances [sentences]
    python -m benchmarks.templates temperature [sentences …]

variances: held-out log loss of plug-in and averaged predictions under one variance and one a template, each by the
mean-field bound and by cross-validation, with what choosing took. temperature: BayesianCRF as a user calls it, with
weights that were seen: plug-in ("map") against averaged predictions at the temperature that it chose, at 0 and at 1;
what the choice added to the fit. Test: 2,012 sentences; seconds are of the processor.
"""

import os
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import bayesfield as bf
from benchmarks import real_data
from benchmarks.chunking import problem, sequences_of
from benchmarks.corpus import TEST, corpus, f1
from benchmarks.mean_field import calibration_error, log_loss
from benchmarks.timing import Report, Watch

BEHIND = 0.01  # nats, of the evidence against cross-validation
_ONE = (0.1, 0.3, 0.5, 1.0, 2.0)


def run(watch: Watch) -> list[Report]:
    """On the synthetic corpus and, where it was fetched, on newswire."""
    sentences, before = 60 if watch.quick else 500, os.environ.get("BAYESFIELD_TEXT", "")
    texts = {"a synthetic corpus": ""}
    if real_data.has_text() and not watch.quick:
        texts |= {f"newswire with its {name}": name for name in real_data.TEXTS}
    reports = []
    for title, text in texts.items():
        if watch.wants(title):
            watch.tell(f"templates, {title}")
            os.environ["BAYESFIELD_TEXT"] = text
            reports.append(_report(title, sentences))
    os.environ["BAYESFIELD_TEXT"] = before
    return reports


def _report(title: str, sentences: int) -> Report:
    found = {row[0]: row for row in compared(sentences)}
    rows: list[tuple[Any, ...]] = []
    for name, mode, averaged, temperature, hot, spread, seconds in found.values():
        other = found.get(name.replace("the bound", "cross-validation")) if "the bound" in name else None
        behind = None if other is None else averaged - other[2]
        told = None if behind is None else f"{behind:+.4f}"
        met = None if behind is None else behind <= BEHIND
        rows.append(
            (name, f"{mode:.4f}", f"{averaged:.4f}", f"{temperature:g}", f"{hot:.4f}", spread, seconds, told, met)
        )
    columns = ("variances", "log loss plug-in", "averaged", "at temperature", "at 1", "from … to", "processor s",
               "against cross-validation", "met")  # fmt: skip
    note = f"{sentences} sentences; target: by the bound within {BEHIND:g} nats of cross-validation, averaged"
    return Report(f"Variances of templates, {title}", columns, rows, (note,))


def variances(sentences: int) -> None:
    for name, mode, averaged, temperature, hot, spread, seconds in compared(sentences):
        print(
            f"{sentences:,} sentences, {name}: log loss plug-in {mode:.4f}, averaged at temperature {temperature:g} "
            f"{averaged:.4f}, at 1 {hot:.4f}; variances {spread}; fit {seconds:.0f} s",
            flush=True,
        )


_Row = tuple[str, float, float, float, float, str, float]


def compared(sentences: int) -> Iterator[_Row]:
    """Name, log loss plug-in and averaged, at which temperature, averaged at 1, variances, seconds."""
    (crf, data), known, _ = problem(sentences)
    test = corpus(TEST, 2)
    inputs = sequences_of(crf, known, test.features(), None)
    number = {label: k for k, label in enumerate(crf.labels)}
    wanted = np.array([number.get(label, -1) for labels in test.labels for label in labels])
    for name, prior_of in (
        ("one variance, 1", lambda: bf.Normal(variance=1.0)),
        ("one variance, the bound", lambda: bf.Normal(variance="evidence")),
        ("one variance, cross-validation", lambda: bf.Normal(variance=_cross_validated(crf, data))),
        ("by template, the bound", bf.Templates),
        ("by template, cross-validation", lambda: bf.Templates(bf.cross_validated_templates(crf, data).variances)),
        ("by attribute, the bound (ARD)", lambda: bf.ARD("inputs")),
    ):
        begun = time.process_time()
        posterior = bf.fit_sequences(crf, data, prior=prior_of(), form="mean-field", verbose=False)
        took = time.process_time() - begun
        own: Any = posterior.prior_in_force()
        chosen = bf.cross_validated_temperature(crf, data, prior=own.scaled(1.0))
        losses = []
        for predictor, temperature in (("map", 0.0), ("marginal", chosen.temperature), ("marginal", 1.0)):
            found = bf.predict_sequences(posterior.at_temperature(temperature), inputs, predictor)
            losses.append(log_loss(found.probabilities, wanted))
        variance = 1.0 / own.precision
        spread = f"{variance.min():.2g} … {variance.max():.2g}"
        yield name, losses[0], losses[1], chosen.temperature, losses[2], spread, took


def _cross_validated(crf: Any, data: Any) -> float:
    """By averaged predictions, together with the temperature."""
    chosen = bf.cross_validated_temperature(crf, data, variances=_ONE).variance
    assert chosen is not None
    return chosen


def temperature(counts: list[int]) -> None:
    test = corpus(TEST, 2)
    X, wanted = test.features(), [label for labels in test.labels for label in labels]
    for sentences in counts:
        text = corpus(sentences, 1)
        items = text.features()
        for prior in (1.0, 5.0, "templates"):
            seconds = []
            for given in (1.0, "auto"):
                begun = time.process_time()
                crf = bf.BayesianCRF(prior, possible="seen", temperature=given, verbose=False).fit(items, text.labels)
                seconds.append(time.process_time() - begun)
            print(
                f"{sentences:,} sentences, prior {prior}: temperature {crf.temperature_:g}; fit {seconds[0]:.0f} s, "
                f"the choice {(seconds[1] - seconds[0]) / seconds[0]:.2f} of it",
                flush=True,
            )
            data, number = crf._shape.data(X), {label: k for k, label in enumerate(crf.classes_)}
            codes, first = np.array([number.get(label, -1) for label in wanted]), 0.0
            for name, posterior, predictor in (
                ("plug-in", crf.posterior_, "map"),
                ("averaged, label by label", crf.posterior_, "marginal"),
                ("averaged, whole labellings", crf.posterior_, "sequence"),
                ("averaged at 0, label by label", crf.posterior_.at_temperature(0), "marginal"),
                ("averaged at 1, label by label", crf.posterior_.at_temperature(1), "marginal"),
                ("averaged at 1, whole labellings", crf.posterior_.at_temperature(1), "sequence"),
            ):
                begun = time.process_time()
                found = bf.predict_sequences(posterior, data, predictor)
                took = time.process_time() - begun
                first = first or took
                names = np.array(crf.classes_)[found.labels]
                labels = [names[a:b].tolist() for a, b in zip(data.ptr[:-1], data.ptr[1:], strict=True)]
                print(
                    f"    {name}: log loss {log_loss(found.probabilities, codes):.4f}, calibration error "
                    f"{calibration_error(found.probabilities, codes):.4f}, F1 {f1(test.labels, labels):.2f}; "
                    f"{took / first:.1f} × the plug-in's time",
                    flush=True,
                )


if __name__ == "__main__":
    warnings.simplefilter("ignore", bf.FitWarning)
    numbers = [int(word) for word in sys.argv[2:]]
    if sys.argv[1] == "variances":
        variances((numbers or [500])[0])
    else:
        temperature(numbers or [500, 2000])
