"""What a person sees while a fit runs: the plan where it is long, and its steps."""

from __future__ import annotations

import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from bayesfield.learning.search.optimum import Iteration, Progress, Watch

if TYPE_CHECKING:
    from bayesfield.fitting.planning.request import Request
    from bayesfield.posterior.record import Plan

PATIENCE = 1800.0  # seconds from which a fit that nobody watches says how long it will take
LONG = 10.0  # seconds of counted work from which a fit shows itself unasked, where somebody looks


@contextmanager
def shown(plan: Plan, request: Request) -> Iterator[Progress]:
    """Steps go to the user's ``watch``, and to the screen: always with verbose=True, else where somebody looks, at a
    terminal or a notebook."""
    if not request.verbose and not _notebook() and (sys.stderr is None or not sys.stderr.isatty()):
        if plan.total > PATIENCE and request.watch is None and request.time_limit is None:
            warnings.warn(
                f"{_first(plan)}, about {plan.total / 3600:.2g} hours. Fewer edges, tied parameters or "
                'method="pseudo_likelihood" take less; time_limit= ends it, verbose=True shows its steps, and '
                "bf.preview the whole plan",
                UserWarning,
                stacklevel=2,
            )
        yield Progress(request.watch, request.time_limit)
        return
    with _screen(plan) as watch:
        progress = Progress(_both(watch, request.watch), request.time_limit)
        with _interruptible(progress):
            yield progress


@contextmanager
def _interruptible(progress: Progress) -> Iterator[None]:
    """The first Ctrl-C ends the fit with the best so far, and the second at once."""
    if threading.current_thread() is not threading.main_thread():  # where signals are not heard
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def first(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, before or signal.default_int_handler)
        progress.end()
        print("fit: interrupted; it ends with the best so far. Interrupt again to end it at once", file=sys.stderr)

    signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.default_int_handler)


@contextmanager
def _screen(plan: Plan) -> Iterator[Watch]:
    """A line that changes on terminals and in notebooks; lines one after the other elsewhere."""
    if not _notebook() and not sys.stderr.isatty():
        yield _lines(plan)
        return
    from rich.console import Console

    console = Console(stderr=True)
    console.print(_first(plan), highlight=False, soft_wrap=True)
    begun = time.monotonic()
    with console.status("begins …") as status:
        yield lambda step: status.update(_said(step, begun, plan.total))


def _lines(plan: Plan) -> Watch:
    print(_first(plan), file=sys.stderr)
    begun = time.monotonic()
    return lambda step: print(f"fit: {_said(step, begun, plan.total)}", file=sys.stderr)


def _first(plan: Plan) -> str:
    return (
        f"fit: {plan.engine}, {plan.method}, {plan.form} precision, correction {plan.corrections[0]}: about "
        f"{plan.total:.2g} s of counted work"
    )


def _said(step: Iteration, begun: float, counted: float) -> str:
    """counted: seconds that the plan has for all of it."""
    stage = "correction" if np.isnan(step.value) and np.isnan(step.gradient) else "search"
    spent = time.monotonic() - begun
    left = f"about {counted - spent:.0f} s left" if spent < counted else "longer than was counted"
    return f"{stage}, step {step.number}: {step.distance:.2g} sd away, {spent:.0f} s, {left}"


def _both(first: Watch, second: Watch | None) -> Watch:
    if second is None:
        return first

    def watch(step: Iteration) -> None:
        first(step)
        second(step)

    return watch


def _notebook() -> bool:
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return type(running).__name__ == "ZMQInteractiveShell"
