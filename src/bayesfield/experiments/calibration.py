"""``bayesfield calibrate``: are the posteriors right? Simulation-based calibration and coverage of intervals.

Parameters are drawn from the prior, data from the field at them, and the posterior is fitted. If it is right, the rank
of the true value among draws of the posterior is uniform (Talts et al. 2018), and intervals of 90 % hold it nine times
out of ten, each on average over the simulations.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from bayesfield import plots
from bayesfield.experiments.contract import Experiment, cell
from bayesfield.fitting.fields import fit
from bayesfield.fitting.sequences import fit_sequences
from bayesfield.inference.messages.belief_propagation import Bethe
from bayesfield.inference.messages.kikuchi import Kikuchi
from bayesfield.inference.queries import sample
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.inference.trees.chain import chain_draws, chain_marginals
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.learning.phases.crf_design import potentials
from bayesfield.model.builders import chain, grid, pairwise
from bayesfield.model.conditional import CRF, as_sequences
from bayesfield.model.prior import Normal
from bayesfield.posterior.posterior import Posterior
from bayesfield.types import FloatArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.experiments.store import Store
    from bayesfield.inference.contract import Engine
    from bayesfield.model.field import RandomField

LEVEL = 0.9
BINS = 20
_DRAWS = 20 * BINS - 1  # ranks 0 … 399: 20 in each bin
_TOGETHER = 5  # simulations of a task
Simulated = tuple[FloatArray, Posterior]


@dataclass(frozen=True)
class Simulations:
    """How many for each problem, and which problems."""

    count: int = 200
    problems: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = [name for name in self.problems if name not in PROBLEMS]
        if unknown:
            raise InvalidInput(f"there is no problem {unknown[0]!r}; there are {', '.join(PROBLEMS)}")
        if self.count < 2:
            raise InvalidInput(f"calibration takes at least 2 simulations; got {self.count}")


@dataclass(frozen=True)
class Block:
    """Some simulations of a problem."""

    problem: str
    numbers: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.problem}-{self.numbers[0]:04d}"


class Calibration(Experiment):
    """Every problem's simulations: coverage and ranks."""

    name = "calibration"
    title = f"Ranks of true values among posterior draws, and coverage of {LEVEL:.0%} intervals"
    scales: ClassVar[Mapping[str, Any]] = {"full": Simulations()}

    def tasks(self, scale: Simulations) -> list[Block]:
        blocks = [range(k, min(k + _TOGETHER, scale.count)) for k in range(0, scale.count, _TOGETHER)]
        return [Block(name, tuple(block)) for name in scale.problems or PROBLEMS for block in blocks]

    def methods(self, task: Block) -> list[str]:
        return ["fits"]

    def run(self, task: Block, scale: Simulations, store: Store, seed: int) -> None:
        place = list(PROBLEMS).index(task.problem)
        rows = [_simulation(task.problem, k, np.random.SeedSequence([seed, place, k])) for k in task.numbers]
        store.put(cell(task, "fits"), rows)

    def draw(self, table: pd.DataFrame, store: Store) -> plots.Figure:
        return plots.rank_histograms(table, LEVEL)

    def shown(self, table: pd.DataFrame) -> pd.DataFrame:
        rows = {}
        for name, own in table.groupby("problem", sort=False):
            held = own["covered"].to_numpy(dtype=np.float64)
            share, error = held.mean(), held.std(ddof=1) / np.sqrt(len(held))
            rows[str(name)] = {
                "covered": f"{share:.1%} ± {error:.1%}",
                "ranks, z": f"{unevenness(own):.1f}",
                "fits": f"{len(own)}",
                "not converged": f"{int((~own['converged']).sum())}",
                "seconds each": f"{own['seconds'].mean():.2g}",
            }
        result = pd.DataFrame.from_dict(rows, orient="index")
        result.attrs["title"] = f"{LEVEL:.0%} intervals and ranks; z: largest deviation of a bin in standard errors"
        return result


def unevenness(table: pd.DataFrame) -> float:
    """The largest deviation of a bin of the rank histogram from its share, in standard errors over simulations.

    Simulations are independent, the parameters of one are not: so the error is from simulation to simulation. Of 20
    bins the largest is above 3.7 once in 200 times where the ranks are uniform (0.5 % false alarms).
    """
    shares = table[[f"rank_{k}" for k in range(BINS)]].to_numpy()
    error = shares.std(axis=0, ddof=1) / np.sqrt(len(shares))
    return float(np.abs((shares.mean(axis=0) - 1.0 / BINS) / np.maximum(error, 1e-12)).max())


def _simulation(problem: str, number: int, seed: np.random.SeedSequence) -> dict[str, Any]:
    """One row: what share of the intervals hold the truth, and shares of the ranks by bin."""
    begun = time.perf_counter()
    truth, posterior = PROBLEMS[problem](np.random.default_rng(seed))
    table = posterior.summary(LEVEL)
    covered = (table["lower"] <= truth) & (truth <= table["upper"])
    draws = posterior.sample(_DRAWS, np.random.default_rng(seed.spawn(1)[0]))
    ranks = (draws < truth).sum(axis=0) * BINS // (_DRAWS + 1)
    shares = np.bincount(ranks, minlength=BINS) / len(truth)
    return {
        "problem": problem,
        "simulation": number,
        "covered": float(covered.mean()),
        "parameters": len(truth),
        "converged": posterior.record.status.converged and posterior.record.inference.converged,
        "seconds": round(time.perf_counter() - begun, 3),
        **{f"rank_{k}": float(share) for k, share in enumerate(shares)},
    }


def _field(
    make: Callable[[], RandomField], sd: float, cases: int, engine: Engine, rng: np.random.Generator
) -> Simulated:
    """A field with parameters N(0, sd²), exact draws from it, and its posterior."""
    field = make()
    truth = sd * rng.normal(size=field.n_parameters)
    X = sample(field, truth, cases, rng, engine=Exact())
    return truth, fit(field, X, Normal(variance=sd**2), engine, rng=int(rng.integers(2**31)))


def _sequences(sd: float, count: int, length: int, rng: np.random.Generator) -> Simulated:
    """A chain CRF of three labels and five inputs, the first of them constant."""
    crf = CRF(["a", "b", "c"], 5)
    truth = sd * rng.normal(size=crf.n_parameters)
    X = [np.column_stack([np.ones(length), rng.normal(size=(length, 4))]) for _ in range(count)]
    open_ones = as_sequences(crf, X)
    chains = ChainArrays(open_ones.ptr, open_ones.which)
    marginals = chain_marginals(chains, *potentials(crf, open_ones, truth))
    drawn = chain_draws(chains, marginals, 1, rng)[0].reshape(count, length)
    data = as_sequences(crf, X, [[crf.labels[k] for k in row] for row in drawn])
    return truth, fit_sequences(crf, data, prior=Normal(variance=sd**2))


def _dense() -> RandomField:
    return pairwise(12, itertools.combinations(range(12), 2), states=(0, 1))


def _on(make: Callable[[], RandomField], sd: float, cases: int, engine: Engine) -> Callable[..., Simulated]:
    return partial(_field, make, sd, cases, engine)


PROBLEMS: dict[str, Callable[[np.random.Generator], Simulated]] = {
    "grid-kikuchi": _on(partial(grid, 5, 5), 0.5, 500, Kikuchi()),
    "grid-sampled": _on(partial(grid, 5, 5), 0.5, 500, Sampled()),
    "grid-exact": _on(partial(grid, 5, 5), 0.5, 500, Exact()),
    "grid-bethe": _on(partial(grid, 5, 5), 0.5, 500, Bethe()),
    "dense-sampled": _on(_dense, 0.5, 500, Sampled()),
    "dense-exact": _on(_dense, 0.5, 500, Exact()),
    "dense-bethe": _on(_dense, 0.5, 500, Bethe()),
    "chain-sampled": _on(partial(chain, 12), 0.5, 200, Sampled()),
    "chain-exact": _on(partial(chain, 12), 0.5, 200, Exact()),
    "chain-bethe": _on(partial(chain, 12), 0.5, 200, Bethe()),
    "crf-exact": partial(_sequences, 1.0, 40, 8),
}
