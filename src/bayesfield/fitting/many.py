"""Fits of one field to many data sets: groups, bootstrap samples, replicates of a simulation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from bayesfield import parallel
from bayesfield.fitting.fields import fit
from bayesfield.inference.contract import Engine
from bayesfield.model.field import RandomField
from bayesfield.model.prior import Prior
from bayesfield.posterior.posterior import Posterior
from bayesfield.tabular import as_table
from bayesfield.types import BayesfieldError, BoolArray, FitWarning, FloatArray, InvalidInput

_WORTH_PROCESSES = 8.0  # seconds of counted work: starting processes takes two or three
_TURNS = 8  # pieces of work for each process, so that none waits long for another

Watch = Callable[[int, int], None]  # fits finished, fits in all


@dataclass(frozen=True)
class Bootstrap(Sequence[Any]):
    """``replicates`` data sets of as many cases as X has, drawn from X with replacement, each by a seed of its own."""

    X: Any
    replicates: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.replicates < 1:
            raise InvalidInput(f"a bootstrap needs at least one replicate; got {self.replicates}")
        table = as_table(self.X)
        object.__setattr__(self, "X", table if isinstance(table, pd.DataFrame) else np.asarray(table))

    def __len__(self) -> int:
        return self.replicates

    def __getitem__(self, k: Any) -> Any:
        if not 0 <= k < self.replicates:
            raise IndexError(k)
        rng = np.random.default_rng([self.seed, k])
        rows = rng.integers(0, len(self.X), len(self.X))
        return self.X.iloc[rows] if isinstance(self.X, pd.DataFrame) else self.X[rows]


@dataclass(frozen=True, eq=False)
class Fits:
    """What many fits of one field found, data set by data set.

    mean, sd: (R, F), NaN where a fit failed. converged: (R,) whether optimum and inference did. failures: by data set,
    what went wrong. posteriors: the whole of them, where they were to be kept (None where a fit failed).
    """

    field: RandomField
    mean: FloatArray
    sd: FloatArray
    converged: BoolArray
    log_likelihood: FloatArray
    failures: dict[int, str]
    posteriors: list[Posterior | None] = dataclass_field(repr=False)

    def __len__(self) -> int:
        return len(self.mean)

    def summary(self) -> pd.DataFrame:
        """For every parameter the mean over data sets, how much it spreads, and the width that the posteriors claim."""
        good = self.mean[~np.isnan(self.mean).any(axis=1)]
        widths = self.sd[~np.isnan(self.sd).any(axis=1)]
        spread = good.std(axis=0, ddof=1) if len(good) > 1 else np.full(self.mean.shape[1], np.nan)
        claimed = np.sqrt(np.mean(widths**2, axis=0))
        table = {"mean": good.mean(axis=0), "spread": spread, "claimed": claimed, "ratio": spread / claimed}
        return pd.DataFrame(table, index=pd.Index(self.field.parameter_names, name="parameter"))

    def __repr__(self) -> str:
        text = f"Fits({len(self)} data sets, {self.mean.shape[1]} parameters, {int(self.converged.sum())} converged"
        return text + (f", {len(self.failures)} failed)" if self.failures else ")")


@dataclass(frozen=True, eq=False)
class _One:
    mean: FloatArray
    sd: FloatArray
    converged: bool
    log_likelihood: float
    failure: str = ""
    mode: FloatArray | None = None
    work: float = 0.0
    posterior: Posterior | None = None


def fit_many(
    field: RandomField,
    data: Iterable[Any],
    prior: Prior | None = None,
    engine: Engine | str = "auto",
    *,
    jobs: int | None = None,
    client: Any = None,
    keep: bool = False,
    watch: Watch | None = None,
    **options: Any,
) -> Fits:
    """The posterior of a field for each of many data sets, on all cores.

    data: the data sets, each as X of ``bf.fit``; bf.Bootstrap(X, 1000) for replicates of one. prior, engine and further
    options (response, method, correction, …): as in ``bf.fit``. jobs: processes, by default as many as there are cores
    where the work is worth starting them; client: a dask.distributed.Client instead. keep: keep the posteriors (without
    the data they came from), and not only means and widths. watch: called with the number of fits finished, and of all.

    Every fit but the first starts from the first one's mode, unless variables are hidden. A data set whose fit fails
    leaves a hole (NaN) and its reason in ``failures``. The numbers are the same for any number of processes.
    """
    sets = data if isinstance(data, Sequence) else list(data)
    if not len(sets):
        raise InvalidInput("there are no data sets to fit")
    field = field.naming(sets.X if isinstance(sets, Bootstrap) else sets[0])
    for name in ("watch", "client"):
        options.pop(name, None)
    first = _fit(field, prior, engine, options, keep, sets[0])
    if not field.hidden and first.mode is not None:
        options = {"start": first.mode, **options}
    call = partial(_piece, partial(_fit, field, prior, engine, options, keep))
    tell = watch or (lambda done, total: None)
    tell(1, len(sets))
    if client is not None:
        cluster = parallel.Cluster(client)
        hands, each = cluster.threads, cluster.map
    else:
        hands = jobs or (parallel.cores() if first.work * (len(sets) - 1) > _WORTH_PROCESSES else 1)
        each = partial(parallel.process_map, jobs=hands)
    rest = _pieces(sets, hands)
    sizes = np.cumsum([1, *(len(numbers) for _, numbers in rest)])
    found = each(call, rest, watch=lambda done: tell(int(sizes[done]), len(sets)))
    tell(len(sets), len(sets))
    return _joined(field, [first, *(one for piece in found for one in piece)], keep)


def _pieces(sets: Sequence[Any], hands: int) -> list[tuple[Sequence[Any], range]]:
    """All but the first, in turn."""
    count = min(len(sets) - 1, _TURNS * hands)
    ends = np.linspace(1, len(sets), count + 1).astype(int) if count else np.array([1])
    spans = [range(a, b) for a, b in parallel.spans(ends.tolist())]
    if isinstance(sets, Bootstrap):  # it is sent as it is, and drawn from there
        return [(sets, span) for span in spans]
    return [([sets[k] for k in span], range(len(span))) for span in spans]


def _piece(call: Callable[[Any], _One], piece: tuple[Sequence[Any], range]) -> list[_One]:
    sets, numbers = piece
    return [call(sets[k]) for k in numbers]


def _fit(
    field: RandomField, prior: Prior | None, engine: Engine | str, options: dict[str, Any], keep: bool, X: Any
) -> _One:
    hole = np.full(field.n_parameters, np.nan)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)  # ``converged`` tells
            found = fit(field, X, prior, engine, **options)
            record = found.record
            good = record.status.converged and record.inference.converged
            kept = found.without_data() if keep else None
            work = 0.0 if record.plan is None else record.plan.total
            return _One(found.mean, found.sd, good, record.log_likelihood, "", found.mode, work, kept)
    except BayesfieldError as error:
        return _One(hole, hole, False, float("nan"), str(error))


def _joined(field: RandomField, found: list[_One], keep: bool) -> Fits:
    return Fits(
        field,
        np.array([one.mean for one in found]),
        np.array([one.sd for one in found]),
        np.array([one.converged for one in found]),
        np.array([one.log_likelihood for one in found]),
        {k: one.failure for k, one in enumerate(found) if one.failure},
        [one.posterior for one in found] if keep else [],
    )
