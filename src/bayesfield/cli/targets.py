"""What a command will write to, looked at before the work and not after it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bayesfield.formats.frames import WRITTEN, is_table
from bayesfield.formats.tables import open_folder
from bayesfield.types import InvalidInput


def refuse_file(path: Path | None) -> None:
    """Refuse a file that could not be written."""
    if path is None:
        return
    if path.is_dir():
        raise InvalidInput(f"cannot write {path}: it is a folder; give the name of a file in it")
    if path.exists() and not path.is_file():
        raise InvalidInput(f"cannot write {path}: it is a device or pipe, and no file; stdout can be directed there")
    if not path.parent.is_dir():
        raise InvalidInput(f"cannot write {path}: there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InvalidInput(f"cannot write {path}: the folder {path.parent} may not be written to")


def refuse_table(path: Path | None) -> None:
    """Refuse a file that could not be written, or has the ending of no table."""
    if path is not None and not is_table(path, WRITTEN):
        raise InvalidInput(f"a table is a file that ends in {', '.join(WRITTEN)}; got {str(path)!r}")
    refuse_file(path)


@contextmanager
def folder(path: Path) -> Iterator[None]:
    """A folder to write to, made now; what was made is taken away again where the work within fails."""
    made = [p for p in (path, *path.parents) if not p.exists()]
    open_folder(path)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # the first that is not empty, and those above it, stay
            for p in made:
                p.rmdir()
        raise
