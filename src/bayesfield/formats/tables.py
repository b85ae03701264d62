"""The field that a table of cases asks for, and the folder that a fit is written to."""

import itertools
import json
import platform
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayesfield.files import read_text, write_npz, write_text
from bayesfield.formats.frames import read_frame
from bayesfield.model import RandomField, grid_edges, pairwise
from bayesfield.posterior import Posterior
from bayesfield.response.base import fits_dense
from bayesfield.types import InvalidInput

_COVARIANCE = 5000  # parameters up to which a fit's folder has their covariance


def read_cases(path: str | Path, drop: Sequence[str] = ()) -> pd.DataFrame:
    """A table without some of its columns (formats.frames)."""
    cases = read_frame(path)
    absent = [name for name in drop if name not in cases.columns]
    if absent:
        raise InvalidInput(f"{path} has no column {absent[0]!r} to drop; it has {list(cases.columns)}")
    return cases.drop(columns=list(drop))


def ising_field(cases: pd.DataFrame, graph: str) -> RandomField:
    """An Ising field over the table's columns; the states are the two values that occur."""
    names = [str(c) for c in cases.columns]
    states = _states(cases)
    edges = edges_named(graph, names)
    if len(states) > 2:
        kinds = {name: cases.iloc[:, k].nunique() for k, name in enumerate(names)}
        odd = max(kinds, key=lambda name: kinds[name])
        raise InvalidInput(
            f"an Ising field has two states; the data hold {len(states)}, and column {odd!r} alone {kinds[odd]}. Leave "
            "it out (--drop) if it is no variable, or take the model potts or ordinal"
        )
    return pairwise(len(names), edges, states, names=names)


def write_posterior(folder: str | Path, posterior: Posterior) -> list[str]:
    """posterior.csv, posterior.npz, posterior.bf (bf.load) and fit.json. Returns what had to be left out, and why."""
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot write to {folder}: {error.strerror}") from None
    write_text(target / "posterior.csv", posterior.summary().to_csv())
    write_text(target / "fit.json", json.dumps(fit_summary(posterior), indent=2) + "\n")
    left_out = []
    arrays = {"mean": posterior.mean, "sd": posterior.sd, "skewness": posterior.skewness}
    if len(posterior.mean) <= _COVARIANCE and fits_dense(len(posterior.mean)):
        arrays["covariance"] = posterior.covariance()
    else:
        left_out.append(f"posterior.npz has no covariance: {len(posterior.mean):,} parameters are too many for one")
    write_npz(target / "posterior.npz", parameters=np.array(posterior.field.parameter_names), **arrays)
    try:
        posterior.save(target / "posterior.bf")
    except InvalidInput as error:
        left_out.append(f"no posterior.bf: {error}")
    return left_out


def _states(cases: pd.DataFrame) -> tuple[Any, ...]:
    values = pd.unique(cases.to_numpy().ravel())
    present = [v for v in values if not pd.isna(v)]
    if not present:
        raise InvalidInput("the table holds no values")
    try:
        return tuple(sorted(present))
    except TypeError:
        raise InvalidInput(f"the columns mix kinds of values: {present[:6]}; drop the odd column or recode") from None


def edges_named(graph: str, names: list[str]) -> list[tuple[int, int]]:
    """Pairs of column numbers: "complete", "grid:ROWSxCOLUMNS", or a file of them."""
    n = len(names)
    if graph == "complete":
        return list(itertools.combinations(range(n), 2))
    shape = re.fullmatch(r"grid:(\d+)x(\d+)", graph)
    if shape:
        rows, columns = int(shape[1]), int(shape[2])
        if rows * columns != n:
            raise InvalidInput(f"a {rows} × {columns} grid has {rows * columns} variables; the data have {n} columns")
        return [(int(i), int(j)) for i, j in grid_edges(rows, columns)]
    if graph.startswith("grid"):
        raise InvalidInput(f"a grid is written grid:ROWSxCOLUMNS, such as grid:8x8; got {graph!r}")
    return _edges_of_file(graph, names)


def _edges_of_file(path: str, names: list[str]) -> list[tuple[int, int]]:
    """Pairs of column names or numbers (from 0), with or without a header."""
    number = {name: i for i, name in enumerate(names)} | {str(i): i for i in range(len(names)) if str(i) not in names}
    lines = [line.strip() for line in read_text(path).splitlines() if line.strip()]
    edges = []
    for k, line in enumerate(lines):
        ends = [part.strip().strip('"') for part in line.split(",")]
        known = len(ends) >= 2 and ends[0] in number and ends[1] in number
        header = k == 0 and not any(end in number for end in ends)
        if not known and not header:
            raise InvalidInput(
                f"{path}, line {k + 1}: an edge is two columns of the data, by name or number; got {line!r}"
            )
        if known:
            edges.append((number[ends[0]], number[ends[1]]))
    return edges


def fit_summary(posterior: Posterior) -> dict[str, Any]:
    """How it was found, in numbers and text that JSON knows."""
    record = posterior.record
    steps = [{k: _finite(v) for k, v in i._asdict().items()} for i in record.iterations]
    plain = {k: v for k, v in vars(record).items() if isinstance(v, str | int | float)}
    return {
        **{k: _finite(v) for k, v in plain.items()},
        "status": str(record.status),
        "converged": record.status.converged,
        "inference": str(record.inference),
        "correction": {k: _finite(v) for k, v in asdict(record.correction).items()},
        "choice": list(record.choice),
        "check": str(record.check) if record.check is not None else None,
        "steps": steps,
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
    }


def _finite(value: Any) -> Any:
    """JSON has no NaN."""
    return None if isinstance(value, float) and not np.isfinite(value) else value
