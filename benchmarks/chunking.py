"""A chunking corpus of CoNLL-2000's size: training against python-crfsuite, on the same objective and to the same loss.

    python -m benchmarks.chunking [sentences]

crfsuite's defaults (weights that were seen, its own stopping) with c2 = 1; ours to the loss where crfsuite stops. Each
runs in a process of its own, so that the largest memory is its own; processor seconds are told beside seconds of the
clock, which other programs lengthen.
"""

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpus import SENTENCES, TEST, corpus, f1

VARIANCE = 0.5  # c2 = 1
_HERE = Path(__file__).resolve().parent.parent


def main(sentences: int) -> None:
    theirs = _alone("crfsuite", sentences, 1, 0.0)
    print(_line("python-crfsuite", theirs), flush=True)
    for cores in (1, 2):
        ours = _alone("bayesfield", sentences, cores, theirs["loss"])
        print(_line(f"bayesfield, {cores} core(s)", ours))
        shares = [f"{what} {ours[what] / theirs[what]:.2f}" for what in ("processor", "clock", "megabytes")]
        print("    of crfsuite's: " + ", ".join(shares), flush=True)


def _line(name: str, result: dict[str, float]) -> str:
    return (
        f"{name}: processor {result['processor']:.1f} s, clock {result['clock']:.1f} s, {result['iterations']:.0f} "
        f"iterations to loss {result['loss']:.2f}, {result['megabytes']:.0f} MB, F1 {result['f1']:.2f}, "
        f"{result['weights']:,.0f} weights; features read in {result['reading']:.1f} s"
    )


def _alone(which: str, sentences: int, cores: int, loss: float) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.chunking", which, str(sentences), str(cores), repr(loss)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    if cores > 1:
        environment.pop("NUMBA_NUM_THREADS", None)
    done = subprocess.run(command, env=environment, cwd=_HERE, stdout=subprocess.PIPE, check=True, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def _watched(begun: tuple[float, float]) -> dict[str, float]:
    return {
        "processor": time.process_time() - begun[0],
        "clock": time.perf_counter() - begun[1],
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def crfsuite(sentences: int) -> dict[str, float]:
    import pycrfsuite

    log: list[str] = []

    class Trainer(pycrfsuite.Trainer):  # type: ignore[misc]
        def message(self, text: str) -> None:
            log.append(text)

    text, test = corpus(sentences, 1), corpus(TEST, 2)
    trainer, X = Trainer(algorithm="lbfgs", verbose=True), text.features()
    trainer.set_params({"c1": 0.0, "c2": 1.0 / (2.0 * VARIANCE)})
    begun = time.process_time()
    for items, labels in zip(X, text.labels, strict=True):
        trainer.append(items, labels)
    reading = time.process_time() - begun
    with tempfile.TemporaryDirectory() as folder:
        path, started = str(Path(folder) / "model"), (time.process_time(), time.perf_counter())
        trainer.train(path)
        result = _watched(started)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        predicted = [tagger.tag(items) for items in test.features()]
    told = "".join(log)
    return {
        **result,
        "reading": reading,
        "iterations": len(re.findall(r"Iteration #", told)),
        "loss": float(re.findall(r"Loss: ([\d.]+)", told)[-1]),
        "weights": float(re.findall(r"Number of features: (\d+)", told)[-1]),
        "f1": f1(test.labels, predicted),
    }


class _Reached(Exception):  # noqa: N818
    pass


def bayesfield(sentences: int, cores: int, loss: float) -> dict[str, float]:
    """loss: at which to stop."""
    from bayesfield import parallel
    from bayesfield.inference.trees.chain import best_labellings
    from bayesfield.learning.objective import gaussian
    from bayesfield.learning.phases.chain import ChainPhase
    from bayesfield.learning.phases.sequences import sequence_objective
    from bayesfield.learning.search.minimise import lbfgs
    from bayesfield.learning.search.optimum import Progress
    from bayesfield.model.prior import Normal

    parallel.limit(cores)
    warm, *_ = problem(20)
    objective = sequence_objective(*warm, gaussian(Normal(variance=VARIANCE), warm[0]))
    lbfgs(objective, objective.prior.location, 1e-3, 5)  # machine code is made or read
    begun = time.process_time()
    (crf, data), known, _ = problem(sentences)
    reading = time.process_time() - begun
    objective = sequence_objective(crf, data, gaussian(Normal(variance=VARIANCE), crf))
    steps: list[float] = []

    def watch(iteration: Any) -> None:
        steps.append(iteration.value)
        if iteration.value <= loss:
            raise _Reached

    started = time.process_time(), time.perf_counter()
    best = objective.prior.location

    class Kept(type(objective)):  # type: ignore[misc]
        """Remembers where it was asked last."""

        def at(self, parameters: Any, start: Any = None) -> Any:
            nonlocal best
            best = parameters
            return super().at(parameters, start)

    kept = Kept(objective.prior, objective.phases, objective.statistic, objective.constant, objective.data)
    with suppress(_Reached):
        best = lbfgs(kept, objective.prior.location, 1e-6, 1000, Progress(watch)).parameters
    result = _watched(started)
    test = corpus(TEST, 2)
    inputs = ChainPhase(crf, sequences_of(crf, known, test.features()))
    labels = best_labellings(inputs.chains, *inputs.potentials(best))[0][0]
    names = np.array(crf.labels)[labels]
    predicted = [names[a:b].tolist() for a, b in parallel.spans(inputs.data.ptr.tolist())]
    return {
        **result,
        "reading": reading,
        "iterations": len(steps),
        "loss": steps[-1],
        "weights": crf.n_parameters,
        "f1": f1(test.labels, predicted),
    }


def problem(sentences: int) -> tuple[tuple[Any, Any], dict[str, int], Any]:
    """The model with the weights that were seen and its data; the attributes' numbers; the corpus."""
    from bayesfield.formats.crfsuite import vocabulary
    from bayesfield.model.conditional import CRF, seen_weights

    text = corpus(sentences, 1)
    X = text.features()
    known = vocabulary(X)
    whole = CRF(sorted({label for labels in text.labels for label in labels}), list(known))
    data = sequences_of(whole, known, X, text.labels)
    return (whole.with_seen(seen_weights(whole, data)), data), known, text


def sequences_of(crf: Any, known: dict[str, int], X: Any, y: Any = None) -> Any:
    from bayesfield.formats.crfsuite import rows_of
    from bayesfield.model.conditional import from_rows

    return from_rows(crf, *rows_of(X, known), y)


if __name__ == "__main__":
    if sys.argv[1:2] == ["crfsuite"]:
        print(json.dumps(crfsuite(int(sys.argv[2]))))
    elif sys.argv[1:2] == ["bayesfield"]:
        if int(sys.argv[3]) > 1 and hasattr(os, "sched_setaffinity"):  # the parent may keep to one
            os.sched_setaffinity(0, range(os.cpu_count() or 1))
        print(json.dumps(bayesfield(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))))
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else SENTENCES)
