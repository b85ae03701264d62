"""Tables of other programs: Excel, SPSS, Stata, R. What a value is called there is kept."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pandas as pd

from bayesfield.outputs import settle
from bayesfield.types import InvalidInput

EXCEL, LABELLED, R_FILES = (
    (".xlsx", ".xlsm", ".xls", ".ods"),
    (".sav", ".zsav", ".por", ".dta"),
    (".rds", ".rda", ".rdata"),
)
ENDINGS = (*EXCEL, *LABELLED, *R_FILES)


def read_foreign(path: str | Path, ending: str) -> pd.DataFrame:
    """The first sheet, the data set, or the one data frame that the file has."""
    settle(path)
    reader = _excel if ending in EXCEL else _labelled if ending in LABELLED else _of_r
    try:
        with open(path, "rb"):
            pass
        return reader(path, ending)
    except InvalidInput:
        raise
    except ImportError as error:
        needed = error.name or str(error)
        raise InvalidInput(f"cannot read {path}: {ending} files need {needed}; pip install bayesfield[files]") from None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    except Exception as error:  # these readers have errors of their own kinds, and let those of unpacking through
        raise InvalidInput(f"{path} is no {ending} table that can be read: {str(error)[:200]}") from None


def _excel(path: str | Path, ending: str) -> pd.DataFrame:
    importlib.import_module({".xls": "xlrd", ".ods": "odf"}.get(ending, "openpyxl"))
    table: pd.DataFrame = pd.read_excel(path, sheet_name=0)
    unnamed = [str(c) for c in table.columns if str(c).startswith("Unnamed: ")]
    if unnamed:
        raise InvalidInput(
            f"{path}: column {unnamed[0].removeprefix('Unnamed: ')} (from 0) of the first sheet has no name; the names "
            "stand in its first row, without anything above or beside the table"
        )
    return table


def _labelled(path: str | Path, ending: str) -> pd.DataFrame:
    """SPSS and Stata: numbers with labels are categories, in the numbers' order; what users declared missing is so."""
    pyreadstat: Any = importlib.import_module("pyreadstat")
    read = {".dta": pyreadstat.read_dta, ".por": pyreadstat.read_por}.get(ending, pyreadstat.read_sav)
    found: tuple[pd.DataFrame, Any] = read(str(path))
    table, meta = found
    for name, labels in meta.variable_value_labels.items():
        if name in table:
            table[name] = _with_labels(table[name], labels)
    return table


def _with_labels(column: pd.Series, labels: dict[Any, str]) -> Any:
    """Labels as categories, from the least number that occurs to the largest; numbers stay where one has no label."""
    present = column.dropna().unique().tolist()
    if not present or any(value not in labels for value in present) or len(set(labels.values())) < len(labels):
        return column
    inside = sorted(code for code in labels if min(present) <= code <= max(present))
    return pd.Categorical([labels.get(v) for v in column.tolist()], [labels[c] for c in inside], ordered=True)


def _of_r(path: str | Path, ending: str) -> pd.DataFrame:
    rdata: Any = importlib.import_module("rdata")
    content = rdata.read_rds(path) if ending == ".rds" else rdata.read_rda(path)
    if isinstance(content, dict):
        tables = {name: value for name, value in content.items() if isinstance(value, pd.DataFrame)}
        if len(tables) != 1:
            names = f": {', '.join(tables)}" if tables else ""
            raise InvalidInput(f"{path} holds {len(tables)} data frames{names}; save one of them, saveRDS(table, file)")
        content = next(iter(tables.values()))
    if not isinstance(content, pd.DataFrame):
        raise InvalidInput(f"{path} holds no data frame but {type(content).__name__}; as.data.frame(x) makes one")
    return content.reset_index(drop=True)
