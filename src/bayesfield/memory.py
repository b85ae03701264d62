"""How much memory a job may take; asked before anything is allocated."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from bayesfield.types import Cost, TooLarge

_GLANCE = 0.003  # seconds between looks at the memory
_TRIFLE = 2**20  # bytes that are not asked for: a look at what is free takes longer than to fill them
_SHARE = 0.7  # of what is free: the rest is for the caller, the operating system and temporaries


def available_bytes() -> int:
    """Memory that can be had now without swapping."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


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
