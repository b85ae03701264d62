"""A run's folder: finished cells are kept, so that an interrupted run goes on where it was; and what the run was."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

import bayesfield
from bayesfield.files import read_text
from bayesfield.outputs import as_one, remove, settle, write_npz, write_text
from bayesfield.types import FloatArray, InvalidInput

_UNFINISHED = "unfinished"
_PACKAGES = ("numpy", "scipy", "numba", "pandas", "nutpie", "matplotlib")


@dataclass(frozen=True)
class Store:
    """folder/cells/*.json: one file for a case and a method, written whole when it is finished.

    Each says which code made it, so that a table of several versions, which a resumed run may be, is known as one.
    """

    folder: Path

    @property
    def cells(self) -> Path:
        return self.folder / "cells"

    def open(self, settings: dict[str, Any]) -> None:
        """Begin, or go on with, a run of these settings. Refuses a folder that holds another run."""
        try:
            self.cells.mkdir(parents=True, exist_ok=True)
            (self.folder / _UNFINISHED).mkdir(exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"cannot write to {self.folder}: {error.strerror}") from None
        manifest = self.folder / "manifest.json"
        if manifest.exists():
            found = json.loads(read_text(manifest)).get("settings")
            if found != json.loads(json.dumps(settings)):
                raise InvalidInput(
                    f"{self.folder} holds a run with other settings ({found}): take another --out, or delete it"
                )
            return
        self._write_manifest(settings, {})

    def makers(self, cells: list[str]) -> dict[str, int]:
        """How many cells were made by which version of the code."""
        return dict(Counter(self._content(name)["made_by"] for name in cells))

    def close(self, settings: dict[str, Any], makers: dict[str, int]) -> None:
        """The manifest of a run that is finished."""
        self._write_manifest(settings, makers)

    def has(self, cell: str) -> bool:
        """Whether it is there, and whole."""
        try:
            return bool(self._content(cell)["rows"])
        except (ValueError, KeyError, TypeError):  # it is not there, or cut short
            return False

    def count(self, cells: list[str]) -> int:
        """How many of these are there."""
        return sum(self._path(cell).exists() for cell in cells)

    def put(self, cell: str, rows: list[dict[str, Any]], arrays: dict[str, FloatArray] | None = None) -> None:
        with as_one():
            if arrays:
                write_npz(self._path(cell).with_suffix(".npz"), **arrays)
            write_text(self._path(cell), json.dumps({"made_by": made_by(), "rows": rows}))

    def keep(self, name: str, **arrays: Any) -> None:
        """For those of this run that come later, until it is released."""
        write_npz(self._long(name), **{key: np.asarray(value) for key, value in arrays.items()})

    def kept(self, name: str) -> dict[str, Any]:
        """What was kept, if this version of the code did and it is whole; else nothing."""
        settle(self._long(name))
        try:
            with np.load(self._long(name), allow_pickle=False) as file:
                return {key: file[key] for key in file.files}
        except (OSError, ValueError, EOFError, BadZipFile):
            return {}

    def release(self, name: str) -> None:
        remove(self._long(name))

    def adopt(self, other: Store, cells: list[str]) -> int:
        """Finished cells of another run, which this one would make alike, instead of making them again. How many."""
        taken = [name for name in cells if not self.has(name) and other.has(name)]
        for name in taken:
            content = other._content(name)
            with as_one():
                if arrays := other.arrays(name):
                    write_npz(self._path(name).with_suffix(".npz"), **arrays)
                write_text(self._path(name), json.dumps(content))
        return len(taken)

    def rows(self, cell: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._content(cell)["rows"]
        return found

    def arrays(self, cell: str) -> dict[str, Any]:
        path = self._path(cell).with_suffix(".npz")
        settle(path)
        if not path.exists():
            return {}
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}

    def _content(self, cell: str) -> dict[str, Any]:
        content = json.loads(read_text(self._path(cell)))
        return content if isinstance(content, dict) else {"made_by": "unknown", "rows": content}

    def _long(self, name: str) -> Path:
        """The version is part of the name: another's draws would be other draws."""
        version = made_by().rpartition("+")[2]
        return self.folder / _UNFINISHED / (re.sub(r"[^A-Za-z0-9.-]+", "-", f"{name}-{version}") + ".npz")

    def _path(self, cell: str) -> Path:
        return self.cells / (re.sub(r"[^A-Za-z0-9.-]+", "-", cell) + ".json")

    def _write_manifest(self, settings: dict[str, Any], makers: dict[str, int]) -> None:
        content = {
            "settings": settings,
            "finished": bool(makers),
            "bayesfield": bayesfield.__version__,
            "python": platform.python_version(),
            "packages": {name: _version(name) for name in _PACKAGES},
            "cells_made_by": makers,
        }
        write_text(self.folder / "manifest.json", json.dumps(content, indent=2) + "\n")


@cache
def made_by() -> str:
    """The library's version, with a fingerprint of its sources: methods change between releases, too."""
    root = Path(bayesfield.__file__).parent
    sources = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        sources.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return f"{bayesfield.__version__}+{sources.hexdigest()[:12]}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
