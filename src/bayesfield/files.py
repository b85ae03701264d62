"""Reading files so that failure is plain; ``outputs`` writes them."""

import csv
import gzip
import io
import math
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayesfield.outputs import settle
from bayesfield.types import InvalidInput

_CHUNK = 1 << 20  # bytes read at a time
_MARK = b"\xef\xbb\xbf"  # that some editors put before UTF-8
# missing is what R and pandas write for it; None, null, n/a and all other words are states
_CSV: dict[str, Any] = {
    "keep_default_na": False,
    "na_values": ["", "NA", "NaN", "nan", "<NA>"],
    "low_memory": False,
    "index_col": False,
    "skipinitialspace": True,
}


def read_text(path: str | Path) -> str:
    """The text of a file; says in plain words why it cannot be had."""
    settle(path)
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidInput(f"cannot read {path}: {reason}") from None


def read_bytes(path: str | Path, most: int) -> bytes:
    """The bytes of a file, unpacked where it is a gzip file; refused when they are more than ``most``."""
    settle(path)
    try:
        with open(path, "rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            content = _at_most(gzip.GzipFile(fileobj=raw) if packed else raw, most)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it was packed by gzip, and cut short or changed"
        raise InvalidInput(f"cannot read {path}: {reason}") from None
    if content is None:
        raise InvalidInput(f"cannot read {path}: it holds more than {most:,} bytes{' once unpacked' if packed else ''}")
    return content.removeprefix(_MARK)


def _at_most(stream: Any, most: int) -> bytes | None:
    """What a stream holds; None where that is more than ``most`` bytes."""
    found = bytearray()
    while some := stream.read(min(_CHUNK, most + 1 - len(found))):
        found += some
        if len(found) > most:
            return None
    return bytes(found)


# --- arrays in archives -------------------------------------------------------------------------------------


def unpacked(archive: zipfile.ZipFile, name: str) -> bytes:
    """An entry of an archive, and no more than it claims to hold: ``archive.read`` would first unpack up to 2 GiB."""
    with archive.open(name) as stream:
        return stream.read(archive.getinfo(name).file_size)


def npy_array(data: bytes) -> Any:
    """An array in NumPy's own format, no objects. NumPy's own reader would first make room for what it claims."""
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise InvalidInput("it has an array of another kind")
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
    if any(length < 0 for length in shape) or dtype.kind not in "biufU":
        raise InvalidInput("it has an array of another kind")
    if len(data) - stream.tell() != math.prod(shape) * dtype.itemsize:
        raise InvalidInput("it has an array that says that it is of another size")
    flat = np.frombuffer(data, dtype, offset=stream.tell(), count=math.prod(shape))
    return flat.reshape(shape, order="F" if by_columns else "C").copy()


# --- tables -------------------------------------------------------------------------------------------------


def csv_options(lines: Iterable[str], path: str | Path, tabs: bool, some: bool = False) -> dict[str, Any]:
    """How pandas should read a table, after a look at all of its lines: its columns have names, its rows one width.

    Left alone pandas takes the first cells of rows that are too long for an index, and fills up those too short.
    some: only columns that are asked for by name are read, so that one of row names, without a name, does no harm.
    """
    rest, above, first = iter(lines), 0, ""
    for first in rest:
        if first.strip():
            break
        above += 1
    else:
        raise InvalidInput(f"{path} is empty: a table needs a header, a line with the names of its columns")
    second = next(rest, "")
    separator = "\t" if tabs else separator_of(first, second)
    rows = _rows(chain([first, second] if second else [first], rest), path, separator, above)
    width = _width(next(rows)[1], path, some)
    cases = _cases(rows, path, width, separator)
    found = {**_CSV, "sep": separator, "skiprows": above}
    return found if width > 1 else {**found, "skip_blank_lines": False, "nrows": cases}


def separator_of(line: str, after: str = "") -> str:
    """A comma, or what stands for it outside quotes: a semicolon (spreadsheets of some countries) or a tab.

    after: the next line. Of several marks the first is taken that both have equally often.
    """
    bare, then = (re.sub(r'"[^"]*"', "", text) for text in (line, after))
    marks = [mark for mark in ",;\t" if mark in bare]
    alike = [mark for mark in marks if bare.count(mark) == then.count(mark)]
    return next(iter(alike or marks), ",")


def _rows(lines: Iterable[str], path: str | Path, separator: str, above: int) -> Iterator[tuple[int, list[str]]]:
    """Rows of cells, each with the number of the line that it begins in."""
    reader = csv.reader(_whole(lines, path, above), delimiter=separator, skipinitialspace=True)
    number = above + 1
    try:
        for row in reader:
            yield number, row
            number = above + reader.line_num + 1
    except csv.Error as error:
        raise InvalidInput(
            f"{path}, line {number}: {error}; a quote may have been left open, or a cell holds a whole text"
        ) from None


def _whole(lines: Iterable[str], path: str | Path, above: int) -> Iterator[str]:
    for number, line in enumerate(lines, above + 1):
        if "\0" in line:
            raise InvalidInput(f"{path}, line {number}: it holds NUL characters; write it as UTF-8 text")
        yield line


def _width(names: list[str], path: str | Path, some: bool) -> int:
    """How many columns a header names; pandas would number twins, in a time that grows with the square of them."""
    twin = next((name for name, count in Counter(names).items() if name and count > 1), None)
    if twin is not None:
        raise InvalidInput(f"{path}: every column needs a name of its own; {twin[:40]!r} stands there twice")
    if "" in names and not some:
        raise InvalidInput(
            f"{path}: column {names.index('') + 1} of {len(names)} has no name. Write the table without row names "
            "(R: write.csv(..., row.names = FALSE); pandas: index=False), and no separator at the end of its lines"
        )
    return len(names)


def _cases(rows: Iterable[tuple[int, list[str]]], path: str | Path, width: int, separator: str) -> int:
    """How many rows there are, blank lines at the end left out; pandas writes "" for a missing cell in one column."""
    last = 0
    for seen, (number, row) in enumerate(rows, 1):
        blank = not row or (len(row) == 1 and not row[0].strip(" \t"))
        last = seen if row else last
        if not blank and len(row) != width:
            raise InvalidInput(
                f"{path}, line {number}: the header names {width} columns, and this row has {len(row)}. Likely causes: "
                f"row names, a separator at the end of lines, a comment above the header, text with {separator!r} in "
                "it and no quotes, a quote that was left open, a file that was cut short"
            )
    return last


def read_parquet(path: str | Path, columns: list[str] | None = None) -> pd.DataFrame:
    """A table in Parquet, or some columns of it; an index that has a name is a column, too."""
    if "://" not in str(path):
        settle(path)
    try:
        table = pd.read_parquet(path, columns=columns)
        named = [level for level, name in enumerate(table.index.names) if name is not None]
        return table.reset_index(level=named) if named else table
    except ImportError:
        raise InvalidInput(f"cannot read {path}: Parquet needs pyarrow; pip install pyarrow") from None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    except Exception as error:
        if type(error).__module__.startswith("pyarrow") or isinstance(error, ValueError):
            wanted = f" with the columns {columns[:5]} …" if columns else ""
            raise InvalidInput(f"{path} is no Parquet table{wanted}: {error}") from None
        raise
