"""The installation: ``warmup`` compiles what first uses would, ``doctor`` says what is here and whether it works."""

from __future__ import annotations

import importlib
import os
import platform
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import typer

import bayesfield as bf
from bayesfield import memory, parallel
from bayesfield.cli.app import Json, app, note, show
from bayesfield.cli.waiting import progress
from bayesfield.kernels import jit

_NEEDED = ("numpy", "scipy", "numba", "pandas", "scikit-learn", "narwhals", "networkx", "matplotlib")
_EXTRAS = {
    "files": ("openpyxl", "pyreadstat", "rdata"),
    "tables": ("pyarrow",),
    "samplers": ("nutpie", "arviz"),
    "cluster": ("distributed",),
}
_AGREE = 1e-9  # how far two exact computations may be apart


@app.command()
def warmup(as_json: Json = False) -> None:
    """Compile what the first fits of common models would compile: some two minutes, once after installation.

    Example: bayesfield warmup
    """
    spent, begun = {}, time.perf_counter()
    with progress("compiling", "what is compiled is kept") as tell, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k, (name, call) in enumerate(_FIRST.items()):
            tell(k, len(_FIRST))
            with jit.compiling() as seconds:
                call()
            spent[name] = round(sum(seconds), 2)
        tell(len(_FIRST), len(_FIRST))
    note(f"all is compiled and kept, in {time.perf_counter() - begun:.0f} s")
    show({"seconds": spent}, "\n".join(f"{name:<28}{s:7.1f} s" for name, s in spent.items()), as_json)


@app.command()
def doctor(as_json: Json = False) -> None:
    """What is installed and how much the machine allows; and a self-test of two seconds, once kernels are compiled.

    Example: bayesfield doctor
    """
    found = {
        "bayesfield": bf.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {platform.system()} {platform.release()}",
        "packages": {name: _version(name) for name in _NEEDED},
        "extras": {extra: {name: _version(name) for name in names} for extra, names in _EXTRAS.items()},
        "cores": parallel.cores(),
        "memory GiB": round(memory.usable_bytes() / 2**30, 1),
        "cache": _cache(),
        "self-test": _self_test(),
    }
    show(found, "\n".join(_lines(found)), as_json)
    if not found["self-test"]["passed"]:  # type: ignore[index]
        raise typer.Exit(1)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cache() -> dict[str, Any]:
    """Where compiled kernels are kept, and whether they can be."""
    passes = importlib.import_module("bayesfield.kernels.trees.passes")
    folder = getattr(passes.collect._cache, "_cache_path", None)
    if folder is None:
        return {"folder": None, "writable": False, "MB": 0.0}
    root = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(jit.__file__).parent)
    kept = sum(path.stat().st_size for path in root.rglob("*.bfc"))
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            writable = True
    except OSError:
        writable = False
    return {"folder": str(root), "writable": writable, "MB": round(kept / 1e6, 1)}


def _self_test() -> dict[str, Any]:
    """A fit by two exact engines that share no kernel: log Z, means and widths must agree."""
    begun = time.perf_counter()
    field = bf.grid(3, 3)
    X = bf.sample(field, np.linspace(-0.3, 0.3, field.n_parameters), 200, rng=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [bf.fit(field, X, engine=engine, correction="none") for engine in (bf.Exact(), bf.Enumeration())]
    apart = max(float(np.abs(getattr(fits[0], n) - getattr(fits[1], n)).max()) for n in ("mean", "sd"))
    seconds = time.perf_counter() - begun
    return {"passed": apart < 1e3 * _AGREE, "apart": apart, "seconds": round(seconds, 2)}


def _lines(found: dict[str, Any]) -> list[str]:
    cache, test = found["cache"], found["self-test"]
    lines = [f"bayesfield {found['bayesfield']}, Python {found['python']}, {found['machine']}"]
    lines.append(", ".join(f"{name} {version or 'MISSING'}" for name, version in found["packages"].items()))
    for extra, names in found["extras"].items():
        absent = [name for name, version in names.items() if version is None]
        there = ", ".join(f"{name} {version}" for name, version in names.items() if version)
        hint = f"not installed: {', '.join(absent)} (pip install bayesfield[{extra}])" if absent else ""
        lines.append(f"{extra}: {'; '.join(part for part in (there, hint) if part)}")
    lines.append(f"{found['cores']} cores, {found['memory GiB']} GiB may be used")
    state = (
        "can be written to" if cache["writable"] else "CANNOT BE WRITTEN TO: every start compiles; set NUMBA_CACHE_DIR"
    )
    lines.append(f"compiled kernels: {cache['MB']} MB in {cache['folder']}, which {state}")
    lines.append(
        f"self-test: {'passed' if test['passed'] else 'FAILED'} in {test['seconds']} s; two exact engines agree to "
        f"{test['apart']:.1g}"
    )
    return lines


# --- what is compiled -----------------------------------------------------------------------------------------------


def _grid() -> None:
    bf.fit(bf.grid(8, 8), np.random.default_rng(0).choice([-1, 1], (200, 64)), verbose=False)


def _network() -> None:
    rng = np.random.default_rng(0)
    common = rng.random((400, 1))
    found = bf.IsingNetwork(verbose=False).fit((rng.random((400, 10)) < 0.2 + 0.6 * common).astype(int))
    found.posterior_.edges()


def _answers() -> None:
    rng = np.random.default_rng(0)
    bf.OrdinalNetwork(verbose=False).fit(rng.integers(0, 4, (200, 6)))


def _labels() -> None:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(9, 4)) for _ in range(30)]
    found = bf.BayesianCRF(verbose=False).fit(X, [(x[:, 0] > 0).astype(int).tolist() for x in X])
    found.predict_marginals(X)


def _words() -> None:
    rng = np.random.default_rng(0)
    X = [[{"word": str(w), "cap": bool(w % 2)} for w in rng.integers(0, 30, 8)] for _ in range(30)]
    found = bf.BayesianCRF(verbose=False).fit(X, [["B" if t["cap"] else "O" for t in x] for x in X])
    found.predict(X)


def _image() -> None:
    bf.LatticeField(verbose=False).fit(np.random.default_rng(0).choice([-1, 1], (1, 24, 24)))


def _hidden() -> None:
    rng = np.random.default_rng(0)
    bf.HiddenChain(2, verbose=False).fit(np.repeat([0.0, 3.0], 60)[:, None] + rng.normal(size=(120, 1)))


_FIRST: dict[str, Callable[[], None]] = {
    "a grid": _grid,
    "a network of yes and no": _network,
    "a network of answers": _answers,
    "labels of sequences": _labels,
    "labels of words": _words,
    "an image": _image,
    "hidden labels": _hidden,
}
