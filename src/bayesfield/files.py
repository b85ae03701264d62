"""Reading and writing files so that failure is plain and nothing is left half-written."""

import gzip
import io
import os
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from bayesfield.types import InvalidInput

_CHUNK = 1 << 20  # bytes read at a time


def read_text(path: str | Path) -> str:
    """The text of a file; says in plain words why it cannot be had."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidInput(f"cannot read {path}: {reason}") from None


def read_bytes(path: str | Path, most: int) -> bytes:
    """The bytes of a file, unpacked where it is a gzip file; refused when they are more than ``most``."""
    try:
        with open(path, "rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            content = _at_most(gzip.GzipFile(fileobj=raw) if packed else raw, most)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it was packed by gzip, and cut short or changed"
        raise InvalidInput(f"cannot read {path}: {reason}") from None
    if content is None:
        raise InvalidInput(f"cannot read {path}: it holds more than {most:,} bytes{' once unpacked' if packed else ''}")
    return content


def _at_most(stream: Any, most: int) -> bytes | None:
    """What a stream holds; None where that is more than ``most`` bytes."""
    found = bytearray()
    while some := stream.read(min(_CHUNK, most + 1 - len(found))):
        found += some
        if len(found) > most:
            return None
    return bytes(found)


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
