"""Files and folders on the disk: written and flushed (fsync), locked, deleted."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bayesfield.types import InvalidInput

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def write_flushed(path: str, content: bytes, mode: int | None) -> None:
    """A new file, on the disk when this returns. mode: of the file that it will replace."""
    handle = os.open(path, _NEW, 0o666)  # less what the umask forbids
    try:
        write_all(handle, content)
        if mode is not None:
            os.chmod(path, stat.S_IMODE(mode))
        os.fsync(handle)
    finally:
        os.close(handle)


def write_all(handle: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest[: 1 << 30]) :]


def mode_of(path: str | Path) -> int | None:
    """Of what stands there, at the end of all links; None where nothing does."""
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {reason_of(error)}") from None


def unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def flush_folder(folder: str) -> None:
    """Renames and deletions in it are on the disk when this returns; Windows keeps them without."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(folder: str) -> Iterator[None]:
    handle = lock_folder(folder)
    try:
        yield
    finally:
        if handle >= 0:
            os.close(handle)


def lock_folder(folder: str) -> int:
    """A handle that holds the folder's lock until it is closed, or −1 where the system has no such locks: then two
    commands must not write to one folder at the same time."""
    if os.name == "nt":
        return -1
    import fcntl  # Windows has none

    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:  # network file systems
        os.close(handle)
        return -1
    except BaseException:
        os.close(handle)
        raise
    return handle


def reason_of(error: OSError) -> str:
    return error.strerror or str(error)
