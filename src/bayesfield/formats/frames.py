"""Tables in files, by their names' endings: CSV, TSV, Parquet, JSON (a list of records)."""

import csv
import io
import json
from collections import Counter
from pathlib import Path

import pandas as pd

from bayesfield import memory
from bayesfield.files import read_text, write_bytes, write_text
from bayesfield.types import InvalidInput

ENDINGS = (".csv", ".tsv", ".parquet", ".json")
_SWOLLEN = 20  # a table in memory takes up to so many times its file


def read_frame(path: str | Path) -> pd.DataFrame:
    """A table: a row for each case, a column of its own name for each variable; empty cells are missing."""
    ending = _ending(path)
    if ending == ".parquet":
        return _parquet(path)
    text = read_text(path)
    if len(text) * _SWOLLEN > memory.usable_bytes():
        raise InvalidInput(f"{path} is too large to read here as text; give Parquet, or bf.CaseFiles of several files")
    try:
        if ending == ".json":
            return _records(path, text)
        separator = "\t" if ending == ".tsv" else ","
        _refuse_twins(path, text, separator)
        return pd.read_csv(io.StringIO(text), sep=separator)
    except (csv.Error, pd.errors.ParserError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"{path} is no {ending[1:].upper()} table: {error}") from None


def write_frame(path: str | Path, table: pd.DataFrame) -> None:
    """The whole table or nothing; the index is left out."""
    ending = _ending(path)
    if ending == ".parquet":
        packed = io.BytesIO()
        try:
            table.to_parquet(packed, index=False)
        except ImportError:
            raise InvalidInput(f"{path}: Parquet needs pyarrow; pip install pyarrow") from None
        write_bytes(path, packed.getvalue())
    elif ending == ".json":
        write_text(path, json.dumps(json.loads(table.to_json(orient="records")), ensure_ascii=False, indent=1) + "\n")
    else:
        write_text(path, table.to_csv(index=False, sep="\t" if ending == ".tsv" else ","))


def is_table(path: str | Path) -> bool:
    """Whether a name ends like a table's."""
    return Path(path).suffix.lower() in ENDINGS


def _ending(path: str | Path) -> str:
    found = Path(path).suffix.lower()
    if found not in ENDINGS:
        raise InvalidInput(f"a table is a file that ends in {', '.join(ENDINGS)}; got {str(path)!r}")
    return found


def _refuse_twins(path: str | Path, text: str, separator: str) -> None:
    """pandas would number columns of the same name, in a time that grows with the square of how many there are."""
    head = next((row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if row), [])
    names = [name for name in head if name]
    if len(set(names)) < len(names):
        twin = next(name for name, count in Counter(names).items() if count > 1)
        raise InvalidInput(f"{path}: every column needs a name of its own; {twin[:40]!r} stands there twice")


def _parquet(path: str | Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except ImportError:
        raise InvalidInput(f"cannot read {path}: Parquet needs pyarrow; pip install pyarrow") from None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    except Exception as error:
        if type(error).__module__.startswith("pyarrow") or isinstance(error, ValueError):
            raise InvalidInput(f"{path} is no Parquet table: {error}") from None
        raise


def _records(path: str | Path, text: str) -> pd.DataFrame:
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise InvalidInput(f"{path}: a table in JSON is a list of records, one for each case")
    return pd.DataFrame(found)
