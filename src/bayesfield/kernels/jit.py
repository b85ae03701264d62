"""The one decorator of every kernel, so that all share the same Numba options; and an instruction that Numba lacks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba.core import event, types
from numba.extending import intrinsic

from bayesfield.kernels.kept import keep_on_disk

P = ParamSpec("P")
T = TypeVar("T")

# Reassociation lets reductions use vector registers. The flags that assume away infinities and NaN are left out:
# a log-potential of minus infinity is a valid table entry.
_FASTMATH = {"reassoc", "contract", "arcp", "nsz"}


def jit(function: Callable[P, T]) -> Callable[P, T]:
    """Compile ``function`` at its first call and keep the machine code on disk."""
    compiled = numba.njit(nogil=True, error_model="numpy", fastmath=_FASTMATH)(function)
    if hasattr(compiled, "_cache"):  # not where NUMBA_DISABLE_JIT leaves the function as it is
        keep_on_disk(compiled, _sources())
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


@intrinsic
def _popcount(typing_context: Any, word: Any) -> Any:
    def made(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), made


# How many bits of a word are set, for kernels only: one instruction, and LLVM makes vectors of it.
popcount = cast(Callable[[np.uint64], int], _popcount)
