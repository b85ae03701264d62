"""A posterior in the parameters of another field that has the same distributions: other scores, other features."""

import numpy as np
from scipy import linalg

from bayesfield.correction.cumulants import marginal_skewness
from bayesfield.correction.marginals import DrawnMarginals
from bayesfield.graph.compiled import compiled
from bayesfield.learning.objective import GaussianPrior, Objective, gaussian
from bayesfield.learning.phases.cases import case_objective
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.model.field import RandomField
from bayesfield.model.prior import Normal, Prior
from bayesfield.model.scales import recoding
from bayesfield.posterior.posterior import Posterior
from bayesfield.types import FloatArray, InvalidInput


def recoded(posterior: Posterior, field: RandomField) -> Posterior:
    """The posterior of Tλ, the parameters of ``field``, with T = bf.recoding(posterior.field, field).

    Mean Tm, precision T⁻ᵀPT⁻¹; the prior goes over likewise, and draws λ become Tλ with their weights. Nothing is
    fitted, and the record stays that of the fit.
    """
    old = posterior.field
    if not isinstance(field, RandomField):
        raise InvalidInput(f"the new field is a bf.RandomField; got {field!r}")
    if not isinstance(old, RandomField):
        raise InvalidInput("recoded is for posteriors of fields; this one is of a conditional field")
    objective = posterior.objective
    if objective is not None and objective.prior.tails is not None:
        raise InvalidInput("a Cauchy prior has no simple form on another scale; recode a posterior under bf.Normal")
    T = recoding(old, field)
    inverse = _inverse(T)
    new, laplace = field.with_hidden(old.hidden), posterior.laplace_precision
    marginals = _draws(posterior, T)
    return Posterior(
        new,
        T @ posterior.mean,
        _congruent(posterior.precision, inverse),
        posterior.record,
        T @ posterior.mode,
        None if objective is None else _objective(objective, new, T, inverse),
        _skewness(posterior, T) if marginals is None else marginals.skewness,
        None if laplace is None else DensePrecision(_congruent(laplace.matrix(), inverse)),
        _prior(posterior, T),
        marginals,
    )


def _draws(posterior: Posterior, T: FloatArray) -> DrawnMarginals | None:
    """Tλ of every draw, where the posterior is made of them."""
    old = posterior.marginals
    return DrawnMarginals(old.points @ T.T, old.weights) if isinstance(old, DrawnMarginals) else None


def _prior(posterior: Posterior, T: FloatArray) -> Prior | None:
    """N(Tμ, TΛTᵀ), where the old one is Gaussian."""
    old, field = posterior.prior, posterior.field
    if not isinstance(old, Normal):
        return None
    prior = gaussian(old, field)
    mean, covariance = T @ prior.location, T @ prior.covariance @ T.T
    diagonal = np.diag(covariance).copy()
    independent = np.array_equal(covariance, np.diag(diagonal))
    return Normal(variance=diagonal, mean=mean) if independent else Normal(covariance=covariance, mean=mean)


def _inverse(T: FloatArray) -> FloatArray:
    rows, columns = T.shape
    if rows != columns or np.linalg.matrix_rank(T) < rows:
        raise InvalidInput(
            f"the new field's {rows} parameters and the old one's {columns} do not determine one another, so there is "
            "no density to recode; parameters alone go over by bf.recoding(old, new) @ parameters"
        )
    result: FloatArray = linalg.inv(T)
    return result


def _congruent(precision: FloatArray, inverse: FloatArray) -> FloatArray:
    """T⁻ᵀPT⁻¹, (F, F)."""
    result = inverse.T @ precision @ inverse
    return (result + result.T) / 2


def _objective(old: Objective, field: RandomField, T: FloatArray, inverse: FloatArray) -> Objective:
    """The same data, engine and prior: N(Tμ, TΛTᵀ)."""
    moved = _congruent(old.prior.matrix(), inverse)
    diagonal = np.diag(moved)
    if np.array_equal(moved, np.diag(diagonal)):  # parameters that were independent still are
        moved = diagonal.copy()
    cases, prior = old.data.cases, GaussianPrior(T @ old.prior.location, moved)
    return case_objective(compiled(field), cases.codes, prior, old.free.engine, cases.weights)


def _skewness(posterior: Posterior, T: FloatArray) -> FloatArray:
    """Of every marginal of Tλ. A multiple of one parameter has that one's; the others are found anew."""
    largest = np.abs(T).argmax(axis=1)
    result: FloatArray = np.sign(T[np.arange(len(T)), largest]) * posterior.skewness[largest]
    mixed = np.count_nonzero(T, axis=1) > 1
    if mixed.any() and posterior.skewness.any():
        objective = posterior.objective
        anew = None
        if objective is not None:
            anew = marginal_skewness(objective, posterior.mean, posterior.form, T[mixed])
        result[mixed] = 0.0 if anew is None else anew
    return result
