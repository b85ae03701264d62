"""How well a model foretells cases it has not seen: leave-one-out, without fitting again.

elpd = Σ_n log p(x_n | all other cases) ≈ Σ_n log Σ_s w_ns p(x_n | λ_s), with w_ns ∝ π_s / p(x_n | λ_s) smoothed as in
Vehtari, Simpson, Gelman, Yao & Gabry (2024), "Pareto smoothed importance sampling". The draws λ_s come from q, the
approximate posterior with heavier tails (posterior.proposal), and π_s = p(λ_s) p(D | λ_s) / q(λ_s) brings them to the
posterior itself (Magnusson, Andersen, Jonasson & Vehtari 2019, "Bayesian leave-one-out cross-validation for large
data"). Where q is too far for that, they come from the approximate posterior and stay there: π_s = 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from bayesfield.correction.cumulants import SkewedMarginals
from bayesfield.correction.importance import Proposal, heavy, pareto_smoothed, propose
from bayesfield.correction.marginals import DrawnMarginals
from bayesfield.inference.auto import Auto
from bayesfield.learning.objective import Objective, Pointwise, flat
from bayesfield.learning.phases.cases import field_objective
from bayesfield.learning.phases.graphs import graph_objective
from bayesfield.learning.phases.sequences import sequence_objective
from bayesfield.model.conditional import CRF, Sequences
from bayesfield.model.field import RandomField
from bayesfield.model.graphs import Graphs
from bayesfield.model.prior import Normal
from bayesfield.types import BoolArray, FloatArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.inference.contract import Engine
    from bayesfield.posterior.posterior import Posterior

_FEWEST = 25  # draws: of fewer, the tail has no five to fit a Pareto distribution to
_UNSURE = 0.7  # shape k of a tail above which its sums are not to be trusted
_LOST = 0.05  # share of the draws, at most, at which the engine may fail


@dataclass(frozen=True, eq=False)
class Loo:
    """What ``bf.loo`` found for N cases.

    elpd: Σ_n log p(x_n | all other cases). se: its standard error, √(N Var(pointwise)). p_loo: Σ_n of the log
    predictive density that a case loses when it is left out: about how many parameters the data pin down. pointwise:
    (N,) the terms of elpd. pareto_k: (N,) shape of the tail of each one's weights; above 0.7 its term is unsure.
    posterior_k: the same for the way from the approximate posterior to the posterior itself; corrected: whether the
    draws went it. draws: how many; lost: at how many more the engine did not converge.
    """

    elpd: float
    se: float
    p_loo: float
    pointwise: FloatArray
    pareto_k: FloatArray
    posterior_k: float
    corrected: bool
    draws: int
    lost: int = 0

    @property
    def unsure(self) -> int:
        """How many cases have k > 0.7."""
        return int((self.pareto_k > _UNSURE).sum())

    def __str__(self) -> str:
        lines = [
            f"elpd     {self.elpd:.1f} ± {self.se:.1f}, leaving out one of {len(self.pointwise)} cases at a time",
            f"p_loo    {self.p_loo:.1f}",
            f"draws    {self.draws} {self._origin()}",
            f"k        {self._verdict()}",
        ]
        if self.lost:
            lines.append(f"lost     {self.lost} draws, at which the engine did not converge")
        return "\n".join(lines)

    def _origin(self) -> str:
        k = f"(k {self.posterior_k:.2f})"
        if self.corrected:
            return f"near the approximate posterior, reweighted to the posterior itself {k}"
        why = "the prior is not known" if np.isnan(self.posterior_k) else f"too far from it to reweight {k}"
        return f"of the approximate posterior, taken for the posterior itself: {why}"

    def _verdict(self) -> str:
        worst = f"largest {self.pareto_k.max(initial=-np.inf):.2f}"
        if not self.unsure:
            return f"{worst}: every case can be left out by reweighting"
        return (
            f"{worst}; above 0.7 for {self.unsure} of {len(self.pareto_k)} cases, which sway the posterior too much: "
            "fit again without each of them (np.flatnonzero(loo.pareto_k > 0.7)), or take a narrower prior"
        )


def loo(posterior: Posterior, X: Any = None, n_draws: int = 1000, rng: np.random.Generator | int | None = 0) -> Loo:
    """The expected log density of a new case, by leaving out each of those that the posterior was fitted on.

    X: those cases, by default as the posterior carries them; for a CRF labelled sequences or graphs, as
    ``bf.as_sequences`` and ``bf.as_graphs`` return them. Cells that are missing or hidden are summed over; cases with
    nothing observed are left out. n_draws: of the parameters. Needs an engine that gives log Z.
    """
    if not isinstance(n_draws, int | np.integer) or n_draws < _FEWEST:
        raise InvalidInput(f"n_draws must be a whole number of at least {_FEWEST}, to fit a tail to; got {n_draws!r}")
    objective, generator = _objective(posterior, X), np.random.default_rng(rng)
    found, base, k = None, None, float("nan")
    if posterior.objective is not None and not isinstance(posterior.marginals, DrawnMarginals):
        marginals = SkewedMarginals(posterior.mean, posterior.sd, posterior.skewness)
        drawn = propose(marginals, posterior.form, int(n_draws), generator, heavy(len(posterior.mean)))
        found = objective.data.pointwise(objective, drawn.points)
        base, k = _to_posterior(objective, found, drawn)
    if found is None or base is None:
        found = objective.data.pointwise(objective, posterior.sample(int(n_draws), generator))
    return replace(_left_out(found, base), posterior_k=k)


def _to_posterior(objective: Objective, pointwise: Pointwise, drawn: Proposal) -> tuple[FloatArray | None, float]:
    """log π, (S,), where the draws' tails are heavy enough for it, and the k that tells."""
    often = np.bincount(pointwise.which, minlength=pointwise.values.shape[1])
    prior = np.array([objective.prior.log_density(here) for here in drawn.points])
    ratios = pointwise.values @ often + prior - drawn.log_density
    fine = np.isfinite(ratios)
    if fine.mean() < 1.0 - _LOST:
        return None, float("inf")
    _, k = pareto_smoothed(ratios[fine][None])
    return (ratios if k[0] <= _UNSURE else None), float(k[0])


def _left_out(found: Pointwise, base: FloatArray | None) -> Loo:
    """base: log π, (S,), or None for draws as they are."""
    fine: BoolArray = np.all(np.isfinite(found.values), axis=1)
    if fine.mean() < 1.0 - _LOST:
        raise InvalidInput(
            f"the engine found no log Z at {int((~fine).sum())} of {len(fine)} draws: fit with one that is exact on "
            "this field, bf.Exact(), or with a narrower prior"
        )
    values, start = found.values[fine].T, np.zeros(int(fine.sum())) if base is None else base[fine]  # (M, S), (S,)
    log_weights, k = pareto_smoothed(start - values)
    each = special.logsumexp(log_weights + values, axis=1)
    known = special.logsumexp(start - special.logsumexp(start) + values, axis=1)
    pointwise = each[found.which]
    return Loo(
        elpd=float(pointwise.sum()),
        se=float(np.sqrt(len(pointwise) * np.var(pointwise))) if len(pointwise) else 0.0,
        p_loo=float((known - each)[found.which].sum()),
        pointwise=pointwise,
        pareto_k=k[found.which],
        posterior_k=float("nan"),
        corrected=base is not None,
        draws=len(start),
        lost=int((~fine).sum()),
    )


def _objective(posterior: Posterior, X: Any) -> Objective:
    """With the cases X, or with those that the posterior carries."""
    carried, field = posterior.objective, posterior.field
    if isinstance(field, CRF) and not isinstance(X, Sequences | Graphs | None):
        raise InvalidInput(
            "the sequences and graphs of a CRF come as bf.as_sequences(crf, X, y) or bf.as_graphs(crf, X, y) makes them"
        )
    if X is None:
        if carried is None:
            raise InvalidInput("this posterior came without its data: give X, the cases that it was fitted on")
        if not carried.data.n_cases:
            raise InvalidInput("there is no case to leave out")
        return carried
    made = _made(field, X, Auto() if carried is None else carried.free.engine)
    if carried is None:
        return made
    if made.data.n_cases != carried.data.n_cases or not np.allclose(made.statistic, carried.statistic):
        raise InvalidInput(
            "X is not what the posterior was fitted on, and leave-one-out is about those cases: leave X out, or fit X"
        )
    return replace(made, prior=carried.prior)


def _made(field: Any, X: Any, engine: Engine) -> Objective:
    if isinstance(field, RandomField):
        return field_objective(field, X, Normal(variance=1.0), engine)
    if isinstance(X, Graphs):
        return graph_objective(field, X, flat(field.n_parameters), engine)
    return sequence_objective(field, X, flat(field.n_parameters))
