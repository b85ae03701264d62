"""The one decorator of every kernel, so that all share the same Numba options; and an instruction that Numba lacks."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic

P = ParamSpec("P")
T = TypeVar("T")

# Reassociation lets reductions use vector registers. The flags that assume away infinities and NaN are left out:
# a log-potential of minus infinity is a valid table entry.
_FASTMATH = {"reassoc", "contract", "arcp", "nsz"}


def jit(function: Callable[P, T]) -> Callable[P, T]:
    """Compile ``function`` at its first call and keep the machine code on disk."""
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FASTMATH)(function)
    return cast(Callable[P, T], compiled)


@intrinsic
def _popcount(typing_context: Any, word: Any) -> Any:
    def made(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), made


# How many bits of a word are set, for kernels only: one instruction, and LLVM makes vectors of it.
popcount = cast(Callable[[np.uint64], int], _popcount)
