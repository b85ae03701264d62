"""Whether data look like what the fitted model would give: posterior predictive checks.

For draws λ_s of the posterior, data sets x_s ~ p(·|λ_s) of the same size and with the same holes; each statistic T(x)
of the data stands against its T(x_s). A two-sided tail probability with ties counted half,
p = 2 min(r, 1 − r),  r = (#{T(x_s) > T(x)} + ½ #{T(x_s) = T(x)} + ½) / (S + 1),
in which the data are one of S + 1 sets: were they drawn like the others, p would be uniform.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayesfield.analysis.statistics import default_statistics, own_statistics
from bayesfield.graph.compiled import compiled
from bayesfield.model.field import RandomField
from bayesfield.prediction.replicates import replicates, simulator
from bayesfield.types import FloatArray, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.inference.contract import Engine
    from bayesfield.posterior.posterior import Posterior

LEVEL = 0.95
_FEWEST = 40  # draws: with fewer, an interval of 95 % is their whole range
_SHOWN = 5  # of those outside
_ALIKE = 1e-9  # difference, relative to the spread, at which two statistics are the same
_MANY = 3.0  # standard errors above what chance gives, from which the text says so


@dataclass(frozen=True, eq=False)
class PredictiveCheck:
    """What ``bf.predictive_check`` found.

    table: a row for each item of each statistic: statistic, item, observed, mean, lower and upper of the replicated
    ones (their central 95 %), and p, the two-sided tail probability. replicates: by statistic (S, items). n_cases: N.
    engine: what drew the cases.
    """

    table: pd.DataFrame
    replicates: Mapping[str, FloatArray]
    n_cases: int
    engine: str

    @property
    def outside(self) -> pd.DataFrame:
        """The rows whose observed value is outside its interval, farthest (in standard deviations) first."""
        t = self.table
        rows = t[(t["observed"] < t["lower"]) | (t["observed"] > t["upper"])]
        sd = np.concatenate([np.nanstd(own, axis=0) for own in self.replicates.values()])[rows.index]
        away = (rows["observed"] - rows["mean"]).abs() / np.maximum(sd, 1e-300)
        order = np.argsort(-away.to_numpy(), kind="stable")
        return rows.iloc[order]

    def summary(self) -> pd.DataFrame:
        """By statistic: how many items there are, how many lie outside, and how many would by chance."""
        counted = self.table[self.table["p"].notna()]
        items = counted.groupby("statistic", sort=False).size()
        outside = self.outside.groupby("statistic").size().reindex(items.index, fill_value=0)
        return pd.DataFrame({"items": items, "outside": outside, "by chance": (1.0 - LEVEL) * items})

    def __str__(self) -> str:
        draws = len(next(iter(self.replicates.values())))
        summary, outside = self.summary(), self.outside
        total, chance = int(summary["items"].sum()), float(summary["by chance"].sum())
        lines = [
            f"{draws} replicated data sets of {self.n_cases} cases, drawn by {self.engine}",
            f"{len(outside)} of {total} statistics lie outside their 95 % interval; by chance about {chance:.1f} would",
            "",
            summary.to_string(float_format=lambda v: f"{v:.1f}", index_names=False),
        ]
        if len(outside):
            shown = outside.head(_SHOWN).drop(columns="mean")
            lines += ["", "farthest out:", shown.to_string(index=False, float_format=lambda v: f"{v:.3g}")]
        return "\n".join([*lines, "", self._verdict(summary)])

    def _verdict(self, summary: pd.DataFrame) -> str:
        """Items of one statistic go together, so this is a hint and no test."""
        many = summary["outside"] > summary["by chance"] + _MANY * np.sqrt(summary["by chance"])
        if not many.any():
            return "the data look like the model's own"
        return f"the model does not give such data: look at {', '.join(summary.index[many])}"


def predictive_check(
    posterior: Posterior,
    X: Any = None,
    n_draws: int = 100,
    rng: np.random.Generator | int | None = 0,
    statistics: Mapping[str, Callable[[Any], Any]] | None = None,
    engine: Engine | str = "auto",
) -> PredictiveCheck:
    """Compare data with replicated data sets, one for each of n_draws draws of the parameters.

    X: cases, by default those that the posterior was fitted on; holes are made in the replicated ones too. statistics:
    by default means (shares, where states are no numbers), correlations (agreement) of pairs, sum scores, and clusters
    of equal neighbours where all variables have the same states; or else a mapping from names to functions of an
    (N, n) array of the states' own values that give a number, or always as many numbers. engine: what draws the cases,
    bf.Exact() or bf.Sampled(); by default exact where it is affordable.
    """
    if not isinstance(n_draws, int | np.integer) or n_draws < _FEWEST:
        raise InvalidInput(
            f"n_draws must be a whole number of at least {_FEWEST}, for intervals of 95 %; got {n_draws!r}"
        )
    field, codes = observed_cases(posterior, X)
    known, generator = compiled(field), np.random.default_rng(rng)
    chosen = simulator(known, engine)
    sets = replicates(known, codes, posterior.sample(int(n_draws), generator), chosen, generator)
    first = next(sets)
    if statistics is None:
        judges = default_statistics(field, codes, first, generator)
    else:
        judges = own_statistics(field, codes, statistics)
    if not judges:
        raise InvalidInput("there is nothing to compare: no variable is observed")
    rows = [[j.compute(first) for j in judges]] + [[j.compute(one) for j in judges] for one in sets]
    found = {j.name: np.array(column) for j, column in zip(judges, zip(*rows, strict=True), strict=True)}
    if all(np.isnan(j.compute(codes)).all() for j in judges):
        raise InvalidInput("there is nothing to compare: every statistic of the data is NaN")
    parts = [_rows(j.name, j.items, j.compute(codes), found[j.name]) for j in judges]
    return PredictiveCheck(pd.concat(parts, ignore_index=True), found, len(codes), repr(chosen))


def observed_cases(posterior: Posterior, X: Any) -> tuple[RandomField, IntArray]:
    """The field, and cases as positions in the states, −1 in the holes."""
    field, carried = posterior.field, posterior.objective
    if not isinstance(field, RandomField):
        raise InvalidInput(
            "this compares a field with cases; labels given inputs are judged by bf.loo or on data held out"
        )
    if X is not None:
        codes = field.encode(X, holes=True)
    elif carried is None:
        raise InvalidInput("this posterior came without its data: give X, cases to compare with")
    elif not carried.data.here:  # which has a few of them only
        raise InvalidInput("the cases stayed on a cluster's workers: give X, cases to compare with")
    elif carried.data.weights is not None:
        raise InvalidInput("the cases of this fit were weighted: give X, cases that count once each")
    else:
        codes = carried.data.cases.codes
    if not len(codes):
        raise InvalidInput("there is nothing to compare: X has no cases")
    return field, codes


def _rows(name: str, items: Any, observed: FloatArray, found: FloatArray) -> pd.DataFrame:
    """found: (S, items). NaN, where a statistic does not exist, is left out of the replicated ones."""
    tail = (1.0 - LEVEL) / 2
    empty = np.isnan(found).all(axis=0) | np.isnan(observed)
    known = np.where(empty, 0.0, found)
    # Weibull's positions: a new draw lies outside with probability 5 %, for any number of draws above 40
    lower, upper = np.nanquantile(known, [tail, 1.0 - tail], axis=0, method="weibull")
    columns = {"observed": observed, "mean": np.nanmean(known, axis=0), "lower": lower, "upper": upper}
    columns["p"] = np.where(empty, np.nan, tail_probability(observed, found))
    table = pd.DataFrame({"statistic": name, "item": list(items), **columns})
    table.loc[empty, ["mean", "lower", "upper"]] = np.nan
    return table


def tail_probability(observed: FloatArray, found: FloatArray) -> FloatArray:
    """Two-sided, (items,), of observed (items,) among found (S, items); see the head of this file."""
    gap = found - observed
    same = np.abs(gap) <= _ALIKE * np.maximum(np.nanmax(np.abs(gap), axis=0, initial=0.0), 1e-300)
    above, draws = ((gap > 0) & ~same).sum(axis=0), np.isfinite(found).sum(axis=0)
    share = (above + 0.5 * same.sum(axis=0) + 0.5) / (draws + 1)
    result: FloatArray = 2.0 * np.minimum(share, 1.0 - share)
    return result
