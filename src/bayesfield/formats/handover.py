"""A folder that R reads: tables with named columns, a square matrix of couplings for qgraph, and how it was found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bayesfield.formats.frames import names_text
from bayesfield.formats.tables import fit_summary
from bayesfield.model.field import RandomField
from bayesfield.outputs import as_one, remove, write_text
from bayesfield.types import InvalidInput

if TYPE_CHECKING:
    from bayesfield.posterior.posterior import Posterior


def write_handover(folder: str | Path, posterior: Posterior, probability: float = 0.5) -> None:
    """parameters.csv, edges.csv, couplings.csv and fit.json, all or none.

    parameters.csv: ``posterior.summary()`` and each parameter's group. edges.csv: ``posterior.edges(probability)``,
    left out where edges share their parameters or there are none. couplings.csv: the posterior means as a square
    matrix with the variables' names in its first row and column, zero on the diagonal; where every edge has one
    parameter.
    """
    field = posterior.field
    if not isinstance(field, RandomField):
        raise InvalidInput(f"a hand-over is for posteriors of bf.RandomField; got {field!r}")
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot write to {folder}: {error.strerror}") from None
    with as_one():
        _write(target, field, posterior, probability)


def _write(target: Path, field: RandomField, posterior: Posterior, probability: float) -> None:
    parameters = posterior.summary().reset_index()
    parameters.insert(1, "group", list(field.groups))
    write_text(target / "parameters.csv", names_text(parameters))
    edges = _edges(posterior, probability)
    for name, table in (("edges.csv", edges), ("couplings.csv", _matrix(field, edges))):
        if table is None:
            remove(target / name)  # of an earlier posterior
        else:
            write_text(target / name, names_text(table, index=name == "couplings.csv"))
    write_text(target / "fit.json", json.dumps(fit_summary(posterior), indent=2) + "\n")


def _edges(posterior: Posterior, probability: float) -> pd.DataFrame | None:
    try:
        return posterior.edges(probability)
    except InvalidInput:  # there are none, or they share their parameters
        return None


def _matrix(field: RandomField, edges: pd.DataFrame | None) -> pd.DataFrame | None:
    if edges is None or "mean" not in edges:
        return None
    place = {name: i for i, name in enumerate(field.names)}
    i = np.array([place[name] for name in edges["first"]])
    j = np.array([place[name] for name in edges["second"]])
    values = np.zeros((field.n_variables, field.n_variables))
    values[i, j] = values[j, i] = edges["mean"].to_numpy()
    return pd.DataFrame(values, index=pd.Index(field.names), columns=pd.Index(field.names))
