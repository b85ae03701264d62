"""How often the contrastive Bethe free energy of a loopy field has an optimum, and its curvature there.

Random models with parameters N(0, 0.5²), 200 cases each, by how the three hidden variables are joined to a 3×3 lattice.
"""

import warnings

import numpy as np

import bayesfield as bf
from benchmarks.timing import Report, Watch

MODELS, CASES = 100, 200
HIDDEN = {
    "one for each row": [(i, 9 + i // 3) for i in range(9)],
    "one for each row and its neighbour": [(i, 9 + h) for i in range(9) for h in {i // 3, (i // 3 + 1) % 3}],
    "each joined to all nine": [(i, 9 + h) for i in range(9) for h in range(3)],
    "no lattice, each joined to all nine": [(i, 9 + h) for i in range(9) for h in range(3)],
}


def run(watch: Watch) -> list[Report]:
    rows = [_rates(name, 10 if watch.quick else MODELS, watch) for name in HIDDEN]
    columns = ("hidden variables", "models", "optimum found", "positive definite there", "returned without one")
    notes = (
        "without an optimum belief propagation jumps between fixed points, and the search ends at the jump: a "
        "FitWarning or a refusal, by bf.fit(engine=bf.Bethe()); auto goes on to sampling",
    )
    found = [_reweighted(name, 10 if watch.quick else MODELS, watch) for name in HIDDEN]
    convex = (
        "hidden variables",
        "models",
        "optimum found",
        "positive definite there",
        "bias (sd, rms)",
        "sd / exact sd",
    )
    about = (
        "by bf.fit(engine=bf.Reweighted()), from the exact mode, so that both describe the same one; the bias is "
        "the rms over parameters of (mode − exact mode) / exact sd, the median over models, as the ratio of widths; "
        "at this size auto takes exact inference",
    )
    return [
        Report("Contrastive Bethe optima, 3×3 visible + 3 hidden", columns, rows, notes),
        Report("The same with convex counting numbers", convex, found, about),
    ]


def _model(name: str, seed: int) -> tuple:
    lattice = [] if name.startswith("no lattice") else [tuple(e) for e in bf.grid_edges(3, 3).tolist()]
    field, rng = bf.boltzmann(9, 3, (-1, 1), edges=lattice + HIDDEN[name]), np.random.default_rng(seed)
    return field, bf.sample(field, 0.5 * rng.normal(size=field.n_parameters), CASES, rng)[:, :9]


def _reweighted(name: str, models: int, watch: Watch) -> tuple:
    prior, optimum, positive, bias, width = bf.Normal(variance=0.25), 0, 0, [], []
    for seed in range(models):
        watch.tell(f"{name}, convex, model {seed}")
        field, X = _model(name, seed)
        exact = bf.fit(field, X, prior, bf.Exact(), correction="none", starts=3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bf.FitWarning)
            try:
                near = bf.fit(field, X, prior, bf.Reweighted(), correction="none", start=exact.mode)
            except bf.IndefiniteCurvature as refusal:
                optimum += "ended as: converged" in str(refusal)
                continue
        optimum += near.record.status.converged
        positive += near.record.status.converged
        bias.append(np.sqrt(np.mean(((near.mode - exact.mode) / exact.sd) ** 2)))
        width.append(np.median(near.sd / exact.sd))
    return name, models, optimum, positive, float(np.median(bias)), float(np.median(width))


def _rates(name: str, models: int, watch: Watch) -> tuple:
    lattice = [] if name.startswith("no lattice") else [tuple(e) for e in bf.grid_edges(3, 3).tolist()]
    field = bf.boltzmann(9, 3, (-1, 1), edges=lattice + HIDDEN[name])
    at_optimum = positive = silent = 0
    for seed in range(models):
        watch.tell(f"{name}, model {seed}")
        rng = np.random.default_rng(seed)
        X = bf.sample(field, 0.5 * rng.normal(size=field.n_parameters), CASES, rng)[:, :9]
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                posterior = bf.fit(field, X, bf.Normal(variance=0.25), bf.Bethe(), correction="none", starts=3)
            except bf.IndefiniteCurvature as refusal:
                at_optimum += "ended as: converged" in str(refusal)
                continue
        good = posterior.record.status.converged
        at_optimum += good
        positive += good
        silent += not good and not any(isinstance(w.message, bf.FitWarning) for w in heard)
    return name, models, at_optimum, positive, silent
