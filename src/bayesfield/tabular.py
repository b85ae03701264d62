"""Tables of any library, read once at the border: columns with names, whatever kind of table they come in.

pandas, polars, pyarrow, modin and what else narwhals knows, NumPy's structured and masked arrays, xarray. Inside there
are pandas' tables, whose columns are matched by name, and arrays, whose columns are matched by place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bayesfield.types import InvalidInput

_SHOWN = 6  # names that a message lists
_EXACT = 2.0**53  # whole numbers up to here are doubles


def as_table(X: Any) -> Any:
    """A pandas DataFrame of anything whose columns have names; arrays, lists and all else as they are."""
    kind = type(X)
    if kind is pd.DataFrame or isinstance(X, pd.DataFrame | list | tuple | str):
        return X
    if isinstance(X, np.ndarray):
        return X if X.dtype.names is None and not isinstance(X, np.ma.MaskedArray) else _of_array(X)
    home = kind.__module__.partition(".")[0]
    if home == "xarray":
        return _of_xarray(X)
    if isinstance(X, Mapping) and home != "scipy":  # one of whose sparse matrices is a dict
        return pd.DataFrame(dict(X))
    if home == "pyarrow" and hasattr(X, "to_pandas"):
        return _frame(X.to_pandas())
    if not _might_be_table(X):
        return X
    import narwhals.stable.v1 as nw

    frame = nw.from_native(X.collect() if home == "polars" and hasattr(X, "collect") else X, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return _of_narwhals(frame)
    return _of_stream(X)


def has_names(X: Any) -> bool:
    """Whether the columns of X have names: whether ``as_table`` makes a table of it."""
    if isinstance(X, pd.DataFrame):
        return True
    if isinstance(X, np.ndarray | list | tuple | str | dict):
        return isinstance(X, np.ndarray) and X.dtype.names is not None
    return _might_be_table(X) or (type(X).__module__.startswith("xarray") and isinstance(as_table(X), pd.DataFrame))


def in_order(table: pd.DataFrame, names: Sequence[Any], what: str = "the table") -> pd.DataFrame:
    """The table's columns of these names, in this order: by the names themselves, or by their texts.

    Further columns are left out. Refused where a name is missing, or stands there twice.
    """
    labels = list(table.columns)
    if labels == list(names):
        return table
    for wanted, there in ((list(names), labels), ([str(n) for n in names], [str(c) for c in labels])):
        place = {name: j for j, name in enumerate(there)}
        if len(place) != len(there):
            twin = next(name for j, name in enumerate(there) if place[name] != j)
            raise InvalidInput(f"{what}'s columns must have different names; {twin!r} stands there twice")
        if all(name in place for name in wanted):
            return table.iloc[:, [place[name] for name in wanted]]
    raise InvalidInput(_missing(what, [str(n) for n in names], [str(c) for c in labels]))


def backend_of(X: Any) -> Any:
    """What a table was made by, for ``like``; None for pandas and for arrays."""
    if isinstance(X, np.ndarray):
        return "structured" if X.dtype.names is not None else None
    if isinstance(X, pd.DataFrame | list | tuple) or not has_names(X):
        return None
    home = type(X).__module__.partition(".")[0]
    return home if home in ("polars", "pyarrow", "modin", "cudf", "xarray") else None


def like(backend: Any, table: Any) -> Any:
    """A pandas table as one of another kind; as it is where none is asked for."""
    if backend is None or not isinstance(table, pd.DataFrame):
        return table
    names = [str(c) for c in table.columns]
    if backend == "structured":
        return table.set_axis(names, axis=1).to_records(index=False)
    if backend == "xarray":
        import xarray

        return xarray.Dataset.from_dataframe(table.set_axis(names, axis=1))
    import narwhals.stable.v1 as nw

    columns = {name: _cells(table.iloc[:, j]) for j, name in enumerate(names)}
    return nw.from_dict(columns, backend=backend).to_native()


# --- columns of variables ---------------------------------------------------------------------------------------------


def cells_of(X: Any, names: Sequence[str], hidden: Sequence[int], columns: Sequence[str]) -> tuple[Any, Sequence[Any]]:
    """The cells of X in the order of the variables, and what to call each column in an error.

    Columns of hidden variables may all be left out: they are filled with None.
    """
    X = as_table(X)
    unseen = set(hidden)
    seen = [i for i in range(len(names)) if i not in unseen]
    if isinstance(X, pd.DataFrame):
        names = names if len(columns) not in (len(names), len(seen)) else _called(names, columns, seen)
        there = {str(c) for c in X.columns}
        narrow = bool(hidden) and not any(names[i] in there for i in hidden)
        narrow = narrow and (len(X.columns) == len(seen) or all(names[i] in there for i in seen))
    else:
        X = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
        narrow = bool(hidden) and X.ndim == 2 and X.shape[1] == len(seen)
    if not narrow:
        return _all_columns(X, names, by_place=not columns)
    values, _ = _all_columns(X, [names[i] for i in seen], by_place=not columns)
    full = np.full((len(values), len(names)), None, dtype=object)
    full[:, seen] = values
    return full, names


def _called(names: Sequence[str], columns: Sequence[str], seen: Sequence[int]) -> Sequence[str]:
    """The columns' names where a table gave them, of all variables or of those that are seen."""
    if len(columns) == len(names):
        return columns
    result = list(names)
    for i, column in zip(seen, columns, strict=True):
        result[i] = column
    return result


def _all_columns(X: Any, names: Sequence[str], by_place: bool) -> tuple[Any, Sequence[Any]]:
    """by_place: whether a table may be read so, where no column of it has a variable's name."""
    labels: Sequence[Any] = names
    if isinstance(X, pd.DataFrame):
        texts = [str(c) for c in X.columns]
        if not by_place or not default_names(names) or set(texts) & set(names):
            X = in_order(X, names)
        else:
            labels = texts
            if len(set(texts)) != len(texts):
                raise InvalidInput("the table's columns must have different names")
        values = X.to_numpy()
    else:
        values = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if values.ndim != 2 or values.shape[1] != len(names):
        raise InvalidInput(
            f"X needs shape (cases, {len(names)}), one column for each variable; got {values.shape}"
            + ("" if values.ndim == 2 else ": reshape a single case to (1, n)")
        )
    return values, labels


def default_names(names: Sequence[str]) -> bool:
    """Whether variables have the names that builders give, x0 or x[0,1]: such do not say which column is which."""
    return all(re.fullmatch(r"[a-z]\d*(\[[\d,]*\])?", name) and name[1:] for name in names)


def columns_named(X: Any, names: Sequence[str], hidden: Sequence[int]) -> tuple[str, ...]:
    """The columns of a table that a field with default names meets first; none where the names need none.

    Tables that this field meets later are matched by them.
    """
    if not has_names(X) or not default_names(names):
        return ()
    labels = [str(c) for c in as_table(X).columns]
    if set(labels) & set(names):
        return ()
    return tuple(labels) if len(labels) in (len(names), len(names) - len(set(hidden))) else ()


# --- kinds of tables ------------------------------------------------------------------------------------------------


def _might_be_table(X: Any) -> bool:
    protocols = ("__arrow_c_stream__", "__arrow_c_array__", "__dataframe__", "__narwhals_dataframe__")
    if any(hasattr(X, protocol) for protocol in protocols):
        return not _is_series(X)
    return type(X).__module__.partition(".")[0] in (
        "polars",
        "modin",
        "cudf",
        "pyarrow",
        "duckdb",
        "dask",
        "ibis",
    ) and (
        hasattr(type(X), "columns")  # of a lazy one it would resolve the schema, and polars warns
    )


def _is_series(X: Any) -> bool:
    """One column: it has a type of its own, and no columns."""
    return hasattr(X, "dtype") and not hasattr(type(X), "columns")


def _frame(table: Any) -> pd.DataFrame:
    """An index that a file or a library kept with the table is no column; its numbers stay as labels of the rows."""
    if not isinstance(table, pd.DataFrame):
        raise InvalidInput(f"a table has two dimensions; got {type(table).__name__}")
    return table


def _of_array(X: Any) -> Any:
    """Of structured arrays the fields are columns; masked cells are missing."""
    if X.dtype.names is None:
        hidden = np.ma.getmaskarray(X)
        if X.dtype.kind == "f":
            return X.filled(np.nan)
        plain = np.asarray(X.data)
        return plain if not hidden.any() else _emptied(plain, hidden)
    if X.ndim > 1 and X.size != len(X):
        raise InvalidInput(f"a structured array has a record for each case, of one dimension; got shape {X.shape}")
    flat = X.reshape(-1)
    if any(flat[name].ndim > 1 for name in flat.dtype.names):
        odd = next(name for name in flat.dtype.names if flat[name].ndim > 1)
        raise InvalidInput(f"field {odd!r} of the structured array holds arrays; give each of its parts a field")
    return pd.DataFrame({name: _column(_of_array_column(flat[name])) for name in flat.dtype.names})


def _emptied(values: Any, hidden: Any) -> Any:
    result = values.astype(object)
    result[hidden] = None
    return result


def _of_array_column(values: Any) -> list[Any]:
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        return [
            None if hidden else v
            for v, hidden in zip(values.data.tolist(), np.ma.getmaskarray(values).tolist(), strict=True)
        ]
    cells: list[Any] = np.asarray(values).tolist()
    return [cell.decode() if isinstance(cell, bytes) else cell for cell in cells]


def _of_xarray(X: Any) -> Any:
    """A Dataset's variables are columns; of an array of two dimensions, the labels of the second name them."""
    if hasattr(X, "data_vars"):
        dims = {array.dims for array in X.data_vars.values()}
        if len(dims) != 1 or len(next(iter(dims))) != 1:
            raise InvalidInput(
                "an xarray.Dataset is read as a table where each of its variables has one dimension, the cases; these "
                f"have {sorted(map(str, dims))}. Give an array of it"
            )
        return pd.DataFrame({str(name): _column(X[name].to_numpy().tolist()) for name in X.data_vars})
    if X.ndim != 2 or X.dims[1] not in X.coords:
        return X.to_numpy()
    labels = X.coords[X.dims[1]].to_numpy().tolist()
    named = any(isinstance(label, str) for label in labels)
    return pd.DataFrame(X.to_numpy(), columns=labels) if named else X.to_numpy()


def _of_narwhals(frame: Any) -> pd.DataFrame:
    """Column by column: polars' own way to pandas needs pyarrow, and makes other types of columns with holes."""
    if frame.implementation.is_pandas_like():
        return _frame(frame.to_pandas())
    return pd.DataFrame({name: _of_series(frame[name]) for name in frame.columns})


def _of_series(column: Any) -> Any:
    import narwhals.stable.v1 as nw

    kind: Any = column.dtype
    if kind.is_numeric() and not column.null_count():
        return column.to_numpy()
    cells = column.to_list()
    if kind == nw.Enum:  # the one kind of polars' that has an order
        return pd.Categorical(cells, categories=list(column.cat.get_categories().to_list()), ordered=True)
    return _column(cells)


def _column(cells: list[Any]) -> Any:
    """Cells as pandas would have read them: numbers as numbers, holes among them as NaN."""
    column = pd.Series(cells) if len(cells) else pd.Series(cells, dtype=object)
    whole = [cell for cell in cells if isinstance(cell, int)] if column.dtype.kind == "f" else []
    if any(abs(cell) > _EXACT for cell in whole):
        return pd.Series(cells, dtype=object).array  # a double would not tell them apart
    return column.array


def _of_stream(X: Any) -> Any:
    """What only hands its columns out (Arrow's protocol): pyarrow reads it."""
    if not hasattr(X, "__arrow_c_stream__") and not hasattr(X, "__arrow_c_array__"):
        return X
    try:
        import pyarrow
    except ImportError:
        raise InvalidInput(
            f"a table of the kind {type(X).__module__}.{type(X).__qualname__} is read by pyarrow: pip install pyarrow, "
            "or give its to_pandas()"
        ) from None
    return _frame(pyarrow.table(X).to_pandas())


def _cells(column: Any) -> list[Any]:
    cells = column.tolist()
    return [None if cell is pd.NA or cell is None or cell != cell else cell for cell in cells]


def _missing(what: str, names: list[str], labels: list[str]) -> str:
    absent = [name for name in names if name not in labels]
    odd = [label for label in labels if label not in names]
    text = f"{what} has no column{'s' if len(absent) > 1 else ''} {_listed(absent)}"
    text += f"; it has {_listed(odd)} besides" if odd and len(absent) < len(names) else ""
    if len(absent) == len(names):
        text = f"none of {what}'s columns, {_listed(labels)}, is one of {_listed(names)}"
    return f"{text}. Columns are matched by name: rename them, or give an array to have them read by position"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")
