"""A posterior made of draws, where no Gaussian fits: weighted draws of the approximation, or Markov chains.

Draws of the corrected posterior with importance weights come first: they cost one evaluation each, and are right where
the weights are even enough (k < 0.7 and enough effective draws). Else many chains side by side (correction.chains).
The result has its own mean, covariance and marginals; the weights stay with the draws.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from bayesfield import parallel
from bayesfield.correction.chain_draws import Fold
from bayesfield.correction.chains import FEW, run_chains
from bayesfield.correction.cumulants import Corrected, SkewedMarginals, corrected
from bayesfield.correction.importance import heavy, propose, trusted, weigh
from bayesfield.correction.marginals import DrawnMarginals
from bayesfield.correction.tabled import tabled
from bayesfield.correction.tempering import tempered
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.learning.search.optimum import QUIET, Progress
from bayesfield.types import FloatArray

if TYPE_CHECKING:
    from bayesfield.learning.objective import Objective
    from bayesfield.learning.precision.base import Precision
    from bayesfield.learning.search.learner import Drawn

WEIGHED = 32768  # draws with importance weights
CHAINED = 300_000  # evaluations that chains may take: 1,024 of them 100 moves of 3
MOST = 500  # parameters of a posterior that is made of draws
_LEAST = 2048  # draws with which to begin at all
_GOALS = {"few": 10_000.0, "many": 2000.0}  # effective draws: P(λ > 0) to 0.005 (less, for even points), and to 0.01
_CHAIN_GOALS = {"few": 30_000.0, "many": 4000.0}  # the same without even points
_TEMPERED = 1000.0  # … of chains at a ladder of temperatures, of the worst mean or sd: sds to 2.2 %
_CHAINS = {"few": 1024, "many": 64}
_NAMED = 128  # chains among modes that are images of one another: fewer, which go further
_MARGIN = 1.5  # times the draws that just reach the goal
_KEPT = 4_000_000  # numbers that are kept of chains
_ROWS = 50_000  # draws that are


def drawn(
    objective: Objective,
    mode: FloatArray,
    laplace: Precision,
    start: Corrected,
    evaluations: int,
    rng: np.random.Generator,
    progress: Progress = QUIET,
) -> Corrected | None:
    """The posterior by draws; None where so many evaluations do not suffice. start: the approximation to begin with."""
    size = len(mode)
    if not 0 < size <= MOST or evaluations < _LEAST:
        return None
    skewness = np.zeros(size) if start.skewness is None else start.skewness
    marginals = SkewedMarginals(start.mean, start.precision.sd, skewness)
    amount, group = "few" if size <= FEW else "many", objective.symmetries
    fold = None if group is None else partial(group.nearest, centre=mode, scale=objective.prior.diagonal**-0.5)
    freedom = heavy(size) if amount == "few" else np.inf
    count = _enough(start, amount, min(WEIGHED, evaluations))
    if count:
        weighted = weigh(objective, propose(marginals, start.precision, count, rng, freedom))
        if trusted(weighted.k, weighted.effective, count) and weighted.effective >= _GOALS[amount]:
            made = DrawnMarginals(fold(weighted.points) if fold else weighted.points, np.exp(weighted.log_weights))
            reason = f"{count:,} draws with importance weights, k = {weighted.k:.2f}"
            error = 1.0 / np.sqrt(weighted.effective)
            return _made(made, mode, laplace, weighted.effective, error, True, reason)
    climbed = _by_tempering(objective, mode, laplace, evaluations, fold, rng, progress)
    if climbed is not None:
        return climbed
    if evaluations < CHAINED or (amount == "many" and objective.prior.tails is not None):
        return None
    chains = _CHAINS[amount] if group is None else _NAMED
    first = propose(marginals, start.precision, chains, rng, heavy(size)).points
    mean, covariance = start.mean, start.precision.solve(np.eye(size))
    if group is not None:
        first = _between(first, mode, group.images(mode), rng)
        mean, covariance = first.mean(axis=0), np.cov(first.T).reshape(size, size)
    goal, left = _CHAIN_GOALS[amount], evaluations - count
    run = run_chains(objective, first, mean, covariance, goal, left, rng, progress, fold)
    if run is None:
        return None
    made = _thinned(run.points)
    reason = f"{chains:,} chains " + ("along ellipses" if amount == "few" else "by Hamiltonian moves")
    reason += f", each draw named as near the mode as its {len(group)} images allow" if group is not None else ""
    return _made(made, mode, laplace, run.effective, run.error, run.settled, reason)


def _by_tempering(
    objective: Objective,
    mode: FloatArray,
    laplace: Precision,
    evaluations: int,
    fold: Fold | None,
    rng: np.random.Generator,
    progress: Progress,
) -> Corrected | None:
    """By chains at a ladder of temperatures, where something is hidden and a table of all joint states is small; None
    elsewhere, and where as much work as so many of the engine's evaluations are does not suffice."""
    prior = objective.prior
    table = tabled(objective) if objective.hidden and prior.independent and prior.tails is None else None
    if table is None or prior.fixed is not None:
        return None
    most = int(evaluations * objective.price().each / table.price)
    with parallel.single_blas():  # small products by the million
        found = tempered(table, prior, _TEMPERED, most, rng, fold, progress)
    if found is None:
        return None
    reason = f"chains at {found.rungs} temperatures between prior and posterior"
    reason += ", each draw named by the image that is nearest to the mode" if fold is not None else ""
    run = found.draws
    return _made(_thinned(run.points), mode, laplace, run.effective, run.error, run.settled, reason)


def _thinned(points: FloatArray) -> DrawnMarginals:
    """Every so manieth draw, as many as are kept."""
    rows = min(len(points), _ROWS, max(_KEPT // points.shape[1], _LEAST))
    kept = points[np.linspace(0, len(points) - 1, rows).astype(np.int64)]
    return DrawnMarginals(kept, np.full(rows, 1.0 / rows))


def _between(points: FloatArray, mode: FloatArray, images: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Points about the mode, every second one moved towards one of its images, or all of the way: where modes overlap
    the posterior has much of its weight between them, which chains that begin at the mode hardly find."""
    out, rows = points.copy(), np.arange(1, len(points), 2)
    to = images[rng.integers(len(images), size=len(rows))]
    out[rows] += rng.random((len(rows), 1)) * (to - mode)
    return out


def made_of(drawn: Drawn, mode: FloatArray, precision: Precision) -> Corrected:
    """The posterior of a learner's own draws, of so many parameters that their covariance is left out."""
    count = len(drawn.points)
    marginals = DrawnMarginals(drawn.points, np.full(count, 1.0 / count))
    made = corrected("draws", mode, precision, marginals.mean, precision, 1, drawn.error, drawn.settled)
    skewness = marginals.skewness
    largest = float(np.abs(skewness).max(initial=0.0))
    record = replace(made.record, reason=drawn.reason, effective=drawn.effective, skewness=largest)
    return made._replace(record=record, skewness=skewness, marginals=marginals)


def _enough(start: Corrected, amount: str, most: int) -> int:
    """Draws with weights that reach the goal, as the comparison predicts; 0 where ``most`` would not."""
    if start.compared is None:
        return most
    share = start.compared.effective / start.compared.n_draws if len(start.compared.which) == len(start.mean) else 0.0
    needed = _MARGIN * _GOALS[amount] / max(share, 1e-9)
    return 0 if needed > _MARGIN * most else most


def _made(
    marginals: DrawnMarginals,
    mode: FloatArray,
    laplace: Precision,
    effective: float,
    error: float,
    settled: bool,
    reason: str,
) -> Corrected:
    inverse = linalg.inv(marginals.covariance)
    precision = DensePrecision((inverse + inverse.T) / 2)
    made = corrected("draws", mode, laplace, marginals.mean, precision, 1, error, settled)
    skewness = marginals.skewness
    record = replace(made.record, reason=reason, effective=effective, skewness=float(np.abs(skewness).max(initial=0.0)))
    return made._replace(record=record, skewness=skewness, marginals=marginals)
