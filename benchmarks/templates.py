"""Priors by templates and the temperature of predictions, on the synthetic chunking corpus.

    python -m benchmarks.templates variances [sentences]
    python -m benchmarks.templates temperature [sentences …]

variances: held-out log loss of plug-in and averaged predictions under one variance and one a template, each by the
mean-field bound and by cross-validation, with what choosing took. temperature: BayesianCRF as a user calls it, with
weights that were seen: plug-in ("map") against averaged predictions at the temperature that it chose, at 0 and at 1;
what the choice added to the fit. Test: 2,012 sentences; seconds are of the processor.
"""

import sys
import time
import warnings
from typing import Any

import numpy as np

import bayesfield as bf
from benchmarks.chunking import problem, sequences_of
from benchmarks.corpus import TEST, corpus, f1
from benchmarks.mean_field import calibration_error, log_loss

_ONE = (0.1, 0.3, 0.5, 1.0, 2.0)


def variances(sentences: int) -> None:
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
    ):
        begun = time.process_time()
        posterior = bf.fit_sequences(crf, data, prior=prior_of(), verbose=False)
        took = time.process_time() - begun
        chosen = bf.cross_validated_temperature(crf, data, prior=posterior.prior_in_force().scaled(1.0))
        losses = []
        for predictor, temperature in (("map", 0.0), ("marginal", chosen.temperature), ("marginal", 1.0)):
            found = bf.predict_sequences(posterior.at_temperature(temperature), inputs, predictor)
            losses.append(log_loss(found.probabilities, wanted))
        variance = 1.0 / posterior.prior_in_force().precision
        print(
            f"{sentences:,} sentences, {name}: log loss plug-in {losses[0]:.4f}, averaged at temperature "
            f"{chosen.temperature:g} {losses[1]:.4f}, at 1 {losses[2]:.4f}; variances {variance.min():.2g} to "
            f"{variance.max():.2g}; fit {took:.0f} s",
            flush=True,
        )


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
