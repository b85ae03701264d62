"""Is this edge there? Savage-Dickey Bayes factors of a posterior's edges, and statements about many at once.

In the model that has all edges, the Bayes factor for an edge against none is the prior's density at zero over the
posterior's, of the edge's parameters: log BF = log p(0) − log p(0|D).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import linalg, special

from bayesfield.correction.cumulants import FAR
from bayesfield.correction.marginals import DrawnMarginals, Marginals
from bayesfield.learning.objective import GaussianPrior
from bayesfield.model.field import RandomField
from bayesfield.model.prior import GONE, Parametrised
from bayesfield.types import FitWarning, FloatArray, IntArray, InvalidInput

VERDICTS = ("excluded", "inconclusive", "included")
_FEW = 30.0  # effective draws beyond zero without which the density at zero is not known


class Edge(NamedTuple):
    """Two variables that share factors of their own, and the parameters of these."""

    first: int
    second: int
    parameters: IntArray


class Signs(NamedTuple):
    """Parameters whose signs are all right at once with at least the wanted probability."""

    names: list[str]
    signs: list[int]
    probability: float


def edges_of(field: Parametrised) -> list[Edge]:
    """The pairs of variables with factors over just these two, in order, each with its parameters."""
    if not isinstance(field, RandomField):
        raise InvalidInput(f"edges are those of a bf.RandomField; got {field!r}")
    found: dict[tuple[int, int], set[int]] = {}
    for block in field.blocks:
        if block.scopes.shape[1] == 2:
            for (i, j), own in zip(block.scopes.tolist(), block.parameters.tolist(), strict=True):
                found.setdefault((i, j), set()).update(own)
    kept = {pair: own for pair, own in found.items() if own}
    if not kept:
        raise InvalidInput("this field has no factor over two variables with a parameter: no edge to judge")
    return [Edge(i, j, np.array(sorted(own), dtype=np.int64)) for (i, j), own in sorted(kept.items())]


def log_prior_at_zero(prior: GaussianPrior | None, edges: Sequence[Edge] = ()) -> FloatArray:
    """(F,) log density at zero of every parameter's own prior. Refuses edges that share parameters or were dropped."""
    if prior is None:
        raise InvalidInput("this posterior came without its data and prior: there is nothing to compare with")
    if not prior.independent:
        raise InvalidInput("edges are judged one by one under a prior of independent parameters; this has a covariance")
    own = np.concatenate([e.parameters for e in edges]) if edges else np.empty(0, dtype=np.int64)
    if len(np.unique(own)) < len(own):
        raise InvalidInput("edges share parameters, so that they come and go together: see posterior.summary()")
    if (prior.precision[own] >= GONE).any():
        raise InvalidInput(
            "ARD has dropped some of these edges already (posterior.record.prior tells which); for Bayes factors fit "
            "under a prior that does not depend on the data, such as bf.Normal(variance=1.0)"
        )
    gaussian = 0.5 * (np.log(prior.precision / (2.0 * np.pi)) - prior.precision * prior.location**2)
    if prior.tails is None:
        return gaussian
    return np.where(np.isfinite(prior.tails), -np.log(np.pi * prior.tails), gaussian)


def warn_of_tails(record: Any, depth: int) -> None:
    """Bayes factors take the posterior for a Gaussian; where the record says that it is far from one, so does this."""
    reason = record.correction.reason
    if not record.status.converged or reason.startswith(FAR):
        why = reason if record.status.converged else str(record.status)
        warnings.warn(
            f"these Bayes factors are rough: {why}. Compare fits with and without an edge: bf.compare",
            FitWarning,
            stacklevel=depth + 1,
        )


def without_draws_at_zero(marginals: Marginals, edges: Sequence[Edge]) -> IntArray:
    """The single parameters of edges beyond whose zero hardly any draw lies, where a posterior is made of draws: its
    density there is not known by them. On two items that never disagree, prior variance 1000, a skewed normal of the
    draws' moments gives a log Bayes factor of 0.6, where evidence says 8.7."""
    if not isinstance(marginals, DrawnMarginals):
        return np.empty(0, dtype=np.int64)
    single = np.array([edge.parameters[0] for edge in edges if len(edge.parameters) == 1], dtype=np.int64)
    share = marginals.below(np.zeros(marginals.points.shape[1]))[single]
    beyond = np.minimum(share, 1.0 - share) / float(np.sum(marginals.weights**2))  # effective draws
    return single[beyond < _FEW]


def warn_of_draws(names: Sequence[str], which: IntArray, depth: int) -> None:
    """Of Bayes factors whose density at zero is guessed."""
    far = [names[int(k)] for k in which]
    if far:
        some = ", ".join(far[:5]) + (f" and {len(far) - 5} more" if len(far) > 5 else "")
        warnings.warn(
            f"the Bayes factors of {some} are rough: hardly any draw lies beyond zero, so the density there is "
            "guessed. Compare fits with and without an edge: bf.compare",
            FitWarning,
            stacklevel=depth + 1,
        )


def log_density_at_zero(mean: FloatArray, covariance: FloatArray) -> float:
    """log N(0; mean, covariance)."""
    factor = linalg.cho_factor(covariance, lower=True)
    volume = 2.0 * float(np.log(np.diag(factor[0])).sum())
    return -0.5 * (volume + float(mean @ linalg.cho_solve(factor, mean)) + len(mean) * float(np.log(2.0 * np.pi)))


def edge_table(field: Parametrised, edges: Sequence[Edge], columns: dict[str, FloatArray], odds: float) -> pd.DataFrame:
    """Edges with what is known of each. columns must have log_bayes_factor; odds: prior odds of an edge."""
    names = field.names if isinstance(field, RandomField) else []
    table = pd.DataFrame(
        {"first": [names[e.first] for e in edges], "second": [names[e.second] for e in edges]} | columns
    )
    log_factor = table["log_bayes_factor"].to_numpy(dtype=np.float64)
    if "inclusion" not in table:
        table["inclusion"] = special.expit(log_factor + np.log(odds))
    for threshold in (10, 3):
        table[f"at_{threshold}"] = verdicts(log_factor, threshold)
    return table


def verdicts(log_bayes_factor: FloatArray, threshold: float) -> list[str]:
    """ "included" where the Bayes factor is above a threshold, "excluded" where it is below its inverse."""
    side = (log_bayes_factor >= np.log(threshold)).astype(int) - (log_bayes_factor <= -np.log(threshold)).astype(int)
    return [VERDICTS[s + 1] for s in side]


def sure_signs(names: Sequence[str], draws: FloatArray, level: float) -> Signs:
    """The largest set, most certain first, whose signs all hold at once in a share ``level`` of the draws, (S, F)."""
    if not 0.0 < level < 1.0:
        raise InvalidInput(f"level lies between 0 and 1; got {level}")
    positive = (draws > 0.0).mean(axis=0)
    order = np.argsort(-np.abs(positive - 0.5), kind="stable")
    right = (draws > 0.0) == (positive >= 0.5)
    together = np.logical_and.accumulate(right[:, order], axis=1).mean(axis=0)
    count = int((together >= level).sum())
    kept = order[:count]
    signs = np.where(positive[kept] >= 0.5, 1, -1).tolist()
    return Signs([names[k] for k in kept], signs, float(together[count - 1]) if count else 1.0)


def widest_at_once(draws: FloatArray, level: float) -> float:
    """c such that all parameters lie within mean ± c sd at once with probability level, from standardised draws."""
    return float(np.quantile(np.abs(draws).max(axis=1, initial=0.0), level))
