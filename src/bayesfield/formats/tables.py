"""The field that a table of cases asks for, and the folder that a fit is written to."""

from __future__ import annotations

import csv
import io
import itertools
import json
import platform
import re
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayesfield import memory
from bayesfield.correction.marginals import DrawnMarginals
from bayesfield.files import read_text, separator_of
from bayesfield.formats.frames import names_text, read_frame
from bayesfield.model.builders import grid_edges, pairwise
from bayesfield.outputs import as_one, remove, write_npz, write_text
from bayesfield.posterior.views import certificate_of
from bayesfield.response.base import fits_dense
from bayesfield.types import Cost, InvalidInput

if TYPE_CHECKING:
    from bayesfield.model.field import RandomField
    from bayesfield.posterior.posterior import Posterior

_COVARIANCE = 5000  # parameters up to which a fit's folder has their covariance
_PAIR = 300  # bytes in memory for a pair of columns, and the factor that is made of it
_LARGEST = 2**53  # whole numbers below it have a double of their own, and are told apart
_HEADERS = {
    *(("from", "to"), ("source", "target"), ("first", "second"), ("node1", "node2"), ("i", "j"), ("u", "v")),
    *(("var1", "var2"), ("item1", "item2"), ("parent", "child"), ("start", "end")),
}


def read_cases(path: str | Path, drop: Sequence[str] = ()) -> pd.DataFrame:
    """A table without some of its columns (formats.frames)."""
    cases = read_frame(path)
    names = [str(c) for c in cases.columns]
    absent = [name for name in drop if name not in names]
    if absent:
        raise InvalidInput(f"{path} has no column {absent[0]!r} to drop; it has {names}")
    return cases.loc[:, [name not in drop for name in names]]


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
    """posterior.csv, posterior.npz, posterior.bf (bf.load) and fit.json, all or none.

    Returns what had to be left out, and why.
    """
    target = open_folder(folder)
    with as_one():
        return _write_posterior(target, posterior)


def _write_posterior(target: Path, posterior: Posterior) -> list[str]:
    write_text(target / "posterior.csv", names_text(posterior.summary(), index=True))
    write_text(target / "fit.json", json.dumps(fit_summary(posterior), indent=2) + "\n")
    left_out = []
    arrays = {"mean": posterior.mean, "sd": posterior.sd, "skewness": posterior.skewness}
    if len(posterior.mean) <= _COVARIANCE and fits_dense(len(posterior.mean)):
        arrays["covariance"] = posterior.covariance()
    else:
        left_out.append(f"posterior.npz has no covariance: {len(posterior.mean):,} parameters are too many for one")
    if isinstance(posterior.marginals, DrawnMarginals):
        arrays |= {"draws": posterior.marginals.points, "weights": posterior.marginals.weights}
    write_npz(target / "posterior.npz", parameters=np.array(posterior.field.parameter_names), **arrays)
    try:
        posterior.save(target / "posterior.bf")  # within as_one: it is packed here, and written with the others
    except InvalidInput as error:
        left_out.append(f"no posterior.bf: {error}")
        remove(target / "posterior.bf")  # of an earlier fit
    return left_out


def open_folder(folder: str | Path) -> Path:
    """A folder that can be written to, made if there is none; asked for before a long fit, not after it."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return Path(folder)
    except (FileExistsError, NotADirectoryError):
        raise InvalidInput(f"cannot write to {folder}: it should be a folder, and a file is in its place") from None
    except OSError as error:
        raise InvalidInput(f"cannot write to {folder}: {error.strerror}") from None


def _states(cases: pd.DataFrame) -> tuple[Any, ...]:
    present: list[Any] = []
    try:
        present = [v for v in pd.unique(cases.to_numpy().ravel()) if not pd.isna(v)]
        states = tuple(sorted(present))
    except (TypeError, ValueError, OverflowError):
        some = f": {str(present[:6])[:200]}" if present else ", or hold lists"
        raise InvalidInput(f"the columns mix kinds of values{some}; drop the odd column or recode") from None
    if not states:
        raise InvalidInput("the table holds no values")
    if any(isinstance(v, int | float | np.number) and abs(float(v)) >= _LARGEST for v in states):
        raise InvalidInput(f"the columns hold numbers beyond ±2^53, which are not told apart: {states[-1]}; recode")
    return states


def edges_named(graph: str, names: list[str]) -> list[tuple[int, int]]:
    """Pairs of column numbers: "complete", "grid:ROWSxCOLUMNS", or a file of them."""
    n = len(names)
    if graph == "complete":
        pairs = n * (n - 1) // 2
        needed = Cost(pairs, float(_PAIR * pairs), f"{pairs:,} pairs of {n:,} columns")
        memory.require(needed, "the complete graph", "Give a file of edges, or leave columns out (--drop).")
        return list(itertools.combinations(range(n), 2))
    shape = re.fullmatch(r"grid:(\d{1,9})x(\d{1,9})", graph)
    if shape:
        rows, columns = int(shape[1]), int(shape[2])
        if rows * columns != n:
            raise InvalidInput(f"a {rows} × {columns} grid has {rows * columns} variables; the data have {n} columns")
        return [(int(i), int(j)) for i, j in grid_edges(rows, columns)]
    if graph.startswith("grid"):
        raise InvalidInput(f"a grid is written grid:ROWSxCOLUMNS, such as grid:8x8; got {graph!r}")
    return _edges_of_file(graph, names)


def _edges_of_file(path: str, names: list[str]) -> list[tuple[int, int]]:
    """Pairs of column names, or of numbers (from 0) where no name is one, with or without a header."""
    number = {name: i for i, name in enumerate(names)}
    if not any(re.fullmatch(r"-?[0-9]+", name) for name in names):
        number |= {str(i): i for i in range(len(names))}
    edges: list[tuple[int, int]] = []
    for k, (line, ends) in enumerate(_rows(path)):
        if len(ends) >= 2 and ends[0] in number and ends[1] in number:
            edges.append((number[ends[0]], number[ends[1]]))
        elif k or tuple(end.lower() for end in ends[:2]) not in _HEADERS:
            raise InvalidInput(
                f"{path}, line {line}: an edge is two columns of the data, by name or number (where no column's name "
                f"is one), set apart by a comma; got {', '.join(ends)[:80]!r}"
            )
    return edges


def _rows(path: str) -> list[tuple[int, list[str]]]:
    """The rows that are not blank, with the numbers of their lines."""
    text = read_text(path)
    first = next((line for line in text.splitlines() if line.strip()), "")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator_of(first), skipinitialspace=True)
    try:
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        raise InvalidInput(f"{path}, line {reader.line_num}: {error}; a quote may have been left open") from None
    return [(line, row) for line, row in rows if any(row)]


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
        "certificate": _certificate(posterior),
        "choice": list(record.choice),
        "check": str(record.check) if record.check is not None else None,
        "steps": steps,
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
    }


def _certificate(posterior: Posterior) -> dict[str, Any] | None:
    """How far it may be trusted; None where neither the fit nor the data are there to tell."""
    certificate = certificate_of(posterior)
    return None if certificate is None else {k: _finite(v) for k, v in asdict(certificate).items()}


def _finite(value: Any) -> Any:
    """JSON has no NaN."""
    return None if isinstance(value, float) and not np.isfinite(value) else value
