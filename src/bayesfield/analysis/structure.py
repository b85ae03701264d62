"""Which edges are there, all considered together: a search over structures by their evidence.

A posterior N(m, P⁻¹) of the model with all edges holds, to second order, the evidence of every model without some: for
the parameters S that are left out, log p(D|without S) − log p(D|all) = log p(λ_S = 0|D) − log p(λ_S = 0), the
Savage-Dickey ratio. Gibbs sampling puts edges in and out by it, each move of rank one (kernels.pivots). ``check``
solves some of the structures for their own modes and evidence, and tells how far the short cut is off.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from bayesfield import parallel
from bayesfield.kernels import pivots
from bayesfield.learning.objective import GaussianPrior, Objective
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.learning.search.minimise import newton
from bayesfield.model.field import RandomField
from bayesfield.model.prior import GONE
from bayesfield.posterior.edges import Edge, edge_table, edges_of, log_prior_at_zero, warn_of_tails
from bayesfield.posterior.evidence import laplace_evidence
from bayesfield.posterior.posterior import Posterior
from bayesfield.types import BoolArray, FloatArray, IndefiniteCurvature, InvalidInput

_BURN_IN = 0.1  # share of the sweeps before any count
_REFRESH = 200  # sweeps after which the swept matrix is made anew: rounding adds up
_KEPT = 1000  # distinct structures in the list


@dataclass(frozen=True)
class BernoulliEdges:
    """Every edge is there with this probability, independently."""

    probability: float = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.probability, float | np.floating) or not 0.0 < self.probability < 1.0:
            raise InvalidInput(f"the prior probability of an edge lies between 0 and 1; got {self.probability!r}")

    def log_odds(self, edges: int) -> FloatArray:
        """(E,) of one edge more, when 0, 1, … others are there."""
        return np.full(max(edges, 1), special.logit(self.probability))

    def marginal(self) -> float:
        """The prior probability of any one edge."""
        return self.probability


@dataclass(frozen=True)
class BetaBinomialEdges:
    """The probability of an edge is itself unknown, Beta(alpha, beta): the data say how dense the graph is."""

    alpha: float = 1.0
    beta: float = 1.0

    def __post_init__(self) -> None:
        fine = all(isinstance(v, int | float | np.number) and 0.0 < v < np.inf for v in (self.alpha, self.beta))
        if not fine:
            raise InvalidInput(f"alpha and beta are finite and above zero; got {self.alpha!r} and {self.beta!r}")

    def log_odds(self, edges: int) -> FloatArray:
        others = np.arange(max(edges, 1))
        return np.log((self.alpha + others) / (self.beta + edges - 1.0 - others))

    def marginal(self) -> float:
        return self.alpha / (self.alpha + self.beta)


GraphPrior = BernoulliEdges | BetaBinomialEdges


@dataclass(frozen=True, eq=False)
class StructurePosterior:
    """Which edges are there.

    table: a row for each edge: first, second, log_bayes_factor (inclusion odds against prior odds), inclusion
    (probability), error (Monte-Carlo, of inclusion), mean and sd of the effect averaged over structures, p_positive
    given that it is there, and the verdicts at_10 and at_3. structures: the most frequent ones, as rows of 0 and 1 with
    their share of the visits. discrepancy: by how much (root mean square, in nats) the short cut's log evidence is off
    the structures' own, over as many as ``checked``.
    """

    table: pd.DataFrame
    structures: pd.DataFrame
    sweeps: int
    chains: int
    discrepancy: float = float("nan")
    checked: int = 0

    @property
    def median_structure(self) -> list[tuple[str, str]]:
        """The edges that are more likely there than not."""
        there = self.table[self.table["inclusion"] > 0.5]
        return list(zip(there["first"], there["second"], strict=True))

    def __str__(self) -> str:
        counts = self.table["at_10"].value_counts()
        said = ", ".join(f"{int(counts.get(v, 0))} {v}" for v in ("included", "inconclusive", "excluded"))
        worst = float(self.table["error"].max())
        text = f"{len(self.table)} edges at a Bayes factor of 10: {said}; {self.chains} chains × {self.sweeps} sweeps, "
        text += f"largest error of an inclusion probability {worst:.3f}"
        if self.checked:
            text += f"; evidence off by {self.discrepancy:.2f} nats (rms over {self.checked} structures)"
        return text


def search_structure(
    posterior: Posterior,
    graph_prior: GraphPrior | None = None,
    *,
    sweeps: int = 1000,
    chains: int = 4,
    check: int = 0,
    rng: np.random.Generator | int | None = 0,
) -> StructurePosterior:
    """Inclusion probabilities of all edges of a posterior's field, averaged over structures.

    posterior: of the field with all edges that may be there, from any engine or from the pseudo-likelihood.
    graph_prior: by default BernoulliEdges(0.5). sweeps: of every chain, each over all edges. check: how many of the
    visited structures to solve for themselves. rng: of everything.
    """
    if not isinstance(posterior, Posterior):
        raise InvalidInput(f"search_structure takes a posterior, as bf.fit returns it; got {posterior!r}")
    if not isinstance(graph_prior, GraphPrior | None):
        raise InvalidInput(f"graph_prior is bf.BernoulliEdges(…) or bf.BetaBinomialEdges(…); got {graph_prior!r}")
    whole = all(isinstance(v, int | np.integer) for v in (sweeps, chains, check))
    if not whole or sweeps < 10 or chains < 2 or check < 0:
        raise InvalidInput("a search needs whole numbers: at least 10 sweeps, 2 chains, and check ≥ 0")
    field, edges = posterior.field, edges_of(posterior.field)
    assert isinstance(field, RandomField)
    warn_of_tails(posterior.record, depth=2)
    chosen = graph_prior or BernoulliEdges()
    groups = _groups(posterior, edges, chosen)
    generator = np.random.default_rng(rng)
    seeds = parallel.chain_seeds(int(generator.integers(2**31)), chains)
    runs = parallel.thread_map(lambda c: _chain(posterior, groups, sweeps, seeds[c], c), range(chains))
    columns = _averages(edges, runs, chosen.marginal())
    table = edge_table(field, edges, columns, 1.0)
    structures = _visited(np.concatenate([r.trace for r in runs]), edges, field)
    found = StructurePosterior(table, structures, sweeps, chains)
    if not check:
        return found
    off = _discrepancy(posterior, edges, runs, check, generator)
    return replace(found, discrepancy=float(np.sqrt(np.mean(off**2))), checked=len(off))


def _groups(posterior: Posterior, edges: Sequence[Edge], prior: GraphPrior) -> pivots.Groups:
    sizes = np.array([len(e.parameters) for e in edges])
    return pivots.Groups(
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.concatenate([e.parameters for e in edges]),
        log_prior_at_zero(posterior.prior_in_force(), edges),
        prior.log_odds(len(edges)),
    )


class _Run(NamedTuple):
    """A chain's means; (sweeps, E) who was there, and the log evidence of that against none."""

    mean: pivots.Tally
    trace: BoolArray
    evidence: FloatArray


def _chain(posterior: Posterior, groups: pivots.Groups, sweeps: int, seed: np.ndarray, number: int) -> _Run:
    """One chain: even ones begin with all edges, odd ones with none."""
    edges, size = len(groups.ptr) - 1, len(groups.prior_at_zero)
    present, whole = np.full(edges, number % 2 == 0), _bordered(posterior)
    tally = pivots.Tally(np.zeros(edges), np.zeros(size), np.zeros(size), np.zeros(size))
    trace, evidence = np.zeros((sweeps, edges), dtype=bool), np.zeros(sweeps)
    rng = np.random.default_rng(seed)
    begin = int(_BURN_IN * sweeps)
    M, level = _swept(whole, groups, present)
    for s in range(sweeps):
        if s % _REFRESH == _REFRESH - 1:
            M, level = _swept(whole, groups, present)
        order = rng.permutation(edges)
        level += pivots.search(M, groups, present, seed, order, s >= begin, tally)
        trace[s], evidence[s] = present, level
    mean = pivots.Tally(*(part / (sweeps - begin) for part in tally))
    return _Run(mean, trace[begin:], evidence[begin:])


def _bordered(posterior: Posterior) -> FloatArray:
    """[[P, Pm], [(Pm)ᵀ, 0]]."""
    P, size = posterior.precision, len(posterior.mean)
    result = np.zeros((size + 1, size + 1))
    result[:-1, :-1], result[-1, :-1], result[:-1, -1] = P, P @ posterior.mean, P @ posterior.mean
    return result


def _swept(whole: FloatArray, groups: pivots.Groups, present: BoolArray) -> tuple[FloatArray, float]:
    """M swept on all parameters that are there, and the log evidence of the edges among them against none."""
    M, edge = whole.copy(), np.zeros(len(whole) - 1, dtype=bool)
    edge[groups.members] = True
    for k in np.flatnonzero(~edge):
        pivots.pivot(M, int(k), True)
    return M, float(sum(pivots.move(M, groups, int(g), True) for g in np.flatnonzero(present)))


def _averages(edges: Sequence[Edge], runs: Sequence[_Run], prior: float) -> dict[str, FloatArray]:
    """Columns of the table from the chains."""
    each = np.array([r.mean.inclusion for r in runs])
    inclusion = each.mean(axis=0)
    first = np.array([e.parameters[0] for e in edges])
    mean, square, positive = (np.mean(parts, axis=0) for parts in zip(*(r.mean[1:] for r in runs), strict=True))
    inside = np.clip(inclusion, 1e-12, 1.0 - 1e-12)
    columns = {
        "log_bayes_factor": special.logit(inside) - special.logit(prior),
        "inclusion": inclusion,
        "error": each.std(axis=0, ddof=1) / np.sqrt(len(each)),
    }
    if all(len(e.parameters) == 1 for e in edges):
        columns |= {
            "mean": mean[first],
            "sd": np.sqrt(np.maximum(square - mean**2, 0.0))[first],
            "p_positive": positive[first] / np.maximum(inclusion, 1e-12),
        }
    return columns


def _visited(trace: BoolArray, edges: Sequence[Edge], field: RandomField) -> pd.DataFrame:
    rows, counts = np.unique(trace, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_KEPT]
    names = [f"{field.names[e.first]}–{field.names[e.second]}" for e in edges]
    table = pd.DataFrame(rows[order].astype(np.int8), columns=names)
    table.insert(0, "share", counts[order] / len(trace))
    return table


def _discrepancy(
    posterior: Posterior, edges: Sequence[Edge], runs: Sequence[_Run], count: int, rng: np.random.Generator
) -> FloatArray:
    """Own log evidence of some visited structures minus the short cut's, both against the model with all edges."""
    objective, laplace = posterior.objective, posterior.laplace_precision
    if objective is None or not objective.has_log_z or laplace is None:
        raise InvalidInput("check solves structures for their own evidence, which needs an engine that knows log Z")
    if objective.prior.tails is not None:
        raise InvalidInput("check needs a Gaussian prior, bf.Normal: a Cauchy's expansion moves with every structure")
    groups = _groups(posterior, edges, BernoulliEdges())
    _, full = _swept(_bordered(posterior), groups, np.ones(len(edges), dtype=bool))
    whole = laplace_evidence(objective, posterior.mode, laplace)
    worth = np.concatenate([r.evidence for r in runs])
    rows, first = np.unique(np.concatenate([r.trace for r in runs]), axis=0, return_index=True)
    picked = rng.permutation(len(rows))[:count]
    found = []
    for row, k in zip(rows[picked], first[picked], strict=True):
        precision, location = objective.prior.precision.copy(), objective.prior.location.copy()
        for edge, there in zip(edges, row, strict=True):
            if not there:
                precision[edge.parameters], location[edge.parameters] = GONE, 0.0
        own: Objective = replace(objective, prior=GaussianPrior(location, precision))
        optimum = newton(own, np.where(precision >= GONE, 0.0, posterior.mode), 1e-6, 200)
        try:
            peak = DensePrecision(own.curvature(optimum.point))
        except IndefiniteCurvature:
            continue
        exact = laplace_evidence(own, optimum.parameters, peak)
        found.append((exact - whole) - (worth[k] - full))
    return np.array(found)
