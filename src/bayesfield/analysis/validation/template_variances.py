"""A variance for each template of a CRF's inputs by cross-validation, all of them at once.

With H(λ; v) = ∇² of the negative log posterior at its mode λ(v), and α_g = 1/v_g, the mode moves by
∂λ/∂log v_g = H⁻¹ (α_g λ)_g. So the loss V of what was left out has the gradient

    ∂V/∂log v_g = Σ_{j in g} α_g λ_j h_j   with   H h = ∇V(λ),

one solve by conjugate gradients for all templates (implicit differentiation: Foo, Do & Ng 2007). L-BFGS moves the log
variances, each mode begun where the last one was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from bayesfield.analysis.validation.slopes import Held, held_out
from bayesfield.learning.objective import GaussianPrior
from bayesfield.model.conditional import CRF, Sequences, as_sequences
from bayesfield.types import BoolArray, FloatArray, IntArray, InvalidInput

_RANGE = np.log([1e-4, 1e3])  # of a variance
_EVALUATIONS = 15


@dataclass(frozen=True, eq=False)
class TemplateVariances:
    """variances: by template, as bf.Templates takes them. log_loss: −log p of the labels left out, by the modes, those
    of a sequence together, in nats a label; before: with one variance, of 1."""

    variances: dict[str, float]
    log_loss: float
    before: float


def cross_validated_templates(
    crf: CRF,
    X: Any,
    y: Sequence[Any] | None = None,
    folds: int = 3,
    *,
    Z: Sequence[Any] | None = None,
    rng: np.random.Generator | int | None = 0,
) -> TemplateVariances:
    """The variances of templates whose modes predict best the labels of sequences that were left out.

    X, y, Z: as in ``bf.fit_sequences``. folds: parts of the data, each left out once; rng: who is in which.
    """
    data = X if isinstance(X, Sequences) else as_sequences(crf, X, y, Z)
    if data.labels is None or not (data.labels >= 0).any() or len(data) < 2 or folds < 2:
        raise InvalidInput("cross-validation needs at least two labelled sequences, and two folds")
    names, owner = np.unique(crf.template_of, return_inverse=True)
    fold = np.random.default_rng(rng).permutation(np.arange(len(data)) % min(folds, len(data)))
    parts = [_part(crf, owner, data, fold == k) for k in range(fold.max() + 1)]
    count, tried = int((data.labels >= 0).sum()), []

    def loss(log_v: FloatArray) -> tuple[float, FloatArray]:
        each = [part.loss(log_v) for part in parts]
        value, slope = sum(v for v, _ in each) / count, np.sum([s for _, s in each], axis=0) / count
        tried.append((value, log_v.copy()))
        return value, slope

    options = {"maxfun": _EVALUATIONS, "maxiter": _EVALUATIONS}
    minimize(loss, np.zeros(len(names)), jac=True, method="L-BFGS-B", bounds=[_RANGE] * len(names), options=options)
    best, log_v = min(tried, key=lambda one: one[0])
    return TemplateVariances(dict(zip(names.tolist(), np.exp(log_v).tolist(), strict=True)), best, tried[0][0])


class _Held(NamedTuple):
    """held: sequences to fit and sequences left out. owner: (F,) the template of each weight."""

    held: Held
    owner: IntArray

    def loss(self, log_v: FloatArray) -> tuple[float, FloatArray]:
        """V and its slope along every log v."""
        precision = np.exp(-log_v)[self.owner]
        moved = self.held.at(GaussianPrior(np.zeros(len(precision)), precision))
        slope: FloatArray = np.bincount(self.owner, precision * moved.mode * moved.pull, len(log_v)).astype(np.float64)
        return moved.value, slope


def _part(crf: CRF, owner: IntArray, data: Sequences, out: BoolArray) -> _Held:
    held = held_out(crf, data, out)
    return _Held(held, owner[held.parameters])
