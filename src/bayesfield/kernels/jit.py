"""The one decorator of every kernel, so that all share the same Numba options; and an instruction that Numba lacks.

Machine code is kept on disk, and a cache that is broken, full or nowhere to be written costs time, never an answer.
Numba's own lets errors of the disk and of unpickling through to the caller, and runs machine code whatever has become
of its file. Here every file begins with a digest of the rest: what does not fit is deleted and compiled anew.
"""

import hashlib
import os
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba.core import event, types
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.extending import intrinsic

P = ParamSpec("P")
T = TypeVar("T")

# Reassociation lets reductions use vector registers. The flags that assume away infinities and NaN are left out:
# a log-potential of minus infinity is a valid table entry.
_FASTMATH = {"reassoc", "contract", "arcp", "nsz"}

_SAID_FROM = 1.0  # seconds of compilation
_DIGEST = hashlib.sha256().digest_size
_said: set[str] = set()  # kinds of trouble that this process has warned of


class CacheWarning(UserWarning):
    """Compiled code could not be kept on disk, or what was kept is broken: this costs time, and no answer."""


def jit(function: Callable[P, T]) -> Callable[P, T]:
    """Compile ``function`` at its first call and keep the machine code on disk."""
    compiled = numba.njit(nogil=True, error_model="numpy", fastmath=_FASTMATH)(function)
    if hasattr(compiled, "_cache"):  # not where NUMBA_DISABLE_JIT leaves the function as it is
        _keep_on_disk(compiled, _sources())
    return cast(Callable[P, T], compiled)


@cache
def _sources() -> tuple[tuple[str, float, int], ...]:
    """Names, times and sizes of the files that kernels are made of: kept code is for them as they are. Numba looks at
    the function's own file only, and code that was compiled for another layout of a tuple that comes from the next
    file reads beside the arrays."""
    here = Path(__file__).parent
    files = [*sorted(here.rglob("*.py")), here.parent / "types.py"]
    return tuple(
        (str(path.relative_to(here.parent)), path.stat().st_mtime, path.stat().st_size)
        for path in files
        if path.exists()
    )


@contextmanager
def compiling() -> Iterator[list[float]]:
    """A list that has, once this ends, the seconds that Numba compiled meanwhile; empty where it did not."""
    spent: list[float] = []
    with event.install_timer("numba:compile", spent.append):
        yield spent


class _Voice(event.Listener):
    """Says, once and where somebody looks, that the first use takes seconds because kernels are compiled."""

    def __init__(self) -> None:
        self._spent, self._begun, self._deep, self._over = 0.0, 0.0, 0, False

    def on_start(self, event: Any) -> None:
        if not self._deep:
            self._begun = time.perf_counter()
        self._deep += 1

    def on_end(self, event: Any) -> None:
        self._deep -= 1
        if self._over or self._deep:
            return
        self._spent += time.perf_counter() - self._begun
        if self._spent > _SAID_FROM:
            self._over = True
            if "IPython" in sys.modules or (sys.stderr is not None and sys.stderr.isatty()):
                print("bayesfield: compiling for the first use; `bayesfield warmup` does it ahead", file=sys.stderr)


event.register("numba:compile", _Voice())


@intrinsic
def _popcount(typing_context: Any, word: Any) -> Any:
    def made(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), made


# How many bits of a word are set, for kernels only: one instruction, and LLVM makes vectors of it.
popcount = cast(Callable[[np.uint64], int], _popcount)


# --- code on disk --------------------------------------------------------------------------------------------------


def _keep_on_disk(compiled: Any, stamp: Any) -> None:
    """Let a dispatcher keep its code, where there is a place for it. stamp: of the sources that it is made of."""
    try:
        cache = _Kept(compiled.py_func, stamp)
    except (RuntimeError, OSError) as error:  # Numba's word for "no folder can be written to", and the system's
        _warn("nowhere", f"there is no folder to keep it in ({_first_line(error)})")
        compiled._cache = NullCache()
    else:
        compiled._cache = cache


class _File(IndexDataCacheFile):
    """Numba's index and data files, each after its digest. What is not whole is as good as not there."""

    def __init__(self, cache_path: str, filename_base: str, source_stamp: Any) -> None:
        super().__init__(cache_path, filename_base, source_stamp)
        self._index_path = os.path.join(cache_path, f"{filename_base}.bfi")
        self._data_name_pattern = filename_base + ".{number:d}.bfc"

    def _load_index(self) -> dict[Any, str]:
        content = self._whole(self._index_path)
        if content is None:
            return {}
        version, stamp, overloads = content
        return overloads if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return self._whole(self._data_path(name))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)

    def _write(self, path: str, content: Any) -> None:
        data = self._dump(content)
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(data).digest() + data)

    def _whole(self, path: str) -> Any:
        """What ``_write`` wrote; None where it is not there, or not as it was written."""
        try:
            with open(path, "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return None
        if hashlib.sha256(content[_DIGEST:]).digest() == content[:_DIGEST]:
            return pickle.loads(content[_DIGEST:])
        _warn("broken", f"{path} was cut short or changed; it is made anew")
        os.unlink(path)
        return None


class _Kept(FunctionCache):
    """Numba's cache of one function, whose disk may fail."""

    def __init__(self, function: Any, stamp: Any) -> None:
        super().__init__(function)
        locator: Any = self._impl.locator
        self._cache_file = _File(self._cache_path, self._impl.filename_base, (locator.get_source_stamp(), stamp))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except OSError as error:
            _warn("unreadable", f"{self._cache_path} cannot be read: {error.strerror or error}")
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn("unwritable", f"{self._cache_path} cannot be written to: {error.strerror or error}")


def _warn(kind: str, what: str) -> None:
    """Once in a process for each kind of trouble: there are a hundred kernels."""
    if kind not in _said:
        _said.add(kind)
        warnings.warn(
            f"compiled code is not taken from disk: {what}. All results are the same, and the first calls take seconds "
            "longer; NUMBA_CACHE_DIR in the environment names another folder for it",
            CacheWarning,
            stacklevel=2,
        )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
