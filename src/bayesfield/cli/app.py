"""The command itself and how it speaks. Results go to stdout or to files, everything else to stderr."""

import json
import os
import sys
from contextlib import suppress
from typing import Annotated, Any

import pandas as pd
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import bayesfield as bf
from bayesfield.types import InvalidInput

REFUSED, NOT_CONVERGED, POOR, INTERRUPTED = 1, 3, 4, 130

app = typer.Typer(
    name="bayesfield",
    help="Bayesian learning of discrete random fields.",
    epilog="Exit codes: 0 done, 1 refused (bad input, too large), 2 wrong usage, 3 done but not converged, "
    "4 done but the posterior is poor, 130 interrupted. "
    "bayesfield --install-completion teaches your shell the commands.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
notes = Console(stderr=True)
Json = Annotated[bool, typer.Option("--json", help="Write the result to stdout as JSON, for programs.")]


def _version(asked: bool) -> None:
    if asked:
        _write(f"bayesfield {bf.__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    pass


def note(text: object) -> None:
    """A line on stderr."""
    notes.print(escape(str(text)), highlight=False, soft_wrap=True)


def show(payload: Any, table: Table | str | None, as_json: bool) -> None:
    """The result on stdout: for programs, or for people."""
    if as_json:
        narrow = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "") != "utf8"
        _write(json.dumps(plain(payload), ensure_ascii=narrow, allow_nan=False) + "\n")
    elif isinstance(table, str):
        _write(table if table.endswith("\n") else table + "\n")
    elif table is not None:
        screen = Console()
        with screen.capture() as drawn:
            screen.print(table)
        _write(drawn.get())


def _write(text: str) -> None:
    """To stdout, now: what is left in its buffer would fail after the last chance to say so."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read stdout has read enough
        leave_stdout()
    except OSError as error:
        leave_stdout()
        raise InvalidInput(f"cannot write the result to stdout: {error.strerror}") from None


def leave_stdout() -> None:
    """Let its buffer go nowhere: the interpreter flushes it once more as it ends, and would show a stack trace."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def plain(value: Any) -> Any:
    """Numbers, text, lists and dicts only; what is not finite becomes null, for JSON has no NaN."""
    if isinstance(value, pd.DataFrame):
        return [plain(row) for row in value.to_dict(orient="records")]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def text_table(rows: pd.DataFrame, index: bool = True, **options: Any) -> Table:
    """A frame as text, its index first."""
    shown = Table(title=rows.attrs.get("title"), **options)
    if index:
        shown.add_column(str(rows.index.name or ""))
    for column in rows.columns:
        shown.add_column(str(column), justify="right")
    for name, row in rows.iterrows():
        cells = ("" if pd.isna(v) else f"{v:.3f}" if isinstance(v, float) else escape(str(v)) for v in row)
        shown.add_row(*((escape(str(name)),) if index else ()), *cells)
    return shown
