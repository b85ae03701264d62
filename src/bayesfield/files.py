"""Reading and writing files so that failure is plain and nothing is left half-written."""

import io
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bayesfield.types import InvalidInput


def read_text(path: str | Path) -> str:
    """The text of a file; says in plain words why it cannot be had."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidInput(f"cannot read {path}: {reason}") from None


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a whole file or nothing: under another name first, then renamed."""
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}") from None
    finally:
        Path(name).unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    write_bytes(path, text.encode("utf-8"))


def write_npz(path: str | Path, **arrays: Any) -> None:
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)
    write_bytes(path, packed.getvalue())
