"""Which parameters a picture shows, and the words that say so: all, those asked for, or the surest couplings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from bayesfield.posterior.views import couplings_of
from bayesfield.types import InvalidInput

if TYPE_CHECKING:
    from bayesfield.posterior.posterior import Posterior

COUPLINGS, THRESHOLDS, ALL = "couplings", "thresholds", "parameters"


class Choice(NamedTuple):
    """Names of parameters in the posterior's order, and what they are, such as "40 surest of 1,770 couplings"."""

    names: list[str]
    words: str


def chosen(posterior: Posterior, table: pd.DataFrame, parameters: Sequence[str] | str | None, most: int) -> Choice:
    """table: the posterior's summary. A list is taken as it is; of anything else at most so many, the surest."""
    if parameters is not None and not isinstance(parameters, str):
        names = _known(table, parameters)
        return Choice(names, f"{len(names):,} of {len(table):,} parameters")
    pool, what = _pool(posterior, table, parameters, most)
    distance = (table["mean"] / table["sd"]).abs()[pool.to_numpy()]
    if len(distance) <= most:
        return Choice(list(distance.index), f"all {len(distance):,} {what}" if len(distance) > 1 else what)
    strongest = set(distance.nlargest(most).index)
    return Choice([n for n in distance.index if n in strongest], f"{most} surest of {len(distance):,} {what}")


def holding(names: Sequence[str], text: str) -> list[str]:
    """The names that hold a text."""
    found = [name for name in names if text in name]
    if not found:
        raise InvalidInput(
            f"there is no parameter {text!r}, and none whose name holds that text; posterior.summary() lists them. "
            f'parameters is a list of names, "{COUPLINGS}", "{THRESHOLDS}", or a text that is in the names'
        )
    return found


def _pool(posterior: Posterior, table: pd.DataFrame, wanted: str | None, most: int) -> tuple[pd.Series, str]:
    """(F,) which parameters may be shown, and what they are called."""
    coupling = pd.Series(couplings_of(posterior.field), index=table.index)
    if wanted is None:
        prefer = len(table) > most and bool(coupling.any())
        return (coupling, COUPLINGS) if prefer else (coupling | True, ALL)
    if wanted in (COUPLINGS, THRESHOLDS):
        group = coupling if wanted == COUPLINGS else ~coupling
        if not group.any():
            raise InvalidInput(f"this model has no {wanted}; posterior.summary() lists its {len(table)} parameters")
        return group, wanted
    kept = set(holding(list(table.index), wanted))
    return pd.Series([name in kept for name in table.index], index=table.index), f"{ALL} with {wanted!r}"


def _known(table: pd.DataFrame, parameters: Sequence[str]) -> list[str]:
    absent = [name for name in parameters if name not in table.index]
    if absent:
        raise InvalidInput(
            f"there is no parameter {absent[0]!r}; posterior.summary() lists them. parameters is a list of names, "
            f'"{COUPLINGS}", "{THRESHOLDS}", or a text that is in the names'
        )
    return list(parameters)
