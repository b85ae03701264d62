"""Data in files that are read where they are needed, on a worker of a cluster, and never pass through one process."""

from __future__ import annotations

import bz2
import glob
import gzip
import lzma
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import sparse

from bayesfield.files import csv_options, read_parquet
from bayesfield.model.conditional import CRF, Sequences, edge_rows, label_codes
from bayesfield.outputs import settle
from bayesfield.types import BoolArray, IntArray, InvalidInput

_PACKED: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


@dataclass(frozen=True)
class _Files:
    paths: str | Path | Sequence[str | Path]

    def __post_init__(self) -> None:
        if isinstance(self.paths, str | Path):
            one = _remote(str(self.paths)) or Path(self.paths).exists()
            given = [str(self.paths)] if one else sorted(glob.glob(str(self.paths)))
        else:
            given = [str(p) for p in self.paths]
        if not given:
            raise InvalidInput(f"there is no file {self.paths!r}")
        object.__setattr__(self, "paths", tuple(given))

    def __len__(self) -> int:
        return len(self._all)

    def one(self, k: int) -> Self:
        """The k-th file alone."""
        return replace(self, paths=(self._all[k],))

    @property
    def _all(self) -> tuple[str, ...]:
        assert isinstance(self.paths, tuple)
        return self.paths


@dataclass(frozen=True)
class SequenceFiles(_Files):
    """Labelled sequences in Parquet or CSV files, one row a position.

    paths: the files, or a pattern such as "corpus/*.parquet". sequence: the column that tells sequences apart; the rows
    of one stand together, in one file. label: the column of labels, empty where one is not known. features: a column
    with the names of a position's inputs, separated by spaces, each by itself (1) or as name=number; names that the
    model does not have are left out. None: a column of numbers for each of the model's inputs, by its name.
    """

    sequence: str = "sequence"
    label: str = "label"
    features: str | None = None

    def all(self, crf: CRF) -> Sequences:
        """The sequences of all files, in this process."""
        return joined([self.read(crf, k) for k in range(len(self))])

    def read(self, crf: CRF, k: int) -> Sequences:
        """The sequences of the k-th file."""
        path = self._all[k]
        needed = [self.sequence, self.label, *([self.features] if self.features else crf.inputs)]
        table = _table(path, needed)
        begins = np.flatnonzero(table[self.sequence].ne(table[self.sequence].shift()).to_numpy())
        ptr = np.concatenate([begins, [len(table)]]).astype(np.int64)
        if len(begins) != table[self.sequence].nunique(dropna=False):
            raise InvalidInput(f"{path}: the rows of a sequence must stand together; sort by {self.sequence!r}")
        if self.features:
            inputs = _named_inputs(table[self.features], crf, path)
        else:
            inputs = _numbers(table[list(crf.inputs)], path)
        labels = table[self.label].astype(object).where(table[self.label].notna(), None).to_numpy()
        known = label_codes(crf, [labels], np.array([len(table)]))
        return Sequences(ptr, inputs, *edge_rows(crf, ptr, None), *known)


@dataclass(frozen=True)
class CaseFiles(_Files):
    """Cases of a field in Parquet or CSV files, one row a case and one column a variable, by its name.

    paths: the files, or a pattern such as "survey/*.parquet". Missing are empty cells, NA, NaN, nan and <NA>.
    """

    def read(self, columns: Sequence[str], k: int) -> pd.DataFrame:
        """The cases of the k-th file."""
        return _table(self._all[k], columns)

    def all(self, columns: Sequence[str]) -> pd.DataFrame:
        """The cases of all files, in this process."""
        return pd.concat([self.read(columns, k) for k in range(len(self))], ignore_index=True)


def joined(parts: Sequence[Sequences]) -> Sequences:
    """Sequences of one model one after the other."""
    starts = np.cumsum([0, *(p.positions for p in parts)])
    ptr = np.concatenate([[0], *(p.ptr[1:] + start for p, start in zip(parts, starts, strict=False))])
    labels = [p.labels if p.labels is not None else np.full(p.positions, -1) for p in parts]
    some_open = next((p.allowed.shape[1] for p in parts if p.allowed is not None), None)
    allowed = None
    if some_open is not None:
        allowed = np.concatenate([_allowed(p, some_open) for p in parts])
    inputs = sparse.csr_array(sparse.vstack([p.inputs for p in parts], format="csr"))
    which = np.concatenate([p.which for p in parts])
    return Sequences(ptr.astype(np.int64), inputs, parts[0].edge_rows, which, np.concatenate(labels), allowed)


def _allowed(data: Sequences, K: int) -> BoolArray:
    if data.allowed is not None:
        return data.allowed
    assert data.labels is not None
    result: BoolArray = data.labels[:, None] == np.arange(K)
    return result


def _table(path: str, columns: Sequence[str]) -> pd.DataFrame:
    if not _remote(path) and not Path(path).exists():
        raise InvalidInput(f"there is no file {path!r} on this worker; files must be where all workers see them")
    if Path(path).suffix.lower() in (".parquet", ".pq"):
        return read_parquet(path, list(columns))[list(columns)]
    if not _remote(path) and Path(path).is_dir():
        raise InvalidInput(f"{path} is a folder; name the files in it, by a pattern such as {path.rstrip('/')}/*.csv")
    try:
        return _csv(path, columns)
    except InvalidInput:
        raise
    except (OSError, EOFError, UnicodeDecodeError, lzma.LZMAError) as error:
        reason = getattr(error, "strerror", None) or "it is not text, or cut short"
        raise InvalidInput(f"cannot read {path}: {reason}") from None
    except (KeyError, ValueError) as error:
        raise InvalidInput(f"{path}: needs the columns {list(columns)[:5]} …; {error}") from None


def _csv(path: str, columns: Sequence[str]) -> pd.DataFrame:
    """Some columns of a CSV or TSV file, which may be packed by gzip, bzip2 or xz."""
    if not _remote(path):
        settle(path)
    ending = Path(path).suffix.lower()
    tabs = Path(path[: -len(ending)] if ending in _PACKED else path).suffix.lower() == ".tsv"
    with _opened(path, ending) as lines:
        options = csv_options(lines, path, tabs, some=True)
    with _opened(path, ending) as lines:
        table: pd.DataFrame = pd.read_csv(lines, usecols=list(columns), **options)
    return table[list(columns)]


def _remote(path: str) -> bool:
    """Whether it is an address, such as s3://bucket/cases.csv."""
    return "://" in path


def _opened(path: str, ending: str) -> Any:
    """Text of a file here, or of one that fsspec, which comes with Dask, can reach."""
    if not _remote(path):
        return _PACKED.get(ending, open)(path, "rt", encoding="utf-8-sig", newline="")
    try:
        reach = import_module("fsspec").open
    except ImportError:
        raise InvalidInput(f"cannot read {path}: addresses need fsspec; pip install fsspec") from None
    return reach(path, "rt", encoding="utf-8-sig", newline="", compression="infer")


def _numbers(table: pd.DataFrame, path: str) -> Any:
    try:
        values = table.to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{path}: inputs must be numbers") from None
    if not np.isfinite(values).all():
        raise InvalidInput(f"{path}: inputs must be finite numbers")
    return sparse.csr_array(values)


def _named_inputs(cells: pd.Series[Any], crf: CRF, path: str) -> Any:
    number = {name: k for k, name in enumerate(crf.inputs)}
    columns: list[int] = []
    values: list[float] = []
    ends: list[int] = [0]
    for cell in cells.fillna("").tolist():
        for word in cell.split() if isinstance(cell, str) else cell:
            name, _, amount = str(word).rpartition("=")
            if str(word) in number:
                name, amount = str(word), "1"
            if name in number:
                columns.append(number[name])
                values.append(_amount(amount, path, str(word)))
        ends.append(len(columns))
    shape = (len(ends) - 1, len(crf.inputs))
    matrix = sparse.csr_array((np.array(values), np.array(columns, dtype=np.int64), _int(ends)), shape=shape)
    matrix.sum_duplicates()
    return matrix


def _amount(text: str, path: str, word: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = float("nan")
    if not np.isfinite(found):
        raise InvalidInput(f"{path}: {word!r} is no name=number")
    return found


def _int(values: list[int]) -> IntArray:
    return np.array(values, dtype=np.int64)
