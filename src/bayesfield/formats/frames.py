"""Tables in files, by their names' endings: CSV and TSV (packed by gzip or not), Parquet, JSON (a list of records)."""

import gzip
import io
import json
import math
import re
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayesfield import memory
from bayesfield.files import csv_options, read_bytes, read_parquet, read_text
from bayesfield.formats import foreign
from bayesfield.outputs import write_bytes, write_text
from bayesfield.types import InvalidInput

WRITTEN = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".json")
ENDINGS = (*WRITTEN, *foreign.ENDINGS)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what begins a formula in spreadsheets, or hides one
_SWOLLEN = 20  # a table in memory takes up to so many times its file
_COMMA = re.compile(r"[+-]?\d+(,\d+)?([eE][+-]?\d+)?")  # a number of countries that write decimals with a comma
_LIKE_MISSING = {"?", ".", "-", "n/a", "None", "null", "missing", "NULL", "#N/A"}  # states, as far as a reader knows
_CODES = (-9, -99, -999, 99, 999, 9999)  # and numbers that people write for them
_FAR = 4  # times as far from zero as the others
_NO_CELLS = (list, tuple, dict, set, bytes, bytearray, np.ndarray)


def read_frame(path: str | Path) -> pd.DataFrame:
    """A table: a row for each case, a column of its own name for each variable.

    Missing are empty cells and, in text, NA, NaN, nan and <NA>, as R and pandas write them; other words are states.
    Excel, SPSS, Stata and R by ``formats.foreign``. Where cells are set apart by semicolons or tabs, numbers may have a
    decimal comma.
    """
    ending = _ending(path)
    if ending in foreign.ENDINGS:
        return _checked(path, foreign.read_foreign(path, ending))
    if ending == ".parquet":
        return _checked(path, read_parquet(path))
    text = _unpacked(path) if ending.endswith(".gz") else read_text(path)
    ending = ending.removesuffix(".gz")
    if len(text) * _SWOLLEN > memory.usable_bytes():
        raise InvalidInput(f"{path} is too large to read here as text; give Parquet, or bf.CaseFiles of several files")
    try:
        found = _records(text) if ending == ".json" else _csv(path, text, ending == ".tsv")
    except InvalidInput:
        raise
    except (ValueError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"{path} is no {ending[1:].upper()} table: {error}") from None
    return _checked(path, found)


def missing_cells(table: pd.DataFrame) -> list[str]:
    """What a reader of a table should say: how many cells are missing, and what looks like missing and is a state."""
    lost, cells = int(table.isna().to_numpy().sum()), table.size
    said = [f"{lost:,} of {cells:,} cells ({lost / cells:.1%}) are missing"] if lost else []
    for k, name in enumerate(table.columns):
        odd = _like_missing(table.iloc[:, k])
        if odd is not None:
            said.append(
                f"column {str(name)!r} has cells {odd!r}, read as a state; leave them empty if they are missing"
            )
    return said


def _like_missing(column: pd.Series) -> Any:
    if pd.api.types.is_bool_dtype(column.dtype):
        return None
    if pd.api.types.is_numeric_dtype(column.dtype):
        present = set(column.dropna().unique().tolist())
        rest = max((abs(v) for v in present if v not in _CODES), default=0)
        return next((code for code in _CODES if code in present and abs(code) >= _FAR * max(rest, 1)), None)
    present = {value for value in pd.unique(column) if isinstance(value, str)}
    return next(iter(sorted(present & _LIKE_MISSING)), None) if len(present) > 1 else None


def write_frame(path: str | Path, table: pd.DataFrame) -> None:
    """The whole table or nothing; the index is left out."""
    ending = _ending(path, WRITTEN)
    if ending == ".parquet":
        write_bytes(path, _packed(path, table))
    elif ending == ".json":
        names = [str(name) for name in table.columns]
        columns = [[_plain(value) for value in table.iloc[:, k].tolist()] for k in range(len(names))]
        records = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        write_text(path, json.dumps(records, ensure_ascii=False, indent=1) + "\n")
    else:
        text = table.to_csv(index=False, sep="\t" if ending.startswith(".tsv") else ",")
        if ending.endswith(".gz"):
            write_bytes(path, gzip.compress(text.encode("utf-8"), mtime=0))
        else:
            write_text(path, text)


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


def is_table(path: str | Path, endings: tuple[str, ...] = ENDINGS) -> bool:
    """Whether a name ends like a table's. endings: ``WRITTEN``, of those that can be written."""
    return _suffix(path) in endings


def _suffix(path: str | Path) -> str:
    """.csv.gz is one ending."""
    found = Path(path).suffix.lower()
    return Path(Path(path).stem).suffix.lower() + found if found == ".gz" else found


def _ending(path: str | Path, known: tuple[str, ...] = ENDINGS) -> str:
    found = _suffix(path)
    if found not in known:
        raise InvalidInput(f"a table is a file that ends in {', '.join(known)}; got {str(path)!r}")
    return found


def _unpacked(path: str | Path) -> str:
    content = read_bytes(path, memory.usable_bytes() // _SWOLLEN)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput(f"cannot read {path}: it is not text") from None


def _csv(path: str | Path, text: str, tabs: bool) -> pd.DataFrame:
    options = csv_options(io.StringIO(text, newline=""), path, tabs)
    table: pd.DataFrame = pd.read_csv(io.StringIO(text), **options)
    return table if options["sep"] == "," else _with_points(table)


def _with_points(table: pd.DataFrame) -> pd.DataFrame:
    """Columns of numbers with a decimal comma, as numbers."""
    for k in range(len(table.columns)):
        column = table.iloc[:, k]
        cells = [] if pd.api.types.is_numeric_dtype(column.dtype) else column.dropna().tolist()
        if not any(isinstance(cell, str) and "," in cell for cell in cells):
            continue
        if all(isinstance(cell, str) and _COMMA.fullmatch(cell.strip()) for cell in cells):
            numbers = [float(c.replace(",", ".")) if isinstance(c, str) else math.nan for c in column.tolist()]
            table.isetitem(k, np.array(numbers))
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
