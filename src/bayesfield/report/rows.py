"""The rows of the page's table: every parameter, or the surest where they are too many; couplings first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayesfield.posterior.views import couplings_of
from bayesfield.report.wording import finite, short
from bayesfield.types import FloatArray, IntArray

if TYPE_CHECKING:
    from bayesfield.posterior.posterior import Posterior

MOST_ROWS = 5000
COLUMNS = ("mean", "sd", "lower", "upper", "p_positive")
OF_EDGES = ("inclusion", "log_bayes_factor")
_INSIDE = 0.98  # share of interval ends that the bars' scale holds


@dataclass(frozen=True, eq=False)
class Rows:
    """table: (rows × columns) of the parameters shown: couplings, then the others, each surest first: |mean| / sd.

    numbers: (rows,) which of the posterior's parameters they are. total: how many it has. sure: how many of all have an
    interval without zero. couplings: how many rows are couplings.
    """

    table: pd.DataFrame
    numbers: IntArray
    total: int
    sure: int
    couplings: int

    @property
    def left_out(self) -> int:
        return self.total - len(self.numbers)

    @property
    def limit(self) -> float:
        """Half the width of the scale that all bars share."""
        ends = np.abs(self.table[["lower", "upper"]].to_numpy(dtype=np.float64)).max(axis=1, initial=0.0)
        known = ends[np.isfinite(ends)]
        return float(np.quantile(known, _INSIDE)) * 1.05 if len(known) and known.max() > 0 else 1.0

    def at(self, parameters: IntArray) -> list[int]:
        """Where some of the posterior's parameters stand in the table; those left out are not among it."""
        place = self._places[parameters]
        return [int(p) for p in place if p >= 0]

    @cached_property
    def _places(self) -> IntArray:
        result = np.full(self.total, -1, dtype=np.int64)
        result[self.numbers] = np.arange(len(self.numbers))
        return result

    def data(self) -> dict[str, Any]:
        """What page.js reads: names and columns."""
        return {
            "names": [short(str(name)) for name in self.table.index],
            "columns": {name: [finite(v) for v in self.table[name]] for name in self.table.columns},
            "limit": self.limit,
        }


def rows_of(posterior: Posterior, level: float, of_edges: dict[str, FloatArray], most: int) -> Rows:
    """of_edges: for each further column a value for every parameter, NaN where it is no edge's."""
    table = posterior.summary(level)
    for name, values in of_edges.items():
        table[name] = values
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.abs(posterior.mean) / posterior.sd
    order = np.argsort(-np.nan_to_num(distance, nan=-1.0), kind="stable")[:most]
    coupling = couplings_of(posterior.field)
    order = order[np.argsort(~coupling[order], kind="stable")]
    sure = int(((table["lower"] > 0) | (table["upper"] < 0)).sum())
    return Rows(table.iloc[order], order.astype(np.int64), len(table), sure, int(coupling[order].sum()))
