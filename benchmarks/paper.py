"""Questions that the paper's experiments leave open, each by its own measurement.

Where plain message passing fails on the couplings of figures 4 and 5; what makes BL-MP's score rise with N; whether
expectation propagation is too narrow by its factors or by our code; and whether exact samplers agree on small grids.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import bayesfield as bf
from bayesfield import diagnostics
from bayesfield.diagnostics import cramer_von_mises
from bayesfield.experiments.paper.cases import CASES, mixed_signs
from bayesfield.experiments.paper.document_comparison import LINES
from bayesfield.experiments.paper.documents import (
    PRIOR_VARIANCE,
    data_folder,
    labelled_files,
    line_crf,
    line_sequences,
    source_of,
)
from bayesfield.fitting.sequences import fit_sequences
from bayesfield.learning.phases.cases import field_objective
from bayesfield.model.conditional import CRF, as_sequences
from bayesfield.prediction.chain import predict_sequences
from bayesfield.samplers.sample import sample_sequences
from benchmarks.timing import Report, Watch

STRENGTHS = (0.5, 1.0, 1.5, 1.75, 2.0, 2.5, 3.0)
SCHEDULES = {
    "all at once": bf.Bethe(schedule="flooding", tolerance=1e-6, max_direct=0),
    "one by one": bf.Bethe(tolerance=1e-6, max_direct=0),
    "damped by half": bf.Bethe(schedule="flooding", damping=0.5, tolerance=1e-6, max_direct=0),
}
SIZES = (10, 100, 1000, 5000)
DRAWS = 4000


def run(watch: Watch) -> list[Report]:
    asked = {
        "Plain messages, couplings ±[d, d + 0.1]/4": _messages,
        "BL-MP by number of cases": _by_cases,
        "Widths by expectation propagation": _propagation,
        "Exact samplers on small grids": _small_grids,
        "Labels of lines by the most probable weights": _lines,
    }
    return [make(title, watch) for title, make in asked.items() if watch.wants(title)]


# --- messages ---------------------------------------------------------------------------------------------------------


def _messages(title: str, watch: Watch) -> Report:
    """Share of instantiations where messages do not settle: at the true parameters, and anywhere in a BL-BP fit."""
    many, fits, rows = (20, 4, []) if watch.quick else (200, 10, [])
    field = bf.grid(5, 5)
    for name, bias, one_sign in (("0", 0.0, False), ("1", 1.0, False), ("0, couplings of one sign", 0.0, True)):
        for d in STRENGTHS:
            watch.tell(f"messages, fields {name}, d = {d:g}")
            failed = dict.fromkeys(SCHEDULES, 0)
            for seed in range(many):
                truth = _parameters(field, d, bias, one_sign, np.random.default_rng([seed, round(100 * d)]))
                for schedule, engine in SCHEDULES.items():
                    failed[schedule] += not bf.infer(field, truth, engine=engine).status.converged
            shares = [_share(failed[schedule], many) for schedule in SCHEDULES]
            plain, direct = _fits(field, d, bias, one_sign, fits)
            rows.append((name, d, *shares, _share(plain, fits), _share(direct, fits)))
    columns = ("fields", "d", *SCHEDULES, "fits, plain messages", "fits, free energy minimised")
    notes = (
        f"share that did not settle within 1,000 sweeps to 1e-6: of {many} instantiations at their true parameters by "
        f"three schedules; and of {fits} fits to {CASES:,} cases (prior variance 1) that ended without an optimum, by "
        "plain messages alone and by bf.Bethe() as it comes, which minimises the free energy where they fail",
    )
    return Report(title, columns, rows, notes)


def _parameters(field: bf.RandomField, d: float, bias: float, one_sign: bool, rng: np.random.Generator) -> np.ndarray:
    drawn = mixed_signs(field, d / 4, bias, rng)
    return np.abs(drawn) if one_sign else drawn


def _fits(field: bf.RandomField, d: float, bias: float, one_sign: bool, many: int) -> tuple[int, int]:
    failed = [0, 0]
    for seed in range(many):
        rng = np.random.default_rng([seed, round(100 * d)])
        X = bf.sample(field, _parameters(field, d, bias, one_sign, rng), CASES, rng)
        for k, engine in enumerate((bf.Bethe(max_direct=0), bf.Bethe(max_direct=2000))):
            failed[k] += not _ended_well(field, X, engine)
    return failed[0], failed[1]


def _ended_well(field: bf.RandomField, X: Any, engine: bf.Bethe) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            record = bf.fit(field, X, bf.Normal(variance=1.0), engine, correction="none", max_iterations=50).record
        except bf.IndefiniteCurvature:
            return False
    return record.status.converged and record.inference.converged


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}"


# --- BL-MP ------------------------------------------------------------------------------------------------------------


def _by_cases(title: str, watch: Watch) -> Report:
    """Score of BL-MP against NUTS: by prior, by covariance, and by how its mode was sought."""
    models, rows = 1 if watch.quick else 2, []
    ways: dict[str, tuple[float, Callable[..., np.ndarray]]] = {
        "prior variance 0.25, mode to the end": (0.25, _to_the_end(bf.Bethe())),
        "prior variance 1": (1.0, _to_the_end(bf.Bethe())),
        "prior variance 100": (100.0, _to_the_end(bf.Bethe())),
        "prior variance 0.25, exact covariance": (0.25, _to_the_end(None)),
        "BL-BP, prior variance 0.25": (0.25, _by_bethe),
        "prior variance 0.25, steepest ascent until a case's gradient is below 1e-2": (0.25, _stopped(1e-2)),
        "prior variance 0.25, steepest ascent until a case's gradient is below 1e-3": (0.25, _stopped(1e-3)),
    }
    scores: dict[str, np.ndarray] = {name: np.empty((models, len(SIZES))) for name in ways}
    floors, skewed = np.empty((2, models, len(SIZES)))
    for model in range(models):
        for place, N in enumerate(SIZES):
            watch.tell(f"BL-MP, model {model}, N = {N}")
            field, rng = bf.grid(5, 5), np.random.default_rng([model, N])
            X = bf.sample(field, 0.5 * np.random.default_rng(model).normal(size=field.n_parameters), N, rng)
            truths: dict[float, np.ndarray] = {}
            for name, (variance, way) in ways.items():
                prior = bf.Normal(variance=variance)
                if variance not in truths:
                    truths[variance] = _nuts(field, X, prior)
                found = way(field, X, prior, rng)
                scores[name][model, place] = cramer_von_mises(truths[variance][:DRAWS], found).sum()
            first = truths[0.25]
            floors[model, place] = cramer_von_mises(first[:DRAWS], first[DRAWS:]).sum()
            scaled = (first - first.mean(axis=0)) / first.std(axis=0)
            skewed[model, place] = np.abs((scaled**3).mean(axis=0)).max()
    rows = [("two exact sets", *(float(v) for v in floors.mean(axis=0)))]
    rows += [(name, *(float(v) for v in own.mean(axis=0))) for name, own in scores.items()]
    rows.append(("largest skewness of an exact marginal", *(float(v) for v in skewed.mean(axis=0))))
    notes = (
        f"5×5 grids of figure 2, means over {models} models; Cramér-von Mises distance of {DRAWS:,} draws each, all 65 "
        "parameters: the paper's 10,000 give 2.5 times what is above the floor; chance alone gives a skewness of 0.1",
    )
    return Report(title, ("", *(f"N = {N:,}" for N in SIZES)), rows, notes)


def _nuts(field: bf.RandomField, X: Any, prior: bf.Normal) -> np.ndarray:
    return bf.sample_posterior(field, X, prior, bf.NUTS(), n_draws=DRAWS // 2, chains=4, rng=1).flat


def _to_the_end(response: Any) -> Callable[..., np.ndarray]:
    def draws(field: bf.RandomField, X: Any, prior: bf.Normal, rng: np.random.Generator) -> np.ndarray:
        return _laplace(field, X, prior, response).sample(DRAWS, rng)

    return draws


def _by_bethe(field: bf.RandomField, X: Any, prior: bf.Normal, rng: np.random.Generator) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bf.fit(field, X, prior, bf.Bethe(), correction="none").sample(DRAWS, rng)


def _stopped(limit: float) -> Callable[..., np.ndarray]:
    """The Gaussian of BL-MP about where ascent along the gradient stops."""

    def draws(field: bf.RandomField, X: Any, prior: bf.Normal, rng: np.random.Generator) -> np.ndarray:
        objective = field_objective(field, X, prior, bf.Exact())

        def per_case(parameters: np.ndarray) -> tuple[float, np.ndarray]:
            point = objective.at(parameters)
            return point.value / len(X), point.gradient / len(X)

        here, step = np.zeros(field.n_parameters), 1.0
        value, slope = per_case(here)
        while np.abs(slope).max() >= limit:
            there = here - step * slope
            new, other = per_case(there)
            if new < value:
                here, value, slope, step = there, new, other, 1.5 * step
            else:
                step *= 0.5
        posterior = _laplace(field, X, prior, bf.Bethe())
        return posterior.sample(DRAWS, rng) - posterior.mode + here

    return draws


def _laplace(field: bf.RandomField, X: Any, prior: bf.Normal, response: Any) -> bf.Posterior:
    options = {} if response is None else {"response": response}
    return bf.fit(field, X, prior, bf.Exact(), correction="none", **options)


# --- expectation propagation ------------------------------------------------------------------------------------------


def _propagation(title: str, watch: Watch) -> Report:
    """The same posterior with features of states at positions, or in the pairs that begin there."""
    rows: list[tuple] = []
    for cases in (4, 16) if watch.quick else (4, 16, 64):
        watch.tell(f"expectation propagation, {cases} sequences")
        apart, together, place = _two_ways(cases)
        prior = bf.Normal(variance=1.0)
        truth = sample_sequences(*apart, prior=prior, n_draws=5000, rng=1).flat
        for name, posterior, order in (
            ("Laplace", fit_sequences(*apart, prior=prior, correction="none"), None),
            ("EP, positions and pairs are factors (ours)", fit_sequences(*apart, prior=prior, method="ep"), None),
            ("EP, a pair with its state is one factor", fit_sequences(*together, prior=prior, method="ep"), place),
            ("corrected", fit_sequences(*apart, prior=prior, correction="variational"), None),
        ):
            own = np.arange(truth.shape[1]) if order is None else order
            covariance = posterior.covariance()[np.ix_(own, own)]
            exact = np.cov(truth.T)
            ratio = np.sqrt(np.diag(covariance) / np.diag(exact))
            half = truth.shape[1] // 2
            rows.append(
                (
                    name, cases, float(ratio.mean()), float(ratio.min()), _cross(exact, half), _cross(covariance, half),
                    float(np.abs((posterior.mean[own] - truth.mean(axis=0)) / np.sqrt(np.diag(exact))).max()),
                )
            )  # fmt: skip
    columns = (
        "", "sequences", "sd / NUTS's sd, mean", "least", "state-pair correlation, rms: NUTS", "here",
        "mean, off by (sd)",
    )  # fmt: skip
    notes = (
        "chains of 20 positions, two labels as −1 and 1, 3 features of states and the same 3 of pairs; the posterior "
        "is the same in both forms, since features are zero at the last position",
    )
    return Report(title, columns, rows, notes)


def _cross(covariance: np.ndarray, half: int) -> float:
    scale = np.sqrt(np.diag(covariance))
    return float(np.sqrt(np.mean((covariance / np.outer(scale, scale))[:half, half:] ** 2)))


def _two_ways(cases: int) -> tuple[tuple, tuple, np.ndarray]:
    """Model and data twice, and where the first one's parameters are among the second's."""
    rng = np.random.default_rng(cases)
    X = [(rng.random((20, 3)) < 0.5).astype(float) for _ in range(cases)]
    for x in X:
        x[-1] = 0.0
    pair, state = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([[-1.0, -1.0], [1.0, 1.0]])
    apart = CRF((-1, 1), 3, 3, [[-1.0, 1.0]], [pair])
    unlabelled = as_sequences(apart, X, None, [x[:-1] for x in X])
    y = _labels(apart, unlabelled, rng)
    together = CRF((-1, 1), 1, 3, [[-1.0, 1.0]], [state, pair])
    nothing = [np.zeros((20, 1)) for _ in X]
    first = as_sequences(apart, X, y, [x[:-1] for x in X])
    second = as_sequences(together, nothing, y, [x[:-1] for x in X])
    place = 1 + np.concatenate([2 * np.arange(3), 2 * np.arange(3) + 1])
    return (apart, first), (together, second), place


def _labels(crf: CRF, data: Any, rng: np.random.Generator) -> list[list[int]]:
    """Drawn from the model at N(0, 1) parameters."""
    from bayesfield.inference.trees.chain import chain_drawn
    from bayesfield.kernels.chains.passes import ChainArrays
    from bayesfield.learning.phases.crf_design import potentials

    drawn = chain_drawn(ChainArrays(data.ptr, data.which), *potentials(crf, data, rng.normal(size=6)), rng)
    assert drawn is not None
    return [[crf.labels[k] for k in part] for part in np.split(drawn, data.ptr[1:-1])]


# --- lines of files ---------------------------------------------------------------------------------------------------


def _lines(title: str, watch: Watch) -> Report:
    """Share of wrong labels in the files that were learned from, and in the others."""
    rows, folder = [], data_folder(None)
    files = labelled_files(folder, LINES)
    crf = line_crf(files)
    for number in (10, 20, 40):
        wrong = np.zeros((2, 5))
        for draw in range(5):
            watch.tell(f"{number} files, draw {draw}")
            order = np.random.default_rng([draw, number]).permutation(len(files))
            parts = [line_sequences(crf, [files[k] for k in own], "first") for own in np.split(order, [number])]
            posterior = fit_sequences(crf, parts[0], prior=bf.Normal(variance=PRIOR_VARIANCE), correction="none")
            for k, part in enumerate(parts):
                wrong[k, draw] = np.mean(predict_sequences(posterior, part, "map").labels != part.labels)
        rows.append((str(number), *(f"{v:.1%}" for v in wrong.mean(axis=1))))
    columns = ("files", "lines of these files wrong", "lines of other files wrong")
    notes = (f"{source_of(folder)}: {len(files)} files of {LINES} lines, means over 5 draws of files",)
    return Report(title, columns, rows, notes)


# --- small grids ------------------------------------------------------------------------------------------------------


def _small_grids(title: str, watch: Watch) -> Report:
    prior, rows = bf.Normal(variance=0.25), []
    samplers = {"Møller": bf.Moller(), "exchange": bf.Exchange(), "Metropolis": bf.Metropolis()}
    for side in (2, 3):
        field, rng = bf.grid(side, side), np.random.default_rng(side)
        X = bf.sample(field, 0.5 * rng.normal(size=field.n_parameters), 60, rng)
        draws = {"NUTS": bf.sample_posterior(field, X, prior, bf.NUTS(), n_draws=5000, rng=1).values}
        for name, sampler in samplers.items():
            watch.tell(f"{side}×{side}, {name}")
            steps = 400 if watch.quick else 1000
            draws[name] = bf.sample_posterior(field, X, prior, sampler, n_draws=steps, thin=30, rng=2).values
        names = list(draws)
        for k, one in enumerate(names):
            for other in names[k + 1 :]:
                mean, variance = _gaps(draws[one], draws[other])
                rows.append((f"{side}×{side}", f"{one}, {other}", mean, variance, max(mean, variance) < 4.0))
    columns = ("grid", "samplers", "means, largest difference in standard errors", "variances", "within 4")
    return Report(title, columns, rows, ("60 cases, prior variance 0.25; 8 and 21 parameters",))


def _gaps(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    centre, found = first.mean(axis=(0, 1)), []
    for power in (1, 2):
        moments = []
        for values in (first, second):
            figures = values if power == 1 else (values - centre) ** 2
            error = figures.std(axis=(0, 1)) / np.sqrt(diagnostics.effective_size(figures))
            moments.append((figures.mean(axis=(0, 1)), error))
        (a, s), (b, t) = moments
        found.append(float(np.abs((a - b) / np.hypot(s, t)).max()))
    return found[0], found[1]
