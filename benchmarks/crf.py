"""Chain CRFs: the time of a gradient against python-crfsuite's time of an iteration, on the same objective.

2,000 sequences of 50 positions, 20 labels, 50 active attributes of 10,000. crfsuite's L-BFGS evaluates the objective
about once an iteration; its loss at the optimum of a smaller problem must agree with ours to 1e-5.
"""

import os
import re
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from scipy import sparse

import bayesfield as bf
from bayesfield import parallel
from bayesfield.experiments.paper.documents import data_folder, labelled_files, line_crf, line_sequences, source_of
from bayesfield.learning.objective import Objective, gaussian
from bayesfield.learning.phases.sequences import sequence_objective
from bayesfield.learning.search.minimise import lbfgs, newton
from bayesfield.model.conditional import CRF, Sequences
from benchmarks.timing import Report, Watch, best, installed, several_cores

FULL, QUICK, SMALL = (2000, 50, 20, 10_000, 50), (200, 50, 20, 10_000, 50), (60, 10, 5, 200, 8)
TARGETS = {1: 0.5, 2: 0.3}  # of crfsuite's time, by cores
AGREE = 1e-5
AFTER_MAP = 1.0  # seconds


def run(watch: Watch) -> list[Report]:
    watch.tell("crf, gradient")
    objective = _problem(*(QUICK if watch.quick else FULL))
    here = 0.1 * np.random.default_rng(1).normal(size=len(objective.statistic))
    rows: list[tuple] = []
    theirs, agreement = (None, None)
    if watch.peers and installed("pycrfsuite"):
        watch.tell("crf, python-crfsuite")
        theirs, agreement = _seconds_of_crfsuite(objective), _agreement()
        assert agreement < AGREE, f"crfsuite's objective differs by {agreement:.1e}"
    for count in (1, 2) if os.cpu_count() and os.cpu_count() > 1 else (1,):
        with several_cores(count):
            ours = best(partial(objective.at, here), watch.seconds, cores=count)
        ratio = ours / theirs if theirs else None
        rows.append(
            (f"{count} core(s)", ours, theirs, ratio, TARGETS[count], ratio <= TARGETS[count] if ratio else None)
        )
    columns = ("chain CRF", "gradient s", "crfsuite's iteration s", "ratio", "target", "met")
    notes = (f"same optimum: relative difference {agreement:.1e}",) if agreement is not None else ()
    title = "Gradient of a chain CRF, 100,000 positions" if not watch.quick else "Gradient of a chain CRF, small"
    return [Report(title, columns, rows, notes), _posterior(watch)]


def _posterior(watch: Watch) -> Report:
    """Labelled lines, 20 files of 500, 48 parameters: the posterior after the MAP, plain and with its mean moved."""
    watch.tell("crf, posterior of labelled lines")
    folder = data_folder(None)
    files = labelled_files(folder, 500)[:20]
    crf = line_crf(files)
    data = line_sequences(crf, files)
    objective = sequence_objective(crf, data, gaussian(bf.Normal(variance=1.0), crf))
    mode = newton(objective, objective.prior.location, 1e-6, 100).parameters
    search = best(lambda: newton(objective, objective.prior.location, 1e-6, 100), watch.seconds)
    rows = []
    for correction in ("none", "mean"):
        whole = best(partial(bf.fit_sequences, crf, data, start=mode, correction=correction), watch.seconds)
        rows.append((correction, search, whole, whole / search, AFTER_MAP, whole <= AFTER_MAP))
    columns = ("correction", "MAP s", "posterior after it s", "ratio", "target s", "met")
    return Report(f"Posterior of a chain CRF, {data.positions:,} lines ({source_of(folder)})", columns, rows)


def _problem(S: int, T: int, K: int, D: int, active: int) -> Objective:
    rng = np.random.default_rng(0)
    P = S * T
    columns = rng.integers(0, D, size=(P, active)).astype(np.int32)
    X = sparse.csr_array((np.ones(P * active), columns.ravel(), np.arange(0, P * active + 1, active)), shape=(P, D))
    X.sum_duplicates()
    X.data[:] = 1.0
    preferred = rng.integers(0, K, D)
    labels = np.array([np.bincount(preferred[row], minlength=K).argmax() for row in columns])
    data = Sequences(np.arange(0, P + 1, T), X, np.ones((1, 1)), np.zeros(P, dtype=np.int64), labels)
    crf = CRF(K, D)
    return sequence_objective(crf, data, gaussian(bf.Normal(variance=1.0), crf))


def _trainer(objective: Objective, iterations: int, epsilon: float) -> "tuple[object, list[str]]":
    import pycrfsuite

    log: list[str] = []

    class Trainer(pycrfsuite.Trainer):
        def message(self, text: str) -> None:
            log.append(text)

    trainer = Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params(
        {
            "c1": 0.0,
            "c2": 0.5,
            "max_iterations": iterations,
            "epsilon": epsilon,
            "delta": 1e-12,
            "feature.possible_states": True,
            "feature.possible_transitions": True,
        }
    )
    data = objective.data.sequences
    for a, b in parallel.spans(data.ptr.tolist()):
        rows = [data.inputs.indices[data.inputs.indptr[t] : data.inputs.indptr[t + 1]] for t in range(a, b)]
        trainer.append([[str(d) for d in row] for row in rows], [str(k) for k in data.labels[a:b]])
    return trainer, log


def _train(objective: Objective, iterations: int, epsilon: float) -> str:
    trainer, log = _trainer(objective, iterations, epsilon)
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(str(Path(folder) / "model"))
    return "".join(log)


def _seconds_of_crfsuite(objective: Objective) -> float:
    """The fastest of ten iterations, as its own log has them."""
    log = _train(objective, 10, 1e-12)
    return min(float(x) for x in re.findall(r"Seconds required for this iteration: ([\d.]+)", log))


def _agreement() -> float:
    """Relative difference of the optimal losses on a small problem."""
    objective = _problem(*SMALL)
    log = _train(objective, 1000, 1e-10)
    theirs = float(re.findall(r"Loss: ([\d.]+)", log)[-1])
    ours = lbfgs(objective, objective.prior.location, 1e-10, 1000).point.value
    return abs(theirs - ours) / abs(ours)
