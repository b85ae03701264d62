"""While a command works: what it does and for how long, on stderr; and what Ctrl-C leaves behind."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from bayesfield.cli.app import INTERRUPTED, note, notes

_EVERY = 15.0  # seconds between two lines where stderr is no terminal
_PACE = 3600.0  # seconds that the pace is taken from: the parts of a study take minutes each
NOTHING = "nothing was written"


@contextmanager
def doing(what: str, kept: str = NOTHING) -> Iterator[Callable[[str], None]]:
    """What is done, and for how long; yields what changes the words. kept: said when interrupted."""
    words = TextColumn("{task.description}", markup=False)
    with _shown((SpinnerColumn("line"), words, TimeElapsedColumn()), what, kept, passing=True) as (bar, task):
        yield lambda text: bar.update(task, description=text)


@contextmanager
def progress(what: str, kept: str = NOTHING) -> Iterator[Callable[[int, int], None]]:
    """A bar with the time that is left; yields what sets it to (done, total). kept: said when interrupted."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with _shown(columns, what, kept) as (bar, task):
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def _shown(
    columns: tuple[ProgressColumn, ...], what: str, kept: str, passing: bool = False
) -> Iterator[tuple[Progress, Any]]:
    """On a terminal, live; elsewhere, as for logs, a plain line now and then."""
    live = notes.is_terminal
    over = threading.Event()
    with Progress(*columns, console=notes, transient=passing, disable=not live, speed_estimate_period=_PACE) as bar:
        task = bar.add_task(what, total=None)
        if not live:
            threading.Thread(target=_lines, args=(bar, over), daemon=True).start()
        try:
            yield bar, task
        except KeyboardInterrupt:
            bar.stop()
            note(f"interrupted; {kept}")
            raise typer.Exit(INTERRUPTED) from None
        finally:
            over.set()


def _lines(bar: Progress, over: threading.Event) -> None:
    """From a thread of its own, for the work may be one long call."""
    while not over.wait(_EVERY):
        note(_line(bar.tasks[0]))


def _line(task: Task) -> str:
    """``fitting: 3 of 8, 40 s so far, about 70 s left``."""
    parts = [f"{task.elapsed or 0.0:.0f} s so far"]
    if task.total is not None:
        parts.insert(0, f"{task.completed:.0f} of {task.total:.0f}")
        if task.time_remaining is not None:
            parts.append(f"about {task.time_remaining:.0f} s left")
    return f"{task.description.removesuffix(' …')}: {', '.join(parts)}"
