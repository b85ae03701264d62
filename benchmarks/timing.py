"""One core, a warm-up, the best of several runs; and the record that every benchmark returns."""

import importlib.util
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what limits the threads of numpy's libraries must be set before it is imported
    import numpy as np

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Report:
    """A table. Cells: numbers, text, True/False for a target met or missed, None for what was not run."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": list(self.notes)}


@dataclass
class Watch:
    """What one table may spend, and whether peers run. ``seconds``: budget of each timing. ``only``: part of the titles
    of tables that are wanted, of benchmarks that can do with some."""

    peers: bool = False
    quick: bool = False
    seconds: float = 1.5
    tell: Callable[[str], None] = field(default=lambda _: None)
    only: str = ""

    def wants(self, title: str) -> bool:
        return self.only.lower() in title.lower()


def use_one_core() -> None:
    """Keep every library of this process to one core. To be called before numpy and jax are imported."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # XLA tells of slow compilations
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {_idlest_core()})


def _idlest_core() -> int:
    """Of the cores we may use the one that idles most; a look of half a second."""
    first = _idle_ticks()
    time.sleep(0.5)
    second = _idle_ticks()
    return max(sorted(os.sched_getaffinity(0)), key=lambda core: second.get(core, 0) - first.get(core, 0))


def _idle_ticks() -> dict[int, int]:
    lines = Path("/proc/stat").read_text().splitlines()
    cores = [line[3:].split() for line in lines if re.match(r"cpu\d", line)]
    return {int(core[0]): int(core[4]) for core in cores}


def best(call: Callable[[], object], seconds: float, warm_up: bool = True, cores: int = 1) -> float:
    """Seconds of the fastest run within the budget. Peers are warm by the time their answer has been checked.

    On one core it is processor time: what the clock shows, less what others took of that core. On several, the clock.
    """
    clock = time.process_time if cores == 1 else time.perf_counter
    if warm_up:
        call()
    times = [_once(call, clock)]
    while sum(times) < seconds:
        times.append(_once(call, clock))
    return min(times)


class Others:
    """How much other processes worked since this was made: they slow us down even from another core."""

    def __init__(self) -> None:
        self._begun = self._now()

    def __str__(self) -> str:
        wall, busy = (now - then for now, then in zip(self._now(), self._begun, strict=True))
        return f"meanwhile other processes kept {max(busy, 0.0) / max(wall, 1e-9):.2f} cores busy"

    @staticmethod
    def _now() -> tuple[float, float]:
        """Seconds on the clock, and of work by others on all cores (0 where the system does not tell)."""
        stat = Path("/proc/stat")
        if not stat.exists():
            return time.perf_counter(), 0.0
        user, nice, system = (int(t) for t in stat.read_text().split(None, 5)[1:4])
        own = os.times()
        return time.perf_counter(), (user + nice + system) / os.sysconf("SC_CLK_TCK") - sum(own[:4])


def _once(call: Callable[[], object], clock: Callable[[], float]) -> float:
    begun = clock()
    call()
    return clock() - begun


@contextmanager
def several_cores(count: int) -> Iterator[None]:
    """Within it, we may use so many."""
    from bayesfield import parallel

    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before if count == 1 else set(range(os.cpu_count() or 1)))
    parallel.limit(count)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
        parallel.limit(1)


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def require_same(peer: str, ours: "np.ndarray", theirs: "np.ndarray", tolerance: float) -> None:
    """Refuse to compare speeds of different answers."""
    gap = float(abs(ours - theirs).max())
    if not gap <= tolerance:
        raise RuntimeError(f"{peer} gives marginals that differ from ours by {gap:.2g}, above {tolerance:.0e}")


def text_of(cell: Cell) -> str:
    """As people read it."""
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def ratio(theirs: float | None, ours: float) -> float | None:
    return None if theirs is None else theirs / ours


def fitted_exponent(sizes: list[float], seconds: list[float]) -> float:
    """p of seconds ∝ size^p, by least squares of the logs."""
    x, y = [log(s) for s in sizes], [log(t) for t in seconds]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - mean_x) ** 2 for a in x)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread


def exponents(sizes: list[float], seconds: list[float]) -> list[float | None]:
    """Exponent of seconds ∝ size^p between each row and the one before."""
    pairs = zip(sizes[:-1], sizes[1:], seconds[:-1], seconds[1:], strict=True)
    return [None, *(log(t / s) / log(b / a) for a, b, s, t in pairs)]
