"""How much memory a job may take; asked before anything is allocated."""

import os
from pathlib import Path

from bayesfield.types import Cost, TooLarge

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


def usable_bytes() -> int:
    """The part of it that one job may take."""
    return int(_SHARE * available_bytes())


def require(needed: Cost, what: str, advice: str, share: float = _SHARE) -> None:
    """Refuse a job that cannot fit, with the sizes and the alternative. share: of what is free, that it may take."""
    usable = int(share * available_bytes())
    if needed.bytes > usable:
        size = f", about {needed.bytes / 2**30:.3g} GiB" if needed.bytes < float("inf") else ""
        raise TooLarge(f"{what} needs {needed.detail}{size}, and {usable / 2**30:.3g} GiB may be used here. {advice}")
