"""How a command ends: in plain words whatever happens, and with an exit code that tells which."""

import os
import sys
import traceback
import warnings
from typing import Any

from rich.markup import escape

import bayesfield as bf
from bayesfield.cli.app import INTERRUPTED, REFUSED, app, leave_stdout, note, notes
from bayesfield.memory import too_large

_TRACE = "BAYESFIELD_TRACE"  # in the environment: show where an error arose


def main() -> None:
    """The entry point: errors in plain words, no stack trace."""
    _speakable()
    try:
        app()
    except SystemExit as end:
        if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt):  # typer ends without a word
            note("interrupted")
        raise
    except KeyboardInterrupt:
        note("interrupted")
        sys.exit(INTERRUPTED)
    except Exception as error:
        if isinstance(error, OSError):
            leave_stdout()  # as for bayesfield --help > /dev/full
        if os.environ.get(_TRACE):
            notes.print(escape(traceback.format_exc()), highlight=False, soft_wrap=True)
        notes.print(f"[bold red]error:[/] {escape(in_words(error))}", highlight=False, soft_wrap=True)
        sys.exit(REFUSED)


def in_words(error: Exception) -> str:
    """What a user can do about it."""
    if isinstance(error, bf.BayesfieldError):
        return str(error)
    if isinstance(error, MemoryError):
        return str(too_large(error, "this"))
    if isinstance(error, RecursionError):
        return f"what was given is nested too deeply to be followed; {_TRACE}=1 shows where"
    if isinstance(error, OSError):
        where = f" {error.filename}" if error.filename else ""
        return f"cannot read or write{where}: {error.strerror or error}"
    if isinstance(error, UnicodeEncodeError):
        return f"the text {error.object[error.start : error.end]!a} cannot be written as {error.encoding}; recode it"
    said = " ".join(str(error).split()) or "no more is known"
    return (
        f"{said} ({type(error).__name__}). This is a bug of bayesfield: please report it, with what you did; "
        f"{_TRACE}=1 shows where."
    )


def _speakable() -> None:
    """Streams that take every character, a stdout that is there, and warnings in a line like everything else."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if sys.stdout is None:  # >&-: the first file that is opened would take its place
        note("error: stdout is closed; direct it to a file, or to /dev/null")
        sys.exit(REFUSED)
    warnings.showwarning = _warned


def _warned(message: Warning | str, *_: Any, **__: Any) -> None:
    note(f"warning: {message}")
