"""The true posterior of a tiny model: means, widths, distribution functions and evidence, with their errors.

Parts of a model that share no variable and no parameter are integrated apart: up to three parameters by cubature, more
by importance sampling. Nothing here is shared with the fits.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from bayesfield.experiments.extreme.cubature import Weighted, integrate
from bayesfield.experiments.extreme.density import LogDensity, ensemble
from bayesfield.experiments.extreme.importance import sample
from bayesfield.experiments.extreme.models import ExtremeModel
from bayesfield.outputs import write_npz
from bayesfield.types import FloatArray

_CHAINS, _SNAPSHOTS = 400, 8
_PROBABILITIES = special.ndtr(np.linspace(-5.0, 5.0, 2001))  # at which quantiles are kept
_MESHES, _MESH_ERROR = (2, 8), 7e-4  # at least and at most; standard error of P(λ > 0) that is small enough
BY_CUBATURE = 3  # parameters at most


@dataclass(frozen=True, eq=False)
class Reference:
    """mean, sd, p_positive: (F,) of the posterior. quantiles: (F, 2001). log_evidence: log p(D).

    The errors are standard errors, of cubature bounds: mean_error (F,) in sd, sd_error (F,) as a share, p_error (F,),
    evidence_error in nats.
    """

    mean: FloatArray
    sd: FloatArray
    p_positive: FloatArray
    quantiles: FloatArray
    log_evidence: float
    mean_error: FloatArray
    sd_error: FloatArray
    p_error: FloatArray
    evidence_error: float

    def probability_between(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """P(lower ≤ λ ≤ upper) of each parameter: (F,)."""
        ends = zip(self.quantiles, lower, upper, strict=True)
        return np.array([np.subtract(*np.interp([b, a], q, _PROBABILITIES, 0.0, 1.0)) for q, a, b in ends])


def reference(model: ExtremeModel, folder: Path | None = None) -> Reference:
    """The true posterior. folder: where references are kept, by seed; those of other models are not taken from it."""
    path = None if folder is None else folder / f"{model.seed:06d}.npz"
    if path is not None and path.exists():
        with np.load(path, allow_pickle=False) as file:
            if str(file["fingerprint"]) == model.fingerprint:
                return Reference(**{f.name: _plain(file[f.name]) for f in fields(Reference)})
    result = _computed(model)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = {name: np.asarray(value) for name, value in vars(result).items()}
        write_npz(path, fingerprint=np.array(model.fingerprint), **arrays)
    return result


def _plain(value: FloatArray) -> Any:
    """Arrays without an axis as numbers."""
    return value if value.ndim else float(value)


def _computed(model: ExtremeModel) -> Reference:
    rng = np.random.default_rng([23, model.seed])
    pieces = _pieces(model)
    size = model.joint_features.shape[1]
    columns = {name: np.empty(size) for name in ("mean", "sd", "p_positive", "mean_error", "sd_error", "p_error")}
    quantiles = np.empty((size, len(_PROBABILITIES)))
    log_evidence, variance = 0.0, 0.0
    for parameters, density in pieces:
        weighted = integrated(density, rng)
        answers = marginals(weighted)
        for name, own in columns.items():
            own[parameters] = answers[name]
        quantiles[parameters] = answers["quantiles"]
        log_evidence += weighted.log_evidence
        variance += _evidence_error(weighted) ** 2
    return Reference(**columns, quantiles=quantiles, log_evidence=log_evidence, evidence_error=float(np.sqrt(variance)))


def integrated(density: LogDensity, rng: np.random.Generator, by_draws: bool = False) -> Weighted:
    """Weighted points: nodes of cubature where there are few parameters, else (or by_draws) draws."""
    draws = ensemble(density, _CHAINS, _SNAPSHOTS, rng)
    centre = draws.mean(axis=0)
    root = np.linalg.cholesky(np.atleast_2d(np.cov(draws.T)))
    if density.size <= BY_CUBATURE and not by_draws:
        return _by_cubature(density, centre, root, rng)
    return sample(density, draws, centre, root, rng)


def _by_cubature(density: LogDensity, centre: FloatArray, root: FloatArray, rng: np.random.Generator) -> Weighted:
    """Nodes of several meshes, turned at random against the parameters: along their axes nodes would lie in planes, and
    distribution functions would have steps (P(λ > 0) was off by 0.015). How far the meshes differ is the error; one
    that happens to lie along an axis shows by it, and more are added."""
    meshes: list[Weighted] = []
    error = np.full(density.size, np.inf)
    while len(meshes) < _MESHES[0] or (error.max() > _MESH_ERROR and len(meshes) < _MESHES[1]):
        turn = np.linalg.qr(rng.standard_normal((density.size, density.size)))[0]
        meshes.append(integrate(density, centre, root @ turn))
        signs = np.array([_distributions(mesh)[1] for mesh in meshes])
        error = signs.std(axis=0, ddof=min(1, len(meshes) - 1)) / np.sqrt(len(meshes))
    bound = max(mesh.error for mesh in meshes)
    return Weighted(
        np.concatenate([mesh.points for mesh in meshes]),
        np.concatenate([mesh.weights for mesh in meshes]) / len(meshes),
        float(np.mean([mesh.log_evidence for mesh in meshes])),
        bound,
        error + bound,
    )


def _pieces(model: ExtremeModel) -> list[tuple[list[int], LogDensity]]:
    """Parameters and density of each part of the model that is independent of the rest."""
    joint, features, counts = model.joint_states, model.joint_features, model.counts
    if model.edges or model.tied:
        return [(list(range(features.shape[1])), LogDensity.of(features, counts, model.variance))]
    each = features.shape[1] // model.variables
    result = []
    for i in range(model.variables):
        parameters = list(range(i * each, (i + 1) * each))
        own = np.bincount(joint[:, i], weights=counts).astype(np.float64)
        first = [int(np.flatnonzero(joint[:, i] == k)[0]) for k in range(model.states)]
        result.append((parameters, LogDensity.of(features[first][:, parameters], own, model.variance)))
    return result


def marginals(weighted: Weighted) -> dict[str, FloatArray]:
    """Means, widths, P(λ > 0), quantiles and errors of every parameter."""
    points, weights = weighted.points, weighted.weights
    mean = weights @ points
    z = points - mean
    sd = np.sqrt(weights @ z**2)
    z /= sd
    quantiles, p = _distributions(weighted)
    if weighted.p_error is not None:
        bound = np.full(len(mean), weighted.error)
        errors = {"mean_error": bound, "sd_error": bound, "p_error": weighted.p_error}
    else:
        squared = weights**2
        errors = {
            "mean_error": np.sqrt(squared @ z**2),
            "sd_error": 0.5 * np.sqrt(squared @ (z**2 - 1.0) ** 2),
            "p_error": np.sqrt(squared @ ((points > 0) - p) ** 2),
        }
    return {"mean": mean, "sd": sd, "p_positive": p, "quantiles": quantiles, **errors}


def _distributions(weighted: Weighted) -> tuple[FloatArray, FloatArray]:
    """Quantiles (F, 2001) and P(λ > 0) (F,) of every parameter."""
    use = weighted.weights > 1e-9 * weighted.weights.max()
    weights = weighted.weights[use]
    quantiles, p_positive = [], []
    for column in weighted.points[use].T:
        order = np.argsort(column)
        below = np.cumsum(weights[order])
        below = (below - 0.5 * weights[order]) / below[-1]
        quantiles.append(np.interp(_PROBABILITIES, below, column[order]))
        p_positive.append(1.0 - np.interp(0.0, column[order], below, 0.0, 1.0))
    return np.array(quantiles), np.array(p_positive)


def _evidence_error(weighted: Weighted) -> float:
    if weighted.p_error is not None:
        return weighted.error
    return float(np.sqrt(max((weighted.weights**2).sum() - 1.0 / len(weighted.weights), 0.0)))
