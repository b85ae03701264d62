"""Tables in files, by their names' endings: CSV, TSV, Parquet, JSON (a list of records)."""

import io
import json
import math
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayesfield import memory
from bayesfield.files import csv_options, read_parquet, read_text
from bayesfield.outputs import write_bytes, write_text
from bayesfield.types import InvalidInput

ENDINGS = (".csv", ".tsv", ".parquet", ".json")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what begins a formula in spreadsheets, or hides one
_SWOLLEN = 20  # a table in memory takes up to so many times its file
_NO_CELLS = (list, tuple, dict, set, bytes, bytearray, np.ndarray)


def read_frame(path: str | Path) -> pd.DataFrame:
    """A table: a row for each case, a column of its own name for each variable.

    Missing are empty cells and, in text, NA, NaN, nan and <NA>, as R and pandas write them; other words are states.
    """
    ending = _ending(path)
    if ending == ".parquet":
        return _checked(path, read_parquet(path))
    text = read_text(path)
    if len(text) * _SWOLLEN > memory.usable_bytes():
        raise InvalidInput(f"{path} is too large to read here as text; give Parquet, or bf.CaseFiles of several files")
    try:
        found = _records(text) if ending == ".json" else _csv(path, text, ending == ".tsv")
    except InvalidInput:
        raise
    except (ValueError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"{path} is no {ending[1:].upper()} table: {error}") from None
    return _checked(path, found)


def write_frame(path: str | Path, table: pd.DataFrame) -> None:
    """The whole table or nothing; the index is left out."""
    ending = _ending(path)
    if ending == ".parquet":
        write_bytes(path, _packed(path, table))
    elif ending == ".json":
        names = [str(name) for name in table.columns]
        columns = [[_plain(value) for value in table.iloc[:, k].tolist()] for k in range(len(names))]
        records = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        write_text(path, json.dumps(records, ensure_ascii=False, indent=1) + "\n")
    else:
        write_text(path, table.to_csv(index=False, sep="\t" if ending == ".tsv" else ","))


def names_text(table: pd.DataFrame, index: bool = False, separator: str = ",") -> str:
    """A table about parameters as CSV. Words that a spreadsheet would run as a formula get an apostrophe in front.

    Of data the words stay as they are: they are read again, and "+" and "-" are common states.
    """
    quoted = table.rename(columns=_quoted).copy()
    for k in range(len(quoted.columns)):
        if not pd.api.types.is_numeric_dtype(quoted.dtypes.iloc[k]):
            quoted.isetitem(k, [_quoted(cell) for cell in quoted.iloc[:, k].tolist()])
    quoted.index = quoted.index.map(_quoted) if index else quoted.index
    return quoted.to_csv(index=index, sep=separator)


def _quoted(word: Any) -> Any:
    return f"'{word}" if isinstance(word, str) and word.startswith(_FORMULA) else word


def is_table(path: str | Path) -> bool:
    """Whether a name ends like a table's."""
    return Path(path).suffix.lower() in ENDINGS


def _ending(path: str | Path) -> str:
    found = Path(path).suffix.lower()
    if found not in ENDINGS:
        raise InvalidInput(f"a table is a file that ends in {', '.join(ENDINGS)}; got {str(path)!r}")
    return found


def _csv(path: str | Path, text: str, tabs: bool) -> pd.DataFrame:
    options = csv_options(io.StringIO(text, newline=""), path, tabs)
    table: pd.DataFrame = pd.read_csv(io.StringIO(text), **options)
    return table


def _records(text: str) -> pd.DataFrame:
    content = json.loads(text)
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise ValueError("it needs a list of records, one for each case")
    return pd.DataFrame(content)


def _checked(path: str | Path, table: pd.DataFrame) -> pd.DataFrame:
    """The table, if it has columns, and cells that could be states."""
    if not len(table.columns):
        raise InvalidInput(f"{path} has no columns: a table has one for each variable, with a name")
    for k, name in enumerate(table.columns):
        if pd.api.types.is_object_dtype(table.dtypes.iloc[k]):
            _refuse_cells(f"{path}: column {str(name)[:40]!r}", table.iloc[:, k].tolist())
    return table


def _refuse_cells(where: str, cells: list[Any]) -> None:
    kinds = set(map(type, cells))
    odd = next((kind.__name__ for kind in kinds if issubclass(kind, _NO_CELLS)), None)
    if odd is not None:
        raise InvalidInput(
            f"{where} has cells of the kind {odd}; a cell is a number, a word or a date. Give each part its own column"
        )
    if int in kinds and any(isinstance(cell, int) and not -(2**63) <= cell < 2**64 for cell in cells):
        raise InvalidInput(f"{where} holds whole numbers of more than 64 bits; write them as text, with a letter ahead")


def _packed(path: str | Path, table: pd.DataFrame) -> bytes:
    packed = io.BytesIO()
    try:
        table.to_parquet(packed, index=False)
    except ImportError:
        raise InvalidInput(f"{path}: Parquet needs pyarrow; pip install pyarrow") from None
    except (ValueError, TypeError, OverflowError) as error:  # pyarrow's own are among them
        raise InvalidInput(
            f"cannot write {path}: {error}. A column of a Parquet file has one kind of values: recode, or write .csv"
        ) from None
    return packed.getvalue()


def _plain(value: Any) -> Any:
    """As JSON has it: dates in ISO's form, null for what is missing or not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, date):  # times of day with it
        return value.isoformat()
    return value if isinstance(value, str | int | bool) else str(value)
