"""How much memory a job may take; asked before anything is allocated."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bayesfield.types import Cost, TooLarge

_GLANCE = 0.003  # seconds between looks at the memory
_TRIFLE = 2**20  # bytes that are not asked for: a look at what is free takes longer than to fill them
_UNLIMITED = 2**60  # groups of version 1 write a number near 2^63 for no limit
_SHARE = 0.7  # of what is free: the rest is for the caller, the operating system and temporaries


def available_bytes() -> int:
    """Memory that can be had now without swapping: of the machine, of the control groups that this process is in (as
    containers and batch systems limit it), of its own limits (``ulimit``)."""
    return min(_of_machine(), _of_groups(), _of_process())


def _of_machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:  # not Linux
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


# --- limits -------------------------------------------------------------------------------------------------------


class _Files(NamedTuple):
    """What a version of control groups calls the limits, the use, and the part of it that files on disk could give."""

    limits: tuple[str, ...]
    use: str
    cached: str


# memory.high is no hard limit, but a process above it is slowed down until it hardly moves
_GROUPS_2 = _Files(("memory.max", "memory.high"), "memory.current", "inactive_file")
_GROUPS_1 = _Files(("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file")


def _of_groups(root: Path = Path("/")) -> int:
    """The least that any control group above this process has left. root: of the file system, for tests."""
    free = _UNLIMITED
    for folder, top, files in _groups(root):
        while True:
            free = min(free, _left_in(folder, files))
            if folder == top or top not in folder.parents:
                break
            folder = folder.parent
    return free


def _groups(root: Path) -> Iterator[tuple[Path, Path, _Files]]:
    """The folders of this process' groups that limit memory, each with where its hierarchy is mounted. A container
    often sees its group as the top of the hierarchy, whatever its path is outside."""
    for line in _lines(root / "proc/self/cgroup"):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            tops, files = [root / "sys/fs/cgroup", root / "sys/fs/cgroup/unified"], _GROUPS_2
        elif "memory" in controllers.split(","):
            tops, files = [root / "sys/fs/cgroup/memory"], _GROUPS_1
        else:
            continue
        for top in tops:
            inner = top / path.lstrip("/")
            yield (inner if ".." not in inner.parts and inner.is_dir() else top), top, files


def _left_in(folder: Path, files: _Files) -> int:
    limits = [_number(line) for name in files.limits for line in _lines(folder / name)[:1]]
    limit = min(limits, default=_UNLIMITED)
    if limit >= _UNLIMITED:
        return _UNLIMITED
    use = _number(next(iter(_lines(folder / files.use)), "0"))
    stat = dict(line.split(" ", 1) for line in _lines(folder / "memory.stat") if " " in line)
    return max(limit - max(use - _number(stat.get(files.cached, "0")), 0), 0)


def _of_process() -> int:
    """What ulimit leaves: of the address space (-v) and of the data (-d)."""
    try:
        import resource  # Windows has none
    except ImportError:
        return _UNLIMITED
    held = dict(line.split(":", 1) for line in _lines(Path("/proc/self/status")) if ":" in line)
    free = _UNLIMITED
    for which, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        limit = resource.getrlimit(which)[0]
        if limit != resource.RLIM_INFINITY:
            use = 1024 * int(held.get(name, "0 kB").split()[0])
            free = min(free, max(limit - use, 0))
    return free


def _number(text: str) -> int:
    """Of a line such as "900000000" or "max"."""
    return int(text) if text.strip().isdigit() else _UNLIMITED


def _lines(path: Path) -> list[str]:
    """None where there is no such file, or it may not be read."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


# --- what may be taken --------------------------------------------------------------------------------------------


def held_bytes() -> int:
    """Memory that this process holds now; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def usable_bytes() -> int:
    """The part of it that one job may take."""
    return int(_SHARE * available_bytes())


def require(needed: Cost, what: str, advice: str, share: float = _SHARE) -> None:
    """Refuse a job that cannot fit, with the sizes and the alternative. share: of what is free, that it may take."""
    if needed.bytes <= _TRIFLE:
        return
    usable = int(share * available_bytes())
    if needed.bytes > usable:
        size = f", about {needed.bytes / 2**30:.3g} GiB" if needed.bytes < float("inf") else ""
        raise TooLarge(f"{what} needs {needed.detail}{size}, and {usable / 2**30:.3g} GiB may be used here. {advice}")


def too_large(error: MemoryError, what: str) -> TooLarge:
    """What a user reads of an allocation that failed although nobody refused it."""
    said = str(error).rstrip(".") or "an allocation failed"
    free = available_bytes() / 2**30
    return TooLarge(
        f"{what} needs more memory than there is: {said[0].lower()}{said[1:]}; {free:.3g} GiB are free here (of the "
        "machine, its control groups and ulimit). Take fewer states, variables, cases, chains or draws at a time, an "
        "engine that needs less (bf.preview tells what a fit takes), or a larger machine"
    )


class Peak:
    """The most memory that the process held within it, beyond what it had when it began; 0 where no one tells."""

    def __enter__(self) -> Peak:
        self._begun = self._most = held_bytes()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._over.wait(_GLANCE):
            self._most = max(self._most, held_bytes())

    @property
    def bytes(self) -> float:
        return float(max(self._most, held_bytes()) - self._begun)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
