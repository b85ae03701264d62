"""A run's folder: finished cells are kept, so that an interrupted run goes on where it was; and what the run was."""

import json
import platform
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import bayesfield
from bayesfield.files import read_text, write_npz, write_text
from bayesfield.types import FloatArray, InvalidInput

_PACKAGES = ("numpy", "scipy", "numba", "pandas", "nutpie", "matplotlib")


@dataclass(frozen=True)
class Store:
    """folder/cells/*.json: one file for a case and a method, written whole when it is finished."""

    folder: Path

    @property
    def cells(self) -> Path:
        return self.folder / "cells"

    def open(self, settings: dict[str, Any]) -> None:
        """Begin, or go on with, a run of these settings. Refuses a folder that holds another run."""
        try:
            self.cells.mkdir(parents=True, exist_ok=True)
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
        self._write_manifest(settings, finished=False)

    def close(self, settings: dict[str, Any]) -> None:
        self._write_manifest(settings, finished=True)

    def has(self, cell: str) -> bool:
        return self._path(cell).exists()

    def count(self) -> int:
        return sum(1 for _ in self.cells.glob("*.json"))

    def put(self, cell: str, rows: list[dict[str, Any]], arrays: dict[str, FloatArray] | None = None) -> None:
        if arrays:
            write_npz(self._path(cell).with_suffix(".npz"), **arrays)
        write_text(self._path(cell), json.dumps(rows))

    def rows(self, cell: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(read_text(self._path(cell)))
        return found

    def arrays(self, cell: str) -> dict[str, Any]:
        path = self._path(cell).with_suffix(".npz")
        if not path.exists():
            return {}
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}

    def _path(self, cell: str) -> Path:
        return self.cells / (re.sub(r"[^A-Za-z0-9.-]+", "-", cell) + ".json")

    def _write_manifest(self, settings: dict[str, Any], finished: bool) -> None:
        content = {
            "settings": settings,
            "finished": finished,
            "bayesfield": bayesfield.__version__,
            "python": platform.python_version(),
            "packages": {name: _version(name) for name in _PACKAGES},
        }
        write_text(self.folder / "manifest.json", json.dumps(content, indent=2) + "\n")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
